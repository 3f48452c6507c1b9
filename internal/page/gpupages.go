package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// GPUPageOptions are what all pages of accelerators share.
type GPUPageOptions struct {
	// UserAgent is sent with every request.
	UserAgent string
	// Logger gets a line when a page becomes readable or ceases to be. Default: none.
	Logger *slog.Logger
	// Secrets are what no text of a page may repeat, beside those of the page's own settings.
	Secrets *safetext.Secrets
}

// GPUPageStatus is how the reading of one page of accelerators went. It is immutable.
type GPUPageStatus struct {
	Status
	// Source is the name of the page in the configuration, Software that of the exporter;
	// "" is unknown.
	Source, Software string
	// Devices counts what the page shows.
	Devices int
}

// gpuPages reads the pages of one name of the configuration.
type gpuPages struct {
	name     string
	cfg      *config.MetricsPages
	mappings *Mappings
	logger   *slog.Logger
	endpoint *Endpoint
	secrets  *safetext.Secrets
	stop     context.CancelFunc // nil before it runs
	current  atomic.Pointer[gpu.Snapshot]
	statuses atomic.Pointer[[]GPUPageStatus]
}

func newGPUPages(name string, cfg *config.MetricsPages, mappings *Mappings, o GPUPageOptions) (*gpuPages, error) {
	e, err := New(cfg.Endpoint(name), Options{Mappings: mappings, UserAgent: o.UserAgent, Secrets: o.Secrets})
	if err != nil {
		return nil, fmt.Errorf("page %q of GPUs: %w", name, err)
	}
	r := &gpuPages{
		name: name, cfg: cfg, mappings: mappings, logger: o.Logger.With("page", name), endpoint: e,
		secrets: o.Secrets.With(config.Secrets(cfg)...),
	}
	r.current.Store(&gpu.Snapshot{Source: name, Remote: true, State: gpu.StateStarting})
	r.statuses.Store(new([]GPUPageStatus))
	return r, nil
}

// run reads the pages until ctx ends.
func (r *gpuPages) run(ctx context.Context) {
	defer r.endpoint.Close()
	tick := time.NewTicker(time.Duration(r.cfg.Interval))
	defer tick.Stop()
	for {
		r.poll(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// poll reads all pages once and publishes what they show.
func (r *gpuPages) poll(ctx context.Context) {
	start := time.Now()
	all := r.endpoint.Scrape(ctx, Known{})
	if ctx.Err() != nil {
		return
	}
	before := r.current.Load()
	s := &gpu.Snapshot{Source: r.name, Remote: true, At: before.At, Duration: before.Duration, Failures: before.Failures, State: gpu.StateFailed}
	statuses := make([]GPUPageStatus, len(all))
	var errs []error
	for i := range all {
		st := &statuses[i]
		*st = GPUPageStatus{Status: all[i], Source: r.name}
		if snap := st.Snapshot; snap != nil {
			st.Software, st.Devices = snap.Engine, len(snap.Devices)
			s.Devices = append(s.Devices, snap.Devices...)
			s.Driver = snap.Driver
			s.State, s.At, s.Duration = gpu.StateUp, start, time.Since(start)
		} else if st.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", st.Server, st.Err))
		}
	}
	switch s.Count = len(s.Devices); {
	case s.State == gpu.StateFailed:
		s.Err = errors.Join(errs...)
		s.Failures = counted(before.Failures, s.State)
	case s.Count == 0:
		s.State = gpu.StateNoDevices
		s.Failures = counted(before.Failures, s.State)
	}
	s.Clean(r.secrets)
	r.log(*r.statuses.Load(), statuses)
	for i := range statuses {
		statuses[i].Snapshot = nil // whose texts are those of the page
	}
	r.statuses.Store(&statuses)
	r.current.Store(s)
}

// counted returns the failures with one more of a state.
func counted(before map[gpu.State]uint64, state gpu.State) map[gpu.State]uint64 {
	all := map[gpu.State]uint64{state: 1}
	for s, n := range before {
		all[s] += n
	}
	return all
}

// log says which pages became readable, with the kinds of readings that they have and those
// that other pages of this software have, and which ceased to be.
func (r *gpuPages) log(before, now []GPUPageStatus) {
	for i := range now {
		st := &now[i]
		j := slices.IndexFunc(before, func(b GPUPageStatus) bool { return b.URL == st.URL })
		switch {
		case j >= 0 && before[j].State == st.State && before[j].Reason == st.Reason && before[j].Devices == st.Devices:
		case st.State == Up:
			reads, missing := r.mappings.byName[st.Software].mapping().accelerators.kinds(st.Snapshot.Devices)
			r.logger.Info("reading GPUs from a page", "server", st.Server, "software", st.Software, "gpus", st.Devices, "reads", reads, "not_on_page", missing)
		default:
			r.logger.Warn("cannot read GPUs from a page", "server", st.Server, "reason", st.Reason, "err", st.Err)
		}
	}
}

// GPUPages reads all pages of accelerators of a configuration.
type GPUPages struct {
	options  GPUPageOptions
	mappings *Mappings

	mu     sync.Mutex
	ctx    context.Context // of Run; nil before
	byName map[string]*gpuPages
	ended  sync.WaitGroup
}

// NewGPUPages returns readers of no pages. An error is one of the built-in mappings.
func NewGPUPages(o GPUPageOptions) (*GPUPages, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	mappings, err := newAcceleratorMappings()
	if err != nil {
		return nil, err
	}
	return &GPUPages{options: o, mappings: mappings, byName: map[string]*gpuPages{}}, nil
}

// Set makes these the pages that are read. Those that are as before go on. After an error
// all are as before.
func (rs *GPUPages) Set(pages map[string]*config.MetricsPages) error {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	next := map[string]*gpuPages{}
	var errs []error
	for name, cfg := range pages {
		if old := rs.byName[name]; old != nil && reflect.DeepEqual(old.cfg, cfg) {
			next[name] = old
			continue
		}
		r, err := newGPUPages(name, cfg, rs.mappings, rs.options)
		errs = append(errs, err)
		next[name] = r
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for name, old := range rs.byName {
		if next[name] != old && old.stop != nil {
			old.stop()
		}
	}
	rs.byName = next
	for _, r := range rs.byName {
		rs.start(r)
	}
	return nil
}

// start lets a reader read, unless it does or Run has not begun.
func (rs *GPUPages) start(r *gpuPages) {
	if rs.ctx == nil || r.stop != nil {
		return
	}
	ctx, stop := context.WithCancel(rs.ctx)
	r.stop = stop
	rs.ended.Go(func() { r.run(ctx) })
}

// Run reads the pages until ctx ends.
func (rs *GPUPages) Run(ctx context.Context) error {
	rs.mu.Lock()
	rs.ctx = ctx
	for _, r := range rs.byName {
		rs.start(r)
	}
	rs.mu.Unlock()
	<-ctx.Done()
	rs.mu.Lock()
	rs.ctx = nil // so that Set starts no more
	rs.mu.Unlock()
	rs.ended.Wait()
	return nil
}

// Snapshots returns the latest readings, by name.
func (rs *GPUPages) Snapshots() gpu.Snapshots {
	var all gpu.Snapshots
	for _, r := range rs.sorted() {
		all = append(all, r.current.Load())
	}
	return all
}

// Statuses returns how the latest readings went, by name and server.
func (rs *GPUPages) Statuses() []GPUPageStatus {
	var all []GPUPageStatus
	for _, r := range rs.sorted() {
		all = append(all, *r.statuses.Load()...)
	}
	return all
}

func (rs *GPUPages) sorted() []*gpuPages {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	var all []*gpuPages
	for _, name := range slices.Sorted(maps.Keys(rs.byName)) {
		all = append(all, rs.byName[name])
	}
	return all
}

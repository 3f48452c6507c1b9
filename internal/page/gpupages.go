package page

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
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

// gpuPages is what the pages of one name of the configuration show.
type gpuPages struct {
	name     string
	mappings *Mappings
	logger   *slog.Logger
	secrets  *safetext.Secrets
	current  atomic.Pointer[gpu.Snapshot]
	statuses atomic.Pointer[[]GPUPageStatus]
}

// set takes in a reading of all pages.
func (r *gpuPages) set(all []Status) {
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
			s.State, s.At, s.Duration = gpu.StateUp, all[0].At, time.Since(all[0].At)
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
			reads, missing := r.mappings.Exporter(st.Software).kinds(st.Snapshot.Devices)
			r.logger.Info("reading GPUs from a page", "server", st.Server, "software", st.Software, "gpus", st.Devices, "reads", reads, "not_on_page", missing)
		default:
			r.logger.Warn("cannot read GPUs from a page", "server", st.Server, "reason", st.Reason, "err", st.Err)
		}
	}
}

// GPUPages is what all pages of accelerators of a configuration show. It is safe for
// concurrent use.
type GPUPages struct {
	// Mappings say how to read the pages.
	Mappings *Mappings
	options  GPUPageOptions

	mu     sync.Mutex
	byName map[string]*gpuPages
}

// NewGPUPages returns what no pages show. An error is one of the built-in mappings.
func NewGPUPages(o GPUPageOptions) (*GPUPages, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	mappings, err := NewMappings(Accelerators, nil)
	if err != nil {
		return nil, err
	}
	return &GPUPages{Mappings: mappings, options: o, byName: map[string]*gpuPages{}}, nil
}

// Open adds the pages of a name, which were not read yet.
func (rs *GPUPages) Open(name string, cfg *config.MetricsPages) {
	r := &gpuPages{
		name: name, mappings: rs.Mappings, logger: rs.options.Logger.With("page", name),
		secrets: rs.options.Secrets.With(config.Secrets(cfg)...),
	}
	r.current.Store(&gpu.Snapshot{Source: name, Remote: true, State: gpu.StateStarting})
	r.statuses.Store(new([]GPUPageStatus))
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.byName[name] = r
}

// Set takes in a reading of all pages of a name that is open, one at a time.
func (rs *GPUPages) Set(name string, all []Status) {
	rs.mu.Lock()
	r := rs.byName[name]
	rs.mu.Unlock()
	r.set(all)
}

// Remove removes the pages of a name.
func (rs *GPUPages) Remove(name string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.byName, name)
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

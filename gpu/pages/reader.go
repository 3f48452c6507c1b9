package pages

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// Options are what all pages share.
type Options struct {
	// UserAgent is sent with every request.
	UserAgent string
	// Logger gets a line when a page becomes readable or ceases to be. Default: none.
	Logger *slog.Logger
	// Secrets are what no text of a page may repeat, beside those of the page's own settings.
	Secrets *safetext.Secrets
}

// Status is how the reading of one page went. It is immutable.
type Status struct {
	page.Status
	// Source is the name of the page in the configuration, Software that of the exporter;
	// "" is unknown.
	Source, Software string
	// Devices counts what the page shows.
	Devices int
}

// reader reads the pages of one name of the configuration.
type reader struct {
	name     string
	cfg      *config.MetricsPages
	mappings []*mapping
	logger   *slog.Logger
	endpoint *page.Endpoint
	secrets  *safetext.Secrets
	current  atomic.Pointer[gpu.Snapshot]
	statuses atomic.Pointer[[]Status]

	mu    sync.Mutex
	taken map[string]*shownPage  // by URL, of the reading that goes on
	names map[string]*page.Names // of devices, by URL
	xids  map[string]*xidWatch   // by URL
}

func newReader(name string, cfg *config.MetricsPages, mappings []*mapping, o Options) (*reader, error) {
	r := &reader{name: name, cfg: cfg, mappings: mappings, logger: o.Logger.With("page", name), names: map[string]*page.Names{}, xids: map[string]*xidWatch{}}
	r.secrets = o.Secrets.With(config.Secrets(cfg)...)
	e, err := page.New(cfg.Endpoint(name), page.Options{Mappings: page.NoMappings(), UserAgent: o.UserAgent, Secrets: o.Secrets, Take: r.take})
	if err != nil {
		return nil, fmt.Errorf("page %q of GPUs: %w", name, err)
	}
	r.endpoint = e
	r.current.Store(&gpu.Snapshot{Source: name, Remote: true, State: gpu.StateStarting})
	r.statuses.Store(new([]Status))
	return r, nil
}

// take reads a page that was fetched.
func (r *reader) take(from *url.URL, text []byte, contentType string) error {
	p, err := read(r.mappings, r.cfg.Software, from, text, contentType)
	if err != nil {
		return err
	}
	url := from.String()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.names[url] == nil {
		r.names[url] = &page.Names{}
	}
	if !r.names[url].Admit(maps.Keys(p.byID), maxNames, time.Now()) {
		return &page.PageError{Reason: page.ReasonTooLarge, Err: fmt.Errorf("more than %d devices within an hour", maxNames)}
	}
	r.taken[url] = p
	return nil
}

// run reads the pages until ctx ends.
func (r *reader) run(ctx context.Context) {
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
func (r *reader) poll(ctx context.Context) {
	start := time.Now()
	r.mu.Lock()
	r.taken = map[string]*shownPage{}
	r.mu.Unlock()
	all := r.endpoint.Scrape(ctx, page.Known{})
	if ctx.Err() != nil {
		return
	}
	r.publish(start, all)
}

// publish makes a snapshot of the pages that were read.
func (r *reader) publish(start time.Time, all []page.Status) {
	before := r.current.Load()
	s := &gpu.Snapshot{Source: r.name, Remote: true, At: before.At, Duration: before.Duration, Failures: before.Failures, State: gpu.StateFailed}
	var statuses []Status
	var errs []error
	found := make([][]gpu.DeviceSnapshot, len(all)) // as statuses
	for i := range all {
		st := Status{Status: all[i], Source: r.name}
		if p := r.taken[st.URL]; p != nil && st.State == page.Up {
			if r.xids[st.URL] == nil {
				r.xids[st.URL] = &xidWatch{}
			}
			st.Software, st.Devices = p.mapping.name, len(p.devices)
			found[i] = p.snapshots(r.xids[st.URL], time.Now())
			s.Devices = append(s.Devices, found[i]...)
			s.Driver = p.driver()
			s.State, s.At, s.Duration = gpu.StateUp, start, time.Since(start)
		} else if st.Err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", st.Server, st.Err))
		}
		statuses = append(statuses, st)
	}
	switch s.Count = len(s.Devices); {
	case s.State == gpu.StateFailed:
		s.Err = errors.Join(errs...)
		s.Failures = counted(before.Failures, s.State)
	case s.Count == 0:
		s.State = gpu.StateNoDevices
		s.Failures = counted(before.Failures, s.State)
	}
	isGone := func(url string) bool {
		return !slices.ContainsFunc(statuses, func(st Status) bool { return st.URL == url })
	}
	maps.DeleteFunc(r.names, func(url string, _ *page.Names) bool { return isGone(url) })
	maps.DeleteFunc(r.xids, func(url string, _ *xidWatch) bool { return isGone(url) })
	s.Clean(r.secrets)
	statusesBefore := *r.statuses.Load()
	r.statuses.Store(&statuses)
	r.current.Store(s)
	r.log(statusesBefore, statuses, found)
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
func (r *reader) log(before, now []Status, found [][]gpu.DeviceSnapshot) {
	for i := range now {
		st := &now[i]
		j := slices.IndexFunc(before, func(b Status) bool { return b.URL == st.URL })
		switch {
		case j >= 0 && before[j].State == st.State && before[j].Reason == st.Reason && before[j].Devices == st.Devices:
		case st.State == page.Up:
			reads, missing := r.taken[st.URL].mapping.kinds(found[i])
			r.logger.Info("reading GPUs from a page", "server", st.Server, "software", st.Software, "gpus", st.Devices, "reads", reads, "not_on_page", missing)
		default:
			r.logger.Warn("cannot read GPUs from a page", "server", st.Server, "reason", st.Reason, "err", st.Err)
		}
	}
}

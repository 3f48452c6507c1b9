package pages

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
)

// Readers read all pages of a configuration.
type Readers struct {
	options  Options
	mappings []*mapping

	mu     sync.Mutex
	ctx    context.Context // of Run; nil before
	byName map[string]*running
	ended  sync.WaitGroup
}

// running is a reader and how to end it; stop is nil before Run.
type running struct {
	*reader
	stop context.CancelFunc
}

// New returns readers of no pages. An error is one of the built-in mappings.
func New(o Options) (*Readers, error) {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	mappings, err := newMappings()
	if err != nil {
		return nil, err
	}
	return &Readers{options: o, mappings: mappings, byName: map[string]*running{}}, nil
}

// Set makes these the pages that are read. Those that are as before go on. After an error
// all are as before.
func (rs *Readers) Set(pages map[string]*config.MetricsPages) error {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	next := map[string]*running{}
	var errs []error
	for name, cfg := range pages {
		if old := rs.byName[name]; old != nil && reflect.DeepEqual(old.cfg, cfg) {
			next[name] = old
			continue
		}
		r, err := newReader(name, cfg, rs.mappings, rs.options)
		errs = append(errs, err)
		next[name] = &running{reader: r}
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
func (rs *Readers) start(r *running) {
	if rs.ctx == nil || r.stop != nil {
		return
	}
	ctx, stop := context.WithCancel(rs.ctx)
	r.stop = stop
	rs.ended.Go(func() { r.run(ctx) })
}

// Run reads the pages until ctx ends.
func (rs *Readers) Run(ctx context.Context) error {
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
func (rs *Readers) Snapshots() gpu.Snapshots {
	var all gpu.Snapshots
	for _, r := range rs.sorted() {
		all = append(all, r.current.Load())
	}
	return all
}

// Statuses returns how the latest readings went, by name and server.
func (rs *Readers) Statuses() []Status {
	var all []Status
	for _, r := range rs.sorted() {
		all = append(all, *r.statuses.Load()...)
	}
	return all
}

func (rs *Readers) sorted() []*running {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	var all []*running
	for _, name := range slices.Sorted(maps.Keys(rs.byName)) {
		all = append(all, rs.byName[name])
	}
	return all
}

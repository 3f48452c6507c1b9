package page

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// GPUPageStatus is how the reading of one page of accelerators went. It is immutable.
type GPUPageStatus struct {
	Status
	// Source is the name of the page in the configuration, Software that of the exporter; "" is unknown.
	Source, Software string
	// Devices counts what the page shows.
	Devices int
}

// gpuPages is what the pages of one name of the configuration show.
type gpuPages struct {
	mappings *Mappings
	logger   *slog.Logger
	secrets  *safetext.Secrets
	current  *gpu.Snapshot
	statuses []GPUPageStatus
}

// next returns what follows from a reading of all pages.
func (r *gpuPages) next(all []Status) (*gpu.Snapshot, []GPUPageStatus) {
	before := r.current
	s := &gpu.Snapshot{
		Source: before.Source, Remote: true, At: before.At, Duration: before.Duration, Failures: before.Failures, State: gpu.StateFailed,
	}
	statuses := make([]GPUPageStatus, len(all))
	var errs []error
	for i := range all {
		st := &statuses[i]
		*st = GPUPageStatus{Status: all[i], Source: s.Source}
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
		s.Failures = before.FailuresWith(s.State)
	case s.Count == 0:
		s.State = gpu.StateNoDevices
		s.Failures = before.FailuresWith(s.State)
	}
	s.Clean(r.secrets)
	r.log(r.statuses, statuses)
	for i := range statuses {
		statuses[i].Snapshot = nil // whose texts are those of the page
	}
	return s, statuses
}

// log says which pages became readable, with the kinds of readings that they have and those that other pages of this
// software have, and which ceased to be.
func (r *gpuPages) log(before, now []GPUPageStatus) {
	for i := range now {
		st := &now[i]
		j := slices.IndexFunc(before, func(b GPUPageStatus) bool { return b.URL == st.URL })
		switch {
		case j >= 0 && before[j].State == st.State && before[j].Reason == st.Reason && before[j].Devices == st.Devices:
		case st.State == Up:
			reads, missing := r.mappings.Exporter(st.Software).kinds(st.Snapshot.Devices)
			r.logger.Info("reading GPUs from a page", "server", st.Server, "software", st.Software, "gpus", st.Devices,
				"reads", reads, "not_on_page", missing)
		default:
			r.logger.Warn("cannot read GPUs from a page", "server", st.Server, "reason", st.Reason, "err", st.Err)
		}
	}
}

// GPUPages is what all pages of accelerators of a configuration show. It is safe for concurrent use.
type GPUPages struct {
	// Mappings say how to read the pages.
	Mappings *Mappings
	logger   *slog.Logger
	secrets  *safetext.Secrets

	mu     sync.Mutex
	byName map[string]*gpuPages
}

// NewGPUPages returns what no pages show. The logger, nil for none, gets a line when a page becomes readable or ceases
// to be; no text of a page may repeat the secrets, or those of its own settings.
func NewGPUPages(logger *slog.Logger, secrets *safetext.Secrets) *GPUPages {
	logger = cmp.Or(logger, slog.New(slog.DiscardHandler))
	return &GPUPages{Mappings: NewMappings(Accelerators, nil), logger: logger, secrets: secrets, byName: map[string]*gpuPages{}}
}

// Open adds the pages of a name, which were not read yet.
func (rs *GPUPages) Open(name string, cfg *config.MetricsPages) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.byName[name] = &gpuPages{
		mappings: rs.Mappings, logger: rs.logger.With("page", name), secrets: rs.secrets.With(config.Secrets(cfg)...),
		current: &gpu.Snapshot{Source: name, Remote: true, State: gpu.StateStarting},
	}
}

// Set takes in a reading of all pages of a name that is open, one at a time.
func (rs *GPUPages) Set(name string, all []Status) {
	rs.mu.Lock()
	r := rs.byName[name]
	rs.mu.Unlock()
	current, statuses := r.next(all) // which takes its time: nobody waits for it
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r.current, r.statuses = current, statuses
}

// Remove removes the pages of a name.
func (rs *GPUPages) Remove(name string) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.byName, name)
}

// Snapshots returns the latest readings, by name.
func (rs *GPUPages) Snapshots() (all gpu.Snapshots) {
	rs.each(func(r *gpuPages) { all = append(all, r.current) })
	return all
}

// Statuses returns how the latest readings went, by name and server.
func (rs *GPUPages) Statuses() (all []GPUPageStatus) {
	rs.each(func(r *gpuPages) { all = append(all, r.statuses...) })
	return all
}

func (rs *GPUPages) each(f func(*gpuPages)) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(rs.byName)) {
		f(rs.byName[name])
	}
}

package status

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
)

const (
	// restoredFor is how long a series that was restored waits for being opened.
	restoredFor = time.Hour
	// maxRestarts is how many restarts are kept.
	maxRestarts = 20
)

// saved is a record of what a Board keeps over a restart: one of its fields. It
// holds names of the configuration, times, and numbers; no URL, no answer and no
// text of a server but the name of a model that changed at a step.
type saved struct {
	// Restarts are the Unix times in seconds of the restarts that are kept.
	Restarts []int64      `json:"restarts,omitempty"`
	Series   *savedSeries `json:"series,omitempty"`
}

// savedSeries is a series. It is of the same target alone: see endpoint.target.
type savedSeries struct {
	Endpoint     string `json:"endpoint"`
	Target       string `json:"target"`
	Module       string `json:"module"`
	Prefix       string `json:"prefix"`
	InputTokens  string `json:"input_tokens,omitempty"`
	OutputTokens string `json:"output_tokens,omitempty"`
	Concurrency  string `json:"concurrency,omitempty"`
	// From is the Unix time in seconds since when the series is kept.
	From int64 `json:"from"`
	series.Saved
	// Steps are those of the series, the latest last.
	Steps []Step `json:"steps,omitempty"`
}

func (s *savedSeries) id() result.SeriesID {
	return result.SeriesID{
		Endpoint: s.Endpoint, Module: s.Module, Prefix: s.Prefix,
		InputTokens: s.InputTokens, OutputTokens: s.OutputTokens, Concurrency: s.Concurrency,
	}
}

// restored is a series that waits for being opened.
type restored struct {
	target string
	from   time.Time
	log    *series.Log
	steps  []Step
}

// Save puts records from which Restore makes the histories again. It returns the
// first error of put, which must not keep a record. It holds no lock while put runs.
func (b *Board) Save(put func(record any) error) error {
	b.mu.Lock()
	endpoints, restarts := b.inOrder(), slices.Clone(b.restarts)
	b.mu.Unlock()

	if err := put(saved{Restarts: restarts}); err != nil {
		return err
	}
	var s savedSeries // one for all, for its columns
	for _, e := range endpoints {
		for i := 0; e.save(i, &s); i++ {
			if err := put(saved{Series: &s}); err != nil {
				return err
			}
		}
	}
	for id, r := range b.restored.All(b.now()) {
		s.set(id, r.target, r.from, r.log)
		s.Steps = r.steps
		if err := put(saved{Series: &s}); err != nil {
			return err
		}
	}
	return nil
}

// save sets s to the i-th series; it returns false where there is none.
func (e *endpoint) save(i int, s *savedSeries) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if i >= len(e.series) {
		return false
	}
	p := e.series[i]
	s.set(p.id, e.identityOfTarget(), p.from, p.log)
	s.Steps = slices.Clone(p.steps)
	return true
}

func (s *savedSeries) set(id result.SeriesID, target string, from time.Time, log *series.Log) {
	s.Endpoint, s.Target, s.Module, s.Prefix = id.Endpoint, target, id.Module, id.Prefix
	s.InputTokens, s.OutputTokens, s.Concurrency = id.InputTokens, id.OutputTokens, id.Concurrency
	s.From = from.Unix()
	log.Save(&s.Saved)
}

// errNotSaved is of a record that Save does not put.
var errNotSaved = errors.New("not a record of the status page")

// Restore takes a record of an earlier process. A series gets its history as it is
// opened with the same target; until then it is saved again. What the clock says
// is still to come is left out.
func (b *Board) Restore(record []byte) error {
	var r saved
	if err := json.Unmarshal(record, &r); err != nil {
		return err
	}
	if r.Series == nil {
		b.restoreRestarts(r.Restarts)
		return nil
	}
	if r.Series.Endpoint == "" {
		return errNotSaved
	}
	now := b.now()
	log, err := r.Series.Restore(now)
	if err != nil {
		return err
	}
	from := time.Unix(min(r.Series.From, now.Unix()), 0)
	if !b.restored.Put(r.Series.id(), restored{r.Series.Target, from, log, validSteps(r.Series.Steps, now)}, now) {
		return errNotSaved
	}
	return nil
}

// Restarted marks a restart of the exporter: the probes before it are of an earlier
// process, and there were none while no process ran.
func (b *Board) Restarted() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.restarts = append(b.restarts, b.now().Unix())
	b.restarts = b.restarts[max(0, len(b.restarts)-maxRestarts):]
}

// restartsKept returns the restarts that are kept, the latest last.
func (b *Board) restartsKept() []int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.restarts)
}

func (b *Board) restoreRestarts(at []int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now().Unix()
	for _, t := range at[max(0, len(at)-maxRestarts):] {
		if t > 0 && t <= now {
			b.restarts = append(b.restarts, t)
		}
	}
}

// maxBesideText bounds the text of what changed beside a restored step.
const maxBesideText = 1024

// validSteps returns the steps that may be of the past, at most maxSteps.
func validSteps(all []Step, now time.Time) []Step {
	all = slices.DeleteFunc(all, func(s Step) bool {
		tooLong := func(text string) bool { return len(text) > maxBesideText }
		return !slices.Contains(series.Metrics(), s.Metric) || s.At > unixSeconds(now) || len(s.Beside) > maxBeside || slices.ContainsFunc(s.Beside, tooLong)
	})
	return all[max(0, len(all)-maxSteps):]
}

// restore sets what an earlier process kept of the same target.
func (p *Probes) restore(r restored) {
	if r.target == p.endpoint.identityOfTarget() {
		p.from, p.log, p.steps = r.from, r.log, slices.Clone(r.steps)
		for _, step := range p.steps {
			p.endpoint.addNote(timeOf(step.At), p.id.Module, step.text())
		}
	}
}

// identityOfTarget identifies what the endpoint's probes ask, as internal/fleet does
// where it decides whether the history is kept over a reload; a hash, since a URL may hold more
// than a name. e.mu is held.
func (e *endpoint) identityOfTarget() string {
	sum := sha256.Sum256([]byte(e.url + "\x00" + e.cfg.API + "\x00" + e.cfg.Model))
	return hex.EncodeToString(sum[:8])
}

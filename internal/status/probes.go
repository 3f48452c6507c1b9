package status

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// rowOutcomes is how many outcomes a row shows.
const rowOutcomes = 30

// Probes is one series: the probes of one result.SeriesID. It is safe for concurrent use.
type Probes struct {
	// ID never changes, and Health is the same series for the state of the endpoint.
	ID       result.SeriesID
	Health   *health.Series
	endpoint *Endpoint // whose lock guards the rest
	options  health.SeriesOptions
	paced    time.Time // since when the interval is what it is
	closed   bool
	*Past

	failure  *Failure // the latest; nil is none
	fluidity *float64 // of the latest probe; nil is not known
	kind     api.Kind // "" until a probe shows it
}

// OpenSeries returns the series of id with these options, a new one where there is none, which goes on with past; nil
// is nothing. The page shows the series in the order of these calls.
func (e *Endpoint) OpenSeries(id result.SeriesID, o health.SeriesOptions, past *Past) *Probes {
	now := e.board.now()
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.find(id)
	if p == nil {
		p = &Probes{endpoint: e, ID: id, Past: past}
		if past == nil {
			p.Past = &Past{from: now, Log: new(series.Log)}
		}
		for _, step := range p.steps {
			e.addNote(step.Time(), id.Module, textOf(&step))
		}
		p.Log.UsePool(&e.board.pool)
		e.board.pool.Add(1)
	} else {
		e.drop(p)
	}
	e.series = append(e.series, p)
	if p.options.Interval != o.Interval {
		p.paced = now.Truncate(100 * time.Millisecond)
	}
	p.options = o
	if of := e.health.OpenSeries(id, o); p.Health == nil { // the same one, of a series that is open
		p.Health = of
	}
	if p.kind == "" {
		configured, _ := api.Lookup(e.cfg.API)
		p.kind = configured.Kind
	}
	e.notice()
	e.touch()
	return p
}

// Close takes the series off the page and out of the state. What is observed into it later is lost.
func (p *Probes) Close() {
	e := p.endpoint
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	p.Health.Close()
	e.drop(p)
	e.board.pool.Add(-1)
	if !slices.ContainsFunc(e.series, func(other *Probes) bool { return other.ID.Module == p.ID.Module }) {
		e.dropFindings(p.ID.Module)
	}
	e.notice()
	e.touch()
}

// Series returns those that are open.
func (e *Endpoint) Series() []*Probes {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.series)
}

func (e *Endpoint) drop(p *Probes) {
	e.series = slices.DeleteFunc(e.series, func(other *Probes) bool { return other == p })
}

func (e *Endpoint) find(id result.SeriesID) *Probes {
	i := slices.IndexFunc(e.series, func(p *Probes) bool { return p.ID == id })
	if i < 0 {
		return nil
	}
	return e.series[i]
}

// Observe takes a result, which must not be changed afterwards: into the log, the state, and
// the page, which shows both. A canceled one says nothing of the endpoint. Latencies that do
// not count are left out of the row; the probe itself is shown as it was.
func (p *Probes) Observe(o *series.Observation) {
	p.Log.Add(o)
	p.Health.Observe(o)
	r := o.Result
	if r.Outcome == result.Canceled {
		return
	}
	e := p.endpoint
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.closed {
		return
	}
	p.kind = cmp.Or(r.Kind, p.kind)
	if o.IsSample() {
		p.fluidity = o.Judgement.Fluidity()
	}
	e.events.observe(r, e.found)
	e.identify(r)
	if last, ok := p.Log.Last(); ok && r.Outcome != result.Success {
		p.failure = &Failure{
			At: stats.UnixSeconds(last.Start()), Module: p.ID.Module, Outcome: last.Outcome(), Message: last.Message(), Advice: last.Advice(),
		}
		if p.Health.Counts() {
			e.failure = p.failure
		}
	}
	e.notice()
	e.touch()
}

// window returns the statistics of the last hour, of probes that are judged and wait for a token; nil without any.
func (p *Probes) window(now time.Time) *Window {
	if p.options.Objectives == nil || p.kind != api.Generation {
		return nil
	}
	w := p.Log.Window(now)
	if w.Samples == 0 {
		return nil
	}
	of := func(i int) *float64 { return stats.Finite(w.Seconds[i]) }
	return &Window{w.Samples, of(series.P50), of(series.P99), of(series.P99Lower), of(series.P99Upper)}
}

// fill sets what a row shows of its first series.
func (p *Probes) fill(row *Row) {
	e := p.endpoint
	row.Module, row.SLO, row.Window = p.ID.Module, p.options.Objectives, p.window(e.board.now())
	var room [rowOutcomes + 1]series.Point
	points := p.Log.PointsIn(room[:], len(room))
	row.Runs = p.runsOf(points)
	row.Outcomes = stats.Map(points[max(0, len(points)-rowOutcomes):], func(p series.Point) result.Outcome { return p.Outcome })
	kept := p.Log.Kept()
	for i, k := range slices.Backward(kept) {
		switch {
		case k.Outcome() != result.Success:
			return
		case k.Timed() && i == len(kept)-1:
			row.Times = timesOf(k)
			return
		case k.Timed():
			row.Earlier = &EarlierTimes{At: stats.UnixSeconds(k.Start()), Times: timesOf(k)}
			return
		}
	}
}

func timesOf(k series.Kept) Times {
	t := k.Timing()
	return Times{result.Seconds(t.TTFT), result.Seconds(t.TPOT), result.Seconds(t.Duration)}
}

// What a run came to, as Series.Runs writes it.
const (
	runGood   = '.'
	runLate   = 'o' // a success over an objective
	runFailed = 'x'
	runMissed = '-'
)

// runsOf returns the latest runs in the order of the results, those among them that did not start included: so many as
// intervals have passed without a result. Of the latest result, points are what led to it.
func (p *Probes) runsOf(points []series.Point) string {
	var latest []byte // the latest first
	for i := len(points) - 1; i >= 0 && len(latest) < rowOutcomes; i-- {
		latest = append(latest, runOf(&points[i]))
		for n := p.missedBefore(points, i); n > 0 && len(latest) < rowOutcomes; n-- {
			latest = append(latest, runMissed)
		}
	}
	slices.Reverse(latest)
	return string(latest)
}

func runOf(p *series.Point) byte {
	switch {
	case p.Outcome != result.Success:
		return runFailed
	case p.Late:
		return runLate
	}
	return runGood
}

// missedBefore returns how many runs did not start between a result and the one
// before it. Results from before the interval was changed have no such runs.
func (p *Probes) missedBefore(points []series.Point, i int) int {
	interval := p.options.Interval.Seconds()
	if i == 0 || interval <= 0 || points[i-1].At.Before(p.paced) {
		return 0
	}
	return max(0, int(math.Round(points[i].At.Sub(points[i-1].At).Seconds()/interval))-1)
}

// historyOf returns probes, kept since a time, as the page shows them.
func historyOf(points []series.Point, from time.Time) *History {
	n := len(points)
	h := &History{
		From: stats.UnixSeconds(from),
		At:   make([]float64, n), TTFT: make([]*float64, n), TPOT: make([]*float64, n),
		Outcome: make([]result.Outcome, n),
	}
	for i, p := range points {
		h.At[i], h.Outcome[i] = stats.UnixSeconds(p.At), p.Outcome
		h.TTFT[i], h.TPOT[i] = result.Seconds(p.TTFT), result.Seconds(p.TPOT)
	}
	return h
}

// maxRestarts is how many restarts are kept.
const maxRestarts = 20

// SavedSeries is what is kept of a series over a restart. It holds names of the configuration, times, and numbers; no
// URL, no answer and no text of a server but the name of a model that changed at a step.
type SavedSeries struct {
	// From is the Unix time in seconds since when the series is kept.
	From int64 `json:"from"`
	series.Saved
	// Steps are those of the series, the latest last.
	Steps []explain.Step `json:"steps,omitempty"`
}

// Past is what is known of the probes of a series until now.
type Past struct {
	Log   *series.Log
	from  time.Time      // since when it is kept: opened, or earlier by another process
	steps []explain.Step // the latest last
}

// Restore returns the past that was saved, without what the clock says is still to come.
func (s *SavedSeries) Restore(now time.Time) (*Past, error) {
	log, err := s.Saved.Restore(now)
	if err != nil {
		return nil, err
	}
	return &Past{log, time.Unix(min(s.From, now.Unix()), 0), validSteps(s.Steps, now)}, nil
}

// Save sets s, whose columns are used again.
func (p *Past) Save(s *SavedSeries) {
	s.From, s.Steps = p.from.Unix(), slices.Clone(p.steps)
	p.Log.Save(&s.Saved)
}

// Save is that of the past of the series.
func (p *Probes) Save(s *SavedSeries) {
	p.endpoint.mu.Lock()
	defer p.endpoint.mu.Unlock()
	p.Past.Save(s)
}

// Restarted marks a restart of the exporter: the probes before it are of an earlier
// process, and there were none while no process ran.
func (b *Board) Restarted() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.restarts = stats.AppendLatest(b.restarts, b.now().Unix(), maxRestarts)
}

// Restarts returns the restarts that are kept as Unix times, the latest last.
func (b *Board) Restarts() []int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.restarts)
}

// RestoreRestarts takes the restarts that an earlier process kept.
func (b *Board) RestoreRestarts(at []int64) {
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
func validSteps(all []explain.Step, now time.Time) []explain.Step {
	all = slices.DeleteFunc(all, func(s explain.Step) bool {
		tooLong := func(text string) bool { return len(text) > maxBesideText }
		return !slices.Contains(series.Metrics(), s.Metric) || s.At > stats.UnixSeconds(now) || len(s.Beside) > maxBeside || slices.ContainsFunc(s.Beside, tooLong)
	})
	return all[max(0, len(all)-maxSteps):]
}

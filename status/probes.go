package status

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// rowOutcomes is how many outcomes a row shows.
const rowOutcomes = 30

// Probes is one series: the probes of one result.SeriesID. It is safe for concurrent use.
type Probes struct {
	endpoint *endpoint // whose lock guards the rest
	id       result.SeriesID
	options  SeriesOptions
	patience time.Duration // after which the latest result is old; 0 is never
	opened   time.Time
	from     time.Time // since when it is kept: opened, or earlier by another process
	paced    int64     // since when the interval is what it is, in tenths; see history
	closed   bool

	// What follows from the other series of the endpoint; see relate.
	title  string
	counts bool    // for the state of the endpoint
	before *Probes // the cold half of a pair of which this is the warm one; nil is none

	history   history
	slowness  slowness
	kept      []*keptProbe // the oldest first
	keptBytes int
	failedAt  time.Time // when the latest failure started
	failure   *Failure  // the latest; nil is none
}

// openSeries adds a series or changes its options. A new one goes on where an earlier
// process left it; nil is none.
func (e *endpoint) openSeries(id result.SeriesID, o SeriesOptions, earlier *restored) *Probes {
	now := e.board.now()
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.find(id)
	switch {
	case e.gone:
		return &Probes{endpoint: e, closed: true}
	case p == nil:
		p = &Probes{endpoint: e, id: id, history: history{began: e.board.began}, opened: now, from: now}
		p.restore(earlier)
		e.board.open.Add(1)
	default:
		e.drop(p)
	}
	e.series = append(e.series, p)
	if p.options.Pace.Interval != o.Pace.Interval {
		p.paced = tenths(now)
	}
	if !reflect.DeepEqual(p.options.SLO, o.SLO) {
		p.slowness = 0 // by other objectives
	}
	p.options, p.patience = o, 0
	if o.Pace.Interval > 0 {
		p.patience = time.Duration((3*o.Pace.Interval + o.Pace.Timeout) * float64(time.Second))
	}
	e.relate(now)
	return p
}

// closeSeries takes a series off the board.
func (e *endpoint) closeSeries(id result.SeriesID) {
	now := e.board.now()
	e.mu.Lock()
	defer e.mu.Unlock()
	p := e.find(id)
	if p == nil || e.gone {
		return
	}
	p.closed = true
	e.drop(p)
	e.board.open.Add(-1)
	if !slices.ContainsFunc(e.series, func(other *Probes) bool { return other.id.Module == id.Module }) {
		delete(e.findings, id.Module)
	}
	e.relate(now)
}

func (e *endpoint) drop(p *Probes) {
	i := slices.Index(e.series, p)
	e.series = slices.Delete(e.series, i, i+1)
}

func (e *endpoint) find(id result.SeriesID) *Probes {
	i := slices.IndexFunc(e.series, func(p *Probes) bool { return p.id == id })
	if i < 0 {
		return nil
	}
	return e.series[i]
}

// relate works out what follows from which series there are. Bursts are a load
// of our own making and say nothing of the state, unless there is nothing else:
// then the one of the row does, as larger ones may fail for what they are.
func (e *endpoint) relate(now time.Time) {
	bursts := !slices.ContainsFunc(e.series, func(p *Probes) bool { return p.id.Concurrency == "" })
	first := e.first()
	of := map[string]int{}
	for _, p := range e.series {
		of[p.id.Module]++
		p.counts = p.id.Concurrency == "" || bursts && p == first
	}
	for _, p := range e.series {
		p.before = nil
		if p.id.Prefix == string(config.PrefixWarm) {
			cold := p.id
			cold.Prefix = string(config.PrefixCold)
			p.before = e.find(cold)
		}
		p.title = p.id.Module
		if of[p.id.Module] > 1 {
			p.title = titleOf(&p.id)
		}
	}
	e.notice(now)
	e.touch()
}

// titleOf names a series so that those of a module differ.
func titleOf(id *result.SeriesID) string {
	parts := []string{id.Prefix}
	for _, part := range []struct{ name, value string }{
		{"input_tokens", id.InputTokens}, {"output_tokens", id.OutputTokens}, {"concurrency", id.Concurrency},
	} {
		if part.value != "" {
			parts = append(parts, part.name+"="+part.value)
		}
	}
	return id.Module + " (" + strings.Join(parts, ", ") + ")"
}

// Observe adds a result, which must not be changed afterwards. A canceled one
// says nothing.
func (p *Probes) Observe(r *result.Result) {
	e := p.endpoint
	outcome, known := e.board.outcomes[r.Outcome]
	if !known || r.Outcome == result.Canceled {
		return
	}
	most := allowance(int(e.board.open.Load()))
	k := keep(r, most)
	now := e.board.now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.closed {
		return
	}
	e.notice(now) // it may have been stale until now
	p.history.add(r, outcome)
	p.keep(k, most)
	e.identify(r)
	if r.Outcome == result.Success {
		p.slowness.add(p.options.SLO, r)
	} else {
		p.failedAt, p.failure = r.Start, p.failureOf(k)
		if p.counts {
			e.failure = p.failure
		}
	}
	e.notice(now)
	e.touch()
}

// failureOf returns a failed probe as the page shows it.
func (p *Probes) failureOf(k *keptProbe) *Failure {
	r := &k.result
	message := string(r.Outcome)
	if r.Err != nil {
		message = r.Err.Error()
	}
	return &Failure{
		At: unixSeconds(r.Start), Module: p.id.Module, Outcome: r.Outcome,
		Message: message, Advice: k.advice,
	}
}

// last returns the latest probe; nil without one.
func (p *Probes) last() *keptProbe {
	if len(p.kept) == 0 {
		return nil
	}
	return p.kept[len(p.kept)-1]
}

// window returns the statistics of the last hour; nil is not known.
func (p *Probes) window() *Window {
	if p.options.Window == nil {
		return nil
	}
	return p.options.Window()
}

// fill sets what a row shows of its first series.
func (p *Probes) fill(row *Row) {
	row.Module, row.SLO, row.Window = p.id.Module, p.options.SLO, p.window()
	row.Outcomes, row.Runs = p.history.outcomes(rowOutcomes), p.runs()
	if last := p.last(); last != nil && last.result.Outcome == result.Success {
		t := &last.result.Timing
		row.TTFT, row.TPOT, row.Duration = result.Seconds(t.TTFT), result.Seconds(t.TPOT), result.Seconds(t.Duration)
	}
}

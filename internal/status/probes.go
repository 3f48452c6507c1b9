package status

import (
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// rowOutcomes is how many outcomes a row shows.
const rowOutcomes = 30

// Probes is one series: the probes of one result.SeriesID. It is safe for concurrent use.
type Probes struct {
	endpoint *endpoint // whose lock guards the rest
	id       result.SeriesID
	options  SeriesOptions
	from     time.Time // since when it is kept: opened, or earlier by another process
	paced    int64     // since when the interval is what it is, in tenths; see history
	closed   bool

	keptBytes int32 // of kept, in memory
	history   history
	uptime    uptime
	kept      []*keptProbe // the oldest first
	steps     []Step       // the latest last
	failure   *Failure     // the latest; nil is none
	fluidity  *float64     // of the latest probe; nil is not known
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
		p = &Probes{endpoint: e, id: id, history: history{began: e.board.began}, from: now}
		p.restore(earlier)
		e.board.open.Add(1)
	default:
		e.drop(p)
	}
	e.series = append(e.series, p)
	if p.options.Pace.Interval != o.Pace.Interval {
		p.paced = tenths(now)
	}
	p.options = o
	e.notice()
	e.touch()
	return p
}

// closeSeries takes a series off the board.
func (e *endpoint) closeSeries(id result.SeriesID) {
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
		e.dropFindings(id.Module)
	}
	e.notice()
	e.touch()
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

// counts reports whether the probes count for the state of the endpoint.
func (p *Probes) counts() bool { return p.options.Health.Counts() }

// Observe adds a result, which must not be changed afterwards. A canceled one
// says nothing. Its latencies count only if the prober vouches for them.
func (p *Probes) Observe(r *result.Result) { p.observe(r, !r.Imprecise) }

// ObserveUntimed is Observe for a result whose latencies do not count. They are left out
// of the chart and the row; the probe itself is shown as it was.
func (p *Probes) ObserveUntimed(r *result.Result) { p.observe(r, false) }

func (p *Probes) observe(r *result.Result, timed bool) {
	e := p.endpoint
	outcome, known := e.board.outcomes[r.Outcome]
	if !known || r.Outcome == result.Canceled {
		return
	}
	most := allowance(int(e.board.open.Load()))
	k := keep(r, most)
	k.timed = timed
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.closed {
		return
	}
	p.history.add(r, outcome, timed)
	p.keep(k, most)
	e.events.observe(r, e.found)
	e.identify(r)
	if r.Outcome != result.Success {
		p.failure = p.failureOf(k)
		if p.counts() {
			e.failure = p.failure
		}
	}
	e.notice()
	e.touch()
}

// failureOf returns a failed probe as the page shows it.
func (p *Probes) failureOf(k *keptProbe) *Failure {
	message := string(k.outcome)
	if err := k.failure.err; err != nil {
		message = err.Error()
	}
	return &Failure{
		At: unixSeconds(ofNanoseconds(k.start)), Module: p.id.Module, Outcome: k.outcome,
		Message: message, Advice: k.failure.advice,
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
	for i, k := range slices.Backward(p.kept) {
		switch {
		case k.outcome != result.Success:
			return
		case k.timed && i == len(p.kept)-1:
			row.Times = k.times()
			return
		case k.timed:
			row.Earlier = &EarlierTimes{At: unixSeconds(ofNanoseconds(k.start)), Times: k.times()}
			return
		}
	}
}

// times returns those of a probe as a row shows them.
func (k *keptProbe) times() Times {
	t := &k.timing
	return Times{result.Seconds(t.TTFT), result.Seconds(t.TPOT), result.Seconds(t.Duration)}
}

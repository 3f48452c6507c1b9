package fleet

import (
	"math"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// recentProbe is an explain.Probe of a series in little room: there are several for each
// series. It is never changed.
type recentProbe struct {
	at                       int64 // Unix time in ns
	failure                  *recentFailure
	ttft, tpot, duration     micros
	phases                   [result.NumPhases]micros
	queue, prefill, startLag micros
	status                   uint16
	buffered, imprecise      bool
}

// recentFailure is what a probe has that failed.
type recentFailure struct {
	outcome result.Outcome
	reason  explain.Reason
	text    string
}

// micros is a duration in microseconds, exact up to an hour; absent where it is not known.
type micros uint32

const absent = micros(math.MaxUint32)

func microsOf(d time.Duration) micros {
	if d < 0 {
		return absent
	}
	return micros(min(d.Round(time.Microsecond)/time.Microsecond, time.Duration(absent)-1))
}

func (m micros) duration() time.Duration {
	if m == absent {
		return result.Absent
	}
	return time.Duration(m) * time.Microsecond
}

// newRecentProbe returns what is kept of a result.
func newRecentProbe(r *result.Result) recentProbe {
	p := explain.NewProbe("", r)
	k := recentProbe{
		at: p.At.UnixNano(), ttft: microsOf(p.TTFT), tpot: microsOf(p.TPOT), duration: microsOf(p.Duration),
		queue: microsOf(p.Queue), prefill: microsOf(p.Prefill), startLag: microsOf(p.StartLag),
		status: uint16(p.Status), buffered: p.Buffered, imprecise: p.Imprecise,
	}
	for i, d := range p.Phases {
		k.phases[i] = microsOf(d)
	}
	if p.Failed() {
		k.failure = &recentFailure{p.Outcome, p.Reason, p.Error}
	}
	return k
}

// of returns the probe of a series with this title.
func (k *recentProbe) of(title string) explain.Probe {
	p := explain.Probe{
		At: time.Unix(0, k.at), Module: title, Outcome: result.Success, Status: int(k.status),
		TTFT: k.ttft.duration(), TPOT: k.tpot.duration(), Duration: k.duration.duration(),
		Queue: k.queue.duration(), Prefill: k.prefill.duration(), StartLag: k.startLag.duration(),
		Buffered: k.buffered, Imprecise: k.imprecise,
	}
	for i, d := range k.phases {
		p.Phases[i] = d.duration()
	}
	if f := k.failure; f != nil {
		p.Outcome, p.Reason, p.Error = f.outcome, f.reason, f.text
	}
	return p
}

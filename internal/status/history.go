package status

import (
	"math"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// maxPoints bounds the history of a series: four hours of probes every 30 s.
const maxPoints = 480

// notMeasured is a duration that is not known.
const notMeasured = math.MaxUint32

// history is the latest probes of a series in little room: there is one for each
// series. Once full, it is a ring that begins at next.
type history struct {
	began int64    // when times begin to count
	at    []int32  // tenths of a second, which last for 6 years, also before that
	ttft  []uint32 // microseconds, or notMeasured
	tpot  []uint32
	ended []uint8 // index in result.Outcomes
	next  int
}

// add adds a probe. What was measured before a failure is no latency; nor is what is not
// timed.
func (h *history) add(r *result.Result, outcome uint8, timed bool) {
	since := tenths(r.Start) - h.began
	if since != int64(int32(since)) { // the clock was off by years: what came before has no time
		*h, since = history{began: tenths(r.Start)}, 0
	}
	at := int32(since)
	ttft, tpot := uint32(notMeasured), uint32(notMeasured)
	if timed && r.Outcome == result.Success {
		ttft, tpot = micros(r.Timing.TTFT), micros(r.Timing.TPOT)
	}
	if len(h.at) < maxPoints {
		h.at, h.ttft, h.tpot = append(h.at, at), append(h.ttft, ttft), append(h.tpot, tpot)
		h.ended = append(h.ended, outcome)
		return
	}
	h.at[h.next], h.ttft[h.next], h.tpot[h.next], h.ended[h.next] = at, ttft, tpot, outcome
	h.next = (h.next + 1) % maxPoints
}

// index returns the place of the i-th oldest point.
func (h *history) index(i int) int { return (h.next + i) % len(h.at) }

// outcomes returns the latest n outcomes, or all, the latest last.
func (h *history) outcomes(n int) []result.Outcome {
	known := result.Outcomes()
	n = min(n, len(h.at))
	out := make([]result.Outcome, n)
	for i := range out {
		out[i] = known[h.ended[h.index(len(h.at)-n+i)]]
	}
	return out
}

// columns returns the history, kept since a time, as the page shows it.
func (h *history) columns(from time.Time) *History {
	n := len(h.at)
	known := result.Outcomes()
	out := &History{
		From: unixSeconds(from),
		At:   make([]float64, n), TTFT: make([]*float64, n), TPOT: make([]*float64, n),
		Outcome: make([]result.Outcome, n),
	}
	for i := range n {
		j := h.index(i)
		out.At[i] = float64(h.began+int64(h.at[j])) / 10
		out.TTFT[i], out.TPOT[i] = ofMicros(h.ttft[j]), ofMicros(h.tpot[j])
		out.Outcome[i] = known[h.ended[j]]
	}
	return out
}

// tenths returns t as a Unix time in tenths of a second.
func tenths(t time.Time) int64 { return t.UnixMilli() / 100 }

// micros returns d in microseconds, notMeasured where it is absent or more than
// an hour, which no first token takes.
func micros(d time.Duration) uint32 {
	if d < 0 || d > time.Hour {
		return notMeasured
	}
	return uint32(d.Round(time.Microsecond) / time.Microsecond)
}

// ofMicros returns seconds, nil where they were not measured.
func ofMicros(us uint32) *float64 {
	if us == notMeasured {
		return nil
	}
	return new(float64(us) / 1e6)
}

// unixSeconds returns t as a Unix time in seconds, exact to a millisecond.
func unixSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }

// timeOf returns the time that unixSeconds made s of.
func timeOf(s float64) time.Time { return time.UnixMilli(int64(math.Round(s * 1e3))) }

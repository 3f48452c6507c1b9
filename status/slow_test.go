package status

import (
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// Three of the latest five answers over an objective make an endpoint slow, and as
// many that are not make it well again; a failure is no answer.
func TestSlow(t *testing.T) {
	limit := func(seconds float64) *float64 { return &seconds }
	f := func(name string, slo *SLO, want State, ttfts ...time.Duration) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.board.SetEndpoint(configured("e"))
			o := pace()
			o.SLO = slo
			p := l.board.OpenSeries(result.SeriesID{Endpoint: "e", Module: "m", Prefix: "cold"}, o)
			for _, ttft := range ttfts {
				l.pass(time.Second)
				r := success(l.now)
				r.Timing.TTFT = ttft
				if ttft == 0 {
					r = failure(l.now, result.Empty)
				}
				p.Observe(r)
			}
			d := l.detail("e")
			if d.State != want || (len(d.Slow) == 1 && d.Slow[0] == "m") != (want == Slow) {
				t.Errorf("%s, slow %q; want %s", d.State, d.Slow, want)
			}
		})
	}
	const quick, slow = 100 * time.Millisecond, 900 * time.Millisecond
	half := &SLO{TTFT: limit(0.5)}
	f("one", half, Up, quick, quick, slow)
	f("two", half, Up, slow, slow)
	f("three", half, Slow, slow, slow, slow)
	f("three of five", half, Slow, slow, quick, slow, quick, slow)
	f("two of five", half, Up, slow, slow, quick, quick, slow, quick)
	f("well again", half, Up, slow, slow, slow, slow, slow, quick, quick, quick)
	f("not yet well", half, Slow, slow, slow, slow, slow, slow, quick, quick)
	f("failing", half, Down, slow, slow, slow, 0)
	f("slow after a failure", half, Slow, slow, slow, 0, slow)
	f("no objective for it", &SLO{TPOT: limit(100)}, Up, slow, slow, slow)
	f("not judged", nil, Up, slow, slow, slow)
	f("on the limit", &SLO{TTFT: limit(0.9)}, Up, slow, slow, slow)
}

func TestSlowIsTold(t *testing.T) {
	l := newLab(t)
	l.board.SetEndpoint(configured("e"))
	o, limit := pace(), 0.5
	o.SLO = &SLO{TTFT: &limit}
	p := l.board.OpenSeries(result.SeriesID{Endpoint: "e", Module: "m", Prefix: "cold"}, o)
	for _, ttft := range []time.Duration{1, 1, 1, 0, 0, 0} {
		l.pass(time.Second)
		r := success(l.now)
		r.Timing.TTFT = ttft*time.Second + time.Millisecond
		p.Observe(r)
	}
	expectJSON(t, l.detail("e").Changes, `[{"at":1767323051,"text":"within the objectives again"},
		{"at":1767323048,"text":"slow: m over the objective"},{"at":1767323046,"text":"up"}]`)
}

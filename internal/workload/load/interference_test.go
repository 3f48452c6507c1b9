package load

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload/testdata/lab"
)

func newInterferenceLab() *lab.Lab[*interferenceEstimate, *InterferenceFinding] {
	return lab.New[*interferenceEstimate, *InterferenceFinding](func() *interferenceEstimate { return new(interferenceEstimate) })
}

// interferes returns a run: the short prompt alone, the long one, and the short one 50 ms after it.
func interferes(alone, long, beside time.Duration) []*result.Result {
	run := []*result.Result{request(1, 0, alone), request(2, time.Second+50*ms, beside)}
	run[1].Beside = []*result.Result{request(2, time.Second, long)}
	return run
}

func TestInterference(t *testing.T) {
	l := newInterferenceLab()
	// The ratios are 2, 3, 3, 4, 4 and 5; of six, the least and the greatest bound the median.
	for i, beside := range []time.Duration{200 * ms, 300 * ms, 300 * ms, 400 * ms, 400 * ms, 500 * ms} {
		if i == 5 && l.Last != nil {
			t.Errorf("after %d runs %+v, want nothing", i, l.Last)
		}
		l.Run(interferes(100*ms, time.Duration(800+i)*ms, beside)...)
	}
	f := l.Last
	if f == nil || !near(f.Ratio.Value, 3.5) || !near(f.Ratio.Lower, 2) || !near(f.Ratio.Upper, 5) || !near(f.Alone, 0.1) || !near(f.Beside, 0.35) || !near(f.Long, 0.8025) {
		t.Fatalf("%+v", f)
	}
	if got := f.Figures()[0]; got.Value != "3.50" || got.Note != "(2.00 to 5.00) times TTFT beside a long prompt: 350 ms instead of 100 ms" {
		t.Errorf("%+v", got)
	}
	text, err := json.Marshal(f)
	const want = `{"interference":{"ttft_ratio":{"estimate":3.5,"lower":2,"upper":5},"ttft_alone_seconds":0.1,"ttft_beside_seconds":0.35,"long_ttft_seconds":0.8025}}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
}

// What does not show how the one delays the other is left out.
func TestNoInterference(t *testing.T) {
	for name, spoil := range map[string]func(run []*result.Result) []*result.Result{
		"the long prompt was computed before": func(run []*result.Result) []*result.Result {
			run[1].Beside[0].Timing.TTFT = 50 * ms
			return run
		},
		"the long prompt failed": func(run []*result.Result) []*result.Result { failed(run[1].Beside[0], result.Overloaded); return run },
		"the short one failed":   func(run []*result.Result) []*result.Result { failed(run[1], result.TimeoutTotal); return run },
		"times are uncertain":    func(run []*result.Result) []*result.Result { run[0].Imprecise = true; return run },
		"it ended early":         func(run []*result.Result) []*result.Result { return run[:1] },
		"a burst":                func(run []*result.Result) []*result.Result { run[1].Beside = nil; return run },
	} {
		l := newInterferenceLab()
		for range 10 {
			l.Run(spoil(interferes(100*ms, 800*ms, 400*ms))...)
		}
		if l.Last != nil {
			t.Errorf("%s: %+v", name, l.Last)
		}
	}
}

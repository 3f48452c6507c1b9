package fleet

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// served returns a success that started at an instant.
func served(start time.Time, ttft time.Duration) *result.Result {
	r := &result.Result{Start: start, Outcome: result.Success, Kind: api.Generation, Model: "m", Prefix: "cold"}
	r.Timing = result.Timing{TTFT: ttft, TTFO: ttft, TPOT: ttft / 10, MaxGap: ttft / 5, Duration: 2 * ttft}
	return r
}

// A step is on both pages; slow probes beside bursts of our own and confirmations of
// failures make none.
func TestStepsOfAnEndpoint(t *testing.T) {
	l := workLab(t, `
modules: {m: {interval: 30s}}
endpoints: [{name: e, url: "http://127.0.0.1:1", modules: [m]}]`)
	task, now := l.endpoint("e").tasks[0], time.Now().Add(-12*time.Hour)
	add := func(n int, ttft time.Duration, disturbed, confirmation bool) {
		for i := range n {
			r := served(now, ttft+time.Duration(i%5)*ttft/50)
			task.take(r, disturbed, confirmation)
			now = now.Add(30 * time.Second)
		}
	}
	add(200, 100*time.Millisecond, false, false)
	add(50, 900*time.Millisecond, true, false)
	add(50, 900*time.Millisecond, false, true)
	if l.page().Has("inference_probe_step_ratio") {
		t.Fatal("a step by probes that do not count")
	}
	add(10, 100*time.Millisecond, false, false)
	at := now
	add(20, 200*time.Millisecond, false, false)
	p := l.page()
	for _, metric := range []string{"ttft", "tpot"} {
		if ratio := p.Sum("inference_probe_step_ratio", "metric", metric); math.Abs(ratio-2) > 0.05 {
			t.Errorf("%s: ratio %v, want 2", metric, ratio)
		}
		if got := p.Sum("inference_probe_step_timestamp_seconds", "metric", metric); math.Abs(got-float64(at.UnixMilli())/1e3) > 30 {
			t.Errorf("%s: a step at %v, want %v", metric, got, at.Unix())
		}
	}
	e := l.endpoint("e").evidence(explain.Condition{}, now, nil)
	if len(e.Steps) != 2 || e.Steps[0].Module != "m" || e.Steps[0].After < e.Steps[0].Before {
		t.Errorf("steps to explain by: %+v", e.Steps)
	}
	d, _ := l.Board.Detail("e")
	steps := d.Series[0].Steps
	if len(steps) != 2 || steps[0].Before > 0.2 || steps[0].After < steps[0].Before {
		t.Errorf("steps on the status page: %+v", steps)
	}
}

// The 99th percentile of TTFT is the same everywhere: the histogram's within the width of
// a bucket, and those of the window, of the row and of the points in the chart
// exactly. What ran beside a burst of our own, what the prober does not vouch for,
// and confirmations of failures, all slow here, are in none of them, and counted apart.
func TestPercentilesAgree(t *testing.T) {
	l := workLab(t, `
modules: {m: {interval: 30s}, burst: {concurrency: [4]}}
endpoints: [{name: e, url: "http://127.0.0.1:1", modules: [m, burst], slo: {ttft: 500ms}}]`)
	probes := l.endpoint("e").tasks[0]
	start, random := time.Now().Add(-45*time.Minute), rand.New(rand.NewPCG(1, 1))
	var counted []float64
	for i := range 400 {
		r := served(start.Add(time.Duration(i)*6*time.Second), time.Duration(100e3*math.Exp(0.5*random.NormFloat64()))*time.Microsecond)
		confirmation := false
		switch slow := 20 * r.Timing.TTFT; {
		case i%20 == 1:
			r.Timing.TTFT = slow
			probes.endpoint.bursts.begin() // which goes on until the next probe
		case i%20 == 2:
			probes.endpoint.bursts.end(func() time.Time { return r.Start })
			r.Timing.TTFT, r.Imprecise = slow, true
		case i%20 == 3:
			r.Timing.TTFT, confirmation = slow, true
		default:
			counted = append(counted, r.Timing.TTFT.Seconds())
		}
		probes.publish([]*result.Result{r}, nil, confirmation)
	}
	slices.Sort(counted)
	want := counted[int(math.Ceil(0.99*float64(len(counted))))-1] // the nearest rank

	p := l.page()
	d, _ := l.Board.Detail("e")
	for name, got := range map[string]float64{
		"window":           p.Sum("inference_probe_ttft_window_seconds", "stat", "p99"),
		"row":              *d.Row.Window.P99,
		"series":           *d.Series[0].Window.P99,
		"points in charts": p99OfPoints(d.Series[0].History.TTFT),
	} {
		if got != want {
			t.Errorf("p99 of the %s is %v, want %v", name, got, want)
		}
	}
	if lower, upper := p99Bucket(t, p); want <= lower || want > upper {
		t.Errorf("p99 of the histogram is in (%v, %v], want %v in it", lower, upper, want)
	}
	if n := p.Sum("inference_probe_ttft_seconds"); n != float64(len(counted)) {
		t.Errorf("%v probes in the histogram, want %d", n, len(counted))
	}
	for family, want := range map[string]float64{
		"inference_probe_results_total": 400, "inference_probe_disturbed_total": 20,
		"inference_probe_imprecise_total": 20, "inference_probe_confirmations_total": 20,
		"inference_probe_ttft_window_samples": float64(len(counted)),
	} {
		if got := p.Sum(family, "module", "m"); got != want {
			t.Errorf("%s is %v, want %v", family, got, want)
		}
	}
	if p.Has("inference_probe_step_ratio") || d.State == "slow" {
		t.Errorf("slow probes that do not count make a step, or state %s", d.State)
	}
}

// p99OfPoints returns the 99th percentile of those that are measured, by nearest rank.
func p99OfPoints(points []*float64) float64 {
	var all []float64
	for _, v := range points {
		if v != nil {
			all = append(all, *v)
		}
	}
	slices.Sort(all)
	return all[int(math.Ceil(0.99*float64(len(all))))-1]
}

// p99Bucket returns the bounds of the bucket of the TTFT histogram of the module that
// histogram_quantile looks into for the 99th percentile.
func p99Bucket(t *testing.T, p metricsPage) (lower, upper float64) {
	t.Helper()
	for _, m := range p["inference_probe_ttft_seconds"].GetMetric() {
		if !testlab.HasLabels(m, []string{"module", "m"}) {
			continue
		}
		h := m.GetHistogram()
		for _, b := range h.GetBucket() {
			if float64(b.GetCumulativeCount()) >= 0.99*float64(h.GetSampleCount()) {
				return lower, b.GetUpperBound()
			}
			lower = b.GetUpperBound()
		}
	}
	t.Fatal("no histogram")
	return 0, 0
}

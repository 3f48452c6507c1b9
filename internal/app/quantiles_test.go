package app

import (
	"bytes"
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// drawnNetwork has endpoints whose latencies are drawn. While a burst of ours runs on an
// endpoint, its other probes take five times as long.
type drawnNetwork struct{ random *rand.Rand }

// Runners implements fleet.Network.
func (n drawnNetwork) Runners(e *config.Endpoint) (func(*config.Module) (fleet.Runner, error), error) {
	bursts := new(atomic.Int64)
	random := rand.New(rand.NewPCG(n.random.Uint64(), 1))
	return func(m *config.Module) (fleet.Runner, error) {
		return &drawnRunner{e, m, bursts, rand.New(rand.NewPCG(random.Uint64(), 2))}, nil
	}, nil
}

// Reader implements fleet.Network; no page is read.
func (drawnNetwork) Reader(*config.Endpoint, *page.Mappings) (fleet.Reader, error) { return nil, nil }

// drawnRunner probes an endpoint with a module. One task uses it.
type drawnRunner struct {
	endpoint *config.Endpoint
	module   *config.Module
	bursts   *atomic.Int64 // that run on the endpoint
	random   *rand.Rand
}

// Close implements fleet.Runner.
func (*drawnRunner) Close() {}

// Run implements fleet.Runner.
func (r *drawnRunner) Run(context.Context, time.Time) ([]*result.Result, *result.Skip) {
	var all []*result.Result
	for _, n := range r.module.Concurrency {
		r.bursts.Add(1)
		for range n {
			all = append(all, r.answer(string(r.module.Prefix), n))
		}
		time.Sleep(3 * time.Second)
		r.bursts.Add(-1)
	}
	prefixes := []string{string(r.module.Prefix)}
	switch {
	case len(r.module.Concurrency) > 0:
		prefixes = nil
	case r.module.Prefix == config.PrefixPaired:
		prefixes = []string{string(config.PrefixCold), string(config.PrefixWarm)}
	}
	for _, prefix := range prefixes {
		a := r.answer(prefix, 0)
		time.Sleep(a.Timing.Duration)
		all = append(all, a)
	}
	return all, nil
}

// answer returns an answer, one in 300 of which has no first token.
func (r *drawnRunner) answer(prefix string, concurrency int) *result.Result {
	ttft := time.Duration(150e6 * math.Exp(0.6*r.random.NormFloat64()))
	if r.bursts.Load() > 0 && concurrency == 0 {
		ttft *= 5
	}
	a := &result.Result{
		Start: time.Now(), Sent: time.Now(), Outcome: result.Success, Kind: api.Generation, API: "openai-chat", Model: "m",
		Prefix: prefix, Concurrency: concurrency, Clock: result.ClockKernel, Status: 200,
		Imprecise: r.random.IntN(50) == 0,
	}
	a.Timing = result.Timing{TTFT: ttft, TTFO: ttft, TPOT: ttft / 10, MaxGap: ttft / 5, Duration: 2 * ttft}
	if r.module.ReferenceLogprob {
		a.Kind = api.Scoring
	}
	if r.random.IntN(300) == 0 {
		a.Outcome, a.Status = result.HTTPError, 500
		a.Timing = result.Timing{TTFT: result.Absent, TTFO: result.Absent, TPOT: result.Absent, MaxGap: result.Absent, Duration: ttft}
	}
	return a
}

// drawn is the fleet of a configuration after a time, with its pages.
type drawn struct {
	t        *testing.T
	families map[string]*dto.MetricFamily
	board    *status.Board
}

// runDrawn runs a configuration for so long in the clock of a bubble.
func runDrawn(t *testing.T, cfg *config.Config, long time.Duration) *drawn {
	t.Helper()
	registry, logger := prometheus.NewRegistry(), slog.New(slog.DiscardHandler)
	o := fleet.Options{
		Probing: schedule.New(schedule.Options{}), Probes: collector.NewProbes(time.Now),
		Self: collector.NewSelf(registry), Health: health.NewShared(time.Now, logger), Board: status.NewBoard(time.Now),
		Logger: logger, Network: drawnNetwork{rand.New(rand.NewPCG(1, 2))},
	}
	f := fleet.New(o)
	defer f.Close()
	if err := f.Apply(fleet.Plan{Config: cfg, Endpoints: cfg.Endpoints, All: cfg.Endpoints}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- o.Probing.Run(ctx) }()
	time.Sleep(long)
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := collector.NewExposition(registry, o.Probes).Write(&text, expfmt.NewFormat(expfmt.TypeTextPlain)); err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(&text)
	if err != nil {
		t.Fatal(err)
	}
	return &drawn{t, families, o.Board}
}

// metric returns the one metric of a family with these labels; nil without.
func (d *drawn) metric(family string, labels map[string]string) *dto.Metric {
	for _, m := range d.families[family].GetMetric() {
		found := 0
		for _, l := range m.Label {
			if want, ok := labels[l.GetName()]; ok && want == l.GetValue() {
				found++
			}
		}
		if found == len(labels) {
			return m
		}
	}
	return nil
}

// bucketOf returns the bounds of the bucket with the observation of a rank, counted from
// the smallest, which is 1.
func bucketOf(h *dto.Histogram, rank float64) (lower, upper float64) {
	for _, b := range h.GetBucket() {
		if float64(b.GetCumulativeCount()) >= rank {
			return lower, b.GetUpperBound()
		}
		lower = b.GetUpperBound()
	}
	return lower, math.Inf(1)
}

// The p99 of TTFT is the same wherever it is shown, for the endpoints of the demo and
// beside bursts of our own: the gauge of the window, the page and its table, and the bucket
// of the histogram that it is in, where failures without a first token count as later than
// all. The quantile of the histogram alone is off by less than the width of a bucket.
func TestQuantilesAgree(t *testing.T) {
	t.Parallel()
	urls := slices.Repeat([]string{"http://127.0.0.1:1"}, len(demoServers()))
	disturbed := strings.Replace(demoFile, "modules: [", "modules: [burst, ", 1)
	for name, text := range map[string]string{"demo": demoFile, "with bursts": disturbed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, err := demoConfig(text, urls)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				most, least := 55*time.Minute, 8
				if name == "demo" { // has the same endpoints: enough to see that none is disturbed
					most, least = 10*time.Minute, 0
				}
				d := runDrawn(t, cfg, most)
				if compared := d.compare(); compared < least {
					t.Errorf("only %d series have a p99", compared)
				}
				left := d.metric("inference_probe_disturbed_total", map[string]string{"endpoint": "healthy", "module": "interactive"})
				if n := left.GetCounter().GetValue(); (n > 0) != (name == "with bursts") {
					t.Errorf("%v probes were disturbed", n)
				}
			})
		})
	}
}

// compare compares the p99 of all series, and returns of how many there is one.
func (d *drawn) compare() (compared int) {
	for _, row := range d.board.Fleet().Endpoints {
		detail, _ := d.board.Detail(row.Name)
		for _, s := range detail.Series {
			if s.Window == nil || s.Window.P99 == nil {
				continue
			}
			compared++
			labels := map[string]string{"endpoint": row.Name, "module": s.Module, "prefix": s.Prefix}
			shown := *s.Window.P99
			labels["stat"] = "p99"
			if got := d.metric("inference_probe_ttft_window_seconds", labels).GetGauge().GetValue(); got != shown {
				d.t.Errorf("%v: the gauge is %v, and the page shows %v", labels, got, shown)
			}
			delete(labels, "stat")
			if row.Window != nil && s == detail.Series[0] && (row.Window.P99 == nil || *row.Window.P99 != shown) {
				d.t.Errorf("%v: the table shows %+v, and the page %v", labels, row.Window, shown)
			}
			h := d.metric("inference_probe_ttft_seconds", labels).GetHistogram()
			if h.GetSampleCount() > uint64(s.Window.Samples) {
				continue // of probes so frequent, the window has the latest only
			}
			if lower, upper := bucketOf(h, math.Ceil(0.99*float64(s.Window.Samples))); shown <= lower || shown > upper {
				d.t.Errorf("%v: the page shows %v of %d probes, and the histogram has it from %v to %v", labels, shown, s.Window.Samples, lower, upper)
			}
			// histogram_quantile leaves out failures without a first token.
			if lower, upper := bucketOf(h, 0.99*float64(h.GetSampleCount())); shown <= lower-(upper-lower) || shown > upper+(upper-lower) {
				d.t.Errorf("%v: the page shows %v, and the histogram's p99 of %d is from %v to %v", labels, shown, h.GetSampleCount(), lower, upper)
			}
		}
	}
	return compared
}

package collector

import (
	"bytes"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// The page of the store must be, byte for byte, what client_golang makes of the
// same results; for protobuf, message for message. The exemplars' times are
// equal because the bubble's clock does not advance while a result is observed.
func TestEqualsClientGolang(t *testing.T) {
	tests := []struct {
		name    string
		results int
		spread  float64 // octaves of the durations
		schema  int32   // to which the native form must have fallen
		sized   bool    // the series have lengths and a concurrency
	}{
		{name: "nothing", results: 0, spread: 1, schema: 3},
		{name: "one", results: 1, spread: 5, schema: 3},
		{name: "some", results: 40, spread: 5, schema: 3},
		{name: "some of a ladder", results: 40, spread: 5, schema: 3, sized: true},
		{name: "more than 160 buckets", results: 250, spread: 38, schema: 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(uint64(tt.results), 7))
				all := targets(tt.sized)
				store, ref := NewProbes(time.Now), newReference(all[0])
				for i, target := range all {
					store.SetEndpoint(target.info())
					ref.setEndpoint(target.info())
					o := target.options()
					o.Price, o.Verdicts = exactPrice(), result.AnswerVerdicts()
					s := store.Open(target.SeriesID, o)
					s.setServed(api.Generation, target.model) // client_golang has no series without the label
					ref.create(target)
					ref.promise(target)
					ref.createSpent(target)
					for range tt.results / (i*i + 1) {
						time.Sleep(time.Duration(r.Int64N(int64(time.Minute))))
						res := randomResult(r, target.model, tt.spread)
						s.Observe(res)
						ref.observe(target, res)
						judge(s, res)
						ref.judge(target, res)
						ref.spend(target, res)
						if r.IntN(10) == 0 {
							reason := result.SkipReasons()[r.IntN(5)]
							s.Skip(reason)
							ref.skipped.WithLabelValues(target.with(string(reason))...).Inc()
						}
					}
				}
				ref.setWindows(all)
				compare(t, store, ref.Registry)
				if got := store.series[all[0].SeriesID].values.histogram(rowOf(store, "probe_inter_chunk_seconds")).schema; got != tt.schema {
					t.Errorf("schema of the inter-chunk histogram = %d, want %d", got, tt.schema)
				}
			})
		})
	}
}

// rowOf returns a family of the series of probes by its name without the prefix.
func rowOf(p *Probes, name string) *probeFamily {
	i := slices.IndexFunc(p.rows.families, func(f *probeFamily) bool { return f.Name == namePrefix+name })
	return p.rows.families[i]
}

// compare holds the page of the store against the reference in each format.
func compare(t *testing.T, store Store, ref prometheus.Gatherer) {
	t.Helper()
	page := NewExposition(prometheus.NewRegistry(), store)
	for _, format := range Formats() {
		var got, want bytes.Buffer
		if err := page.Write(&got, format); err != nil {
			t.Fatal(err)
		}
		families, err := ref.Gather()
		if err != nil {
			t.Fatal(err)
		}
		if err := writeFamilies(&want, format, families); err != nil {
			t.Fatal(err)
		}
		if format.FormatType() == expfmt.TypeProtoDelim {
			compareFamilies(t, decode(t, &want), decode(t, &got))
			continue
		}
		if d := cmp.Diff(strings.Split(want.String(), "\n"), strings.Split(got.String(), "\n")); d != "" {
			t.Errorf("%s (-client_golang +store):\n%s", format, clip(d))
		}
	}
}

// compareFamilies holds decoded families against each other. Created timestamps
// are left out: client_golang creates a few of the metrics later, when they are
// first seen.
func compareFamilies(t *testing.T, want, got []*dto.MetricFamily) {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("%d families, want %d", len(got), len(want))
	}
	for i := range want {
		for _, m := range append(slices.Clone(want[i].Metric), got[i].Metric...) {
			clearCreated(m)
		}
		if !proto.Equal(want[i], got[i]) {
			t.Errorf("protobuf (-client_golang +store):\n%s", clip(cmp.Diff(want[i], got[i], protocmp.Transform())))
		}
	}
}

// clearCreated takes the created timestamp out of m.
func clearCreated(m *dto.Metric) {
	switch {
	case m.Counter != nil:
		m.Counter.CreatedTimestamp = nil
	case m.Summary != nil:
		m.Summary.CreatedTimestamp = nil
	case m.Histogram != nil:
		m.Histogram.CreatedTimestamp = nil
	}
}

// decode reads delimited families.
func decode(t *testing.T, r io.Reader) []*dto.MetricFamily {
	t.Helper()
	var out []*dto.MetricFamily
	dec := expfmt.NewDecoder(r, expfmt.FmtProtoDelim)
	for {
		f := &dto.MetricFamily{}
		switch err := dec.Decode(f); {
		case errors.Is(err, io.EOF):
			return out
		case err != nil:
			t.Fatal(err)
		}
		out = append(out, f)
	}
}

// clip keeps a failure readable.
func clip(s string) string {
	return s[:min(len(s), 4000)]
}

// target is one series of the tests.
type target struct {
	result.SeriesID
	Labels map[string]string
	model  string
}

// options returns those of a series with objectives that is probed at each interval.
func (t target) options() SeriesOptions {
	return SeriesOptions{Labels: t.Labels, Objectives: series.NewObjectives(strict()), Log: new(series.Log), Interval: 15 * time.Second, Timeout: time.Minute}
}

// targets are series with label values that need care, in no order. Each has an
// endpoint of its own: with several modules the store keeps the samples of a
// series together, where client_golang sorts by kind or outcome first. Sized ones
// have lengths and a concurrency.
func targets(sized bool) []target {
	labels := func(team, zone string) map[string]string { return map[string]string{"team": team, "a_zone": zone} }
	all := []target{
		{result.SeriesID{Endpoint: "llama", Module: "interactive", Prefix: "cold"}, labels("search", "fra1"), "meta-llama/Llama-3.1-8B-Instruct"},
		{result.SeriesID{Endpoint: `quote " slash \ line` + "\n", Module: "interactive", Prefix: "warm"}, labels("a", "b"), "modèle"},
		{result.SeriesID{Endpoint: "Llama", Module: "long", Prefix: "warm"}, labels("search", "fra1"), "meta-llama/Llama-3.1-8B-Instruct"},
		{result.SeriesID{Endpoint: "llama!", Module: "interactive", Prefix: "cold"}, labels("search", "fra1"), "m"},
	}
	if sized {
		for i := range all {
			all[i].InputTokens, all[i].OutputTokens, all[i].Concurrency = "8000", "32", "16"
		}
	}
	return all
}

func (t target) info() EndpointInfo {
	return EndpointInfo{Endpoint: t.Endpoint, Model: t.model, API: "openai-chat", Engine: "vllm", URL: "http://" + t.Module, Labels: t.Labels}
}

// findings returns what identifies the findings of the target.
func (t target) findings() FindingsID {
	return FindingsID{Endpoint: t.Endpoint, Module: t.Module, Labels: t.Labels}
}

// names returns the label names of the target.
func (t target) names() []string {
	names := []string{"endpoint", "model", "module", "prefix", "a_zone", "team"}
	if t.Concurrency != "" {
		names = append(names, "input_tokens", "output_tokens", "concurrency")
	}
	return names
}

// with returns the label values of the target and of a family's own label.
func (t target) with(own ...string) []string {
	values := []string{t.Endpoint, t.model, t.Module, t.Prefix, t.Labels["a_zone"], t.Labels["team"]}
	if t.Concurrency != "" {
		values = append(values, t.InputTokens, t.OutputTokens, t.Concurrency)
	}
	return append(values, own...)
}

// randomResult makes up a result. The durations spread over the given octaves
// around 50 ms; some are zero, absent, or exactly a bound.
func randomResult(r *rand.Rand, model string, octaves float64) *result.Result {
	duration := func() time.Duration {
		switch r.IntN(12) {
		case 0:
			return 0
		case 1:
			return result.Absent
		case 2:
			return time.Duration(ttftBounds[r.IntN(len(ttftBounds))] * 1e9)
		}
		return time.Duration(0.05e9 * math.Exp2(octaves*(r.Float64()-0.5)))
	}
	count := func(n int) int { return r.IntN(n+1) - 1 }
	res := &result.Result{
		Start: time.Now(), Model: model, Status: 200, Outcome: result.Success,
		Timing: result.Timing{TTFT: duration(), TTFO: duration(), TPOT: duration(), MaxGap: duration(), Duration: duration()},
		Tokens: result.Tokens{
			Prompt: count(5000), Cached: count(100), Output: count(2000), Reasoning: count(50),
			Source: []result.TokenSource{result.TokensFromUsage, result.TokensFromEvents}[r.IntN(2)],
		},
		Server:    api.ServerTimes{Queue: duration(), Prefill: duration(), Decode: duration()},
		RateLimit: api.RateLimit{Requests: count(100), Tokens: count(3)},
		Buffered:  r.IntN(5) == 0, Imprecise: r.IntN(5) == 0, NoEndMarker: r.IntN(5) == 0,
		NoFinish: r.IntN(5) == 0, MoreEvents: r.IntN(5) == 0, MaxTokensIgnored: r.IntN(5) == 0,
		Answer: result.Answer{Verdict: append(result.AnswerVerdicts(), "")[r.IntN(6)]},
	}
	if r.IntN(4) == 0 {
		res.Outcome = result.Outcomes()[r.IntN(len(result.Outcomes()))]
	}
	if r.IntN(4) > 0 {
		for i := range res.TraceID {
			res.TraceID[i] = byte(r.Uint32())
		}
	}
	if r.IntN(3) > 0 {
		res.CertNotAfter = res.Start.Add(duration() * 1000)
	}
	for i := range res.Timing.Phases {
		res.Timing.Phases[i] = duration()
	}
	at := time.Duration(0)
	for range r.IntN(20) {
		res.Events = append(res.Events, result.Event{At: at, ReadLag: result.Absent, Merged: r.IntN(6) == 0})
		at += max(0, duration())
	}
	return res
}

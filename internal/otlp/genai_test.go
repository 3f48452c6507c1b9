package otlp

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"

	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
)

// answered returns a success whose connection took 100 ms to set up, so that the TTFT of
// 200 ms is not the time to the first chunk.
func answered() *result.Result {
	r := &result.Result{
		Start: time.Unix(1, 0), Outcome: result.Success, Status: 200, API: "openai-chat", Kind: api.Generation, Model: "m",
		Timing: result.Timing{TTFT: 200 * time.Millisecond, Duration: 2 * time.Second},
		Tokens: result.Tokens{Prompt: 100, Cached: -1, Output: 36, Reasoning: -1, Source: result.TokensFromUsage},
	}
	for _, at := range []int{300, 310, 310, 400} {
		r.Events = append(r.Events, result.Event{At: time.Duration(at) * time.Millisecond})
	}
	r.Events[1].Merged = true
	return r
}

// lines returns the points of metrics as text, sorted.
func lines(all []*metricspb.Metric) (out []string) {
	for _, m := range all {
		for _, p := range m.GetHistogram().DataPoints {
			var as []string
			for _, a := range p.Attributes {
				if !strings.HasPrefix(a.Key, "inference_exporter.") {
					as = append(as, a.Key+"="+strings.Trim(fmt.Sprint(a.Value.GetStringValue(), a.Value.GetIntValue()), "0 "))
				}
			}
			slices.Sort(as)
			var buckets []string
			for i, n := range p.BucketCounts {
				if n > 0 {
					bound := "+Inf"
					if i < len(p.ExplicitBounds) {
						bound = fmt.Sprint(p.ExplicitBounds[i])
					}
					buckets = append(buckets, fmt.Sprintf("%s:%d", bound, n))
				}
			}
			out = append(out, fmt.Sprintf("%s %s %d %.3f %v", m.Name, strings.Join(as, ","), p.Count, p.GetSum(), buckets))
		}
	}
	slices.Sort(out)
	return out
}

// batches returns what is sent, request by request.
func batches(t *testing.T, g *clientMetrics) (all [][]*metricspb.Metric) {
	t.Helper()
	p := &page{at: 1, full: func(metrics []*metricspb.Metric) error {
		all = append(all, metrics)
		return nil
	}}
	if err := errors.Join(g.addTo(p), p.end()); err != nil {
		t.Fatal(err)
	}
	return all
}

// Names, units, bounds, attributes and what is measured are those of the conventions; the
// values follow from the instants by hand.
func TestConventions(t *testing.T) {
	g := newClientMetrics()
	target := Target{Endpoint: "e", Module: "i", URL: urlOf(t, "http://vllm:8000/v1")}
	g.observe(target, answered())
	failed := answered()
	failed.Outcome, failed.Timing.Duration = result.TimeoutStall, 15*time.Second
	g.observe(target, failed)
	canceled := answered()
	canceled.Outcome = result.Canceled
	g.observe(target, canceled)
	imprecise := answered()
	imprecise.Imprecise, imprecise.Tokens.Prompt = true, 3
	g.observe(target, imprecise)
	const of = "gen_ai.operation.name=chat,gen_ai.provider.name=openai,gen_ai.request.model=m"
	want := []string{
		"gen_ai.client.operation.duration " + "error.type=timeout_stall," + of + ",server.address=vllm,server.port=8 1 15.000 [20.48:1]",
		"gen_ai.client.operation.duration " + of + ",server.address=vllm,server.port=8 1 2.000 [2.56:1]",
		"gen_ai.client.operation.time_per_output_chunk " + of + ",server.address=vllm,server.port=8 3 0.100 [0.01:2 0.16:1]",
		"gen_ai.client.operation.time_to_first_chunk " + of + ",server.address=vllm,server.port=8 1 0.300 [0.32:1]",
		"gen_ai.client.token.usage " + of + ",gen_ai.token.type=input,server.address=vllm,server.port=8 2 103.000 [4:1 256:1]",
		"gen_ai.client.token.usage " + of + ",gen_ai.token.type=output,server.address=vllm,server.port=8 2 72.000 [64:2]",
	}
	if diff := cmp.Diff(want, lines(batches(t, g)[0])); diff != "" {
		t.Error(diff)
	}
	for _, m := range batches(t, g)[0] {
		unit := "s"
		if m.Name == "gen_ai.client.token.usage" {
			unit = "{token}"
		}
		if m.Unit != unit || m.Description == "" || m.GetHistogram().AggregationTemporality != metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE {
			t.Errorf("%s: unit %q", m.Name, m.Unit)
		}
		for _, p := range m.GetHistogram().DataPoints {
			if p.StartTimeUnixNano != 1e9 || p.TimeUnixNano != 1 || len(p.BucketCounts) != len(p.ExplicitBounds)+1 {
				t.Errorf("%s: point %v", m.Name, p)
			}
		}
	}
}

// Neither names of models that a server makes up nor endpoints that went use up memory.
func TestStreamsAreBounded(t *testing.T) {
	g := newClientMetrics()
	target := Target{Endpoint: "e", Module: "i", URL: urlOf(t, "https://api.example.com")}
	for i := range 100 {
		r := answered()
		r.Model = fmt.Sprint("model ", i)
		g.observe(target, r)
	}
	if n := len(batches(t, g)[0]); n != 4 || len(g.streams) != 1 || len(g.streams[owner{"e", "i"}]) != 5 {
		t.Errorf("%d metrics and %d owners of one model, want 4 and 1 with 5 streams", n, len(g.streams))
	}
	g.retain(map[string]bool{"f": true})
	if n := len(g.streams); n != 0 {
		t.Errorf("%d streams of an endpoint that went", n)
	}
}

// The points of a large fleet are divided among requests, so that a receiver takes them:
// none is lost, none sent twice.
func TestManyStreamsAreDivided(t *testing.T) {
	const endpoints = maxPoints/2 + 1 // with 5 streams each
	g := newClientMetrics()
	for i := range endpoints {
		g.observe(Target{Endpoint: fmt.Sprint(i), Module: "i", URL: urlOf(t, "http://h")}, answered())
	}
	all := batches(t, g)
	if len(all) != 3 {
		t.Errorf("%d requests, want 3", len(all))
	}
	seen := map[string]int{}
	for _, metrics := range all {
		n := 0
		for _, m := range metrics {
			n += len(m.GetHistogram().DataPoints)
			for _, p := range m.GetHistogram().DataPoints {
				seen[m.Name+fmt.Sprint(p.Attributes)]++
			}
		}
		if n > maxPoints {
			t.Errorf("%d points in a request", n)
		}
	}
	if len(seen) != 5*endpoints {
		t.Errorf("%d streams, want %d", len(seen), 5*endpoints)
	}
}

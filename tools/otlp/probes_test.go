package otlp

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
)

// The bounds of the semantic conventions for generative AI, by their own rule: each is
// twice, and of tokens four times, the one before.
func secondBounds() []float64 { return bounds(0.01, 2) }
func tokenBounds() []float64  { return bounds(1, 4) }

func bounds(first, factor float64) (all []float64) {
	for i := range 14 {
		all = append(all, math.Round(first*math.Pow(factor, float64(i))*100)/100)
	}
	return all
}

// distribution is the observations that a histogram has.
type distribution struct {
	Count   uint64
	Sum     float64 // rounded to what is left of the times of spans
	Buckets map[float64]uint64
}

// conventional are the client metrics of the conventions that follow from spans.
type conventional map[string]*distribution

func (c conventional) observe(name string, of map[string]string, v float64, bounds []float64, with ...string) {
	labels := map[string]string{}
	for k, v := range of {
		labels[k] = v
	}
	for i := 0; i < len(with); i += 2 {
		labels[with[i]] = with[i+1]
	}
	d := c[key(name, labels)]
	if d == nil {
		d = &distribution{Buckets: map[float64]uint64{math.Inf(1): 0}}
		for _, b := range bounds {
			d.Buckets[b] = 0
		}
		c[key(name, labels)] = d
	}
	i, _ := slices.BinarySearch(bounds, v)
	bound := math.Inf(1)
	if i < len(bounds) {
		bound = bounds[i]
	}
	d.Buckets[bound]++
	d.Count++
	d.Sum += v
}

// ofSpans returns the metrics of the probes that spans show. The time per output chunk is
// left out: a span has no time of each.
func ofSpans(spans []ptrace.Span) conventional {
	all := conventional{}
	for _, s := range spans {
		as := texts(s.Attributes())
		number := func(name string) (float64, bool) {
			v, ok := s.Attributes().Get(name)
			if ok && v.Type() == pcommon.ValueTypeInt {
				return float64(v.Int()), true
			}
			return v.Double(), ok
		}
		of := map[string]string{"gen_ai.provider.name": "openai"} // the API that the servers of the stand speak
		for _, name := range []string{
			"gen_ai.operation.name", "gen_ai.request.model", "server.address", "server.port", "inference_exporter.endpoint", "inference_exporter.module",
		} {
			if as[name] != "" {
				of[name] = as[name]
			}
		}
		outcome := as["inference_exporter.outcome"]
		if outcome == "canceled" {
			continue
		}
		if outcome == "success" {
			for kind, name := range map[string]string{"input": "gen_ai.usage.input_tokens", "output": "gen_ai.usage.output_tokens"} {
				if n, ok := number(name); ok {
					all.observe("gen_ai.client.token.usage", of, n, tokenBounds(), "gen_ai.token.type", kind)
				}
			}
		}
		if as["inference_exporter.imprecise"] == "true" {
			continue
		}
		var failure []string
		if outcome != "success" {
			failure = []string{"error.type", as["error.type"]}
		}
		lasted := s.EndTimestamp().AsTime().Sub(s.StartTimestamp().AsTime()).Seconds()
		all.observe("gen_ai.client.operation.duration", of, lasted, secondBounds(), failure...)
		if first, ok := number("gen_ai.response.time_to_first_chunk"); ok {
			all.observe("gen_ai.client.operation.time_to_first_chunk", of, first, secondBounds())
		}
	}
	return all
}

// ofMetrics returns the same of the latest request that has them, and the sums of the
// time per output chunk.
func ofMetrics(t *testing.T, pushes []push) (all conventional, chunks map[string]*point) {
	t.Helper()
	all, chunks = conventional{}, map[string]*point{}
	for _, p := range slices.Backward(pushes) {
		for series, x := range ofPush(t, p.metrics) {
			if !ofConventions(x.Name) {
				continue
			}
			want := "s"
			if x.Name == "gen_ai.client.token.usage" {
				want = "{token}"
			}
			if x.Unit != want || x.Help == "" || x.Type != explicit || x.Start == 0 {
				t.Errorf("%s: %+v", series, x)
			}
			if x.Name == "gen_ai.client.operation.time_per_output_chunk" {
				chunks[series] = x
			} else {
				all[series] = &distribution{x.Count, x.Value, x.Buckets}
			}
		}
		if len(all) > 0 {
			break
		}
	}
	return all, chunks
}

// TestProbesEqualTheirSpans compares the client metrics of the conventions that a
// collector received with what follows from the spans that it received by the
// conventions' definitions, and the spans with what the server knows of its requests.
func TestProbesEqualTheirSpans(t *testing.T) {
	c := newCollector(t)
	s := newStand(t, c)
	s.waitFor("10 probes", func(p *page) bool { return p.sum("inference_probe_results_total", `endpoint="well"`) >= 10 })
	// Spans come in batches: without further probes both are of the same ones soon.
	s.reload(seldom)
	var diff string
	for deadline := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		metrics, _ := ofMetrics(t, c.received())
		diff = gocmp.Diff(ofSpans(c.probes()), metrics, gocmp.Comparer(func(a, b float64) bool { return a == b || math.Abs(a-b) < 1e-6 }))
		if diff == "" || time.Now().After(deadline) {
			break
		}
	}
	if diff != "" {
		t.Errorf("metrics of the conventions differ from the spans:\n%s", diff)
	}
	checkSpans(t, s, c.probes())
	_, chunks := ofMetrics(t, c.received())
	if len(chunks) == 0 {
		t.Error("no time per output chunk")
	}
	t.Logf("%d spans, %d streams", len(c.probes()), len(ofSpans(c.probes())))
}

// checkSpans compares the spans of the server that is well with the server's records.
func checkSpans(t *testing.T, s *stand, spans []ptrace.Span) {
	t.Helper()
	type tokens struct{ prompt, output int }
	records := map[string]tokens{}
	for _, r := range s.well.Records() {
		records[r.TraceID] = tokens{r.PromptTokens, r.OutputTokens}
	}
	n := 0
	for _, span := range spans {
		as := span.Attributes()
		name, _ := as.Get("inference_exporter.endpoint")
		outcome, _ := as.Get("inference_exporter.outcome")
		if name.Str() != "well" || outcome.Str() != "success" {
			continue
		}
		n++
		prompt, _ := as.Get("gen_ai.usage.input_tokens")
		output, _ := as.Get("gen_ai.usage.output_tokens")
		trace := span.TraceID().String()
		if got := (tokens{int(prompt.Int()), int(output.Int())}); records[trace] != got {
			t.Errorf("trace %s has tokens %+v, the server counted %+v", trace, got, records[trace])
		}
		if span.Kind() != ptrace.SpanKindClient || !span.ParentSpanID().IsEmpty() || !strings.HasPrefix(trace, span.SpanID().String()) {
			t.Errorf("span %s: kind %v, parent %s, trace %s", span.SpanID(), span.Kind(), span.ParentSpanID(), trace)
		}
	}
	if n < 10 {
		t.Errorf("%d spans of successful probes, want 10", n)
	}
}

package otlp

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// exported returns the span of a result as a receiver gets it, with the
// attributes of its resource.
func exported(t *testing.T, target Target, r *result.Result) (span *tracepb.Span, resource map[string]any) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := newSpanReceiver(t)
		e, text := spansTo(t, v, nil)
		e.Observe(target, r)
		startSpans(t, e)()
		spans := v.spans()
		if len(spans) != 1 || text.String() != "" {
			t.Fatalf("%d spans, want 1; log: %s", len(spans), text)
		}
		span, resource = spans[0], attributes(v.batches[0].Resource.Attributes)
	})
	return span, resource
}

// attributes returns attributes as a map of plain values.
func attributes(list []*commonpb.KeyValue) map[string]any {
	m := map[string]any{}
	for _, a := range list {
		m[a.Key] = plain(a.Value)
	}
	return m
}

func plain(v *commonpb.AnyValue) any {
	switch v := v.Value.(type) {
	case *commonpb.AnyValue_StringValue:
		return v.StringValue
	case *commonpb.AnyValue_IntValue:
		return int(v.IntValue)
	case *commonpb.AnyValue_DoubleValue:
		return v.DoubleValue
	case *commonpb.AnyValue_BoolValue:
		return v.BoolValue
	case *commonpb.AnyValue_ArrayValue:
		var all []any
		for _, e := range v.ArrayValue.Values {
			all = append(all, plain(e))
		}
		return all
	}
	return fmt.Sprintf("unknown value %v", v)
}

// moments renders events as "name at milliseconds after the start".
func moments(span *tracepb.Span) []string {
	var all []string
	for _, e := range span.Events {
		all = append(all, fmt.Sprintf("%s at %d ms", e.Name, (e.TimeUnixNano-span.StartTimeUnixNano)/1e6))
	}
	return all
}

func TestSpanOfASuccess(t *testing.T) {
	target := Target{Endpoint: "prod", Module: "interactive", URL: urlOf(t, "https://api.groq.com/openai/v1"), MaxTokens: 64}
	span, resource := exported(t, target, newResult())

	if got, want := hex.EncodeToString(span.TraceId), "0102030405060708090a0b0c0d0e0f10"; got != want {
		t.Errorf("trace id %s, want %s", got, want)
	}
	if got, want := hex.EncodeToString(span.SpanId), "0102030405060708"; got != want || len(span.ParentSpanId) != 0 {
		t.Errorf("span id %s with parent %x, want the root %s", got, span.ParentSpanId, want)
	}
	if span.Name != "chat llama" || span.Kind != tracepb.Span_SPAN_KIND_CLIENT {
		t.Errorf("name %q, kind %s", span.Name, span.Kind)
	}
	const startNano = 1_700_000_000_000_000_000
	if span.StartTimeUnixNano != startNano || span.EndTimeUnixNano != startNano+130e6 {
		t.Errorf("from %d to %d", span.StartTimeUnixNano, span.EndTimeUnixNano)
	}
	if code := span.Status.GetCode(); code != tracepb.Status_STATUS_CODE_UNSET {
		t.Errorf("status %s", code)
	}
	if diff := cmp.Diff(map[string]any{"service.name": "inference_exporter", "service.version": "1.2.3"}, resource); diff != "" {
		t.Errorf("resource (-want +got):\n%s", diff)
	}
	want := map[string]any{
		"gen_ai.operation.name": "chat", "gen_ai.provider.name": "groq", "gen_ai.request.model": "llama",
		"gen_ai.request.max_tokens": 64, "gen_ai.request.stream": true,
		"gen_ai.response.finish_reasons": []any{"stop"},
		// from the issue of the request, with the set-up of the connection
		"gen_ai.response.time_to_first_chunk": 0.063,
		"gen_ai.usage.input_tokens":           100, "gen_ai.usage.cache_read.input_tokens": 16,
		"gen_ai.usage.output_tokens": 4, "gen_ai.usage.reasoning.output_tokens": 1,
		"server.address": "api.groq.com", "server.port": 443, "http.response.status_code": 200,
		own + "endpoint": "prod", own + "module": "interactive", own + "prefix": "cold",
		own + "outcome": "success", own + "clock": "kernel", own + "api": "openai-chat", own + "engine": "vllm",
		own + "events": 4, own + "merged_events": 1, own + "tokens_source": "usage",
		own + "connection_reused": false, own + "buffered": false, own + "imprecise": false,
		own + "ttft": 0.06, own + "ttfo": 0.08, own + "tpot": 0.02, own + "max_gap": 0.03, own + "server.queue": 0.005,
	}
	if diff := cmp.Diff(want, attributes(span.Attributes)); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	wantMoments := []string{
		"dns done at 1 ms", "connected at 3 ms", "request sent at 6 ms", "first byte at 46 ms",
		"first token at 63 ms", "first output at 83 ms", "last token at 123 ms", "reply ended at 130 ms",
	}
	if diff := cmp.Diff(wantMoments, moments(span)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{own + "phase": "first_byte", own + "phase_seconds": 0.04}, attributes(span.Events[3].Attributes)); diff != "" {
		t.Errorf("attributes of an event (-want +got):\n%s", diff)
	}
}

// What happened before a failure is exported, latencies are not.
func TestSpanOfAFailure(t *testing.T) {
	span, _ := exported(t, Target{URL: urlOf(t, "http://[::1]:8000/v1")}, failedResult())
	if span.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || span.Status.GetMessage() != "no token for 1s in mid-answer" {
		t.Errorf("status %s %q", span.Status.GetCode(), span.Status.GetMessage())
	}
	as := attributes(span.Attributes)
	if as["error.type"] != "timeout_stall" || as["server.address"] != "::1" || as["server.port"] != 8000 {
		t.Errorf("attributes %v", as)
	}
	for _, name := range []string{
		own + "ttft", own + "tpot", own + "max_gap", own + "server.queue", "gen_ai.provider.name", "gen_ai.request.max_tokens",
		"gen_ai.response.finish_reasons", "gen_ai.response.time_to_first_chunk", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens",
	} {
		if v, ok := as[name]; ok {
			t.Errorf("%s is %v, want none", name, v)
		}
	}
	if len(span.Events) != 8 {
		t.Errorf("events %v", moments(span))
	}
}

func TestSpanOfAProbeThatWasCanceled(t *testing.T) {
	span, _ := exported(t, Target{URL: new(url.URL)}, canceledResult())
	if code := span.Status.GetCode(); code != tracepb.Status_STATUS_CODE_UNSET {
		t.Errorf("status %s, want unset: it counts neither way", code)
	}
	as := attributes(span.Attributes)
	if as[own+"outcome"] != "canceled" || as["error.type"] != nil || as["server.address"] != nil || as["http.response.status_code"] != nil {
		t.Errorf("attributes %v", as)
	}
	if span.EndTimeUnixNano != span.StartTimeUnixNano || len(span.Events) != 0 {
		t.Errorf("%d ns with events %v", span.EndTimeUnixNano-span.StartTimeUnixNano, moments(span))
	}
}

// Protobuf refuses a whole batch for one string that is not UTF-8.
func TestHostileTexts(t *testing.T) {
	r := failedResult()
	r.Model = "m\xff"
	r.Err = errors.New("broken \xc3" + strings.Repeat("é", maxReason))
	span, _ := exported(t, Target{URL: new(url.URL)}, r)
	if n := len(span.Status.GetMessage()); n > maxReason || n < maxReason-3 {
		t.Errorf("reason of %d bytes, want just under %d", n, maxReason)
	}
	if span.Name != "chat m\uFFFD" {
		t.Errorf("name %q", span.Name)
	}
}

func TestOperation(t *testing.T) {
	f := func(kind api.Kind, name, want string) {
		t.Helper()
		if got := operationOf(&result.Result{Kind: kind, API: name}); got != want {
			t.Errorf("%s %s: %s, want %s", kind, name, got, want)
		}
	}
	for _, name := range []string{"openai-chat", "openai-responses", "anthropic", "ollama", "cohere", "bedrock"} {
		f(api.Generation, name, "chat")
	}
	for _, name := range []string{"openai-completions", "ollama-generate", "tgi", "sglang", "llamacpp", "triton"} {
		f(api.Generation, name, "text_completion")
	}
	f(api.Generation, "gemini", "generate_content")
	f(api.Embedding, "tei", "embeddings")
	f(api.Rerank, "rerank", "rerank")
	f("", "", "chat") // not detected yet
}

func TestProvider(t *testing.T) {
	f := func(host, want string) {
		t.Helper()
		if got := providerOf(host); got != want {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
	f("api.openai.com", "openai")
	f("API.OpenAI.com.", "openai")
	f("our.openai.azure.com", "azure.ai.openai")
	f("api.anthropic.com", "anthropic")
	f("generativelanguage.googleapis.com", "gcp.gemini")
	f("europe-west1-aiplatform.googleapis.com", "gcp.vertex_ai")
	f("aiplatform.googleapis.com", "gcp.vertex_ai")
	f("bedrock-runtime.eu-central-1.amazonaws.com", "aws.bedrock")
	f("bedrock-runtime-fips.us-east-1.amazonaws.com", "aws.bedrock")
	f("bedrock-runtime.cn-north-1.amazonaws.com.cn", "aws.bedrock")
	f("api.cohere.com", "cohere")
	f("api.groq.com", "groq")
	f("api.deepseek.com", "deepseek")
	f("api.mistral.ai", "mistral_ai")
	f("api.perplexity.ai", "perplexity")
	f("api.x.ai", "x_ai")
	f("vllm.internal", "")
	f("api.openai.com.evil.example", "")
	f("notaiplatform.googleapis.com", "")
	f("", "")
}

// The ids of the span are those that a server saw, and nothing of what was
// asked or answered is in it.
func TestSpanOfARealProbe(t *testing.T) {
	const answer = "a-secret-answer"
	traceparent, prompt := make(chan string, 1), make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet { // a question about the server
			http.NotFound(w, r)
			return
		}
		body, _ := io.ReadAll(r.Body)
		traceparent <- r.Header.Get("Traceparent")
		prompt <- string(body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"choices":[{"index":0,"delta":{"content":"`+answer+`"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	}))
	defer s.Close()
	r := probe(t, s.URL)
	if r.Outcome != result.Success {
		t.Fatalf("outcome %s: %v", r.Outcome, r.Err)
	}
	span, _ := exported(t, Target{URL: urlOf(t, s.URL)}, r)
	if got, want := fmt.Sprintf("00-%x-%x-01", span.TraceId, span.SpanId), <-traceparent; got != want {
		t.Errorf("ids of the span make %s, the server got %s", got, want)
	}
	text := span.String()
	if strings.Contains(text, answer) {
		t.Errorf("the answer is in the span: %s", text)
	}
	var asked struct{ Messages []struct{ Content string } }
	if err := json.Unmarshal([]byte(<-prompt), &asked); err != nil || len(asked.Messages) != 1 {
		t.Fatalf("request with %d messages (%v)", len(asked.Messages), err)
	}
	if begin := asked.Messages[0].Content[:16]; strings.Contains(text, begin) {
		t.Errorf("the prompt (%s...) is in the span: %s", begin, text)
	}
}

// probe probes an OpenAI endpoint once.
func probe(t *testing.T, rawURL string) *result.Result {
	t.Helper()
	dialer := prober.NewDialer()
	defer dialer.Close()
	e, err := prober.NewEndpoint(&config.Endpoint{Name: "e", URL: config.URL{URL: urlOf(t, rawURL)}, API: "openai-chat", Model: "m"},
		prober.Options{Dialer: dialer, UserAgent: "test"})
	if err != nil {
		t.Fatal(err)
	}
	limit := model.Duration(10 * time.Second)
	p, err := e.NewProber(&config.Module{
		Timeout: limit, Timeouts: config.Timeouts{Connect: limit, Headers: limit, FirstToken: limit, Stall: limit},
		InputTokens: config.Tokens(64), OutputTokens: config.Tokens(8), Prefix: config.PrefixCold, Connection: config.ConnectionNew,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	results, _ := p.Run(t.Context(), time.Time{})
	return results[0]
}

// What the export adds to a probe: making the span and putting it in line.
func BenchmarkObserve(b *testing.B) {
	e := NewSpans("", slog.New(slog.DiscardHandler))
	e.Use(config.Tracing{OTLPEndpoint: config.URL{URL: urlOf(b, "http://receiver:4318")}})
	target, r := Target{Endpoint: "prod", Module: "interactive", URL: urlOf(b, "https://api.groq.com/openai/v1"), MaxTokens: 64}, newResult()
	b.ReportAllocs()
	for b.Loop() {
		e.Observe(target, r)
	}
}

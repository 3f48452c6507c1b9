package prober

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newModule returns a module with limits short enough for a test that runs
// into one of them.
func newModule() *config.Module {
	d := func(d time.Duration) model.Duration { return model.Duration(d) }
	return &config.Module{
		Interval: d(time.Minute), Timeout: d(20 * time.Second),
		Timeouts:    config.Timeouts{Connect: d(10 * time.Second), Headers: d(10 * time.Second), FirstToken: d(10 * time.Second), Stall: d(10 * time.Second)},
		InputTokens: config.Tokens(64), OutputTokens: config.Tokens(16), Prefix: config.PrefixCold, Connection: config.ConnectionNew,
	}
}

// newEndpoint returns the configuration of an endpoint that serves "m".
func newEndpoint(t testing.TB, rawURL string) *config.Endpoint {
	t.Helper()
	u, err := url.Parse(rawURL)
	if err != nil {
		t.Fatal(err)
	}
	return &config.Endpoint{
		Name: "test", URL: config.URL{URL: u}, API: "openai-chat", Model: "m",
		HTTP: config.HTTPClient{HTTPClientConfig: promconfig.HTTPClientConfig{}},
	}
}

// newProber returns a prober that asks only where it must, so that a test's
// server gets the requests of its probes alone where api and model are set.
func newProber(t testing.TB, cfg *config.Endpoint, m *config.Module) *Prober {
	t.Helper()
	p := newFreshProber(t, cfg, m)
	if p.endpoint.target.usable() {
		p.endpoint.lookedUpAt = time.Now()
	}
	return p
}

// newFreshProber returns a prober as the program has it.
func newFreshProber(t testing.TB, cfg *config.Endpoint, m *config.Module) *Prober {
	t.Helper()
	dialer := NewDialer()
	t.Cleanup(func() { dialer.Close() })
	e, err := NewEndpoint(cfg, Options{Dialer: dialer, UserAgent: "test"})
	if err != nil {
		t.Fatal(err)
	}
	p, err := e.NewProber(m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// chat answers the model list, and generation by the given handler.
func chat(t *testing.T, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, `{"object":"list","data":[{"id":"m","owned_by":"vllm"}]}`)
	})
	mux.HandleFunc("POST /v1/chat/completions", answer)
	s := testlab.NewServer(t, mux)
	s.Start()
	return s
}

// events writes SSE events, each as one write to the socket.
func events(w http.ResponseWriter, data ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, d := range data {
		fmt.Fprintf(w, "data: %s\n\n", d)
		w.(http.Flusher).Flush()
	}
}

const (
	role      = `{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`
	one       = `{"choices":[{"index":0,"delta":{"content":"one"}}]}`
	thought   = `{"choices":[{"index":0,"delta":{"reasoning_content":"hm"}}]}`
	stop      = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	usage     = `{"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":16}}}`
	endMarker = `[DONE]`
)

func TestSuccess(t *testing.T) {
	headers := make(chan http.Header, 1)
	s := chat(t, func(w http.ResponseWriter, r *http.Request) {
		headers <- r.Header
		w.Header().Set("X-Ratelimit-Remaining-Requests", "9")
		events(w, role, thought, one, stop, usage, endMarker)
	})
	due := time.Now().Add(-time.Second)
	r := newProber(t, newEndpoint(t, s.URL), newModule()).one(t.Context(), due)
	if r.Outcome != result.Success || r.Err != nil {
		t.Fatalf("outcome %s: %v", r.Outcome, r.Err)
	}
	if diff := cmp.Diff(result.Tokens{Prompt: 20, Cached: 16, Output: 2, Reasoning: -1, Source: result.TokensFromUsage}, r.Tokens); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
	if len(r.Events) != 2 || !r.Events[0].Reasoning || r.Events[1].Reasoning {
		t.Errorf("events %+v, want one of reasoning and one of the answer", r.Events)
	}
	if r.Finish != "stop" || r.Status != 200 || r.Model != "m" || r.API != "openai-chat" || r.Prefix != "cold" || r.NoEndMarker {
		t.Errorf("got %+v", r)
	}
	if r.RateLimit.Requests != 9 || r.RateLimit.Tokens != api.Unknown {
		t.Errorf("rate limit %+v", r.RateLimit)
	}
	if r.StartLag < time.Second || !r.Scheduled.Equal(due) {
		t.Errorf("start lag %s, scheduled %s", r.StartLag, r.Scheduled)
	}
	d := r.Timing
	if !(0 < d.TTFT && d.TTFT <= d.TTFO && d.TTFO <= d.Duration) {
		t.Errorf("want 0 < TTFT %s <= TTFO %s <= duration %s", d.TTFT, d.TTFO, d.Duration)
	}
	if d.Phases[result.PhaseTLS] != result.Absent || d.Phases[result.PhaseDNS] != result.Absent || d.Phases[result.PhaseConnect] <= 0 || d.Phases[result.PhaseWrite] < 0 {
		t.Errorf("phases %v of a plain connection to an address", d.Phases)
	}
	header := <-headers
	want := fmt.Sprintf("00-%x-%x-01", r.TraceID, r.TraceID[:8])
	if got := header.Get("Traceparent"); got != want {
		t.Errorf("traceparent %q, want %q", got, want)
	}
	if header.Get("Accept-Encoding") != "identity" || header.Get("Accept") != "text/event-stream" {
		t.Errorf("header %v", header)
	}
}

func TestReplyOutcomes(t *testing.T) {
	f := func(name string, want result.Outcome, wantErr string, answer http.HandlerFunc) {
		t.Run(name, func(t *testing.T) {
			t.Helper()
			r := newProber(t, newEndpoint(t, chat(t, answer).URL), newModule()).one(t.Context(), time.Time{})
			text := ""
			if r.Err != nil {
				text = r.Err.Error()
			}
			if r.Outcome != want || !strings.Contains(text, wantErr) {
				t.Errorf("outcome %s (%s), want %s (...%s...)", r.Outcome, text, want, wantErr)
			}
			if (r.Outcome == result.Success) != (r.Err == nil) {
				t.Errorf("outcome %s with error %v", r.Outcome, r.Err)
			}
		})
	}
	send := func(data ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { events(w, data...) }
	}
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://elsewhere.example/v1")
			w.WriteHeader(code)
			io.WriteString(w, body)
		}
	}
	raw := func(contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			io.WriteString(w, body)
		}
	}
	cut := func(data ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			events(w, data...)
			panic(http.ErrAbortHandler)
		}
	}
	f("no end marker", result.Success, "", send(role, one, stop, usage))
	f("end marker without finish reason", result.Success, "", send(role, one, usage, endMarker))
	f("no finish reason, no end marker", result.Truncated, "without a finish reason", send(role, one))
	f("cut in mid-answer", result.Truncated, "cut", cut(role, one))
	f("cut after the finish reason", result.Success, "", cut(role, one, stop))
	f("cut before the headers", result.Truncated, "before the reply", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	f("complete without a token", result.Empty, "", send(role, stop, endMarker))
	f("nothing at all", result.Empty, "", send())
	f("error event", result.StreamError, "out of memory", send(role, `{"error":{"message":"out of memory","type":"server_error"}}`, endMarker))
	f("finish reason error", result.StreamError, "error", send(role, one, `{"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}`, endMarker))
	f("aborted", result.Truncated, "abort", send(role, one, `{"choices":[{"index":0,"delta":{},"finish_reason":"abort"}]}`, endMarker))
	f("bare JSON error", result.StreamError, "boom", raw("text/event-stream", `{"error":{"message":"boom"}}`))
	f("JSON error with 200", result.StreamError, "boom", raw("application/json", `{"error":{"message":"boom"}}`))
	f("JSON answer", result.ProtocolError, "application/json", raw("application/json", `{"choices":[]}`))
	f("HTML page", result.ProtocolError, "text/html", raw("text/html", `<html>hello</html>`))
	f("HTML as events", result.ProtocolError, "no event", raw("text/event-stream", `<html>hello</html>`))
	f("broken JSON", result.ProtocolError, "", send(role, `{"choices":[`))
	f("401", result.Unauthorized, "bad key", status(401, `{"error":{"message":"bad key"}}`))
	f("403", result.Unauthorized, "403", status(403, ``))
	f("404", result.HTTPError, "no such model", status(404, `{"error":{"message":"no such model"}}`))
	f("429", result.RateLimited, "slow down", status(429, `{"error":{"message":"slow down"}}`))
	f("500", result.HTTPError, "500", status(500, ``))
	f("503", result.Overloaded, "503", status(503, ``))
	f("529", result.Overloaded, "529", status(529, ``))
	f("redirect", result.HTTPError, "elsewhere.example", status(307, ``))
	f("endless", result.TooLarge, "", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			events(w, one)
		}
	})
}

func TestCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := chat(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		events(w, role, one)
		cancel()
		<-r.Context().Done()
	})
	r := newProber(t, newEndpoint(t, s.URL), newModule()).one(ctx, time.Time{})
	if r.Outcome != result.Canceled || !errors.Is(r.Err, context.Canceled) {
		t.Errorf("outcome %s (%v), want %s", r.Outcome, r.Err, result.Canceled)
	}
}

func TestReuse(t *testing.T) {
	s := chat(t, func(w http.ResponseWriter, _ *http.Request) { events(w, one, stop, endMarker) })
	m := newModule()
	m.Connection = config.ConnectionReuse
	p := newProber(t, newEndpoint(t, s.URL), m)
	first, second := p.one(t.Context(), time.Time{}), p.one(t.Context(), time.Time{})
	if first.Outcome != result.Success || second.Outcome != result.Success {
		t.Fatalf("outcomes %s (%v), %s (%v)", first.Outcome, first.Err, second.Outcome, second.Err)
	}
	if first.Reused || !second.Reused {
		t.Errorf("reused %t, %t; want false, true", first.Reused, second.Reused)
	}
	if d := second.Timing; d.TTFT <= 0 || d.TTFT > d.Duration {
		t.Errorf("timing %+v", d)
	}
	s.CloseClientConnections() // what servers do after a few idle seconds
	if r := p.one(t.Context(), time.Time{}); r.Outcome != result.Success && r.Outcome != result.Truncated {
		t.Errorf("outcome %s (%v)", r.Outcome, r.Err)
	}
}

// One probe is one request, whatever the server does.
func TestSingleAttempt(t *testing.T) {
	var requests atomic.Int64
	s := chat(t, func(http.ResponseWriter, *http.Request) {
		requests.Add(1)
		panic(http.ErrAbortHandler)
	})
	for _, c := range []config.Connection{config.ConnectionNew, config.ConnectionReuse} {
		m := newModule()
		m.Connection = c
		requests.Store(0)
		newProber(t, newEndpoint(t, s.URL), m).one(t.Context(), time.Time{})
		if n := requests.Load(); n != 1 {
			t.Errorf("connection %s: %d requests, want 1", c, n)
		}
	}
}

func TestTokensByEvents(t *testing.T) {
	s := chat(t, func(w http.ResponseWriter, _ *http.Request) { events(w, role, one, one, one, stop, endMarker) })
	r := newProber(t, newEndpoint(t, s.URL), newModule()).one(t.Context(), time.Time{})
	want := result.Tokens{Prompt: -1, Cached: -1, Output: 3, Reasoning: -1, Source: result.TokensFromEvents}
	if diff := cmp.Diff(want, r.Tokens); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
}

// With a running count, an event reports how many tokens it carries, and a
// token whose text is empty is one.
func TestContinuousUsage(t *testing.T) {
	event := func(text string, n int) string {
		return fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":%q}}],"usage":{"prompt_tokens":20,"completion_tokens":%d}}`, text, n)
	}
	s := chat(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if !strings.Contains(string(body), `"continuous_usage_stats":true`) {
			t.Errorf("body %s, want continuous usage asked of vLLM", body)
		}
		events(w, event("", 0), event("a b", 2), event("", 3), event("c", 4), stop, endMarker)
	})
	cfg := newEndpoint(t, s.URL)
	cfg.Model = ""
	r := newProber(t, cfg, newModule()).one(t.Context(), time.Time{})
	var got []int
	for _, e := range r.Events {
		got = append(got, e.Tokens)
	}
	if diff := cmp.Diff([]int{2, 1, 1}, got); diff != "" {
		t.Errorf("%s (%v): tokens of the events (-want +got):\n%s", r.Outcome, r.Err, diff)
	}
}

// The endpoint's own changes reach the server; a refused parameter is named
// in the reason.
func TestQuirks(t *testing.T) {
	bodies := make(chan string, 1)
	s := chat(t, http.NotFound)
	mux := http.NewServeMux()
	mux.HandleFunc("POST /custom%20path", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies <- string(body) + r.Header.Get("Accept")
		events(w, one, stop, endMarker)
	})
	s.Config.Handler = mux
	cfg := newEndpoint(t, s.URL)
	cfg.Request = config.Request{
		Omit: []string{"temperature"}, Extra: map[string]any{"seed": 7},
		Path: "/custom%20path", MaxTokensField: "max_completion_tokens",
	}
	cfg.HTTP.HTTPHeaders = &promconfig.Headers{Headers: map[string]promconfig.Header{"Accept": {Values: []string{"*/*"}}}}
	r := newProber(t, cfg, newModule()).one(t.Context(), time.Time{})
	if r.Outcome != result.Success {
		t.Fatalf("outcome %s: %v", r.Outcome, r.Err)
	}
	body := <-bodies
	for _, want := range []string{`"max_completion_tokens":16`, `"seed":7`, `}*/*`} {
		if !strings.Contains(body, want) {
			t.Errorf("body %s, want %s in it", body, want)
		}
	}
	if strings.Contains(body, "temperature") || strings.Contains(body, `"max_tokens"`) {
		t.Errorf("body %s, want neither temperature nor max_tokens", body)
	}
}

func TestRefusedParameterIsNamed(t *testing.T) {
	f := func(param, want string) {
		t.Helper()
		s := chat(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":{"message":"Unsupported value","param":%q,"code":"unsupported_value"}}`, param)
		})
		r := newProber(t, newEndpoint(t, s.URL), newModule()).one(t.Context(), time.Time{})
		if r.Outcome != result.HTTPError || !strings.Contains(fmt.Sprint(r.Err), want) {
			t.Errorf("outcome %s: %v, want %s", r.Outcome, r.Err, want)
		}
	}
	f("temperature", `add "temperature" to request.omit`)
	f("max_tokens", "max_tokens_field of the endpoint to max_completion_tokens")
}

// A count of tokens past any cap is not believed.
func TestAbsurdOutputCount(t *testing.T) {
	s := chat(t, func(w http.ResponseWriter, _ *http.Request) {
		events(w, one, one, stop, `{"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":99999999}}`, endMarker)
	})
	r := newProber(t, newEndpoint(t, s.URL), newModule()).one(t.Context(), time.Time{})
	if r.Tokens.Output != 2 || r.Tokens.Source != result.TokensFromEvents || r.Buffered {
		t.Errorf("tokens %+v, buffered %t; want 2 by events", r.Tokens, r.Buffered)
	}
}

func TestRetryAfter(t *testing.T) {
	s := chat(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	r := newProber(t, newEndpoint(t, s.URL), newModule()).one(t.Context(), time.Time{})
	if r.Outcome != result.RateLimited || r.RetryAfter != 7*time.Second {
		t.Errorf("outcome %s, retry after %s", r.Outcome, r.RetryAfter)
	}
}

// one makes a run of one request.
func (p *Prober) one(ctx context.Context, due time.Time) *result.Result { return p.all(ctx, due)[0] }

// all returns the results of a run, none where it is skipped.
func (p *Prober) all(ctx context.Context, due time.Time) []*result.Result {
	results, _ := p.Run(ctx, due)
	return results
}

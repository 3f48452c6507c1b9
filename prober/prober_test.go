package prober

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

func newPair() *config.Module {
	m := newModule()
	m.Prefix = config.PrefixPaired
	return m
}

// The first of a pair finds nothing in the cache, and the second what the
// server says.
func TestPair(t *testing.T) {
	s, url := startSimulator(t)
	for _, c := range []config.Connection{config.ConnectionNew, config.ConnectionReuse} {
		m := newPair()
		m.Connection, m.InputTokens, m.OutputTokens = c, config.Tokens(1000), config.Tokens(4)
		cfg := newEndpoint(t, url)
		cfg.Model = "simulated-8b"
		p := newProber(t, cfg, m)
		for range 3 {
			results := p.all(t.Context(), time.Now())
			if len(results) != 2 || results[0].Outcome != result.Success || results[1].Outcome != result.Success {
				t.Fatalf("%d results, %s first: %v", len(results), results[0].Outcome, results[0].Err)
			}
			cold, warm := results[0], results[1]
			if cold.Prefix != "cold" || warm.Prefix != "warm" || !warm.Scheduled.IsZero() || warm.StartLag != result.Absent {
				t.Errorf("prefixes %q, %q; the second scheduled %s", cold.Prefix, warm.Prefix, warm.Scheduled)
			}
			if cold.Tokens.Cached != 0 || cold.Tokens.Prompt != warm.Tokens.Prompt {
				t.Errorf("%d tokens cached of %d, then of %d; want the same cold prompt", cold.Tokens.Cached, cold.Tokens.Prompt, warm.Tokens.Prompt)
			}
			if warm.Reused != (c == config.ConnectionReuse) {
				t.Errorf("connection %s: reused %t", c, warm.Reused)
			}
			for _, r := range results {
				checkConsistent(t, r)
				rec, events := written(t, s, r)
				if r.Tokens.Cached != rec.CachedTokens || r.Length != 1000 {
					t.Errorf("%s: %d cached, made to %d; the server had %d", r.Prefix, r.Tokens.Cached, r.Length, rec.CachedTokens)
				}
				// It was sent before it arrived, and the token written before it came.
				if least := events[0].At.Sub(rec.Arrival); r.Timing.TTFT < least || r.Sent.After(rec.Arrival) {
					t.Errorf("%s: TTFT %s, sent %s; the server took %s from %s", r.Prefix, r.Timing.TTFT, r.Sent, least, rec.Arrival)
				}
			}
			if warm.Tokens.Cached < 900 {
				t.Errorf("%d tokens of the second prompt cached", warm.Tokens.Cached)
			}
		}
	}
}

// asked is what a server was asked.
type asked struct {
	mu      sync.Mutex
	bodies  []string
	headers []http.Header
}

// take keeps a request and returns how many there have been.
func (a *asked) take(r *http.Request) int {
	body, _ := io.ReadAll(r.Body)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bodies, a.headers = append(a.bodies, string(body)), append(a.headers, r.Header)
	return len(a.bodies)
}

// count returns how many requests there were.
func (a *asked) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.bodies)
}

// body returns the body of a request.
func (a *asked) body(i int) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.bodies[i]
}

// Both requests of a pair are the same, and carry the same value for a
// balancer; another pair has another one, and other probes none.
func TestPairIsTheSame(t *testing.T) {
	const header = "X-Session-Id"
	var a asked
	s := chat(t, func(w http.ResponseWriter, r *http.Request) {
		a.take(r)
		events(w, one, stop, endMarker)
	})
	cfg := newEndpoint(t, s.URL)
	cfg.Request.StickyHeader = header
	p := newProber(t, cfg, newPair())
	p.endpoint.lookedUpAt = time.Now() // no question for the models between
	p.all(t.Context(), time.Time{})
	p.all(t.Context(), time.Time{})
	newProber(t, cfg, newModule()).all(t.Context(), time.Time{})
	a.mu.Lock()
	defer a.mu.Unlock()
	var ids []string
	for _, h := range a.headers {
		ids = append(ids, h.Get(header))
	}
	if len(ids) != 5 || len(ids[0]) != 32 || ids[0] != ids[1] || ids[2] != ids[3] || ids[1] == ids[2] || ids[4] != "" {
		t.Errorf("%s: %q", header, ids)
	}
	if a.bodies[0] != a.bodies[1] || a.bodies[2] != a.bodies[3] || a.bodies[0] == a.bodies[2] {
		t.Errorf("bodies of two pairs:\n%s", strings.Join(a.bodies[:4], "\n"))
	}
}

func TestPairEndsWithAFailure(t *testing.T) {
	var a asked
	s := chat(t, func(w http.ResponseWriter, r *http.Request) {
		a.take(r)
		w.WriteHeader(http.StatusInternalServerError)
	})
	results := newProber(t, newEndpoint(t, s.URL), newPair()).all(t.Context(), time.Time{})
	if len(results) != 1 || results[0].Outcome != result.HTTPError || results[0].Prefix != "cold" || a.count() != 1 {
		t.Errorf("%d results, %d requests, first %+v", len(results), a.count(), results[0])
	}
}

// A mix draws lengths of prompts and answers, and reports them.
func TestMix(t *testing.T) {
	_, url := startSimulator(t)
	m := newModule()
	m.InputTokens = config.Lengths{Mix: []config.WeightedLength{{Tokens: 200, Weight: 1}, {Tokens: 600, Weight: 1}}}
	m.OutputTokens = config.Lengths{Mix: []config.WeightedLength{{Tokens: 2, Weight: 1}, {Tokens: 5, Weight: 1}}}
	cfg := newEndpoint(t, url)
	cfg.Model = "simulated-8b"
	p := newProber(t, cfg, m)
	inputs, outputs := map[int]int{}, map[int]int{}
	for i := range 40 {
		r := p.one(t.Context(), time.Time{})
		if r.Outcome != result.Success {
			t.Fatalf("outcome %s: %v", r.Outcome, r.Err)
		}
		inputs[r.Length]++
		outputs[r.Tokens.Output]++
		if off := float64(r.Tokens.Prompt)/float64(r.Length) - 1; i > 10 && (off < -0.05 || off > 0.05) {
			t.Errorf("prompt of %d tokens, made to %d", r.Tokens.Prompt, r.Length)
		}
	}
	// Each misses 40 draws once in 2^39 runs.
	if len(inputs) != 2 || inputs[200] == 0 || inputs[600] == 0 || len(outputs) != 2 || outputs[2] == 0 || outputs[5] == 0 {
		t.Errorf("inputs %v, outputs %v", inputs, outputs)
	}
}

// limited serves a model with so much room, and counts a token and a half for
// each word. It refuses what does not fit.
func limited(t *testing.T, room int, a *asked) *httptest.Server {
	t.Helper()
	return limitedTo(t, func() int { return room }, a)
}

// limitedTo is the same for a room that changes.
func limitedTo(t *testing.T, room func() int, a *asked) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"data":[{"id":"other","max_model_len":7},{"id":"m","max_model_len":%d}]}`, room())
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Messages []struct{ Content string }
			Max      int `json:"max_tokens"`
		}
		n := a.take(r)
		if err := json.Unmarshal([]byte(a.body(n-1)), &body); err != nil {
			t.Error(err)
		}
		tokens := len(strings.Fields(body.Messages[0].Content)) * 3 / 2
		if tokens+body.Max > room() {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		events(w, one, stop, fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":1}}`, tokens), endMarker)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// A length that nearly fills the model is reached without a refusal, although
// the first guess at the words would not fit; a longer one is not asked.
func TestContextLength(t *testing.T) {
	f := func(name string, prefix config.Prefix, input, output int, want bool) {
		t.Helper()
		var a asked
		s := limited(t, 8192, &a)
		m := newModule()
		m.Prefix, m.InputTokens, m.OutputTokens = prefix, config.Tokens(input), config.Tokens(output)
		p := newFreshProber(t, newEndpoint(t, s.URL), m)
		var last *result.Result
		for range 4 {
			results := p.all(t.Context(), time.Time{})
			if (len(results) > 0) != want {
				t.Fatalf("%s: %d results, want some: %t", name, len(results), want)
			}
			for _, r := range results {
				if last = r; r.Outcome != result.Success {
					t.Fatalf("%s: outcome %s of %d tokens: %v", name, r.Outcome, r.Length, r.Err)
				}
			}
		}
		if got := p.endpoint.ContextLength(); got != 8192 {
			t.Errorf("%s: context of %d tokens, want 8192", name, got)
		}
		if !want {
			if a.count() > 0 {
				t.Errorf("%s: %d requests", name, a.count())
			}
			return
		}
		if off := float64(last.Tokens.Prompt)/float64(input) - 1; off < -0.02 || off > 0.02 || last.Length != input {
			t.Errorf("%s: prompt of %d tokens, made to %d, want %d within 2 %%", name, last.Tokens.Prompt, last.Length, input)
		}
	}
	f("nearly all", config.PrefixCold, 8000, 32, true)
	f("a pair", config.PrefixPaired, 8000, 32, true)
	f("no room for the answer", config.PrefixCold, 8000, 33, false)
	f("a pair without room", config.PrefixPaired, 8000, 200, false)
	f("too long", config.PrefixCold, 32000, 32, false)
}

func TestBurstWithoutRoom(t *testing.T) {
	var a asked
	m := newBurst(1, 2)
	m.InputTokens = config.Tokens(9000)
	if results := newFreshProber(t, newEndpoint(t, limited(t, 8192, &a).URL), m).all(t.Context(), time.Time{}); len(results)+a.count() != 0 {
		t.Errorf("%d results, %d requests", len(results), a.count())
	}
}

// A request that an embedding endpoint cannot answer is refused with what to change.
func TestEmbeddingEndpointRefusesQuestions(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	f := func(want string, set func(*config.Module)) {
		t.Helper()
		cfg := newEndpoint(t, s.URL)
		cfg.API = "openai-embeddings"
		m := newModule()
		m.BatchSize = 2
		set(m)
		results := newProber(t, cfg, m).all(t.Context(), time.Time{})
		if len(results) != 1 || results[0].Outcome != result.ProtocolError || results[0].Kind != api.Embedding ||
			!strings.Contains(fmt.Sprint(results[0].Err), want) || !strings.Contains(fmt.Sprint(results[0].Err), "leave it out") {
			t.Errorf("%d results, %s: %v; want %s", len(results), results[0].Outcome, results[0].Err, want)
		}
	}
	f("questions", func(m *config.Module) { m.Questions = true })
	f("prompt ", func(m *config.Module) { m.Prompt = "Hi" })
	f("prompts_file", func(m *config.Module) {
		m.PromptsFile, m.Prompts = "p.jsonl", []config.Prompt{{Messages: []api.Message{{Role: "user", Content: "Hi"}}, Weight: 1}}
	})
	f("reference_logprob", func(m *config.Module) { m.ReferenceLogprob = true })
	f("prefix: paired", func(m *config.Module) { m.Prefix = config.PrefixPaired })
	f("prefix: conversation", func(m *config.Module) { m.Prefix, m.Turns = config.PrefixConversation, 2 })
}

// A panic is one failed request, and not the end of the others.
func TestPanic(t *testing.T) {
	s := chat(t, answerOne)
	p := newProber(t, newEndpoint(t, s.URL), newBurst(2))
	at := p.endpoint.target.protocol.URL
	var once sync.Once
	p.endpoint.target.protocol.URL = func(base *url.URL, model string) *url.URL {
		once.Do(func() { panic("a fault of ours") })
		return at(base, model)
	}
	results := p.all(t.Context(), time.Time{})
	if diff := cmp.Diff(map[int]map[result.Outcome]int{2: {result.Success: 1, result.ProtocolError: 1}}, outcomes(results)); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	p.questions = nil
	results = p.all(t.Context(), time.Time{})
	if len(results) != 1 || results[0].Outcome != result.ProtocolError || !strings.Contains(fmt.Sprint(results[0].Err), "panic") {
		t.Errorf("%d results: %v", len(results), results[0].Err)
	}
}

// A model whose context is too small is looked up again: another may be served.
func TestContextGrows(t *testing.T) {
	var a asked
	var room atomic.Int64
	room.Store(2048)
	s := limitedTo(t, func() int { return int(room.Load()) }, &a)
	m := newModule()
	m.InputTokens = config.Tokens(8000)
	p := newFreshProber(t, newEndpoint(t, s.URL), m)
	run := func() int { return len(p.all(t.Context(), time.Time{})) }
	if n := run(); n != 0 {
		t.Fatalf("%d results without room", n)
	}
	room.Store(16384)
	if n := run(); n != 0 {
		t.Fatalf("%d results: asked again at once", n)
	}
	p.endpoint.mu.Lock()
	p.endpoint.lookedUpAt = p.endpoint.lookedUpAt.Add(-lookupInterval)
	p.endpoint.mu.Unlock()
	if n := run(); n != 1 || p.endpoint.ContextLength() != 16384 {
		t.Errorf("%d results, context of %d tokens, want 1 and 16384", n, p.endpoint.ContextLength())
	}
}

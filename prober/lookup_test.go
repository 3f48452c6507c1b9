package prober

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// modelServer lists the given models and answers any generation; it counts
// the questions for its models.
type modelServer struct {
	*httptest.Server

	mu    sync.Mutex
	list  string
	fails bool
	asked int
}

func newModelServer(t *testing.T, ids ...string) *modelServer {
	s := &modelServer{}
	s.setModels(ids...)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked++
		io.WriteString(w, s.list)
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.fails {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		events(w, one, stop, endMarker)
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

// setFails makes generation fail from now on, or not.
func (s *modelServer) setFails(fails bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fails = fails
}

// questions returns how often the list was asked for since the last call.
func (s *modelServer) questions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.asked
	s.asked = 0
	return n
}

func (s *modelServer) setModels(ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var items []string
	for _, id := range ids {
		items = append(items, fmt.Sprintf(`{"id":%q}`, id))
	}
	s.list = `{"data":[` + strings.Join(items, ",") + `]}`
}

func TestModelIsAskedOnce(t *testing.T) {
	s := newModelServer(t, "llama")
	cfg := newEndpoint(t, s.URL)
	cfg.Model = ""
	p := newProber(t, cfg, newModule())
	for range 3 {
		if r := p.one(t.Context(), time.Time{}); r.Outcome != result.Success || r.Model != "llama" {
			t.Fatalf("outcome %s (%v), model %q", r.Outcome, r.Err, r.Model)
		}
	}
	if n := s.questions(); n != 1 {
		t.Errorf("asked %d times for the models, want 1", n)
	}
}

func TestModelIsAskedAgainAfterAFailure(t *testing.T) {
	s := newModelServer(t, "old")
	cfg := newEndpoint(t, s.URL)
	cfg.Model = ""
	p := newProber(t, cfg, newModule())
	p.one(t.Context(), time.Time{})
	s.setModels("new")
	s.setFails(true)
	if r := p.one(t.Context(), time.Time{}); r.Outcome != result.HTTPError || r.Model != "old" {
		t.Fatalf("outcome %s, model %q", r.Outcome, r.Model)
	}
	p.endpoint.lookedUpAt = time.Now().Add(-lookupInterval)
	s.setFails(false)
	if r := p.one(t.Context(), time.Time{}); r.Outcome != result.Success || r.Model != "new" {
		t.Errorf("outcome %s, model %q; want success with the new model", r.Outcome, r.Model)
	}
	// A failure right after does not make it ask before every probe.
	s.setFails(true)
	s.questions()
	p.one(t.Context(), time.Time{})
	p.one(t.Context(), time.Time{})
	if n := s.questions(); n != 0 {
		t.Errorf("asked %d times within %s, want 0", n, lookupInterval)
	}
}

func TestModelUnknown(t *testing.T) {
	cfg := newEndpoint(t, newModelServer(t).URL)
	cfg.Model = ""
	r := newProber(t, cfg, newModule()).one(t.Context(), time.Time{})
	if r.Outcome != result.ProtocolError || !strings.Contains(fmt.Sprint(r.Err), "no model") {
		t.Errorf("outcome %s (%v), want %s for no model", r.Outcome, r.Err, result.ProtocolError)
	}
}

// Without a configured protocol the endpoint is asked what it speaks.
func TestAPIIsFoundOut(t *testing.T) {
	_, url := startSimulator(t)
	cfg := newEndpoint(t, url)
	cfg.API, cfg.Model = "", ""
	r := newProber(t, cfg, newModule()).one(t.Context(), time.Time{})
	if r.Outcome != result.Success || r.API != "openai-chat" || r.Engine != "vllm" || r.Model != "simulated-8b" {
		t.Errorf("outcome %s (%v), api %q, engine %q, model %q", r.Outcome, r.Err, r.API, r.Engine, r.Model)
	}
}

func TestAPIIsNotFoundOut(t *testing.T) {
	f := func(name string, want result.Outcome, answer http.HandlerFunc) {
		t.Helper()
		s := httptest.NewServer(answer)
		t.Cleanup(s.Close)
		cfg := newEndpoint(t, s.URL)
		cfg.API, cfg.Model = "", ""
		r := newProber(t, cfg, newModule()).one(t.Context(), time.Time{})
		if r.Outcome != want || r.Kind != "" && want == result.ProtocolError {
			t.Errorf("%s: outcome %s (%v) of kind %q, want %s", name, r.Outcome, r.Err, r.Kind, want)
		}
	}
	f("key wanted", result.Unauthorized, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	f("a web page for everything", result.ProtocolError, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, "<html></html>")
	})
	f("cut", result.Truncated, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
}

// A configured model needs no list: many hosted endpoints have none.
func TestConfiguredModelNeedsNoList(t *testing.T) {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, _ *http.Request) {
		events(w, one, stop, endMarker)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	r := newProber(t, newEndpoint(t, s.URL), newModule()).one(t.Context(), time.Time{})
	if r.Outcome != result.Success || r.Model != "m" {
		t.Errorf("outcome %s (%v), model %q", r.Outcome, r.Err, r.Model)
	}
}

// Of a model and its adapters the model is asked.
func TestAdaptersAreNoModels(t *testing.T) {
	s := newModelServer(t)
	s.list = `{"object":"list","data":[{"id":"tuned","owned_by":"vllm","parent":"base"},{"id":"base","owned_by":"vllm","parent":null,"max_model_len":4096},{"id":"other","owned_by":"vllm","parent":"base"}]}`
	for _, apiName := range []string{"", "openai-chat"} {
		cfg := newEndpoint(t, s.URL)
		cfg.API, cfg.Model = apiName, ""
		if r := newProber(t, cfg, newModule()).one(t.Context(), time.Time{}); r.Outcome != result.Success || r.Model != "base" {
			t.Errorf("api %q: outcome %s (%v), model %q", apiName, r.Outcome, r.Err, r.Model)
		}
	}
}

// Which of several models to ask is for the configuration to say: nothing is
// asked, and nothing failed.
func TestSeveralModels(t *testing.T) {
	var many []string
	for i := range 3000 {
		many = append(many, fmt.Sprintf("model-%04d-with-a-name-that-is-rather-long", i))
	}
	for _, apiName := range []string{"", "openai-chat"} {
		for _, ids := range [][]string{{"a", "b"}, many} {
			s := newModelServer(t, ids...)
			cfg := newEndpoint(t, s.URL)
			cfg.API, cfg.Model = apiName, ""
			p := newProber(t, cfg, newModule())
			results, skip := p.Run(t.Context(), time.Time{})
			if len(results) != 0 || skip == nil || skip.Reason != result.SkipModel {
				t.Fatalf("%d results, %v", len(results), skip)
			}
			for _, want := range []string{"set model", ids[0], ids[1], fmt.Sprint(len(ids))} {
				if !strings.Contains(skip.Text, want) || len(skip.Text) > 1024 {
					t.Errorf("%d models: %q does not hold %q, or is too long", len(ids), skip.Text, want)
				}
			}
			// The server is not asked before every run.
			s.questions()
			if _, again := p.Run(t.Context(), time.Time{}); again == nil || again.Reason != result.SkipModel || s.questions() != 0 {
				t.Errorf("the next run: %v", again)
			}
			// One model less, and there is nothing to say.
			s.setModels("b")
			p.endpoint.mu.Lock()
			p.endpoint.lookedUpAt = p.endpoint.lookedUpAt.Add(-lookupInterval)
			p.endpoint.mu.Unlock()
			if r := p.one(t.Context(), time.Time{}); r.Outcome != result.Success || r.Model != "b" {
				t.Errorf("outcome %s (%v), model %q", r.Outcome, r.Err, r.Model)
			}
		}
	}
}

// The engine that a list of models names is the same with an api set as without.
func TestEngineByOwner(t *testing.T) {
	for owner, want := range map[string]string{
		"vllm": "vllm", "sglang": "sglang", "lmdeploy": "lmdeploy", "Triton Inference Server": "triton",
		"tensorrt_llm": "trtllm", "llamacpp": "llamacpp", "library": "ollama", "acme": "",
	} {
		url := listen(t, pages(func(path string) (int, string) {
			switch path {
			case "/v1/models":
				return 200, fmt.Sprintf(`{"object":"list","data":[{"id":"m","object":"model","owned_by":%q}]}`, owner)
			case "/v1/chat/completions":
				return 200, answered("m")
			}
			return 404, ""
		}))
		for _, apiName := range []string{"", "openai-chat"} {
			for _, name := range []string{"", "m"} {
				cfg := newEndpoint(t, url)
				cfg.API, cfg.Model = apiName, name
				if r := newFreshProber(t, cfg, newModule()).one(t.Context(), time.Time{}); r.Outcome != result.Success || r.Engine != want {
					t.Errorf("owner %q, api %q, model %q: outcome %s, engine %q, want %q", owner, apiName, name, r.Outcome, r.Engine, want)
				}
			}
		}
	}
}

// A front end without workers lists no model: that is the failure, not what is
// missing elsewhere.
func TestNoModels(t *testing.T) {
	s := newModelServer(t)
	s.list = `{"object":"list","data":[]}`
	for _, apiName := range []string{"", "openai-chat"} {
		cfg := newEndpoint(t, s.URL)
		cfg.API, cfg.Model = apiName, ""
		r := newProber(t, cfg, newModule()).one(t.Context(), time.Time{})
		if r.Outcome != result.ProtocolError || !strings.Contains(fmt.Sprint(r.Err), "lists no model") {
			t.Errorf("api %q: outcome %s (%v)", apiName, r.Outcome, r.Err)
		}
	}
}

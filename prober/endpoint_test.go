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

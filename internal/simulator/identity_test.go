package simulator

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestIdentity asks for pages that one server software has and others have
// not, also behind a fault, which only generation shows.
func TestIdentity(t *testing.T) {
	get := func(s *Server, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return w
	}
	f := func(engine, path string, status int, want any) {
		t.Helper()
		s := New(Options{Model: "m", Engine: engine})
		for _, at := range []string{path, "/fault/status_503" + path} {
			w := get(s, at)
			var got any
			if w.Code == http.StatusOK && json.Unmarshal(w.Body.Bytes(), &got) != nil {
				got = w.Body.String()
			}
			if w.Code != status {
				t.Errorf("%s %s: status %d", engine, at, w.Code)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s %s: %s", engine, at, d)
			}
		}
	}
	f("vllm", "/version", 200, map[string]any{"version": "0.18.0"})
	f("vllm", "/health", 200, "")
	f("vllm", "/info", 404, nil)
	f("", "/version", 200, map[string]any{"version": "0.18.0"}) // the default
	f("no such engine", "/version", 200, map[string]any{"version": "0.18.0"})
	f("triton", "/v1/models", 404, nil)
	f("triton", "/v2/health/ready", 200, "")
	f("llamacpp", "/health", 200, map[string]any{"status": "ok"})
	f("ollama", "/", 200, "Ollama is running")
	f("ollama", "/api/version", 200, map[string]any{"version": "0.17.4"})
	f("ollama", "/health", 404, nil)
	f("nim", "/v1/version", 200, map[string]any{"release": "1.8.4", "api": "1.8.4"})

	owners := map[string]any{}
	for _, engine := range Engines() {
		w := get(New(Options{Model: "m", Engine: engine}), "/v1/models")
		if w.Code != http.StatusOK {
			continue
		}
		var list struct {
			Data []struct {
				ID      string
				OwnedBy string `json:"owned_by"`
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || len(list.Data) != 1 || list.Data[0].ID != "m" {
			t.Errorf("%s: %v in %s", engine, err, w.Body)
			continue
		}
		owners[engine] = list.Data[0].OwnedBy + " " + w.Header().Get("Server")
	}
	want := map[string]any{
		"vllm": "vllm ", "sglang": "sglang ", "tgi": "m ", "trtllm": "tensorrt_llm ", "llamacpp": "llamacpp llama.cpp",
		"ollama": "library ", "lmdeploy": "lmdeploy ", "litellm": "openai ", "nim": "system ", "dynamo": "nvidia ",
	}
	if d := cmp.Diff(want, owners); d != "" {
		t.Error(d)
	}
}

// TestContextLength has the longest sequence as the servers report it with their
// model, where they do.
func TestContextLength(t *testing.T) {
	lengths := map[string]any{}
	for _, engine := range Engines() {
		w := httptest.NewRecorder()
		s := New(Options{Engine: engine, ContextLength: 5000})
		s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/models", nil))
		var list struct {
			Data []struct {
				MaxModelLen int `json:"max_model_len"`
				Meta        struct {
					Context int `json:"n_ctx"`
				}
			}
		}
		if w.Code != http.StatusOK {
			continue
		}
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil {
			t.Fatal(err)
		}
		if n := list.Data[0].MaxModelLen + list.Data[0].Meta.Context; n > 0 {
			lengths[engine] = n
		}
	}
	if d := cmp.Diff(map[string]any{"vllm": 5000, "sglang": 5000, "nim": 5000, "llamacpp": 5000}, lengths); d != "" {
		t.Error(d)
	}
}

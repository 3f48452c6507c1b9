package detect

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
)

// TestSimulatedServers asks each simulated server over HTTP, and loads the
// configuration that comes of it.
func TestSimulatedServers(t *testing.T) {
	type found struct {
		API, Engine, Version, Model string
		Questions                   int
	}
	want := map[string]found{
		"vllm":     {"openai-chat", "vllm", "0.18.0", "simulated-8b", 2},
		"sglang":   {"openai-chat", "sglang", "0.5.11", "simulated-8b", 2},
		"tgi":      {"openai-chat", "tgi", "3.3.6", "simulated-8b", 2},
		"trtllm":   {"openai-chat", "trtllm", "1.2.0", "simulated-8b", 2},
		"triton":   {"triton", "triton", "2.60.0", "simulated-8b", 5},
		"llamacpp": {"openai-chat", "llamacpp", "b10519-0a1b2c3d", "simulated-8b", 2},
		"ollama":   {"openai-chat", "ollama", "0.17.4", "simulated-8b", 2},
		"lmdeploy": {"openai-chat", "lmdeploy", "", "simulated-8b", 1},
		"tei":      {"tei", "tei", "1.9.3", "simulated-8b", 2},
		"litellm":  {"openai-chat", "litellm", "1.93.0", "simulated-8b", 6},
		"nim":      {"openai-chat", "nim", "1.8.4", "simulated-8b", 5},
		"dynamo":   {"openai-chat", "dynamo", "", "simulated-8b", 1},
	}
	got := map[string]found{}
	for _, engine := range simulator.Engines() {
		s := httptest.NewServer(simulator.New(simulator.Options{Engine: engine}).Handler())
		at := parse(t, s.URL)
		f, err := Detect(t.Context(), at, getVia(s.Client()))
		s.Close()
		if err != nil || len(f.Models) != 1 {
			t.Errorf("%s: %+v, %v", engine, f, err)
			continue
		}
		got[engine] = found{f.API, f.Engine, f.Version, f.Models[0].ID, len(f.Evidence)}
		cfg, err := config.Parse([]byte(Stanza(f, at)), "stanza")
		if err != nil {
			t.Errorf("%s: %v", engine, err)
			continue
		}
		e := cfg.Endpoints[0]
		if e.URL.String() != s.URL || e.API != f.API || e.Model != f.Models[0].ID {
			t.Errorf("%s: endpoint %+v", engine, e)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func getVia(client *http.Client) Getter {
	return func(ctx context.Context, url string) (*Reply, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		resp, err := client.Do(req)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return &Reply{Status: resp.StatusCode, Header: resp.Header, Body: body}, err
	}
}

package prober

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload/drift"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

func newReferenceTexts() *config.Module {
	m := newModule()
	m.InputTokens, m.Prefix, m.ReferenceTexts = config.Lengths{}, config.PrefixWarm, true
	return m
}

// Each vector is that of its text, in whichever order and form the server has them.
func TestReferenceTextsAreEmbedded(t *testing.T) {
	texts := drift.Reference().Texts
	want := make([][]float32, len(texts))
	for i, text := range texts {
		want[i] = []float32{float32(len(text)), 1}
	}
	for _, backwards := range []bool{false, true} {
		mux := http.NewServeMux()
		mux.HandleFunc("POST /v1/embeddings", func(w http.ResponseWriter, r *http.Request) {
			var asked struct{ Input []string }
			if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || !slices.Equal(asked.Input, texts) {
				t.Errorf("asked %q: %v", asked.Input, err)
			}
			var items []string
			for i, text := range asked.Input {
				items = append(items, fmt.Sprintf(`{"index":%d,"embedding":[%d,1]}`, i, len(text)))
			}
			if backwards {
				slices.Reverse(items)
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"data":[%s],"usage":{"prompt_tokens":200}}`, strings.Join(items, ","))
		})
		s := httptest.NewServer(mux)
		t.Cleanup(s.Close)
		cfg := newEndpoint(t, s.URL)
		cfg.API, cfg.Model = "openai-embeddings", "m"
		r := newProber(t, cfg, newReferenceTexts()).one(t.Context(), time.Time{})
		if r.Outcome != result.Success || r.Vectors.Items != len(texts) || r.Tokens.Prompt != 200 {
			t.Fatalf("outcome %s (%v), %+v, %+v", r.Outcome, r.Err, r.Vectors, r.Tokens)
		}
		if diff := cmp.Diff(want, r.Values); diff != "" {
			t.Errorf("backwards %t (-want +got):\n%s", backwards, diff)
		}
	}
}

// The simulated server's vectors and scores are the same each time, by every protocol
// that has them, until its weights are others. Other modules keep none.
func TestReferenceTextsOfTheSimulator(t *testing.T) {
	sim, url := startSimulator(t)
	for _, name := range []string{"openai-embeddings", "tei", "ollama-embed", "cohere-embed", "rerank"} {
		cfg := newEndpoint(t, url)
		cfg.API, cfg.Model = name, "simulated-8b"
		ask := func(m *config.Module) *result.Result {
			t.Helper()
			r := newProber(t, cfg, m).one(t.Context(), time.Time{})
			if r.Outcome != result.Success {
				t.Fatalf("%s: outcome %s (%v)", name, r.Outcome, r.Err)
			}
			return r
		}
		sim.SetWeights("v1", 0, 1)
		first, again := ask(newReferenceTexts()), ask(newReferenceTexts())
		if len(first.Values) == 0 || !cmp.Equal(first.Values, again.Values) {
			t.Errorf("%s: %v, then %v", name, first.Values, again.Values)
		}
		sim.SetWeights("v2", 0, 1)
		if other := ask(newReferenceTexts()); cmp.Equal(first.Values, other.Values) || len(other.Values[0]) != len(first.Values[0]) {
			t.Errorf("%s: the same of other weights: %v", name, other.Values)
		}
		plain := newModule()
		plain.BatchSize = 2
		if r := ask(plain); r.Values != nil {
			t.Errorf("%s: values of an ordinary probe are kept", name)
		}
	}
	chat := newEndpoint(t, url)
	chat.Model = "simulated-8b"
	r := newProber(t, chat, newReferenceTexts()).one(t.Context(), time.Time{})
	if r.Outcome != result.ProtocolError || r.Kind != api.Generation || !strings.Contains(fmt.Sprint(r.Err), "reference_texts") {
		t.Errorf("an endpoint that generates: outcome %s (%v), kind %s", r.Outcome, r.Err, r.Kind)
	}
}

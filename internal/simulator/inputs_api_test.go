package simulator

import (
	"context"
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// TestInputsAsProbed asks the faces as probes do, and decodes their replies so.
// "q one q two six" is 2 and 3 tokens for a reranker, 1 and 2 for an embedder.
func TestInputsAsProbed(t *testing.T) {
	f := func(name, base string, dimensions, prompt int, prefill time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			v := serve(t, Options{PrefillTokensPerSecond: 1000}, false)
			defer v.stop()
			p, ok := api.Lookup(name)
			if !ok {
				t.Fatalf("no protocol %s", name)
			}
			u, err := url.Parse(v.base + base)
			if err != nil {
				t.Fatal(err)
			}
			u = p.URL(u, "simulated-8b")
			body, err := p.Body(api.Params{Model: "simulated-8b", Prompt: "q", Inputs: []string{"one", "two six"}, Path: u.Path})
			if err != nil {
				t.Fatal(err)
			}
			a := v.post(context.Background(), u.Path, string(body), 1<<20)
			if a.status != http.StatusOK {
				t.Fatalf("%s: status %d, %s", u, a.status, a.body)
			}
			frame, err := stream.New(p.Framing, strings.NewReader(a.body), stream.DefaultLimits()).Next()
			if err != nil {
				t.Fatal(err)
			}
			var d api.Delta
			if err := p.NewDecoder().Decode(frame.Event, frame.Data, &d); err != nil {
				t.Fatal(err)
			}
			if d.Vectors == nil || d.Vectors.Items != 2 || d.Vectors.Dimensions != dimensions ||
				dimensions > 0 && math.Abs(d.Vectors.Norm-1) > 1e-6 || !d.Done {
				t.Errorf("%s: %+v, vectors %+v", u, d, d.Vectors)
			}
			got := api.Unknown
			if d.Usage != nil {
				got = d.Usage.Prompt
			}
			if got != prompt {
				t.Errorf("%s: %d tokens, want %d", u, got, prompt)
			}
			times := api.ServerTimes{Prefill: -1}
			if d.Server != nil {
				times = *d.Server
			} else if p.ServerTimes != nil {
				times = p.ServerTimes(a.header)
			}
			if times.Prefill != prefill {
				t.Errorf("%s: server times %+v, want prefill %v", u, times, prefill)
			}
		})
	}
	f("openai-embeddings", "", 64, 3, -1)
	f("openai-embeddings", "/v1", 64, 3, -1)
	f("tei", "", 64, api.Unknown, 3*ms)
	f("ollama-embed", "", 64, 3, 3*ms)
	f("cohere-embed", "", 64, 3, -1)
	f("rerank", "", 0, api.Unknown, 5*ms)
	f("rerank", "/v1", 0, 5, -1)
	f("rerank", "/v2", 0, api.Unknown, -1)
}

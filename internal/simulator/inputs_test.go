package simulator

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// stableVectors replaces vectors by a V and what differs from run to run.
func stableVectors(body string) string {
	return stable(regexp.MustCompile(`\[-?[0-9.]+(e-\d+)?(,-?[0-9.]+(e-\d+)?){63}\]`).ReplaceAllString(body, "V"))
}

// TestInputReplies asks every face for two texts of one and of two tokens, at
// 1000 tokens a second.
func TestInputReplies(t *testing.T) {
	f := func(path, request string, took time.Duration, want string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			v := serve(t, Options{PrefillTokensPerSecond: 1000}, false)
			defer v.stop()
			a := v.post(context.Background(), path, request, 1<<20)
			if a.status != http.StatusOK || a.err != nil || a.header.Get("Content-Type") != "application/json" || a.took != took {
				t.Errorf("%s: status %d, error %v, %s, %v", path, a.status, a.err, a.took, a.header)
			}
			if d := cmp.Diff(want, stableVectors(a.body)); d != "" {
				t.Errorf("%s (-want +got):\n%s", path, d)
			}
			r, ok := v.Request(trace)
			if !ok || !r.Complete || r.PromptTokens != int(took/ms) || r.Prefill != took || r.OutputTokens != 0 {
				t.Errorf("%s: record %+v", path, r)
			}
		})
	}
	f("/v1/embeddings", `{"model":"simulated-8b","input":["one","two six"]}`, 3*ms,
		`{"created":0,"data":[{"embedding":V,"index":0,"object":"embedding"},{"embedding":V,"index":1,"object":"embedding"}],"id":"embd-ID",`+
			`"model":"simulated-8b","object":"list","usage":{"completion_tokens":0,"prompt_tokens":3,"total_tokens":3}}`)
	f("/v1/embeddings", `{"input":"one"}`, ms,
		`{"created":0,"data":[{"embedding":V,"index":0,"object":"embedding"}],"id":"embd-ID",`+
			`"model":"simulated-8b","object":"list","usage":{"completion_tokens":0,"prompt_tokens":1,"total_tokens":1}}`)
	f("/embed", `{"inputs":["one","two six"]}`, 3*ms, `[V,V]`)
	f("/embed", `{"inputs":"one"}`, ms, `[V]`)
	f("/api/embed", `{"model":"simulated-8b","input":["one","two six"]}`, 3*ms,
		`{"embeddings":[V,V],"load_duration":1,"model":"simulated-8b","prompt_eval_count":3,"total_duration":3000001}`)
	f("/v2/embed", `{"model":"simulated-8b","input_type":"search_document","texts":["one","two six"],"embedding_types":["float"]}`, 3*ms,
		`{"embeddings":{"float":[V,V]},"id":"ID","meta":{"api_version":{"version":"2"},"billed_units":{"input_tokens":3},"tokens":{"input_tokens":3}},"response_type":"embeddings_by_type"}`)

	// A query is read beside each text. The second text is all in it.
	f("/rerank", `{"query":"two six","texts":["one","two six"],"documents":["ignored"]}`, 7*ms, `[{"index":1,"score":1},{"index":0,"score":0}]`)
	f("/v1/rerank", `{"model":"simulated-8b","query":"two","documents":["one","two six"]}`, 5*ms,
		`{"id":"rerank-ID","model":"simulated-8b","results":[{"index":1,"relevance_score":0.5},{"index":0,"relevance_score":0}],"usage":{"prompt_tokens":5,"total_tokens":5}}`)
	f("/v2/rerank", `{"model":"simulated-8b","query":"two","documents":["one","two six"]}`, 5*ms,
		`{"id":"ID","meta":{"api_version":{"version":"2"},"billed_units":{"search_units":1}},"results":[{"index":1,"relevance_score":0.5},{"index":0,"relevance_score":0}]}`)
}

func TestVectors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{}, false)
		defer v.stop()
		embed := func(request string) (vectors [][]float32) {
			t.Helper()
			a := v.post(context.Background(), "/embed", request, 1<<20)
			if err := json.Unmarshal([]byte(a.body), &vectors); err != nil {
				t.Fatal(err)
			}
			return vectors
		}
		got := embed(`{"inputs":["one","two","one"]}`)
		if cmp.Equal(got[0], got[1]) || !cmp.Equal(got[0], got[2]) || !cmp.Equal(got, embed(`{"inputs":["one","two","one"]}`)) {
			t.Error("vectors do not depend on the text alone")
		}
		for _, vector := range got {
			sum := 0.0
			for _, f := range vector {
				sum += float64(f) * float64(f)
			}
			if len(vector) != 64 || math.Abs(sum-1) > 1e-6 {
				t.Errorf("length %d, norm %g", len(vector), math.Sqrt(sum))
			}
		}

		var reply struct {
			Data []struct{ Embedding string }
		}
		a := v.post(context.Background(), "/v1/embeddings", `{"input":"one","encoding_format":"base64"}`, 1<<20)
		if err := json.Unmarshal([]byte(a.body), &reply); err != nil {
			t.Fatal(err)
		}
		raw, err := base64.StdEncoding.DecodeString(reply.Data[0].Embedding)
		if err != nil || len(raw) != 256 || math.Float32frombits(binary.LittleEndian.Uint32(raw[4:])) != got[0][1] {
			t.Errorf("base64 %x, %v, want %v", raw, err, got[0])
		}
	})
}

func TestTEIHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{PrefillTokensPerSecond: 100}, false)
		defer v.stop()
		a := v.post(context.Background(), "/embed", `{"inputs":"one two"}`, 1<<20)
		for name, want := range map[string]string{"X-Queue-Time": "0", "X-Inference-Time": "20", "X-Total-Time": "20", "X-Compute-Tokens": "2"} {
			if got := a.header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	})
}

func TestInputRefusals(t *testing.T) {
	f := func(path, request string, status int, body string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			v := serve(t, Options{ContextLength: 16}, false)
			defer v.stop()
			a := v.post(context.Background(), path, request, 1<<20)
			if a.status != status || !strings.HasPrefix(a.body, body) {
				t.Errorf("%s %s: status %d, body %s; want %d, %s", path, request, a.status, a.body, status, body)
			}
		})
	}
	long := strings.Repeat("one ", 17)
	f("/v1/embeddings", `{"model":"other","input":"x"}`, 404, `{"error":{"message":"`)
	f("/v1/embeddings", `{"input":7}`, 400, `{"error":{"message":"`)
	f("/v1/embeddings", `{"input":[]}`, 400, `{"error":{"message":"`)
	f("/v1/embeddings", `{"input":["x"," "]}`, 400, `{"error":{"message":"`)
	f("/v1/embeddings", `{"input":["x","`+long+`"]}`, 400, `{"error":{"message":"`)
	f("/embed", `{"inputs":`, 400, `{"error":"body is not`)
	f("/embed", `{"inputs":""}`, 400, `{"error":"an input is empty","error_type":"validation"}`)
	f("/api/embed", `{"model":"other","input":"x"}`, 404, `{"error":"The model`)
	f("/v2/embed", `{"texts":[]}`, 400, `{"message":"there is no input"}`)
	f("/rerank", `{"query":"q","documents":["x"]}`, 400, `{"error":"there is no input","error_type":"validation"}`)
	f("/v1/rerank", `{"query":"q"}`, 400, `{"error":{"message":"there is no input"`)
}

func TestInputFaults(t *testing.T) {
	f := func(fault string, status int, body string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			v := serve(t, Options{}, false)
			defer v.stop()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			a := v.post(ctx, "/fault/"+fault+"/embed", `{"inputs":"one"}`, 1<<20)
			if a.status != status || !strings.HasPrefix(stableVectors(a.body), body) {
				t.Errorf("%s: status %d, body %q; want %d, %q", fault, a.status, a.body, status, body)
			}
		})
	}
	f("status_429", 429, `{"error":"Rate limit reached","error_type":"overloaded"}`)
	f("html_200", 200, "<!DOCTYPE html>")
	f("json_error_200", 200, `{"error":`)
	f("json_200", 200, `[]`)
	f("error_event_first", 200, `{"error":`)
	f("split_writes", 200, "[V]")
	f("slow_drip", 200, "[")
	f("stall_before_first_token", 200, "")
	f("close_before_headers", 0, "")
	f("many_tokens_per_event", 200, "[V]")
	f("endless_tokens", 200, "[")
}

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
			body, err := p.Body(api.Params{Model: "simulated-8b", Prompt: "q", Inputs: []string{"one", "two six"}, Path: u.Path}, new(api.Adjustment))
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
			} else if p.Headers != nil {
				_, times = p.Headers(a.header)
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

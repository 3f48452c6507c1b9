package api

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRerankReplies decodes a reply of vLLM 0.32 to eight texts (make real
// SERVERS=vllm-embedding), replies that are composed from the documentation of the
// other servers, and odd ones.
func TestRerankReplies(t *testing.T) {
	f := func(name, body string, want batch) {
		t.Helper()
		if d := cmp.Diff(want, decodeBatch(t, rerank(), strings.NewReader(body))); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	of := func(items, prompt int) batch {
		return batch{Vectors: Vectors{Items: items}, Prompt: prompt, Prefill: -1}
	}
	broken := batch{Prompt: Unknown, Prefill: -1, Broken: true}
	f("TEI", `[{"index":1,"score":0.99},{"index":0,"score":-3.5}]`, of(2, Unknown))
	f("SGLang", `[{"score":0.99,"document":"b","index":1,"meta_info":{"id":"x","prompt_tokens":7}},{"score":0.1,"document":"a","index":0,"meta_info":null}]`, of(2, Unknown))
	f("Jina", `{"model":"m","object":"list","usage":{"total_tokens":15},"results":[{"index":1,"relevance_score":0.9,"document":{"text":"b"}}]}`, of(1, 15))
	f("llama.cpp", `{"model":"m","object":"list","usage":{"prompt_tokens":14,"total_tokens":14},"results":[{"index":0,"relevance_score":-7.1},{"index":1,"relevance_score":2}]}`, of(2, 14))
	f("vLLM", string(readCapture(t, "vllm_rerank")), of(8, 2067))
	f("vLLM before", `{"id":"rerank-1","model":"m","usage":{"total_tokens":56},"results":[{"index":0,"document":{"text":"a"},"relevance_score":1.0}]}`, of(1, 56))
	f("Cohere", `{"id":"x","results":[{"index":0,"relevance_score":0.9}],"meta":{"api_version":{"version":"2"},"billed_units":{"search_units":1}}}`, of(1, Unknown))
	f("Voyage", `{"object":"list","data":[{"relevance_score":0.4,"index":0}],"model":"m","usage":{"total_tokens":26}}`, of(1, 26))
	f("no scores", `{"results":[{"index":0},{"relevance_score":null},{"score":"1"},null,7]}`, of(0, Unknown))
	f("nothing", `[]`, of(0, Unknown))
	f("error", `{"error":"Batch size error","error_type":"validation"}`, batch{Prompt: Unknown, Prefill: -1, Err: ServerError{Status: 400, Type: "validation", Message: "Batch size error"}})
	f("no list", `{"results":null}`, broken)
	f("HTML", `<html>`, broken)
}

func TestRerankBody(t *testing.T) {
	f := func(path, model, want string) {
		t.Helper()
		checkBody(t, rerank(), Params{Model: model, Prompt: "q", Inputs: []string{"a", "b"}, Path: path}, want)
	}
	f("/rerank", "", `{"query":"q","texts":["a","b"],"documents":["a","b"]}`)
	f("", "m", `{"model":"m","query":"q","texts":["a","b"],"documents":["a","b"]}`)
	f("/v1/rerank", "", `{"query":"q","documents":["a","b"]}`)
	f("/v2/rerank", "m", `{"model":"m","query":"q","documents":["a","b"]}`)
	if body, err := rerank().Body(Params{Prompt: "q"}, new(Adjustment)); err == nil {
		t.Errorf("no inputs: %s, want an error", body)
	}
}

func TestRerankURL(t *testing.T) {
	f := func(base, want string) {
		t.Helper()
		checkURL(t, "rerank", func(u *url.URL) *url.URL { return rerank().URL(u, "m") }, base, want)
	}
	f("http://tei:8080", "http://tei:8080/rerank")
	f("http://h/prefix/", "http://h/prefix/rerank")
	f("http://h/rerank", "http://h/rerank")
	f("http://h:8000/v1", "http://h:8000/v1/rerank")
	f("https://api.cohere.com/v2", "https://api.cohere.com/v2/rerank")
	f("https://api.jina.ai/v1/rerank?a=1", "https://api.jina.ai/v1/rerank?a=1")
}

func FuzzRerank(f *testing.F) { fuzzWhole(f, rerank()) }

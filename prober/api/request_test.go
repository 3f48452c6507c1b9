package api

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestProtocols(t *testing.T) {
	want := []string{
		"openai-chat", "openai-completions", "openai-responses", "ollama", "ollama-generate", "tgi", "sglang", "llamacpp", "triton",
		"anthropic", "gemini", "cohere", "bedrock", "openai-embeddings", "tei", "ollama-embed", "cohere-embed", "rerank",
	}
	if d := cmp.Diff(want, Names()); d != "" {
		t.Errorf("names (-want +got):\n%s", d)
	}
	for _, name := range Names() {
		p, ok := Lookup(name)
		if !ok || p.Name != name || p.URL == nil || p.Body == nil || p.NewDecoder() == nil {
			t.Errorf("%s: %+v", name, p)
		}
		if p.Header.Get("Accept") != p.MediaTypes[0] || p.Header.Get("Accept-Encoding") != "identity" {
			t.Errorf("%s: header %v", name, p.Header)
		}
		p.Header.Set("Accept", "x")
		if again, _ := Lookup(name); again.Header.Get("Accept") == "x" {
			t.Errorf("%s: header is shared between look-ups", name)
		}
	}
	if _, ok := Lookup("openai"); ok {
		t.Error("found a protocol that does not exist")
	}
}

func TestBody(t *testing.T) {
	f := func(api string, p Params, want string) {
		t.Helper()
		protocol, _ := Lookup(api)
		got, err := protocol.Body(p)
		if d := cmp.Diff(want, string(got)); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", api, err, d)
		}
	}
	f("openai-chat", Params{Model: "m", Prompt: "a <b>\n\u00e9", OutputTokens: 64},
		`{"model":"m","messages":[{"role":"user","content":"a <b>\n`+"\u00e9"+`"}],"max_tokens":64,"temperature":0,"stream":true,"stream_options":{"include_usage":true}}`)
	f("openai-completions", Params{Model: "m", Prompt: "a", OutputTokens: 1, ContinuousUsage: true},
		`{"model":"m","prompt":"a","max_tokens":1,"temperature":0,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`)

	protocol, _ := Lookup("openai-chat")
	body, err := protocol.Body(Params{Model: "m", Prompt: "broken \xff", OutputTokens: 1})
	if err != nil || !json.Valid(body) {
		t.Errorf("prompt that is not UTF-8: %s, %v", body, err)
	}
	if body, err := protocol.Body(Params{Model: "m", Prompt: "a"}); err == nil {
		t.Errorf("no cap on the answer: %s, want an error", body)
	}
}

func TestURL(t *testing.T) {
	f := func(base, wantChat, wantCompletions, wantModels string) {
		t.Helper()
		u, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		got := []string{chat().URL(u, "").String(), completions().URL(u, "").String(), openAIModels().URL(u).String()}
		if d := cmp.Diff([]string{wantChat, wantCompletions, wantModels}, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", base, d)
		}
		if u.String() != base {
			t.Errorf("%s was changed to %s", base, u)
		}
	}
	under := func(base, root string) {
		t.Helper()
		f(base, root+"/chat/completions", root+"/completions", root+"/models")
	}
	under("http://h:8000", "http://h:8000/v1")
	under("http://h:8000/", "http://h:8000/v1")
	under("http://h/v1", "http://h/v1")
	under("http://h/v1/", "http://h/v1")
	under("https://api.groq.com/openai/v1", "https://api.groq.com/openai/v1")
	under("https://openrouter.ai/api/v1", "https://openrouter.ai/api/v1")
	under("https://h/v1beta/openai/", "https://h/v1beta/openai")
	under("https://h/api/paas/v4", "https://h/api/paas/v4")
	under("http://gateway/llama", "http://gateway/llama/v1")
	under("http://gateway/vllm-1/v2ray", "http://gateway/vllm-1/v2ray/v1")
	under("http://h/a%2Fb", "http://h/a%2Fb/v1")
	under("http://h/a%20b/v1", "http://h/a%20b/v1")
	under("http://[::1]:8000", "http://[::1]:8000/v1")
	under("http://h/v1/chat/completions", "http://h/v1")
	under("http://h/v1/completions", "http://h/v1")
	under("http://h/v1/models", "http://h/v1")
	under("http://h/chat/completions", "http://h")
	under("http://h/v1/completions#x", "http://h/v1")
	f("https://h/openai/deployments/d/chat/completions?api-version=1", "https://h/openai/deployments/d/chat/completions?api-version=1",
		"https://h/openai/deployments/d/completions?api-version=1", "https://h/openai/models?api-version=1")
}

func TestRateLimitFrom(t *testing.T) {
	f := func(requests, tokens string, want RateLimit) {
		t.Helper()
		h := http.Header{}
		if requests != "" {
			h.Set("x-ratelimit-remaining-requests", requests)
		}
		if tokens != "" {
			h.Set("x-ratelimit-remaining-tokens", tokens)
		}
		if got := RateLimitFrom(h); got != want {
			t.Errorf("%q, %q: %+v, want %+v", requests, tokens, got, want)
		}
	}
	f("", "", RateLimit{Unknown, Unknown})
	f("59", "149984", RateLimit{59, 149984})
	f("0", " 180000000 ", RateLimit{0, 180000000})
	f("-1", "many", RateLimit{Unknown, Unknown})
	f("1.5", "99999999999999999999", RateLimit{Unknown, Unknown})
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	f := func(after, afterMs string, want time.Duration) {
		t.Helper()
		h := http.Header{}
		h.Set("Retry-After", after)
		h.Set("Retry-After-Ms", afterMs)
		if got := RetryAfter(h, now); got != want {
			t.Errorf("%q, %q: %v, want %v", after, afterMs, got, want)
		}
	}
	if got := RetryAfter(http.Header{}, now); got >= 0 {
		t.Errorf("no header: %v, want a negative duration", got)
	}
	f("7", "", 7*time.Second)
	f(" 0.25 ", "", 250*time.Millisecond)
	f("7", "1500", 1500*time.Millisecond)
	f("7", "soon", 7*time.Second)
	f("0", "", 0)
	f("Sat, 21 Nov 2026 12:00:30 GMT", "", 30*time.Second)
	f("Saturday, 21-Nov-26 12:00:30 GMT", "", 30*time.Second)
	f("Sat, 21 Nov 2026 11:59:30 GMT", "", 0)
	f("Sat, 21 Nov 2099 12:00:00 GMT", "", 24*time.Hour)
	f("1e300", "", 24*time.Hour)
	f("inf", "", 24*time.Hour)
	f("-1", "", -1)
	f("NaN", "nan", -1)
	f("tomorrow", "-5", -1)
}

func TestFinishReason(t *testing.T) {
	for _, s := range FinishReasons() {
		if got := FinishReason(s); got != s {
			t.Errorf("%s: %s", s, got)
		}
	}
	for s, want := range map[string]string{"": "", "stop_sequence": "stop", "eos_token": "stop", "load": "other", "STOP!": "other"} {
		if got := FinishReason(s); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}

func TestParseModels(t *testing.T) {
	f := func(body string, want ...ModelInfo) {
		t.Helper()
		got, err := ParseModels([]byte(body))
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", body, err, d)
		}
	}
	f(`{"object":"list","data":[{"id":"meta-llama/Llama-3.1-8B-Instruct","owned_by":"vllm","root":"/models/llama","parent":null,"max_model_len":131072}]}`,
		ModelInfo{"meta-llama/Llama-3.1-8B-Instruct", "vllm", 131072})
	f(`{"data":[{"id":"a","max_model_len":null,"meta":null},{"id":"b","meta":{"n_ctx_train":8192}}]}`, ModelInfo{"a", "", Unknown}, ModelInfo{"b", "", Unknown})
	f(`{"object":"list","data":null}`)
	f(`{"data":[]}`)
	f(`{"data":[null,7,{},{"id":""},{"id":7},{"id":"`+strings.Repeat("x", 257)+`"},{"id":"`+"\xff"+`"},{"id":"a"}]}`, ModelInfo{"a", "", Unknown})
	for _, bad := range []string{"", "<html>", "[]", "{}", `{"data":{}}`, `{"error":{"message":"no"}}`, `{"data":[`} {
		if got, err := ParseModels([]byte(bad)); !isProtocolError(err) {
			t.Errorf("%s: %v, %v; want ErrProtocol", bad, got, err)
		}
	}
	many := `{"data":[{"id":"a"}` + strings.Repeat(`,{"id":"a"}`, maxModels+5) + `]}`
	if got, err := ParseModels([]byte(many)); len(got) != maxModels || err != nil {
		t.Errorf("%d models, %v; want %d", len(got), err, maxModels)
	}
}

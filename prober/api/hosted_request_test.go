package api

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHostedURL(t *testing.T) {
	f := func(api, base, model, want, wantModels string) {
		t.Helper()
		u, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		p, _ := Lookup(api)
		if got, gotModels := p.URL(u, model).String(), p.Models.URL(u).String(); got != want || gotModels != wantModels {
			t.Errorf("%s, %s: %s and %s; want %s and %s", api, base, got, gotModels, want, wantModels)
		}
		if u.String() != base {
			t.Errorf("%s was changed to %s", base, u)
		}
	}
	for _, base := range []string{"http://h", "http://h/", "http://h/v1", "http://h/v1/responses", "http://h/v1/messages", "http://h/v1/chat/completions", "http://h/v1/models"} {
		f("openai-responses", base, "m", "http://h/v1/responses", "http://h/v1/models")
		f("anthropic", base, "m", "http://h/v1/messages", "http://h/v1/models")
	}
	f("anthropic", "https://gateway/anthropic", "m", "https://gateway/anthropic/v1/messages", "https://gateway/anthropic/v1/models")

	const azure = "https://r.openai.azure.com"
	for _, path := range []string{"", "/", "/chat/completions", "/completions", "/models"} {
		base := azure + "/openai/deployments/d" + path + "?api-version=2024-10-21"
		f("openai-chat", base, "gpt-4o", azure+"/openai/deployments/d/chat/completions?api-version=2024-10-21", azure+"/openai/models?api-version=2024-10-21")
		f("openai-completions", base, "gpt-4o", azure+"/openai/deployments/d/completions?api-version=2024-10-21", azure+"/openai/models?api-version=2024-10-21")
	}
	f("openai-chat", azure+"/openai/v1", "gpt-4o", azure+"/openai/v1/chat/completions", azure+"/openai/v1/models")
	f("openai-responses", azure+"/openai/responses?api-version=preview", "gpt-4o", azure+"/openai/responses?api-version=preview", azure+"/openai/models?api-version=preview")

	const google = "https://generativelanguage.googleapis.com"
	for _, base := range []string{google, google + "/", google + "/v1beta", google + "/v1beta/models", google + "/v1beta/models/other:streamGenerateContent", google + "/v1beta/models/other:generateContent?alt=json"} {
		u, _ := url.Parse(base)
		models := google + "/v1beta/models"
		if u.RawQuery != "" {
			models += "?" + u.RawQuery
		}
		f("gemini", base, "gemini-2.5-flash", google+"/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse", models)
		f("gemini", base, "models/gemini-2.5-flash", google+"/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse", models)
	}
	const vertex = "https://fra-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/google"
	f("gemini", vertex, "m", vertex+"/models/m:streamGenerateContent?alt=sse", vertex+"/models")
	f("gemini", "http://h/v1?k=1", "a/b c", "http://h/v1/models/a%2Fb%20c:streamGenerateContent?alt=sse&k=1", "http://h/v1/models?k=1")

	for _, base := range []string{"https://api.cohere.com", "https://api.cohere.com/", "https://api.cohere.com/v2", "https://api.cohere.com/v2/chat", "https://api.cohere.com/v1", "https://api.cohere.com/v1/models"} {
		f("cohere", base, "m", "https://api.cohere.com/v2/chat", "https://api.cohere.com/v1/models")
	}
	f("cohere", "http://vllm:8000/cohere", "m", "http://vllm:8000/cohere/v2/chat", "http://vllm:8000/cohere/v1/models")
}

func TestHostedBody(t *testing.T) {
	f := func(api string, p Params, want string) {
		t.Helper()
		protocol, _ := Lookup(api)
		got, err := protocol.Body(p)
		if d := cmp.Diff(want, string(got)); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", api, err, d)
		}
		p.OutputTokens = 0
		if got, err := protocol.Body(p); err == nil {
			t.Errorf("%s: no cap on the answer: %s, want an error", api, got)
		}
	}
	plain := Params{Model: "m", Prompt: "a <b>", OutputTokens: 64}
	exact := plain
	exact.ExactLength = true
	// One unknown key fails the whole request at some servers.
	f("openai-chat", plain, `{"model":"m","messages":[{"role":"user","content":"a <b>"}],"max_tokens":64,"temperature":0,"stream":true,"stream_options":{"include_usage":true}}`)
	f("openai-chat", exact, `{"model":"m","messages":[{"role":"user","content":"a <b>"}],"max_tokens":64,"min_tokens":64,"ignore_eos":true,"temperature":0,"stream":true,"stream_options":{"include_usage":true}}`)
	f("openai-completions", exact, `{"model":"m","prompt":"a <b>","max_tokens":64,"min_tokens":64,"ignore_eos":true,"temperature":0,"stream":true,"stream_options":{"include_usage":true}}`)
	f("openai-responses", exact, `{"model":"m","input":"a <b>","max_output_tokens":64,"temperature":0,"stream":true,"store":false}`)
	f("anthropic", exact, `{"model":"m","max_tokens":64,"messages":[{"role":"user","content":"a <b>"}],"stream":true}`)
	f("gemini", exact, `{"contents":[{"role":"user","parts":[{"text":"a <b>"}]}],"generationConfig":{"maxOutputTokens":64,"temperature":0}}`)
	f("cohere", exact, `{"model":"m","messages":[{"role":"user","content":"a <b>"}],"max_tokens":64,"temperature":0,"stream":true}`)
}

func TestAnthropicHeader(t *testing.T) {
	p, _ := Lookup("anthropic")
	if got := p.Header.Get("anthropic-version"); got != "2023-06-01" {
		t.Errorf("anthropic-version %q", got)
	}
}

func TestHostedModels(t *testing.T) {
	f := func(api, body string, want ...ModelInfo) {
		t.Helper()
		p, _ := Lookup(api)
		got, err := p.Models.Parse([]byte(body))
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s, %s: %v (-want +got):\n%s", api, body, err, d)
		}
	}
	f("anthropic", `{"data":[{"type":"model","id":"claude-opus-4-7","display_name":"Claude Opus 4.7","created_at":"2026-01-01T00:00:00Z"}],"has_more":false,"first_id":"a","last_id":"b"}`,
		ModelInfo{"claude-opus-4-7", "", Unknown})
	f("gemini", `{"models":[{"name":"models/gemini-2.5-flash","inputTokenLimit":1048576,"supportedGenerationMethods":["generateContent","countTokens"]},
		{"name":"models/embedding-001","supportedGenerationMethods":["embedContent"]},{"name":"models/","supportedGenerationMethods":["generateContent"]},null,7],"nextPageToken":"x"}`,
		ModelInfo{"gemini-2.5-flash", "", 1048576})
	f("cohere", `{"models":[{"name":"command-a-03-2025","endpoints":["generate","chat"],"context_length":288000},{"name":"embed-v4.0","endpoints":["embed"]}]}`,
		ModelInfo{"command-a-03-2025", "", 288000})
	f("cohere", `{"object":"list","data":[{"id":"m","owned_by":"vllm","max_model_len":8192}]}`, ModelInfo{"m", "vllm", 8192})
	for _, api := range []string{"gemini", "cohere"} {
		p, _ := Lookup(api)
		for _, bad := range []string{"", "<html>", "[]", "{}", `{"models":{}}`, `{"error":{"message":"no"}}`} {
			if got, err := p.Models.Parse([]byte(bad)); !isProtocolError(err) {
				t.Errorf("%s, %s: %v, %v; want ErrProtocol", api, bad, got, err)
			}
		}
	}
}

func TestAnthropicRateLimit(t *testing.T) {
	p, _ := Lookup("anthropic")
	f := func(want RateLimit, header ...string) {
		t.Helper()
		h := http.Header{}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		if got := p.RateLimit(h); got != want {
			t.Errorf("%v: %+v, want %+v", header, got, want)
		}
	}
	const requests, tokens, input, output = "anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-input-tokens-remaining", "anthropic-ratelimit-output-tokens-remaining"
	f(RateLimit{Unknown, Unknown})
	f(RateLimit{49, Unknown}, requests, "49")
	f(RateLimit{49, 8000}, requests, "49", input, "50000", output, "8000")
	f(RateLimit{Unknown, 0}, input, "0", output, "x")
	f(RateLimit{Unknown, 7000}, tokens, "7000", input, "50000", output, "8000")
	f(RateLimit{5, 6}, "x-ratelimit-remaining-requests", "5", "x-ratelimit-remaining-tokens", "6") // a gateway
}

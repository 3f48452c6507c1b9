package api

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestModels(t *testing.T) {
	f := func(api, body string, want ...ModelInfo) {
		t.Helper()
		p, _ := Lookup(api)
		got, err := p.Models.Parse([]byte(body))
		if d := cmp.Diff(want, got); d != "" || (err != nil) != (want == nil) || err != nil && !isProtocolError(err) {
			t.Errorf("%s, %s: %v (-want +got):\n%s", api, body, err, d)
		}
	}
	const u = Unknown
	f("ollama", string(readCapture(t, "ollama_api_tags")), ModelInfo{"slow:latest", "", u}, ModelInfo{"think:latest", "", u}, ModelInfo{"tiny:latest", "", u})
	f("ollama-generate", `{"models":[{"name":"m:1b"},{"name":""},{},7]}`, ModelInfo{"m:1b", "", u})
	f("ollama", `{"data":[]}`)
	f("tgi", `{"model_id":"meta-llama/Llama-3.1-8B-Instruct","model_sha":"0e9e39f","max_input_tokens":4095,"max_total_tokens":4096,"router":"text-generation-router"}`,
		ModelInfo{"meta-llama/Llama-3.1-8B-Instruct", "", 4096})
	f("tgi", `{"model_id":"m"}`, ModelInfo{"m", "", u})
	f("tgi", `{"model_id":null}`)
	f("tgi", `{"model_id":"`+strings.Repeat("x", 257)+`"}`)
	f("tgi", "<html>")
	f("tgi", "[]")
	f("llamacpp", string(readCapture(t, "llamacpp_v1_models")), ModelInfo{"gguf/tiny.gguf", "llamacpp", 2048})
	f("sglang", `{"object":"list","data":[{"id":"m","object":"model","owned_by":"sglang","root":"m","max_model_len":8192}]}`, ModelInfo{"m", "sglang", 8192})
	f("anthropic", `{"data":[{"type":"model","id":"claude-opus-4-7","display_name":"Claude Opus 4.7","created_at":"2026-01-01T00:00:00Z"}],"has_more":false,"first_id":"a","last_id":"b"}`,
		ModelInfo{"claude-opus-4-7", "", Unknown})
	f("gemini", `{"models":[{"name":"models/gemini-2.5-flash","inputTokenLimit":1048576,"supportedGenerationMethods":["generateContent","countTokens"]},
		{"name":"models/embedding-001","supportedGenerationMethods":["embedContent"]},{"name":"models/","supportedGenerationMethods":["generateContent"]},null,7],"nextPageToken":"x"}`,
		ModelInfo{"gemini-2.5-flash", "", 1048576})
	f("cohere", `{"models":[{"name":"command-a-03-2025","endpoints":["generate","chat"],"context_length":288000},{"name":"embed-v4.0","endpoints":["embed"]}]}`,
		ModelInfo{"command-a-03-2025", "", 288000})
	f("cohere", `{"object":"list","data":[{"id":"m","owned_by":"vllm","max_model_len":8192}]}`, ModelInfo{"m", "vllm", 8192})
	for _, api := range []string{"gemini", "cohere"} {
		for _, bad := range []string{"", "<html>", "[]", "{}", `{"models":{}}`, `{"error":{"message":"no"}}`} {
			f(api, bad)
		}
	}
	if p, _ := Lookup("triton"); p.Models != nil || p.ModelOptional {
		t.Error("Triton lists models that cannot be asked, so that the model must be configured")
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

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
	f("ollama", string(readCapture(t, "ollama_api_tags")), ModelInfo{ID: "slow:latest", MaxModelLen: u}, ModelInfo{ID: "think:latest", MaxModelLen: u}, ModelInfo{ID: "tiny:latest", MaxModelLen: u})
	f("ollama-generate", `{"models":[{"name":"m:1b"},{"name":""},{},7]}`, ModelInfo{ID: "m:1b", MaxModelLen: u})
	f("ollama", `{"data":[]}`)
	f("tgi", `{"model_id":"meta-llama/Llama-3.1-8B-Instruct","model_sha":"0e9e39f","max_input_tokens":4095,"max_total_tokens":4096,"router":"text-generation-router"}`,
		ModelInfo{ID: "meta-llama/Llama-3.1-8B-Instruct", MaxModelLen: 4096})
	f("tgi", `{"model_id":"m"}`, ModelInfo{ID: "m", MaxModelLen: u})
	f("tgi", `{"model_id":null}`)
	f("tgi", `{"model_id":"`+strings.Repeat("x", 257)+`"}`)
	f("tgi", "<html>")
	f("tgi", "[]")
	f("llamacpp", string(readCapture(t, "llamacpp_v1_models")), ModelInfo{ID: "gguf/tiny.gguf", OwnedBy: "llamacpp", MaxModelLen: 2048})
	f("sglang", `{"object":"list","data":[{"id":"m","object":"model","owned_by":"sglang","root":"m","max_model_len":8192}]}`, ModelInfo{ID: "m", OwnedBy: "sglang", MaxModelLen: 8192})
	f("anthropic", `{"data":[{"type":"model","id":"claude-opus-4-7","display_name":"Claude Opus 4.7","created_at":"2026-01-01T00:00:00Z"}],"has_more":false,"first_id":"a","last_id":"b"}`,
		ModelInfo{ID: "claude-opus-4-7", MaxModelLen: Unknown})
	f("gemini", `{"models":[{"name":"models/gemini-2.5-flash","inputTokenLimit":1048576,"supportedGenerationMethods":["generateContent","countTokens"]},
		{"name":"models/embedding-001","supportedGenerationMethods":["embedContent"]},{"name":"models/","supportedGenerationMethods":["generateContent"]},null,7],"nextPageToken":"x"}`,
		ModelInfo{ID: "gemini-2.5-flash", MaxModelLen: 1048576})
	f("cohere", `{"models":[{"name":"command-a-03-2025","endpoints":["generate","chat"],"context_length":288000},{"name":"embed-v4.0","endpoints":["embed"]}]}`,
		ModelInfo{ID: "command-a-03-2025", MaxModelLen: 288000})
	f("cohere", `{"object":"list","data":[{"id":"m","owned_by":"vllm","max_model_len":8192}]}`, ModelInfo{ID: "m", OwnedBy: "vllm", MaxModelLen: 8192})
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
		ModelInfo{ID: "meta-llama/Llama-3.1-8B-Instruct", OwnedBy: "vllm", MaxModelLen: 131072})
	f(`{"data":[{"id":"m","owned_by":"nvidia","context_window":8192}]}`, ModelInfo{ID: "m", OwnedBy: "nvidia", MaxModelLen: 8192}) // Dynamo 1.6
	f(`{"data":[{"id":"a","max_model_len":null,"meta":null},{"id":"b","meta":{"n_ctx_train":8192}}]}`, ModelInfo{ID: "a", MaxModelLen: Unknown}, ModelInfo{ID: "b", MaxModelLen: Unknown})
	f(`{"data":[{"id":"tuned","parent":"base"}]}`, ModelInfo{ID: "tuned", Parent: "base", MaxModelLen: Unknown})
	f(`{"object":"list","data":null}`)
	f(`{"data":[]}`)
	f(`{"data":[null,7,{},{"id":""},{"id":7},{"id":"`+strings.Repeat("x", 257)+`"},{"id":"`+"\xff"+`"},{"id":"a"}]}`, ModelInfo{ID: "a", MaxModelLen: Unknown})
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

func TestBaseModels(t *testing.T) {
	f := func(want string, models ...ModelInfo) {
		t.Helper()
		var got []string
		for _, m := range BaseModels(models) {
			got = append(got, m.ID)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%v: %q, want %q", models, got, want)
		}
	}
	base, tuned, other := ModelInfo{ID: "base"}, ModelInfo{ID: "tuned", Parent: "base"}, ModelInfo{ID: "other", Parent: "base"}
	f("")
	f("base", tuned, base, other)
	f("base", base, base)
	f("tuned other", tuned, other)
	f("base second", base, ModelInfo{ID: "second"}, tuned)
	f("own", ModelInfo{ID: "own", Parent: "own"}, tuned)
}

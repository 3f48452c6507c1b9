package detect

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHosted(t *testing.T) {
	f := func(at, want string) {
		t.Helper()
		got, err := Detect(t.Context(), parse(t, at), func(context.Context, string) (*Reply, error) {
			t.Errorf("%s is asked", at)
			return nil, errors.New("asked")
		})
		if err != nil || got.API != want || got.Engine != "" || len(got.Evidence) != 1 {
			t.Errorf("%s: %+v, %v", at, got, err)
		}
	}
	f("https://api.openai.com/v1", "openai-chat")
	f("https://API.OpenAI.com:443/v1", "openai-chat")
	f("https://openrouter.ai/api/v1", "openai-chat")
	f("https://api.groq.com/openai/v1", "openai-chat")
	f("https://api.deepseek.com", "openai-chat")
	f("https://acme.openai.azure.com/openai/deployments/d?api-version=2024-10-21", "openai-chat")
	f("https://api.mistral.ai/v1", "openai-chat")
	f("https://api.x.ai", "openai-chat")
	f("https://api.cohere.ai", "cohere")
	f("https://api.anthropic.com", "anthropic")
	f("https://api.cohere.com", "cohere")
	f("https://generativelanguage.googleapis.com", "gemini")
	f("https://generativelanguage.googleapis.com/v1beta/openai", "openai-chat")
	f("https://bedrock-runtime.eu-west-1.amazonaws.com", "bedrock")
	f("https://bedrock-runtime-fips.us-east-1.amazonaws.com", "bedrock")
	f("https://bedrock-runtime.cn-north-1.amazonaws.com.cn", "bedrock")
	f("https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1", "openai-chat")
	f("https://api.cohere.com/compatibility/v1", "openai-chat")
	f("https://api.anthropic.com/v1/chat/completions", "openai-chat")

	for _, at := range []string{
		"https://api.openai.com.evil.example", "https://openai.azure.com.evil.example", "https://xapi.openai.com",
		"https://api.perplexity.ai", "https://bedrock-runtime.evil.example", "https://bedrock-runtime.amazonaws.com.evil.example",
	} {
		if name := hosted(parse(t, at)); name != "" {
			t.Errorf("%s is taken for %s", at, name)
		}
	}
}

// TestWhereToAsk gives the URLs of the first two questions.
func TestWhereToAsk(t *testing.T) {
	f := func(at, models, version string) {
		t.Helper()
		var urls []string
		_, err := Detect(t.Context(), parse(t, at), func(_ context.Context, u string) (*Reply, error) {
			urls = append(urls, u)
			r := list("m", "trtllm")
			if len(urls) == 1 {
				r = list("m", "tensorrt_llm")
			}
			return &r, nil
		})
		if d := cmp.Diff([]string{models, version}, urls); d != "" || err != nil {
			t.Errorf("%s: %v %s", at, err, d)
		}
	}
	f("http://h:8000", "http://h:8000/v1/models", "http://h:8000/version")
	f("http://h:8000/", "http://h:8000/v1/models", "http://h:8000/version")
	f("http://h:8000/v1", "http://h:8000/v1/models", "http://h:8000/version")
	f("http://h:8000/v1/chat/completions", "http://h:8000/v1/models", "http://h:8000/version")
	f("https://h/vllm/v1/", "https://h/vllm/v1/models", "https://h/vllm/version")
	f("https://h/a%2Fb", "https://h/a%2Fb/v1/models", "https://h/a%2Fb/version")
	f("https://h/v1beta", "https://h/v1beta/models", "https://h/version")
	f("http://h:11434/api/chat", "http://h:11434/v1/models", "http://h:11434/version")
	f("http://h/generate_stream", "http://h/v1/models", "http://h/version")
	f("https://h/v1beta/openai?key=k", "https://h/v1beta/openai/models?key=k", "https://h/v1beta/openai/version?key=k")
}

// TestURLOfAProtocol gives URLs that leave no choice of the protocol, and what
// is asked first.
func TestURLOfAProtocol(t *testing.T) {
	f := func(at, want, models string) {
		t.Helper()
		get, urls := server{"/v1/models": list("m", "lmdeploy")}.asked()
		got, err := Detect(t.Context(), parse(t, at), get)
		if err != nil || got.API != want || (*urls)[0] != models {
			t.Errorf("%s: %+v, %v, asked %q", at, got, err, *urls)
		}
	}
	const models = "http://h/v1/models"
	f("http://h/v1/chat/completions", "openai-chat", models)
	f("http://h/v1/completions", "openai-completions", models)
	f("http://h/v1/responses", "openai-responses", models)
	f("http://h/v1/messages/", "anthropic", models)
	f("http://h/v1/embeddings", "openai-embeddings", models)
	f("http://h/api/chat", "ollama", models)
	f("http://h/api/generate", "ollama-generate", models)
	f("http://h/api/embed", "ollama-embed", models)
	f("http://h/embed", "tei", models)
	f("http://h/rerank", "rerank", models)
	f("http://h/generate_stream", "tgi", models)
	f("http://h/generate", "sglang", models)
	f("http://h/completion", "llamacpp", models)
	f("http://h/prefix/api/chat", "ollama", "http://h/prefix/v1/models")
	f("http://h/v4/chat/completions", "openai-chat", "http://h/v4/models")

	got, err := Detect(t.Context(), parse(t, "https://api.openai.com/v1/responses"), nil)
	if err != nil || got.API != "openai-responses" {
		t.Errorf("%+v, %v", got, err)
	}
}

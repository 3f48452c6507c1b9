package api

import (
	"net/url"
	"testing"
)

// checkURL wants what a function makes of a base, which it must not change.
func checkURL(t *testing.T, api string, at func(*url.URL) *url.URL, base, want string) {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	if got := at(u).String(); got != want {
		t.Errorf("%s, %s: %s, want %s", api, base, got, want)
	}
	if u.String() != base {
		t.Errorf("%s was changed to %s", base, u)
	}
}

// checkURLs wants where the reply and the models, "" without a list, are asked.
func checkURLs(t *testing.T, api, base, model, want, wantModels string) {
	t.Helper()
	p, _ := Lookup(api)
	checkURL(t, api, func(u *url.URL) *url.URL { return p.URL(u, model) }, base, want)
	if p.Models != nil {
		checkURL(t, api+" models", p.Models.URL, base, wantModels)
	} else if wantModels != "" {
		t.Errorf("%s lists no models, want %s", api, wantModels)
	}
}

func TestOpenAIURL(t *testing.T) {
	under := func(base, root string) {
		t.Helper()
		checkURLs(t, "openai-chat", base, "", root+"/chat/completions", root+"/models")
		checkURLs(t, "openai-completions", base, "", root+"/completions", root+"/models")
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

	f := func(api, base, want, wantModels string) {
		t.Helper()
		checkURLs(t, api, base, "gpt-4o", want, wantModels)
	}
	const deployment = "https://h/openai/deployments/d"
	f("openai-chat", deployment+"/chat/completions?api-version=1", deployment+"/chat/completions?api-version=1", "https://h/openai/models?api-version=1")
	f("openai-completions", deployment+"/chat/completions?api-version=1", deployment+"/completions?api-version=1", "https://h/openai/models?api-version=1")
	const azure = "https://r.openai.azure.com"
	for _, path := range []string{"", "/", "/chat/completions", "/completions", "/models"} {
		base := azure + "/openai/deployments/d" + path + "?api-version=2024-10-21"
		f("openai-chat", base, azure+"/openai/deployments/d/chat/completions?api-version=2024-10-21", azure+"/openai/models?api-version=2024-10-21")
		f("openai-completions", base, azure+"/openai/deployments/d/completions?api-version=2024-10-21", azure+"/openai/models?api-version=2024-10-21")
	}
	f("openai-chat", azure+"/openai/v1", azure+"/openai/v1/chat/completions", azure+"/openai/v1/models")
	f("openai-responses", azure+"/openai/responses?api-version=preview", azure+"/openai/responses?api-version=preview", azure+"/openai/models?api-version=preview")
}

func TestURL(t *testing.T) {
	f := func(api, base, model, want, wantModels string) {
		t.Helper()
		checkURLs(t, api, base, model, want, wantModels)
	}
	for _, base := range []string{"http://h", "http://h/", "http://h/v1", "http://h/v1/responses", "http://h/v1/messages", "http://h/v1/chat/completions", "http://h/v1/models"} {
		f("openai-responses", base, "m", "http://h/v1/responses", "http://h/v1/models")
		f("anthropic", base, "m", "http://h/v1/messages", "http://h/v1/models")
	}
	f("anthropic", "https://gateway/anthropic", "m", "https://gateway/anthropic/v1/messages", "https://gateway/anthropic/v1/models")

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

	for _, base := range []string{"http://h:11434", "http://h:11434/", "http://h:11434/api", "http://h:11434/api/chat", "http://h:11434/api/generate/", "http://h:11434/v1", "http://h:11434/api/tags"} {
		f("ollama", base, "m", "http://h:11434/api/chat", "http://h:11434/api/tags")
		f("ollama-generate", base, "m", "http://h:11434/api/generate", "http://h:11434/api/tags")
	}
	f("ollama", "https://h/a%2Fb/ollama?k=1#f", "m", "https://h/a%2Fb/ollama/api/chat?k=1", "https://h/a%2Fb/ollama/api/tags?k=1")
	for _, base := range []string{"http://h", "http://h/", "http://h/generate_stream", "http://h/generate", "http://h/info", "http://h/v1"} {
		f("tgi", base, "", "http://h/generate_stream", "http://h/info")
	}
	for _, base := range []string{"http://h", "http://h/generate", "http://h/v1/", "http://h/v1/models", "http://h/get_model_info"} {
		f("sglang", base, "", "http://h/generate", "http://h/v1/models")
	}
	for _, base := range []string{"http://h", "http://h/completion", "http://h/v1", "http://h/v1/models"} {
		f("llamacpp", base, "", "http://h/completion", "http://h/v1/models")
	}
	f("llamacpp", "http://gateway/v1/llama?k=1", "", "http://gateway/v1/llama/completion?k=1", "http://gateway/v1/llama/v1/models?k=1")
	for _, base := range []string{"http://h", "http://h/", "http://h/v2", "http://h/v2/models/", "http://h/v2/models/m", "http://h/v2/models/m/generate", "http://h/v2/models/m/generate_stream"} {
		f("triton", base, "m", "http://h/v2/models/m/generate_stream", "")
	}
	f("triton", "http://h/v2/models/m/versions/2", "other", "http://h/v2/models/m/versions/2/generate_stream", "")
	f("triton", "http://h/kserve?k=1", "a/b c", "http://h/kserve/v2/models/a%2Fb%20c/generate_stream?k=1", "")
}

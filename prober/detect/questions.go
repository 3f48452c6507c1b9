package detect

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/inference-exporter/inference_exporter/prober/api"
)

// The protocols that a Finding can name.
const (
	openaiChat       = "openai-chat"
	openaiEmbeddings = "openai-embeddings"
	anthropic        = "anthropic"
	gemini           = "gemini"
	bedrock          = "bedrock"
	cohere           = "cohere"
	ollamaChat       = "ollama"
	tgiNative        = "tgi"
	tritonGenerate   = "triton"
	teiEmbed         = "tei"
	rerank           = "rerank"
)

// modelsPath is the first question.
const modelsPath = "/v1/models"

type question struct {
	path string // under the root of the server
	// wanted reports whether the answer is still of use.
	wanted func(*Finding) bool
	// read adds to the finding what the body of a good reply says, and returns it in words; "" is nothing.
	read func(f *Finding, body []byte) string
}

// questions lists all questions in their order. At most eight are ever wanted
// of one server: the first, the six for the unknown, one more for a version.
func questions() []question {
	return []question{
		{modelsPath, func(*Finding) bool { return true }, readModels},
		{"/info", versionOf(""), readInfo},
		{"/api/tags", versionOf(""), readTags},
		{"/v2", versionOf("", api.Triton), readTriton},
		{"/v2/models/stats", tritonModels, readTritonModels},
		{"/version", versionOf(api.VLLM, api.TRTLLM), readPage("", "", "version")},
		{"/v1/version", versionOf("", api.VLLM), readPage(api.NIM, "release and api", "release", "api")},
		// Calls no upstream. Newer releases have the version in the details only, behind a key.
		{"/health/readiness", versionOf("", api.LiteLLM), readPage(api.LiteLLM, "litellm_version", "litellm_version")},
		{"/.well-known/litellm-ui-config", versionOf(""), readLiteLLMConfig},
		{"/health/readiness/details", versionOf(api.LiteLLM), readPage(api.LiteLLM, "litellm_version", "litellm_version")},
		{"/server_info", versionOf(api.SGLang), readSGLang},
		{"/get_server_info", versionOf(api.SGLang), readSGLang}, // its older name
		{"/props", versionOf(api.LlamaCPP), readPage("", "", "build_info")},
		{"/api/version", versionOf(api.Ollama), readPage("", "", "version")},
	}
}

// versionOf wants the version of the given engines, "" being the unknown one.
func versionOf(engines ...string) func(*Finding) bool {
	return func(f *Finding) bool { return f.Version == "" && slices.Contains(engines, f.Engine) }
}

func tritonModels(f *Finding) bool { return f.Engine == api.Triton && len(f.Models) == 0 }

// readHeader takes what the header of any reply says: llama-server and LiteLLM name themselves.
func readHeader(f *Finding, h http.Header) string {
	server := h.Get("Server")
	switch {
	case f.Engine != "":
		return ""
	case server == "llama.cpp":
		f.Engine = api.LlamaCPP
		return "server llama.cpp"
	case h.Get("X-Litellm-Version") != "":
		f.Engine = api.LiteLLM
		return join("a header of LiteLLM", f.setVersion(h.Get("X-Litellm-Version")))
	}
	return ""
}

// readModels reads the list of models of the OpenAI protocols, or the one of
// Anthropic, whose models are no objects but of a type.
func readModels(f *Finding, body []byte) string {
	var list struct {
		Object string
		Data   []struct {
			Object, Type  string
			ContextWindow int `json:"context_window"`
			Capabilities  json.RawMessage
		}
	}
	models, err := api.ParseModels(body)
	if err != nil || json.Unmarshal(body, &list) != nil || list.Object != "list" && len(models) == 0 {
		return ""
	}
	f.API, f.Models = openaiChat, append([]api.ModelInfo{}, usable(models)...)
	said := countModels(f.Models)
	if len(list.Data) == 0 {
		return said
	}
	first := list.Data[0]
	if list.Object == "" && first.Object == "" && first.Type == "model" {
		f.API = anthropic
		return said + " in the form of Anthropic"
	}
	owners := ownersOf(f.Models)
	if len(owners) > 0 {
		said += ", owned_by " + printable(strings.Join(owners, ", "))
	}
	switch {
	case f.Engine != "":
	case slices.Equal(owners, []string{"nvidia"}) && first.Object == "object":
		f.Engine = api.Dynamo
		said += ", object: object as only Dynamo has it"
	case slices.Equal(owners, []string{"nvidia"}) && first.ContextWindow > 0: // since 1.6
		f.Engine = api.Dynamo
		said += ", context_window as Dynamo has it"
	default:
		f.Engine = api.EngineOf(f.Models)
	}
	if f.Engine == "infinity" {
		f.API = cmp.Or(apiOfCapabilities(first.Capabilities), f.API)
	}
	return said
}

// apiOfCapabilities returns the protocol for what a model of Infinity can do;
// "" for anything else than to embed or to rank.
func apiOfCapabilities(list json.RawMessage) string {
	var capabilities []string
	switch _ = json.Unmarshal(list, &capabilities); {
	case slices.Contains(capabilities, "embed"):
		return openaiEmbeddings
	case slices.Contains(capabilities, "rerank"):
		return rerank
	}
	return ""
}

func ownersOf(models []api.ModelInfo) []string {
	var owners []string
	for _, m := range models {
		if m.OwnedBy != "" && !slices.Contains(owners, m.OwnedBy) {
			owners = append(owners, m.OwnedBy)
		}
	}
	return owners
}

// readInfo reads /info, which text-generation-inference and text-embeddings-inference share: the router's name
// (or, before 2.0, a limit that only a generator has) and the type of the model tell them apart.
func readInfo(f *Finding, body []byte) string {
	var info struct {
		ModelID        string `json:"model_id"`
		Router         string
		MaxBestOf      *int                       `json:"max_best_of"`
		MaxTotalTokens int                        `json:"max_total_tokens"`
		ModelType      map[string]json.RawMessage `json:"model_type"`
		MaxInputLength int                        `json:"max_input_length"`
		Version        string
	}
	if json.Unmarshal(body, &info) != nil || info.ModelID == "" {
		return ""
	}
	said, length := "model_id "+printable(info.ModelID), info.MaxTotalTokens
	switch {
	case strings.HasPrefix(info.Router, "text-generation-router") || info.MaxBestOf != nil:
		f.Engine, f.API = api.TGI, cmp.Or(f.API, tgiNative)
	case len(info.ModelType) == 1:
		f.Engine, length = api.TEI, info.MaxInputLength
		for t := range info.ModelType { // the one
			f.API = map[string]string{"embedding": teiEmbed, "reranker": rerank}[t] // a classifier has none
			said = join(said, "model_type "+printable(t))
		}
	default:
		return ""
	}
	if len(f.Models) == 0 {
		f.Models = usable([]api.ModelInfo{{ID: info.ModelID, MaxModelLen: cmp.Or(max(0, length), api.Unknown)}})
	}
	return join(said, f.setVersion(info.Version))
}

func readTags(f *Finding, body []byte) string {
	var tags struct {
		Models []struct{ Name, Digest string }
	}
	if json.Unmarshal(body, &tags) != nil || tags.Models == nil {
		return ""
	}
	var models []api.ModelInfo
	for _, m := range tags.Models {
		if m.Name == "" || m.Digest == "" {
			return "" // another list of models
		}
		models = append(models, api.ModelInfo{ID: m.Name, MaxModelLen: api.Unknown})
	}
	f.Engine = api.Ollama
	if f.API == "" {
		f.API, f.Models = ollamaChat, usable(models)
	}
	return countModels(models) + " with digests"
}

// readTriton reads the metadata of a Triton server. Other servers of the Open
// Inference Protocol answer with other names.
func readTriton(f *Finding, body []byte) string {
	var meta struct{ Name, Version string }
	if json.Unmarshal(body, &meta) != nil || meta.Name != "triton" {
		return ""
	}
	f.Engine, f.API = api.Triton, cmp.Or(f.API, tritonGenerate)
	return join("name triton", f.setVersion(meta.Version))
}

// readTritonModels reads the statistics of a Triton server, which list each version of each model.
func readTritonModels(f *Finding, body []byte) string {
	var stats struct {
		Models []struct{ Name string } `json:"model_stats"`
	}
	if json.Unmarshal(body, &stats) != nil {
		return ""
	}
	var models []api.ModelInfo
	for _, m := range stats.Models {
		models = append(models, api.ModelInfo{ID: m.Name, MaxModelLen: api.Unknown})
	}
	f.Models = usable(api.BaseModels(models)) // each once
	return countModels(f.Models)
}

// readPage returns what reads a page that has a text under each of the keys, the first of which is a
// version: that of an engine which only the page identifies, "" of one that is known.
func readPage(engine, words string, keys ...string) func(f *Finding, body []byte) string {
	return func(f *Finding, body []byte) string {
		var page map[string]any
		if json.Unmarshal(body, &page) != nil {
			return ""
		}
		for _, key := range keys {
			if text, _ := page[key].(string); text == "" {
				return ""
			}
		}
		f.Engine = cmp.Or(engine, f.Engine)
		return join(words, f.setVersion(page[keys[0]].(string)))
	}
}

// readLiteLLMConfig reads the settings of the web page of LiteLLM, which need no key.
func readLiteLLMConfig(f *Finding, body []byte) string {
	var v struct {
		Root *string `json:"server_root_path"`
	}
	if json.Unmarshal(body, &v) != nil || v.Root == nil {
		return ""
	}
	f.Engine = api.LiteLLM
	return "settings of LiteLLM's page"
}

// readSGLang reads the arguments of an SGLang server. They hold its keys, of which nothing is kept.
func readSGLang(f *Finding, body []byte) string {
	var v struct {
		Version   string
		Embedding bool `json:"is_embedding"`
	}
	if json.Unmarshal(body, &v) != nil {
		return ""
	}
	said := f.setVersion(v.Version)
	if v.Embedding {
		f.API = openaiEmbeddings
		said = join(said, "is_embedding")
	}
	return said
}

func countModels(models []api.ModelInfo) string {
	if len(models) == 1 {
		return "1 model"
	}
	return strconv.Itoa(len(models)) + " models"
}

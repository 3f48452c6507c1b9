package api

import (
	"path"
	"slices"
	"strings"
	"sync"
)

// protocols returns the closed list, in the order of the documentation. It must not be changed.
var protocols = sync.OnceValue(func() []Protocol {
	return []Protocol{
		chat(), completions(), responses(),
		ollamaChat(), ollamaGenerate(), tgi(), sglang(), llamacpp(), triton(),
		anthropic(),
		gemini(),
		cohere(),
		bedrock(),
		openAIEmbeddings(), tei(), ollamaEmbed(), cohereEmbed(), rerank(),
	}
})

// All lists the protocols in the order of the documentation. They must not be changed.
func All() []Protocol { return slices.Clone(protocols()) }

// Lookup returns the protocol of that name, which must not be changed; an empty one and false
// where there is none.
func Lookup(name string) (*Protocol, bool) {
	all := protocols()
	i := slices.IndexFunc(all, func(p Protocol) bool { return p.Name == name })
	if i < 0 {
		return new(Protocol), false
	}
	return &all[i], true
}

// Names lists the protocols in the order of the documentation.
func Names() []string {
	return NamesOf(func(Protocol) bool { return true })
}

// NamesOf lists the protocols that have something.
func NamesOf(has func(Protocol) bool) []string {
	var names []string
	for _, p := range protocols() {
		if has(p) {
			names = append(names, p.Name)
		}
	}
	return names
}

// The server software that probes know. Other software has no name: "".
const (
	VLLM     = "vllm"
	SGLang   = "sglang"
	TGI      = "tgi"    // text-generation-inference
	TRTLLM   = "trtllm" // trtllm-serve of TensorRT-LLM
	Triton   = "triton"
	LlamaCPP = "llamacpp" // llama-server
	Ollama   = "ollama"
	LMDeploy = "lmdeploy"
	TEI      = "tei" // text-embeddings-inference
	LiteLLM  = "litellm"
	NIM      = "nim" // NVIDIA NIM 1.x
	Dynamo   = "dynamo"
)

// Engine is what a probe must know of a server software.
type Engine struct {
	// Name is one of the constants above.
	Name string
	// Owner is the owner of its models in its list of models; "" where that says
	// nothing of the software.
	Owner string
	// ContinuousUsage means that it counts tokens in every event when asked to.
	// Others may reject the request for an unknown parameter.
	ContinuousUsage bool
	// ExactLength means that the protocols of OpenAI can make it write on until the
	// cap. Protocol.ExactLength is that of a server's own protocol.
	ExactLength bool
}

// Engines lists the server software.
func Engines() []Engine {
	return []Engine{
		{Name: VLLM, Owner: "vllm", ContinuousUsage: true, ExactLength: true},
		{Name: SGLang, Owner: "sglang", ContinuousUsage: true, ExactLength: true},
		{Name: TGI},
		{Name: TRTLLM, Owner: "tensorrt_llm", ContinuousUsage: true, ExactLength: true},
		{Name: Triton, Owner: "Triton Inference Server"}, // of its OpenAI front end, which ignores min_tokens
		{Name: LlamaCPP, Owner: "llamacpp", ExactLength: true},
		{Name: Ollama, Owner: "library"}, // of models without a publisher
		{Name: LMDeploy, Owner: "lmdeploy"},
		{Name: TEI},
		{Name: LiteLLM},
		{Name: NIM},
		{Name: Dynamo}, // its owner is nvidia, as that of NIM
	}
}

// LookupEngine returns the engine of that name; the zero value for a name that is
// not known.
func LookupEngine(name string) Engine {
	for _, e := range Engines() {
		if e.Name == name {
			return e
		}
	}
	return Engine{}
}

// EngineOf returns the name of the engine that a list of models names by its
// owners; "" where it names none or several.
func EngineOf(models []ModelInfo) (name string) {
	all := Engines()
	for _, m := range models {
		i := slices.IndexFunc(all, func(e Engine) bool { return e.Owner != "" && e.Owner == m.OwnedBy })
		switch {
		case i < 0 || all[i].Name == name:
		case name != "":
			return ""
		default:
			name = all[i].Name
		}
	}
	return name
}

// Host is a hosted service: no server of one's own, and without a metrics page.
type Host struct {
	// Name is the host name, with * for any text.
	Name string
	// API is the protocol of the service's own, or openai-chat; "" where the path
	// decides.
	API string
	// Provider is gen_ai.provider.name of OpenTelemetry; "" is none.
	Provider string
}

// Hosts lists the hosted services.
func Hosts() []Host {
	const openAI = "openai-chat"
	return []Host{
		{"api.openai.com", openAI, "openai"},
		{"*.openai.azure.com", openAI, "azure.ai.openai"},
		{"openrouter.ai", openAI, ""},
		{"api.groq.com", openAI, "groq"},
		{"api.deepseek.com", openAI, "deepseek"},
		{"api.mistral.ai", openAI, "mistral_ai"},
		{"api.x.ai", openAI, "x_ai"},
		{"api.perplexity.ai", "", "perplexity"},
		{"api.anthropic.com", "anthropic", "anthropic"},
		{"api.cohere.com", "cohere", "cohere"},
		{"api.cohere.ai", "cohere", "cohere"},
		{"generativelanguage.googleapis.com", "gemini", "gcp.gemini"},
		{"aiplatform.googleapis.com", "", "gcp.vertex_ai"},
		{"*-aiplatform.googleapis.com", "", "gcp.vertex_ai"},
		{"bedrock-runtime.*.amazonaws.com", "bedrock", "aws.bedrock"},
		{"bedrock-runtime-fips.*.amazonaws.com", "bedrock", "aws.bedrock"},
		{"bedrock-runtime.*.amazonaws.com.cn", "bedrock", "aws.bedrock"},
	}
}

// LookupHost returns the hosted service of a host name.
func LookupHost(name string) (Host, bool) {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	for _, h := range Hosts() {
		if ok, _ := path.Match(h.Name, name); ok {
			return h, true
		}
	}
	return Host{}, false
}

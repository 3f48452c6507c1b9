package api

import (
	_ "embed"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/inference-exporter/inference_exporter/internal/asset"
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

// Lookup returns the protocol of that name, which must not be changed; an empty one and false where there is none.
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

//go:embed catalogue.yml
var catalogueFile []byte

// catalogue returns the server software and the hosted services of catalogue.yml.
var catalogue = asset.Once[struct {
	Engines []Engine
	Hosts   []Host
}]("catalogue.yml", catalogueFile)

// Engine is what a probe must know of a server software, as catalogue.yml says it.
type Engine struct {
	Name            string // one of the constants above
	Owner           string
	ContinuousUsage bool `yaml:"continuous_usage"`
	// ExactLength is of the protocols of OpenAI; Protocol.ExactLength is that of a server's own.
	ExactLength bool `yaml:"exact_length"`
}

// LookupEngine returns the engine of that name; the zero value for a name that is not known.
func LookupEngine(name string) Engine {
	for _, e := range catalogue().Engines {
		if e.Name == name {
			return e
		}
	}
	return Engine{}
}

// EngineOf returns the name of the engine that a list of models names by its owners; "" where it names none or several.
func EngineOf(models []ModelInfo) (name string) {
	all := catalogue().Engines
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

// Host is a hosted service: no server of one's own, and without a metrics page. API is "" where the path decides.
type Host struct{ Name, API, Provider string }

// LookupHost returns the hosted service of a host name.
func LookupHost(name string) (Host, bool) {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	for _, h := range catalogue().Hosts {
		if ok, _ := path.Match(h.Name, name); ok {
			return h, true
		}
	}
	return Host{}, false
}

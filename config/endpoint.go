package config

import (
	"fmt"
	"maps"
	"slices"
)

// APIs lists the wire protocols: those that generate, then those that embed
// or rank.
func APIs() []string {
	return []string{
		"openai-chat", "openai-completions", "openai-responses", "anthropic", "gemini",
		"ollama", "ollama-generate", "tgi", "sglang", "llamacpp", "triton", "cohere", "bedrock",
		"openai-embeddings", "tei", "ollama-embed", "cohere-embed", "rerank",
	}
}

// Bounds of texts that become label values or go into requests, in bytes.
const (
	maxNameBytes  = 128
	maxModelBytes = 256
)

// Endpoint is one URL that serves a model.
type Endpoint struct {
	// Name is the label `endpoint`, unique in the file, at most 128 bytes.
	// Default: host and port of the URL, the scheme's own port left out.
	Name string `yaml:"name"`
	// URL is the base URL, http or https, with or without the version segment
	// (`/v1`), without user and fragment, and without a query but Azure's
	// `api-version`. Required.
	URL URL `yaml:"url"`
	// API is the wire protocol that the endpoint speaks, one of the list below.
	// Default: found out by asking the endpoint.
	API string `yaml:"api,omitempty"`
	// Model is the name of the model to ask for, at most 256 bytes. Default:
	// asked from the endpoint's list of models, adapters of others left out. It
	// is needed where that still has several: until then the endpoint is not
	// probed, which counts as skipped for `model_not_set`.
	Model string `yaml:"model,omitempty"`
	// Modules are the names of the modules to probe with.
	Modules []string `yaml:"modules"`
	// Labels stand on every series of the endpoint. Default: `global.labels`,
	// to which these are added.
	Labels map[string]string `yaml:"labels,omitempty"`
	// HTTP says how to connect and to authenticate; see below.
	HTTP HTTPClient `yaml:"http"`
	// SigV4 signs the requests for AWS; see below.
	SigV4 *SigV4 `yaml:"sigv4,omitempty"`
	// Request changes what is sent, for servers that deviate from their
	// protocol; see below.
	Request Request `yaml:"request,omitempty"`
	// Servers says where the servers behind the endpoint show their own
	// metrics; see below.
	Servers Servers `yaml:"servers"`
	// SLO is what is promised of the endpoint, for modules that have none of
	// their own; see below. Default: that of the built-in module; for other
	// modules that 99 % of the probes succeed.
	SLO *SLO `yaml:"slo,omitempty"`
	// Price says what the endpoint costs; see below.
	Price *Price `yaml:"price,omitempty"`
	// Budget limits what the probes of the endpoint may spend; see below.
	Budget Budget `yaml:"budget,omitempty"`
	// Hardware says what the endpoint runs on; see below.
	Hardware *Hardware `yaml:"hardware,omitempty"`
}

// Format writes the endpoint as printYAML does.
func (e Endpoint) Format(f fmt.State, _ rune) { printYAML(f, e) }

func (e *Endpoint) validate(r *report, p path, modules map[string]*Module) {
	if r.failed[p] {
		return // not an endpoint at all
	}
	if e.URL.URL == nil {
		r.errorf(p.key("url"), "missing; %v", errWantURL)
	}
	if r.written(p.key("name")) || e.URL.URL != nil {
		e.validateName(r, p.key("name"))
	}
	e.validateShared(r, p, modules)
}

func (e *Endpoint) validateName(r *report, p path) {
	validateText(r, p, "endpoint name", e.Name, maxNameBytes)
	if e.Name == "." || e.Name == ".." { // a browser takes them for a folder, in the address of the endpoint's page
		r.errorf(p, "endpoint name %s has no page; want another", quote(e.Name))
	}
}

// validateShared checks all that several endpoints may have in common.
func (e *Endpoint) validateShared(r *report, p path, modules map[string]*Module) {
	if e.Model != "" {
		validateText(r, p.key("model"), "model", e.Model, maxModelBytes)
	}
	if e.API != "" || r.written(p.key("api")) {
		validateOneOf(r, p.key("api"), e.API, APIs()...)
	}
	validateLabels(r, p.key("labels"), e.Labels)
	e.validateSigV4(r, p.key("sigv4"))
	e.Request.validate(r, p.key("request"))
	e.Servers.validate(r, p.key("servers"))
	e.validateSLO(r, p.key("slo"), modules)
	if e.Price != nil {
		e.Price.validate(r, p.key("price"))
	}
	e.validateBudget(r, p)
	if e.Hardware != nil {
		e.Hardware.validate(r, p.key("hardware"))
	}
	e.validateModules(r, p.key("modules"), modules)
}

func (e *Endpoint) validateModules(r *report, p path, modules map[string]*Module) {
	if len(e.Modules) == 0 {
		r.errorf(p, "an empty list; leave the key out for [%s]", Interactive)
	}
	for i, name := range e.Modules {
		switch {
		case modules[name] == nil:
			known := slices.Sorted(maps.Keys(modules))
			r.errorf(p.index(i), "unknown module %s; known: %s", quote(name), joinSome(known))
		case slices.Contains(e.Modules[:i], name):
			r.errorf(p.index(i), "module %s is listed twice", quote(name))
		}
	}
}

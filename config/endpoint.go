package config

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"golang.org/x/net/http/httpguts"

	"github.com/inference-exporter/inference_exporter/internal/nearest"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

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
	// Default: detected by asking the endpoint.
	API string `yaml:"api,omitempty"`
	// Model is the name of the model to ask for, at most 256 bytes. Default:
	// asked from the endpoint's list of models, adapters of others left out. It
	// is needed where that still has several: until then the endpoint is not
	// probed, which counts as skipped for `model_not_set`.
	Model string `yaml:"model,omitempty"`
	// Modules are the names of the modules to probe with.
	Modules []string `yaml:"modules"`
	// Labels are added to every series of the endpoint. Default: `global.labels`,
	// to which these are added.
	Labels map[string]string `yaml:"labels,omitempty"`
	// HTTP says how to connect and to authenticate; see below.
	HTTP HTTPClient `yaml:"http"`
	// SigV4 signs the requests for AWS; see below.
	SigV4 *SigV4 `yaml:"sigv4,omitempty"`
	// CloudIdentity gives requests a token of Google Cloud or Azure; see below.
	CloudIdentity *CloudIdentity `yaml:"cloud_identity,omitempty"`
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
	// Gateway is the name of the gateway under `gateways` that the requests to the
	// endpoint pass. Default: none.
	Gateway string `yaml:"gateway,omitempty"`

	// MissingSecret says which secret of the endpoint is missing, so that it cannot be
	// probed; "" is none. See Global.MissingSecrets.
	MissingSecret string `yaml:"-"`
}

// HasKey reports whether requests to the endpoint identify who asks.
func (e *Endpoint) HasKey() bool { return e.SigV4 != nil || e.CloudIdentity != nil || e.HTTP.hasKey() }

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
		r.errorf(p, "no page can have the endpoint name %s; want another", quote(e.Name))
	}
}

// validateShared checks all that several endpoints may have in common.
func (e *Endpoint) validateShared(r *report, p path, modules map[string]*Module) {
	if e.Model != "" {
		validateText(r, p.key("model"), "model", e.Model, maxModelBytes)
	}
	if e.API != "" || r.written(p.key("api")) {
		validateOneOf(r, p.key("api"), e.API, api.Names()...)
	}
	validateLabels(r, p.key("labels"), e.Labels)
	e.validateSigV4(r, p.key("sigv4"))
	e.validateCloudIdentity(r, p.key("cloud_identity"))
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
			r.errorf(p.index(i), "unknown module %s%s", quote(name), nearest.Hint(name, "known", known))
		case slices.Contains(e.Modules[:i], name):
			r.errorf(p.index(i), "module %s is listed twice", quote(name))
		}
	}
}

// maxKeyBytes bounds the name of a key of a request.
const maxKeyBytes = 256

// Request says how the requests to an endpoint differ from those that the
// protocol's probe would send. In the body the answer's cap is renamed first,
// then the keys of `omit` go, then those of `extra` come. The settings
// are shown on the pages: a key for access belongs under `http`.
type Request struct {
	// Omit lists keys that are left out of the body, nested ones with dots:
	// `temperature`, `stream_options.continuous_usage_stats`. A key that the
	// body does not have is no mistake.
	Omit []string `yaml:"omit,omitempty"`
	// Extra is an object that is merged into the body: objects key by key,
	// while any other value, null and lists included, replaces what is there.
	// What `omit` names too is replaced whole.
	Extra map[string]any `yaml:"extra,omitempty"`
	// Path is sent instead of the whole path of the URL, with a slash first.
	// Default: the protocol's path under the URL.
	Path string `yaml:"path,omitempty"`
	// MaxTokensField is the key that caps the answer, where the server wants
	// another spelling, such as `max_completion_tokens`. Default: the
	// protocol's own.
	MaxTokensField string `yaml:"max_tokens_field,omitempty"`
	// StickyHeader is a header by which a balancer keeps requests together: the
	// two requests of a pair carry the same random value in it, so that they
	// reach the same replica, and so do the turns of every second conversation.
	// Default: no such header.
	StickyHeader string `yaml:"sticky_header,omitempty"`
	// ReplicaHeader is a header of the replies that names the replica that
	// answered, such as `X-Served-By`: whether the turns of a conversation stay
	// on one replica is then measured. Default: no such header.
	ReplicaHeader string `yaml:"replica_header,omitempty"`
}

func (q *Request) validate(r *report, p path) {
	for i, key := range q.Omit {
		at := p.key("omit").index(i)
		switch {
		case slices.Contains(strings.Split(key, "."), ""):
			r.errorf(at, "want the name of a key, like stream_options.include_usage, got %s", quote(key))
		case slices.Contains(q.Omit[:i], key):
			r.errorf(at, "%s is listed twice", quote(key))
		default:
			validateText(r, at, "key", key, maxKeyBytes)
		}
	}
	if r.written(p.key("max_tokens_field")) {
		validateText(r, p.key("max_tokens_field"), "key", q.MaxTokensField, maxKeyBytes)
	}
	if r.written(p.key("path")) && !isPath(q.Path) {
		r.errorf(p.key("path"), "want a path like /custom/chat, without query and fragment")
	}
	validateHeaderName(r, p.key("sticky_header"), q.StickyHeader)
	if at := p.key("replica_header"); r.written(at) && !httpguts.ValidHeaderFieldName(q.ReplicaHeader) {
		r.errorf(at, "not a valid name of a header")
	}
}

// validateHeaderName checks the name of a header that requests get.
func validateHeaderName(r *report, p path, name string) {
	_, reserved := promconfig.ReservedHeaders[http.CanonicalHeaderKey(name)]
	switch {
	case !r.written(p):
	case !httpguts.ValidHeaderFieldName(name):
		r.errorf(p, "not a valid name of a header")
	case reserved:
		r.errorf(p, "setting header %q is not allowed", http.CanonicalHeaderKey(name))
	}
}

// isPath reports whether s is the path of a URL, and nothing more.
func isPath(s string) bool {
	_, err := url.Parse("http://h" + s)
	return err == nil && strings.HasPrefix(s, "/") && !strings.ContainsAny(s, "?#")
}

// Servers says where the servers behind an endpoint show their own metrics,
// and how to read them.
type Servers struct {
	// Find says whether to look for a page at the endpoint's own address when
	// neither `urls` nor `dns` names one.
	Find bool `yaml:"find"`
	// URLs are pages, one for each server. A URL without a path gets that of
	// the engine; the only query is `?model=NAME`, with which `autoload=false` is
	// sent, so that no reading loads a model.
	URLs []PageURL `yaml:"urls,omitempty"`
	// DNS are pages at all addresses that their host resolves to, each a
	// server. The name is resolved again before each reading.
	DNS []PageURL `yaml:"dns,omitempty"`
	// Engine is the name of the mapping to read the pages with: a built-in one
	// or one under `engines`. Default: recognized by the series of the page.
	Engine string `yaml:"engine,omitempty"`
	// Interval is the time from one reading to the next.
	Interval model.Duration `yaml:"interval"`
	// Timeout limits one reading. It may not exceed the interval; the default
	// is cut to it.
	Timeout model.Duration `yaml:"timeout"`
	// HTTP says how to connect to the pages and to authenticate, with the keys
	// of the endpoint's `http`. Default: the endpoint's `http` for a page on its
	// own scheme, host and port; no credentials for any other. A page that is
	// found on another port never gets credentials: name it under `urls`.
	HTTP *HTTPClient `yaml:"http,omitempty"`

	// PagePorts are the ports at which a page of a discovered endpoint may be
	// looked for, beside its own; nil is any.
	PagePorts []string `yaml:"-"`
}

// Format writes the settings as printYAML does.
func (s Servers) Format(f fmt.State, _ rune) { printYAML(f, s) }

func (s *Servers) validate(r *report, p path) {
	first := map[string]path{}
	validatePages(r, p.key("urls"), s.URLs, first)
	validatePages(r, p.key("dns"), s.DNS, first)
	if r.written(p.key("engine")) {
		validateText(r, p.key("engine"), "engine name", s.Engine, maxNameBytes)
	}
	if timeout := p.key("timeout"); r.written(timeout) && !r.failed[p.key("interval")] && s.Timeout > s.Interval {
		r.errorf(timeout, "%s exceeds the interval of %s", s.Timeout, s.Interval)
	}
}

// validatePages checks the pages of one list; first has the path of each
// page seen before.
func validatePages(r *report, p path, pages []PageURL, first map[string]path) {
	for i, u := range pages {
		at := p.index(i)
		if u.URL == nil {
			r.errorf(at, "missing; %v", errWantURL)
			continue
		}
		page := URL(u).page()
		if before, ok := first[page]; ok {
			r.errorf(at, "the same page as %s", before)
			continue
		}
		first[page] = at
	}
}

// page is the one spelling of a URL: the host in lower case, with its port.
func (u URL) page() string {
	at := u.EscapedPath()
	if at == "/" {
		at = "" // a URL without a path means the same
	}
	return u.Scheme + "://" + net.JoinHostPort(foldHost(u.URL), portOf(u.URL)) + at + "?" + u.Query().Encode()
}

// maxGPUs is more GPUs than work on one request together.
const maxGPUs = 1024

// Hardware says what an endpoint runs on, for the ceiling of what it can
// decode: the memory bandwidth of its GPUs over the bytes of weights that each
// token reads. Nothing in it is required; what is left out makes no series.
type Hardware struct {
	// GPU is the name of the product, such as `H100 SXM`, which determines the memory
	// bandwidth; at most 128 bytes.
	GPU string `yaml:"gpu,omitempty"`
	// GPUs is how many GPUs work on one token at the same time (tensor parallel),
	// 1 to 1,024. Replicas do not count, nor do the stages of a pipeline, which
	// work one after the other. Default: the number of `uuids`, or 1.
	GPUs int `yaml:"gpus"`
	// MemoryBandwidth is that of one GPU or MIG device, in bytes per second.
	// Default: that of the product, though not for MIG devices, whose share
	// of it is unknown; else that of the GPUs of this machine that `uuids`
	// names.
	MemoryBandwidth Bytes `yaml:"memory_bandwidth,omitempty"`
	// Weights are the bytes of weights that are read for each token, over all
	// GPUs together and in the type they are stored in: all of the model, or the
	// active ones of a mixture of experts.
	Weights Bytes `yaml:"weights,omitempty"`
	// Parameters is the number of weights that are read for each token, such as
	// `8.03e9`, where their bytes are to follow from `weights_precision`; it cannot
	// be given beside `weights`. What a checkpoint keeps in another
	// precision, mostly embeddings, is then not counted.
	Parameters float64 `yaml:"parameters,omitempty"`
	// TotalWeights are the bytes of all weights that one replica holds on its GPUs
	// together; of a mixture of experts, those of all experts. With it the memory of the
	// GPUs is split into weights, KV cache and rest, where the server does not
	// report its weights.
	TotalWeights Bytes `yaml:"total_weights,omitempty"`
	// KVCachePerToken are the bytes of KV cache of one token on all GPUs of a replica
	// together: 2 × layers × KV heads × head size × bytes of a value, such as 128KiB
	// for Llama 3.1 8B in bf16. With it the bytes of the KV cache follow from its
	// capacity in tokens, where the server does not report them.
	KVCachePerToken Bytes `yaml:"kv_cache_per_token,omitempty"`
	// WeightsPrecision is the number format in which the weights are stored: `fp32`,
	// `bf16`, `fp16`, `fp8`, `mxfp8`, `int8`, `fp4`, `mxfp4`, `nvfp4` or `int4`. It is a
	// label, and gives the bytes of `parameters`.
	WeightsPrecision Precision `yaml:"weights_precision,omitempty"`
	// ComputePrecision is the number format in which the GPU multiplies, one of the
	// same. Where it is not that of the weights, these are converted on the
	// way: the ceiling stays, while less of it can be reached.
	ComputePrecision Precision `yaml:"compute_precision,omitempty"`
	// UUIDs are the GPUs or MIG devices as the driver names them, `GPU-...` or
	// `MIG-...`. They join the endpoint to the readings of these GPUs, on
	// whatever machine these are.
	UUIDs []string `yaml:"uuids,omitempty"`
}

// Format writes the hardware as printYAML does.
func (h Hardware) Format(f fmt.State, _ rune) { printYAML(f, h) }

// gpuUUID is how drivers and exporters name a GPU or a part of one: GPU-UUID,
// MIG-GPU-UUID/7/0, a PCI address, or the hexadecimal number of a card of AMD.
var gpuUUID = regexp.MustCompile(`^([0-9A-Za-z]+[-:/][0-9A-Za-z._:/-]{1,110}|(0x)?[0-9a-f]{16})$`)

func (h *Hardware) validate(r *report, p path) {
	if r.failed[p] {
		return // not hardware at all
	}
	if r.written(p.key("gpu")) {
		validateText(r, p.key("gpu"), "GPU name", h.GPU, maxNameBytes)
	}
	validateRange(r, p.key("gpus"), h.GPUs, 1, maxGPUs)
	h.validatePrecision(r, p)
	uuids := p.key("uuids")
	for i, uuid := range h.UUIDs {
		switch {
		case r.failed[uuids.index(i)]:
		case !gpuUUID.MatchString(uuid):
			r.errorf(uuids.index(i), "want a UUID as inference_gpu_info shows it, such as GPU-..., got %s", quote(uuid))
		case slices.Contains(h.UUIDs[:i], uuid):
			r.errorf(uuids.index(i), "%s is listed twice", quote(uuid))
		}
	}
	if len(h.UUIDs) > 0 && h.GPUs != len(h.UUIDs) {
		r.errorf(p.key("gpus"), "%d GPUs and %d uuids; leave gpus out", h.GPUs, len(h.UUIDs))
	}
}

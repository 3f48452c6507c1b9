package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/prometheus/common/model"
)

// MetricsPages are the metrics pages of software that is read beside the servers, such as
// a gateway or an exporter of GPUs.
type MetricsPages struct {
	// URLs are the pages, one for each replica or host. A URL without a path gets that
	// of the software. Required unless there is `dns`.
	URLs []PageURL `yaml:"urls,omitempty"`
	// DNS are pages at all addresses that their host resolves to, each a replica or a
	// host. The name is resolved again before each reading.
	DNS []PageURL `yaml:"dns,omitempty"`
	// Software is the name of the mapping to read the pages with. Default: recognized by
	// the series of the page.
	Software string `yaml:"software,omitempty" text:"128"`
	// Interval is the time from one reading to the next.
	Interval model.Duration `yaml:"interval" default:"15s"`
	// Timeout limits one reading. It may not exceed the interval; the default
	// is cut to it.
	Timeout model.Duration `yaml:"timeout" default:"10s"`
	// HTTP says how to connect to the pages and to authenticate, with the keys
	// of the endpoint's `http`.
	HTTP HTTPClient `yaml:"http"`
}

// Format writes the pages as printYAML does.
func (m MetricsPages) Format(f fmt.State, _ rune) { printYAML(f, m) }

// Endpoint returns an endpoint of that name whose servers have these pages, for the
// reader of servers' pages.
func (m *MetricsPages) Endpoint(name string) *Endpoint {
	return &Endpoint{
		Name: name, URL: URL(slices.Concat(m.URLs, m.DNS)[0]), HTTP: m.HTTP,
		Servers: Servers{URLs: m.URLs, DNS: m.DNS, Engine: m.Software, Interval: m.Interval, Timeout: m.Timeout, HTTP: &m.HTTP},
	}
}

func (m *MetricsPages) complete(r *report, p path) {
	r.limit(p.key("timeout"), &m.Timeout, p.key("interval"), m.Interval)
}

func (m *MetricsPages) check(r *report, p path) {
	if len(m.URLs)+len(m.DNS) == 0 && !r.failedUnder(p) {
		r.errorf(p.key("urls"), "missing; want the URL of a metrics page, or dns")
	}
	first := map[string]path{}
	checkPages(r, p.key("urls"), m.URLs, first)
	checkPages(r, p.key("dns"), m.DNS, first)
}

// GPUs says from where GPUs are read besides the drivers of this machine.
type GPUs struct {
	// Pages are metrics pages of other exporters that show GPUs or other accelerators,
	// by name; see below. They are read while `--collector.gpu` is on.
	Pages map[string]*MetricsPages `yaml:"pages,omitempty" text:"128"`
}

// reservedGPUSources are the names of what reads the GPUs of this machine.
func reservedGPUSources() []string { return []string{"nvml", "amdgpu"} }

func (g *GPUs) check(r *report, p path) {
	for _, name := range reservedGPUSources() {
		if g.Pages[name] != nil {
			r.errorf(p.key("pages").key(name), "the name %s is that of the driver of this machine", quote(name))
		}
	}
}

func checkGateway(r *report, p path, name string, gateways map[string]*MetricsPages) {
	if name != "" && gateways[name] == nil {
		r.errorf(p, "unknown gateway %s%s", quote(name), Hint(name, "known under gateways", slices.Sorted(maps.Keys(gateways))))
	}
}

// GatewayMapping says how to read the metrics page of one gateway software. One with
// the name of a built-in mapping changes only what it writes: a list or a plain value
// replaces the built-in one, and in a mapping only the keys that are written change.
type GatewayMapping struct {
	// Sentinels are series, any of which identifies a page as this software's.
	// Default: those of the built-in mapping; a new one needs at least one.
	Sentinels []string `yaml:"sentinels,omitempty" form:"series" items:"some"`
	// Fallback says whether the page may hold the series of another software too,
	// which are then the better ones to read.
	Fallback bool `yaml:"fallback,omitempty"`
	// Pages are where the page is, in the form of `pages` of an engine. The first one is
	// used for a URL without a path. Default: that of the built-in mapping, `/metrics`
	// in a new one.
	Pages []string `yaml:"pages,omitempty" form:"page" items:"some"`
	// Setup is text for the documentation: what makes the software show the
	// page, and what that costs.
	Setup string `yaml:"setup,omitempty"`
	// Notes is text for the documentation: what to know of the values.
	Notes string `yaml:"notes,omitempty"`
	// Backend are the labels with the name of a backend; the first that a sample has
	// counts. Without one nothing is known by backend.
	Backend []string `yaml:"backend,omitempty" form:"label" items:"some"`
	// Labels restrict all samples: one that has the label must have this
	// value. An empty value excludes all samples that have the label set.
	Labels map[string]string `yaml:"labels,omitempty" form:"label"`
	// Copies are labels whose values distinguish copies of the same thing: of samples
	// that differ only in these, the largest counts.
	Copies []string `yaml:"copies,omitempty" form:"label" items:"some"`
	// Expected are quantities of any kind that every page of this software shows.
	// One that is missing is reported, as it was probably renamed.
	Expected []Quantity `yaml:"expected,omitempty" items:"some"`
	// Values are the sources of each quantity that is one number, the better
	// one first; the first that a page has is used. An empty list leaves the
	// quantity out.
	Values map[Quantity][]EngineSource `yaml:"values,omitempty"`
	// Histograms are the sources of each distribution, in the same way.
	Histograms map[Quantity][]EngineHistogram `yaml:"histograms,omitempty"`
	// PrefixCache are the sources of the requests, blocks or tokens that the gateway
	// sent where it expects their prefix to be cached, in the same way.
	PrefixCache []EnginePrefixCache `yaml:"prefix_cache,omitempty" items:"some"`
	// Requests are the series of ended requests; all of them are added.
	Requests []EngineRequests `yaml:"requests,omitempty" items:"some"`
	// BackendRequests are the series of the requests that a backend answered, where these
	// are others than `requests`; all of them are added.
	BackendRequests []EngineRequests `yaml:"backend_requests,omitempty" items:"some"`
	// Ready are the sources of whether a backend is ready, the better one first. With one,
	// `backends` and `backends_ready` are counted where the page has no such numbers.
	Ready []GatewayReady `yaml:"ready,omitempty" items:"some"`
}

// GatewayReady is where to find whether a backend is ready for requests.
type GatewayReady struct {
	// Series is the name of a gauge with a label of the backend.
	Series string `yaml:"series" form:"series" required:"the name of a series"`
	// Labels restrict the samples to those with these values.
	Labels map[string]string `yaml:"labels,omitempty" form:"label"`
	// Values are those of the gauge that mean that the backend is ready. Of several
	// samples the largest value counts.
	Values []float64 `yaml:"values,omitempty" default:"[1]" items:"some"`
}

// Engine returns the mapping in the form of an engine's.
func (g *GatewayMapping) Engine() *Engine {
	return &Engine{
		Sentinels: g.Sentinels, Fallback: g.Fallback, Pages: g.Pages, Setup: g.Setup, Notes: g.Notes, Labels: g.Labels, Copies: g.Copies,
		Expected: g.Expected, Values: g.Values, Histograms: g.Histograms, PrefixCache: g.PrefixCache, Requests: g.Requests,
		Backend: g.Backend, BackendRequests: g.BackendRequests, Ready: g.Ready,
	}
}

// ParseGatewayMapping reads one mapping from data, as ParseEngine does.
func ParseGatewayMapping(data []byte, name string) (*GatewayMapping, error) {
	return parseMapping[GatewayMapping](data, name)
}

func (g *GatewayMapping) complete(r *report, p path) { g.Engine().complete(r, p) }

func (g *GatewayMapping) check(r *report, p path) {
	g.Engine().checkQuantities(r, p, vocabulary{GatewayNumbers(), GatewayDistributions(), GatewayQuantities(), "docs/gateways.md"})
}

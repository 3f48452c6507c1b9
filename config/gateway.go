package config

import (
	"maps"
	"reflect"
	"slices"

	"github.com/inference-exporter/inference_exporter/internal/nearest"
)

// validateGateways checks the gateways, and that there is the one that each endpoint
// names.
func (c *Config) validateGateways(r *report) {
	for _, name := range slices.Sorted(maps.Keys(c.Gateways)) {
		p := path("gateways").key(name)
		validateText(r, p, "gateway name", name, maxNameBytes)
		c.Gateways[name].validate(r, p, "gateway")
	}
	for i, e := range c.Endpoints {
		validateGatewayName(r, path("endpoints").index(i).key("gateway"), e.Gateway, c.Gateways)
	}
	for i, d := range c.Discovery {
		validateGatewayName(r, path("discovery").index(i).key("gateway"), d.Template.Gateway, c.Gateways)
		d.gateways = c.Gateways
	}
	for _, name := range slices.Sorted(maps.Keys(c.GatewayMappings)) {
		p := path("gateway_mappings").key(name)
		validateText(r, p, "gateway software", name, maxNameBytes)
		c.GatewayMappings[name].validate(r, p)
	}
}

func validateGatewayName(r *report, p path, name string, gateways map[string]*MetricsPages) {
	if name != "" && gateways[name] == nil {
		r.errorf(p, "unknown gateway %s%s", quote(name), nearest.Hint(name, "known under gateways", slices.Sorted(maps.Keys(gateways))))
	}
}

// GatewayMapping says how to read the metrics page of one gateway software. One with
// the name of a built-in mapping changes only what it writes: a list or a plain value
// replaces the built-in one, and in a mapping only the keys that are written change.
type GatewayMapping struct {
	// Sentinels are series, any of which identifies a page as this software's.
	// Default: those of the built-in mapping; a new one needs at least one.
	Sentinels []string `yaml:"sentinels,omitempty"`
	// Fallback says whether the page may hold the series of another software too,
	// which are then the better ones to read.
	Fallback bool `yaml:"fallback,omitempty"`
	// Pages are where the page is, in the form of `pages` of an engine. The first one is
	// used for a URL without a path. Default: that of the built-in mapping, `/metrics`
	// in a new one.
	Pages []string `yaml:"pages,omitempty"`
	// Setup is text for the documentation: what makes the software show the
	// page, and what that costs.
	Setup string `yaml:"setup,omitempty"`
	// Notes is text for the documentation: what to know of the values.
	Notes string `yaml:"notes,omitempty"`
	// Backend are the labels with the name of a backend; the first that a sample has
	// counts. Without one nothing is known by backend.
	Backend []string `yaml:"backend,omitempty"`
	// Labels restrict all samples: one that has the label must have this
	// value. An empty value excludes all samples that have the label set.
	Labels map[string]string `yaml:"labels,omitempty"`
	// Copies are labels whose values distinguish copies of the same thing: of samples
	// that differ only in these, the largest counts.
	Copies []string `yaml:"copies,omitempty"`
	// Expected are quantities of any kind that every page of this software shows.
	// One that is missing is reported, as it was probably renamed.
	Expected []Quantity `yaml:"expected,omitempty"`
	// Values are the sources of each quantity that is one number, the better
	// one first; the first that a page has is used. An empty list leaves the
	// quantity out.
	Values map[Quantity][]EngineSource `yaml:"values,omitempty"`
	// Histograms are the sources of each distribution, in the same way.
	Histograms map[Quantity][]EngineHistogram `yaml:"histograms,omitempty"`
	// PrefixCache are the sources of the requests, blocks or tokens that the gateway
	// sent where it expects their prefix to be cached, in the same way.
	PrefixCache []EnginePrefixCache `yaml:"prefix_cache,omitempty"`
	// Requests are the series of ended requests; all of them are added.
	Requests []EngineRequests `yaml:"requests,omitempty"`
	// BackendRequests are the series of the requests that a backend answered, where these
	// are others than `requests`; all of them are added.
	BackendRequests []EngineRequests `yaml:"backend_requests,omitempty"`
	// Ready are the sources of whether a backend is ready, the better one first. With one,
	// `backends` and `backends_ready` are counted where the page has no such numbers.
	Ready []GatewayReady `yaml:"ready,omitempty"`
}

// GatewayReady is where to find whether a backend is ready for requests.
type GatewayReady struct {
	// Series is the name of a gauge with a label of the backend. Required.
	Series string `yaml:"series"`
	// Labels restrict the samples to those with these values.
	Labels map[string]string `yaml:"labels,omitempty"`
	// Values are those of the gauge that mean that the backend is ready. Of several
	// samples the largest value counts. Default: [1].
	Values []float64 `yaml:"values,omitempty"`
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
	r := newReport(name)
	g := new(GatewayMapping)
	if root := parseYAML(data, "sentinels", r); root != nil {
		d := newDecoder(r, "")
		d.value(root, "", reflect.ValueOf(g).Elem())
		if !r.failed[""] {
			g.setDefaults(r, "")
			g.validate(r, "")
		}
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return g, nil
}

// The quantities of gateways alone. The others have the names of those of engines.
const (
	Saturation       Quantity = "saturation_ratio"  // of the backends as the gateway judges it; 1 and above is saturated
	Backends         Quantity = "backends"          // that the gateway knows
	BackendsReady    Quantity = "backends_ready"    // that it sends requests to
	RoutingDecisions Quantity = "routing_decisions" // counter
	Cooldowns        Quantity = "cooldowns"         // counter: times that a backend was left out after failures
	RoutingTime      Quantity = "routing"           // distribution: of the choice of a backend
)

// GatewayNumbers lists the quantities that `values` of a gateway may have: gauges,
// then counters.
func GatewayNumbers() []Quantity {
	return []Quantity{RequestsRunning, RequestsWaiting, Saturation, Backends, BackendsReady, Rejections, RoutingDecisions, Cooldowns}
}

// GatewayDistributions lists the quantities that `histograms` of a gateway may have.
func GatewayDistributions() []Quantity {
	return []Quantity{QueueTime, TokenizationTime, RoutingTime, TTFT, RequestDuration}
}

// GatewayQuantities lists all quantities of gateways.
func GatewayQuantities() []Quantity {
	all := append(GatewayNumbers(), PrefixCacheAsked, PrefixCacheHits, RequestsFinished)
	return append(all, GatewayDistributions()...)
}

func isGatewayCounter(q Quantity) bool { return q == RoutingDecisions || q == Cooldowns }

func (g *GatewayMapping) setDefaults(r *report, p path) {
	g.Engine().setDefaults(r, p)
	setRequestsDefaults(r, p.key("backend_requests"), g.BackendRequests)
	for i := range g.Ready {
		orDefault(r, p.key("ready").index(i).key("values"), &g.Ready[i].Values, []float64{1})
	}
}

func (g *GatewayMapping) validate(r *report, p path) {
	if r.failed[p] {
		return // no mapping at all
	}
	g.Engine().validateWith(r, p, vocabulary{GatewayNumbers(), GatewayDistributions(), GatewayQuantities(), "docs/gateways.md"})
	validateList(r, p.key("backend"), len(g.Backend))
	for i, name := range g.Backend {
		validateLabelName(r, p.key("backend").index(i), name)
	}
	validateRequests(r, p.key("backend_requests"), g.BackendRequests)
	validateList(r, p.key("ready"), len(g.Ready))
	for i := range g.Ready {
		g.Ready[i].validate(r, p.key("ready").index(i))
	}
}

func (g *GatewayReady) validate(r *report, p path) {
	if r.failed[p] {
		return
	}
	validateSeries(r, p.key("series"), g.Series)
	validateSelector(r, p.key("labels"), g.Labels)
	validateList(r, p.key("values"), len(g.Values))
}

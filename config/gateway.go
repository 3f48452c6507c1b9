package config

import (
	"maps"
	"reflect"
	"slices"

	"github.com/inference-exporter/inference_exporter/internal/nearest"
)

func checkGateway(r *report, p path, name string, gateways map[string]*MetricsPages) {
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
	r := newReport(name)
	g := new(GatewayMapping)
	if root := parseYAML(data, "sentinels", r); root != nil {
		d := newDecoder(r, "")
		d.value(root, "", reflect.ValueOf(g).Elem())
		if !r.failed[""] {
			d.finish("", reflect.ValueOf(g).Elem())
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

func (g *GatewayMapping) complete(r *report, p path) { g.Engine().complete(r, p) }

func (g *GatewayMapping) check(r *report, p path) {
	g.Engine().checkQuantities(r, p, vocabulary{GatewayNumbers(), GatewayDistributions(), GatewayQuantities(), "docs/gateways.md"})
}

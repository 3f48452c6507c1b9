package config

import (
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
)

// Mapping says how to read the metrics page of one software, a server or a gateway: which of
// its series hold which quantity. One with the name of a built-in mapping changes
// only what it writes: a list or a plain value replaces the built-in one, and
// in a mapping only the keys that are written change.
type Mapping struct {
	// Sentinels are series, any of which identifies a page as this software's.
	// Default: those of the built-in mapping; a new one needs at least one.
	Sentinels []string `yaml:"sentinels,omitempty" form:"series" items:"some"`
	// Fallback says whether the page may hold the series of another software too,
	// which are then the better ones to read.
	Fallback bool `yaml:"fallback,omitempty"`
	// Pages are where the page may be, in the order to try: a path, or a port and a path as in `:8002/metrics`.
	// Default: that of the built-in mapping, `/metrics` in a new one.
	Pages []string `yaml:"pages,omitempty" form:"page" items:"some"`
	// Format is that of the page: `prometheus`, or `json` for a JSON object or list, whose numbers are read as series.
	// The name of a series is the path of keys to it, joined by `_`, without the places in lists; of an object in a
	// list, the texts are the labels of its numbers. A boolean is 1 or 0, a time (RFC 3339) is in Unix seconds, and a
	// list is a number too: of its items. Default: that of the built-in mapping, `prometheus` in a new one.
	Format string `yaml:"format,omitempty" oneof:"prometheus,json"`
	// Setup is text for the documentation: what makes the software show the page, and what that costs.
	Setup string `yaml:"setup,omitempty"`
	// Notes is text for the documentation: what to know of the values.
	Notes string `yaml:"notes,omitempty"`
	// ModelLabel is the label with the name of the model. Samples of other models than the endpoint's do not count
	// where the page has samples of it, or of more than one other model.
	ModelLabel string `yaml:"model_label,omitempty" form:"label" of:"server"`
	// RoleLabel is the label that says what part of a request the server does, with one
	// of the values `unified`, `prefill` and `decode`. Any other value is no role.
	RoleLabel string `yaml:"role_label,omitempty" form:"label" of:"server"`
	// Info are the sources of each setting that the server was started with, the better one
	// first; the first that a page has is used. Replicas are compared by it.
	Info map[Setting][]MappingInfo `yaml:"info,omitempty" of:"server"`
	// Backend are the labels with the name of a backend; the first that a sample has
	// counts. Without one nothing is known by backend.
	Backend []string `yaml:"backend,omitempty" form:"label" items:"some" of:"gateway"`
	// Labels restrict all samples: one that has the label must have this
	// value. An empty value excludes all samples that have the label set.
	Labels map[string]string `yaml:"labels,omitempty" form:"label"`
	// Copies are labels whose values distinguish copies of the same thing, such as the ranks of tensor parallelism or
	// the processes of a front end: of samples that differ only in these, the largest counts.
	Copies []string `yaml:"copies,omitempty" form:"label" items:"some"`
	// Expected are quantities of any kind that every page of this software shows.
	// One that is missing is reported, as it was probably renamed.
	Expected []Quantity `yaml:"expected,omitempty" items:"some"`
	// ExpectedAfterWork are quantities that every page of this engine shows once the server has generated tokens and
	// ended a request; before that, one that is missing is not reported. `queue` is expected after requests were seen
	// to wait, `inter_token` and `tpot` after an answer of more than one token.
	ExpectedAfterWork []Quantity `yaml:"expected_after_work,omitempty" items:"some" of:"server"`
	// Progress are series that move while the engine works, not only when a request ends. Without one, the engine's
	// progress has no series. Where the series of `generation_tokens` do not distinguish the ranks of data parallelism,
	// the first of these counts the tokens of each.
	Progress []MappingSource `yaml:"progress,omitempty" items:"some" of:"server"`
	// Values are the sources of each quantity that is one number, the better one first; the first that a page has is
	// used. An empty list leaves the quantity out.
	Values map[Quantity][]MappingSource `yaml:"values,omitempty"`
	// Histograms are the sources of each distribution, in the same way.
	Histograms map[Quantity][]MappingHistogram `yaml:"histograms,omitempty"`
	// InputLengths are the sources of the lengths of the prompts of ended requests, histograms in tokens, in the same
	// way. They are read where a module of the endpoint has `traffic`.
	InputLengths []MappingHistogram `yaml:"input_lengths,omitempty" items:"some" of:"server"`
	// OutputLengths are those of the lengths of answers.
	OutputLengths []MappingHistogram `yaml:"output_lengths,omitempty" items:"some" of:"server"`
	// PrefixCache are the sources of the hits of the prefix cache, in the same way; of a
	// gateway, of what it sent where it expects the prefix to be cached.
	PrefixCache []MappingPrefixCache `yaml:"prefix_cache,omitempty" items:"some"`
	// Requests are the series of ended requests; all of them are added.
	Requests []MappingRequests `yaml:"requests,omitempty" items:"some"`
	// BackendRequests are the series of the requests that a backend answered, where these
	// are others than `requests`; all of them are added.
	BackendRequests []MappingRequests `yaml:"backend_requests,omitempty" items:"some" of:"gateway"`
	// Ready are the sources of whether a backend is ready, the better one first. With one,
	// `backends` and `backends_ready` are counted where the page has no such numbers.
	Ready []MappingReady `yaml:"ready,omitempty" items:"some" of:"gateway"`
}

// The ways to make one number of several samples.
const (
	CombineSum = "sum"
	CombineMax = "max"
)

// MappingSource is where to find a number on a page.
type MappingSource struct {
	// Series is the name of the samples, with the suffix of a part of a histogram where it is one. `a:b` also finds
	// `a_b` and `ray_a_b`; a counter is found with and without `_total`.
	Series string `yaml:"series" form:"series" required:"the name of a series"`
	// Labels restrict the samples to those with these values.
	Labels map[string]string `yaml:"labels,omitempty" form:"label"`
	// FromLabel takes the number from the value of this label instead of from that of the sample.
	FromLabel string `yaml:"from_label,omitempty" form:"label"`
	// ItemsOf takes the number of items in the comma-separated list that is the value of this label. Of several samples
	// the one with the largest value counts, which is the latest where the value is a time.
	ItemsOf string `yaml:"items_of,omitempty" form:"label" excludes:"from_label"`
	// Combine is how several samples make one number. Default:
	// `max` for a ratio, for what is per GPU or has no sum (`context_length_tokens`,
	// `kv_cache_block_tokens`, `lora_adapters_max`, `estimated_*_per_gpu`, `spec_decode_acceptance_length`,
	// `model_weights_bytes`, `kv_cache_bytes`, `cuda_graphs_bytes`, `startup_seconds`, `weights_load_seconds`,
	// `model_unload_timestamp_seconds`, `median_tokens_per_second`), and under `if`, `times` and
	// `over`; `sum` for all else, but for `rate_limit_remaining_*` and `ttft_median_seconds`, of which the smallest counts.
	Combine string `yaml:"combine,omitempty" default:"sum" oneof:"sum,max"`
	// Scale is what the number is multiplied with to be in the unit of the quantity.
	Scale float64 `yaml:"scale,omitempty" default:"1" range:"(0,)"`
	// If is a source without whose number, or with 0 as its number, there is none
	// here: for series that are on the page, as 0, while what they measure is off.
	If *MappingSource `yaml:"if,omitempty"`
	// Plus is a source whose number is added where the page has it. Of sources
	// of one series with other labels it is enough that the page has any.
	Plus *MappingSource `yaml:"plus,omitempty"`
	// Times is a source whose number is multiplied with; where the page does not have it there is no number.
	Times *MappingSource `yaml:"times,omitempty"`
	// Over is a source whose number it is divided by; where the page does not have it, or as 0, there is no number.
	Over *MappingSource `yaml:"over,omitempty"`
}

// IsJSON reports whether the page is one of JSON.
func (m *Mapping) IsJSON() bool { return m.Format == "json" }

// MappingHistogram is where to find a distribution on a page: a histogram, or the
// sum and the number of what was measured.
type MappingHistogram struct {
	// Series is the name of the histogram.
	Series string `yaml:"series,omitempty" form:"series" excludes:"sum,count"`
	// Sum is the name of the counter that adds up what was measured, for an engine
	// that has no histogram: it gives one without bounds.
	Sum string `yaml:"sum,omitempty" form:"series" requires:"count"`
	// Count is the name of the counter of what is in the sum.
	Count string `yaml:"count,omitempty" form:"series" requires:"sum"`
	// Labels restrict the samples to those with these values.
	Labels map[string]string `yaml:"labels,omitempty" form:"label"`
	// Scale is what the values are multiplied with to be in the unit of the quantity.
	Scale float64 `yaml:"scale,omitempty" default:"1" range:"(0,)"`
}

// MappingPrefixCache is where to find the hits of the prefix cache on a page.
type MappingPrefixCache struct {
	// Hits is the source of the counter of what the cache had. Required.
	Hits MappingSource `yaml:"hits"`
	// Queries is the source of the counter of what the cache was asked for, in the same unit. Required.
	Queries MappingSource `yaml:"queries"`
	// Unit is what they count.
	Unit string `yaml:"unit" oneof:"tokens,blocks,requests" required:"tokens, blocks or requests"`
	// ZeroIfAbsent says on which pages the counter of hits appears with the first hit, so that a page with queries
	// alone has no hits yet, and not an unknown number: on `all`, or on those that spell the queries with the prefix
	// `ray_`, as Ray shows no counter before it counts. Default: on none.
	ZeroIfAbsent string `yaml:"zero_if_absent,omitempty" oneof:"all,ray"`
}

// MappingRequests is where to find a number of ended requests on a page.
type MappingRequests struct {
	// Series is the name of the counters, found as in a source.
	Series string `yaml:"series" form:"series" required:"the name of a series"`
	// Labels restrict the samples to those with these values.
	Labels map[string]string `yaml:"labels,omitempty" form:"label"`
	// With is a label without which a sample does not count: that of the model, where
	// reads of pages and lists are counted as well, without one. Default: none.
	With string `yaml:"with,omitempty" form:"label"`
	// By are the possible names of the label that says how a request ended.
	By []string `yaml:"by,omitempty" form:"label" items:"some"`
	// As maps a value of that label to how a request ended: `stop`, `length`, `abort`, `client_error`, `error`,
	// `success`, `other` or `unknown`. `failed` is an error that may be the client's own mistake, `error_again` one
	// that another series may count as well: both are shown as errors, and the second only where there are more of
	// them. `none` does not count.
	As map[string]string `yaml:"as,omitempty" requires:"by"`
	// Status are the possible names of the label with the HTTP status of the reply, or with
	// its class as in `5xx`, which decides where `as` does not: 429 and 5xx are errors, 408
	// has failed, 499 is an abort, any other 4xx a client error and 2xx a success.
	Status []string `yaml:"status,omitempty" form:"label" items:"some"`
	// Else is how the requests with any other value ended. Default: `unknown` without `by` and `status`, else `other`.
	// A series of which all requests are unknown is left out where the page has another one.
	Else string `yaml:"else,omitempty" default:"other" form:"finish"`
}

// MappingReady is where to find whether a backend is ready for requests.
type MappingReady struct {
	// Series is the name of a gauge with a label of the backend.
	Series string `yaml:"series" form:"series" required:"the name of a series"`
	// Labels restrict the samples to those with these values.
	Labels map[string]string `yaml:"labels,omitempty" form:"label"`
	// Values are those of the gauge that mean that the backend is ready. Of several samples the largest value counts.
	Values []float64 `yaml:"values,omitempty" default:"[1]" items:"some"`
}

// The pages on which an absent counter of hits is 0; see MappingPrefixCache.
const (
	ZeroOnAll = "all"
	ZeroOnRay = "ray"
)

// ParseMapping reads one mapping of some software from data, in the form of a mapping in the
// section `engines` or `gateway_mappings`. Errors are as those of Parse.
func ParseMapping(data []byte, name string, of Software) (*Mapping, error) {
	r := newReport(name)
	m := new(Mapping)
	if root := parseYAML(data, "sentinels", r); root != nil {
		d := &decoder{report: r}
		d.value(root, "", reflect.ValueOf(m).Elem())
		if !r.failed[""] {
			d.finish("", reflect.ValueOf(m).Elem())
			m.checkSoftware(d, "", of)
		}
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return m, nil
}

// complete sets how several samples make one number, by what it is a number of.
func (m *Mapping) complete(r *report, p path) {
	for q, sources := range m.Values {
		for i := range sources {
			if isLargest(q) {
				orDefault(r, p.key("values").key(string(q)).index(i).key("combine"), &sources[i].Combine, CombineMax)
			}
		}
	}
}

func (s *MappingSource) complete(r *report, p path) {
	for key, source := range map[string]*MappingSource{"if": s.If, "times": s.Times, "over": s.Over} {
		if source != nil {
			orDefault(r, p.key(key).key("combine"), &source.Combine, CombineMax)
		}
	}
}

func (h *MappingHistogram) check(r *report, p path) {
	if h.Series == "" && h.Sum == "" && h.Count == "" && !r.failedUnder(p) {
		r.errorf(p.key("series"), "missing; want the name of a histogram, or sum and count")
	}
}

func (q *MappingRequests) complete(r *report, p path) {
	if len(q.By)+len(q.Status) == 0 {
		orDefault(r, p.key("else"), &q.Else, "unknown")
	}
}

func (q *MappingRequests) check(r *report, p path) {
	for value, as := range q.As {
		r.mistake(p.key("as").key(value), formOf("finish").problem(as))
	}
}

// Software is a kind of software whose pages mappings are for.
type Software string

// The kinds of software with mappings.
const (
	ServerSoftware  Software = "server"
	GatewaySoftware Software = "gateway"
)

// checkSoftware checks keys and quantities of a mapping; one that changes a built-in one may be incomplete.
func (m *Mapping) checkSoftware(d *decoder, p path, of Software) {
	for _, o := range structureOf(reflect.TypeFor[Mapping]()).options {
		if o.of != "" && o.of != of && d.written(p.key(o.key)) {
			d.errorf(p.key(o.key), "only valid in a mapping of a %s", o.of)
		}
	}
	checkQuantity := func(p path, q Quantity, here func(QuantityRow) bool) {
		switch row := rows()[q]; {
		case slices.Contains(named(of, here), q):
		case slices.ContainsFunc(Vocabulary(of), func(known QuantityRow) bool { return known.Quantity == row.Quantity }):
			d.errorf(p, "quantity %s belongs under %s", quote(string(q)), sectionOf(q))
		default:
			nearest := NearestNames(string(q), Texts(named(of, here)), 3)
			d.errorf(p, "unknown quantity %s; the nearest are %s (docs/%s lists all)", quote(string(q)), strings.Join(nearest, ", "),
				map[Software]string{ServerSoftware: "engines.md", GatewaySoftware: "gateways.md"}[of])
		}
	}
	m.checkInfo(d, p.key("info"))
	for i, q := range m.Expected {
		checkQuantity(p.key("expected").index(i), q, isAny)
	}
	for i, q := range m.ExpectedAfterWork {
		checkQuantity(p.key("expected_after_work").index(i), q, isAny)
	}
	for _, q := range slices.Sorted(maps.Keys(m.Values)) {
		checkQuantity(p.key("values").key(string(q)), q, isNumber)
	}
	for _, q := range slices.Sorted(maps.Keys(m.Histograms)) {
		checkQuantity(p.key("histograms").key(string(q)), q, isDistribution)
	}
}

// isPage reports whether s is a path, with or without a port before it.
func isPage(s string) bool {
	u, err := url.Parse("http://h" + s)
	return err == nil && u.Hostname() == "h" && u.User == nil && isPort(u) && u.Path != "" && !strings.ContainsAny(s, "?#")
}

// MetricsPages are the metrics pages of software that is read beside the servers, such as
// a gateway or an exporter of GPUs.
type MetricsPages struct {
	// URLs are the pages, one for each replica or host. A URL without a path gets that
	// of the software. Required unless there is `dns`.
	URLs []PageURL `yaml:"urls,omitempty"`
	// DNS are pages at all addresses that their host resolves to, each a replica or a
	// host. The name is resolved again before each reading.
	DNS []PageURL `yaml:"dns,omitempty"`
	// Software is the name of the mapping to read the pages with. Default: recognized by the series of the page.
	Software string `yaml:"software,omitempty" text:"128"`
	// Interval is the time from one reading to the next.
	Interval model.Duration `yaml:"interval" default:"15s"`
	// Timeout limits one reading. It may not exceed the interval; the default is cut to it.
	Timeout model.Duration `yaml:"timeout" default:"10s"`
	// HTTP says how to connect to the pages and to authenticate, with the keys of the endpoint's `http`.
	HTTP HTTPClient `yaml:"http"`
}

// Format writes the pages as printYAML does.
func (m MetricsPages) Format(f fmt.State, _ rune) { printYAML(f, m) }

// Endpoint returns an endpoint whose servers have these pages, for the reader of servers' pages.
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
	checkPages(r, p, m.URLs, m.DNS)
}

// GPUs says from where GPUs are read besides the drivers of this machine.
type GPUs struct {
	// Pages are metrics pages of other exporters that show GPUs or other accelerators,
	// by name; see below. They are read while `--collector.gpu` is on.
	Pages map[string]*MetricsPages `yaml:"pages,omitempty" text:"128"`
}

func (g *GPUs) check(r *report, p path) {
	for _, name := range []string{"nvml", "amdgpu"} { // what reads the GPUs of this machine
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

package config

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Bounds of texts that become label values or go into requests, in bytes.
const (
	maxNameBytes  = 128
	maxModelBytes = 256
)

// Endpoint is one URL that serves a model.
type Endpoint struct {
	// Name is the label `endpoint`, unique in the file.
	// Default: host and port of the URL, the scheme's own port left out.
	Name string `yaml:"name,omitempty" text:"128"`
	// URL is the base URL, http or https, with or without the version segment (`/v1`), without user and fragment, and
	// without a query but Azure's `api-version`. Required.
	URL URL `yaml:"url,omitempty"`
	// API is the wire protocol that the endpoint speaks, one of the list below.
	// Default: detected by asking the endpoint.
	API string `yaml:"api,omitempty" form:"protocol"`
	// Model is the name of the model to ask for. Default: asked from the endpoint's list of models, adapters of others
	// left out. It is needed where that still has several: until then the endpoint is not probed, which counts as
	// skipped for `model_not_set`.
	Model string `yaml:"model,omitempty" text:"256"`
	// AcceptModels are names of other models that may answer, in lists or in replies, and are no change of the model. A
	// planned change is accepted by the new name here, before or after it.
	AcceptModels []string `yaml:"accept_models,omitempty" text:"256" items:"unique"`
	// Modules are the names of the modules to probe with.
	Modules []string `yaml:"modules" default:"[interactive]" items:"some"`
	// Labels are added to every series of the endpoint. Default: `global.labels`, to which these are added.
	Labels map[string]string `yaml:"labels,omitempty"`
	// HTTP says how to connect and to authenticate; see below.
	HTTP HTTPClient `yaml:"http"`
	// SigV4 signs the requests for AWS; see below.
	SigV4 *SigV4 `yaml:"sigv4,omitempty"`
	// CloudIdentity gives requests a token of Google Cloud or Azure; see below.
	CloudIdentity *CloudIdentity `yaml:"cloud_identity,omitempty"`
	// Request changes what is sent, for servers that deviate from their protocol; see below.
	Request Request `yaml:"request,omitempty"`
	// Servers says where the servers behind the endpoint show their own metrics; see below.
	Servers Servers `yaml:"servers"`
	// SLO is what is promised of the endpoint, for modules that have none of their own; see below. Default: that of the
	// built-in module; for other modules that 99 % of the probes succeed.
	SLO *SLO `yaml:"slo,omitempty"`
	// Price says what the endpoint costs; see below.
	Price *Price `yaml:"price,omitempty"`
	// Budget limits what the probes of the endpoint may spend; see below.
	Budget Budget `yaml:"budget,omitempty"`
	// Hardware says what the endpoint runs on; see below.
	Hardware *Hardware `yaml:"hardware,omitempty"`
	// Gateway is the name of the gateway under `gateways` that the requests to the endpoint pass. Default: none.
	Gateway string `yaml:"gateway,omitempty"`
	// Wake says what probes do while the model sleeps, as the pages of all servers show: `never` (they are left out),
	// `always` (they are sent, and sleep is no state of the endpoint) or `drill` (as `never`, but for one probe in each
	// `wake_interval`, which measures how long it takes to wake).
	Wake string `yaml:"wake" default:"never" oneof:"never,always,drill"`
	// WakeInterval is the time from one drill to the next, the first of them after at most as long. Each waits until
	// the model sleeps. Default: 24h with `wake: drill`.
	WakeInterval model.Duration `yaml:"wake_interval,omitempty" range:"[1s,)" requires:"wake: drill"`
	// WarmUp is for how long after a server started or woke, as its page shows, the latencies of answers count for
	// nothing but `inference_probe_cold_total`. Failures count. Default: 0, for no such time.
	WarmUp model.Duration `yaml:"warm_up,omitempty"`

	// MissingSecret says which secret of the endpoint is missing, so that it cannot be
	// probed; "" is none. See Global.MissingSecrets.
	MissingSecret string `yaml:"-"`
}

// What probes do while the model of an endpoint sleeps, but for "never", by which they are left out.
const (
	WakeAlways = "always"
	WakeDrill  = "drill"
)

// HasKey reports whether requests to the endpoint identify who asks.
func (e *Endpoint) HasKey() bool {
	return e.SigV4 != nil || e.CloudIdentity != nil || e.HTTP.hasCredentials()
}

// IsHosted reports whether the endpoint is a hosted API: none has a page of metrics.
func (e *Endpoint) IsHosted() bool {
	p, _ := api.Lookup(e.API)
	known := false
	if e.URL.URL != nil {
		_, known = api.LookupHost(e.URL.Hostname())
	}
	return e.SigV4 != nil || e.CloudIdentity != nil || p.Hosted || known
}

// credentials names a key with credentials; "" without any.
func (e *Endpoint) credentials() string {
	switch {
	case e.HTTP.hasCredentials():
		return "http"
	case e.SigV4 != nil:
		return "sigv4"
	case e.CloudIdentity != nil:
		return "cloud_identity"
	case e.Servers.HTTP != nil && e.Servers.HTTP.hasCredentials():
		return "servers.http"
	}
	return ""
}

// Format writes the endpoint as printYAML does.
func (e Endpoint) Format(f fmt.State, _ rune) { printYAML(f, e) }

func (e *Endpoint) complete(r *report, p path) {
	orDefault(r, p.key("name"), &e.Name, e.URL.hostPort())
	if e.Wake == WakeDrill {
		orDefault(r, p.key("wake_interval"), &e.WakeInterval, model.Duration(24*time.Hour))
	}
}

func (e *Endpoint) check(r *report, p path) {
	checkEndpointName(r, p.key("name"), e.Name)
	validateLabels(r, p.key("labels"), e.Labels)
	e.checkCredentials(r, p)
	if wake := p.key("slo").key("wake"); e.Wake != WakeDrill && r.written(wake) {
		r.errorf(wake, "has no effect without wake: drill of the endpoint")
	}
	if e.Budget.USDPerDay > 0 && !e.Price.PerToken() && !r.failedUnder(p.key("price")) {
		r.errorf(p.key("budget").key("usd_per_day"), "has no effect without a price of tokens; set price.input_usd and price.output_usd, or price.usd_rate for another currency")
	}
}

// checkEndpointName refuses what a browser takes for a folder in the address of the endpoint's page.
func checkEndpointName(r *report, p path, name string) {
	if name == "." || name == ".." {
		r.errorf(p, "no page can have the endpoint name %s; want another", quote(name))
	}
}

func (e *Endpoint) checkReferences(r *report, p path, c *Config) {
	e.checkModules(r, p.key("modules"), c.Modules, c.Global.Budget)
	var judged []*Module
	for _, name := range e.Modules {
		if m := c.Modules[name]; m != nil && m.SLO == nil {
			judged = append(judged, m)
		}
	}
	e.SLO.checkCounted(r, p.key("slo"), judged, "no module of the endpoint counts it: it has no effect with %s")
	checkGateway(r, p.key("gateway"), e.Gateway, c.Gateways)
}

// checkModules checks the modules that the endpoint names; all is the budget of all endpoints.
func (e *Endpoint) checkModules(r *report, p path, modules map[string]*Module, all Budget) {
	for i, name := range e.Modules {
		switch {
		case modules[name] == nil:
			r.errorf(p.index(i), "unknown module %s%s", quote(name), Hint(name, "known", slices.Sorted(maps.Keys(modules))))
		case slices.Contains(e.Modules[:i], name):
			r.errorf(p.index(i), "module %s is listed twice", quote(name))
		case modules[name].Load != nil:
			e.checkLoad(r, p.index(i), name, modules[name].Load, all)
		}
	}
}

// Request says how the requests to an endpoint differ from those that the protocol's probe would send. In the body the
// answer's cap is renamed first, then the keys of `omit` go, then those of `extra` come. The settings are shown on the
// pages: a key for access belongs under `http`.
type Request struct {
	// Omit lists keys that are left out of the body, nested ones with dots: `temperature`,
	// `stream_options.continuous_usage_stats`. A key that the body does not have is no mistake.
	Omit []string `yaml:"omit,omitempty" form:"body key" text:"256" items:"unique"`
	// Extra is an object that is merged into the body: objects key by key, while any other value, null and lists
	// included, replaces what is there. What `omit` names too is replaced whole.
	Extra map[string]any `yaml:"extra,omitempty"`
	// Path is sent instead of the whole path of the URL, with a slash first.
	// Default: the protocol's path under the URL.
	Path string `yaml:"path,omitempty" form:"path"`
	// MaxTokensField is the key that caps the answer, where the server wants another spelling, such as
	// `max_completion_tokens`. Default: the protocol's own.
	MaxTokensField string `yaml:"max_tokens_field,omitempty" text:"256"`
	// StickyHeader is a header by which a balancer keeps requests together: the two requests of a pair carry the same
	// random value in it, so that they reach the same replica, and so do the turns of every second conversation.
	// Default: no such header.
	StickyHeader string `yaml:"sticky_header,omitempty" form:"request header"`
	// ReplicaHeader is a header of the replies that names the replica that answered, such as `X-Served-By`: whether the
	// turns of a conversation stay on one replica is then measured. Default: no such header.
	ReplicaHeader string `yaml:"replica_header,omitempty" form:"header"`
}

// isPath reports whether s is the path of a URL, and nothing more.
func isPath(s string) bool { return strings.HasPrefix(s, "/") && isPage(s) }

// Servers says where the servers behind an endpoint show their own metrics, and how to read them.
type Servers struct {
	// Find says whether to look for a page at the endpoint's own address when neither `urls` nor `dns` names one.
	Find bool `yaml:"find" default:"true"`
	// URLs are pages, one for each server. A URL without a path gets that of the engine; the only query is
	// `?model=NAME`, with which `autoload=false` is sent, so that no reading loads a model.
	URLs []PageURL `yaml:"urls,omitempty"`
	// DNS are pages at all addresses that their host resolves to, each a
	// server. The name is resolved again before each reading.
	DNS []PageURL `yaml:"dns,omitempty"`
	// ScaleToZero says that a name under `dns` without an address means that no server is wanted now: the endpoint
	// is asleep instead of down. The name must keep the addresses of servers that are not ready, as a headless service with
	// `publishNotReadyAddresses: true` does: else servers that cannot start pass for sleep.
	ScaleToZero bool `yaml:"scale_to_zero,omitempty" requires:"dns"`
	// Engine is the name of the mapping to read the pages with: a built-in one
	// or one under `engines`. Default: recognized by the series of the page.
	Engine string `yaml:"engine,omitempty" text:"128"`
	// Interval is the time from one reading to the next.
	Interval model.Duration `yaml:"interval" default:"15s"`
	// Timeout limits one reading. It may not exceed the interval; the default is cut to it.
	Timeout model.Duration `yaml:"timeout" default:"10s"`
	// HTTP says how to connect to the pages and to authenticate, with the keys of the endpoint's `http`. Default: the
	// endpoint's `http` for a page on its own scheme, host and port; no credentials for any other. A page that is found
	// on another port never gets credentials: name it under `urls`.
	HTTP *HTTPClient `yaml:"http,omitempty"`

	// PagePorts are the ports at which a page of a discovered endpoint may be looked for, beside its own; nil is any.
	PagePorts []string `yaml:"-"`
}

func (s *Servers) complete(r *report, p path) {
	r.limit(p.key("timeout"), &s.Timeout, p.key("interval"), s.Interval)
}

func (s *Servers) check(r *report, p path) { checkPages(r, p, s.URLs, s.DNS) }

// checkPages checks the pages under urls and dns, of which none may be there twice.
func checkPages(r *report, p path, urls, dns []PageURL) {
	first := map[string]path{}
	for i, u := range slices.Concat(urls, dns) {
		at := p.key("urls").index(i)
		if i >= len(urls) {
			at = p.key("dns").index(i - len(urls))
		}
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
	return u.Scheme + "://" + net.JoinHostPort(foldHost(u.URL), PortOf(u.URL)) + at + "?" + u.Query().Encode()
}

// SLO is what is promised of an endpoint: the share of probes that must be good, and how slow a good one may be. The
// exporter counts the bad ones exactly, whatever the bounds of its histograms. A probe that takes exactly as long as it
// may is good. An objective that no probe can count against is a mistake: one for tokens where nothing answers with
// tokens, for example.
type SLO struct {
	// Objective is the share of probes that must be good.
	Objective float64 `yaml:"objective" default:"0.99" range:"(0,1)"`
	// TTFT is the longest time to first token of a good probe. Default: no such objective.
	TTFT model.Duration `yaml:"ttft,omitempty"`
	// TPOT is the longest time per output token of a good probe. Default: no such objective.
	TPOT model.Duration `yaml:"tpot,omitempty"`
	// E2E is the longest duration of a good probe, from issuing the request, connection set-up included, to the end of
	// the reply. Default: no such objective.
	E2E model.Duration `yaml:"e2e,omitempty"`
	// Fluidity is the smallest share of its deadlines that a good answer meets: its first token is due after `ttft`,
	// each further one a `tpot` later. 0.9 is a usual one. Default: no such objective.
	Fluidity float64 `yaml:"fluidity,omitempty" range:"(0,1]" requires:"ttft,tpot"`
	// Wake is the longest time from the request of a drill to its first token, of an endpoint with `wake: drill`; no
	// module has it. Default: no such objective.
	Wake model.Duration `yaml:"wake,omitempty"`
	// CorrectCoordinatedOmission counts a probe that was due while the one before still waited for its first token, and
	// was left out, as a user who waited until that token came: for `ttft`, and wherever percentiles of the time to
	// first token are read. Without it, a server that freezes for a minute has one slow probe.
	CorrectCoordinatedOmission bool `yaml:"correct_coordinated_omission,omitempty" requires:"ttft"`
}

// defaultObjective is that of an SLO that says none.
const defaultObjective = 0.99

// uncounted returns with which setting of the module the objective under a key of
// `slo` means nothing, as no probe can count against it; "" where probes do.
func (m *Module) uncounted(key string) string {
	switch {
	case m.Ask().NoAnswer && key != "e2e" && key != "objective":
		return m.Ask().Key + ", which asks for no answer"
	case m.Arrivals != nil:
		return "arrivals, which have no knee"
	case m.Interference > 0:
		return "interference, which is a load of the exporter's own making"
	case m.Load != nil && (key == "objective" || key == "correct_coordinated_omission"):
		return "load: a load test is no probe"
	case !m.Judged() && m.Load == nil && key != "ttft":
		return "concurrency: bursts are compared with ttft alone"
	case (key == "tpot" || key == "fluidity") && m.MaxOutput() == 1:
		return "output_tokens: 1, as the first token has no TPOT"
	}
	return ""
}

// checkCounted rejects objectives that no probe of any of the modules counts against: of the
// limits that the file gives, or of the objective where it gives none.
func (s *SLO) checkCounted(r *report, p path, modules []*Module, format string) {
	if s == nil || len(modules) == 0 {
		return
	}
	keys := []string{"ttft", "tpot", "e2e", "fluidity", "correct_coordinated_omission"}
	keys = slices.DeleteFunc(keys, func(key string) bool { return !r.written(p.key(key)) })
	if len(keys) == 0 {
		keys = []string{"objective"}
	}
	for _, key := range keys {
		if !slices.ContainsFunc(modules, func(m *Module) bool { return m.uncounted(key) == "" }) {
			r.errorf(p.key(key), format, modules[len(modules)-1].uncounted(key))
		}
	}
}

// SLOWith returns the SLO of the endpoint when it is probed with m: as a whole that of the module, of the endpoint, or
// of the built-in module; else availability alone. What has no first token, or arrivals that are not at once, has no
// objective for it. Of a module that is not Judged, it is only what its bursts are compared with.
func (e *Endpoint) SLOWith(m *Module) SLO {
	slo := *cmp.Or(m.SLO, e.SLO, m.PresetSLO, &SLO{Objective: defaultObjective})
	if m.Ask().NoAnswer || m.Arrivals != nil || m.Interference > 0 {
		slo.TTFT, slo.TPOT, slo.Fluidity, slo.CorrectCoordinatedOmission = 0, 0, 0, false
	}
	return slo
}

// Judged reports whether the probes of the module count as good or bad: bursts and load
// tests do not, which are a load of the exporter's own making.
func (m *Module) Judged() bool { return m.Bursts() == nil && m.Load == nil }

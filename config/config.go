// Package config is the configuration file as types: defaults, strict
// decoding, validation with line and path, and secrets that do not print.
package config

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/cespare/xxhash/v2"
	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"golang.org/x/net/http/httpguts"
	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/internal/foreign"
)

// Config is a configuration with every value resolved: nothing in it waits for a default.
type Config struct {
	// Global holds what all modules and endpoints share.
	Global Global `yaml:"global"`
	// Modules say what to ask, by name. The built-in ones are always there; the
	// file may change them. Default: the built-in modules.
	Modules map[string]*Module `yaml:"modules" text:"128"`
	// Endpoints are the endpoints to probe. Required: at least one, unless there is `discovery` or a page under `gpus`.
	Endpoints []*Endpoint `yaml:"endpoints"`
	// Discovery finds more endpoints, while the exporter runs; see below.
	Discovery []*Discovery `yaml:"discovery,omitempty"`
	// Probe says what the page `/probe` may probe besides these endpoints.
	Probe Probe `yaml:"probe,omitempty"`
	// Tracing says where to send the trace of each probe.
	Tracing Tracing `yaml:"tracing,omitempty"`
	// Metrics says what the page of metrics has, and where to push it.
	Metrics Metrics `yaml:"metrics,omitempty"`
	// Engines say how to read the metrics pages of server software, by the name
	// of the software; see below. Default: the built-in mappings.
	Engines map[string]*Mapping `yaml:"engines,omitempty" text:"128"`
	// Gateways are the gateways in front of endpoints that have metrics of their own, by name; see below.
	Gateways map[string]*MetricsPages `yaml:"gateways,omitempty" text:"128"`
	// GatewayMappings say how to read the metrics pages of gateways, by the name of
	// the software; see below. Default: the built-in mappings.
	GatewayMappings map[string]*Mapping `yaml:"gateway_mappings,omitempty" text:"128"`
	// GPUs says from where GPUs are read besides the drivers of this machine.
	GPUs GPUs `yaml:"gpus,omitempty"`

	// Files are the files of prompts and recordings that were read with it, with a hash of what each had.
	Files map[string]uint64 `yaml:"-"`
}

// FilesChanged reports whether one of Files has something else by now, or cannot be read.
func (c *Config) FilesChanged() bool {
	for name, sum := range c.Files {
		data, err := foreign.ReadFile(name, maxRecordsBytes)
		if err != nil || xxhash.Sum64(data) != sum {
			return true
		}
	}
	return false
}

// Check finds mistakes that only a package above this one can see, each with its Path and its Msg, in a
// configuration with its defaults, without the modules that have other mistakes.
type Check func(*Config) []*Error

// Load reads the file of that name. An error is that of reading it, or a join of all the mistakes in it
// and of those that the checks find, each an *Error, in the order of their lines.
func Load(name string, missing MissingSecrets, checks ...Check) (*Config, error) {
	data, err := Read(name)
	if err != nil {
		return nil, err
	}
	r := newReport(name)
	r.missingSecrets = missing
	return parse(data, r, checks)
}

// Read returns the content of the file of that name, for Parse.
func Read(name string) ([]byte, error) {
	data, err := foreign.ReadFile(name, maxFileBytes)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return data, nil
}

// Parse reads a configuration from data, with errors as Load. Errors contain the
// name; file names inside the configuration are relative to its directory.
func Parse(data []byte, name string, checks ...Check) (*Config, error) {
	return parse(data, newReport(name), checks)
}

func parse(data []byte, r *report, checks []Check) (*Config, error) {
	dir, err := filepath.Abs(filepath.Dir(r.file))
	if err != nil {
		return nil, fmt.Errorf("find the directory of %s: %w", r.file, err)
	}
	d := &decoder{report: r, dir: dir}
	c := newOf[Config]()
	// Where parts of the file could not be read, missing values are no mistakes of their own.
	if root := parseYAML(data, "endpoints", r); root != nil {
		if d.value(root, "", reflect.ValueOf(c).Elem()); !r.failed[""] {
			c.finish(d)
			c.checkFurther(r, checks)
		}
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	c.Files = r.read
	return c, nil
}

// FromURLs is the configuration with one endpoint for each URL and defaults
// for all else. Errors are as those of Load, in a file named --endpoint.
func FromURLs(urls []string) (*Config, error) {
	r := newReport("--endpoint")
	c := newOf[Config]()
	for i, s := range urls {
		e := newOf[Endpoint]()
		u, err := parseURL(s)
		r.mistake(path("endpoints").index(i).key("url"), err)
		e.URL = URL{u}
		c.Endpoints = append(c.Endpoints, e)
	}
	c.finish(&decoder{report: r})
	if err := r.err(); err != nil {
		return nil, err
	}
	return c, nil
}

// None is the configuration without endpoints and with all defaults: for an exporter that looks at hardware alone.
func None() *Config {
	c := newOf[Config]()
	c.finish(&decoder{report: newReport("")}) // to have no endpoints is a mistake of a file alone
	return c
}

// checkFurther reports what the checks find in values without a mistake so far.
func (c *Config) checkFurther(r *report, checks []Check) {
	sound := *c
	sound.Modules = maps.Clone(c.Modules)
	maps.DeleteFunc(sound.Modules, func(name string, _ *Module) bool {
		return r.failedUnder(path("modules").key(name))
	})
	var found []*Error
	for _, check := range checks {
		found = append(found, check(&sound)...)
	}
	found = slices.DeleteFunc(found, func(e *Error) bool { return r.failedUnder(path(e.Path)) })
	for _, e := range found {
		r.errorAt(r.line(path(e.Path)), path(e.Path), "%s", e.Msg)
	}
}

// finish sets the other defaults, checks all values, and merges labels.
func (c *Config) finish(d *decoder) {
	d.finish("", reflect.ValueOf(c).Elem())
	for name, m := range c.Engines {
		m.checkSoftware(d, path("engines").key(name), ServerSoftware)
	}
	for name, m := range c.GatewayMappings {
		m.checkSoftware(d, path("gateway_mappings").key(name), GatewaySoftware)
	}
	c.skipWithoutSecrets(d.report)
	var before map[string]string
	for _, e := range c.Endpoints {
		if e.Labels = mergeLabels(c.Global.Labels, e.Labels); maps.Equal(e.Labels, before) {
			e.Labels = before // in one place in memory for those in a row that have the same
		}
		before = e.Labels
	}
	for _, d := range c.Discovery {
		d.Template.Labels = mergeLabels(c.Global.Labels, d.Template.Labels)
	}
}

// complete adds the built-in modules, and what modules have of all.
func (c *Config) complete(r *report, _ path) {
	if c.Modules == nil {
		c.Modules = map[string]*Module{}
	}
	for _, preset := range Presets() {
		if c.Modules[preset.Name] == nil {
			m := newOf[Module]()
			m.usePreset(preset.Name)
			c.Modules[preset.Name] = m
		}
	}
	for _, m := range c.Modules {
		if m.Interval == 0 {
			m.Interval = c.Global.Interval
		}
		if m.Timeout == 0 {
			m.Timeout = c.Global.Timeout
		}
	}
}

func (c *Config) check(r *report, _ path) {
	if len(c.Endpoints)+len(c.Discovery)+len(c.GPUs.Pages) == 0 {
		r.errorf("endpoints", "no endpoints; want at least one with a url, or discovery")
	}
	for i, d := range c.Discovery {
		d.modules, d.gateways, d.budget = c.Modules, c.Gateways, c.Global.Budget
		d.Template.checkReferences(r, path("discovery").index(i), c)
	}
	first := map[string]int{}
	for i, e := range c.Endpoints {
		p := path("endpoints").index(i)
		if e.URL.URL == nil && !r.failed[p] {
			r.errorf(p.key("url"), "missing; %v", errWantURL)
		}
		e.checkReferences(r, p, c)
		if j, ok := first[e.Name]; ok && e.Name != "" {
			r.errorf(p.key("name"), "duplicate endpoint name %s, the first is endpoints[%d]; give each a name of its own", quote(e.Name), j)
		} else {
			first[e.Name] = i
		}
	}
}

// Marshal renders the configuration as YAML, resolved and with its secrets
// hidden. Without secrets, Parse reads it back as the same configuration.
func (c *Config) Marshal() ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(c); err != nil {
		return nil, fmt.Errorf("render configuration: %w", err)
	}
	return b.Bytes(), nil
}

// printYAML writes v as one line of YAML with its secrets hidden, whatever the verb: fmt itself would print a secret.
func printYAML(f fmt.State, v any) {
	var n yaml.Node
	err := n.Encode(v)
	n.Style = yaml.FlowStyle
	if err == nil {
		var text []byte
		if text, err = yaml.Marshal(&n); err == nil {
			_, _ = f.Write(bytes.TrimSuffix(text, []byte("\n")))
		}
	}
	if err != nil {
		fmt.Fprintf(f, "cannot print: %v", err)
	}
}

// Global holds what all modules and endpoints share.
type Global struct {
	// Interval is the time from the start of a probe to that of the next, for modules that set none.
	Interval model.Duration `yaml:"interval" default:"30s"`
	// Timeout limits a whole probe, for modules that set none. It may exceed the interval: a probe that is due while
	// the one before still runs is skipped and counted.
	Timeout model.Duration `yaml:"timeout" default:"1m"`
	// Labels are added to every series of every endpoint. An endpoint's own label of the same name wins.
	Labels map[string]string `yaml:"labels,omitempty"`
	// Limits bound how many probes run at once, and what discovery takes in.
	Limits Limits `yaml:"limits"`
	// Budget limits what all probes together may spend; see below.
	Budget Budget `yaml:"budget,omitempty"`
	// MissingSecrets says what an endpoint means whose secret is missing when the configuration is loaded: an
	// environment variable that is not set, or a file under `http` or `sigv4` that cannot be read. `refuse` refuses the
	// configuration. `skip_endpoint` leaves out the probes of that endpoint until a reload finds the secret, counts
	// them as skipped for `secret_missing`, and probes the others. A secret that endpoints share, such as one under
	// `gateways` or `tracing`, always refuses the configuration when it is missing.
	MissingSecrets MissingSecrets `yaml:"missing_secrets" default:"refuse" oneof:"refuse,skip_endpoint"`
}

// Limits bound how many probes run at once, where a burst counts as one, and what discovery takes in. At most half of
// each limit of probes goes to probes whose latest run timed out, so that servers that hang do not hold up the others.
type Limits struct {
	// InFlight is how many probes may run at once in all. At most half of them are probes whose latest run timed out.
	InFlight int `yaml:"in_flight" default:"1000" range:"[1,100000]"`
	// InFlightPerHost is how many probes may run at once against one host and port. At most half of them are probes
	// whose latest run timed out.
	InFlightPerHost int `yaml:"in_flight_per_host" default:"4" range:"[1,100000]"`
	// DiscoveryTargets is how many targets the sources of an item of `discovery` may find. More are refused as a whole,
	// and those found before stay. Targets under `static_configs` alone are not limited.
	DiscoveryTargets int `yaml:"discovery_targets" default:"20000" range:"[1,1000000]"`
	// DiscoveryBytes is how long a file of `file_sd_configs` and a reply to `http_sd_configs` may be. A longer one is a
	// failure of the source, and the targets found before stay.
	DiscoveryBytes Bytes `yaml:"discovery_bytes" default:"10MiB"`
}

func (g *Global) check(r *report, p path) { validateLabels(r, p.key("labels"), g.Labels) }

// Tracing says where to send the trace of each probe. In a value of type
// secret, `${NAME}` is replaced by an environment variable, as under `http`.
type Tracing struct {
	// OTLPEndpoint is the base URL of a collector that takes OTLP over HTTP, such as `http://otel:4318`; traces go to
	// `/v1/traces` under it. Default: no traces are sent.
	OTLPEndpoint URL `yaml:"otlp_endpoint,omitempty"`
	// Headers are sent with the traces.
	Headers map[string]promconfig.Secret `yaml:"headers,omitempty" form:"header" requires:"otlp_endpoint"`
}

// Format writes the settings as printYAML does.
func (t Tracing) Format(f fmt.State, _ rune) { printYAML(f, t) }

// checkHeader checks the value of a header, which may be missing.
func (r *report) checkHeader(p path, value string) {
	if !httpguts.ValidHeaderFieldValue(value) {
		r.errorf(p, "a line break or another control character")
	}
}

// Metrics says what the page of metrics has, and where to push it. In a value of type
// secret, `${NAME}` is replaced by an environment variable, as under `http`.
type Metrics struct {
	// Compact makes the page one for those who pay by series, about half as many for each endpoint. It leaves out the
	// classic buckets of probes, so that Prometheus must scrape native histograms; `inference_probe_ttfo_seconds` where
	// it equals `inference_probe_ttft_seconds`; and counters at zero of failures, skipped probes and flaws. See
	// [Prometheus](prometheus.md#a-compact-page).
	Compact bool `yaml:"compact"`
	// OTLPEndpoint is the base URL of a collector that takes OTLP over HTTP, such as
	// `http://otel:4318`; all metrics are pushed to `/v1/metrics` under it, beside the page.
	// See [OpenTelemetry](opentelemetry.md). Default: metrics are not pushed.
	OTLPEndpoint URL `yaml:"otlp_endpoint,omitempty"`
	// Headers are sent with the metrics.
	Headers map[string]promconfig.Secret `yaml:"headers,omitempty" form:"header" requires:"otlp_endpoint"`
	// Interval is the time from the start of a push to that of the next.
	Interval model.Duration `yaml:"interval" default:"1m" range:"[1s,)"`
}

// Format writes the settings as printYAML does.
func (m Metrics) Format(f fmt.State, _ rune) { printYAML(f, m) }

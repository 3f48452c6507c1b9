package config

import (
	"fmt"
	"maps"
	"slices"

	"github.com/prometheus/common/model"
)

// GPUs says from where GPUs are read besides the drivers of this machine.
type GPUs struct {
	// Pages are metrics pages of other exporters that show GPUs or other accelerators,
	// by name; see below. They are read while `--collector.gpu` is on.
	Pages map[string]*GPUPage `yaml:"pages,omitempty"`
}

// GPUPage is the metrics page of an exporter of GPUs, on one or more hosts. The
// exporters that are known are in [gpu.md](gpu.md#pages-of-other-exporters).
type GPUPage struct {
	// URLs are the pages, one for each host. A URL without a path gets `/metrics`.
	// Required unless there is `dns`.
	URLs []PageURL `yaml:"urls,omitempty"`
	// DNS are pages at all addresses that their host resolves to, each a host. The
	// name is resolved again before each reading.
	DNS []PageURL `yaml:"dns,omitempty"`
	// Software is the name of the exporter. Default: recognized by the series of the
	// page.
	Software string `yaml:"software,omitempty"`
	// Interval is the time from one reading to the next.
	Interval model.Duration `yaml:"interval"`
	// Timeout limits one reading. It may not exceed the interval; the default
	// is cut to it.
	Timeout model.Duration `yaml:"timeout"`
	// HTTP says how to connect to the pages and to authenticate, with the keys
	// of the endpoint's `http`.
	HTTP HTTPClient `yaml:"http"`
}

// Format writes the page as printYAML does.
func (g GPUPage) Format(f fmt.State, _ rune) { printYAML(f, g) }

// Endpoint returns an endpoint of that name whose servers are the hosts of the page,
// for the reader of pages.
func (g *GPUPage) Endpoint(name string) *Endpoint {
	return &Endpoint{
		Name: name, URL: URL(slices.Concat(g.URLs, g.DNS)[0]), HTTP: g.HTTP,
		Servers: Servers{URLs: g.URLs, DNS: g.DNS, Interval: g.Interval, Timeout: g.Timeout, HTTP: &g.HTTP},
	}
}

func (g *GPUPage) setDefaults(r *report, p path) {
	def := defaultServers()
	orDefault(r, p.key("interval"), &g.Interval, def.Interval)
	orDefault(r, p.key("timeout"), &g.Timeout, min(def.Timeout, g.Interval))
}

func (g *GPUPage) validate(r *report, p path) {
	if r.failed[p] {
		return // no page at all
	}
	if len(g.URLs)+len(g.DNS) == 0 && !r.failedUnder(p) {
		r.errorf(p.key("urls"), "missing; want the URL of the exporter's metrics page, or dns")
	}
	first := map[string]path{}
	validatePages(r, p.key("urls"), g.URLs, first)
	validatePages(r, p.key("dns"), g.DNS, first)
	if timeout := p.key("timeout"); r.written(timeout) && !r.failed[p.key("interval")] && g.Timeout > g.Interval {
		r.errorf(timeout, "%s exceeds the interval of %s", g.Timeout, g.Interval)
	}
}

// reservedGPUSources are the names of what reads the GPUs of this machine.
func reservedGPUSources() []string { return []string{"nvml", "amdgpu"} }

func (c *Config) validateGPUs(r *report) {
	for _, name := range slices.Sorted(maps.Keys(c.GPUs.Pages)) {
		p := path("gpus").key("pages").key(name)
		validateText(r, p, "page name", name, maxNameBytes)
		if slices.Contains(reservedGPUSources(), name) {
			r.errorf(p, "the name %s is that of the driver of this machine", quote(name))
		}
		c.GPUs.Pages[name].validate(r, p)
	}
}

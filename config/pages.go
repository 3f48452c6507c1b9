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

package config

import "github.com/prometheus/common/model"

// Global holds what all modules and endpoints share.
type Global struct {
	// Interval is the time from the start of a probe to that of the next, for
	// modules that set none.
	Interval model.Duration `yaml:"interval"`
	// Timeout limits a whole probe, for modules that set none. It may exceed
	// the interval: a probe that is due while the one before still runs is
	// skipped and counted.
	Timeout model.Duration `yaml:"timeout"`
	// Labels stand on every series of every endpoint. An endpoint's own label
	// of the same name wins.
	Labels map[string]string `yaml:"labels,omitempty"`
	// Limits bound how many probes run at once, and what discovery takes in.
	Limits Limits `yaml:"limits"`
	// Budget limits what all probes together may spend; see below.
	Budget Budget `yaml:"budget,omitempty"`
}

// Limits bound how many probes run at once, where a burst counts as one, and what
// discovery takes in. At most half of each limit of probes goes to probes whose
// latest run timed out, so that servers that hang do not hold up the others.
type Limits struct {
	// InFlight is how many probes may run at once in all, 1 to 100,000. At most
	// half of them are probes whose latest run timed out.
	InFlight int `yaml:"in_flight"`
	// InFlightPerHost is how many probes may run at once against one host and
	// port, 1 to 100,000. At most half of them are probes whose latest run timed
	// out.
	InFlightPerHost int `yaml:"in_flight_per_host"`
	// DiscoveryTargets is how many targets the sources of an item of `discovery`
	// may find, 1 to 1,000,000. More are refused as a whole, and those found
	// before stay. Targets under `static_configs` alone are not limited.
	DiscoveryTargets int `yaml:"discovery_targets"`
	// DiscoveryBytes is how long a file of `file_sd_configs` and a reply to
	// `http_sd_configs` may be. A longer one is a failure of the source, and the
	// targets found before stay.
	DiscoveryBytes Bytes `yaml:"discovery_bytes"`
}

func (g *Global) validate(r *report, p path) {
	validateLabels(r, p.key("labels"), g.Labels)
	limits := p.key("limits")
	validateRange(r, limits.key("in_flight"), g.Limits.InFlight, 1, maxInFlight)
	validateRange(r, limits.key("in_flight_per_host"), g.Limits.InFlightPerHost, 1, maxInFlight)
	validateRange(r, limits.key("discovery_targets"), g.Limits.DiscoveryTargets, 1, maxDiscoveryTargets)
	g.Budget.validate(r, p.key("budget"))
}

// maxInFlight is more probes than one process can time.
const maxInFlight = 100_000

// maxDiscoveryTargets is more endpoints than one process can probe.
const maxDiscoveryTargets = 1_000_000

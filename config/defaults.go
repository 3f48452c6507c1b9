package config

import (
	"time"

	"github.com/prometheus/common/model"
)

// The values of what the file leaves out stand in this file only.

// Interactive is the module that is always there, and the one that an
// endpoint uses without others: a short question and a short answer.
const Interactive = "interactive"

func defaultGlobal() Global {
	return Global{
		Interval: model.Duration(30 * time.Second),
		Timeout:  model.Duration(60 * time.Second),
		Limits:   Limits{InFlight: 64, InFlightPerHost: 4},
	}
}

// defaultModule leaves Timeouts.Headers out: it is that of the first token.
func defaultModule(g Global) Module {
	return Module{
		Interval: g.Interval,
		Timeout:  g.Timeout,
		Timeouts: Timeouts{
			Connect:    model.Duration(10 * time.Second),
			FirstToken: model.Duration(30 * time.Second),
			Stall:      model.Duration(15 * time.Second),
		},
		InputTokens:  256,
		OutputTokens: 64,
		BatchSize:    8,
		Prefix:       PrefixCold,
		Connection:   ConnectionNew,
	}
}

func defaultEndpoint() Endpoint {
	return Endpoint{Modules: []string{Interactive}}
}

func defaultSigV4() SigV4 { return SigV4{Service: "bedrock"} }

// orDefault sets what stands under p, unless the file writes it.
func orDefault[T any](r *report, p path, v *T, def T) {
	if !r.written(p) {
		*v = def
	}
}

func (c *Config) setDefaults(r *report) {
	c.Global.setDefaults(r, "global")
	if c.Modules == nil {
		c.Modules = map[string]*Module{}
	}
	if c.Modules[Interactive] == nil {
		c.Modules[Interactive] = new(Module)
	}
	for name, m := range c.Modules {
		m.setDefaults(r, path("modules").key(name), c.Global)
	}
	for i, e := range c.Endpoints {
		e.setDefaults(r, path("endpoints").index(i))
	}
}

func (g *Global) setDefaults(r *report, p path) {
	def := defaultGlobal()
	orDefault(r, p.key("interval"), &g.Interval, def.Interval)
	orDefault(r, p.key("timeout"), &g.Timeout, def.Timeout)
	limits := p.key("limits")
	orDefault(r, limits.key("in_flight"), &g.Limits.InFlight, def.Limits.InFlight)
	orDefault(r, limits.key("in_flight_per_host"), &g.Limits.InFlightPerHost, def.Limits.InFlightPerHost)
}

func (m *Module) setDefaults(r *report, p path, g Global) {
	def := defaultModule(g)
	orDefault(r, p.key("interval"), &m.Interval, def.Interval)
	orDefault(r, p.key("timeout"), &m.Timeout, def.Timeout)
	orDefault(r, p.key("input_tokens"), &m.InputTokens, def.InputTokens)
	orDefault(r, p.key("output_tokens"), &m.OutputTokens, def.OutputTokens)
	orDefault(r, p.key("batch_size"), &m.BatchSize, def.BatchSize)
	orDefault(r, p.key("prefix"), &m.Prefix, def.Prefix)
	orDefault(r, p.key("connection"), &m.Connection, def.Connection)

	// No part takes longer than the whole.
	p = p.key("timeouts")
	t := &m.Timeouts
	orDefault(r, p.key("connect"), &t.Connect, min(def.Timeouts.Connect, m.Timeout))
	orDefault(r, p.key("first_token"), &t.FirstToken, min(def.Timeouts.FirstToken, m.Timeout))
	orDefault(r, p.key("headers"), &t.Headers, t.FirstToken)
	orDefault(r, p.key("stall"), &t.Stall, min(def.Timeouts.Stall, m.Timeout))
}

func (e *Endpoint) setDefaults(r *report, p path) {
	def := defaultEndpoint()
	orDefault(r, p.key("name"), &e.Name, e.URL.hostPort())
	orDefault(r, p.key("modules"), &e.Modules, def.Modules)
	if e.SigV4 != nil {
		e.SigV4.setDefaults(r, p.key("sigv4"))
	}
}

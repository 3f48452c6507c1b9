package config

import (
	"maps"
	"time"

	"github.com/prometheus/common/model"
)

// All default values are in this file.

func defaultGlobal() Global {
	return Global{
		Interval: model.Duration(30 * time.Second),
		Timeout:  model.Duration(60 * time.Second),
		Limits:   Limits{InFlight: 1000, InFlightPerHost: 4, DiscoveryTargets: 20_000, DiscoveryBytes: 10 << 20},

		MissingSecrets: missingRefuse,
	}
}

const defaultTurns = 4

func defaultTraffic() Traffic { return Traffic{MaxInputTokens: 4096, MaxOutputTokens: 256} }

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
		InputTokens:  Tokens(256),
		OutputTokens: Tokens(64),
		BatchSize:    8,
		Prefix:       PrefixCold,
		Connection:   ConnectionNew,
	}
}

func defaultEndpoint() Endpoint {
	return Endpoint{Modules: []string{Interactive}}
}

func defaultServers() Servers {
	return Servers{
		Find:     true,
		Interval: model.Duration(15 * time.Second),
		Timeout:  model.Duration(10 * time.Second),
	}
}

func defaultMetrics() Metrics { return Metrics{Interval: model.Duration(time.Minute)} }

func defaultSLO() SLO { return SLO{Objective: 0.99} }

func defaultPrice() Price { return Price{GPUs: 1} }

func defaultSigV4() SigV4 { return SigV4{Service: "bedrock"} }

// orDefault sets *v to the default, unless the file sets p.
func orDefault[T any](r *report, p path, v *T, def T) {
	if !r.written(p) {
		*v = def
	}
}

func (c *Config) setDefaults(r *report) {
	c.Global.setDefaults(r, "global")
	orDefault(r, path("metrics").key("interval"), &c.Metrics.Interval, defaultMetrics().Interval)
	if c.Modules == nil {
		c.Modules = map[string]*Module{}
	}
	for _, preset := range Presets() {
		if c.Modules[preset.Name] == nil {
			c.Modules[preset.Name] = new(Module)
		}
	}
	for name, m := range c.Modules {
		p := path("modules").key(name)
		m.setDefaults(r, p, moduleDefaults(name, c.Global))
		m.loadPrompts(r, p.key("prompts_file"))
		m.Arrivals.loadProfile(r, p.key("arrivals").key("profile_file"))
	}
	for i, e := range c.Endpoints {
		e.setDefaults(r, path("endpoints").index(i))
	}
	for i, d := range c.Discovery {
		d.Template.setDefaults(r, path("discovery").index(i))
	}
	for name, e := range c.Engines {
		e.setDefaults(r, path("engines").key(name))
	}
	for name, g := range c.Gateways {
		g.setDefaults(r, path("gateways").key(name))
	}
	for name, g := range c.GatewayMappings {
		g.setDefaults(r, path("gateway_mappings").key(name))
	}
	for name, g := range c.GPUs.Pages {
		g.setDefaults(r, path("gpus").key("pages").key(name))
	}
}

func (g *Global) setDefaults(r *report, p path) {
	def := defaultGlobal()
	orDefault(r, p.key("interval"), &g.Interval, def.Interval)
	orDefault(r, p.key("timeout"), &g.Timeout, def.Timeout)
	limits := p.key("limits")
	orDefault(r, limits.key("in_flight"), &g.Limits.InFlight, def.Limits.InFlight)
	orDefault(r, limits.key("in_flight_per_host"), &g.Limits.InFlightPerHost, def.Limits.InFlightPerHost)
	orDefault(r, limits.key("discovery_targets"), &g.Limits.DiscoveryTargets, def.Limits.DiscoveryTargets)
	orDefault(r, limits.key("discovery_bytes"), &g.Limits.DiscoveryBytes, def.Limits.DiscoveryBytes)
	orDefault(r, p.key("missing_secrets"), &g.MissingSecrets, def.MissingSecrets)
}

func (m *Module) setDefaults(r *report, p path, def Module) {
	orDefault(r, p.key("tool_call"), &m.ToolCall, def.ToolCall)
	orDefault(r, p.key("structured"), &m.Structured, def.Structured)
	m.Ask().setDefaults(&def)
	orDefault(r, p.key("interval"), &m.Interval, def.Interval)
	orDefault(r, p.key("timeout"), &m.Timeout, def.Timeout)
	orDefault(r, p.key("concurrency"), &m.Concurrency, def.Concurrency)
	orDefault(r, p.key("connection"), &m.Connection, def.Connection)
	orDefault(r, p.key("input_tokens"), &m.InputTokens, def.InputTokens)
	orDefault(r, p.key("batch_size"), &m.BatchSize, def.BatchSize)
	orDefault(r, p.key("prefix"), &m.Prefix, def.Prefix)
	if m.Prefix == PrefixConversation {
		orDefault(r, p.key("turns"), &m.Turns, defaultTurns)
	}
	orDefault(r, p.key("output_tokens"), &m.OutputTokens, def.OutputTokens)
	if m.Traffic != nil {
		m.Traffic.setDefaults(r, p.key("traffic"))
	}
	m.PresetSLO = def.PresetSLO
	if m.SLO != nil {
		m.SLO.setDefaults(r, p.key("slo"))
	}
	m.Timeouts.setDefaults(r, p.key("timeouts"), def.Timeouts, m.Timeout)
}

// setDefaults limits each default to the timeout of the whole probe.
func (t *Timeouts) setDefaults(r *report, p path, def Timeouts, timeout model.Duration) {
	orDefault(r, p.key("connect"), &t.Connect, min(def.Connect, timeout))
	orDefault(r, p.key("first_token"), &t.FirstToken, min(def.FirstToken, timeout))
	orDefault(r, p.key("headers"), &t.Headers, t.FirstToken)
	orDefault(r, p.key("stall"), &t.Stall, min(def.Stall, timeout))
}

func (s *SLO) setDefaults(r *report, p path) {
	orDefault(r, p.key("objective"), &s.Objective, defaultSLO().Objective)
}

func (e *Endpoint) setDefaults(r *report, p path) {
	def := defaultEndpoint()
	orDefault(r, p.key("name"), &e.Name, e.URL.hostPort())
	orDefault(r, p.key("modules"), &e.Modules, def.Modules)
	e.Servers.setDefaults(r, p.key("servers"))
	if e.SLO != nil {
		e.SLO.setDefaults(r, p.key("slo"))
	}
	if e.Price != nil {
		e.Price.setDefaults(r, p.key("price"))
	}
	if e.SigV4 != nil {
		e.SigV4.setDefaults(r, p.key("sigv4"))
	}
	if e.CloudIdentity != nil {
		e.CloudIdentity.setDefaults(r, p.key("cloud_identity"))
	}
	if e.Hardware != nil {
		e.Hardware.setDefaults(r, p.key("hardware"))
	}
}

func (c *Price) setDefaults(r *report, p path) {
	orDefault(r, p.key("gpus"), &c.GPUs, defaultPrice().GPUs)
	orDefault(r, p.key("cached_input_usd"), &c.CachedInputUSD, c.InputUSD)
	orDefault(r, p.key("cached_input"), &c.CachedInput, c.Input)
}

func (h *Hardware) setDefaults(r *report, p path) {
	orDefault(r, p.key("gpus"), &h.GPUs, max(1, len(h.UUIDs)))
}

func (s *Servers) setDefaults(r *report, p path) {
	def := defaultServers()
	orDefault(r, p.key("find"), &s.Find, def.Find)
	orDefault(r, p.key("interval"), &s.Interval, def.Interval)
	orDefault(r, p.key("timeout"), &s.Timeout, min(def.Timeout, s.Interval))
}

// setDefaults leaves the keys of the mapping itself as they are: a built-in
// mapping of the same name supplies what they leave out.
func (e *Engine) setDefaults(r *report, p path) {
	dropUnwritten(r, p.key("values"), e.Values)
	for q, sources := range e.Values {
		for i := range sources {
			sources[i].setDefaults(r, p.key("values").key(string(q)).index(i), defaultCombine(q))
		}
	}
	dropUnwritten(r, p.key("histograms"), e.Histograms)
	for q, sources := range e.Histograms {
		for i := range sources {
			orDefault(r, p.key("histograms").key(string(q)).index(i).key("scale"), &sources[i].Scale, 1)
		}
	}
	for key, sources := range e.lengths() {
		for i := range sources {
			orDefault(r, p.key(key).index(i).key("scale"), &sources[i].Scale, 1)
		}
	}
	for i := range e.Progress {
		e.Progress[i].setDefaults(r, p.key("progress").index(i), CombineSum)
	}
	for i := range e.PrefixCache {
		at := p.key("prefix_cache").index(i)
		e.PrefixCache[i].Hits.setDefaults(r, at.key("hits"), CombineSum)
		e.PrefixCache[i].Queries.setDefaults(r, at.key("queries"), CombineSum)
	}
	setRequestsDefaults(r, p.key("requests"), e.Requests)
}

func setRequestsDefaults(r *report, p path, all []EngineRequests) {
	for i := range all {
		orDefault(r, p.index(i).key("else"), &all[i].Else, defaultFinish(&all[i]))
	}
}

// dropUnwritten removes the keys without a value, which count as left out. It
// keeps keys with an empty list.
func dropUnwritten[T any](r *report, p path, m map[Quantity][]T) {
	maps.DeleteFunc(m, func(q Quantity, _ []T) bool { return !r.written(p.key(string(q))) })
}

func (s *EngineSource) setDefaults(r *report, p path, combine string) {
	orDefault(r, p.key("combine"), &s.Combine, combine)
	orDefault(r, p.key("scale"), &s.Scale, 1)
	if s.If != nil {
		s.If.setDefaults(r, p.key("if"), CombineMax)
	}
	if s.Plus != nil {
		s.Plus.setDefaults(r, p.key("plus"), CombineSum)
	}
	if s.Times != nil {
		s.Times.setDefaults(r, p.key("times"), CombineMax)
	}
}

func defaultCombine(q Quantity) string {
	if isLargest(q) {
		return CombineMax
	}
	return CombineSum
}

func defaultFinish(req *EngineRequests) string {
	if len(req.By) == 0 {
		return "unknown"
	}
	return "other"
}

// Interactive is the built-in module that an endpoint uses without others.
const Interactive = "interactive"

// Preset is a built-in module: it is there without being written, and the file
// may change it key by key.
type Preset struct {
	// Name is the name of the module.
	Name string
	// Purpose is the kind of request that the module resembles, in a few words.
	Purpose string

	shape func(*Module) // turns the defaults of all modules into its own
}

// Presets lists the built-in modules. Their objectives are published limits for
// such work: those of the Server scenario of MLPerf Inference for models of
// several sizes, and guidellm's for code completion.
func Presets() []Preset {
	return []Preset{
		{Interactive, "a short question and a short answer, as in a chat", func(m *Module) {
			m.PresetSLO = promise(2*time.Second, 200*time.Millisecond, 0) // Llama2-70B
		}},
		{"rag", "a question over retrieved documents: a long prompt that is new each time", func(m *Module) {
			m.Interval = model.Duration(time.Minute)
			m.InputTokens, m.OutputTokens = Tokens(4000), Tokens(128)
			m.PresetSLO = promise(2*time.Second, 100*time.Millisecond, 0) // Llama3.1-8B
		}},
		{"agent", "a step of an agent: a long context that is sent again with every step", func(m *Module) {
			m.Interval = model.Duration(2 * time.Minute)
			m.InputTokens, m.OutputTokens = Tokens(8000), Tokens(128)
			m.Prefix = PrefixPaired
			m.PresetSLO = promise(2*time.Second, 80*time.Millisecond, 0) // DeepSeek-R1
		}},
		{"code-completion", "the next lines of code while somebody types", func(m *Module) {
			m.InputTokens, m.OutputTokens = Tokens(1500), Tokens(32)
			m.PresetSLO = promise(0, 0, 2*time.Second)
		}},
		{"batch", "offline work: several requests at once, for throughput", func(m *Module) {
			m.Interval = model.Duration(15 * time.Minute)
			m.InputTokens, m.OutputTokens = Tokens(1000), Tokens(256)
			m.Concurrency = []int{1, 8, 32}
		}},
		{"long-context", "the first token over the length of the prompt", func(m *Module) {
			m.Interval = model.Duration(30 * time.Minute)
			m.Timeout = model.Duration(5 * time.Minute)
			m.Timeouts.FirstToken = model.Duration(4 * time.Minute)
			m.InputTokens, m.OutputTokens = Lengths{Ladder: []int{1000, 8000, 32000, 128_000}}, Tokens(32)
		}},
		{"embedding", "a batch of texts to embed or to rank", func(*Module) {}},
		{"tool-call", "a call of a function, as an agent asks for", func(m *Module) {
			m.Interval = model.Duration(5 * time.Minute)
			m.ToolCall, m.OutputTokens = true, formTokens()
		}},
		{"structured", "an answer in JSON by a schema", func(m *Module) {
			m.Interval = model.Duration(5 * time.Minute)
			m.Structured, m.OutputTokens = true, formTokens()
		}},
	}
}

// formTokens is the cap on a call or an answer in JSON, which takes some 40 tokens:
// models that reason first need more.
func formTokens() Lengths { return Tokens(256) }

// promise is an objective of 0.99 with limits, of which 0 is none.
func promise(ttft, tpot, e2e time.Duration) *SLO {
	return &SLO{
		Objective: defaultSLO().Objective,
		TTFT:      model.Duration(ttft), TPOT: model.Duration(tpot), E2E: model.Duration(e2e),
	}
}

// moduleDefaults returns the defaults of the module of that name: those of the
// built-in one, or of all others.
func moduleDefaults(name string, g Global) Module {
	m := defaultModule(g)
	for _, preset := range Presets() {
		if preset.Name == name {
			preset.shape(&m)
		}
	}
	return m
}

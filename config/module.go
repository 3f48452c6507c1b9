package config

import "github.com/prometheus/common/model"

// Prefix is how the prompts of a module relate to each other.
type Prefix string

const (
	// PrefixCold begins every prompt differently, so that no cached prefix
	// helps the server.
	PrefixCold Prefix = "cold"
	// PrefixWarm asks the same prompt again and again.
	PrefixWarm Prefix = "warm"
)

// Connection is how a probe gets its connection.
type Connection string

const (
	// ConnectionNew opens a connection for each probe.
	ConnectionNew Connection = "new"
	// ConnectionReuse keeps one connection per endpoint and module.
	ConnectionReuse Connection = "reuse"
)

// Bounds of what a module may ask for: lengths in tokens, a number of texts.
const (
	maxInputTokens  = 2_000_000
	maxOutputTokens = 100_000
	maxBatchSize    = 2048
)

// Module says what to ask, in terms that hold for every protocol, so that one
// module gives comparable numbers everywhere.
type Module struct {
	// Interval is the time from the start of a probe to that of the next.
	// Default: `global.interval`.
	Interval model.Duration `yaml:"interval"`
	// Timeout limits a whole probe, connection included. Default:
	// `global.timeout`.
	Timeout model.Duration `yaml:"timeout"`
	// Timeouts limit the parts of a probe. None may exceed the timeout; a
	// default that would is cut to it.
	Timeouts Timeouts `yaml:"timeouts"`
	// InputTokens is the wanted length of the prompt in tokens, 1 to
	// 2,000,000. It is reached within a few probes from the server's own
	// count.
	InputTokens int `yaml:"input_tokens"`
	// OutputTokens caps the answer in tokens, reasoning included, 1 to
	// 100,000.
	OutputTokens int `yaml:"output_tokens"`
	// BatchSize is how many texts one probe sends to an endpoint that embeds or
	// ranks, 1 to 2,048.
	BatchSize int `yaml:"batch_size"`
	// Prefix is `cold` (every prompt begins differently, so that no cached
	// prefix helps) or `warm` (the same prompt again).
	Prefix Prefix `yaml:"prefix"`
	// Connection is `new` (one connection per probe) or `reuse` (one kept per
	// endpoint and module).
	Connection Connection `yaml:"connection"`
	// SLO is what is promised of endpoints when they are asked this; see
	// [`endpoints[].slo`](#endpointsslo), whose place it takes as a whole.
	// Default: that of the endpoint.
	SLO *SLO `yaml:"slo,omitempty"`
}

// Timeouts limit the parts of a probe.
type Timeouts struct {
	// Connect limits name resolution, TCP connect and TLS handshake together.
	Connect model.Duration `yaml:"connect"`
	// Headers limits the time from the request to the reply's headers.
	// Default: `first_token`.
	Headers model.Duration `yaml:"headers"`
	// FirstToken limits the time from the request to the first token.
	FirstToken model.Duration `yaml:"first_token"`
	// Stall limits the silence between two tokens.
	Stall model.Duration `yaml:"stall"`
}

func (m *Module) validate(r *report, p path) {
	validateRange(r, p.key("input_tokens"), m.InputTokens, 1, maxInputTokens)
	validateRange(r, p.key("output_tokens"), m.OutputTokens, 1, maxOutputTokens)
	validateRange(r, p.key("batch_size"), m.BatchSize, 1, maxBatchSize)
	validateOneOf(r, p.key("prefix"), m.Prefix, PrefixCold, PrefixWarm)
	validateOneOf(r, p.key("connection"), m.Connection, ConnectionNew, ConnectionReuse)
	m.Timeouts.validate(r, p.key("timeouts"), m.Timeout)
	if m.SLO != nil {
		m.SLO.validate(r, p.key("slo"))
	}
}

func (t *Timeouts) validate(r *report, p path, timeout model.Duration) {
	check := func(key string, v model.Duration) {
		// A default is within the timeout, unless the value it follows is not.
		if r.written(p.key(key)) && v > timeout {
			r.errorf(p.key(key), "%s exceeds the module's timeout of %s", v, timeout)
		}
	}
	check("connect", t.Connect)
	check("headers", t.Headers)
	check("first_token", t.FirstToken)
	check("stall", t.Stall)
}

package config

import (
	"fmt"
	"maps"
	"slices"

	promconfig "github.com/prometheus/common/config"
)

// Tracing says where to send the trace of each probe. In a value of type
// secret, `${NAME}` stands for an environment variable, as under `http`.
type Tracing struct {
	// OTLPEndpoint is the base URL of a collector that takes OTLP over HTTP,
	// such as `http://otel:4318`; traces go to `/v1/traces` under it. Default:
	// no traces are sent.
	OTLPEndpoint URL `yaml:"otlp_endpoint,omitempty"`
	// Headers are sent with the traces.
	Headers map[string]promconfig.Secret `yaml:"headers,omitempty"`
}

// Format writes the settings as printYAML does.
func (t Tracing) Format(f fmt.State, _ rune) { printYAML(f, t) }

func (t *Tracing) validate(r *report, p path) {
	if t.OTLPEndpoint.URL == nil && len(t.Headers) > 0 {
		r.errorf(p.key("otlp_endpoint"), "missing; headers go nowhere without it")
	}
	for _, name := range slices.Sorted(maps.Keys(t.Headers)) {
		at := p.key("headers").key(name)
		if !isHeaderName(name) {
			r.errorf(at, "not a valid name of a header")
		}
		if !isHeaderValue(string(t.Headers[name])) {
			r.errorf(at, "a line break or another control character")
		}
		if t.Headers[name] == "" {
			r.errorf(at, "missing; want a value")
		}
	}
}

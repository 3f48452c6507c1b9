package config

import (
	"fmt"

	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
)

// Metrics says what the page of metrics has, and where to push it. In a value of type
// secret, `${NAME}` is replaced by an environment variable, as under `http`.
type Metrics struct {
	// Compact makes the page one for those who pay by series, about half as many for each
	// endpoint. It leaves out the classic buckets of probes, so that Prometheus must scrape
	// native histograms; `inference_probe_ttfo_seconds` where it equals
	// `inference_probe_ttft_seconds`; and counters at zero of failures, skipped probes and
	// flaws. See [Prometheus](prometheus.md#a-compact-page).
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

func (m *Metrics) check(r *report, p path) { checkHeaders(r, p.key("headers"), m.Headers) }

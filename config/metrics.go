package config

// Metrics says what the page of metrics has.
type Metrics struct {
	// Compact makes the page one for those who pay by series, about half as many for each
	// endpoint. It leaves out the classic buckets of probes, so that Prometheus must scrape
	// native histograms; `inference_probe_ttfo_seconds` where it equals
	// `inference_probe_ttft_seconds`; and counters at zero of failures, skipped probes and
	// flaws. See [Prometheus](prometheus.md#a-compact-page).
	Compact bool `yaml:"compact"`
}

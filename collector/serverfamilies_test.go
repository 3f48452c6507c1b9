package collector

import (
	"slices"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/engine"
)

// Each quantity has a family of its type.
func TestServerFamiliesAreComplete(t *testing.T) {
	names := make(map[string]Type)
	for _, f := range serverFamilies() {
		names[f.Name] = f.Type
	}
	for _, q := range config.Quantities() {
		name, want := "inference_server_"+string(q), Gauge
		switch {
		case slices.Contains(config.Distributions(), q):
			name, want = name+"_seconds", Histogram
		case config.IsCounter(q):
			name, want = name+"_total", Counter
		}
		if names[name] != want {
			t.Errorf("%s is a %q, want a %s", name, names[name], want)
		}
	}
	if engine.RatioWindow != 5*time.Minute {
		t.Errorf("the help of server_prefix_cache_hit_ratio says 5 minutes, not %s", engine.RatioWindow)
	}
}

package app

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// TestProtocolNames checks that a configuration may name every protocol that
// there is, and no other.
func TestProtocolNames(t *testing.T) {
	if diff := cmp.Diff(slices.Sorted(slices.Values(config.APIs())), slices.Sorted(slices.Values(api.Names()))); diff != "" {
		t.Errorf("config.APIs() and api.Names() differ (-config +api):\n%s", diff)
	}
}

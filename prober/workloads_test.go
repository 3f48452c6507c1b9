package prober

import (
	"slices"
	"testing"

	"github.com/inference-exporter/inference_exporter/config"
)

// Every key by which a module asks something is that of one kind, and every kind has one.
func TestEveryKindIsThere(t *testing.T) {
	var keys []string
	for _, w := range Workloads() {
		for _, k := range w.Kinds {
			keys = append(keys, k.Key)
			if k.New == nil || !k.Texts && !k.Answers || (k.Tokens == nil) != (k.Key == "") {
				t.Errorf("%q: %+v", k.Key, k)
			}
		}
	}
	slices.Sort(keys)
	if want := slices.Sorted(slices.Values(config.Asks())); !slices.Equal(keys, want) {
		t.Errorf("kinds of %q, the configuration has %q", keys, want)
	}
}

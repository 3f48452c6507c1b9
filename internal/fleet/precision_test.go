package fleet

import (
	"testing"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/page"
)

// All servers whose pages can be read agree, or the precision is not known.
func TestStoredPrecision(t *testing.T) {
	shows := func(precision string) page.Status {
		return page.Status{Snapshot: &page.Snapshot{Settings: map[config.Setting]string{config.Precision: precision, config.Quantization: "None"}}}
	}
	for _, tt := range []struct {
		name string
		all  []page.Status
		want string
	}{
		{"none", nil, ""},
		{"one", []page.Status{shows("bfloat16")}, "bf16"},
		{"one is down", []page.Status{{}, shows("bfloat16"), shows("bfloat16")}, "bf16"},
		{"all are down", []page.Status{{}, {}}, ""},
		{"they differ", []page.Status{shows("bfloat16"), shows("float16")}, ""},
		{"one does not show it", []page.Status{shows("bfloat16"), {Snapshot: &page.Snapshot{}}}, ""},
	} {
		if got := storedPrecision(tt.all); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

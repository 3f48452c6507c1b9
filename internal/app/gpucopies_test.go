package app

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/inference-exporter/inference_exporter/gpu"
)

// A source with GPUs that are read twice is logged once, and again when their number changes.
func TestCopiesAreLogged(t *testing.T) {
	var text bytes.Buffer
	c := copies{logger: slog.New(slog.NewTextHandler(&text, nil))}
	of := func(source string, uuids ...string) *gpu.Snapshot {
		s := &gpu.Snapshot{Source: source}
		for _, uuid := range uuids {
			s.Devices = append(s.Devices, gpu.DeviceSnapshot{UUID: uuid, Vendor: gpu.NVIDIA})
		}
		return s
	}
	f := func(want string, all ...*gpu.Snapshot) {
		t.Helper()
		text.Reset()
		c.log(all)
		if _, got, _ := strings.Cut(strings.TrimSpace(text.String()), " source="); got != want {
			t.Errorf("logged %q, want %q", got, want)
		}
	}
	nvml := of("nvml", "GPU-a", "GPU-b")
	f("", nvml)
	f("cards gpus=1 first=GPU-b", nvml, of("cards", "GPU-b", "GPU-c"))
	f("", nvml, of("cards", "GPU-b", "GPU-c"))
	f("cards gpus=2 first=GPU-b", nvml, of("cards", "GPU-b", "GPU-a"))
	f("", nvml)
	f("cards gpus=1 first=GPU-a", nvml, of("cards", "GPU-a"))
}

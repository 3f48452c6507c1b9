package config

import (
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

func TestBytes(t *testing.T) {
	f := func(text string, want Bytes, shown string) {
		t.Helper()
		c, err := Parse([]byte("endpoints: [{url: http://h, hardware: {weights: "+text+"}}]"), "f.yml")
		if err != nil {
			t.Error(err)
			return
		}
		got := c.Endpoints[0].Hardware.Weights
		if got != want {
			t.Errorf("%s: got %d bytes, want %d", text, got, want)
		}
		if got.String() != shown {
			t.Errorf("%s: shown as %s, want %s", text, got, shown)
		}
	}
	f("16GB", 16_000_000_000, "16GB")
	f("15GiB", 16_106_127_360, "15GiB")
	f("3.35TB", 3_350_000_000_000, "3350GB")
	f("14.5GB", 14_500_000_000, "14500MB")
	f("0.5KiB", 512, "512")
	f("1kB", 1000, "1kB")
	f("2MB", 2_000_000, "2MB")
	f("2MiB", 2_097_152, "2MiB")
	f("1TiB", 1_099_511_627_776, "1TiB")
	f("16000000001", 16_000_000_001, "16000000001")
	f(`"4096"`, 4096, "4KiB")
	f("1", 1, "1")
}

// FuzzBytes holds that a size which can be read is printed as one that reads
// the same.
func FuzzBytes(f *testing.F) {
	for _, s := range []string{"16GB", "15GiB", "3.35TB", "0", "1", "1000TB", "1e9", "-1", "99999999999999999999999", ".5GB", "1.GB", "0x10", "1B"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, ok := parseBytes(s)
		if !ok || v < 1 || v > maxBytes {
			return
		}
		again, ok := parseBytes(Bytes(v).String())
		if !ok || again != v {
			t.Errorf("%q is %v, printed as %q, read back as %v (%t)", s, v, Bytes(v), again, ok)
		}
	})
}

// TestHardwarePrints checks what the page of the configuration shows.
func TestHardwarePrints(t *testing.T) {
	h := Hardware{GPU: "H100 SXM", GPUs: 2, MemoryBandwidth: 3_350_000_000_000, Weights: 16_000_000_000}
	got, err := yaml.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	want := "gpu: H100 SXM\ngpus: 2\nmemory_bandwidth: 3350GB\nweights: 16GB\n"
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if strings.Contains(string(got), "uuids") {
		t.Error("what is left out is printed")
	}
}

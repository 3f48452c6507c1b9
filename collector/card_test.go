package collector

import (
	"encoding/csv"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// recordedCard reads what the exporter showed of an H100 in some states, a map of series without the labels
// that are the same for all, and what nvidia-smi showed within a second of it.
func recordedCard(t *testing.T) (ours, smi map[string]map[string]string) {
	t.Helper()
	page, err := os.ReadFile("testdata/h100/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	ours, smi = map[string]map[string]string{}, map[string]map[string]string{}
	state := ""
	for line := range strings.Lines(string(page)) {
		if name, ok := strings.CutPrefix(line, "# "); ok {
			state = strings.TrimSpace(name)
			ours[state] = map[string]string{}
			continue
		}
		series, value, _ := strings.Cut(strings.TrimSpace(line), "} ")
		name, labels, _ := strings.Cut(series, "{")
		var own []string
		for _, label := range strings.Split(labels, ",") {
			if key, _, _ := strings.Cut(label, "="); key != "gpu" && key != "uuid" && key != "vendor" {
				own = append(own, label)
			}
		}
		if len(own) > 0 {
			name += "{" + strings.Join(own, ",") + "}"
		}
		ours[state][name] = value
	}
	table, err := os.Open("testdata/h100/nvidia-smi.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	r := csv.NewReader(table)
	r.TrimLeadingSpace = true
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows[1:] {
		smi[row[0]] = map[string]string{}
		for i, name := range rows[0] {
			name, _, _ = strings.Cut(name, " [")
			smi[row[0]][name] = row[i]
		}
	}
	return ours, smi
}

// The values that the exporter showed of a real card, idle, while 3.026 TB/s were copied, 1.469 TB/s, matrices
// multiplied and memory held, are those of nvidia-smi, and the bandwidth in use is what the copies moved. Every family that
// it showed is still there.
func TestCard(t *testing.T) {
	ours, smi := recordedCard(t)
	if len(ours) != 6 || len(smi) != 6 {
		t.Fatalf("%d states, nvidia-smi has %d", len(ours), len(smi))
	}
	number := func(text string) float64 {
		v, err := strconv.ParseFloat(strings.Fields(text)[0], 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	const mib, mhz = 1 << 20, 1e6
	for state, page := range ours {
		for _, c := range []struct {
			series, query   string
			unit, tolerance float64
		}{
			{"inference_gpu_memory_total_bytes", "memory.total", mib, 0},
			{"inference_gpu_memory_reserved_bytes", "memory.reserved", mib, mib},
			{"inference_gpu_memory_used_bytes", "memory.used", mib, mib},
			{"inference_gpu_memory_free_bytes", "memory.free", mib, mib},
			{`inference_gpu_clock_hertz{domain="memory"}`, "clocks.current.memory", mhz, 0},
			{`inference_gpu_clock_max_hertz{domain="sm"}`, "clocks.max.sm", mhz, 0},
			{`inference_gpu_temperature_celsius{sensor="gpu"}`, "temperature.gpu", 1, 1},
			{`inference_gpu_temperature_celsius{sensor="memory"}`, "temperature.memory", 1, 2},
			{"inference_gpu_power_watts", "power.draw.average", 1, 5},
			{"inference_gpu_power_limit_watts", "power.limit", 1, 0},
			{"inference_gpu_utilization_ratio", "utilization.gpu", 0.01, 0.01},
			{"inference_gpu_memory_utilization_ratio", "utilization.memory", 0.01, 0.02},
			{"inference_gpu_pcie_link_generation", "pcie.link.gen.current", 1, 0},
			{"inference_gpu_pcie_link_width", "pcie.link.width.current", 1, 0},
			{`inference_gpu_ecc_errors_total{severity="corrected"}`, "ecc.errors.corrected.volatile.total", 1, 0},
		} {
			value, ok := page[c.series]
			if !ok || smi[state][c.query] == "" {
				t.Errorf("%s: %s is %q, %s of nvidia-smi %q", state, c.series, value, c.query, smi[state][c.query])
				continue
			}
			if got, want := number(value), c.unit*number(smi[state][c.query]); math.Abs(got-want) > c.tolerance {
				t.Errorf("%s: %s is %g, nvidia-smi has %g", state, c.series, got, want)
			}
		}
	}
	for state, moved := range map[string]float64{"copy": 3.0260658e12, "half": 1.4690869e12} {
		got := number(ours[state]["inference_gpu_dram_bandwidth_utilization_ratio"]) * number(ours[state][`inference_gpu_memory_bandwidth_bytes_per_second{source="table"}`])
		if math.Abs(got/moved-1) > 0.005 {
			t.Errorf("%s: %g bytes per second, want %g", state, got, moved)
		}
	}
	var names []string
	for _, f := range Catalogue() {
		names = append(names, f.Name)
	}
	for series := range ours["matmul"] {
		if name, _, _ := strings.Cut(series, "{"); !slices.Contains(names, name) {
			t.Errorf("%s is gone", name)
		}
	}
}

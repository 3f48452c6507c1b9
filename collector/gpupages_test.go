package collector

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/internal/page"
)

// gpuPageStatuses is a page that was read and one that was not.
func gpuPageStatuses() []page.GPUPageStatus {
	return []page.GPUPageStatus{
		{Status: page.Status{Server: "gpu-1:9400", State: page.Up}, Source: "nodes", Software: "dcgm-exporter", Devices: 8},
		{
			Status: page.Status{
				Server: "gpu-2:9400", State: page.Down, Reason: page.ReasonTimeout, Failures: map[page.Reason]uint64{page.ReasonTimeout: 3},
			},
			Source: "nodes",
		},
	}
}

func TestPagesOfOtherExporters(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(NewGPUPages(gpuPageStatuses))
	families := sections()["gpu pages"]
	want := fmt.Sprintf(`# HELP inference_gpu_page_devices %s
# TYPE inference_gpu_page_devices gauge
inference_gpu_page_devices{server="gpu-1:9400",software="dcgm-exporter",source="nodes"} 8
# HELP inference_gpu_page_failures_total %s
# TYPE inference_gpu_page_failures_total counter
inference_gpu_page_failures_total{reason="timeout",server="gpu-2:9400",source="nodes"} 3
# HELP inference_gpu_page_up %s
# TYPE inference_gpu_page_up gauge
inference_gpu_page_up{server="gpu-1:9400",source="nodes"} 1
inference_gpu_page_up{server="gpu-2:9400",source="nodes"} 0
`, families[1].Help, families[2].Help, families[0].Help)
	page, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, f := range page {
		if _, err := expfmt.MetricFamilyToText(&got, f); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Error(diff)
	}
}

// A GPU of a page has its host, no index where none is known, and no number of devices by
// source, which changes with the hosts.
func TestGPUsOfAPage(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(NewGPU(func() gpu.Snapshots {
		return gpu.Snapshots{{Source: "nodes", Remote: true, State: gpu.StateUp, Count: 1, Devices: []gpu.DeviceSnapshot{
			{UUID: "GPU-a", Index: -1, Vendor: gpu.Intel, Host: "gpu-1", Up: true, Readings: []gpu.Reading{{Kind: gpu.Power, Value: 300}}},
		}}}
	}))
	page, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range page {
		if f.GetName() == "inference_gpu_devices" {
			t.Error("inference_gpu_devices of a page")
		}
		if f.GetName() != "inference_gpu_power_watts" {
			continue
		}
		labels := map[string]string{}
		for _, l := range f.Metric[0].Label {
			labels[l.GetName()] = l.GetValue()
		}
		if labels["host"] != "gpu-1" || labels["vendor"] != "intel" || labels["gpu"] != "" {
			t.Errorf("labels %v", labels)
		}
	}
}

// writePagesReference writes what is read of each exporter.
func writePagesReference(t *testing.T, b *strings.Builder) {
	t.Helper()
	mappings := page.NewMappings(page.Accelerators, nil)
	names, _ := page.Check(page.Accelerators, nil)
	b.WriteString("\n### The exporters that are known\n\n| `software` | exporter | `vendor` | set-up |\n| --- | --- | --- | --- |\n")
	for _, name := range names {
		e := mappings.Exporter(name)
		fmt.Fprintf(b, "| `%s` | %s | `%s` | %s |\n", name, e.Title, e.Vendor, e.Setup)
	}
	b.WriteString("\n")
	for _, name := range names {
		if e := mappings.Exporter(name); e.Notes != "" {
			fmt.Fprintf(b, "- **%s.** %s\n", e.Title, e.Notes)
		}
	}
	b.WriteString("\n### Readings by exporter\n\nThe series that each reading is from. An empty field is a reading that the exporter does not have, and that is then absent.\n\n| `inference_gpu_` |")
	for _, name := range names {
		fmt.Fprintf(b, " `%s` |", name)
	}
	b.WriteString("\n| --- |" + strings.Repeat(" --- |", len(names)) + "\n")
	for _, i := range gpu.Readings() {
		row, any := "| `"+string(i.Kind)+"` |", false
		for _, name := range names {
			var series []string
			for _, s := range mappings.Exporter(name).Readings[i.Kind] {
				if !slices.Contains(series, s.Series) {
					series = append(series, s.Series)
				}
			}
			row += " " + codes(strings.Join(series, ", ")) + " |"
			any = any || len(series) > 0
		}
		if any {
			b.WriteString(row + "\n")
		}
	}
}

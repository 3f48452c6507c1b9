package app

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// An exporter that reads the pages of other exporters and nothing else has their GPUs,
// needs no driver, and does not miss one.
func TestGPUPagesAlone(t *testing.T) {
	t.Parallel()
	dcgm := testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		http.ServeFile(w, r, filepath.Join("..", "..", "internal", "page", "testdata", "pages", "accelerators", "dcgm-exporter.txt"))
	}))
	p := start(t, "--web.listen-address=127.0.0.1:0", "--no-collector.probe", "--no-collector.server", "--gpu.sysfs="+t.TempDir(),
		"--config.file="+writeFile(t, "exporter.yml", fmt.Sprintf("gpus: {pages: {cards: {urls: [%q], interval: 1s}}}\n", dcgm)))
	_, text := p.waitFor("GPUs of a page", func(got metricsPage) bool {
		return got.Sum("inference_gpu_page_up", "source", "cards") == 1 && got.Has("inference_gpu_info") && !isStarting(got)
	})
	server := strings.TrimPrefix(dcgm, "http://")
	for _, want := range []string{
		`inference_gpu_up{source="cards"} 1`,
		`inference_gpu_page_devices{server="` + server + `",software="dcgm-exporter",source="cards"} `,
		`inference_gpu_temperature_celsius{`,
	} {
		if !strings.Contains(string(text), "\n"+want) {
			t.Errorf("no %s", want)
		}
	}
	if log := strings.Join(p.stderr.lines("reading GPUs from a page"), ""); !strings.Contains(log, "temperature_celsius") || !strings.Contains(log, "not_on_page=") {
		t.Errorf("the log does not say what was found and what is missing: %s", log)
	}
	if strings.Contains(string(text), `inference_gpu_up{source="nvml"} 0`) || len(p.stderr.lines("level=error"))+len(p.stderr.lines("level=warn")) > 0 {
		t.Errorf("the missing driver counts as a failure:\n%s", p.stderr)
	}
}

// isStarting reports whether a source has not ended its first poll.
func isStarting(got metricsPage) bool { return got.Sum("inference_gpu_state", "state", "starting") > 0 }

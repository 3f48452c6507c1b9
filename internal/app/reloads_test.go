package app

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/simulator"
)

// A thousand reloads leave nothing behind.
func TestThousandReloads(t *testing.T) {
	t.Parallel() // in a process of its own
	server := serveHTTP(t, simulator.New(quick()).Handler())
	text := func(i int) string {
		var b strings.Builder
		fmt.Fprintf(&b, "global: {interval: 1s, limits: {in_flight: %d}}\nmodules: {interactive: {input_tokens: %d, output_tokens: 2}}\nendpoints:\n", 10+i%3, 16+i%5)
		for j := range 5 {
			fmt.Fprintf(&b, "  - {name: e%d, url: %q, api: openai-chat, model: simulated-8b, budget: {tokens_per_hour: 100000}}\n", (i+j)%11, server)
		}
		return b.String()
	}
	file := writeFile(t, "exporter.yml", text(0))
	p := launch(t, "--web.listen-address=127.0.0.1:0", "--web.enable-lifecycle", "--config.file="+file)
	reload := func(i int) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text(i)), 0o600); err != nil {
			t.Fatal(err)
		}
		resp, err := http.Post(p.base+"/-/reload", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("reload %d: status %d", i, resp.StatusCode)
		}
	}
	// What is left when the probes have ended: the least of several looks, as garbage
	// comes and goes.
	type left struct{ goroutines, heap, series float64 }
	rounds := func(from, to int) left {
		t.Helper()
		for i := from; i < to; i++ {
			reload(i)
		}
		reload(0)
		var least left
		looks := 0
		p.waitFor("the probes to end, several times", func(got page) bool {
			if got.sum("inference_exporter_probes_in_flight") > 0 {
				return false
			}
			now := left{goroutines: got.sum("go_goroutines"), heap: got.sum("go_memstats_heap_alloc_bytes") / 1e6}
			for name, f := range got {
				if strings.HasPrefix(name, "inference_probe_") || strings.HasPrefix(name, "inference_endpoint_") {
					now.series += float64(len(f.GetMetric()))
				}
			}
			if looks == 0 {
				least = now
			}
			least = left{min(least.goroutines, now.goroutines), min(least.heap, now.heap), min(least.series, now.series)}
			looks++
			return looks == 40
		})
		return least
	}
	before := rounds(1, 100)
	after := rounds(100, 1100)
	t.Logf("after 100 reloads %+v, after 1,100 %+v", before, after)
	if after.goroutines > before.goroutines+10 || after.heap > before.heap+5 || after.series > before.series+20 {
		t.Errorf("after 100 reloads %+v, after 1,100 %+v", before, after)
	}
}

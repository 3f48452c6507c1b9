package collector

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
)

// docs/gpu.md is generated from the table of readings.
func TestReferenceGPU(t *testing.T) {
	intro, err := os.ReadFile(filepath.Join("testdata", "gpu.intro.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range gpuStates() {
		if !strings.Contains(string(intro), "\n| `"+string(state)+"` |") {
			t.Errorf("the page does not explain the state %s", state)
		}
	}
	var b strings.Builder
	b.Write(intro)
	b.WriteString("\n## Readings, and their names elsewhere\n\n")
	b.WriteString("Units are base units: bytes and not MiB, hertz and not MHz, ratios of 1 and not percent. DCGM and `nvidia-smi --query-gpu` use others. " +
		"Those marked † have an `inference_gpu_mig_*` twin.\n\n")
	b.WriteString("| `inference_gpu_` | unit | DCGM | nvidia-smi | hardware |\n| --- | --- | --- | --- | --- |\n")
	for _, i := range gpu.Readings() {
		name := "`" + string(i.Kind) + "`"
		if slices.Contains(migKinds(), i.Kind) {
			name += " †"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", name, i.Unit, codes(i.DCGM), codes(i.NvidiaSMI), i.Hardware)
	}
	b.WriteString("\n## Products whose bandwidth is known\n\n")
	b.WriteString("By the data sheets. `hardware.gpu` takes these names, with or without the vendor's, in any case; also those that the driver uses.\n\n")
	b.WriteString("| product | GB/s |\n| --- | --- |\n")
	for _, name := range gpu.Products() {
		bandwidth, ok := gpu.ProductBandwidth(name)
		if !ok {
			t.Errorf("product %s is not known by its name", name)
		}
		fmt.Fprintf(&b, "| %s | %g |\n", name, bandwidth/1e9)
	}
	golden(t, filepath.Join("..", "docs", "gpu.md"), b.String())
}

// codes writes a list of names as code.
func codes(names string) string {
	if names == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(names, ", ", "`, `") + "`"
}

// examples returns the blocks of code of one language in the pages.
func examples(t *testing.T, language string, pages ...string) []string {
	t.Helper()
	var out []string
	for _, name := range pages {
		page, err := os.ReadFile(filepath.Join("..", "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range strings.Split(string(page), "```"+language+"\n")[1:] {
			text, _, _ := strings.Cut(block, "```")
			out = append(out, text)
		}
	}
	return out
}

// The queries of the pages name metrics that there are.
func TestReferenceQueries(t *testing.T) {
	queries := examples(t, "promql", "gpu.md", "metrics.md")
	if len(queries) < 8 {
		t.Errorf("found %d queries", len(queries))
	}
	names := map[string]bool{}
	for _, f := range Catalogue() {
		names[f.Name] = true
		if f.Type == Histogram {
			names[f.Name+"_bucket"], names[f.Name+"_sum"], names[f.Name+"_count"] = true, true, true
		}
	}
	for _, query := range queries {
		for _, name := range regexp.MustCompile(namePrefix+`\w+`).FindAllString(query, -1) {
			if !names[name] {
				t.Errorf("there is no %s\n%s", name, query)
			}
		}
	}
}

// The worked example comes out as the page says.
func TestReferenceCeiling(t *testing.T) {
	for _, text := range examples(t, "yaml", "gpu.md") {
		c, err := config.Parse([]byte(text), "gpu.md")
		if err != nil {
			t.Fatal(err)
		}
		p, _ := newStore()
		p.SetEndpoint(EndpointInfo{Endpoint: "e", Hardware: c.Endpoints[0].Hardware})
		if got := samples(t, p)[`inference_endpoint_decode_ceiling_tokens_per_second{endpoint="e"}`]; got != "209.375" {
			t.Errorf("the ceiling is %q, want 3.35e12 / 16e9 = 209.375", got)
		}
	}
}

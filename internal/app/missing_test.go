package app

import (
	"fmt"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// TestMissingSecret checks that an endpoint whose secret is missing is not asked, that the
// page says why, and that the others are probed.
func TestMissingSecret(t *testing.T) {
	t.Parallel()
	server := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	p := start(t, "--web.listen-address=127.0.0.1:0", "--no-collector.gpu", "--config.file="+writeFile(t, "exporter.yml", fmt.Sprintf(`
global: {interval: 200ms, missing_secrets: skip_endpoint}
modules: {interactive: {input_tokens: 16, output_tokens: 2}}
endpoints:
  - {name: good, url: %[1]s}
  - {name: keyless, url: %[1]s, http: {authorization: {credentials: "${NOT_SET_IN_TESTS}"}}}
`, server)))
	got, _ := p.waitFor("probes of one and skips of the other", func(got metricsPage) bool {
		return got.Probes("good") > 2 && got.Sum("inference_probe_skipped_total", "endpoint", "keyless", "reason", "secret_missing") > 2
	})
	if n := got.Probes("keyless"); n != 0 {
		t.Errorf("%v probes without the secret", n)
	}
}

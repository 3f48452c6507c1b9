package app

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/proto"

	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// With a receiver of metrics in the configuration the page is pushed to it, with the
// metrics of the conventions beside it, and once more at the end.
func TestMetricsArePushed(t *testing.T) {
	t.Parallel()
	received := make(chan string, 1000)
	receiver := testlab.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		received <- r.URL.Path + " " + r.Header.Get("X-Key") + " " + metricNames(t, r.Body)
	}))
	server := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	file := writeFile(t, "push.yml", fmt.Sprintf(`
global: {interval: 1s}
modules: {interactive: {output_tokens: 2}}
metrics: {otlp_endpoint: %q, headers: {x-key: k}, interval: 1h}
endpoints: [{name: e, url: %q}]
`, receiver, server))
	p := start(t, "--config.file="+file, "--web.listen-address=127.0.0.1:0")
	got, _ := p.waitFor("a probe", func(got metricsPage) bool { return got.Probes("e") > 0 })
	for _, name := range []string{"inference_exporter_metrics_pushes_total", "inference_exporter_metrics_push_failures_total"} {
		if !got.Has(name) {
			t.Errorf("no %s", name)
		}
	}
	if code := p.stop(); code != cli.ExitOK {
		t.Errorf("exit code %d", code)
	}
	close(received)
	var all string
	for text := range received {
		if !strings.HasPrefix(text, "/v1/metrics k ") {
			t.Errorf("received %q", text)
		}
		all += text
	}
	for _, name := range []string{"inference_probe_ttft_seconds", "inference_exporter_build_info", "gen_ai.client.token.usage"} {
		if !strings.Contains(all, name) {
			t.Errorf("nothing of %s was pushed", name)
		}
	}
}

// metricNames returns the names of the metrics in a request.
func metricNames(t *testing.T, body io.Reader) string {
	unzipped, err := gzip.NewReader(body)
	if err != nil {
		t.Error(err)
		return ""
	}
	raw, err := io.ReadAll(unzipped)
	if err != nil {
		t.Error(err)
	}
	var data metricspb.MetricsData
	if err := proto.Unmarshal(raw, &data); err != nil {
		t.Error(err)
	}
	var names []string
	for _, resource := range data.ResourceMetrics {
		for _, scope := range resource.ScopeMetrics {
			for _, m := range scope.Metrics {
				names = append(names, m.Name)
			}
		}
	}
	return strings.Join(names, " ")
}

//go:build unix

package app

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// pipeAt replaces what has the name by a pipe to which nobody writes.
func pipeAt(t *testing.T, name string) string {
	t.Helper()
	if err := os.RemoveAll(name); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// No file that the daemon is given can be a pipe, which it would wait for.
func TestPipesAtStart(t *testing.T) {
	pipe := pipeAt(t, filepath.Join(t.TempDir(), "pipe"))
	f := func(args ...string) {
		t.Helper()
		var stderr bytes.Buffer
		code := Run(context.Background(), append(args, "--web.listen-address=127.0.0.1:0"), Options{Stdout: &stderr, Stderr: &stderr})
		if code != cli.ExitUsage || !strings.Contains(stderr.String(), "not a regular file") {
			t.Errorf("%q: exit code %d, %s", args, code, &stderr)
		}
	}
	in := func(text string) string {
		return "--config.file=" + writeFile(t, "exporter.yml", fmt.Sprintf(text, pipe))
	}
	f("--config.file=" + pipe)
	f("--endpoint=http://127.0.0.1:9", "--web.config.file="+pipe)
	f(in("modules: {own: {prompts_file: %q}}\nendpoints: [{url: http://127.0.0.1:9}]\n"))
	f(in("endpoints: [{url: http://127.0.0.1:9, http: {authorization: {credentials_file: %q}}}]\n"))
	f(in("endpoints: [{url: http://127.0.0.1:9, http: {tls_config: {ca_file: %q}}}]\n"))
}

// A configuration that has become a pipe fails the reload, and nothing else.
func TestConfigurationBecomesPipe(t *testing.T) {
	t.Parallel()
	p := startReloading(t, "endpoints: [{url: http://127.0.0.1:9}]\n")
	pipeAt(t, p.file)
	if status, body := p.post("/-/reload"); status != http.StatusInternalServerError || !strings.Contains(body, "not a regular file") {
		t.Errorf("status %d: %s", status, body)
	}
	got, _ := p.waitFor("a page", func(metricsPage) bool { return true })
	if got.Sum("inference_exporter_config_last_reload_successful") != 0 || got.Sum("inference_exporter_endpoints") != 1 {
		t.Error("the previous configuration is not active, or the failure is not reported")
	}
	if code := p.stop(); code != cli.ExitOK {
		t.Errorf("exit code %d", code)
	}
}

// A key that has become a pipe keeps the probes and the readings that need it from being
// made, which is no failure of the endpoint. They go on, and so does all else, and the exporter ends when it should.
func TestKeyBecomesPipe(t *testing.T) {
	t.Parallel()
	server := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	key := writeFile(t, "key", "secret-of-test")
	p := start(t, "--web.listen-address=127.0.0.1:0", "--config.file="+writeFile(t, "exporter.yml", fmt.Sprintf(`
global: {interval: 100ms}
modules: {interactive: {input_tokens: 16, output_tokens: 2}}
endpoints:
  - {name: keyed, url: %[1]q, http: {authorization: {credentials_file: %[2]q}}, servers: {urls: ["%[1]s/metrics"], interval: 1s}}
  - {name: open, url: %[1]q}
`, server, key)))
	succeeded := func(got metricsPage, endpoint string) float64 {
		return got.Sum("inference_probe_results_total", "endpoint", endpoint, "outcome", "success")
	}
	before, _ := p.waitFor("good probes", func(got metricsPage) bool { return succeeded(got, "keyed") > 0 && succeeded(got, "open") > 0 })
	pipeAt(t, key)
	got, _ := p.waitFor("skipped probes beside good ones, and no page of a server", func(got metricsPage) bool {
		return got.Sum("inference_probe_skipped_total", "endpoint", "keyed", "reason", "secret_missing") >= 3 &&
			succeeded(got, "open") > succeeded(before, "open")+3 && !got.Has("inference_server_up", "endpoint", "keyed")
	})
	for _, o := range result.Outcomes() {
		if n := got.Sum("inference_probe_results_total", "endpoint", "keyed", "outcome", string(o)); n > 0 && o != result.Success {
			t.Errorf("the endpoint is charged with %s for want of a file", o)
		}
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(key, []byte("another-secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.waitFor("good probes with the new key", func(got metricsPage) bool {
		return succeeded(got, "keyed") > succeeded(before, "keyed")+3 && got.Sum("inference_server_up", "endpoint", "keyed") == 1
	})
	if code := p.stop(); code != cli.ExitOK {
		t.Errorf("exit code %d", code)
	}
}

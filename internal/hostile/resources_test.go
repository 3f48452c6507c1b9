//go:build linux

package hostile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// mostMemory is what 100 hostile endpoints may make of the program, in MB.
const mostMemory = 300

// greedy returns a configuration with the default limits, of a healthy endpoint and
// n hostile ones that want memory: by large lines, many values, endless headers, and
// bursts of 16 requests of those.
func greedy(tb testing.TB, n int) (string, []target) {
	tb.Helper()
	text := new(strings.Builder)
	fmt.Fprintf(text, `
global: {interval: 10s}
modules:
  often: {interval: 1s, timeout: 30s, input_tokens: 16, output_tokens: 8}
  burst: {interval: 10s, input_tokens: 256, concurrency: [16]}
endpoints:
  - {name: %s, url: %q, modules: [often]}
`, healthy, startHealthy(tb))
	names := []string{
		"line of 8 MiB", "endless line", "event of 8 MiB in lines", "string of 7 MiB in JSON", "100,000 values of JSON",
		"100,000 keys of JSON", "endless headers", "endless cookies", "endless header", "gzip bomb in one line",
	}
	var all []Behaviour
	for _, name := range names {
		all = append(all, Named(name))
	}
	var targets []target
	servers := startAll(tb, all)
	for i := range n {
		b := all[i%len(all)]
		one := target{name: fmt.Sprintf("%d: %s", i, b.Name)}
		module := "interactive"
		if i >= n*3/4 {
			module = "burst"
		}
		fmt.Fprintf(text, "  - {name: %q, url: %q, api: openai-chat, model: m, modules: [%s]}\n", one.name, servers[i%len(servers)].URL, module)
		targets = append(targets, one)
	}
	return text.String(), targets
}

// What 100 endpoints can make the program hold is bounded.
func TestMemory(t *testing.T) {
	needsMinutes(t)
	text, targets := greedy(t, 100)
	p := start(t, "", text)
	got := awaitResults(p, targets, 20)
	for _, one := range targets {
		checkTarget(t, got, one)
	}
	checkOutcomes(t, got, healthy, result.Success)
	peak := p.peakMemory()
	t.Logf("peak %.0f MB", peak)
	if peak > mostMemory {
		t.Errorf("peak %.0f MB, want at most %d", peak, mostMemory)
	}
	p.terminate()
}

// A process with little memory goes on.
func TestLittleMemory(t *testing.T) {
	needsMinutes(t)
	text, targets := greedy(t, 20)
	p := start(t, "ulimit -v 4000000", text, "GOMEMLIMIT=60MiB")
	got := awaitResults(p, targets, 20)
	checkOutcomes(t, got, healthy, result.Success)
	p.terminate()
}

// The lack of descriptors is the program's own: no endpoint is charged with it.
func TestFewDescriptors(t *testing.T) {
	needsMinutes(t)
	text := short(startHealthy(t))
	server := startAll(t, []Behaviour{Named("never answers")})[0]
	var targets []target
	for i := range 100 {
		one := target{name: fmt.Sprint("hung ", i)}
		fmt.Fprintf(text, "  - {name: %q, url: %q, api: openai-chat, model: m}\n", one.name, server.URL)
		targets = append(targets, one)
	}
	p := start(t, "ulimit -n 64", strings.Replace(text.String(), "timeout: 3s}", "timeout: 3s, limits: {in_flight_per_host: 1000}}", 1))
	p.wait("a run skipped for want of descriptors", func() bool {
		return p.scrape().sum("inference_exporter_missed_runs_total", "reason", "resources") > 0
	})
	got := p.scrape()
	for _, one := range targets {
		checkOutcomes(t, got, one.name, result.TimeoutFirstToken, result.Canceled)
	}
	checkOutcomes(t, got, healthy, result.Success)
	p.terminate()
}

// A key file that is a pipe nobody writes to holds up its endpoint alone, and a
// configuration that becomes one is not taken.
func TestPipesInPlaceOfFiles(t *testing.T) {
	needsMinutes(t)
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	first := prepare(t, "", pipe)
	first.run()
	if _ = first.cmd.Wait(); first.cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("exit code %d with a pipe for a configuration, want 2", first.cmd.ProcessState.ExitCode())
	}

	text, url := short(startHealthy(t)), startHealthy(t)
	key := write(t, dir, "key", "sk-1234567890")
	fmt.Fprintf(text, "  - {name: keyed, url: %q, api: openai-chat, model: m, http: {authorization: {credentials_file: %q}}}\n", url, key)
	p := start(t, "", text.String())
	if err := os.Rename(pipe, key); err != nil {
		t.Fatal(err)
	}
	p.wait("a run skipped for want of the key", func() bool {
		return p.scrape().sum("inference_probe_skipped_total", "endpoint", "keyed", "reason", "secret_missing") > 0
	})
	checkOutcomes(t, p.scrape(), "keyed", result.Success)
	file := strings.TrimPrefix(p.cmd.Args[4], "--config.file=")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	p.wait("a reload that fails", func() bool {
		return p.scrape().sum("inference_exporter_config_last_reload_successful") == 0
	})
	checkOutcomes(t, p.scrape(), healthy, result.Success)
	p.terminate()
}

// A log that nobody reads, or whose reader is gone, costs its lines alone, with
// hostile endpoints that make many.
func TestDeadLog(t *testing.T) {
	needsMinutes(t)
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprintf("gone=%t", gone), func(t *testing.T) {
			text := short(startHealthy(t))
			b := Named("HTTP/2: flood of unknown frames")
			targets := add(text, b, startAll(t, []Behaviour{b})[0])
			p := prepare(t, "", write(t, t.TempDir(), "exporter.yml", text.String()))
			p.cmd.Args = append(p.cmd.Args, "--log.level=debug")
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			p.cmd.Stderr, p.cmd.Stdout = w, w
			p.run()
			w.Close()
			p.listens()
			if gone {
				r.Close()
			}
			p.wait("results and lost lines", func() bool {
				got := p.scrape()
				return got.results(targets[0].name) > 0 && got.results(targets[1].name) > 0 && got.sum("inference_exporter_log_lines_dropped_total") > 0
			})
			checkOutcomes(t, p.scrape(), healthy, result.Success)
			p.terminate()
		})
	}
}

// checkOutcomes checks that an endpoint has no other outcomes than these.
func checkOutcomes(t *testing.T, got page, endpoint string, want ...result.Outcome) {
	t.Helper()
	counts := got.outcomes(endpoint)
	for _, o := range want {
		delete(counts, o)
	}
	for o, n := range counts {
		t.Errorf("%s: %g times %s", endpoint, n, o)
	}
}

//go:build linux

package hostile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// healthy is the name of an endpoint that answers.
const healthy = "healthy"

// target is one endpoint of a configuration, and what may come of it.
type target struct {
	name      string
	answers   bool
	behaviour Behaviour
}

// short is a configuration with limits of a second or two, in which the healthy
// endpoint is probed once a second.
func short(healthyURL string) *strings.Builder {
	var text strings.Builder
	fmt.Fprintf(&text, `
global: {interval: 6s, timeout: 3s}
modules:
  interactive: {input_tokens: 16, output_tokens: 8, timeouts: {connect: 1s, first_token: 1500ms, stall: 1s}}
  often: {interval: 1s, timeout: 10s, input_tokens: 16, output_tokens: 8}
endpoints:
  - {name: %s, url: %q, modules: [often]}
`, healthy, healthyURL)
	return &text
}

// add writes two endpoints at a server: one that says what answers there, and one
// that leaves it to the program to find out.
func add(text *strings.Builder, b Behaviour, s *Server) []target {
	http := "{}"
	if b.Scheme == "https" {
		http = fmt.Sprintf("{enable_http2: %t, tls_config: {insecure_skip_verify: true}}", b.HTTP2)
	}
	known, asked := "known: "+b.Name, "asked: "+b.Name
	fmt.Fprintf(text, "  - {name: %q, url: %q, api: openai-chat, model: m, http: %s}\n", known, s.URL, http)
	fmt.Fprintf(text, "  - {name: %q, url: %q, http: %s, servers: {urls: [%q], interval: 3s, timeout: 1s}}\n", asked, s.URL, http, s.URL+"/metrics")
	return []target{{known, b.Answers, b}, {asked, false, b}}
}

// Every behaviour of HTTP/1.1 and HTTP/2 against one process: none reaches
// beyond its own endpoint.
func TestBehaviours(t *testing.T) {
	needsMinutes(t)
	for _, protocol := range []struct {
		name string
		all  []Behaviour
	}{{"HTTP/1.1", http1()}, {"HTTP/2", http2Behaviours()}} {
		t.Run(protocol.name, func(t *testing.T) {
			text := short(startHealthy(t))
			var targets []target
			for i, s := range startAll(t, protocol.all) {
				targets = append(targets, add(text, protocol.all[i], s)...)
			}
			p := start(t, "", text.String())
			began := time.Now()
			got := awaitResults(p, targets, 10)
			elapsed := time.Since(began)
			checkHealthy(t, got, elapsed)
			for _, one := range targets {
				checkTarget(t, got, one)
			}
			checkResources(t, got, len(targets))
			p.checkTexts()
			t.Logf("%d endpoints, %s, peak %.0f MB, %.0f goroutines, %.0f descriptors", len(targets), elapsed, p.peakMemory(),
				got.sum("go_goroutines"), got.sum("process_open_fds"))
			p.terminate()
		})
	}
}

// awaitResults waits until the healthy endpoint has as many results, and each target
// a few: one that asks for a pause has one, and one that found the memory for large
// events taken by others may have none, with the reason in the log.
func awaitResults(p *program, targets []target, n float64) (got page) {
	p.tb.Helper()
	const few = 2
	var silent []string
	defer func() {
		if p.tb.Failed() {
			p.tb.Logf("without results: %q", silent)
		}
	}()
	p.wait("results of each endpoint", func() bool {
		got, silent = p.scrape(), nil
		log := string(p.log())
		for _, one := range targets {
			if got.results(one.name) < few && got.outcomes(one.name)[result.RateLimited] == 0 &&
				!strings.Contains(log, fmt.Sprintf(`msg="not probing" endpoint=%q `, one.name)) {
				silent = append(silent, one.name)
			}
		}
		return len(silent) == 0 && got.results(healthy) >= n
	})
	return got
}

// checkHealthy checks that the healthy endpoint has only successes, and that no
// run was missed for want of a turn. How many there are is asked with much room:
// the machine may be slow.
func checkHealthy(t *testing.T, got page, elapsed time.Duration) {
	t.Helper()
	for o, n := range got.outcomes(healthy) {
		if o != result.Success {
			t.Errorf("%s: %g times %s", healthy, n, o)
		}
	}
	if n, due := got.results(healthy), elapsed.Seconds(); n < due/2-2 {
		t.Errorf("%s: %g results in %s", healthy, n, elapsed)
	}
	if n := got.sum("inference_exporter_missed_runs_total", "reason", "limit"); n > 0 {
		t.Errorf("%g runs missed for want of a turn", n)
	}
}

// mostPrompt is more tokens than a probe here can have: its request has fewer
// bytes.
const mostPrompt = 10_000

// checkTarget checks that a hostile endpoint ends as a failure.
func checkTarget(t *testing.T, got page, one target) {
	t.Helper()
	for o, n := range got.outcomes(one.name) {
		// Each overtaken confirmation was of a failure before it.
		if o == result.Canceled && n > got.results(one.name) || o == result.Success && !one.answers {
			t.Errorf("%s: %g times %s", one.name, n, o)
		}
	}
	if n := got.sum("inference_probe_prompt_tokens_total", "endpoint", one.name); n < 0 || n > mostPrompt*got.results(one.name) {
		t.Errorf("%s: %g prompt tokens", one.name, n)
	}
}

// checkResources checks that what ended is gone: a probe that runs has a handful
// of goroutines and a connection, and so has the reading of a page.
func checkResources(t *testing.T, got page, targets int) {
	t.Helper()
	if n := got.sum("go_goroutines"); n > float64(100+8*targets) {
		t.Errorf("%g goroutines", n)
	}
	if n := got.sum("process_open_fds"); n > float64(100+2*targets) {
		t.Errorf("%g open files", n)
	}
}

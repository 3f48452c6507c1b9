package app

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// post sends a request without a body.
func (p *program) post(path string, header ...string) (int, string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.base+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := p.client.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// reloading is a program whose configuration a test rewrites.
type reloading struct {
	*program
	file string
}

func startReloading(t *testing.T, text string, args ...string) *reloading {
	t.Helper()
	file := writeFile(t, "exporter.yml", text)
	return &reloading{start(t, append(args, "--web.listen-address=127.0.0.1:0", "--web.enable-lifecycle", "--config.file="+file)...), file}
}

func (r *reloading) write(text string) {
	r.t.Helper()
	if err := os.WriteFile(r.file, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// reload loads a configuration and returns what is said of it.
func (r *reloading) reload(text string) (int, string) {
	r.t.Helper()
	r.write(text)
	return r.post("/-/reload")
}

const reloadModules = `
global: {interval: 50ms}
modules: {interactive: {input_tokens: 16, output_tokens: 2}, other: {input_tokens: 16, output_tokens: 2}}
`

// An endpoint that did not change keeps its state; one that changed starts again;
// one that was removed is off the page.
func TestReloadKeepsWhatStays(t *testing.T) {
	t.Parallel()
	server := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	endpoint := func(name, more string) string {
		return fmt.Sprintf("  - {name: %s, url: %q, api: openai-chat, model: simulated-8b%s}\n", name, server, more)
	}
	r := startReloading(t, reloadModules+"endpoints:\n"+endpoint("stays", "")+endpoint("changes", "")+endpoint("goes", "")+endpoint("module", ", modules: [other]"))
	success := func(got metricsPage, name string) float64 {
		return got.Sum("inference_probe_results_total", "endpoint", name, "outcome", "success")
	}
	first, _ := r.waitFor("20 probes of each", func(got metricsPage) bool {
		return success(got, "stays") >= 20 && success(got, "changes") >= 20 && success(got, "module") >= 20
	})
	loaded := first.Sum("inference_exporter_config_last_reload_success_timestamp_seconds")

	status, body := r.reload(strings.Replace(reloadModules, "other: {input_tokens: 16", "other: {input_tokens: 32", 1) +
		"endpoints:\n" + endpoint("comes", "") + endpoint("stays", "") + endpoint("changes", ", labels: {team: search}") + endpoint("module", ", modules: [other]"))
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, body)
	}
	_, text := r.get("/metrics")
	got := testlab.ParsePage(t, text)
	if before, after := success(first, "stays"), success(got, "stays"); after < before {
		t.Errorf("stays: %v successes before the reload, %v after", before, after)
	}
	for _, name := range []string{"changes", "module"} {
		if after := success(got, name); after >= 20 {
			t.Errorf("%s: %v successes although it started again", name, after)
		}
	}
	for name, want := range map[string]string{"stays": `"state":"up"`, "changes": `"state":"up"`, "comes": `"state":"`} {
		if _, body := r.get("/api/v1/endpoints/" + name); !strings.Contains(string(body), want) {
			t.Errorf("%s: the status page has forgotten what was detected: %.300s", name, body)
		}
	}
	if resp, _ := r.get("/api/v1/endpoints/goes"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("an endpoint that is gone has a page: status %d", resp.StatusCode)
	}
	if got.Has("inference_probe_results_total", "endpoint", "goes") || got.Has("inference_endpoint_info", "endpoint", "goes") {
		t.Error("an endpoint that is gone is on the page")
	}
	if got.Sum("inference_exporter_config_last_reload_successful") != 1 ||
		got.Sum("inference_exporter_config_last_reload_success_timestamp_seconds") <= loaded {
		t.Error("the page does not report the reload")
	}
	r.waitFor("probes of all", func(got metricsPage) bool {
		return success(got, "comes") > 0 && success(got, "module") > 0 &&
			got.Sum("inference_probe_results_total", "endpoint", "changes", "team", "search", "outcome", "success") > 0
	})
}

// A volume of a ConfigMap is a link to a link to a folder: an update swaps the link in the middle.
func TestAutoReload(t *testing.T) {
	t.Parallel()
	server := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	volume := t.TempDir()
	version := 0
	update := func(text, prompts string) {
		t.Helper()
		version++
		data := filepath.Join(volume, fmt.Sprintf("..v%d", version))
		if err := os.Mkdir(data, 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"exporter.yml": text, "prompts.jsonl": prompts} {
			if err := os.WriteFile(filepath.Join(data, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Symlink(filepath.Base(data), filepath.Join(volume, "..next")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(volume, "..next"), filepath.Join(volume, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	config := func(name string) string {
		return fmt.Sprintf(`
global: {interval: 50ms}
modules: {own: {prompts_file: prompts.jsonl, output_tokens: 2}}
endpoints: [{name: %s, url: %q, api: openai-chat, model: simulated-8b, modules: [own]}]
`, name, server)
	}
	update(config("first"), `{"prompt": "one"}`)
	for _, name := range []string{"exporter.yml", "prompts.jsonl"} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(volume, name)); err != nil {
			t.Fatal(err)
		}
	}
	p := start(t, "--web.listen-address=127.0.0.1:0", "--config.auto-reload-interval=10ms", "--config.file="+filepath.Join(volume, "exporter.yml"))
	at := func(got metricsPage) float64 {
		return got.Sum("inference_exporter_config_last_reload_success_timestamp_seconds")
	}
	ok := func(got metricsPage) bool { return got.Sum("inference_exporter_config_last_reload_successful") == 1 }
	has := func(name string) func(got metricsPage) bool {
		return func(got metricsPage) bool { return ok(got) && got.Has("inference_endpoint_info", "endpoint", name) }
	}
	p.waitFor("the first endpoint", has("first"))
	update(config("second"), `{"prompt": "one"}`)
	p.waitFor("an update", has("second"))

	update("endpoints: [{name: half", `{"prompt": "one"}`)
	got, _ := p.waitFor("a bad file", func(got metricsPage) bool { return !ok(got) })
	if !got.Has("inference_endpoint_info", "endpoint", "second") {
		t.Error("a bad file ends what was active")
	}
	update(config("second"), `{"prompt": "one"}`)
	p.waitFor("the good file again", has("second"))

	update(config("second"), `{"prompt"`)
	p.waitFor("a bad file of prompts", func(got metricsPage) bool { return !ok(got) })
	file := filepath.Join(volume, "exporter.yml") // alone: of two that go, the second may go while the first is read
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	p.waitFor("no file", func(metricsPage) bool { return strings.Contains(p.stderr.String(), "no such file") })
	update(config("second"), `{"prompt": "one"}`)
	if err := os.Symlink(filepath.Join("..data", "exporter.yml"), file); err != nil {
		t.Fatal(err)
	}
	before, _ := p.waitFor("all files", has("second"))
	update(config("second"), `{"prompt": "two"}`)
	p.waitFor("other prompts", func(got metricsPage) bool { return has("second")(got) && at(got) > at(before) })

	for text, want := range map[string]int{"reloading the configuration failed": 3, "configuration reloaded": 4} {
		if n := len(p.stderr.lines(text)); n != want {
			t.Errorf("%q is logged %d times, want %d:\n%s", text, n, want, p.stderr)
		}
	}
}

// An invalid configuration leaves the previous one active.
func TestReloadRefused(t *testing.T) {
	t.Parallel()
	server := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	good := fmt.Sprintf("%sendpoints: [{name: good, url: %q, api: openai-chat, model: simulated-8b}]\n", reloadModules, server)
	r := startReloading(t, good)
	f := func(text, want string) {
		t.Helper()
		status, body := r.reload(text)
		if status != http.StatusInternalServerError || !strings.Contains(body, want) {
			t.Errorf("status %d, %q; want %d with %q", status, body, http.StatusInternalServerError, want)
		}
		_, raw := r.get("/metrics")
		got := testlab.ParsePage(t, raw)
		if got.Sum("inference_exporter_config_last_reload_successful") != 0 {
			t.Error("the page does not report the refusal")
		}
		before := got.Sum("inference_probe_results_total", "endpoint", "good")
		r.waitFor("further probes", func(got metricsPage) bool {
			return got.Sum("inference_probe_results_total", "endpoint", "good") > before
		})
		_, info := r.get("/api/v1/self")
		if !strings.Contains(string(info), want) {
			t.Errorf("the self page does not say why: %s", info)
		}
	}
	f("endpoints: [", "not valid YAML")
	f(good+"surprise: 1\n", "unknown key")
	f(reloadModules+"endpoints: [{name: good, url: http://127.0.0.1:1, servers: {engine: steam}}]", "unknown engine")
	f(reloadModules+"endpoints: [{name: good, url: http://127.0.0.1:1, api: tei, modules: [canary]}]", "unknown module")
	if err := os.Remove(r.file); err != nil {
		t.Fatal(err)
	}
	if status, body := r.post("/-/reload"); status != http.StatusInternalServerError || !strings.Contains(body, "exporter.yml") {
		t.Errorf("without the file: status %d, %q", status, body)
	}
	if status, body := r.reload(good); status != http.StatusOK {
		t.Errorf("the good one again: status %d, %q", status, body)
	}
	if _, raw := r.get("/metrics"); testlab.ParsePage(t, raw).Sum("inference_exporter_config_last_reload_successful") != 1 {
		t.Error("the page does not report that the reload succeeded")
	}
}

func TestReloadNeedsTheFlag(t *testing.T) {
	t.Parallel()
	p := startIdle(t, "endpoints: [{url: http://127.0.0.1:1}]")
	if status, body := p.post("/-/reload"); status != http.StatusForbidden || !strings.Contains(body, "--web.enable-lifecycle") {
		t.Errorf("status %d, %q", status, body)
	}
	r := startReloading(t, "endpoints: [{url: http://127.0.0.1:1}]")
	if status, _ := r.post("/-/reload", "Sec-Fetch-Site", "cross-site"); status != http.StatusForbidden {
		t.Errorf("another site's page reloads: status %d", status)
	}
	if status, _ := r.post("/-/reload", "Origin", "https://evil.example"); status != http.StatusForbidden {
		t.Errorf("another origin's page reloads: status %d", status)
	}
	if resp, _ := r.get("/-/reload"); resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: status %d", resp.StatusCode)
	}
}

// Everything that the file can say may change while the program runs.
func TestReloadChangesEverything(t *testing.T) {
	t.Parallel()
	server := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	received := make(chan struct{}, 1)
	receiver := testlab.Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case received <- struct{}{}:
		default:
		}
	}))
	endpoint := fmt.Sprintf("endpoints: [{name: good, url: %q, api: openai-chat, model: simulated-8b}]\n", server)
	r := startReloading(t, reloadModules+endpoint)
	r.waitFor("a probe", func(got metricsPage) bool { return got.Sum("inference_probe_results_total", "outcome", "success") > 0 })
	if status, body := r.reload(reloadModules + "tracing: {otlp_endpoint: " + receiver + "}\nprobe: {allow: ['127.0.0.1']}\n" + endpoint); status != http.StatusOK {
		t.Fatalf("status %d: %s", status, body)
	}
	select {
	case <-received:
	case <-time.After(patience):
		t.Error("no trace since the reload")
	}
	if status, _ := r.probePage("target", server+"/v1", "api", "openai-chat", "model", "simulated-8b"); status != http.StatusOK {
		t.Errorf("a host that is allowed since the reload: status %d", status)
	}
	if status, body := r.reload(strings.Replace(reloadModules, "global: {", "global: {budget: {tokens_per_hour: 200}, ", 1) + endpoint); status != http.StatusOK {
		t.Fatalf("status %d: %s", status, body)
	}
	if status, _ := r.probePage("target", "http://127.0.0.1:1"); status != http.StatusForbidden {
		t.Errorf("a host that is no longer allowed: status %d", status)
	}
	r.waitFor("the budget to be used up", func(got metricsPage) bool {
		return got.Sum("inference_exporter_missed_runs_total", "reason", "budget") > 0 &&
			!got.Has("inference_exporter_spans_dropped_total")
	})
}

// Reloads leave nothing behind: a thousand in make hostile, 50 otherwise.
func TestThousandReloads(t *testing.T) {
	t.Parallel() // in a process of its own
	first, last := 100, 1100
	if os.Getenv("INFERENCE_EXPORTER_HOSTILE") == "" {
		first, last = 25, 75
	}
	server := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
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
	// comes and goes. Series are those of endpoints that are gone.
	type left struct{ goroutines, heap, series float64 }
	rounds := func(from, to int) left {
		t.Helper()
		for i := from; i < to; i++ {
			reload(i)
		}
		reload(0)
		var least left
		looks := 0
		p.waitFor("the probes to end, several times", func(got metricsPage) bool {
			if got.Sum("inference_exporter_probes_in_flight") > 0 {
				return false
			}
			now := left{goroutines: got.Sum("go_goroutines"), heap: got.Sum("go_memstats_heap_alloc_bytes") / 1e6}
			for _, f := range got {
				for _, m := range f.GetMetric() {
					for j := 5; j < 11; j++ {
						if testlab.HasLabels(m, []string{"endpoint", fmt.Sprint("e", j)}) {
							now.series++
						}
					}
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
	before := rounds(1, first)
	after := rounds(first, last)
	t.Logf("after %d reloads %+v, after %d %+v", first, before, last, after)
	if after.goroutines > before.goroutines+10 || after.heap > before.heap+5 || after.series > 0 {
		t.Errorf("after %d reloads %+v, after %d %+v", first, before, last, after)
	}
}

// A reload that changes where endpoints are found takes none of them away that is
// still found.
func TestReloadKeepsWhatIsStillFound(t *testing.T) {
	t.Parallel()
	server := strings.TrimPrefix(testlab.Serve(t, simulator.New(testlab.Quick()).Handler()), "http://")
	target := func(name string) string {
		return fmt.Sprintf("{targets: ['%s'], labels: {__endpoint__: %s}}", server, name)
	}
	targets := targetsFile{t, filepath.Join(t.TempDir(), "targets.yml")}
	targets.write("- " + target("in-file"))
	text := func(static, interval string) string {
		return reloadModules + fmt.Sprintf(`
discovery:
  - {model: simulated-8b, api: openai-chat, static_configs: [%s]}
  - {model: simulated-8b, api: openai-chat, file_sd_configs: [{files: [%q], refresh_interval: %s}]}
`, static, targets.name, interval)
	}
	r := startReloading(t, text(target("listed"), "1m"))
	probes := func(got metricsPage, name string) float64 {
		return got.Sum("inference_probe_results_total", "endpoint", name, "outcome", "success")
	}
	first, _ := r.waitFor("20 probes of each", func(got metricsPage) bool { return probes(got, "listed") >= 20 && probes(got, "in-file") >= 20 })

	if status, body := r.reload(text(target("listed")+", "+target("new"), "2m")); status != http.StatusOK {
		t.Fatalf("status %d: %s", status, body)
	}
	_, raw := r.get("/metrics")
	for _, name := range []string{"listed", "in-file"} {
		if got := probes(testlab.ParsePage(t, raw), name); got < probes(first, name) {
			t.Errorf("%s: %v successes before the reload, %v after", name, probes(first, name), got)
		}
	}
	got, _ := r.waitFor("probes of the new one", func(got metricsPage) bool { return probes(got, "new") > 0 })
	for _, name := range []string{"listed", "in-file"} {
		if got := probes(got, name); got < probes(first, name) {
			t.Errorf("%s: %v successes before the reload, %v a while after", name, probes(first, name), got)
		}
	}
	if status, body := r.reload(text(target("new"), "2m")); status != http.StatusOK {
		t.Fatalf("status %d: %s", status, body)
	}
	r.waitFor("the end of what is no longer found", func(got metricsPage) bool {
		return probes(got, "new") > 0 && !got.Has("inference_endpoint_info", "endpoint", "listed")
	})
}

package app

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// detail returns what the API shows of an endpoint.
func (p *program) detail(endpoint string) status.Detail {
	p.t.Helper()
	_, body := p.get("/api/v1/endpoints/" + endpoint)
	var d status.Detail
	if err := json.Unmarshal(body, &d); err != nil {
		p.t.Fatalf("%v: %s", err, body)
	}
	return d
}

const resultsFamily = "inference_probe_results_total"

// The history goes on after a restart, which the page shows; counters begin at 0, as
// Prometheus expects of a process that is new.
func TestHistorySurvivesARestart(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	sim := simulator.New(testlab.Quick()).Handler()
	server := testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		sim.ServeHTTP(w, r)
	}))
	dir := filepath.Join(t.TempDir(), "state")
	file := writeFile(t, "exporter.yml", fmt.Sprintf(`
global: {interval: 50ms}
modules: {interactive: {input_tokens: 16, output_tokens: 2}}
endpoints: [{name: e, url: %q, api: openai-chat, model: simulated-8b}]`, server))
	run := func() *program {
		return start(t, "--web.listen-address=127.0.0.1:0", "--no-collector.gpu", "--no-collector.server", "--config.file="+file, "--state.path="+dir)
	}
	p := run()
	got, _ := p.waitFor("some probes", func(got metricsPage) bool { return got.Sum(resultsFamily) >= 20 })
	if v := got.Sum("inference_exporter_state_save_failures_total"); !got.Has("inference_exporter_state_save_failures_total") || v != 0 {
		t.Errorf("%v failed saves on the page, want 0", v)
	}
	before := p.detail("e")
	if code := p.stop(); code != 0 {
		t.Fatalf("exit code %d: %s", code, p.stderr)
	}
	asked.Store(0)
	p = run()
	got, _ = p.waitFor("a probe", func(got metricsPage) bool { return got.Sum(resultsFamily) > 0 })
	if n, since := got.Sum(resultsFamily), asked.Load(); n > float64(since) {
		t.Errorf("the counter went on, at %v after %d requests", n, since)
	}
	after := p.detail("e")
	was, is := before.Series[0].History, after.Series[0].History
	if len(is.At) <= len(was.At) || fmt.Sprint(is.At[:len(was.At)]) != fmt.Sprint(was.At) {
		t.Errorf("the history was\n%v\nand is\n%v", was.At, is.At)
	}
	if is.From >= was.At[0]+1 || len(after.Restarts) != 1 || len(before.Restarts) != 0 {
		t.Errorf("kept since %v, restarts %v, before %v", is.From, after.Restarts, before.Restarts)
	}
	texts := fmt.Sprint(after.Changes)
	if strings.Count(texts, "exporter restarted") != 1 {
		t.Errorf("changes %s", texts)
	}
}

// An outage goes on over a restart, since when it began, and so does a mute.
func TestOutageAndMuteSurviveARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := writeFile(t, "exporter.yml", `
global: {interval: 100ms}
modules: {interactive: {input_tokens: 16, output_tokens: 2}}
endpoints: [{name: a/b, url: "http://127.0.0.1:9", api: openai-chat, model: m}]`)
	run := func() *program {
		return start(t, "--web.listen-address=127.0.0.1:0", "--no-collector.gpu", "--no-collector.server", "--web.enable-lifecycle",
			"--config.file="+file, "--state.path="+dir)
	}
	p := run()
	p.waitFor("the outage", func(got metricsPage) bool { return got.Sum("inference_endpoint_state", "state", "down") == 1 })
	before := p.detail("a%2Fb")
	if want := "connection refused: 127.0.0.1:9 (interactive)"; before.Why != want {
		t.Errorf("why %q, want %q", before.Why, want)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.base+"/api/v1/endpoints/a%2Fb/mute",
		strings.NewReader(`{"minutes": 60, "reason": "new driver"}`))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := p.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Body.Close(); resp.StatusCode != http.StatusNoContent {
		t.Fatalf("mute: status %d", resp.StatusCode)
	}
	if code := p.stop(); code != 0 {
		t.Fatalf("exit code %d: %s", code, p.stderr)
	}
	p = run()
	got, _ := p.waitFor("the first page", func(metricsPage) bool { return true })
	if got.Sum("inference_endpoint_state", "state", "muted") != 1 || got.Sum("inference_endpoint_muted") != 1 {
		t.Errorf("states %v", got["inference_endpoint_state"])
	}
	after := p.detail("a%2Fb")
	if m := after.Muted; m == nil || m.State != health.Down || m.Since != before.Since || m.Reason != "new driver" || after.FailedSince < before.FailedSince {
		t.Errorf("muted %+v, %d failed; before since %v, %d failed", m, after.FailedSince, before.Since, before.FailedSince)
	}
}

// Where the state goes: what systemd or the user's session says, unless the flag does.
func TestStateDirectory(t *testing.T) {
	for _, tc := range []struct {
		path                     string
		given                    bool
		systemd, xdg, home, want string
	}{
		{want: ""},
		{home: "/home/me", want: "/home/me/.local/state/inference_exporter"},
		{home: "/", want: ""},
		{xdg: "/xdg", home: "/home/me", want: "/xdg/inference_exporter"},
		{xdg: "relative", home: "/home/me", want: "/home/me/.local/state/inference_exporter"},
		{systemd: "/var/lib/x", xdg: "/xdg", home: "/home/me", want: "/var/lib/x"},
		{systemd: "/var/lib/x:/var/lib/y", want: "/var/lib/x"},
		{path: "/there", given: true, systemd: "/var/lib/x", want: "/there"},
		{given: true, systemd: "/var/lib/x", home: "/home/me", want: ""},
	} {
		t.Setenv("STATE_DIRECTORY", tc.systemd)
		t.Setenv("XDG_STATE_HOME", tc.xdg)
		t.Setenv("HOME", tc.home)
		f := stateFlag{path: tc.path, given: tc.given}
		if got := f.dir(); got != tc.want {
			t.Errorf("%+v: got %q", tc, got)
		}
	}
}

// The exporter runs where it can keep nothing, with one line of the log; the demo
// and an exporter of GPUs alone never try.
func TestStateThatCannotBeKept(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := start(t, "--web.listen-address=127.0.0.1:0", "--no-collector.gpu", "--endpoint=http://127.0.0.1:1", "--state.path="+file)
	if lines := p.stderr.lines("no state is kept"); len(lines) != 1 {
		t.Errorf("logged %q", lines)
	}
	t.Setenv("STATE_DIRECTORY", filepath.Join(t.TempDir(), "untouched"))
	start(t, "--web.listen-address=127.0.0.1:0", "--no-collector.probe", "--no-collector.server", "--collector.gpu")
	start(t, "demo", "--web.listen-address=127.0.0.1:0")
	if _, err := os.Stat(os.Getenv("STATE_DIRECTORY")); !os.IsNotExist(err) {
		t.Errorf("a state was begun: %v", err)
	}
}

// savedTokens returns what the latest save of the budgets in a directory has for an endpoint.
func savedTokens(t *testing.T, dir, endpoint string) (saved float64) {
	t.Helper()
	file, err := os.Open(filepath.Join(dir, "state.jsonl.zst"))
	if err != nil {
		return 0
	}
	defer file.Close()
	text, err := zstd.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	sum := 0.0
	for lines := bufio.NewScanner(text); lines.Scan(); {
		var record struct {
			Format, Part string
			End          bool
			Of, Endpoint string
			Tokens       [][2]float64
		}
		_ = json.Unmarshal(lines.Bytes(), &record) // records of other parts have other types
		switch {
		case record.Format != "" && record.End && record.Part == "budgets":
			saved = sum
		case record.Format != "":
			sum = 0
		}
		if record.Of == "endpoint" && record.Endpoint == endpoint {
			for _, step := range record.Tokens {
				sum += step[1]
			}
		}
	}
	return saved
}

// A process that is killed again and again has one budget, not one for each time.
func TestBudgetSurvivesAKill(t *testing.T) {
	t.Parallel()
	const budget = 3000
	w := testlab.NewWitness(t, testlab.Swift())
	dir := t.TempDir()
	file := writeFile(t, "exporter.yml", fmt.Sprintf(`
global: {interval: 100ms}
modules: {interactive: {input_tokens: 50, output_tokens: 10}}
endpoints: [{name: e, url: %q, api: openai-chat, budget: {tokens_per_hour: %d}}]`, w.URL, budget))
	run := func() *process {
		return launch(t, "--web.listen-address=127.0.0.1:0", "--no-collector.gpu", "--no-collector.server", "--config.file="+file, "--state.path="+dir)
	}
	usedUp := func(got metricsPage) bool { return got.Sum(skippedFamily, "reason", "budget") > 1 }
	p := run()
	p.waitFor("a budget that is used up", usedUp)
	spent := w.Tokens()
	p.waitFor("it to be saved", func(metricsPage) bool { return savedTokens(t, dir, "e") == float64(spent) })
	p.kill()
	for range 2 {
		p = run()
		got := p.waitFor("runs that are left out", usedUp)
		if used := got.Sum("inference_endpoint_budget_used_ratio", "resource", "tokens"); used != float64(spent)/budget {
			t.Errorf("%v of the budget is used, want %v", used, float64(spent)/budget)
		}
		p.kill()
	}
	if more := w.Tokens() - spent; more > 0 {
		t.Errorf("%d tokens were spent, and %d more after restarts, of a budget of %d", spent, more, budget)
	}
}

// An outage and a mute go on over a restart: since the first failed probe, with the
// probes of both processes.
func TestStateSurvivesARestart(t *testing.T) {
	t.Parallel()
	server := testlab.Serve(t, http.NotFoundHandler())
	dir := t.TempDir()
	file := writeFile(t, "exporter.yml", fmt.Sprintf(`
global: {interval: 50ms}
modules: {interactive: {input_tokens: 16, output_tokens: 2}}
endpoints: [{name: e, url: %q, api: openai-chat, model: m}]`, server))
	run := func() *program {
		return start(t, "--web.listen-address=127.0.0.1:0", "--no-collector.gpu", "--no-collector.server", "--web.enable-lifecycle",
			"--config.file="+file, "--state.path="+dir)
	}
	isDown := func(got metricsPage) bool { return got.Sum("inference_endpoint_state", "state", "down") == 1 }
	p := run()
	p.waitFor("an endpoint that is down", isDown)
	before := p.detail("e")
	p.stop()

	p = run()
	got, _ := p.waitFor("a probe of the next process", func(got metricsPage) bool { return got.Sum(resultsFamily) > 0 })
	if !isDown(got) {
		t.Error("no longer down")
	}
	after := p.detail("e")
	if after.State != "down" || after.Since != before.Since || after.FailedSince <= before.FailedSince {
		t.Errorf("%s since %v with %d failures, and before %v with %d", after.State, after.Since, after.FailedSince, before.Since, before.FailedSince)
	}
	mute := func(method, body string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, p.base+"/api/v1/endpoints/e/mute", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := p.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.StatusCode/100 != 2 {
			t.Errorf("%s: %s", method, response.Status)
		}
	}
	mute(http.MethodPost, `{"minutes": 60, "reason": "moved to another rack"}`)
	p.stop()

	p = run()
	muted := p.detail("e")
	if muted.State != "muted" || muted.Muted == nil || muted.Muted.Reason != "moved to another rack" || muted.Muted.State != "down" {
		t.Errorf("%s, %+v", muted.State, muted.Muted)
	}
	mute(http.MethodDelete, "")
	p.stop()
	p = run()
	if again := p.detail("e"); again.State != "down" || again.Since != before.Since || again.Muted != nil || len(again.Restarts) != 3 {
		t.Errorf("%s since %v, muted %+v, restarts %v", again.State, again.Since, again.Muted, again.Restarts)
	}
}

package discovery

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
)

// write puts a file in its place at once.
func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

// counter is the sum over the samples of a counter of Prometheus' own, and how
// many these are.
func (l *lab) counter(name string) (sum float64, series int) {
	l.t.Helper()
	families, err := l.registry.Gather()
	if err != nil {
		l.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue()
				series++
			}
		}
	}
	return sum, series
}

// wantFailures checks that failures are counted under these names.
func (l *lab) wantFailures(names ...string) {
	l.t.Helper()
	for _, name := range names {
		if sum, _ := l.counter(name); sum == 0 {
			l.t.Errorf("%s is 0, or not there", name)
		}
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a.yml")
	write(t, name, "- targets: [a, b]\n  labels: {team: x}\n")
	l := newLab(t, parse(t, dir, "discovery: [{file_sd_configs: [{files: ['*.yml', '*.json']}]}]"))
	l.await("a b")
	if got := l.Endpoints(l.cfg).Endpoints[0].Labels["team"]; got != "x" {
		t.Errorf("label team is %q", got)
	}
	write(t, name, "- targets: [b, c]\n")
	l.await("b c")

	// What is no list changes nothing.
	write(t, name, "- targets: [d, e")
	l.awaitLog("Error reading file")
	l.await("b c")
	l.wantFailures("prometheus_sd_file_read_errors_total")
	write(t, filepath.Join(dir, "b.json"), `[{"targets": ["f"]}]`)
	l.await("b c f")
	// Nor does a JSON file that is emptied and then written in part.
	if err := os.WriteFile(filepath.Join(dir, "b.json"), []byte(`[{"targets": ["g"`), 0o600); err != nil {
		t.Fatal(err)
	}
	l.awaitLog("Error reading file")
	l.await("b c f")
	write(t, name, "- targets: [d, e]\n")
	l.await("d e f")
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	l.await("f")
	write(t, name, "- targets: [d]\n") // back again
	l.await("d f")
}

func TestHTTP(t *testing.T) {
	const good = `[{"targets": ["a:8000"], "labels": {"__model__": "m", "team": "x"}}]`
	answers := map[string]func(http.ResponseWriter){
		"error":   func(w http.ResponseWriter) { w.WriteHeader(http.StatusInternalServerError) },
		"no JSON": func(w http.ResponseWriter) { fmt.Fprint(w, `[{"targets": ["b"`) },
		"page":    func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/html"); fmt.Fprint(w, good) },
		"null":    func(w http.ResponseWriter) { fmt.Fprint(w, `[null]`) },
		"nothing": func(w http.ResponseWriter) { fmt.Fprint(w, `[]`) },
		"good":    func(w http.ResponseWriter) { fmt.Fprint(w, good) },
	}
	var answer atomic.Value
	answer.Store("error")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "ann" || password != "secret-word" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		answers[answer.Load().(string)](w)
	}))
	defer server.Close()
	text := fmt.Sprintf("discovery: [{http_sd_configs: [{url: '%s/targets', refresh_interval: 100ms, basic_auth: {username: ann, password: secret-word}}]}]", server.URL)
	l := newLab(t, parse(t, "", text))

	l.awaitLog("Unable to refresh target groups")
	if got := l.Endpoints(l.cfg); got.Waiting != 1 || len(got.Endpoints) != 0 {
		t.Errorf("it failed from the start: %d wait, %d endpoints", got.Waiting, len(got.Endpoints))
	}
	answer.Store("good")
	l.await("a:8000")
	e := l.Endpoints(l.cfg).Endpoints[0]
	if e.Model != "m" || e.Labels["team"] != "x" {
		t.Errorf("got %v", e)
	}
	for _, name := range []string{"error", "no JSON", "page", "null"} {
		answer.Store(name)
		l.log.take("")
		l.awaitLog("Unable to refresh target groups")
		l.awaitLog("Unable to refresh target groups") // the first may be of the answer before
		if got := l.Endpoints(l.cfg); len(got.Endpoints) != 1 || got.Endpoints[0] != e {
			t.Errorf("%s: got %d endpoints", name, len(got.Endpoints))
		}
	}
	l.wantFailures("prometheus_sd_http_failures_total", "prometheus_sd_refresh_failures_total")

	l.apply(parse(t, "", text)) // a reload of the same
	if got := l.Endpoints(l.cfg); got.Waiting != 0 || len(got.Endpoints) != 1 || got.Endpoints[0] != e {
		t.Errorf("after a reload: %d wait, %d endpoints", got.Waiting, len(got.Endpoints))
	}
	l.apply(parse(t, "", strings.Replace(text, "secret-word", "secret-world", 1)))
	if got := l.Endpoints(l.cfg); got.Waiting != 1 || len(got.Endpoints) != 1 || got.Endpoints[0] != e {
		t.Errorf("with another password: %d wait, %d endpoints", got.Waiting, len(got.Endpoints))
	}
	l.apply(parse(t, "", text))
	answer.Store("good")
	l.await("a:8000")
	answer.Store("nothing")
	l.await("")
}

// TestMetrics checks that the series of a removed source are removed, and that
// sources have different names.
func TestMetrics(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `[]`)
	}))
	defer server.Close()
	source := func(password string) string {
		return fmt.Sprintf("- http_sd_configs: [{url: '%s', basic_auth: {username: a, password: %s}}]\n", server.URL, password)
	}
	l := newLab(t, parse(t, "", "discovery:\n"+source("a")+source("b")))
	l.await("")
	wantSeries := func(want int) {
		t.Helper()
		if _, n := l.counter("prometheus_sd_refresh_failures_total"); n != want {
			t.Errorf("%d series of %d sources", n, want)
		}
	}
	wantSeries(2)
	l.apply(parse(t, "", "discovery:\n"+source("b")))
	wantSeries(1)
}

// repeated writes a text again and again until the client has enough.
func repeated(w io.Writer, begin, text string) {
	_, _ = io.WriteString(w, begin)
	chunk := []byte(strings.Repeat(text, 1<<10))
	for {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// TestHTTPLimits asks a server that answers with more than is taken in: what was
// found before stays, and each refusal is counted and logged.
func TestHTTPLimits(t *testing.T) {
	many := func(n int) string {
		return `[{"targets": ["a` + strings.Repeat(`", "a`, n-1) + `"]}]`
	}
	answers := map[string]func(http.ResponseWriter){
		"good":     func(w http.ResponseWriter) { fmt.Fprint(w, `[{"targets": ["a"]}]`) },
		"body":     func(w http.ResponseWriter) { repeated(w, "[", `{"targets": []},`) },
		"blanks":   func(w http.ResponseWriter) { repeated(w, "", " ") },
		"nested":   func(w http.ResponseWriter) { repeated(w, "", "[") },
		"length":   func(w http.ResponseWriter) { w.Header().Set("Content-Length", "1073741824"); fmt.Fprint(w, "[") },
		"targets":  func(w http.ResponseWriter) { fmt.Fprint(w, many(60_000)) },
		"one over": func(w http.ResponseWriter) { fmt.Fprint(w, many(101)) },
		"groups": func(w http.ResponseWriter) {
			fmt.Fprint(w, "["+strings.Repeat(`{"targets": []},`, 101)+`{"targets": []}]`)
		},
		"values":     func(w http.ResponseWriter) { fmt.Fprint(w, "["+strings.Repeat("1,", 150_000)+"1]") },
		"two lists":  func(w http.ResponseWriter) { fmt.Fprint(w, `[] []`) },
		"no list":    func(w http.ResponseWriter) { fmt.Fprint(w, `{"targets": ["a"]}`) },
		"controls":   func(w http.ResponseWriter) { fmt.Fprint(w, "[{\"\\u001b[31mx\\n\": 1}]") },
		"long error": func(w http.ResponseWriter) { fmt.Fprint(w, `[{"`+strings.Repeat("x", 10_000)+`": 1}]`) },
		"redirect": func(w http.ResponseWriter) {
			w.Header().Set("Location", "http://127.0.0.1:1/?secret-word")
			w.WriteHeader(302)
		},
	}
	var answer atomic.Value
	answer.Store("good")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		answers[answer.Load().(string)](w)
	}))
	defer server.Close()
	l := newLab(t, parse(t, "", fmt.Sprintf(`
global: {limits: {discovery_targets: 100, discovery_bytes: 512KiB}}
discovery: [{http_sd_configs: [{url: '%s/?zone=secret-word', refresh_interval: 100ms}]}]`, server.URL)))
	l.await("a")
	for name, want := range map[string]string{
		"body": "more than 512KiB; see global.limits.discovery_bytes", "blanks": "more than 512KiB", "nested": "more than 512KiB",
		"length": "unexpected EOF", "targets": "more than 100 targets; see global.limits.discovery_targets", "one over": "more than 100 targets",
		"groups": "more than 100 groups", "values": "more than 103200 values", "two lists": "unexpected data after the list", "no list": "want a list",
		"controls": "unknown field", "long error": "unknown field", "redirect": "ask 127.0.0.1:",
	} {
		answer.Store(name)
		l.log.take("")
		l.awaitLog(want)
		lines := l.log.take("")
		for _, line := range lines {
			if len(line) > 1000 || strings.ContainsAny(line, "\x1b") || strings.Contains(line, "secret-word") {
				t.Errorf("%s: logged %d bytes: %.200q", name, len(line), line)
			}
		}
		if got := l.names(); got != "a" {
			t.Errorf("%s: got %q, want what was there before", name, got)
		}
	}
	l.wantFailures("prometheus_sd_http_failures_total", "prometheus_sd_refresh_failures_total")
	answer.Store("good")
	l.await("a")
}

// TestFileLimits reads files of which more is there than is taken in.
func TestFileLimits(t *testing.T) {
	dir := t.TempDir()
	name := func(s string) string { return filepath.Join(dir, s) }
	write(t, name("a.yml"), "- targets: [a]\n")
	l := newLab(t, parse(t, dir, `
global: {limits: {discovery_targets: 100, discovery_bytes: 64KiB}}
discovery: [{file_sd_configs: [{files: ['*.yml', '*.json']}]}]`))
	l.await("a")
	f := func(what, want string, put func()) {
		t.Helper()
		l.log.take("")
		put()
		l.awaitLog(want)
		if got := l.names(); got != "a" {
			t.Errorf("%s: got %q, want what was there before", what, got)
		}
	}
	f("long", "more than 64KiB; see global.limits.discovery_bytes", func() { write(t, name("a.yml"), "# "+strings.Repeat("x", 1<<16)) })
	f("targets", "more than 100 targets; see global.limits.discovery_targets", func() {
		write(t, name("a.yml"), "- targets: ["+strings.Repeat("b, ", 101)+"]\n")
	})
	f("endless", "not a regular file", func() {
		if err := os.Symlink("/dev/zero", name("zero.json")); err != nil {
			t.Fatal(err)
		}
	})
	f("pipe", "not a regular file", func() {
		if err := syscall.Mkfifo(name("pipe.json"), 0o600); err != nil {
			t.Fatal(err)
		}
	})
	f("aliases", "path="+name("aliases.yml"), func() {
		text := "- &a {targets: [x, x, x, x, x, x, x, x, x, x]}\n- targets: &b0 [x, x, x, x, x, x, x, x, x, x]\n"
		for i := range 12 {
			text += fmt.Sprintf("- &b%d [%s*b%d]\n", i+1, strings.Repeat(fmt.Sprintf("*b%d, ", i), 9), i)
		}
		write(t, name("aliases.yml"), text)
	})
	l.wantFailures("prometheus_sd_file_read_errors_total")
	write(t, name("a.yml"), "- targets: [c]\n")
	l.await("c")
}

// TestLabelsOfAList bounds the labels that a group gives to each of its targets.
func TestLabelsOfAList(t *testing.T) {
	text := func(targets int) []byte {
		return []byte(`[{"targets": ["a` + strings.Repeat(`", "a`, targets-1) + `"], "labels": {"l": "` + strings.Repeat("x", 1<<20-1) + `"}}]`)
	}
	f := func(targets int, want string) {
		t.Helper()
		l := list{place: "p", label: model.MetaLabelPrefix + "p", limits: config.Limits{DiscoveryTargets: 1000}}
		_, err := l.parse(text(targets), false)
		if got := fmt.Sprint(err); got != want {
			t.Errorf("%d targets: %s, want %s", targets, got, want)
		}
	}
	f(64, "<nil>")
	f(65, "labels of more than 64 MiB for all targets together")
}

// FuzzList reads lists of targets of others: whatever they are, they stay within the limits.
func FuzzList(f *testing.F) {
	f.Add([]byte(`[{"targets": ["h:8000", "h:8001"], "labels": {"zone": "a"}}, {"targets": []}]`), false)
	f.Add([]byte("- targets: [h:8000]\n  labels: {zone: a}\n"), true)
	f.Add([]byte("- &a {targets: [h]}\n- *a\n- null\n"), true)
	f.Add([]byte(`[{"targets": null}] x`), false)
	f.Fuzz(func(t *testing.T, text []byte, isYAML bool) {
		const most = 20
		l := list{place: "p", label: model.MetaLabelPrefix + "p", limits: config.Limits{DiscoveryTargets: most}}
		groups, err := l.parse(text, isYAML)
		if err != nil {
			return
		}
		targets := 0
		for _, g := range groups {
			targets += len(g.Targets)
			if g.Source == "" || g.Labels[l.label] != "p" {
				t.Errorf("a group without its place: %v", g)
			}
		}
		if targets > most || len(groups) > most {
			t.Errorf("%d groups of %d targets", len(groups), targets)
		}
	})
}

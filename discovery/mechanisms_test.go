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
	"testing"
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

// TestMetrics checks that a source that goes takes its series with it, and that
// the names of the sources are told apart.
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

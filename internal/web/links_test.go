package web

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/fleet"
)

func TestLinks(t *testing.T) {
	s := newSiteWith(t, func(o *Options) {
		everything(o)
		o.Links = Links{Runbooks: "https://runbooks.example/a/b", Grafana: "http://grafana/", Prometheus: `https://prometheus.example/"><script>`, Trace: "https://jaeger.example/trace/{trace_id}?x=1"}
	})
	defer s.Close()
	page := readAll(t, s.ask(http.MethodGet, "/endpoint/e").Body)
	for _, want := range []string{
		`data-runbooks="https://runbooks.example/a/b/"`, `data-grafana="http://grafana/"`,
		`data-prometheus="https://prometheus.example/&#34;&gt;&lt;script&gt;/"`, `data-traces="https://jaeger.example/trace/{trace_id}?x=1"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("%s is missing in\n%s", want, page)
		}
	}
	s = newSiteWith(t, everything)
	defer s.Close()
	if page := readAll(t, s.ask(http.MethodGet, "/").Body); strings.Contains(page, "data-grafana") || strings.Contains(page, "data-runbooks") {
		t.Errorf("links without addresses:\n%s", page)
	}
}

// The pages offer what a reader may do, and nothing else.
func TestActionsOfThePages(t *testing.T) {
	for _, c := range []struct{ probe, mute bool }{{false, false}, {true, false}, {false, true}} {
		s := newSiteWith(t, everything, func(o *Options) {
			o.Probe, o.Muter = nil, nil
			if c.probe {
				o.Probe = func(context.Context, fleet.ProbeRequest) (*fleet.ProbeAnswer, error) { return answer(), nil }
			}
			if c.mute {
				o.Muter = &muter{}
			}
		})
		page := readAll(t, s.ask(http.MethodGet, "/").Body)
		s.Close()
		if got := strings.Contains(page, " data-probe"); got != c.probe {
			t.Errorf("%+v: offers probes: %t", c, got)
		}
		if got := strings.Contains(page, " data-mute"); got != c.mute {
			t.Errorf("%+v: offers mutes: %t", c, got)
		}
	}
}

func TestBadLinks(t *testing.T) {
	for _, c := range []struct {
		links Links
		want  string
	}{
		{Links{Runbooks: "javascript:alert(1)"}, `address of the runbooks "javascript:alert(1)": want a URL like https://host/path`},
		{Links{Grafana: "grafana:3000"}, `address of the Grafana "grafana:3000": want a URL like https://host/path`},
		{Links{Grafana: "https:///d"}, `address of the Grafana "https:///d": want a URL like https://host/path`},
		{Links{Prometheus: "http://prometheus:9090/graph?x=1"}, `address of the Prometheus "http://prometheus:9090/graph?x=1": want one without a query`},
		{Links{Trace: "https://jaeger/trace/"}, `address of the traces "https://jaeger/trace/": {trace_id} is missing`},
	} {
		if _, err := c.links.normalize(); err == nil || err.Error() != c.want {
			t.Errorf("%+v: error %v, want %s", c.links, err, c.want)
		}
	}
}

// The pages link to runbooks by their names.
func TestRunbooksOfThePages(t *testing.T) {
	script, err := assets.ReadFile("assets/links.js")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`'Inference\w+'`).FindAllString(string(script), -1)
	if len(names) < 5 {
		t.Fatalf("runbooks %q, want those of the states", names)
	}
	for _, name := range names {
		name = strings.Trim(name, "'")
		if _, err := os.Stat(filepath.Join("..", "..", "docs", "runbooks", name+".md")); err != nil {
			t.Errorf("runbook %s: %v", name, err)
		}
	}
}

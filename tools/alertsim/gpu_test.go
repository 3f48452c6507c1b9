package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/inference-exporter/inference_exporter/alerts"
	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/gpu/pages"
)

// TestGPUsOfPages evaluates the rules and the board of GPUs over the page of each exporter
// of GPUs that is known: they have no error, no two series of a panel have the same name,
// and the alerts are those of the faults that the page shows.
func TestGPUsOfPages(t *testing.T) {
	const minutes = 30
	files, err := filepath.Glob("../../gpu/pages/testdata/*.txt")
	if err != nil || len(files) < 7 {
		t.Fatalf("pages: %v, %v", files, err)
	}
	file, err := alerts.Marshal(alerts.Alerts(alerts.Default()))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := parseRules(file)
	if err != nil {
		t.Fatal(err)
	}
	rules = slices.DeleteFunc(rules, func(r rule) bool { return !strings.HasPrefix(r.name, "InferenceGPU") })
	// The faults that the pages show: an XID and a reason of heat, and rows that wait for a reset.
	faults := map[string][]string{
		"dcgm-exporter-mig.txt": {"InferenceGPUThrottled", "InferenceGPUXID"},
		"intel-gaudi.txt":       {"InferenceGPURowRemapPending"},
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			s := newStore()
			for _, m := range gather(t, name) {
				with := make(samples, 0, minutes*2)
				for i := range int64(minutes * 2) {
					with = append(with, sample{epoch + i*30_000, m.value})
				}
				s.add(m.labels, with)
			}
			const end = epoch + minutes*60_000
			e := newEvaluator(newEngine(), s, rules, func(int64) int64 { return 0 })
			fired, err := e.advance(t.Context(), epoch, end)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range fired {
				got = append(got, p.alert)
			}
			slices.Sort(got)
			if want := faults[filepath.Base(name)]; !slices.Equal(slices.Compact(got), want) {
				t.Errorf("alerts %v, want %v", got, want)
			}
			if n := askBoard(t, e, end-30_000); n < 5 {
				t.Errorf("%d queries of the board have data", n)
			}
		})
	}
}

// scraped is a series of a page of this exporter.
type scraped struct {
	labels labels.Labels
	value  float64
}

// gather returns what this exporter shows of a page of another one.
func gather(t *testing.T, file string) []scraped {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		http.ServeFile(w, r, file)
	}))
	defer server.Close()
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	rs, err := pages.New(pages.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cards := &config.MetricsPages{Interval: model.Duration(time.Hour), Timeout: model.Duration(time.Minute), URLs: []config.PageURL{{URL: u}}}
	if err := rs.Set(map[string]*config.MetricsPages{"cards": cards}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- rs.Run(ctx) }()
	for begin := time.Now(); rs.Snapshots()[0].State == gpu.StateStarting && time.Since(begin) < time.Minute; {
		time.Sleep(time.Millisecond)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector.NewGPU(rs.Snapshots), collector.NewGPUPages(rs.Statuses))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []scraped
	for _, f := range families {
		for _, m := range f.GetMetric() {
			b := labels.NewScratchBuilder(8)
			b.Add(labels.MetricName, f.GetName())
			b.Add("job", "gpus")
			b.Add("instance", "exporter:9878")
			for _, l := range m.GetLabel() {
				if l.GetValue() != "" {
					b.Add(l.GetName(), l.GetValue())
				}
			}
			b.Sort()
			all = append(all, scraped{b.Labels(), m.GetGauge().GetValue() + m.GetCounter().GetValue()})
		}
	}
	return all
}

// askBoard asks all queries of the board of GPUs and returns how many have data. The names
// that a panel gives to the series of a query differ.
func askBoard(t *testing.T, e *evaluator, at int64) int {
	t.Helper()
	type panel struct {
		Title   string
		Targets []struct{ Expr, LegendFormat string }
		Panels  []json.RawMessage
	}
	var walk func([]json.RawMessage)
	n := 0
	variables := strings.NewReplacer("$__range", "30m", `=~"$job"`, `=~".*"`, `=~"$instance"`, `=~".*"`, `=~"$gpu"`, `=~".*"`)
	walk = func(raw []json.RawMessage) {
		for _, text := range raw {
			var p panel
			if err := json.Unmarshal(text, &p); err != nil {
				t.Fatal(err)
			}
			walk(p.Panels)
			for _, q := range p.Targets {
				found, err := e.query(t.Context(), rule{name: p.Title, expr: variables.Replace(q.Expr), interval: time.Minute}, at, at)
				if err != nil {
					t.Error(err)
				}
				if len(found) > 0 {
					n++
				}
				if q.LegendFormat == "" {
					continue
				}
				names := map[string]bool{}
				for _, s := range found {
					name := regexp.MustCompile(`\{\{(\w+)\}\}`).ReplaceAllStringFunc(q.LegendFormat, func(l string) string { return s.Metric.Get(strings.Trim(l, "{}")) })
					if names[name] {
						t.Errorf("%s: two series have the name %q", p.Title, name)
					}
					names[name] = true
				}
			}
		}
	}
	text, err := os.ReadFile("../../dashboards/gpu.json")
	if err != nil {
		t.Fatal(err)
	}
	var board panel
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	walk(board.Panels)
	return n
}

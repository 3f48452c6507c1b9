package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/util/teststorage"

	"github.com/inference-exporter/inference_exporter/alerts"
	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
	pages "github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// allSets are the options for the default configuration with all sets of rules.
func allSets() alerts.Options {
	o := alerts.Default()
	o.Sets = alerts.Sets()
	return o
}

// TestGPUsOfPages evaluates the rules and the board of GPUs over the page of each exporter
// of GPUs that is known, over the GPUs of NVIDIA's driver and over the files of AMD's: they
// have no error, no two series of a panel have the same name, the alerts are those of the
// faults that the source shows, and the memory that is recorded of an endpoint on these GPUs
// is theirs.
func TestGPUsOfPages(t *testing.T) {
	const minutes = 30
	files, err := filepath.Glob("../../../internal/page/testdata/pages/accelerators/*.txt")
	if err != nil || len(files) < 7 {
		t.Fatalf("pages: %v, %v", files, err)
	}
	// The faults that the pages show: an XID and a reason of heat, caches that fail, and rows that wait for a reset. A power limit that is as
	// low all the time is none.
	faults := map[string][]string{
		"dcgm-exporter-health.txt": {"InferenceGPUReplacementDue"},
		"dcgm-exporter-mig.txt":    {"InferenceGPUThrottled", "InferenceGPUXID"},
		"intel-gaudi.txt":          {"InferenceGPURowRemapPending"},
	}
	sources := map[string]func(*testing.T) []prometheus.Collector{
		"nvml": func(t *testing.T) []prometheus.Collector {
			return polled(t, func(o gpu.Options) *gpu.Poller { return gpu.New(gpu.Simulated(), o) })
		},
	}
	for _, name := range files {
		sources[filepath.Base(name)] = func(t *testing.T) []prometheus.Collector { return gpusOfPage(t, name) }
	}
	cards, err := filepath.Glob("../../../gpu/testdata/amd/*.txt")
	if err != nil || len(cards) < 4 {
		t.Fatalf("cards: %v, %v", cards, err)
	}
	for _, name := range cards {
		sources["amdgpu "+filepath.Base(name)] = func(t *testing.T) []prometheus.Collector {
			sys := testlab.Sysfs(t, name)
			return polled(t, func(o gpu.Options) *gpu.Poller { return gpu.NewAMD(sys, o) })
		}
	}
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			shown := onEndpoint(gather(t, source(t)...))
			p := newPast(t, shown, minutes*time.Minute)
			var got []string
			for _, g := range alerts.Alerts(allSets()) {
				for _, r := range g.Rules {
					if strings.HasPrefix(r.Alert, "InferenceGPU") && len(p.ask(t, r.Expr)) > 0 {
						got = append(got, r.Alert)
					}
				}
			}
			slices.Sort(got)
			if want := faults[name]; !slices.Equal(slices.Compact(got), want) {
				t.Errorf("alerts %v, want %v", got, want)
			}
			if n := p.askBoard(t); n < 5 {
				t.Errorf("%d queries of the board have data", n)
			}
			p.checkMemory(t, shown)
		})
	}
}

// past is a storage in which series were constant for a while.
type past struct {
	storage *teststorage.TestStorage
	engine  *promql.Engine
	end     time.Time
}

func newPast(t *testing.T, shown []scraped, length time.Duration) *past {
	t.Helper()
	p := &past{
		storage: teststorage.New(t), end: time.Unix(1_767_571_200, 0).Add(length),
		engine: promqltest.NewTestEngineWithOpts(t, promql.EngineOpts{
			MaxSamples: promqltest.DefaultMaxSamplesPerQuery, Timeout: time.Minute, LookbackDelta: 5 * time.Minute,
			EnableAtModifier: true, // boards ask for the worst of a time range at its end
		}),
	}
	app := p.storage.Appender(t.Context())
	for at := p.end.Add(-length); !at.After(p.end); at = at.Add(30 * time.Second) {
		for _, s := range shown {
			if _, err := app.Append(0, s.labels, at.UnixMilli(), s.value); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := app.Commit(); err != nil {
		t.Fatal(err)
	}
	return p
}

// ask returns what a query finds at the end.
func (p *past) ask(t *testing.T, expr string) promql.Vector {
	t.Helper()
	q, err := p.engine.NewInstantQuery(t.Context(), p.storage, nil, expr, p.end)
	if err != nil {
		t.Errorf("%s: %v", expr, err)
		return nil
	}
	defer q.Close()
	result := q.Exec(t.Context())
	found, err := result.Vector()
	if err != nil {
		t.Errorf("%s: %v", expr, err)
	}
	return slices.Clone(found)
}

// scraped is a series of a page of this exporter.
type scraped struct {
	labels labels.Labels
	value  float64
}

// firstLine is closed when a logger writes its first line.
type firstLine struct {
	once sync.Once
	came chan struct{}
}

// Write implements io.Writer.
func (f *firstLine) Write(line []byte) (int, error) {
	f.once.Do(func() { close(f.came) })
	return len(line), nil
}

// until runs what reads GPUs until it logs that it has read them.
func until(t *testing.T, run func(context.Context) error, logged *firstLine) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	select {
	case <-logged.came:
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
	case err := <-ended:
		stop()
		t.Fatalf("ended before it read the GPUs: %v", err)
	}
}

// gpusOfPage returns collectors of the GPUs of a page of another exporter, once it was read.
func gpusOfPage(t *testing.T, file string) []prometheus.Collector {
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
	rs := pages.NewGPUPages(nil, nil)
	cards := &config.MetricsPages{Interval: model.Duration(time.Hour), Timeout: model.Duration(time.Minute), URLs: []config.PageURL{{URL: u}}}
	reader, err := pages.New(cards.Endpoint("cards"), pages.Options{Mappings: rs.Mappings})
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	rs.Open("cards", cards)
	rs.Set("cards", reader.Scrape(t.Context(), pages.Known{}))
	return []prometheus.Collector{collector.NewGPU(rs.Snapshots), collector.NewGPUPages(rs.Statuses)}
}

// polled returns a collector of the GPUs of a source that is read on this machine, once it
// was read.
func polled(t *testing.T, open func(gpu.Options) *gpu.Poller) []prometheus.Collector {
	t.Helper()
	logged := &firstLine{came: make(chan struct{})}
	p := open(gpu.Options{Logger: slog.New(slog.NewTextHandler(logged, nil))})
	until(t, p.Run, logged)
	return []prometheus.Collector{collector.NewGPU(func() gpu.Snapshots { return gpu.Snapshots{p.Snapshot()} })}
}

// onEndpoint adds the series of an endpoint that has all GPUs.
func onEndpoint(all []scraped) []scraped {
	uuids := map[string]bool{}
	for _, s := range all {
		if uuid := s.labels.Get("uuid"); s.labels.Get(model.MetricNameLabel) == "inference_gpu_info" {
			uuids[uuid] = true
		}
	}
	add := func(value float64, of ...string) {
		of = append(of, "job", "gpus", "instance", "exporter:9878", "endpoint", "e", "model", "m")
		all = append(all, scraped{labels.FromStrings(of...), value})
	}
	add(float64(len(uuids)), model.MetricNameLabel, "inference_endpoint_gpus")
	for uuid := range uuids {
		add(1, model.MetricNameLabel, "inference_endpoint_gpu_info", "uuid", uuid)
	}
	return all
}

// checkMemory compares the memory in use that is recorded of the endpoint with the sum of
// that of its GPUs; where one of them does not show it, none is recorded.
func (p *past) checkMemory(t *testing.T, shown []scraped) {
	t.Helper()
	const name = "endpoint:inference_gpu_memory_used_bytes:sum"
	var expr string
	for _, g := range alerts.Recording(allSets()) {
		for _, r := range g.Rules {
			if r.Record == name {
				expr = r.Expr
			}
		}
	}
	if expr == "" {
		t.Fatalf("no rule records %s", name)
	}
	used, gpus := map[string]float64{}, 0.0
	for _, s := range shown {
		switch s.labels.Get(model.MetricNameLabel) {
		case "inference_gpu_memory_used_bytes":
			used[s.labels.Get("uuid")] = max(used[s.labels.Get("uuid")], s.value)
		case "inference_endpoint_gpus":
			gpus = s.value
		}
	}
	want := 0.0
	for _, bytes := range used {
		want += bytes
	}
	found := p.ask(t, expr)
	switch {
	case float64(len(used)) != gpus || gpus == 0:
		if len(found) > 0 {
			t.Errorf("%d of %v GPUs show their memory, and %v is recorded", len(used), gpus, found)
		}
	case len(found) != 1 || math.Abs(found[0].F-want) > 1e-6*want:
		t.Errorf("recorded %v, want %v", found, want)
	}
}

// gather returns what collectors show.
func gather(t *testing.T, collectors ...prometheus.Collector) []scraped {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collectors...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []scraped
	for _, f := range families {
		for _, m := range f.GetMetric() {
			b := labels.NewScratchBuilder(8)
			b.Add(model.MetricNameLabel, f.GetName())
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
func (p *past) askBoard(t *testing.T) int {
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
			var of panel
			if err := json.Unmarshal(text, &of); err != nil {
				t.Fatal(err)
			}
			walk(of.Panels)
			for _, q := range of.Targets {
				found := p.ask(t, variables.Replace(q.Expr))
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
						t.Errorf("%s: two series have the name %q", of.Title, name)
					}
					names[name] = true
				}
			}
		}
	}
	text, err := os.ReadFile("../../../dashboards/gpu.json")
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

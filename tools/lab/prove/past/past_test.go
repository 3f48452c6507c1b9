package past

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/inference-exporter/inference_exporter/collector"
)

func mustParse(t *testing.T, text string) parser.Expr {
	t.Helper()
	e, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestLookbacks adds what a query looks back to the range and to the five minutes
// for which a sample is seen.
func TestLookbacks(t *testing.T) {
	got := Lookbacks([]parser.Expr{
		mustParse(t, `rate(a[5m]) + b offset 1d`),
		mustParse(t, `max_over_time(rate(a[10m] offset 1h)[1d:1h] offset 1w)`),
		mustParse(t, `b`),
	}, time.Hour)
	const day = 24 * time.Hour
	want := map[string]time.Duration{
		"a": time.Hour + 5*time.Minute + 10*time.Minute + time.Hour + day + 7*day,
		"b": time.Hour + 5*time.Minute + day,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func texts(all []Series) []string {
	var out []string
	for _, s := range all {
		out = append(out, s.Labels.String())
	}
	return out
}

func TestSeries(t *testing.T) {
	f := Fleet{Endpoints: 1, Modules: 2, Servers: 1, Probers: 1, Machines: 1, Scrape: time.Minute}
	far := map[string]time.Duration{
		"inference_results_total": time.Hour, "inference_ttft_seconds_count": time.Hour, "up": time.Hour, "module:bad:ratio": time.Hour,
	}
	catalogue := []collector.Family{
		{Name: "inference_results_total", Group: collector.GroupProbe, Type: collector.Counter, Labels: []string{"endpoint", "model", "module", "outcome"}, Values: []string{"success"}},
		{Name: "inference_ttft_seconds", Group: collector.GroupServer, Type: collector.Histogram, Labels: []string{"endpoint", "model", "server"}},
		{Name: "unread", Group: collector.GroupProbe, Type: collector.Gauge, Labels: []string{"endpoint", "model"}},
	}
	want := []string{
		`{__name__="inference_results_total", endpoint="endpoint-000", instance="prober-0", job="inference_exporter", model="model-00", module="module-000", outcome="success"}`,
		`{__name__="inference_results_total", endpoint="endpoint-000", instance="prober-0", job="inference_exporter", model="model-00", module="module-001", outcome="success"}`,
		`{__name__="inference_ttft_seconds_count", endpoint="endpoint-000", instance="prober-0", job="inference_exporter", model="model-00", server="server-000"}`,
		`{__name__="up", instance="prober-0", job="inference_exporter"}`,
		`{__name__="up", instance="node-00", job="inference_exporter"}`,
	}
	if d := cmp.Diff(want, texts(f.Scraped(catalogue, far))); d != "" {
		t.Errorf("scraped (-want +got):\n%s", d)
	}
	want = []string{
		`{__name__="module:bad:ratio", endpoint="endpoint-000", model="model-00", module="module-000"}`,
		`{__name__="module:bad:ratio", endpoint="endpoint-000", model="model-00", module="module-001"}`,
	}
	if d := cmp.Diff(want, texts(f.Recorded("module:bad:ratio", mustParse(t, `sum by (endpoint, model, module, le) (a)`), time.Minute, far))); d != "" {
		t.Errorf("recorded (-want +got):\n%s", d)
	}
}

// TestRecordedOfExporters has a rule that keeps who scraped what.
func TestRecordedOfExporters(t *testing.T) {
	f := Fleet{Endpoints: 1, Modules: 1, Servers: 1, Probers: 2}
	far := map[string]time.Duration{"instance:a:rate5m": time.Hour, "instance:b:rate5m": time.Hour}
	want := []string{
		`{__name__="instance:a:rate5m", instance="prober-0", job="inference_exporter"}`,
		`{__name__="instance:a:rate5m", instance="prober-1", job="inference_exporter"}`,
	}
	if d := cmp.Diff(want, texts(f.Recorded("instance:a:rate5m", mustParse(t, `sum by (job, instance) (a)`), time.Minute, far))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	want = []string{`{__name__="instance:b:rate5m", endpoint="endpoint-000", instance="prober-0", job="inference_exporter", model="model-00"}`}
	if d := cmp.Diff(want, texts(f.Recorded("instance:b:rate5m", mustParse(t, `sum by (job, instance, endpoint, model) (b)`), time.Minute, far))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestWrite reads back what was written: an old series after a young one, and a
// counter that only grows.
func TestWrite(t *testing.T) {
	end := time.UnixMilli(1_700_000_000_000)
	dir := t.TempDir()
	all := []Series{
		{Labels: labels.FromStrings("__name__", "young"), Step: time.Minute, For: time.Hour, Growth: 20},
		{Labels: labels.FromStrings("__name__", "old"), Step: time.Hour, For: 14 * 24 * time.Hour, Level: 1},
	}
	n, err := Write(t.Context(), dir, all, end)
	if err != nil || n != 60+14*24 {
		t.Fatalf("%d samples, %v", n, err)
	}
	if err := os.Mkdir(filepath.Join(dir, "wal"), 0o700); err != nil { // without which it is not opened
		t.Fatal(err)
	}
	db, err := tsdb.OpenDBReadOnly(dir, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	q, err := db.Querier(0, math.MaxInt64)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	counts := map[string]int{}
	set := q.Select(t.Context(), true, nil, labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".+"))
	for set.Next() {
		name, last := set.At().Labels().Get("__name__"), -1.0
		for it := set.At().Iterator(nil); it.Next() != 0; {
			at, v := it.At()
			if at > end.UnixMilli() || name == "young" && v <= last {
				t.Fatalf("%s has %v at %d after %v", name, v, at, last)
			}
			last = v
			counts[name]++
		}
	}
	if d := cmp.Diff(map[string]int{"young": 60, "old": 14 * 24}, counts); d != "" || set.Err() != nil {
		t.Errorf("%v, samples (-want +got):\n%s", set.Err(), d)
	}
}

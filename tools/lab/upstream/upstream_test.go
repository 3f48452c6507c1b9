package main

import (
	"archive/zip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func expressions(t *testing.T, patterns ...string) words {
	t.Helper()
	s, err := parseSources([]byte("- {list: a, repository: a/a, files: ['" + strings.Join(patterns, "', '") + "'], names: [a]}"))
	if err != nil {
		t.Fatal(err)
	}
	return s[0].Files
}

// Definitions in each language and client give name, type, labels and unit.
func TestMetrics(t *testing.T) {
	for name, c := range map[string]struct {
		source source
		files  []file
		want   []metric
	}{
		"prometheus_client": {
			source{Total: true, Values: map[string]string{"self.prefix": "acme_"}},
			[]file{{"a.py", `
"""Gauge(name="acme_doc")"""
_LABELS = ["model", "engine"]
class Names:
    QUEUE = "acme_queue"
class Others:
    QUEUE = "acme_other_queue"
def register(self):
    # Gauge("acme_comment", "")
    a = Gauge(name="acme_running", documentation="Requests (now), \"quoted\".", labelnames=_LABELS)
    b = self._counter_cls(name=self.prefix + "tokens", documentation=f"x {self.y}", labelnames=labels + ["source"])
    f = Gauge("acme_free", "", labelnames=self.labels_of("acme_free"))
    c = Histogram("acme_wait"
        "_seconds", "Wait", ["stage"], buckets=[0.1, 1])
    d = Gauge(name=Names.QUEUE, documentation="")
    metrics[Others.QUEUE] = (
        MadeUpHistogramMetadata(documentation="by name"))
    e = Gauge(name=unknown(), documentation="")
`}},
			[]metric{
				{Name: "acme_free", Type: "gauge"},
				{Name: "acme_other_queue", Type: "histogram"},
				{Name: "acme_queue", Type: "gauge"},
				{Name: "acme_running", Type: "gauge", Labels: []string{"model", "engine"}},
				{Name: "acme_tokens_total", Type: "counter", Labels: []string{"source"}},
				{Name: "acme_wait_seconds", Type: "histogram", Labels: []string{"stage"}},
			},
		},
		"client_golang": {
			source{},
			[]file{
				{"names.go", "package a\n\nconst (\n\tSubsystem = \"acme\"\n)\n"},
				{"a.go", `package b

const Subsystem = a.Subsystem // as there

var labels = []string{"model", "pool"}

var x = prometheus.NewCounterVec(prometheus.CounterOpts{
	Subsystem: Subsystem,
	Name:      "requests_total", // Name: "no"
	Help:      help("Requests: all, of 'x'."),
}, append(labels, "code"))

var y = prometheus.NewDesc("acme_queue_size", "Queue.", []string{"endpoint"}, nil)
`},
			},
			[]metric{
				{Name: "acme_queue_size", Labels: []string{"endpoint"}},
				{Name: "acme_requests_total", Type: "counter", Labels: []string{"model", "pool", "code"}},
			},
		},
		"OpenTelemetry": {
			source{OTel: true},
			[]file{{"a.go", `package a

var a, _ = meter.Float64Histogram("acme.request.duration", metric.WithUnit("s"))
var b, _ = meter.Int64Counter("acme.errors", metric.WithUnit("{error}"))
var c, _ = meter.Int64UpDownCounter("acme.active")
`}},
			[]metric{
				{Name: "acme_active", Type: "gauge"},
				{Name: "acme_errors_total", Type: "counter", Unit: "{error}"},
				{Name: "acme_request_duration_seconds", Type: "histogram", Unit: "s"},
			},
		},
		"metrics of Rust": {
			source{},
			[]file{{"a.rs", `
const PREFIX: &str = "acme";
fn f<'a>(x: &'a str) {
    describe_counter!("acme_retries_total", "It's retries");
    counter!("acme_retries_total", "route" => x.to_string()).increment(1);
    gauge!(format!("{}_load", PREFIX), "worker" => x).set('"');
    histogram!("acme_seconds").record(1.0);
}
`}},
			[]metric{
				{Name: "acme_load", Type: "gauge", Labels: []string{"worker"}},
				{Name: "acme_retries_total", Type: "counter", Labels: []string{"route"}},
				{Name: "acme_seconds", Type: "histogram"},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.source.Names = expressions(t, "^acme_")
			if d := cmp.Diff(c.want, c.source.metrics(c.files)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// Sections of a text have names up to the next one, of the first row that matches where several do.
func TestLines(t *testing.T) {
	s, err := parseSources([]byte(`
- list: a
  repository: a/a
  files: [a]
  names: ['^acme']
  lines:
    - {from: 'counters = \{', name: '"(?P<name>\w+)"', type: counter, prefix: 'acme:'}
    - {from: 'gauges = \{', name: '"(?P<name>\w+)"(?:, (?P<unit>Seconds))?', type: gauge, prefix: 'acme:', units: true}
    - {from: '\w+ = \{'}
`))
	if err != nil {
		t.Fatal(err)
	}
	got := s[0].metrics([]file{{"a.cpp", `counters = {"tokens_total"}; other = {"nothing"}; gauges = {"busy", "age", Seconds};`}})
	want := []metric{
		{Name: "acme:age_seconds", Type: "gauge", Unit: "seconds"}, {Name: "acme:busy", Type: "gauge"}, {Name: "acme:tokens_total", Type: "counter"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// A list has what the newest version shows, and of older ones what was dropped; reading a newer one keeps what the list has.
func TestMerge(t *testing.T) {
	of := func(name string, metrics ...string) version {
		v := version{Repository: "a/a", Version: name, Metrics: []metric{}}
		for _, m := range metrics {
			v.Metrics = append(v.Metrics, metric{Name: m})
		}
		return v
	}
	list := merge(nil, []version{of("v0.9.0", "a", "old"), of("v0.10.0", "a", "b", "c"), of("v0.8.0", "a")})
	if d := cmp.Diff([]version{of("v0.10.0", "a", "b", "c"), of("v0.9.0", "old")}, list); d != "" {
		t.Errorf("first (-want +got):\n%s", d)
	}
	list = merge(list, []version{of(mainBranch, "a", "b", "new")})
	want := []version{of(mainBranch, "a", "b", "new"), of("v0.10.0", "c"), of("v0.9.0", "old")}
	if d := cmp.Diff(want, list); d != "" {
		t.Errorf("then (-want +got):\n%s", d)
	}
	file := filepath.Join(t.TempDir(), "a.yml")
	if err := save(file, list); err != nil {
		t.Fatal(err)
	}
	again, err := load(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, again); d != "" {
		t.Errorf("read again (-want +got):\n%s", d)
	}
}

// A git directory gives its newest commit and its tags, a wheel one version.
func TestOpen(t *testing.T) {
	s := &source{Repository: "a/a", Tags: expressions(t, `^v\d`), Files: expressions(t, `\.py$`), Names: expressions(t, "acme")}
	dir := t.TempDir()
	run := func(args ...string) {
		t.Helper()
		c := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b.invalid"}, args...)...)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "a.py"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		run("add", "-A")
		run("commit", "-qm", "a")
	}
	run("init", "-q")
	write(`Gauge("acme_old", "")`)
	run("tag", "v1.0.0")
	run("tag", "nightly")
	write(`Gauge("acme_new", "")`)
	versions, err := s.read("a/a", filepath.Join(dir, ".git"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range versions {
		if len(v.Commit) != 40 || len(v.Date) != len("2006-01-02") {
			t.Errorf("%s: commit %q of %q", v.Version, v.Commit, v.Date)
		}
		got = append(got, v.Version+" "+v.Metrics[0].Name)
	}
	if d := cmp.Diff([]string{"main acme_new", "v1.0.0 acme_old"}, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}

	wheel := filepath.Join(t.TempDir(), "acme_cpu-2.0.0-py3-none-any.whl")
	f, err := os.Create(wheel)
	if err != nil {
		t.Fatal(err)
	}
	z := zip.NewWriter(f)
	w, err := z.Create("acme/a.py")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(`Counter("acme_x", "")`)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if versions, err = s.read("a/a@v2.0.0", wheel); err != nil {
		t.Fatal(err)
	}
	want := []version{{Repository: "a/a", Version: "v2.0.0", Package: "acme-cpu 2.0.0", Metrics: []metric{{Name: "acme_x", Type: "counter"}}}}
	if d := cmp.Diff(want, versions); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// The table is a good one.
func TestSources(t *testing.T) {
	if _, err := parseSources(table); err != nil {
		t.Error(err)
	}
}

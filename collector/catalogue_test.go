package collector

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/gpu/pods"
	"github.com/inference-exporter/inference_exporter/internal/discovery"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/store"
	"github.com/inference-exporter/inference_exporter/internal/users"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/drift"
	"github.com/inference-exporter/inference_exporter/internal/workload/loadtest"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

var update = flag.Bool("update", false, "rewrite the golden files and docs/metrics.md")

// golden compares got with a file, or rewrites the file under -update.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s differs; if the change is wanted, rewrite it with -update (-want +got):\n%s", path, d)
	}
}

// Names, types and labels are what users build on: they change only on purpose.
func TestNamesAreFrozen(t *testing.T) {
	var b strings.Builder
	for _, f := range Catalogue() {
		fmt.Fprintln(&b, strings.TrimSpace(fmt.Sprintf("%s %s {%s} %s", f.Name, f.Type, strings.Join(f.Labels, ","), strings.Join(f.Values, ","))))
	}
	golden(t, filepath.Join("testdata", "names.golden"), b.String())
}

// full returns a page with every family of the catalogue.
func full(t *testing.T) *Exposition {
	t.Helper()
	p, facts := NewProbes(func() time.Time { return epoch }), new(workload.Facts)
	sized := func(endpoint string, o SeriesOptions) *Series {
		return p.Open(result.SeriesID{Endpoint: endpoint, Module: "m", Prefix: "cold", InputTokens: "8000", OutputTokens: "32", Concurrency: "4"}, o)
	}
	e := p.OpenEndpoint(EndpointInfo{
		Endpoint: "e", Model: "m", API: "openai-chat", Engine: "vllm", URL: "http://e",
		Price: &config.Price{Currency: "EUR", Plan: "spot", USDRate: 1, GPUHour: 1, GPUs: 1, Input: 1, Output: 1, CacheWrite: 1}, Budget: used(0, 0), State: paging, Cause: because(explain.Hung),
		Facts:    facts,
		Hardware: &config.Hardware{GPUs: 2, MemoryBandwidth: 1, Weights: 1, TotalWeights: 1, KVCachePerToken: 1, WeightsPrecision: "fp8", ComputePrecision: "bf16", UUIDs: []string{"GPU-a", "MIG-b"}},
	})
	p.OpenEndpoint(EndpointInfo{Endpoint: "h", Model: "m", Hardware: &config.Hardware{GPU: "H100 SXM", GPUs: 1, Weights: 1, WeightsPrecision: "bf16"}})
	r := success()
	r.TraceID = [16]byte{1}
	r.Scheduled = epoch.Add(-time.Millisecond)
	r.Events = []result.Event{{At: 0}, {At: time.Millisecond, ReadLag: time.Microsecond}}
	r.Decoded = result.TokenSpan{Last: 1, Tokens: r.Tokens.Output, FirstTokens: 1}
	r.Tokens.Cached, r.Tokens.Reasoning = 1, 1
	r.Server.Queue, r.Server.Prefill, r.Server.Decode = 1, 1, 1
	r.RateLimit.Requests, r.RateLimit.Tokens = 1, 1
	r.CertNotAfter = epoch
	promised := fluent()
	promised.CorrectCoordinatedOmission = true
	r.Stall = &result.Stall{Side: result.SideServer}
	r.Call = result.Call{FirstArgument: time.Second, Complete: 2 * time.Second}
	s := sized("e", SeriesOptions{
		Objectives: series.NewObjectives(*promised), Log: new(series.Log), Interval: 15 * time.Second, Timeout: time.Minute, Price: exactPrice(), Verdicts: result.Verdicts(), Calls: true,
	})
	s.Observe(r)
	judge(s, r)
	for _, m := range series.Metrics() {
		s.SetStep(series.Step{At: epoch, Metric: m, Before: 0.5, After: 0.75, Lower: 1.25, Upper: 1.75})
	}
	p.OpenEndpoint(EndpointInfo{Endpoint: "v"})
	sized("v", SeriesOptions{}).Observe(embedded())
	p.OpenFindings(FindingsID{Endpoint: "e", Module: "m"}).Set(completed("m"))
	p.OpenFindings(FindingsID{Endpoint: "e", Module: "t"}).Set(found("m", &drift.Finding{Shift: drift.Shift{Variation: new(0.25)}}))
	st := vllmStatus("h:8000", 1)
	st.Snapshot.Missing = []config.Quantity{config.Preemptions}
	st.Snapshot.Ranks = fullRanks()
	workload.SetFact(facts, drift.Changes{Names: &drift.Change{Source: drift.SourceModel, Since: epoch, From: "a", To: "b"}})
	workload.SetFact(facts, health.Start{Took: time.Minute})
	workload.SetFact(facts, health.Wake{Took: 20 * time.Second, Missed: true})
	workload.SetFact(facts, health.Retirement{Retirement: api.Retirement{Header: 1, Listed: 2, Deprecated: 3}})
	e.SetServers("m", []page.Status{st})
	e.ObserveProbe(r, false)
	workload.SetFact(facts, allTTFTParts())
	differs := map[config.Setting]bool{}
	for _, row := range config.Settings() {
		differs[row.Setting] = true
	}
	workload.SetFact(facts, &page.Compared{Differs: differs})
	workload.SetFact(facts, &loadtest.Loss{Now: &loadtest.Headroom{Lower: 2}, Peak: &loadtest.Headroom{Lower: 1.5}})
	c := users.Count{Eligible: 3, Bad: 1, Possible: 2}
	workload.SetFact(facts, &users.View{
		Counts: map[string]users.Count{"availability": c, "ttft": c, "tpot": c, "e2e": c},
		TTFT:   users.Window{Samples: 100, Seconds: map[string]float64{"p50_lower": 0.1, "p50_upper": 0.2, "p99_lower": 1, "p99_upper": 2}},
	})
	reg := prometheus.NewPedanticRegistry()
	self := NewSelf(reg)
	self.Observe(r)
	self.Scraped(time.Millisecond, 5000)
	spans, pushes := func() (uint64, bool) { return 0, true }, func() (uint64, uint64, bool) { return 0, 0, true }
	self.WatchExports(spans, pushes, func() uint64 { return 0 })
	self.WatchState(func() store.Stats { return store.Stats{At: time.Unix(1, 0)} })
	self.WatchBudget(used(0, 0))
	self.SetShard(0, 2)
	gpus := gpuUp(everyReading())
	gpus.Simulated = true
	watchGPUs := func() gpu.Snapshots { return gpu.Snapshots{gpus} }
	given := &pods.Snapshot{State: pods.StateUp, Assignments: []pods.Assignment{{
		UUID: "MIG-b", Minor: -1, GPUInstance: -1, ComputeInstance: -1, Namespace: "n", Pod: "p", Container: "c",
	}}}
	reg.MustRegister(NewGPU(watchGPUs), NewPods(func() *pods.Snapshot { return given }, watchGPUs), NewGPUPages(gpuPageStatuses))
	reg.MustRegister(everyGateway())
	return NewExposition(reg, p)
}

// The catalogue and the page name the same families with the same type, unit,
// help and labels, in every format; and the linter has nothing to say.
func TestPageMatchesCatalogue(t *testing.T) {
	var b bytes.Buffer
	if err := full(t).Write(&b, expfmt.FmtProtoDelim); err != nil {
		t.Fatal(err)
	}
	var got []Family
	for _, m := range decode(t, &b) {
		if !strings.HasPrefix(m.GetName(), namePrefix) {
			continue
		}
		f := Family{Name: m.GetName(), Type: Type(strings.ToLower(m.GetType().String())), Unit: m.GetUnit(), Help: m.GetHelp()}
		for _, metric := range m.Metric { // the labels that a metric does not have are left out
			for _, l := range metric.Label {
				f.Labels = append(f.Labels, l.GetName())
			}
		}
		slices.Sort(f.Labels)
		f.Labels = slices.Compact(f.Labels)
		got = append(got, f)
	}
	want := Catalogue()
	for i := range want {
		f := &want[i]
		f.Group, f.Values, f.Kinds, f.Notes = "", nil, nil, ""
		f.Labels = slices.Clone(f.Labels)
		slices.Sort(f.Labels)
		if f.Name == "inference_exporter_build_info" {
			f.Help = got[slices.IndexFunc(got, func(g Family) bool { return g.Name == f.Name })].Help // client_golang's
		}
	}
	byName := func(a, b Family) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(want, byName)
	slices.SortFunc(got, byName)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("families (-catalogue +page):\n%s", d)
	}
}

func TestLint(t *testing.T) {
	var b bytes.Buffer
	if err := full(t).Write(&b, expfmt.FmtText); err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.New(&b).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestOpenMetricsEnds(t *testing.T) {
	var b bytes.Buffer
	if err := full(t).Write(&b, expfmt.FmtOpenMetrics_1_0_0); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	if strings.Count(page, "# EOF") != 1 || !strings.HasSuffix(page, "\n# EOF\n") {
		t.Error("the page does not end with the only # EOF")
	}
	if !strings.Contains(page, ` # {trace_id="01000000000000000000000000000000"} 0.2 1.7e+09`+"\n") {
		t.Error("the page has no exemplar of the probe")
	}
}

// The values of labels are those of the packages that define them, so that nothing
// that is observed is lost.
func TestClosedSetsAreComplete(t *testing.T) {
	f := func(dir, kind string, got ...string) {
		t.Helper()
		want := stringConstants(t, dir, kind)
		slices.Sort(want)
		slices.Sort(got)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("values of %s (-source +page):\n%s", kind, d)
		}
	}
	f("../config", "ArrivalProcess", config.Texts(config.ArrivalProcesses())...)
	f("../internal/discovery", "Reason", config.Texts(discovery.Reasons())...)
	f("../internal/page", "Reason", config.Texts(scrapeReasons())...)
	f("../internal/page", "State", config.Texts(states())...)
	f("../internal/series", "Metric", config.Texts(series.Metrics())...)
	f("../config", "LoadKind", config.Texts(config.LoadKinds())...)
	f("../internal/workload/loadtest", "End", config.Texts(loadtest.Ends())...)
	f("../internal/workload/drift", "Source", config.Texts(drift.Sources())...)
	f("../gpu", "State", append(config.Texts(gpuStates()), string(gpu.StateNotBuilt))...)
	f("../gpu", "Vendor", config.Texts(gpu.Vendors())...)
	f("../gpu/pods", "State", append(config.Texts(podsFailures()), string(pods.StateStarting), string(pods.StateUp))...)
	f("../internal/result", "Affinity", config.Texts(result.Affinities())...)
	f("../internal/result", "Clock", config.Texts(result.Clocks())...)
	f("../internal/result", "Outcome", config.Texts(result.Outcomes())...)
	f("../internal/result", "Side", config.Texts(result.Sides())...)
	f("../internal/result", "SkipReason", config.Texts(result.SkipReasons())...)
	f("../internal/result", "TokenSource", config.Texts(result.TokenSources())...)
	f("../internal/result", "Sign", config.Texts(result.Signs())...)
	f("../internal/result", "Verdict", config.Texts(result.Verdicts())...)
	f("../internal/explain", "Cause", config.Texts(explain.Causes())...)
	f("../internal/health", "State", config.Texts(health.States())...)
	f("../internal/health", "Witness", config.Texts(health.Witnesses())...)
}

// stringConstants returns the values of the constants of a type in a package, but
// not the empty one.
func stringConstants(t *testing.T, dir, kind string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(filepath.FromSlash(dir), "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in %s: %v", dir, err)
	}
	constant := regexp.MustCompile(`(?m)^\s+\w+\s+` + kind + `\s+= "(.+)"`)
	var out []string
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range constant.FindAllStringSubmatch(string(text), -1) {
			out = append(out, m[1])
		}
	}
	return out
}

// docs/metrics.md is generated from the catalogue.
func TestReference(t *testing.T) {
	intro, err := os.ReadFile(filepath.Join("testdata", "metrics.intro.md"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.Write(intro)
	titles := map[Group]string{
		GroupEndpoint: "Endpoints", GroupProbe: "Probes", GroupServer: "Servers", GroupGateway: "Gateways", GroupGPU: "GPUs", GroupExporter: "The exporter itself",
	}
	for _, g := range []Group{GroupEndpoint, GroupProbe, GroupServer, GroupGateway, GroupGPU, GroupExporter} {
		fmt.Fprintf(&b, "\n## %s\n\n", titles[g])
		switch g {
		case GroupGPU:
			b.WriteString("What they mean, which hardware has them and what they are called elsewhere: [gpu.md](gpu.md).\n\n")
		case GroupGateway:
			b.WriteString("What each software shows of them: [gateways.md](gateways.md).\n\n")
		case GroupExporter:
		default:
			b.WriteString("The configured labels come on top of those named here.")
			if g == GroupProbe {
				b.WriteString(" " + referenceSizes)
			}
			b.WriteString("\n\n")
		}
		b.WriteString("| metric | type | unit | labels | meaning |\n| --- | --- | --- | --- | --- |\n")
		for _, f := range Catalogue() {
			if f.Group == g {
				b.WriteString(referenceRow(f))
			}
		}
	}
	b.WriteString(referenceOutcomes(t))
	b.WriteString(referenceBounds())
	golden(t, filepath.Join("..", "docs", "metrics.md"), b.String())
}

// referenceSizes describes the labels that referenceRow leaves out.
const referenceSizes = "What has the label `prefix` also has `input_tokens` and `output_tokens`, only on series of modules that ask with\n" +
	"several lengths, and `concurrency`, only on those of modules that start several requests at once."

// referenceRow renders one family as a line of a table.
func referenceRow(f Family) string {
	var labels []string
	for _, l := range f.Labels {
		if slices.Contains(f.Labels, "prefix") && slices.Contains(sizeLabels(), l) {
			continue
		}
		labels = append(labels, "`"+l+"`")
	}
	if f.Values != nil {
		labels[len(labels)-1] += " (" + strings.Join(f.Values, ", ") + ")"
	}
	help := strings.TrimSpace(f.Help + " " + f.Notes)
	if f.Kinds != nil {
		help += " Only for " + strings.Join(config.Texts(f.Kinds), " and ") + "."
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", f.Name, f.Type, f.Unit, strings.Join(labels, ", "), help)
}

// referenceOutcomes renders the outcomes with their comments in the source.
func referenceOutcomes(t *testing.T) string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("..", "internal", "result", "outcome.go"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	b.WriteString("\n## Outcomes\n\n| outcome | meaning |\n| --- | --- |\n")
	constants := regexp.MustCompile(`((?:\t// .*\n)+)\t(\w+)\s+Outcome\s+= "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	for i, m := range constants {
		comment := strings.Join(strings.Fields(strings.ReplaceAll(m[1], "\t// ", " ")), " ")
		meaning, ok := strings.CutPrefix(comment, m[2]+" is ")
		if !ok || m[3] != string(result.Outcomes()[i]) {
			t.Errorf("outcome %s has no comment that says what it is, or another place", m[2])
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", m[3], meaning)
	}
	if len(constants) != len(result.Outcomes()) {
		t.Errorf("%d outcomes in internal/result/outcome.go, want %d", len(constants), len(result.Outcomes()))
	}
	return b.String()
}

// referenceBounds renders the classic bounds of the histograms of probes.
func referenceBounds() string {
	var b strings.Builder
	b.WriteString("\n## Classic bucket bounds\n\n| metric | upper bounds |\n| --- | --- |\n")
	for _, f := range probeFamilies() {
		if f.Type != Histogram {
			continue
		}
		bounds := make([]string, len(f.bounds))
		for i, v := range f.bounds {
			bounds[i] = string(appendFloat(nil, v, false))
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", f.Name, strings.Join(bounds, " "))
	}
	return b.String()
}

// No configured label can have a name that a family uses itself.
func TestReservedLabelsAreRejected(t *testing.T) {
	for _, name := range ReservedLabels() {
		file := fmt.Sprintf("endpoints: [{url: 'http://h', labels: {%s: x}}]", name)
		if _, err := config.Parse([]byte(file), "file.yml"); err == nil || !strings.Contains(err.Error(), "is reserved") {
			t.Errorf("label %s is accepted: %v", name, err)
		}
	}
}

package collector

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/workload/load"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// absentAtZero are the families whose samples at zero a compact page may lack. All others
// keep theirs: rules divide by them, or look for the change from 0 to 1.
func absentAtZero() []string {
	names := []string{"inference_server_scrape_failures_total"}
	for _, f := range probeFamilies() {
		if f.Flaw {
			names = append(names, f.Name)
		}
	}
	return names
}

// compactStores are a series of random results, one that reasons, a fresh one, and a
// server's page.
func compactStores() []Store {
	r := rand.New(rand.NewPCG(3, 7))
	p := NewProbes(func() time.Time { return epoch })
	open := func(endpoint string) *Series {
		return p.Open(result.SeriesID{Endpoint: endpoint, Module: "m", Prefix: "cold"}, SeriesOptions{Objectives: series.NewObjectives(*fluent()), Log: new(series.Log), Verdicts: result.AnswerVerdicts()})
	}
	random, fresh, reasons := open("random"), open("fresh"), open("reasons")
	for range 60 {
		res := randomResult(r, "m", 5)
		res.Kind = api.Generation
		random.Observe(res)
		judge(random, res)
	}
	plain := success()
	plain.Timing.TTFO = plain.Timing.TTFT
	fresh.Observe(plain)
	thinking := success()
	thinking.Timing.TTFO = thinking.Timing.TTFT + time.Second
	reasons.Observe(plain)
	reasons.Observe(thinking)
	servers := NewServers()
	servers.set(ServersID{Endpoint: "fresh", Model: "m"}, []page.Status{vllmStatus("h:8000", 1)})
	return []Store{p, servers}
}

// decodedPage returns a page as Prometheus reads it for native histograms.
func decodedPage(t *testing.T, compact bool, stores ...Store) []*dto.MetricFamily {
	t.Helper()
	e := NewExposition(prometheus.NewRegistry(), stores...)
	e.SetCompact(compact)
	var b strings.Builder
	if err := e.Write(&b, expfmt.FmtProtoDelim); err != nil {
		t.Fatal(err)
	}
	return decode(t, strings.NewReader(b.String()))
}

// What a compact page has is what the whole page has, but for classic buckets. What it
// lacks is zero, or what the TTFT has.
func TestCompactPageSaysTheSame(t *testing.T) {
	stores := compactStores()
	whole, compact := byName(decodedPage(t, false, stores...)), byName(decodedPage(t, true, stores...))
	lost := map[string]int{}
	for name, m := range whole {
		h, family := m.Histogram, strings.Fields(name)[0]
		if h != nil && h.Schema != nil {
			h.Exemplars, h.Bucket = nativeExemplars(h), nil
		}
		if got := compact[name]; got != nil {
			if !proto.Equal(m, got) {
				t.Errorf("%s (-whole +compact):\n%s", name, clip(cmp.Diff(m, got, protocmp.Transform())))
			}
			delete(compact, name)
			continue
		}
		lost[family]++
		isZero := m.Counter != nil && m.Counter.GetValue() == 0 || m.Summary != nil && m.Summary.GetSampleCount() == 0
		if family != "inference_probe_ttfo_seconds" && !isZero {
			t.Errorf("%s is absent: %v", name, m)
		}
	}
	if n := lost["inference_probe_ttfo_seconds"]; n != 1 {
		t.Errorf("%d series without a TTFO, want the one of which it is the TTFT", n)
	}
	delete(lost, "inference_probe_ttfo_seconds")
	if len(compact) > 0 {
		t.Errorf("series that the whole page lacks: %v", compact)
	}
	for name := range lost {
		if !slices.Contains(absentAtZero(), name) {
			t.Errorf("%s is absent at zero", name)
		}
	}
	for _, name := range absentAtZero() {
		if lost[name] == 0 {
			t.Errorf("%s is never absent", name)
		}
	}
}

// byName indexes the metrics of families by name and labels.
func byName(families []*dto.MetricFamily) map[string]*dto.Metric {
	all := map[string]*dto.Metric{}
	for _, f := range families {
		for _, m := range f.Metric {
			name := f.GetName()
			for _, l := range m.Label {
				name += " " + l.GetName() + "=" + l.GetValue()
			}
			all[name] = m
		}
	}
	return all
}

// nativeExemplars returns the exemplars of the classic buckets, which a histogram without
// these has itself.
func nativeExemplars(h *dto.Histogram) (all []*dto.Exemplar) {
	for _, b := range h.Bucket {
		if b.Exemplar != nil {
			all = append(all, b.Exemplar)
		}
	}
	return all
}

// The share of failures is computed with the successes, so they remain at zero too.
func TestCompactPageKeepsSuccesses(t *testing.T) {
	p, s := newStore()
	s.Observe(failure())
	for _, f := range decodedPage(t, true, p) {
		if f.GetName() != "inference_probe_results_total" {
			continue
		}
		got := map[string]float64{}
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if l.GetName() == "outcome" {
					got[l.GetValue()] = m.Counter.GetValue()
				}
			}
		}
		if want := map[string]float64{"success": 0, string(failure().Outcome): 1}; !cmp.Equal(got, want) {
			t.Errorf("outcomes %v, want %v", got, want)
		}
	}
}

// A reader of text sees the count and the sum, and the one bucket that the format wants.
func TestCompactPageInText(t *testing.T) {
	p, s := newStore()
	s.Observe(success())
	e := NewExposition(prometheus.NewRegistry(), p)
	e.SetCompact(true)
	for _, format := range []expfmt.Format{expfmt.FmtText, expfmt.FmtOpenMetrics_1_0_0} {
		var b strings.Builder
		if err := e.Write(&b, format); err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(b.String()) {
			if strings.HasPrefix(line, "inference_probe_ttft_seconds") {
				name, labels, _ := strings.Cut(line, "{")
				if _, le, bucket := strings.Cut(labels, ",le="); bucket {
					name += " le=" + le[:strings.Index(le, "}")]
				}
				got = append(got, name)
			}
		}
		if want := []string{`inference_probe_ttft_seconds_bucket le="+Inf"`, "inference_probe_ttft_seconds_sum", "inference_probe_ttft_seconds_count"}; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", format, got, want)
		}
	}
}

// countSeries counts what Prometheus stores of a page: a native histogram is one series,
// a classic one has its buckets, a sum and a count. native says that it stores native
// ones instead of classic ones.
func countSeries(families []*dto.MetricFamily, native bool) (n int) {
	for _, f := range families {
		for _, m := range f.Metric {
			switch h := m.Histogram; {
			case h != nil && h.Schema != nil && native:
				n++
			case h != nil:
				n += len(h.Bucket) + 3 // +Inf, sum and count
			case m.Summary != nil:
				n += 2
			default:
				n++
			}
		}
	}
	return n
}

// The table of docs/sizing.md is of an endpoint whose probes succeed.
func TestSeriesOfAnEndpoint(t *testing.T) {
	p := NewProbes(func() time.Time { return epoch })
	p.OpenEndpoint(EndpointInfo{Endpoint: "e", Model: "m", API: "openai-chat", Engine: "vllm", URL: "http://e", State: inState(health.Up, 0), Cause: because("")})
	s := p.Open(result.SeriesID{Endpoint: "e", Module: "interactive", Prefix: "cold"}, SeriesOptions{
		Objectives: series.NewObjectives(config.SLO{Objective: 0.99, TTFT: model.Duration(2 * time.Second), TPOT: model.Duration(50 * time.Millisecond)}), Log: new(series.Log),
		Interval: 30 * time.Second, Timeout: time.Minute,
	})
	r := success()
	r.Tokens.Cached, r.Timing.TTFO = 0, r.Timing.TTFT
	for range 30 {
		s.Observe(r)
		judge(s, r)
	}
	p.OpenFindings(FindingsID{Endpoint: "e", Module: "interactive"}).Set(found("m", &load.Finding{ColdReported: true}))
	page := decodedPage(t, false, p)
	got := []int{countSeries(page, false), countSeries(page, true), countSeries(decodedPage(t, true, p), true)}
	golden(t, "../docs/sizing.md", withSeries(t, got))
}

// withSeries returns docs/sizing.md with these numbers in its table of series.
func withSeries(t *testing.T, counts []int) string {
	t.Helper()
	text, err := os.ReadFile("../docs/sizing.md")
	if err != nil {
		t.Fatal(err)
	}
	before, section, _ := strings.Cut(string(text), "\n## Series in Prometheus\n")
	section = regexp.MustCompile(`(?m)\| \d+ \|$`).ReplaceAllStringFunc(section, func(cell string) string {
		if len(counts) == 0 {
			return cell
		}
		n := counts[0]
		counts = counts[1:]
		return fmt.Sprintf("| %d |", n)
	})
	if len(counts) > 0 {
		t.Fatalf("docs/sizing.md has no place for %v", counts)
	}
	return before + "\n## Series in Prometheus\n" + section
}

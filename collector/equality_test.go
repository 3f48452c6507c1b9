package collector

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// The pages of a store must be, byte for byte, what client_golang makes of the same values,
// whatever the families and the labels; for protobuf, message for message.
func TestEqualsClientGolang(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		lab := newEncoderLab(r)
		for range rapid.IntRange(0, 40).Draw(r, "probes") {
			lab.probe(r)
		}
		compareBut(r, lab.store, lab.reference, regexp.MustCompile(`(?m)(# \{trace_id=.* )\S+$`))
	})
}

// More than 160 native buckets are too many at the finest resolution. The exemplars' times
// are equal because the bubble's clock does not advance.
func TestManyBucketsEqualClientGolang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, reference := NewProbes(time.Now), prometheus.NewRegistry()
		f := newRow(Family{Name: namePrefix + "x_seconds", Group: GroupProbe, Unit: "seconds", Help: "x"}, nil, row{
			Name: "x_seconds", Bounds: ttftBounds,
			Time: func(p *probe, _ int) time.Duration { return p.Timing.TTFT },
		})
		p.rows = newProbeTable([]*probeFamily{f})
		s := p.Open(result.SeriesID{Endpoint: "e"}, SeriesOptions{})
		h := prometheus.NewHistogramVec(f.histogramOpts(ttftBounds), []string{"endpoint"})
		reference.MustRegister(h)
		for i := range 250 {
			time.Sleep(time.Second)
			r := &result.Result{Start: time.Now(), Outcome: result.Success, TraceID: [16]byte{byte(i + 1)}}
			r.Timing.TTFT = time.Duration(math.Exp2(float64(i) / 7))
			s.Observe(r)
			trace := prometheus.Labels{"trace_id": hex.EncodeToString(r.TraceID[:])}
			h.WithLabelValues("e").(prometheus.ExemplarObserver).ObserveWithExemplar(r.Timing.TTFT.Seconds(), trace)
		}
		if got := s.histograms[0].schema; got != 2 {
			t.Errorf("schema %d, want 2", got)
		}
		compare(t, p, reference)
	})
}

// encoderLab is a store of families that were made up, and the same in client_golang.
type encoderLab struct {
	store     *Probes
	reference *prometheus.Registry
	series    []*Series
	labels    []prometheus.Labels
	families  []*madeUp
}

// madeUp is a family that was made up.
type madeUp struct {
	label, kind string
	values      []string
	numbers     []float64 // that the next probe brings, by value of the label; negative is none
	vec         any       // in client_golang
}

// labelText are values of labels and texts that need care.
var labelTexts = []string{"a", "b", "A", "a!", "modèle", `quote " slash \ line` + "\n", "x y", "0"}

func newEncoderLab(r *rapid.T) *encoderLab {
	l := &encoderLab{store: NewProbes(time.Now), reference: prometheus.NewRegistry()}
	configured := rapid.SampledFrom([][]string{nil, {"a_zone"}, {"a_zone", "team"}}).Draw(r, "configured")
	text := rapid.SampledFrom(labelTexts)
	for _, endpoint := range rapid.SliceOfNDistinct(text, 1, 4, rapid.ID).Draw(r, "endpoints") {
		labels := prometheus.Labels{"endpoint": endpoint, "module": text.Draw(r, "module")}
		for _, name := range configured {
			labels[name] = text.Draw(r, name)
		}
		l.labels = append(l.labels, labels)
	}
	var rows []*probeFamily
	for i := range rapid.IntRange(1, 8).Draw(r, "families") {
		rows = append(rows, l.family(r, i))
	}
	for i, f := range l.families {
		l.register(f, rows[i].family)
	}
	l.store.rows = newProbeTable(rows)
	for _, labels := range l.labels {
		own := map[string]string{}
		for _, name := range configured {
			own[name] = labels[name]
		}
		id := result.SeriesID{Endpoint: labels["endpoint"], Module: labels["module"]}
		l.series = append(l.series, l.store.named(id.Endpoint, own).Open(id, SeriesOptions{}))
	}
	return l
}

// family makes up a family.
func (l *encoderLab) family(r *rapid.T, i int) *probeFamily {
	f := &madeUp{kind: rapid.SampledFrom([]string{"count", "sum", "gauge", "summary", "histogram"}).Draw(r, "kind"), values: []string{""}}
	name := fmt.Sprint("family_", i)
	help := strings.Join(rapid.SliceOfN(rapid.SampledFrom(labelTexts), 1, 3).Draw(r, "help"), "")
	out, unit := row{Name: name}, ""
	if rapid.Bool().Draw(r, "unit") {
		out.Name, unit = name+"_seconds", "seconds"
	}
	if rapid.Bool().Draw(r, "labelled") && f.kind != "histogram" {
		f.label = rapid.SampledFrom([]string{"kind", "outcome", "stat", "verdict"}).Draw(r, "label")
		f.values = rapid.SliceOfNDistinct(rapid.SampledFrom(labelTexts), 1, 4, rapid.ID).Draw(r, "values")
		out.Label, out.Values = f.label, f.values
	}
	number := func(_ *probe, i int) float64 { return f.numbers[i] }
	duration := func(_ *probe, i int) time.Duration { return time.Duration(f.numbers[i] * 1e9) }
	switch f.kind {
	case "count":
		out.Name += "_total"
		out.Count = func(_ *probe, i int) int { return int(f.numbers[i]) }
	case "sum":
		out.Name += "_total"
		out.Sum = func(p *probe, i int) float64 { return max(0, number(p, i)) }
	case "gauge":
		out.Gauge = func(p *probe, i int, _ float64) float64 { return orAbsent(number(p, i)) }
	case "summary":
		out.Time = duration
	case "histogram":
		out.Time = duration
		out.Bounds = rapid.SampledFrom([][]float64{ttftBounds, gapBounds, durationBounds}).Draw(r, "bounds")
	}
	l.families = append(l.families, f)
	return newRow(Family{Name: namePrefix + out.Name, Group: GroupProbe, Unit: unit, Help: help}, nil, out)
}

// register adds the family to the reference, with all samples that are there from the start.
func (l *encoderLab) register(f *madeUp, described *family) {
	names := slices.Collect(maps.Keys(l.labels[0]))
	if f.label != "" {
		names = append(names, f.label)
	}
	opts := described.opts()
	switch f.kind {
	case "count", "sum":
		f.vec = prometheus.NewCounterVec(prometheus.CounterOpts(opts), names)
	case "gauge":
		f.vec = prometheus.NewGaugeVec(prometheus.GaugeOpts(opts), names)
	case "summary":
		f.vec = prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: opts.Name, Help: opts.Help, Unit: opts.Unit}, names)
	case "histogram":
		f.vec = prometheus.NewHistogramVec(described.histogramOpts(described.bounds), names)
	}
	l.reference.MustRegister(f.vec.(prometheus.Collector))
	for _, labels := range l.labels {
		for i := range f.values {
			f.observe(labels, i, -1, nil)
		}
	}
}

// probe observes a probe that brings any numbers, in both.
func (l *encoderLab) probe(r *rapid.T) {
	i := rapid.IntRange(0, len(l.series)-1).Draw(r, "series")
	p := &result.Result{Outcome: result.Success, Start: time.Now(), TraceID: [16]byte{rapid.Byte().Draw(r, "trace")}}
	for _, f := range l.families {
		f.numbers = nil
		for own := range f.values {
			v := float64(rapid.IntRange(-1, 1000).Draw(r, "number"))
			switch f.kind {
			case "count":
			case "sum": // client_golang adds up whole numbers apart, so that others must add up exactly
				v /= 1024
			default:
				v = rapid.SampledFrom([]float64{v, v / 1024, v * 1e-6, 0.005, 160, 3e5, 1e6}).Draw(r, "fraction")
			}
			f.numbers = append(f.numbers, v)
			var trace prometheus.Labels
			if p.TraceID != [16]byte{} {
				trace = prometheus.Labels{"trace_id": hex.EncodeToString(p.TraceID[:])}
			}
			f.observe(l.labels[i], own, v, trace)
		}
	}
	l.series[i].Observe(p)
}

// observe takes a number into client_golang's metric; a negative one only makes the metric.
func (f *madeUp) observe(labels prometheus.Labels, own int, v float64, trace prometheus.Labels) {
	labels = maps.Clone(labels)
	if f.label != "" {
		labels[f.label] = f.values[own]
	}
	switch vec := f.vec.(type) {
	case *prometheus.CounterVec:
		vec.With(labels).Add(max(0, v))
	case *prometheus.GaugeVec:
		if vec.Delete(labels); v >= 0 {
			vec.With(labels).Set(v)
		}
	case *prometheus.SummaryVec:
		if m := vec.With(labels); v >= 0 {
			m.Observe(time.Duration(v * 1e9).Seconds())
		}
	case *prometheus.HistogramVec:
		if m := vec.With(labels); v >= 0 {
			m.(prometheus.ExemplarObserver).ObserveWithExemplar(time.Duration(v*1e9).Seconds(), trace)
		}
	}
}

// rowOf returns a family of the series of probes by its name without the prefix.
func rowOf(p *Probes, name string) *probeFamily {
	i := slices.IndexFunc(p.rows.families, func(f *probeFamily) bool { return f.Name == namePrefix+name })
	return p.rows.families[i]
}

// failer is a test, or a case of one.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// compare holds the page of the store against the reference in each format.
func compare(t failer, store Store, ref prometheus.Gatherer) { compareBut(t, store, ref, nil) }

// compareBut leaves out the times of exemplars, which ends the lines that match, unless it
// is nil.
func compareBut(t failer, store Store, ref prometheus.Gatherer, times *regexp.Regexp) {
	t.Helper()
	page := NewExposition(prometheus.NewRegistry(), store)
	for _, format := range Formats() {
		var got, want bytes.Buffer
		if err := page.Write(&got, format); err != nil {
			t.Fatal(err)
		}
		families, err := ref.Gather()
		if err != nil {
			t.Fatal(err)
		}
		if err := writeFamilies(&want, format, families); err != nil {
			t.Fatal(err)
		}
		if format.FormatType() == expfmt.TypeProtoDelim {
			compareFamilies(t, decode(t, &want), decode(t, &got), times == nil)
			continue
		}
		if times != nil {
			want, got = *bytes.NewBuffer(times.ReplaceAll(want.Bytes(), []byte("$1"))), *bytes.NewBuffer(times.ReplaceAll(got.Bytes(), []byte("$1")))
		}
		if bytes.Equal(want.Bytes(), got.Bytes()) {
			continue
		}
		if d := cmp.Diff(strings.Split(want.String(), "\n"), strings.Split(got.String(), "\n")); d != "" {
			t.Errorf("%s (-client_golang +store):\n%s", format, clip(d))
		}
	}
}

// compareFamilies holds decoded families against each other. Created timestamps
// are left out: client_golang creates a few of the metrics later, when they are
// first seen.
func compareFamilies(t failer, want, got []*dto.MetricFamily, times bool) {
	t.Helper()
	if len(want) != len(got) {
		t.Fatalf("%d families, want %d", len(got), len(want))
	}
	for i := range want {
		for _, m := range append(slices.Clone(want[i].Metric), got[i].Metric...) {
			clearCreated(m)
			for _, b := range m.GetHistogram().GetBucket() {
				if b.Exemplar != nil && !times {
					b.Exemplar.Timestamp = nil
				}
			}
		}
		if !proto.Equal(want[i], got[i]) {
			t.Errorf("protobuf (-client_golang +store):\n%s", clip(cmp.Diff(want[i], got[i], protocmp.Transform())))
		}
	}
}

// clearCreated takes the created timestamp out of m.
func clearCreated(m *dto.Metric) {
	switch {
	case m.Counter != nil:
		m.Counter.CreatedTimestamp = nil
	case m.Summary != nil:
		m.Summary.CreatedTimestamp = nil
	case m.Histogram != nil:
		m.Histogram.CreatedTimestamp = nil
	}
}

// decode reads delimited families.
func decode(t failer, r io.Reader) []*dto.MetricFamily {
	t.Helper()
	var out []*dto.MetricFamily
	dec := expfmt.NewDecoder(r, expfmt.FmtProtoDelim)
	for {
		f := &dto.MetricFamily{}
		switch err := dec.Decode(f); {
		case errors.Is(err, io.EOF):
			return out
		case err != nil:
			t.Fatal(err)
		}
		out = append(out, f)
	}
}

// clip keeps a failure readable.
func clip(s string) string {
	return s[:min(len(s), 4000)]
}

// target is one series of the tests.
type target struct {
	result.SeriesID
	Labels map[string]string
	model  string
}

// options returns those of a series with objectives that is probed at each interval.
func (t target) options() SeriesOptions {
	return SeriesOptions{Objectives: series.NewObjectives(strict()), Log: new(series.Log), Interval: 15 * time.Second, Timeout: time.Minute}
}

// targets are series with label values that need care, in no order. Each has an
// endpoint of its own: with several modules the store keeps the samples of a
// series together, where client_golang sorts by kind or outcome first. Sized ones
// have lengths and a concurrency.
func targets(sized bool) []target {
	labels := func(team, zone string) map[string]string { return map[string]string{"team": team, "a_zone": zone} }
	all := []target{
		{result.SeriesID{Endpoint: "llama", Module: "interactive", Prefix: "cold"}, labels("search", "fra1"), "meta-llama/Llama-3.1-8B-Instruct"},
		{result.SeriesID{Endpoint: `quote " slash \ line` + "\n", Module: "interactive", Prefix: "warm"}, labels("a", "b"), "modèle"},
		{result.SeriesID{Endpoint: "Llama", Module: "long", Prefix: "warm"}, labels("search", "fra1"), "meta-llama/Llama-3.1-8B-Instruct"},
		{result.SeriesID{Endpoint: "llama!", Module: "interactive", Prefix: "cold"}, labels("search", "fra1"), "m"},
	}
	if sized {
		for i := range all {
			all[i].InputTokens, all[i].OutputTokens, all[i].Concurrency = "8000", "32", "16"
		}
	}
	return all
}

func (t target) info() EndpointInfo {
	return EndpointInfo{Endpoint: t.Endpoint, Model: t.model, API: "openai-chat", Engine: "vllm", URL: "http://" + t.Module, Labels: t.Labels}
}

// findings returns what identifies the findings of the target.
func (t target) findings() FindingsID {
	return FindingsID{Endpoint: t.Endpoint, Module: t.Module, Labels: t.Labels}
}

// randomResult makes up a result. The durations spread over the given octaves
// around 50 ms; some are zero, absent, or exactly a bound.
func randomResult(r *rand.Rand, model string, octaves float64) *result.Result {
	duration := func() time.Duration {
		switch r.IntN(12) {
		case 0:
			return 0
		case 1:
			return result.Absent
		case 2:
			return time.Duration(ttftBounds[r.IntN(len(ttftBounds))] * 1e9)
		}
		return time.Duration(0.05e9 * math.Exp2(octaves*(r.Float64()-0.5)))
	}
	count := func(n int) int { return r.IntN(n+1) - 1 }
	res := &result.Result{
		Start: time.Now(), Model: model, Status: 200, Outcome: result.Success,
		Timing: result.Timing{TTFT: duration(), TTFO: duration(), TPOT: duration(), MaxGap: duration(), Duration: duration()},
		Tokens: result.Tokens{
			Prompt: count(5000), Cached: count(100), Output: count(2000), Reasoning: count(50),
			Source: []result.TokenSource{result.TokensFromUsage, result.TokensFromEvents}[r.IntN(2)],
		},
		Server:    api.ServerTimes{Queue: duration(), Prefill: duration(), Decode: duration()},
		RateLimit: api.RateLimit{Requests: count(100), Tokens: count(3)},
		Buffered:  r.IntN(5) == 0, Imprecise: r.IntN(5) == 0, NoEndMarker: r.IntN(5) == 0,
		NoFinish: r.IntN(5) == 0, MoreEvents: r.IntN(5) == 0, MaxTokensIgnored: r.IntN(5) == 0,
		Answer: result.Answer{Verdict: append(result.AnswerVerdicts(), "")[r.IntN(6)]},
	}
	if r.IntN(4) == 0 {
		res.Outcome = result.Outcomes()[r.IntN(len(result.Outcomes()))]
	}
	if r.IntN(4) > 0 {
		for i := range res.TraceID {
			res.TraceID[i] = byte(r.Uint32())
		}
	}
	if r.IntN(3) > 0 {
		res.CertNotAfter = res.Start.Add(duration() * 1000)
	}
	for i := range res.Timing.Phases {
		res.Timing.Phases[i] = duration()
	}
	at := time.Duration(0)
	for range r.IntN(20) {
		res.Events = append(res.Events, result.Event{At: at, ReadLag: result.Absent, Merged: r.IntN(6) == 0})
		at += max(0, duration())
	}
	return res
}

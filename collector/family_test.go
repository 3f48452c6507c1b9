package collector

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// ownLabelOf returns the own label of a name; ownNone for an unknown one.
func ownLabelOf(name string) ownLabel {
	return newFamily(Family{Labels: []string{name}, Values: []string{""}}, nil).own
}

func TestLabelBlock(t *testing.T) {
	f := func(base []pair, configured map[string]string, want string) {
		t.Helper()
		l := newLabeller()
		l.reserved = []string{"model", "outcome"}
		b := l.block(base, configured)
		if b.text != want {
			t.Errorf("labels %s, want %s", b.text, want)
		}
	}
	f(nil, nil, "")
	f([]pair{{"endpoint", "e"}, {"model", ""}, {"module", "i"}}, nil, `endpoint="e",module="i",`)
	f([]pair{{"endpoint", "e"}}, map[string]string{"zone": "z", "a": "1", "empty": "", "model": "no", "outcome": "no"}, `a="1",endpoint="e",zone="z",`)
	f([]pair{{"endpoint", "a\\b\"c\nd"}}, nil, `endpoint="a\\b\"c\nd",`)
	f([]pair{{"endpoint", "a\xffb"}}, nil, "endpoint=\"a\uFFFDb\",")
}

// The own label of each family has a place among the others.
func TestOwnLabelsAreKnown(t *testing.T) {
	if !slices.IsSorted(ownNames[:]) {
		t.Errorf("names %v are not sorted", ownNames)
	}
	for _, f := range Catalogue() {
		if stored := f.Group == GroupEndpoint || f.Group == GroupProbe || f.Group == GroupServer; stored && f.Values != nil {
			if own := f.Labels[len(f.Labels)-1]; ownLabelOf(own) == ownNone {
				t.Errorf("%s: label %s has no place", f.Name, own)
			}
		}
	}
}

// Each own label is sorted by name among the others.
func TestOwnLabelPlace(t *testing.T) {
	b := newLabeller().block([]pair{{"endpoint", "e"}, {"model", "m"}, {"module", "i"}, {"prefix", "cold"}, {"s", "t"}}, nil)
	f := func(name, want string) {
		t.Helper()
		at := b.at[ownLabelOf(name)]
		if got := b.text[:at.text] + "|" + b.text[at.text:]; got != want {
			t.Errorf("%s goes to %s, want %s", name, got, want)
		}
	}
	f("", `endpoint="e",model="m",module="i",prefix="cold",s="t",|`)
	f("kind", `endpoint="e",|model="m",module="i",prefix="cold",s="t",`)
	f("part", `endpoint="e",model="m",module="i",|prefix="cold",s="t",`)
	f("outcome", `endpoint="e",model="m",module="i",|prefix="cold",s="t",`)
	f("reason", `endpoint="e",model="m",module="i",prefix="cold",|s="t",`)
	f("slo", `endpoint="e",model="m",module="i",prefix="cold",s="t",|`)
	f("stat", `endpoint="e",model="m",module="i",prefix="cold",s="t",|`)
	f("verdict", `endpoint="e",model="m",module="i",prefix="cold",s="t",|`)
	f("source", `endpoint="e",model="m",module="i",prefix="cold",s="t",|`)
}

// Blocks whose labels are of the same lengths share the places of the own labels, and no
// others do.
func TestOwnLabelPlacesAreShared(t *testing.T) {
	l := newLabeller()
	block := func(endpoint, model string) *labelBlock {
		return l.block([]pair{{"endpoint", endpoint}, {"model", model}}, nil)
	}
	a, b, longer := block("a", "m"), block("b", "n"), block("aa", "m")
	if a.at != b.at || a.at == longer.at {
		t.Errorf("places %p and %p of equal lengths, %p of others", a.at, b.at, longer.at)
	}
	for i := range 2 * maxPlaces {
		block(strings.Repeat("x", i), "")
	}
	if len(l.places) > maxPlaces {
		t.Errorf("%d places are kept", len(l.places))
	}
}

func FuzzBoundModel(f *testing.F) {
	f.Add("meta-llama/Llama-3.1-8B-Instruct")
	f.Add(strings.Repeat("é", 65))
	f.Add(strings.Repeat("x", 127) + "\xf0\x9f\x98\x80")
	f.Add("\xff\xfe")
	f.Fuzz(func(t *testing.T, name string) {
		got := boundModel(name)
		if len(got) > maxModelBytes || !utf8.ValidString(got) {
			t.Errorf("boundModel(%q) = %q, %d bytes", name, got, len(got))
		}
		if utf8.ValidString(name) && len(name) <= maxModelBytes && got != name {
			t.Errorf("boundModel(%q) = %q, want it unchanged", name, got)
		}
		if boundModel(got) != got {
			t.Errorf("boundModel is not stable on %q", got)
		}
	})
}

// Rungs of a ladder and bursts have their own series, distinguished by labels
// that other series do not have.
func TestSizes(t *testing.T) {
	p := NewProbes(time.Now)
	e := p.named("e", map[string]string{"concurrency": "reserved"})
	ids := []result.SeriesID{
		{InputTokens: "8000"}, {InputTokens: "32000"}, {InputTokens: "8000", OutputTokens: "32"}, {OutputTokens: "8000"}, {Concurrency: "4"}, {Concurrency: "16"},
	}
	for i, id := range ids {
		id.Endpoint, id.Module, id.Prefix = "e", "i", "cold"
		for range i + 1 {
			e.Open(id, SeriesOptions{}).Observe(failure())
		}
	}
	got := samples(t, p)
	for labels, want := range map[string]string{
		`endpoint="e",model="m",module="i",outcome="connect_error",prefix="cold"`:                                        "",
		`endpoint="e",input_tokens="8000",model="m",module="i",outcome="connect_error",prefix="cold"`:                    "1",
		`endpoint="e",input_tokens="32000",model="m",module="i",outcome="connect_error",prefix="cold"`:                   "2",
		`endpoint="e",input_tokens="8000",model="m",module="i",outcome="connect_error",output_tokens="32",prefix="cold"`: "3",
		`endpoint="e",model="m",module="i",outcome="connect_error",output_tokens="8000",prefix="cold"`:                   "4",
		`concurrency="4",endpoint="e",model="m",module="i",outcome="connect_error",prefix="cold"`:                        "5",
		`concurrency="16",endpoint="e",model="m",module="i",outcome="connect_error",prefix="cold"`:                       "6",
	} {
		if got := got["inference_probe_results_total{"+labels+"}"]; got != want {
			t.Errorf("results of %s = %q, want %q", labels, got, want)
		}
	}
}

// A series without objectives has nothing of them, before and after its model
// changed: bursts are not what users were promised.
func TestNoObjectives(t *testing.T) {
	p, _ := newStore()
	s := p.Open(result.SeriesID{Endpoint: "e", Module: "b", Prefix: "cold", Concurrency: "4"}, SeriesOptions{})
	for _, model := range []string{"m", "n"} {
		r := success()
		r.Model, r.Concurrency = model, 4
		s.Observe(r)
		judge(s, r)
		for name := range samples(t, p) {
			if strings.Contains(name, "slo") || strings.Contains(name, "window") {
				t.Errorf("%s without an objective", name)
			}
		}
	}
}

// scored returns a success that scored a passage: nothing was generated.
func scored() *result.Result {
	r := success()
	r.Kind = api.Scoring
	r.Timing = result.Timing{TTFT: result.Absent, TTFO: result.Absent, TPOT: result.Absent, MaxGap: result.Absent, Duration: 150 * time.Millisecond}
	for i := range r.Timing.Phases {
		r.Timing.Phases[i] = result.Absent
	}
	r.Timing.Phases[result.PhaseFirstByte] = 150 * time.Millisecond
	r.Tokens = result.Tokens{Prompt: 200, Cached: -1, Output: -1, Reasoning: -1}
	r.Logprob = result.Logprob{Tokens: 199, Mean: -1.5}
	return r
}

// A series that scores has what all kinds have, and nothing of generation or of
// vectors.
func TestScoring(t *testing.T) {
	p, s := newStore()
	s.configure(SeriesOptions{Kind: api.Scoring, Objectives: series.NewObjectives(strict()), Log: new(series.Log), Price: exactPrice()})
	s.Observe(scored())
	judge(s, scored())
	shared := map[string]bool{}
	for _, f := range probeFamilies() {
		shared[f.Name] = f.Kinds == nil
	}
	got := samples(t, p)
	for name := range got {
		family, labels, _ := strings.Cut(name, "{")
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			family = strings.TrimSuffix(family, suffix)
		}
		if !shared[family] || strings.Contains(labels, `slo="ttft"`) || strings.Contains(labels, `slo="tpot"`) {
			t.Errorf("a series that scores has %s", name)
		}
	}
	has(t, p, map[string]string{
		"probe_success":                               "1",
		"probe_duration_seconds_count":                "1",
		`probe_phase_seconds_sum phase="first_byte"`:  "0.15",
		`probe_phase_seconds_sum phase="decode"`:      "",
		"probe_prompt_tokens_total":                   "200",
		`probe_slo_eligible_total slo="availability"`: "1",
		`probe_slo_eligible_total slo="e2e"`:          "1",
		`probe_slo_bad_total slo="e2e"`:               "0",
		`probe_cost_usd_total kind="input"`:           "0.1953125", // 200/1024
	})
}

package explain

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/workload/drift"
	"github.com/inference-exporter/inference_exporter/internal/workload/loadtest"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// sameDecoded wants the findings of evidence to be those of what is decoded of it.
func sameDecoded(t *testing.T, name string, e *Evidence) {
	t.Helper()
	text, err := Encode(e)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	decoded, err := Decode(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	want, got := texts(Explain(e)), texts(Explain(decoded))
	if !slices.Equal(got, want) {
		t.Errorf("%s: decoded it is explained by\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if again, err := Encode(decoded); err != nil || string(again) != string(text) {
		t.Errorf("%s: encoded again it is %v\n%s\nwant\n%s", name, err, again, text)
	}
}

func TestCodec(t *testing.T) {
	for _, c := range constructed() {
		sameDecoded(t, c.name, c.e)
	}
	e := slow([3]float64{2.2, 0.4, 1}, calmTPOT)
	e.Condition = Condition{State: health.Slow, Since: noon.Add(-time.Hour), Failed: 3, Of: 40, Spells: 2, Witness: health.Both, Users: "users: <many> requests"}
	e.Servers = &Pages{Known: 3, Up: 2, Usual: 3, Lost: []string{"c:8000: connect"}, Levels: Levels{config.RequestsWaiting: levels(9, 0), config.QueueTime: levels(1.6, 0)}}
	e.Steps = []Step{{At: float64(noon.Add(-time.Hour).Unix()), Module: "interactive", Metric: series.MetricTTFT, Before: 0.4, After: 2.2, Beside: []string{"the server restarted"}}}
	e.Changes = []Change{{At: noon.Add(-time.Hour), Module: "watched", What: string(drift.SourceModel)}}
	e.Facts = known(
		drift.Changes{Names: &drift.Change{Source: drift.SourceModel, Since: noon.Add(-time.Hour), From: "a", To: "b"}},
		&page.Compared{Findings: []page.Difference{{Setting: "version", Since: 1, Values: map[string][]string{"1": {"a"}, "2": {"b"}}}}},
		&loadtest.Loss{Now: &loadtest.Headroom{Lower: 0.8, Upper: new(0.9)}},
		&page.TTFTParts{TTFT: 2.2, Seconds: [5]*float64{new(0.01), nil, new(1.9), nil, new(0.29)}},
	)
	e.Common = &Shared{Factor: Factor{"host", "gpu-3"}, Cause: Network, Endpoints: []string{"a", "e"}, All: 2, Outside: 7, OutsideFailing: 1}
	e.Exporter = Exporter{Skipped: map[result.SkipReason]int{result.SkipLimit: 2}, SkippedAt: map[result.SkipReason]time.Time{result.SkipLimit: noon}, Text: "raise the limit"}
	all := strings.Join(texts(Explain(e)), "\n")
	for _, used := range []string{"2 of 3 servers up", "rose from 400 ms", "model changed at", "b answers since", "version: ", "one server fewer", "TTFT in parts", "all of host gpu-3", "<many>"} {
		if !strings.Contains(all, used) {
			t.Errorf("%q is not used in\n%s", used, all)
		}
	}
	sameDecoded(t, "all facts", e)
	sameDecoded(t, "retired", with(of(health.Down, many(6, Probe{Outcome: result.HTTPError, Status: 404})...), func(e *Evidence) {
		e.Facts = known(health.Retirement{Retirement: api.Retirement{Listed: 1}})
	}))
	for name, change := range map[string]func(*Probe){
		"prefill in replies": func(p *Probe) { p.Server.Prefill = 2 * time.Second },
		"buffered":           func(p *Probe) { p.Buffered = true },
		"started late":       func(p *Probe) { p.StartLag = 2 * time.Second },
	} {
		e := slow([3]float64{2.2, 0.4, 1}, calmTPOT)
		for _, p := range e.Probes {
			change(p)
		}
		if Explain(e)[0].Cause == Unknown {
			t.Errorf("%s: nothing is found", name)
		}
		sameDecoded(t, name, e)
	}
}

// What cannot be used is refused with what is wrong.
func TestDecodeRefuses(t *testing.T) {
	for text, want := range map[string]string{
		``:                              "not evidence: unexpected end",
		`{"at":"2026-11-22T12:00:00Z"}`: "want a time and a state",
		`{"state":"down"}`:              "want a time and a state",
		`{"at":"2026-11-22T12:00:00Z","state":"down","probes":[{"start":"2026-11-22T12:00:00Z","outcome":"other"}]}`: "probes[0] has no time or an unknown outcome",
		`{"at":"2026-11-22T12:00:00Z","state":"down","probes":[null]}`:                                               "probes[0] has no time or an unknown outcome",
	} {
		if e, err := Decode([]byte(text)); err == nil || e != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// Whatever is decoded can be explained.
func FuzzDecode(f *testing.F) {
	for _, c := range constructed() {
		text, err := Encode(c.e)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if e, err := Decode(text); err == nil && len(Explain(e)) == 0 {
			t.Error("no finding")
		}
	})
}

package status

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// A step is on the page of its series, the latest first, beside what changed then: names
// that replies report, the certificate, how many servers could be read, findings, and the
// configuration.
func TestSteps(t *testing.T) {
	l := newLab(t)
	p := l.open(result.SeriesID{Module: "m", Prefix: "cold"})[0]
	observe := func(model, software string, expires time.Time) {
		r := success(l.now)
		r.Model, r.Engine, r.CertNotAfter = model, software, expires
		p.Observe(r)
	}
	up := page.Status{Snapshot: &page.Snapshot{}}
	first, second := epoch().AddDate(0, 1, 0), epoch().AddDate(0, 4, 0)
	observe("a", "vllm", first)
	l.board.SetServers("e", []page.Status{up, up})
	l.pass(time.Hour)
	l.board.Note("e", "m", "long before")
	l.pass(time.Hour)
	at := l.now
	observe("b", "sglang", second)
	l.board.SetServers("e", []page.Status{up, {}})
	l.pass(time.Minute)
	l.board.SetEndpoint(configured("e"))
	l.board.Note("e", "m", "another answer")
	l.pass(time.Hour)
	l.board.Note("e", "m", "long after")

	p.AddStep(series.Step{At: at, Metric: series.MetricTTFT, Before: 0.2, After: 0.3, Lower: 1.4, Upper: 1.6})
	p.AddStep(series.Step{At: at.Add(20 * time.Minute), Metric: series.MetricFailures, Before: 0, After: 0.25})
	got := l.detail("e").Series[0].Steps
	expectJSON(t, got, `[
		{"at": 1767331445, "metric": "failures", "before": 0, "after": 0.25},
		{"at": 1767330245, "metric": "ttft", "before": 0.2, "after": 0.3, "lower": 1.4, "upper": 1.6, "beside": [
			"model changed from a to b", "engine changed from vllm to sglang",
			"certificate changed: it now expires at 2026-05-02T03:04:05Z",
			"servers that can be read changed from 2 to 1", "configuration of the endpoint changed", "another answer"]}]`)
	texts := []string{}
	for _, c := range l.detail("e").Changes {
		texts = append(texts, c.Text)
	}
	if want := "failures rose from 0 to 25 % of the probes"; !slices.Contains(texts, want) {
		t.Errorf("changes %q, want %q among them", texts, want)
	}

	for i := range 20 {
		p.AddStep(series.Step{At: at.Add(time.Duration(i) * time.Hour), Metric: series.MetricTPOT, Before: 2, After: 1, Lower: 0.4, Upper: 0.6})
	}
	if got := l.detail("e").Series[0].Steps; len(got) != 8 || got[0].At != stats.UnixSeconds(at.Add(19*time.Hour)) {
		t.Errorf("%d steps, the latest at %v", len(got), got[0].At)
	}
}

// Another address after ten probes of one is beside a step, and so is a restart of the
// exporter; a name with addresses that take turns has no changes.
func TestAddressesAndRestartsBesideSteps(t *testing.T) {
	l := newLab(t)
	p := l.open(result.SeriesID{Module: "m", Prefix: "cold"})[0]
	reach := func(addresses ...string) {
		for _, a := range addresses {
			l.pass(time.Second)
			r := success(l.now)
			if a != "" {
				r.Address = netip.MustParseAddr(a)
			}
			p.Observe(r)
		}
	}
	beside := func() []string {
		p.AddStep(series.Step{At: l.now, Metric: series.MetricTTFT, Before: 0.2, After: 0.3, Lower: 1.4, Upper: 1.6})
		return l.detail("e").Series[0].Steps[0].Beside
	}
	for range 20 {
		reach("10.0.0.1", "10.0.0.2", "")
	}
	if got := beside(); got != nil {
		t.Errorf("turns: %q", got)
	}
	reach(slices.Repeat([]string{"10.0.0.1"}, minSettled+1)...)
	reach("2001:db8::7")
	l.board.Restarted()
	l.board.endpoint("e").AddEvent("clocks of GPU-1 reduced: hw_thermal")
	l.pass(time.Minute)
	want := []string{"address changed from 10.0.0.1 to 2001:db8::7", "clocks of GPU-1 reduced: hw_thermal", "exporter restarted"}
	if got := beside(); !slices.Equal(got, want) {
		t.Errorf("beside %q, want %q", got, want)
	}
	if got := p.Steps(); len(got) != 2 || !got[1].Time().Equal(l.now) {
		t.Errorf("steps %+v", got)
	}
}

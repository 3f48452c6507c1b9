package otlp

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	dto "github.com/prometheus/client_model/go"
	"go.opentelemetry.io/collector/pdata/pmetric"
)

// comparison is what pushes had in common with the pages before and after them. A gauge
// may have changed between the two pages and changed back, and so may be whether it
// exists; what grows cannot.
type comparison struct {
	t       *testing.T
	pushes  int
	exact   map[string]bool // series whose point was the same on both pages and in the push
	between map[string]bool // series that grew from one page to the other, and their point with them
	pushed  map[string]bool // gauges of pushes that were on neither page
}

// units are those of the exporter's families as UCUM has them, with annotations for what
// it has not.
func units() map[string]string {
	return map[string]string{
		"": "", "seconds": "s", "bytes": "By", "ratio": "1", "tokens": "{tokens}", "usd": "{usd}",
		"usd_per_hour": "{usd}/h", "usd_per_token": "{usd}/{token}", "tokens_per_second": "{tokens}/s",
		"characters": "{characters}", "characters_per_second": "{characters}/s",
		"percent": "%", "threads": "{threads}", // of the Go runtime
	}
}

// same returns the difference between the point of a page and that of a push.
func same(onPage, pushed *point) string {
	want := *onPage
	unit, known := units()[want.Unit]
	if !known {
		return "not known as UCUM: " + want.Unit
	}
	want.Unit = unit
	return gocmp.Diff(&want, pushed, cmpopts.EquateNaNs(), cmpopts.EquateEmpty())
}

// ofConventions reports whether a series is not of the page, but of the conventions for
// generative AI.
func ofConventions(series string) bool { return strings.HasPrefix(series, "gen_ai.") }

// compare compares a push with the page before and the page after.
func (c *comparison) compare(before *page, m pmetric.Metrics, after *page) {
	c.t.Helper()
	checkOrigin(c.t, m)
	pushed := ofPush(c.t, m)
	for series, p := range pushed {
		switch {
		case before.points[series] != nil || after.points[series] != nil || ofConventions(series):
		case p.grows():
			c.t.Errorf("%s was pushed and is not on the page: %+v", series, p)
		default:
			c.pushed[series] = true
		}
	}
	for series, b := range before.points {
		a, p := after.points[series], pushed[series]
		switch {
		case a == nil: // it ended
		case p == nil:
			if b.grows() {
				c.t.Errorf("%s is on the page and was not pushed: %+v", series, b)
			}
		case gocmp.Equal(a, b, cmpopts.EquateNaNs()):
			likely := *p
			if !p.grows() {
				likely.Value = b.Value
			}
			if diff := same(b, &likely); diff != "" {
				c.t.Errorf("%s differs from the page:\n%s", series, diff)
			}
			c.exact[series] = c.exact[series] || likely.Value == p.Value || math.IsNaN(p.Value)
		case b.grows() && a.Start == b.Start && b.Start == p.Start:
			c.between[series] = true
			if !within(b, p, a) {
				c.t.Errorf("%s is not between the pages before and after:\n%+v\n%+v\n%+v", series, b, p, a)
			}
		}
	}
	c.pushes++
	for _, f := range before.families {
		for _, m := range f.Metric {
			checkForms(c.t, f.GetName(), m.Histogram)
		}
	}
}

// within reports whether every number of a point that grows is between those before and
// after.
func within(before, p, after *point) bool {
	ok := before.Value <= p.Value && p.Value <= after.Value && before.Count <= p.Count && p.Count <= after.Count && before.Zero <= p.Zero
	for bound, n := range p.Buckets {
		ok = ok && before.Buckets[bound] <= n && n <= after.Buckets[bound]
	}
	return ok
}

// checkForms checks by the classic buckets of a native histogram that ofPage has
// understood its buckets: what ends at or below a bound is counted up to it, and what
// begins at or above it is not.
func checkForms(t *testing.T, name string, h *dto.Histogram) {
	t.Helper()
	if h.GetSchema() == 0 || len(h.GetBucket()) == 0 {
		return
	}
	var p point
	p.histogramOfPage(h)
	for _, b := range h.Bucket {
		least, most := p.Zero, p.Zero
		for end, n := range p.Buckets {
			if end <= b.GetUpperBound()*(1+1e-12) {
				least += n
			}
			if begin := end / power(1, p.Scale); begin*(1+1e-12) < b.GetUpperBound() {
				most += n
			}
		}
		if got := b.GetCumulativeCount(); got < least || got > most {
			t.Errorf("%s has %d observations up to %v, and by its native form %d to %d", name, got, b.GetUpperBound(), least, most)
		}
	}
}

// checkOrigin checks the resource and the scope of a push.
func checkOrigin(t *testing.T, m pmetric.Metrics) {
	t.Helper()
	for _, resource := range m.ResourceMetrics().All() {
		as := texts(resource.Resource().Attributes())
		names := slices.Sorted(maps.Keys(as))
		if !slices.Equal(names, []string{"service.instance.id", "service.name", "service.version"}) || as["service.name"] != "inference_exporter" || as["service.instance.id"] == "" {
			t.Errorf("resource %v", as)
		}
		for _, scope := range resource.ScopeMetrics().All() {
			if s := scope.Scope(); s.Name() != "github.com/inference-exporter/inference_exporter" || s.Version() != as["service.version"] {
				t.Errorf("scope %s %q", s.Name(), s.Version())
			}
			if !strings.HasPrefix(scope.SchemaUrl(), "https://opentelemetry.io/schemas/") {
				t.Errorf("schema %q", scope.SchemaUrl())
			}
		}
	}
}

// watch compares push after push with the pages that it reads just before and after it,
// until done, and returns the last page.
func (s *stand) watch(what string, c *comparison, done func(*page) bool) *page {
	s.t.Helper()
	c.exact, c.between, c.pushed = map[string]bool{}, map[string]bool{}, map[string]bool{}
	for deadline := time.Now().Add(patience); ; {
		before := s.read()
		m := s.pushAfter(before.ended)
		after := s.read()
		c.compare(before, m, after)
		if s.t.Failed() || done(after) {
			return after
		}
		if time.Now().After(deadline) {
			s.t.Errorf("waited %v for %s, after %d pushes", patience, what, c.pushes)
			return after
		}
	}
}

// pushAfter waits for a push of the page that began after a time.
func (s *stand) pushAfter(at time.Time) pmetric.Metrics {
	s.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		for _, p := range slices.Backward(s.collector.received()) {
			if p.received.Before(at) {
				break
			}
			if !onlyConventions(p.metrics) && stampOf(p.metrics).After(at) {
				return p.metrics
			}
		}
	}
	s.t.Fatal("no push")
	return pmetric.Metrics{}
}

// onlyConventions reports whether a request has no metric of the page.
func onlyConventions(m pmetric.Metrics) bool {
	return ofConventions(m.ResourceMetrics().At(0).ScopeMetrics().At(0).Metrics().At(0).Name())
}

// unsteady reports whether a family changes all the time, with each look at the page or
// with each push.
func unsteady(name string) bool {
	return strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") || strings.HasPrefix(name, "inference_exporter_scrape_") ||
		name == "inference_exporter_metrics_pushes_total"
}

// left returns the steady series of a page that no push was equal to or, where they grow
// between any two pages of a busy machine, between, and those of pushes that were on no page.
func (c *comparison) left(p *page) []string {
	var left []string
	for series, x := range p.points {
		if !c.exact[series] && !c.between[series] && !unsteady(x.Name) {
			left = append(left, series)
		}
	}
	for series := range c.pushed {
		if !c.exact[series] && p.points[series] == nil {
			left = append(left, series)
		}
	}
	slices.Sort(left)
	return left
}

// TestEveryValueEqualsThePage compares each series that a real collector received with
// the page before the push and the page after it, while endpoints are probed: what is
// the same on both pages is the same in the push, what grew is between them, and each
// series has been one of both at least once.
func TestEveryValueEqualsThePage(t *testing.T) {
	s := newStand(t, newCollector(t))
	s.waitFor("probes of all kinds", func(p *page) bool {
		const results = "inference_probe_results_total"
		failures := p.sum(results, `endpoint="failing"`) - p.sum(results, `endpoint="failing"`, `outcome="success"`)
		return failures > 0 && p.sum(results, `endpoint="well"`) >= 10
	})
	c := &comparison{t: t}
	all := s.watch("pushes that equal the page", c, func(p *page) bool { return c.pushes >= 5 && len(c.between) > 0 && len(c.left(p)) == 0 })
	for _, series := range c.left(all) {
		t.Errorf("%s was never equal to the page", series)
	}
	checkCoverage(t, all)

	// The series of an endpoint that is gone end in the pushes, too.
	s.reload(often, "dead")
	less := s.watch("pushes without the endpoint", c, func(p *page) bool { return len(c.left(p)) == 0 })
	last := s.collector.received()
	for series := range ofPush(t, last[len(last)-1].metrics) {
		if strings.Contains(series, `endpoint="dead"`) {
			t.Errorf("%s goes on", series)
		}
	}
	t.Logf("%d pushes were compared, of %d series at first and %d without an endpoint", c.pushes, len(all.points), len(less.points))
}

// checkCoverage checks that a page has what the comparison is about.
func checkCoverage(t *testing.T, p *page) {
	t.Helper()
	types, exemplars, labelled, failed, zero := map[string]int{}, 0, 0, false, 0
	for series, x := range p.points {
		if x.Type == gauge || x.Value > 0 {
			types[x.Type]++
		}
		exemplars += len(x.Exemplars)
		if strings.Contains(series, fmt.Sprintf("site=%q", special)) {
			labelled++
		}
		failed = failed || x.Name == "inference_probe_results_total" && !strings.Contains(series, `outcome="success"`) && x.Value > 0
		if x.Start == 0 && x.Type == exponential {
			zero++
		}
	}
	for _, kind := range []string{gauge, sum, summary, explicit, exponential} {
		if types[kind] == 0 {
			t.Errorf("the page has no %s that counted something: %v", kind, types)
		}
	}
	if exemplars == 0 || labelled == 0 || !failed || zero > 0 {
		t.Errorf("the page has %d exemplars, %d series with a special label, failures: %t, %d histograms of probes without a start", exemplars, labelled, failed, zero)
	}
	t.Logf("%v, %d exemplars", types, exemplars)
}

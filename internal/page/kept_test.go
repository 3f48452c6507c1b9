package page

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// ttftPage is a page of vLLM with one histogram, of so many series with so many buckets each,
// whose bounds are moved by shift.
func ttftPage(series, buckets int, label string, shift float64) []byte {
	const name = "vllm:time_to_first_token_seconds"
	var b strings.Builder
	fmt.Fprintf(&b, "vllm:num_requests_running 1\n# TYPE %s histogram\n", name)
	for i := range series {
		labels := fmt.Sprintf(`engine="%s%d"`, label, i)
		for j := range buckets {
			fmt.Fprintf(&b, "%s_bucket{%s,le=\"%v\"} %d\n", name, labels, float64(j+1)+shift, j)
		}
		fmt.Fprintf(&b, "%s_bucket{%s,le=\"+Inf\"} %d\n%s_count{%s} %d\n%s_sum{%s} 1\n", name, labels, buckets, name, labels, buckets, name, labels)
	}
	return []byte(b.String())
}

// reads reads pages one after the other, as a reader of one server does.
type reads struct {
	*Reader
	at time.Time
}

func newReads(m *Mappings) *reads { return &reads{m.NewReader(), time.Unix(1_800_000_000, 0)} }

// after reads a page so much later, and returns the reason for which it cannot be read.
func (r *reads) after(d time.Duration, page []byte) (*Snapshot, Reason) {
	r.at = r.at.Add(d)
	s, err := r.Read(page, "", r.at, Want{})
	if e, ok := errors.AsType[*PageError](err); ok {
		return nil, e.Reason
	}
	return s, ReasonNone
}

func TestTooManyBuckets(t *testing.T) {
	m := builtInMappings(t)
	for buckets, want := range map[int]Reason{maxBuckets: ReasonNone, maxBuckets + 1: ReasonBuckets, 24_000: ReasonBuckets} {
		if _, got := newReads(m).after(0, ttftPage(1, buckets, "", 0)); got != want {
			t.Errorf("%d buckets: reason %q, want %q", buckets, got, want)
		}
	}
	if got := stateOf(ReasonBuckets); got != Unreadable {
		t.Errorf("state %s", got)
	}
}

// An upgrade may change the buckets, and its rollback change them back; what changes them
// again within the hour cannot be read, whatever else changes on the page.
func TestBucketsThatChange(t *testing.T) {
	r := newReads(builtInMappings(t))
	f := func(what string, d time.Duration, page []byte, want Reason) {
		t.Helper()
		s, got := r.after(d, page)
		if got != want || s != nil && s.Histograms[config.TTFT] == nil {
			t.Errorf("%s: reason %q, want %q", what, got, want)
		}
	}
	page := func(shift float64) []byte { return ttftPage(1, 20, "", shift) }
	f("first", 0, page(0), ReasonNone)
	f("upgrade", time.Minute, page(0.1), ReasonNone)
	f("rollback", time.Minute, page(0), ReasonNone)
	f("upgrade again", time.Minute, page(0.1), ReasonNone)
	f("another one", time.Minute, page(0.2), ReasonBuckets)
	f("with a model", time.Minute, append(page(0.3), "vllm:num_requests_waiting{model_name=\"other\"} 1\n"...), ReasonBuckets)
	f("of another engine", time.Minute, []byte(strings.NewReplacer("vllm:num_requests_running", "sglang:num_running_reqs", "vllm:", "sglang:").Replace(string(page(0.4)))), ReasonBuckets)
	f("back", time.Minute, page(0.1), ReasonNone)
	f("an hour after the upgrade", time.Hour, page(0.2), ReasonNone)
	f("one more", 59*time.Minute, page(0.3), ReasonBuckets)
}

// However the buckets and labels of a page change, what it puts on ours in a day is little.
func TestSeriesOfAHostilePage(t *testing.T) {
	r := newReads(builtInMappings(t))
	series := map[string]bool{}
	readable := 0
	for i := range 24 * 12 {
		s, reason := r.after(5*time.Minute, ttftPage(1, maxBuckets, fmt.Sprint(i), float64(i)/1e4))
		if reason != ReasonNone {
			continue
		}
		readable++
		for q, h := range s.Histograms {
			for _, bound := range h.Bounds {
				series[fmt.Sprint(q, bound)] = true
			}
		}
	}
	if len(series) > 25*maxBuckets || readable < 24 {
		t.Errorf("%d series of %d pages that were read", len(series), readable)
	}
}

// backendsPage is a page of LiteLLM with so many backends from a number on.
func backendsPage(first, n int) []byte {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "litellm_deployment_state{model_id=\"m%d\"} 0\n", first+i)
		for _, name := range []string{"total", "success", "failure"} {
			fmt.Fprintf(&b, "litellm_deployment_%s_requests_total{model_id=\"m%d\"} %d\n", name, first+i, i)
		}
	}
	return []byte(b.String())
}

// A gateway may replace all its backends, and not with each reading.
func TestBackendsThatChange(t *testing.T) {
	m := NewMappings(Gateways, nil)
	r := newReads(m)
	if s, reason := r.after(0, backendsPage(0, 2)); reason != ReasonNone || len(s.Backends) != 2 {
		t.Fatalf("reason %q, %+v", reason, s)
	}
	names := map[string]bool{}
	for i := range 240 {
		s, reason := r.after(15*time.Second, backendsPage(60*i, 60))
		if reason != ReasonNone {
			t.Fatalf("reason %q", reason)
		}
		for name := range s.Backends {
			names[name] = true
		}
	}
	if n := len(names); n > maxShownBackends || n < maxBackends {
		t.Errorf("%d names of backends in an hour", n)
	}
	if s, _ := r.after(time.Hour, backendsPage(0, 60)); len(s.Backends) != 60 {
		t.Errorf("%d backends an hour later", len(s.Backends))
	}
}

// What is kept of a server stays as it is, whatever it shows in a thousand readings.
func TestKeptMemoryIsFlat(t *testing.T) {
	m := builtInMappings(t)
	labels, buckets := newReads(m), newReads(m)
	var kept []uint64
	for i := range 600 {
		label := fmt.Sprintf("%d-", i)
		labels.after(15*time.Second, ttftPage(10, 4, label, 0))
		buckets.after(15*time.Second, ttftPage(1, maxBuckets+300*(i%2), label, float64(i)/1e4))
		if i%200 == 199 {
			kept = append(kept, heap())
		}
	}
	// After 200 readings a reader has as many series that are gone as it ever keeps.
	if least, most := slices.Min(kept), slices.Max(kept); most-least > 1<<20 {
		t.Errorf("from %d to %d kB are kept after 200 to 600 readings: %v", least/1000, most/1000, kept)
	}
	if n := labels.size() + buckets.size(); n > 2<<20 {
		t.Errorf("%d kB are kept", n/1000)
	}
}

// Readers share the memory for what they keep: hostile pages cannot take that of others.
func TestKeptMemoryIsShared(t *testing.T) {
	m := builtInMappings(t)
	const most = 64 << 10
	m.memory.kept = semaphore.NewWeighted(most)
	healthy, total := newReads(m), int64(0)
	var readers []*reads
	refused := 0
	for i := range 6 {
		r := newReads(m)
		readers = append(readers, r)
		for j := range 3 {
			if _, reason := r.after(15*time.Second, ttftPage(200, 20, fmt.Sprint(j, "-"), 0)); reason == ReasonTooLarge {
				refused++
			} else if reason != ReasonNone {
				t.Fatalf("reader %d: reason %q", i, reason)
			}
		}
		total += r.size()
	}
	if refused == 0 || total > most+6*smallState {
		t.Errorf("%d readings refused, %d kB kept", refused, total/1000)
	}
	for range 3 {
		if _, reason := healthy.after(15*time.Second, vllmPage(8, 10)); reason != ReasonNone {
			t.Errorf("beside hostile pages: reason %q", reason)
		}
	}
	for _, r := range readers {
		r.drop()
	}
	if !m.memory.kept.TryAcquire(most) {
		t.Error("not all memory was given back")
	}
}

// BenchmarkReadLinear reports how much longer the reading of ten times as much takes.
func BenchmarkReadLinear(b *testing.B) {
	engines := builtInMappings(b)
	gateways := NewMappings(Gateways, nil)
	for _, c := range []struct {
		name string
		page func(times, i int) []byte
	}{
		{"backends", func(times, _ int) []byte { return backendsPage(0, 10*times) }},
		{"ranks", func(times, i int) []byte { return vllmPage(4*times, i) }},
		{"labels", func(times, i int) []byte { return ttftPage(100*times, 20, fmt.Sprint(i, "-"), 0) }},
		{"buckets", func(times, i int) []byte { return ttftPage(1, 2400*times, "", float64(i)) }},
		{"unknown", func(times, i int) []byte {
			return []byte("vllm:num_requests_running 1\n" + strings.Repeat("x{a=\"b\"} 1\n", 15_000*times))
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			reading := func(times int) func() {
				m := engines
				if c.name == "backends" {
					m = gateways
				}
				r := newReads(m)
				var pages [4][]byte
				for i := range pages {
					pages[i] = c.page(times, i)
				}
				i := 0
				return func() {
					i++
					r.after(15*time.Second, pages[i%len(pages)])
				}
			}
			testlab.Linear(b, reading(1), reading(10))
		})
	}
}

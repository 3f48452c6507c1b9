package config

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
)

// TestLoad holds the defaults of a load test, and those of its module.
func TestLoad(t *testing.T) {
	f := func(text string, want LoadTest, levels ...float64) {
		t.Helper()
		c, err := Parse([]byte("modules: {a: {load: {"+text+"}}}\nendpoints: [{url: http://h, modules: [a]}]\n"), "testdata/f.yml")
		if err != nil {
			t.Error(err)
			return
		}
		m := shape(24*3600, 60, 256, 64)
		m.Connection, m.Load = ConnectionReuse, &want
		if diff := cmp.Diff(m, c.Modules["a"]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
		if diff := cmp.Diff(levels, want.Levels()); diff != "" {
			t.Errorf("%s: levels (-want +got):\n%s", text, diff)
		}
		if m.Judged() {
			t.Errorf("%s: judged", text)
		}
		checkRoundTrip(t, c, "testdata/f.yml")
	}
	minutes := func(n int) model.Duration { return seconds(60 * n) }
	f("users: [10, 50]", LoadTest{Users: []int{10, 50}, Duration: minutes(2), MaxErrorRatio: 0.05, Target: 50}, 10, 50)
	f("requests_per_second: [0.5], duration: 30m, max_error_ratio: 0.9, without_page: true, max_tokens: 7",
		LoadTest{RequestsPerSecond: []float64{0.5}, Duration: minutes(30), MaxErrorRatio: 0.9, Target: 0.5, WithoutPage: true, MaxTokens: 7}, 0.5)
	f("users: [1, 2048], think_time: 5s, duration: 10s, target: 1, window: {hours: '23:59-00:01', days: [mon]}",
		LoadTest{
			Users: []int{1, 2048}, ThinkTime: seconds(5), Duration: seconds(10), MaxErrorRatio: 0.05, Target: 1,
			Window: &LoadWindow{Hours: "23:59-00:01", Days: []string{"mon"}},
		}, 1, 2048)
}

// TestLoadOfTrace is by the first and the longest lines of the file.
func TestLoadOfTrace(t *testing.T) {
	c, err := Parse([]byte("modules: {a: {load: {trace_file: arrivals.csv}}, b: {traffic: {}, load: {users: [2]}}}\nendpoints: [{url: http://h, modules: [a]}]\n"), "../examples/f.yml")
	if err != nil {
		t.Fatal(err)
	}
	m := c.Modules["a"]
	if l := m.Load; len(l.Trace) != 240 || l.Trace[0] != (TracedRequest{0, 374, 44}) || !slices.Equal(l.Levels(), []float64{1}) || l.Target != 1 {
		t.Errorf("got %d requests, %v first, levels %v, target %v", len(l.Trace), l.Trace[0], l.Levels(), l.Target)
	}
	if !m.InputTokens.IsZero() || m.MaxInput() != 4107 || m.MaxOutput() != 594 {
		t.Errorf("prompts of %s, at most %d and %d tokens", m.InputTokens.Words(), m.MaxInput(), m.MaxOutput())
	}
	// 240 requests, whose last arrival is 67.97 s after the first, in 2 m.
	if got, want := m.Load.Requests(), 120*239/67.97; math.Abs(got-want) > 1 {
		t.Errorf("%.1f requests in a run, want %.1f", got, want)
	}
	if got := m.MeanLengths(); got != (TracedRequest{0, 892, 242}) {
		t.Errorf("mean lengths %+v", got)
	}
	checkRoundTrip(t, c, "../examples/f.yml")
}

// TestLoadOfPresets checks that a built-in module can be a load test, without what means nothing then.
func TestLoadOfPresets(t *testing.T) {
	for _, name := range []string{"interactive", "rag", "agent", "batch"} {
		c, err := Parse([]byte("modules: {"+name+": {load: {users: [1]}}}\nendpoints: [{url: http://h}]\n"), "f.yml")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		m := c.Modules[name]
		if m.Prefix != PrefixCold || m.Concurrency != nil || m.Connection != ConnectionReuse || m.Interval != seconds(24*3600) {
			t.Errorf("%s: %+v", name, m)
		}
		checkRoundTrip(t, c, "f.yml")
	}
}

// TestLoadWindow is by a calendar: 2026-11-23 is a Monday.
func TestLoadWindow(t *testing.T) {
	f := func(w *LoadWindow, now, want string) {
		t.Helper()
		at, err := time.Parse(time.RFC3339, now)
		if err != nil {
			t.Fatal(err)
		}
		until, open := (&LoadTest{Window: w}).Opens(at)
		got := ""
		if open {
			got = until.Format(time.RFC3339)
		}
		if got != want {
			t.Errorf("%+v at %s: open until %q, want %q", w, now, got, want)
		}
	}
	f(nil, "2026-11-23T12:00:00Z", "0001-01-01T00:00:00Z")
	daily := &LoadWindow{Hours: "02:00-05:30"}
	f(daily, "2026-11-23T01:59:59Z", "")
	f(daily, "2026-11-23T02:00:00Z", "2026-11-23T05:30:00Z")
	f(daily, "2026-11-23T05:29:59Z", "2026-11-23T05:30:00Z")
	f(daily, "2026-11-23T05:30:00Z", "")
	f(daily, "2026-11-23T05:00:00+02:00", "2026-11-23T05:30:00Z")
	night := &LoadWindow{Hours: "22:00-06:00", Days: []string{"mon", "fri"}} // begins then
	f(night, "2026-11-23T05:00:00Z", "")
	f(night, "2026-11-23T22:00:00Z", "2026-11-24T06:00:00Z")
	f(night, "2026-11-24T05:59:59Z", "2026-11-24T06:00:00Z")
	f(night, "2026-11-24T22:00:00Z", "")
	f(night, "2026-11-28T00:00:00Z", "2026-11-28T06:00:00Z") // the night from Friday
}

func TestLoadWords(t *testing.T) {
	for want, got := range map[string]string{
		"1 user": LoadUsers.Words(1), "1, 2 users": LoadUsers.Words(1, 2), "0.5 requests/s": LoadRate.Words(0.5), "1 × the trace": LoadTrace.Words(1),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

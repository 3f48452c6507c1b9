package explain

import (
	"slices"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/page"
)

// began is when the readings of a test begin.
var began = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// readAt is a page of a server at a number of readings after began, one every 15 s.
func readAt(i int, server string, values map[config.Quantity]float64, ttft *page.Histogram) page.Status {
	at := began.Add(time.Duration(i) * 15 * time.Second)
	s := &page.Snapshot{At: at, Values: values, PrefixCacheRatio: -1}
	if ttft != nil {
		s.Histograms = map[config.Quantity]*page.Histogram{config.TTFT: ttft}
	}
	return page.Status{Server: server, At: at, State: page.Up, Snapshot: s}
}

// A day of readings gives what was usual before an instant, and rates and means between
// two readings.
func TestReadings(t *testing.T) {
	var r readings
	const day = 24 * 60 * 4
	for i := range day + 10 {
		n := float64(i)
		waiting, preemptions, seconds := 0.0, 0.0, 0.2*n
		if i >= day { // since then requests wait, are preempted twice a second, and get their first token after 2 s
			waiting, preemptions, seconds = 8, 30*(n-day+1), 0.2*day+2*(n-day)
		}
		r.add([]page.Status{readAt(i, "a", map[config.Quantity]float64{
			config.LoadedModels: 8e9, config.LoadedOnGPUs: 6e9, config.RequestsRunning: 4, config.RequestsWaiting: waiting, config.Preemptions: preemptions, config.GenerationTokens: 600 * n,
		}, &page.Histogram{Count: uint64(i), Sum: seconds})})
	}
	if n := len(r.past); n > maxPastReadings {
		t.Errorf("%d readings are kept", n)
	}
	if span := r.past[len(r.past)-1].at.Sub(r.past[0].at); span < 18*time.Hour {
		t.Errorf("they span %s", span)
	}
	got := r.evidence(began.Add(day*15*time.Second), 15*time.Second)
	for q, want := range map[config.Quantity][2]float64{
		config.RequestsRunning: {4, 4}, config.RequestsWaiting: {8, 0}, config.Preemptions: {2, 0}, config.GenerationTokens: {40, 40}, config.TTFT: {2, 0.2},
		pagesUp: {1, 1}, onGPUs: {0.75, 0.75},
	} {
		if l := got.Levels[q]; l.Now == nil || l.Usual == nil || !isClose(*l.Now, want[0]) || !isClose(*l.Usual, want[1]) {
			t.Errorf("%s: %+v, want %v", q, l, want)
		}
	}
	if len(got.Levels) != 7 {
		t.Errorf("what no page shows is known: %+v", got.Levels)
	}
	if got.Known != 1 || got.Up != 1 || got.Usual != 1 {
		t.Errorf("%d servers, %d up, usually %d", got.Known, got.Up, got.Usual)
	}
}

func isClose(a, b float64) bool { return a > b-1e-4 && a < b+1e-4 }

// After a restart of a server, and where another one answers, there are no rates.
func TestReadingsOfARestart(t *testing.T) {
	var r readings
	for i, server := range []string{"a", "a", "b"} {
		generated := []float64{900, 10, 1000}[i]
		r.add([]page.Status{readAt(i, server, map[config.Quantity]float64{config.GenerationTokens: generated}, &page.Histogram{Count: uint64(9 - i), Sum: 1})})
	}
	if got := r.evidence(began, time.Second); len(got.Levels) != 1 {
		t.Errorf("got %+v", got.Levels)
	}
}

// A server with requests that generates nothing for three readings is stuck, whether they run or wait; one that is
// idle, or not up, is not.
func TestStuckServers(t *testing.T) {
	at := func(running, waiting float64, since time.Duration) page.Status {
		st := readAt(100, "a", map[config.Quantity]float64{config.RequestsRunning: running, config.RequestsWaiting: waiting}, nil)
		st.Snapshot.LastProgress = st.Snapshot.At.Add(-since)
		return st
	}
	ranks := at(9, 0, time.Minute)
	ranks.Snapshot.Ranks = &page.Ranks{Number: 8}
	for _, c := range []struct {
		name string
		of   []page.Status
		want time.Duration
		work string
	}{
		{"working", []page.Status{at(3, 0, 20*time.Second)}, 0, ""},
		{"stuck", []page.Status{at(3, 2, 20*time.Second), at(1, 1, 50*time.Second), at(0, 7, 49*time.Second)}, 50 * time.Second, "requests run"},
		{"admits nothing", []page.Status{at(0, 5, time.Minute)}, time.Minute, "5 requests wait, none runs"},
		{"admits not even one", []page.Status{at(0, 1, time.Minute)}, time.Minute, "1 request waits, none runs"},
		{"a rank", []page.Status{ranks}, time.Minute, "a rank of 8 has requests"},
		{"idle", []page.Status{at(0, 0, time.Hour)}, 0, ""},
		{"down", []page.Status{{State: page.Down}}, 0, ""},
	} {
		if got, work := stuck(c.of, 45*time.Second); got != c.want || work != c.work {
			t.Errorf("%s: %s, %q, want %s, %q", c.name, got, work, c.want, c.work)
		}
	}
}

// A rank that lags behind for five minutes is named, with what the ranks show.
func TestLag(t *testing.T) {
	behind := func(starved, slow time.Duration) []page.Status {
		st := readAt(100, "a:8000", nil, nil)
		st.Snapshot.Ranks = &page.Ranks{
			Number: 8,
			Bounds: map[config.Quantity][2]float64{config.RequestsRunning: {0, 16}, config.KVCacheUsage: {0.25, 0.5}},
		}
		if starved > 0 {
			st.Snapshot.Ranks.Starved = st.Snapshot.At.Add(-starved)
		}
		if slow > 0 {
			st.Snapshot.Ranks.Slow = st.Snapshot.At.Add(-slow)
		}
		return []page.Status{readAt(100, "b:8000", nil, nil), st}
	}
	for _, c := range []struct {
		starved, slow time.Duration
		want          string
	}{
		{0, 0, ""},
		{299 * time.Second, 299 * time.Second, ""},
		{6 * time.Minute, 7 * time.Minute, "a rank of 8 of a:8000 has had no request while some wait at others for 6 min"},
		{time.Minute, 5 * time.Minute, "a rank of 8 of a:8000 has generated less than a quarter of the tokens of others with as many requests for 5 min"},
	} {
		want := lines(c.want)
		if c.want != "" {
			want = append(want, "running requests by rank: 0 to 16", "KV cache in use by rank: 25 % to 50 %")
		}
		if got := lag(behind(c.starved, c.slow)); !slices.Equal(got, want) {
			t.Errorf("starved for %s, slow for %s: %q, want %q", c.starved, c.slow, got, want)
		}
	}
}

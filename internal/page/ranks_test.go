package page

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/config"
)

// rankLab reads a recorded page of two ranks again and again, every 15 s, after changes of its lines.
type rankLab struct {
	*testing.T
	reader *Reader
	text   string
	at     time.Time
}

func newRankLab(t *testing.T, page string) *rankLab {
	for _, p := range goldenPages(t) {
		if p.name == page {
			return &rankLab{t, mappings(t, nil).NewReader(), string(p.text), time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)}
		}
	}
	t.Fatalf("no page %s", page)
	return nil
}

// set gives the samples that begin so other values, in their order on the page; those beyond keep theirs.
func (l *rankLab) set(series string, values ...float64) {
	l.Helper()
	var b strings.Builder
	for line := range strings.Lines(l.text) {
		if strings.HasPrefix(line, series) && len(values) > 0 {
			labels, _, _ := strings.Cut(line, " ")
			line = fmt.Sprintf("%s %v\n", labels, values[0])
			values = values[1:]
		}
		b.WriteString(line)
	}
	if l.text = b.String(); len(values) > 0 {
		l.Fatalf("%d values of %s have no line", len(values), series)
	}
}

// read reads the page after 15 s.
func (l *rankLab) read() *Snapshot {
	l.Helper()
	l.at = l.at.Add(15 * time.Second)
	s, err := l.reader.Read([]byte(l.text), textFormat, l.at, Want{})
	if err != nil {
		l.Fatal(err)
	}
	return s
}

// What engines show of their ranks, and with a second reading how many tokens these generate in a second.
func TestRanksOfEngines(t *testing.T) {
	type bounds = map[config.Quantity][2]float64
	for _, c := range []struct {
		page   string
		series string // that counts the tokens
		values []float64
		want   bounds
	}{
		{"vllm-v1-dp2", "vllm:generation_tokens_total{", []float64{12150, 8600}, bounds{
			config.RequestsRunning: {5, 7}, config.RequestsWaiting: {0, 2}, config.KVCacheUsage: {0.4375, 0.8125}, config.GenerationTokens: {10, 40},
		}},
		{"lmdeploy-0.16", "lmdeploy:generation_tokens_total{", []float64{1715, 1330}, bounds{
			config.RequestsRunning: {3, 4}, config.RequestsWaiting: {0, 2}, config.KVCacheUsage: {0.21875, 0.3125}, config.GenerationTokens: {1, 2},
		}},
		{"vllm-ray", "ray_vllm_generation_tokens_total{", []float64{1050, 675}, bounds{
			config.RequestsRunning: {2, 4}, config.RequestsWaiting: {1, 3}, config.KVCacheUsage: {0.3125, 0.75}, config.GenerationTokens: {5, 10},
		}},
		// copies of a rank are one, and its tokens are counted when a request ends, for all ranks together
		{"sglang-2025", "sglang:generation_tokens_total{", []float64{7015}, bounds{
			config.RequestsRunning: {3, 6}, config.RequestsWaiting: {0, 2}, config.KVCacheUsage: {0.375, 0.5},
		}},
	} {
		t.Run(c.page, func(t *testing.T) {
			l := newRankLab(t, c.page)
			if _, known := l.read().Ranks.Bounds[config.GenerationTokens]; known {
				t.Error("tokens per second are known after one reading")
			}
			l.set(c.series, c.values...)
			got := l.read().Ranks
			if d := cmp.Diff(&Ranks{Number: 2, Bounds: c.want}, got); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
	if got := newRankLab(t, "vllm-0.32").read().Ranks; got != nil {
		t.Errorf("ranks of a server without: %+v", got)
	}
}

// SGLang counts the tokens of each rank as they are generated where it is new enough, by what it does for them.
func TestRanksOfSGLang(t *testing.T) {
	l := newRankLab(t, "sglang-2026")
	var second strings.Builder // rank, which has the same series
	for line := range strings.Lines(l.text) {
		if strings.Contains(line, "tp_rank=") {
			second.WriteString(strings.Replace(line, "{", `{dp_rank="1",`, 1))
		}
	}
	l.text = strings.ReplaceAll(l.text, `{engine_type="unified"`, `{dp_rank="0",engine_type="unified"`) + second.String()
	const decode = `sglang:realtime_tokens_total{dp_rank="1",engine_type="unified",mode="decode"`
	l.read()
	l.set(decode, 21500+150)
	if got := l.read().Ranks.Bounds[config.GenerationTokens]; got != [2]float64{0, 10} {
		t.Errorf("tokens per second %v, want 0 and 10", got)
	}
	frozen := l.at.Add(-15 * time.Second) // the first rank
	l.set(decode, 21500+300)
	if got := l.read(); !got.LastProgress.Equal(frozen) {
		t.Errorf("last progress %s, want that of the rank that stands still, %s", got.LastProgress, frozen)
	}
	l.set(`sglang:realtime_tokens_total{dp_rank="0",engine_type="unified",mode="prefill_compute"`, 72001)
	if got := l.read(); got.LastProgress.Equal(frozen) {
		t.Error("the prefill of a long prompt is no progress")
	}
}

// An engine that has requests and stands still hangs, whether they run or wait; one whose requests wait for something
// else, or that sleeps, does not.
func TestWork(t *testing.T) {
	const running, waiting, deferred = "vllm:num_requests_running{", "vllm:num_requests_waiting{", "vllm:num_requests_waiting_by_reason{"
	for _, c := range []struct {
		name             string
		running, waiting []float64 // of the two ranks, the first of which works
		deferred         float64   // of the second
		asleep           bool
		hangs            bool
	}{
		{"second rank has requests", []float64{7, 5}, []float64{2, 0}, 0, false, true},
		{"second rank admits nothing", []float64{7, 0}, []float64{2, 5}, 0, false, true},
		{"of which some are deferred", []float64{7, 0}, []float64{2, 5}, 4, false, true},
		{"of which all are deferred", []float64{7, 0}, []float64{2, 5}, 5, false, false},
		{"second rank sleeps", []float64{7, 0}, []float64{2, 5}, 0, true, false},
		{"second rank has none", []float64{7, 0}, []float64{2, 0}, 0, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newRankLab(t, "vllm-v1-dp2")
			l.set(running, c.running...)
			l.set(waiting, c.waiting...)
			l.set(deferred, 1, 1, c.waiting[1]-c.deferred, c.deferred)
			if c.asleep {
				l.set("vllm:engine_sleep_state{", 1, 0, 0, 0, 1, 0)
			}
			since := l.read().At
			for i := range 12 {
				l.set("vllm:generation_tokens_total{", 12000+float64(100*i))
				if got := l.read(); c.hangs != got.LastProgress.Equal(since) && i > 0 {
					t.Fatalf("after %s: last progress %s ago", l.at.Sub(since), l.at.Sub(got.LastProgress))
				}
			}
		})
	}
	// The same of a server with one rank.
	l := newPageLab(t, `
sentinels: ["acme:up"]
values:
  requests_running: [{series: run}]
  requests_waiting: [{series: wait}]
  requests_deferred: [{series: deferred}]
  engines_sleeping: [{series: asleep}]
progress: [{series: tokens}]
`)
	for _, c := range []struct {
		page  string
		hangs bool
	}{
		{"run 0\nwait 5\n", true},
		{"run 0\nwait 5\ndeferred 4\n", true},
		{"run 0\nwait 5\ndeferred 5\n", false},
		{"run 1\nwait 5\ndeferred 5\n", true},
		{"run 0\nwait 5\nasleep 1\n", false},
	} {
		since := l.read("acme:up 1\nrun 0\nwait 0\ntokens 3\n").At
		l.read("acme:up 1\ntokens 3\n" + c.page)
		if got := l.read("acme:up 1\ntokens 3\n" + c.page); got.LastProgress.Equal(since) != c.hangs {
			t.Errorf("%q: last progress %s ago", c.page, got.At.Sub(got.LastProgress))
		}
	}
}

// A rank that has nothing to do while requests are in the queues of others is starved, and one that generates less than
// a quarter of the tokens with as many requests is slow, since it began and until it ends.
func TestLags(t *testing.T) {
	type reading struct {
		ranks             string // of each rank: running, waiting, and tokens per reading
		starvedAt, slowAt int    // the reading since which, from 1; 0 is not
	}
	for _, c := range []struct {
		name     string
		readings []reading
	}{
		{"alike", []reading{{"8 2 90, 8 2 80, 7 2 70", 0, 0}, {"8 2 90, 8 2 80, 7 2 70", 0, 0}}},
		{"starved", []reading{{"8 2 90, 0 0 0, 7 2 70", 1, 0}, {"8 2 90, 0 0 0, 7 0 70", 1, 0}, {"8 2 90, 1 0 0, 7 2 70", 0, 0}, {"8 2 90, 0 0 0, 7 2 70", 4, 0}}},
		{"nobody queues", []reading{{"8 0 90, 0 0 0, 7 0 70", 0, 0}}},
		{"in turns", []reading{{"8 2 90, 0 0 0, 8 2 90", 1, 0}, {"0 0 0, 8 2 90, 8 2 90", 2, 0}}},
		{"slow", []reading{{"8 0 90, 8 0 22, 8 0 90", 0, 0}, {"8 0 90, 8 0 22, 8 0 90", 0, 2}, {"8 0 90, 8 0 22, 8 0 90", 0, 2}, {"8 0 90, 8 0 23, 8 0 90", 0, 0}}},
		{"slow of two", []reading{{"8 0 90, 8 0 20", 0, 0}, {"8 0 90, 8 0 20", 0, 2}}},
		{"few requests", []reading{{"8 0 90, 3 0 20, 8 0 90", 0, 0}, {"8 0 90, 3 0 20, 8 0 90", 0, 0}}},
		{"none generates", []reading{{"8 0 0, 8 0 0", 0, 0}, {"8 0 0, 8 0 0", 0, 0}}},
		{"idle", []reading{{"0 0 0, 0 0 0", 0, 0}, {"0 0 0, 0 0 0", 0, 0}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newPageLab(t, `
sentinels: ["acme:up"]
values: {requests_running: [{series: run}], requests_waiting: [{series: wait}], generation_tokens: [{series: tokens}]}
progress: [{series: tokens}]
`)
			at, tokens := make([]time.Time, len(c.readings)+1), map[int]float64{}
			for i, r := range c.readings {
				var b strings.Builder
				b.WriteString("acme:up 1\n")
				for n, numbers := range strings.Split(r.ranks, ", ") {
					var running, waiting, more float64
					if _, err := fmt.Sscan(numbers, &running, &waiting, &more); err != nil {
						t.Fatal(err)
					}
					tokens[n] += more
					fmt.Fprintf(&b, "run{r=\"%d\"} %v\nwait{r=\"%d\"} %v\ntokens{r=\"%d\"} %v\n", n, running, n, waiting, n, tokens[n])
				}
				s := l.read(b.String())
				at[i+1] = s.At
				if got := s.Ranks; !got.Starved.Equal(at[r.starvedAt]) || !got.Slow.Equal(at[r.slowAt]) {
					t.Errorf("reading %d: %+v, want %s and %s", i+1, got, at[r.starvedAt], at[r.slowAt])
				}
			}
		})
	}
}

// A rank that generates nothing at all is slow for two minutes, and then hangs.
func TestSlowIsNotHung(t *testing.T) {
	l := newRankLab(t, "vllm-v1-dp2")
	l.set("vllm:num_requests_running{", 7, 7)
	for i := range 10 {
		l.set("vllm:generation_tokens_total{", 12000+float64(100*i))
		s := l.read()
		if slow := !s.Ranks.Slow.IsZero(); slow != (i > 0 && s.At.Sub(s.LastProgress) < HungAfter) {
			t.Errorf("reading %d: slow %t, last progress %s ago", i+1, slow, s.At.Sub(s.LastProgress))
		}
	}
}

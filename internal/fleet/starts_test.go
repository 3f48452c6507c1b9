package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// sleeper is a server of one model with two engines, asked and read without a network. By the course of a test it
// sleeps, wakes for a request that may wait for it, dies, and starts.
type sleeper struct {
	t      *testing.T
	reader *page.Reader

	mu      sync.Mutex // held by the test but for goOn
	started time.Time
	asleep  int           // of its engines
	wakes   time.Duration // how long a request waits for the model; 0 is that no request wakes it
	dead    bool
	unread  bool // no reading ends
	ttft    time.Duration
	asked   int
}

func newSleeper(t *testing.T) *sleeper {
	m := page.NewMappings(page.Servers, nil)
	s := &sleeper{t: t, reader: m.NewReader(), started: time.Now().Add(-time.Hour), ttft: 100 * time.Millisecond}
	s.mu.Lock()
	return s
}

// lab probes the server every 15 s and reads its page as often, with further options of the endpoint.
func (s *sleeper) lab(options string) *lab {
	l := newLab(s.t)
	l.Network, l.Scraping = s, schedule.New(schedule.Options{})
	cfg := parse(s.t, `
modules: {m: {interval: 15s, timeout: 1m}}
endpoints: [{name: e, url: "http://127.0.0.1:1", model: m, modules: [m]`+options+`}]`)
	if err := l.Apply(planOf(cfg)); err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	var running sync.WaitGroup
	for _, of := range []*schedule.Scheduler{l.Probing, l.Scraping} {
		running.Go(func() {
			if err := of.Run(ctx); err != nil {
				s.t.Error(err)
			}
		})
	}
	s.t.Cleanup(func() { s.mu.Unlock(); cancel(); running.Wait() })
	return l
}

// goOn lets time pass in a bubble.
func (s *sleeper) goOn(d time.Duration) {
	s.mu.Unlock()
	time.Sleep(d)
	synctest.Wait()
	s.mu.Lock()
}

// Runners implements Network.
func (s *sleeper) Runners(*config.Endpoint) (func(*config.Module) (Runner, error), error) {
	return func(*config.Module) (Runner, error) { return s, nil }, nil
}

// Reader implements Network.
func (s *sleeper) Reader(*config.Endpoint, *page.Mappings) (Reader, error) { return s, nil }

// Close implements Runner and Reader.
func (s *sleeper) Close() {}

// Run implements Runner.
func (s *sleeper) Run(_ context.Context, due time.Time) ([]*result.Result, *result.Skip) {
	s.mu.Lock()
	s.asked++
	start := time.Now()
	r := served(start, s.ttft)
	r.Scheduled, r.Sent, r.Kind = due, start, api.Generation
	switch {
	case s.dead, s.asleep == 2 && s.wakes == 0:
		r.Outcome, r.Timing.TTFT, r.Timing.TPOT, r.Timing.Duration = result.ConnectError, result.Absent, result.Absent, time.Second
	case s.asleep == 2:
		r.Timing.TTFT, r.Timing.Duration, s.asleep = s.wakes, s.wakes+time.Second, 0
	}
	s.mu.Unlock()
	time.Sleep(r.Timing.Duration)
	return []*result.Result{r}, nil
}

// Scrape implements Reader.
func (s *sleeper) Scrape(ctx context.Context, _ page.Known) []page.Status {
	s.mu.Lock()
	unread := s.unread
	s.mu.Unlock()
	if unread {
		<-ctx.Done()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := page.Status{Server: "s", At: time.Now(), State: page.Up}
	if s.dead {
		st.State, st.Reason, st.Err = page.Down, page.ReasonConnect, errors.New("refused")
		return []page.Status{st}
	}
	text := fmt.Sprintf("# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds %d\n# TYPE vllm:engine_sleep_state gauge\n", s.started.Unix())
	for i := range 2 {
		asleep := 0
		if i < s.asleep {
			asleep = 1
		}
		for state, v := range map[string]int{"awake": 1 - asleep, "weights_offloaded": asleep, "discard_all": 0} {
			text += fmt.Sprintf("vllm:engine_sleep_state{engine=\"%d\",model_name=\"m\",sleep_state=%q} %d\n", i, state, v)
		}
	}
	text += "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{engine=\"0\",model_name=\"m\"} 0\n"
	snapshot, err := s.reader.Read([]byte(text), "text/plain", time.Now(), page.Want{Engine: "vllm", Model: "m"})
	if err != nil {
		s.t.Error(err)
	}
	st.Snapshot = snapshot
	return []page.Status{st}
}

// expectState compares the state, since when it is, to a reading and a probe, and whether anything pages.
func (l *lab) expectState(state health.State, since time.Time, pages bool) {
	l.t.Helper()
	s := l.State("e")
	if off := s.Since.Sub(since); s.State != state || off < 0 || off > 31*time.Second || (s.Paging != nil) != pages {
		l.t.Errorf("%s since %s, pages %t; want %s since %s or up to 31 s later, pages %t; why: %s", s.State, s.Since, s.Paging != nil, state, since, pages, s.Why)
	}
}

// A model that sleeps is asleep and asked nothing until a user wakes it; once its page is gone, it is probed again, and
// down.
func TestAsleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSleeper(t)
		l := s.lab("")
		began := time.Now()
		s.goOn(10 * time.Minute)
		l.expectState(health.Up, began, false)
		s.asleep = 1 // one of two engines
		s.goOn(5 * time.Minute)
		l.expectState(health.Up, began, false)

		s.asleep = 2
		slept := time.Now()
		s.goOn(time.Minute)
		l.expectState(health.Asleep, slept, false)
		asked := s.asked
		s.goOn(8 * time.Hour)
		l.expectState(health.Asleep, slept, false)
		if s.asked != asked {
			t.Errorf("%d probes while it slept", s.asked-asked)
		}
		if p := l.page(); p.Sum("inference_probe_skipped_total", "reason", "asleep") < 8*60*4-1 || p.Sum("inference_endpoint_state", "state", "asleep") != 1 {
			t.Errorf("%v runs left out, state %v", p.Sum("inference_probe_skipped_total", "reason", "asleep"), p["inference_endpoint_state"])
		}
		if r, _ := l.Explain("e"); r.Findings[0].Cause != "healthy" || len(l.causes.Load().top) > 0 {
			t.Errorf("cause %+v", r.Findings[0])
		}

		s.asleep = 0 // a user came
		woke := time.Now()
		s.goOn(time.Minute)
		l.expectState(health.Up, woke, false)

		s.asleep = 2
		slept = time.Now()
		s.goOn(time.Hour)
		l.expectState(health.Asleep, slept, false)
		s.dead = true
		died := time.Now()
		s.goOn(4 * time.Minute)
		l.expectState(health.Down, died, true)
	})
}

// A model that does not answer before its page shows that it sleeps pages nobody, and a reading that is old keeps
// nothing asleep.
func TestAsleepByALateReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSleeper(t)
		l := s.lab(", servers: {urls: ['http://127.0.0.1:1/metrics'], interval: 10m}")
		s.goOn(30 * time.Minute)
		s.asleep = 2
		s.goOn(10 * time.Minute) // down at first
		if st := l.State("e"); st.State != health.Asleep || st.Paging != nil {
			t.Errorf("%s, pages %+v", st.State, st.Paging)
		}
		s.unread = true
		s.goOn(35 * time.Minute)
		if st := l.State("e"); st.State == health.Asleep || st.State == health.Up {
			t.Errorf("%s after three intervals without a reading", st.State)
		}
	})
}

// late counts the answers, but for failures, that were too late by the objective of TTFT.
func late(p metricsPage) float64 {
	return p.Sum("inference_probe_slo_bad_total", "slo", "ttft") - p.Sum("inference_probe_slo_bad_total", "slo", "availability")
}

// fallAsleep has the model sleep, and its page read.
func (s *sleeper) fallAsleep(wakes time.Duration) {
	s.asleep, s.wakes = 2, 0
	s.goOn(30 * time.Second)
	s.wakes = wakes
}

// A drill wakes the model once in its interval. What it took counts for its own objective, and for no other.
func TestWakeDrill(t *testing.T) {
	for _, c := range []struct {
		slo    string
		wakes  time.Duration
		missed float64
	}{{"30s", 20 * time.Second, 0}, {"10s", 20 * time.Second, 1}, {"30s", 0, 1}} {
		synctest.Test(t, func(t *testing.T) {
			s := newSleeper(t)
			l := s.lab(", wake: drill, wake_interval: 6h, slo: {ttft: 1s, wake: " + c.slo + "}")
			s.goOn(10 * time.Minute)
			drills := 0
			s.fallAsleep(c.wakes)
			asked := s.asked
			for range 24 * 60 {
				s.goOn(time.Minute)
				if s.asked > asked {
					drills++
					s.fallAsleep(c.wakes) // it has nothing to do
					asked = s.asked
				}
			}
			p := l.page()
			if got := p.Sum("inference_endpoint_wake_seconds"); drills != 4 || got != c.wakes.Seconds() || p.Sum("inference_endpoint_wake_missed") != c.missed {
				t.Errorf("%d drills, woke in %v s, missed %v", drills, got, p.Sum("inference_endpoint_wake_missed"))
			}
			if p.Has("inference_endpoint_wake_seconds") == (c.wakes == 0) {
				t.Error("a drill that fails has a time, or one that does not has none")
			}
			if n := late(p); n > 0 {
				t.Errorf("%v drills are late by another objective", n)
			}
		})
	}
}

// Where probes always wake a model, it is never asleep.
func TestAlwaysAwake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSleeper(t)
		l := s.lab(", wake: always")
		for range 10 {
			s.goOn(time.Minute)
			s.asleep, s.wakes = 2, 3*time.Second
		}
		if p := l.page(); l.State("e").State != health.Up || p.Sum("inference_probe_skipped_total", "reason", "asleep") > 0 || p.Probes("e") < 36 {
			t.Errorf("%s, %v probes", l.State("e").State, p.Probes("e"))
		}
	})
}

// The answers of a server that starts are cold for as long as the endpoint allows, and count for no latency. A start of
// which all was seen has a duration.
func TestColdStart(t *testing.T) {
	for _, c := range []struct {
		options string
		cold    bool
	}{{", slo: {ttft: 1s}, warm_up: 3m", true}, {", slo: {ttft: 1s}", false}} {
		synctest.Test(t, func(t *testing.T) {
			s := newSleeper(t)
			l := s.lab(c.options)
			s.goOn(20 * time.Minute)
			if p := l.page(); p.Has("inference_endpoint_start_seconds") || p.Sum("inference_probe_cold_total") > 0 {
				t.Errorf("a start from before")
			}
			s.dead = true
			s.goOn(time.Minute)
			s.started = time.Now()
			s.goOn(30 * time.Second)
			s.dead, s.ttft = false, 5*time.Second
			s.goOn(2 * time.Minute)
			s.ttft = 100 * time.Millisecond
			s.goOn(10 * time.Minute)
			p := l.page()
			if took := p.Sum("inference_endpoint_start_seconds"); took < 30 || took > 46 {
				t.Errorf("started in %v s", took)
			}
			cold, late := p.Sum("inference_probe_cold_total"), late(p)
			if c.cold && (cold < 9 || cold > 12 || late > 1) || !c.cold && (cold > 0 || late < 7) {
				t.Errorf("%v cold answers, %v late ones", cold, late)
			}
		})
	}
}

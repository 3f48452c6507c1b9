package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/foreign"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/loadtest"
)

// loadServer is a server of 25 tokens/s.
func loadServer() simulator.Options {
	o := testlab.Swift()
	o.DecodeStep = 40 * time.Millisecond
	return o
}

// loadPlanOf is a plan of an endpoint with a probe and a load test of short levels.
func loadPlanOf(t *testing.T, url, load, more string, level time.Duration) Plan {
	t.Helper()
	cfg := parse(t, fmt.Sprintf(`
modules:
  light: {input_tokens: 16, output_tokens: 2}
  busy: {input_tokens: 32, output_tokens: 2, slo: {ttft: 2s}, load: {%s}}
endpoints: [{name: e, url: %s, api: openai-chat, model: simulated-8b, modules: [light, busy]%s}]`, load, url, more))
	cfg.Modules["busy"].Load.Duration = model.Duration(level)
	return planOf(cfg)
}

// loadLab is a fleet with a load test that is due, of an endpoint that is up.
func loadLab(t *testing.T, url, load, more string, level time.Duration) (*lab, *loadTask) {
	t.Helper()
	l := newLab(t)
	if err := l.Apply(loadPlanOf(t, url, load, more, level)); err != nil {
		t.Fatal(err)
	}
	l.probe()
	return l, l.dueLoad()
}

// dueLoad returns the load test of the endpoint, made due.
func (l *lab) dueLoad() *loadTask {
	task := l.endpoint("e").loads[0]
	task.since = time.Now().Add(-25 * time.Hour)
	task.last = task.since
	return task
}

func (l *lab) loadFinding() *loadtest.Finding {
	f, _ := workload.In[*loadtest.Finding](l.endpoint("e").findings[1].latest())
	return f
}

// tick runs the load test, which is made due.
func (l *lab) tick() { l.dueLoad().tick(l.ctx(), schedule.Run{}) }

func (l *lab) wantEnd(want ...loadtest.End) {
	l.t.Helper()
	f := l.loadFinding()
	for _, end := range want {
		if f != nil && f.End == end {
			return
		}
	}
	l.t.Errorf("got %+v, want the end %s", f, want)
}

// ourTokens is what the load tests spent by the page of metrics.
func (l *lab) ourTokens() float64 {
	p := l.page()
	return p.Sum("inference_probe_prompt_tokens_total", "module", "busy") + p.Sum("inference_probe_output_tokens_total", "module", "busy")
}

// A run that completes gives a curve, and is no probe: but for what it spends there is no series of it.
func TestLoadCompletes(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		w := testlab.NewWitness(t, loadServer())
		l, task := loadLab(t, w.URL, "users: [1, 4]", ", budget: {tokens_per_hour: 10000000}, hardware: {gpus: 2, weights: 16GB}", 600*time.Millisecond)
		var log bytes.Buffer
		l.Logger = slog.New(slog.NewTextHandler(&log, nil))
		before := w.Tokens()
		l.tick()
		l.wantEnd(loadtest.Completed)
		f := l.loadFinding()
		if len(f.Levels) != 2 || f.Levels[0].Level != 1 || f.Levels[1].Level != 4 || f.Levels[0].Requests == 0 || f.Levels[1].InFlight < 2 {
			t.Errorf("the levels are %+v", f.Levels)
		}
		if got := f.Levels[1]; got.OutputTokensPerSecond == 0 || 2*got.OutputTokensPerSecondPerGPU != got.OutputTokensPerSecond {
			t.Errorf("%v tokens per second, and %v of each of two GPUs", got.OutputTokensPerSecond, got.OutputTokensPerSecondPerGPU)
		}
		p := l.page()
		if got, want := l.ourTokens(), float64(w.Tokens()-before); got != want || want == 0 {
			t.Errorf("%v tokens are counted, the server had %v", got, want)
		}
		if got, want := p.Sum("inference_endpoint_budget_used_ratio", "resource", "tokens")*1e7, float64(w.Tokens()); got < want-1 || got > want+1 {
			t.Errorf("%v tokens of the budget are used, the server had %v", got, want)
		}
		for _, family := range []string{"inference_probe_results_total", "inference_probe_slo_eligible_total", "inference_slo_threshold_seconds", "inference_probe_skipped_total"} {
			if p.Has(family, "module", "busy") {
				t.Errorf("%s of a load test", family)
			}
		}
		if !p.Has("inference_probe_load_requests", "module", "busy", "level", "4") {
			t.Error("the curve is not on the page of metrics")
		}
		if begins, ends := strings.Count(log.String(), `msg="load test begins"`), strings.Count(log.String(), `msg="load test ended"`); begins != ends || begins == 0 {
			t.Errorf("%d lines of the begin and %d of the end:\n%s", begins, ends, &log)
		}
		requests := w.Requests()
		if task.tick(testlab.Context(t), schedule.Run{}); w.Requests() != requests {
			t.Error("it ran again within its interval")
		}
	})
}

// crowd asks a server as n users do who do not stop, until the test or what it returns ends them.
func crowd(t *testing.T, url string, n, tokens int) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(testlab.Context(t)))
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for ctx.Err() == nil {
				body := fmt.Sprintf(`{"model":"simulated-8b","stream":true,"max_tokens":%d,"messages":[{"role":"user","content":"tell me more"}]}`, tokens)
				req, _ := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
				req.Header.Set("Content-Type", "application/json")
				if resp, err := foreign.NewClient(foreign.Limits{}).Do(req); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			}
		})
	}
	end = sync.OnceFunc(func() { cancel(); all.Wait() })
	t.Cleanup(end)
	return end
}

// running starts a tick and returns when the server has had a request of it, with what waits for its end.
func running(t *testing.T, w *testlab.Witness, task *loadTask) (ended <-chan time.Time) {
	t.Helper()
	before := w.Requests()
	done := make(chan time.Time, 1)
	go func() {
		task.tick(context.WithoutCancel(testlab.Context(t)), schedule.Run{})
		done <- time.Now()
	}()
	for deadline := time.Now().Add(10 * time.Second); w.Requests() < before+2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the load test does not begin")
		}
	}
	return done
}

// within wants the end of a run within a second of an instant.
func within(t *testing.T, ended <-chan time.Time, since time.Time) {
	t.Helper()
	select {
	case at := <-ended:
		t.Logf("ended after %s", at.Sub(since))
		if took := at.Sub(since); took > time.Second {
			t.Errorf("it ended after %s, want within a second", took)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it goes on")
	}
}

func TestLoadEndsForUsers(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		o := loadServer()
		o.Slots = 4
		w := testlab.NewWitness(t, o)
		l, task := loadLab(t, w.URL, "users: [3]", "", time.Minute)
		ended := running(t, w, task)
		came := time.Now()
		crowd(t, w.URL, 8, 64)
		within(t, ended, came)
		l.wantEnd(loadtest.UsersWaiting)

		// While they are there, there is no room, which is an end only when it is known to stay so.
		task = l.dueLoad()
		last := l.loadFinding()
		before := w.Requests()
		task.tick(testlab.Context(t), schedule.Run{})
		if l.loadFinding() != last || w.Requests() != before || task.refused == nil {
			t.Errorf("a run without room is one: %+v", l.loadFinding())
		}
		task.until = time.Now()
		task.tick(testlab.Context(t), schedule.Run{})
		l.wantEnd(loadtest.NoRoom)
	})
}

// A server that dies under load, a reload and a shutdown end the run at once, and leave nothing behind.
func TestLoadIsInterrupted(t *testing.T) {
	for name, tc := range map[string]struct {
		interrupt func(l *lab, dead *atomic.Bool)
		want      []loadtest.End // none is published of an endpoint that was replaced
	}{
		"server dies": {func(_ *lab, dead *atomic.Bool) { dead.Store(true) }, []loadtest.End{loadtest.Errors, loadtest.PageLost, loadtest.NotUp}},
		"mute":        {func(l *lab, _ *atomic.Bool) { _ = l.Mute("e", time.Hour, "enough") }, []loadtest.End{loadtest.NotUp}},
		"reload":      {func(l *lab, _ *atomic.Bool) { l.mustApply("{url: http://127.0.0.1:1, name: other}") }, nil},
		"shutdown":    {func(l *lab, _ *atomic.Bool) { l.endpoint("e").end() }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			testlab.Virtual(t, func(t *testing.T) {
				w, dead := testlab.NewWitness(t, loadServer()), new(atomic.Bool)
				url := testlab.Serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					if dead.Load() {
						panic(http.ErrAbortHandler)
					}
					w.ServeHTTP(rw, r)
				}))
				l, task := loadLab(t, url, "users: [2, 4]", "", time.Minute)
				ended := running(t, w, task)
				at := time.Now()
				tc.interrupt(l, dead)
				within(t, ended, at)
				if tc.want != nil {
					l.wantEnd(tc.want...)
				}
				if task.endpoint.loaded.Load() || task.endpoint.bursts.since(time.Now()) || !l.loading.TryLock() {
					t.Error("the load test is said to go on")
				} else {
					l.loading.Unlock()
				}
			})
		})
	}
}

// A reload that leaves the endpoint as it is does not touch the run.
func TestLoadSurvivesAnotherReload(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		w := testlab.NewWitness(t, loadServer())
		l, _ := loadLab(t, w.URL, "users: [1]", "", 500*time.Millisecond)
		ended := running(t, w, l.dueLoad())
		if err := l.Apply(loadPlanOf(t, w.URL, "users: [1]", "", 500*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		<-ended
		l.wantEnd(loadtest.Completed)
	})
}

// What there is no reason for does not begin.
func TestLoadDoesNotBegin(t *testing.T) {
	for name, tc := range map[string]struct {
		load   string
		before func(l *lab, task *loadTask)
	}{
		"window":       {"users: [1], window: {hours: '02:00-04:00'}", func(*lab, *loadTask) {}},
		"just started": {"users: [1]", func(_ *lab, task *loadTask) { task.since = time.Now() }},
		"ran":          {"users: [1]", func(_ *lab, task *loadTask) { task.last = time.Now() }},
		"another runs": {"users: [1]", func(l *lab, _ *loadTask) { l.loading.Lock() }},
		"burst":        {"users: [1]", func(_ *lab, task *loadTask) { task.endpoint.burst() }},
		"muted":        {"users: [1]", func(l *lab, _ *loadTask) { _ = l.Mute("e", time.Hour, "maintenance") }},
		"failing": {"users: [1]", func(l *lab, _ *loadTask) {
			for range 4 {
				failed := served(time.Now(), time.Second)
				failed.Outcome, failed.Err = result.ConnectError, errors.New("refused")
				l.endpoint("e").tasks[0].take(failed, false, false)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			testlab.Virtual(t, func(t *testing.T) {
				w := testlab.NewWitness(t, loadServer())
				l, task := loadLab(t, w.URL, tc.load, "", 300*time.Millisecond)
				tc.before(l, task)
				requests := w.Requests()
				task.tick(testlab.Context(t), schedule.Run{})
				if w.Requests() != requests || l.loadFinding() != nil {
					t.Errorf("it ran: %+v", l.loadFinding())
				}
			})
		})
	}
}

// The run is once in each interval, at a time of its own that a restart does not shift, and not at once.
func TestLoadIsPlaced(t *testing.T) {
	l := newLab(t)
	if err := l.Apply(loadPlanOf(t, "http://127.0.0.1:1", "users: [1]", "", time.Minute)); err != nil {
		t.Fatal(err)
	}
	task, runs := l.endpoint("e").loads[0], map[time.Time]bool{}
	start := time.Now()
	if task.point(start).After(task.last) {
		t.Error("it is due at once")
	}
	for at := start; at.Before(start.Add(72 * time.Hour)); at = at.Add(time.Minute) {
		p := task.point(at)
		if p.After(at) || at.Sub(p) >= 24*time.Hour {
			t.Fatalf("the latest at %s is %s", at, p)
		}
		runs[p] = true
	}
	if len(runs) != 4 {
		t.Errorf("due %d times in 72 h, want 4: the one before, and three", len(runs))
	}
}

// A run that the end of the process cut short counts as one, however the process ended: what is killed again and again
// must not put load on an endpoint each time.
func TestLoadIsNotRepeatedByTheNextProcess(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		w := testlab.NewWitness(t, loadServer())
		l, task := loadLab(t, w.URL, "users: [1]", "", time.Minute)
		next := func() *lab {
			t.Helper()
			next := newLab(t)
			if err := l.saveLearned(restoring(next)); err != nil {
				t.Fatal(err)
			}
			if err := next.Apply(loadPlanOf(t, w.URL, "users: [1]", "", time.Minute)); err != nil {
				t.Fatal(err)
			}
			next.wantEnd(loadtest.Canceled)
			if got := next.page().Sum("inference_probe_load_running"); got != 0 {
				t.Errorf("load_running is %v in the next process", got)
			}
			if task := next.endpoint("e").loads[0]; time.Since(task.last) > time.Minute {
				t.Errorf("the latest run was at %s", task.last)
			}
			return next
		}
		ctx, stop := context.WithCancel(testlab.Context(t))
		ended := make(chan struct{})
		go func() {
			task.tick(ctx, schedule.Run{})
			close(ended)
		}()
		if synctest.Wait(); l.page().Sum("inference_probe_load_running") != 1 {
			t.Fatalf("it does not run: %+v", l.loadFinding())
		}
		next() // as if it were killed now
		stop()
		<-ended
		l.wantEnd(loadtest.Canceled)
		if got := l.page().Sum("inference_probe_load_running"); got != 0 {
			t.Errorf("load_running is %v after the end", got)
		}
		next()
	})
}

// The curve and when it was measured survive a restart.
func TestLoadSurvivesARestart(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		w := testlab.NewWitness(t, loadServer())
		l, _ := loadLab(t, w.URL, "users: [1]", "", 500*time.Millisecond)
		l.tick()
		l.wantEnd(loadtest.Completed)
		next := newLab(t)
		err := l.saveLearned(restoring(next))
		if err != nil {
			t.Fatal(err)
		}
		if err := next.Apply(loadPlanOf(t, w.URL, "users: [1]", "", 500*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		next.wantEnd(loadtest.Completed)
		if got, want := next.endpoint("e").loads[0].last, l.loadFinding().At; got.Sub(want).Abs() > time.Second {
			t.Errorf("the latest run was at %s, want %s", got, want)
		}
		if !next.page().Has("inference_probe_load_requests", "level", "1") {
			t.Error("the curve is not on the page of metrics")
		}
	})
}

// The endpoint's budget, and that of the run, are never exceeded.
func TestLoadKeepsItsBudget(t *testing.T) {
	for name, tc := range map[string]struct {
		load, more string
		most       int
	}{
		"of the run":      {"users: [8], max_tokens: 2000", "", 2000},
		"of the endpoint": {"users: [8]", ", budget: {tokens_per_hour: 3000}", 3000},
		"in dollars":      {"users: [8], max_usd: 0.002", ", price: {input_usd: 1, output_usd: 1}", 2000},
	} {
		t.Run(name, func(t *testing.T) {
			testlab.Virtual(t, func(t *testing.T) {
				w := testlab.NewWitness(t, loadServer())
				l, task := loadLab(t, w.URL, tc.load, tc.more, 20*time.Second)
				before := w.Tokens()
				if strings.Contains(tc.more, "budget") {
					before = 0
				}
				task.tick(testlab.Context(t), schedule.Run{})
				spent := w.Tokens() - before
				l.wantEnd(loadtest.Budget)
				if spent > tc.most || spent < tc.most/2 {
					t.Errorf("%d tokens were spent of %d", spent, tc.most)
				}
			})
		})
	}
}

// A key without quota is a clear end, in the command too, and so is a page that is not there.
func TestRunLoad(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		w := testlab.NewWitness(t, loadServer())
		var status atomic.Int32
		url := testlab.Serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if code := int(status.Load()); code > 0 && r.Method == http.MethodPost {
				rw.WriteHeader(code)
				return
			}
			if status.Load() < 0 && r.Method == http.MethodGet {
				http.NotFound(rw, r)
				return
			}
			w.ServeHTTP(rw, r)
		}))
		run := func(load string) *loadtest.Finding {
			t.Helper()
			p := loadPlanOf(t, url, load, "", 500*time.Millisecond)
			target, err := NewTarget(p.Endpoints[0], p.Config.Modules, "busy", "", "")
			if err != nil {
				t.Fatal(err)
			}
			f, err := RunLoad(testlab.Context(t), target, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		if f := run("users: [1, 2]"); f.End != loadtest.Completed || len(f.Levels) != 2 {
			t.Errorf("got %+v", f)
		}
		for _, code := range []int{http.StatusUnauthorized, http.StatusPaymentRequired, http.StatusForbidden} {
			status.Store(int32(code))
			if f := run("users: [2]"); f.End != loadtest.Refused {
				t.Errorf("status %d: %+v", code, f)
			}
		}
		for _, cfg := range []string{"{name: e, url: %s}", "{name: e, url: %s, api: openai-chat}"} { // where the endpoint is to be identified first
			c := parse(t, "modules: {busy: {load: {users: [1]}}}\nendpoints: ["+fmt.Sprintf(cfg, testlab.Serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if strings.Contains(r.URL.Path, "metrics") {
					w.ServeHTTP(rw, r)
					return
				}
				rw.WriteHeader(http.StatusUnauthorized)
			})))+"]")
			f, err := RunLoad(testlab.Context(t), newTarget(c.Endpoints[0], "busy", c.Modules["busy"]), nil, nil)
			if err != nil || f.End != loadtest.Refused {
				t.Errorf("%s: %+v, %v", cfg, f, err)
			}
		}
		for _, more := range []string{"", ", api: openai-chat, model: m"} { // with something to identify, and without
			c := parse(t, "modules: {busy: {load: {users: [1]}}}\nendpoints: [{name: e, url: http://192.0.2.1:1"+more+"}]")
			f, err := RunLoad(testlab.Context(t), newTarget(c.Endpoints[0], "busy", c.Modules["busy"]), nil, nil)
			if err != nil || f.End != loadtest.NotPossible || !strings.Contains(f.Text, "connection refused") {
				t.Errorf("where nothing listens%s: %+v, %v", more, f, err)
			}
		}
		status.Store(-1)
		if f := run("users: [2]"); f.End != loadtest.NotPossible || !strings.Contains(f.Text, "without_page") {
			t.Errorf("without a page: %+v", f)
		}
		if f := run("users: [2], without_page: true"); f.End != loadtest.Completed {
			t.Errorf("without a page, which is allowed: %+v", f)
		}
	})
}

// TestRunLoadByOwnMapping reads a page that only an engine of the configuration describes.
func TestRunLoadByOwnMapping(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		server := simulator.New(loadServer()).Handler()
		url := testlab.Serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "metrics") {
				fmt.Fprint(rw, "lab_running 0\nlab_waiting 0\n")
				return
			}
			server.ServeHTTP(rw, r)
		}))
		c := parse(t, `
engines: {lab: {sentinels: [lab_running], values: {requests_running: [{series: lab_running}], requests_waiting: [{series: lab_waiting}]}}}
modules: {busy: {input_tokens: 32, output_tokens: 2, load: {users: [1]}}}
endpoints: [{name: e, url: '`+url+`'}]`)
		c.Modules["busy"].Load.Duration = model.Duration(500 * time.Millisecond)
		target := newTarget(c.Endpoints[0], "busy", c.Modules["busy"])
		if f, err := RunLoad(testlab.Context(t), target, nil, nil); err != nil || f.End != loadtest.NotPossible {
			t.Errorf("without it: %+v, %v", f, err)
		}
		if f, err := RunLoad(testlab.Context(t), target, c.Engines, nil); err != nil || f.End != loadtest.Completed {
			t.Errorf("got %+v, %v", f, err)
		}
	})
}

// A load test is no probe on request.
func TestLoadIsNoProbe(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		l, _ := loadLab(t, testlab.Serve(t, simulator.New(testlab.Quick()).Handler()), "users: [1]", "", time.Minute)
		_, err := l.Probe(testlab.Context(t), ProbeRequest{Target: "e", Module: "busy"})
		if refusal, ok := errors.AsType[*Refusal](err); !ok || !strings.Contains(refusal.Reason, "load test") {
			t.Errorf("got %v", err)
		}
		cfg := l.active.Load().onRequest
		target, err := NewTarget(cfg.endpoints[0], cfg.modules, "busy", "", "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := target.NewProber(l.dialer); err == nil || !strings.Contains(err.Error(), "load test") {
			t.Errorf("got %v", err)
		}
	})
}

// There is one load of our own at a time: no burst beside a load test, while probes go on, which the page counts and which
// are no users.
func TestProbesBesideALoadTest(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		w := testlab.NewWitness(t, testlab.Swift())
		l := workLab(t, fmt.Sprintf(`
modules: {light: {input_tokens: 16, output_tokens: 2}, burst: {input_tokens: 16, output_tokens: 2, concurrency: [2]}, busy: {load: {users: [1]}}}
endpoints: [{name: e, url: %s, modules: [light, burst, busy]}]`, w.URL))
		e := l.endpoint("e")
		end := e.beginLoad()
		p := l.times(1, "e")
		if got := w.Requests(); got != 1 || p.Sum(skippedFamily, "module", "burst", "reason", "overrun") != 1 {
			t.Errorf("%d requests beside a load test, want those of the probe", got)
		}
		if p.Sum("inference_probe_ttft_window_samples") != 0 {
			t.Error("what a probe met beside a load test counts")
		}
		end()
		if l.times(1, "e"); w.Requests() != 4 {
			t.Errorf("%d requests in all, want the probe's, and then the probe's and the burst's", w.Requests())
		}

		e.probing.Store(2)
		reader, err := l.Network.Reader(e.cfg, e.mappings)
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		crowd(t, w.URL, 3, 1000)
		r := newLoadRun(e.loads[0].Target, reader, l.Logger)
		r.task = e.loads[0]
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			if p, err := r.Pressure(testlab.Context(t)); err == nil && p.Running == 1 { // of three
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("probes in flight are taken for users")
			}
		}
	})
}

// The pages of all servers together, in numbers of a page of vLLM's.
func TestPressureOf(t *testing.T) {
	server := func(name string, running, waiting, kv float64, counts ...uint64) page.Status {
		h := &page.Histogram{Bounds: []float64{0.1, 0.5, 1}, Counts: counts, Count: counts[2] + 1}
		return page.Status{Server: name, State: page.Up, Snapshot: &page.Snapshot{
			Engine:     "vllm",
			Values:     map[config.Quantity]float64{config.RequestsRunning: running, config.RequestsWaiting: waiting, config.KVCacheUsage: kv},
			Histograms: map[config.Quantity]*page.Histogram{config.TTFT: h},
		}}
	}
	two := []page.Status{server("a", 3, 1, 0.2, 5, 7, 8), server("b", 4, 0, 0.6, 10, 20, 30)}
	got, err := pressureOf(two, 500*time.Millisecond)
	want := loadtest.Pressure{Running: 7, Waiting: 1, KVUsage: 0.6, TTFTCount: 9 + 31, TTFTLate: (9 - 7) + (31 - 20), UsualP99: 500 * time.Millisecond}
	if err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	if got, err = pressureOf(two, 0); err != nil || got.TTFTLate >= 0 {
		t.Errorf("got %+v, %v without anything usual", got, err)
	}
	two[1].Snapshot, two[1].State, two[1].Err = nil, page.Down, errors.New("refused")
	if _, err := pressureOf(two, 0); err == nil || errors.Is(err, errNoPressure) {
		t.Errorf("got %v for a server whose page is away", err)
	}
	delete(two[0].Snapshot.Values, config.RequestsWaiting)
	for _, none := range [][]page.Status{nil, two[:1]} {
		if _, err := pressureOf(none, 0); !errors.Is(err, errNoPressure) {
			t.Errorf("got %v of pages that do not show it", err)
		}
	}
}

// Behind a balancer each reading is of another server, and users of the others are not seen.
func TestLoadBehindABalancer(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		servers := []*testlab.Witness{testlab.NewWitness(t, loadServer()), testlab.NewWitness(t, loadServer())}
		var readings atomic.Int32
		url := testlab.Serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				servers[readings.Add(1)%2].ServeHTTP(rw, r)
				return
			}
			servers[0].ServeHTTP(rw, r)
		}))
		p := loadPlanOf(t, url, "users: [2]", "", 10*time.Second)
		f, err := RunLoad(testlab.Context(t), newTarget(p.Endpoints[0], "busy", p.Config.Modules["busy"]), nil, nil)
		if err != nil || f.End != loadtest.PageLost || !strings.Contains(f.Text, "a balancer has several servers there") {
			t.Errorf("got %+v, %v", f, err)
		}
	})
}

// Why a load test of the exporter cannot begin is in its log.
func TestLoadCannotBegin(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		w := testlab.NewWitness(t, loadServer())
		url := testlab.Serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet {
				http.NotFound(rw, r)
				return
			}
			w.ServeHTTP(rw, r)
		}))
		l, task := loadLab(t, url, "users: [1]", "", time.Second)
		var log bytes.Buffer
		l.Logger = slog.New(slog.NewTextHandler(&log, nil))
		task.tick(testlab.Context(t), schedule.Run{})
		if l.wantEnd(loadtest.NotPossible); !strings.Contains(log.String(), "load test cannot begin") || !strings.Contains(log.String(), "no metrics page") {
			t.Errorf("log %s", log.String())
		}
	})
}

// restoring has another process take up what one saves.
func restoring(next *lab) func(record any) error {
	return func(record any) error {
		line, err := json.Marshal(record)
		if err != nil {
			return err
		}
		return next.restore(line)
	}
}

package fleet

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
	"github.com/inference-exporter/inference_exporter/internal/users"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// Users' requests at a simulated server, of which two in ten have long prompts, are counted against the objective as the
// server recorded each of them, and go on to be over a reload.
func TestUsersAgainstTheSimulator(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		o := testlab.Swift()
		o.Engine, o.PrefillTokensPerSecond = "vllm", 2e4
		w := testlab.NewWitness(t, o)
		l := newLab(t)
		l.Scraping = schedule.New(schedule.Options{})
		apply := func(team string) {
			t.Helper()
			if err := l.Apply(planOf(parse(t, fmt.Sprintf("modules: {m: {output_tokens: 3}}\nendpoints: [{name: e, url: %s, modules: [m], labels: {team: %s}, slo: {ttft: 50ms}}]", w.URL, team)))); err != nil {
				t.Fatal(err)
			}
		}
		apply("a")
		read := func() { l.endpoint("e").scrape.read(testlab.Context(t), schedule.Run{}) }
		l.run("e", schedule.Run{Scheduled: time.Now()})
		read()
		before := w.Requests()
		for i := range 50 {
			words := 100
			if i%5 == 0 {
				words = 2000
			}
			askAs(t, w.URL, fmt.Sprintf("w%d ", i), words, 2) // none is cached
		}
		l.run("e", schedule.Run{Scheduled: time.Now()})
		read()
		slow, all := 0.0, w.Records()[before:]
		for _, r := range all {
			if r.Queue+r.Prefill > 50*time.Millisecond {
				slow++
			}
		}
		if slow < 10 {
			t.Fatalf("%v of the simulated requests are slow", slow)
		}
		for _, when := range []string{"before", "after"} {
			p := l.page()
			eligible := p.Sum("inference_users_slo_eligible_total", "slo", "ttft")
			bad, possible := p.Sum("inference_users_slo_bad_total", "slo", "ttft"), p.Sum("inference_users_slo_possibly_bad_total", "slo", "ttft")
			if eligible != float64(len(all)) || bad > slow || possible < slow || possible-bad > 5 {
				t.Errorf("%s a reload: %v eligible of %d, %v to %v bad of %v", when, eligible, len(all), bad, possible, slow)
			}
			if n := p.Sum("inference_users_slo_eligible_total", "slo", "availability"); n != float64(len(all)) {
				t.Errorf("%s a reload: %v requests ended of %d", when, n, len(all))
			}
			apply("b")
		}
		d, _ := l.Board.Detail("e")
		if v, ok := workload.In[*users.View](d.Facts); !ok || v.TTFT.Samples != uint64(len(all)) || v.TTFT.Seconds["p50_upper"] > 0.05 {
			t.Errorf("on the page: %+v", v)
		}
	})
}

// The time that a proxy adds before it passes a request on is outside of the server's own TTFT.
func TestOverheadAgainstTheSimulator(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		const added = 500 * time.Millisecond
		server := simulator.New(testlab.Swift()).Handler()
		url := testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				time.Sleep(added)
			}
			server.ServeHTTP(w, r)
		}))
		l := newLab(t)
		l.Scraping = schedule.New(schedule.Options{})
		if err := l.Apply(planOf(parse(t, "modules: {m: {input_tokens: 16, output_tokens: 4}}\nendpoints: [{name: e, url: '"+url+"', modules: [m]}]"))); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			l.times(1, "e")
			l.endpoint("e").scrape.read(l.ctx(), schedule.Run{})
		}
		const family = "inference_endpoint_ttft_overhead_seconds"
		if p := l.page(); !p.Has(family, "source", "histogram") || math.Abs(p.Sum(family)-added.Seconds()) > 1e-6 {
			t.Errorf("overhead of %v s, want %v", p.Sum(family), added)
		}
	})
}

// One tenant's requests fail while all probes succeed: that pages, by users alone, and says what grew.
func TestASickTenantPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		l.Scraping = schedule.New(schedule.Options{})
		if err := l.Apply(planOf(parse(t, "modules: {m: {interval: 30s}}\nendpoints: [{name: e, url: 'http://127.0.0.1:9', modules: [m], slo: {objective: 0.99}}]"))); err != nil {
			t.Fatal(err)
		}
		e, good, failed := l.endpoint("e"), 1000.0, 0.0
		pass := func(span time.Duration, share float64) {
			for i := range int(span / (15 * time.Second)) {
				time.Sleep(15 * time.Second)
				if i%2 == 0 {
					e.tasks[0].take(served(time.Now(), time.Second/5), false, false)
				}
				good, failed = good+100*(1-share), failed+100*share
				e.read([]page.Status{{Server: "a", State: page.Up, Snapshot: &page.Snapshot{
					Engine: "vllm", At: time.Now(), Requests: map[string]float64{"stop": good, "error": failed}, Errors: page.Errors{Certain: failed},
				}}})
			}
		}
		pass(2*time.Hour, 0)
		if p := e.health.Status().Paging; p != nil {
			t.Fatalf("it pages while all is well: %+v", p)
		}
		pass(45*time.Minute, 0.2)
		p := e.health.Status().Paging
		if p == nil || p.Witness != health.Users || !strings.Contains(p.Why, "of 100 requests 20 ended with an error") {
			t.Fatalf("%+v", p)
		}
		if got := l.page().Sum("inference_users_slo_bad_total", "slo", "availability"); got != failed {
			t.Errorf("%v bad requests, want %v", got, failed)
		}
		pass(2*time.Hour, 0)
		if p := e.health.Status().Paging; p != nil {
			t.Errorf("it pages hours later: %+v", p)
		}
	})
}

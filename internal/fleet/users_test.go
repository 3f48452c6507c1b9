package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/schedule"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// Users' requests at a simulated server, of which two in ten have long prompts, are counted against the objective as the
// server recorded each of them, and go on to be over a reload.
func TestUsersAgainstTheSimulator(t *testing.T) {
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
	read := func() { l.endpoint("e").scrape.read(t.Context(), schedule.Run{}) }
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
	if d, ok := l.Board.Detail("e"); !ok || d.Users == nil || d.Users.TTFT.Samples != uint64(len(all)) || d.Users.TTFT.Seconds["p50_upper"] > 0.05 {
		t.Errorf("on the page: %+v", d.Users)
	}
}

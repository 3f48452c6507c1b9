package fleet

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/foreign"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/load"
)

// askedBy keeps what a module is given to draw from.
type askedBy struct{ latest *load.Mix }

func (a *askedBy) SetMix(m *load.Mix) { a.latest = m }

// The pages of servers become the lengths that modules draw from.
func TestTrafficOfPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &askedBy{}
		users := &traffic{users: load.NewTraffic(time.Now), askers: []asker{a}}
		lengths := func(n uint64) *page.Histogram {
			return &page.Histogram{Bounds: []float64{100, 101, 200}, Counts: []uint64{0, n, n}, Count: n}
		}
		read := func(n uint64) {
			both := []page.Status{
				{Server: "a", Snapshot: &page.Snapshot{InputLengths: lengths(n), OutputLengths: lengths(2 * n)}},
				{Server: "b", Snapshot: &page.Snapshot{InputLengths: lengths(n), OutputLengths: lengths(2 * n)}},
				{Server: "c"},
				{Server: "d", Snapshot: &page.Snapshot{}},
			}
			users.read(both)
		}
		read(1000)
		for range 4 {
			time.Sleep(10 * time.Minute)
			read(1100)
		}
		if a.latest == nil || !slices.Equal(a.latest.Inputs, []workload.Length{{Tokens: 100, Weight: 200}}) || a.latest.Outputs[0].Weight != 400 {
			t.Errorf("lengths %+v", a.latest)
		}
		time.Sleep(25 * time.Hour)
		if read(1100); a.latest != nil {
			t.Errorf("a day later: %+v", a.latest)
		}
	})
}

// askAs sends requests as users do, of a word so many times, in one answer of so many tokens.
func askAs(t *testing.T, url, word string, words, output int) {
	t.Helper()
	body := fmt.Sprintf(`{"messages":[{"role":"user","content":%q}],"max_tokens":%d,"ignore_eos":true}`, strings.Repeat(word, words), output)
	req, err := http.NewRequestWithContext(testlab.Context(t), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Traceparent", fmt.Sprintf("00-%032x-%016x-01", rand.Uint64(), 1)) // or the server keeps no record
	resp, err := foreign.NewClient(foreign.Limits{}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v", resp.StatusCode, err)
	}
}

// A module asks what users ask of the simulated server, by the server's own page: neither
// its own probes nor those of another module change that, although there are many.
func TestTrafficAgainstTheSimulator(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		o := testlab.Swift()
		o.Engine = "vllm"
		w := testlab.NewWitness(t, o)
		l := newLab(t)
		l.Scraping = schedule.New(schedule.Options{})
		if err := l.Apply(planOf(parse(t, fmt.Sprintf(`
modules:
  typical: {traffic: {max_input_tokens: 1500, max_output_tokens: 50}, input_tokens: 100, output_tokens: 3}
  other: {input_tokens: 60, output_tokens: 1}
endpoints: [{name: e, url: %s, modules: [typical, other]}]`, w.URL)))); err != nil {
			t.Fatal(err)
		}
		m := l.endpoint("e")
		now := time.Now() // the clock of what users ask
		m.traffic.users = load.NewTraffic(func() time.Time { return now })
		read := func() { m.scrape.read(testlab.Context(t), schedule.Run{}) }
		run := func(n int) {
			for range n {
				l.run("e", schedule.Run{Scheduled: time.Now()})
			}
		}
		run(1)
		read()
		var inputs, outputs []float64
		for i := range 240 {
			words, output := 288+(i%2)*600, 8+(i%2)*30 // 300 and 900 tokens, with the template
			askAs(t, w.URL, "word ", words, output)
			inputs, outputs = append(inputs, float64(words+12)), append(outputs, float64(output))
			if i%8 == 0 {
				run(1)
			}
		}
		before := w.Requests()
		for range 4 {
			now = now.Add(10 * time.Minute)
			read()
		}
		m.findings[0].tracker = m.targets[0].Tracker(m.traffic.users) // as after some hours
		if p := l.times(30, "e"); p.Sum("inference_probe_traffic_requests") != 240 {
			t.Errorf("%v requests of users, want 240", p.Sum("inference_probe_traffic_requests"))
		}
		var typical [2][]float64
		for _, r := range w.Records()[before:] {
			if r.OutputTokens > 1 { // those of the other module have 1
				typical[0], typical[1] = append(typical[0], float64(r.PromptTokens)), append(typical[1], float64(r.OutputTokens))
			}
		}
		if len(typical[0]) != 30 {
			t.Fatalf("%d probes", len(typical[0]))
		}
		for i, truth := range [2][]float64{inputs, outputs} {
			got, want := meanOf(typical[i]), meanOf(truth)
			logRelative(t, []string{"mean prompt", "mean answer"}[i], got, want)
			if math.Abs(got-want) > 0.3*want {
				t.Errorf("mean of %v tokens, of users %v", got, want)
			}
		}
		if p := l.page(); p.Sum("inference_probe_traffic_input_distance_ratio") > 0.01 || !p.Has("inference_probe_traffic_output_distance_ratio") {
			t.Errorf("distance %v", p.Sum("inference_probe_traffic_input_distance_ratio"))
		}
	})
}

func meanOf(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

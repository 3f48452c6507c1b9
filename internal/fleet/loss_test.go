package fleet

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
	"github.com/inference-exporter/inference_exporter/internal/workload/loadtest"
)

const headroomFamily = "inference_endpoint_loss_headroom_ratio"

// What the loss of one of two servers would mean follows from a load test and what the pages show, but for minutes in
// which the exporter put load on them, and goes on after a restart.
func TestLossOfAServer(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		w := testlab.NewWitness(t, loadServer())
		cfg := parse(t, fmt.Sprintf(`
modules: {light: {output_tokens: 2}, busy: {input_tokens: 32, output_tokens: 2, slo: {ttft: 2s}, load: {users: [4, 8, 16]}}}
endpoints: [{name: e, url: %s, api: openai-chat, model: simulated-8b, modules: [light, busy], servers: {urls: [%s/metrics]}, budget: {tokens_per_hour: 10000000}}]`, w.URL, w.URL))
		start := func(restore func(*lab)) *lab {
			l := newLab(t)
			l.Scraping = schedule.New(schedule.Options{})
			restore(l)
			if err := l.Apply(planOf(cfg)); err != nil {
				t.Fatal(err)
			}
			return l
		}
		now := time.Now()
		read := func(l *lab, ago time.Duration, requests float64) {
			var statuses []page.Status
			for _, server := range []string{"a", "b"} {
				statuses = append(statuses, page.Status{Server: server, State: page.Up, At: now.Add(-ago), Snapshot: &page.Snapshot{
					At: now.Add(-ago), Engine: "vllm", Values: map[config.Quantity]float64{config.RequestsRunning: requests / 2, config.RequestsWaiting: 0},
				}})
			}
			l.endpoint("e").read(statuses)
		}
		l := start(func(*lab) {})
		l.probe()
		// Two servers with 4 and 8 requests together put out 200 and 300 tokens per second within the objective.
		finding := &loadtest.Finding{At: now, End: loadtest.Completed, Kind: config.LoadUsers, TTFT: 2, MaxGood: &loadtest.Capacity{Level: 8, InFlight: 8}}
		for _, level := range [][2]float64{{4, 200}, {8, 300}} {
			users, speed := level[0], level[1]
			finding.Levels = append(finding.Levels, loadtest.Level{
				Level: users, At: now, Complete: true, InFlight: users, Replicas: 2, OutputTokensPerSecond: speed, Verdict: loadtest.Met,
			})
		}
		l.endpoint("e").loads[0].findings.take("", finding)
		for ago := 30 * time.Hour; ago >= 0; ago -= time.Minute {
			requests := 4.0
			if ago == 12*time.Hour {
				requests = 8
			}
			read(l, ago, requests)
		}
		// One server does 150, of the 200 of now and of the 300 of the peak.
		want := func(l *lab, now, peak float64) {
			t.Helper()
			p := l.page()
			if n, k := p.Sum(headroomFamily, "when", "now"), p.Sum(headroomFamily, "when", "peak"); n != now || k != peak {
				t.Errorf("headroom %v and %v, want %v and %v", n, k, now, peak)
			}
		}
		want(l, 0.75, 0.5)
		end := l.endpoint("e").burst()
		for ago := range 5 {
			read(l, time.Duration(-ago)*time.Minute, 400)
		}
		end()
		want(l, 0.75, 0.5)
		d, _ := l.Board.Detail("e")
		text, err := json.Marshal(d.Facts)
		if err != nil || !strings.Contains(string(text), `"loss_of_a_server":{"now":{"lower":0.75},"peak":{"lower":0.5}`) {
			t.Errorf("%s, %v", text, err)
		}
		again := start(func(next *lab) {
			for _, save := range []func(func(any) error) error{l.saveEndpoints, l.saveLearned} {
				if err := save(restoring(next)); err != nil {
					t.Fatal(err)
				}
			}
		})
		for ago := range 3 {
			read(again, time.Duration(-1-ago)*time.Minute, 4)
		}
		want(again, 0.75, 0.5)
	})
}

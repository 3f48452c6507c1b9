package explain

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/workload/drift"
	"github.com/inference-exporter/inference_exporter/internal/workload/loadtest"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// The rules have a row for each cause, whole and with a runbook that exists.
func TestRulesAreWhole(t *testing.T) {
	seen := map[Cause]bool{}
	for _, r := range rules() {
		if seen[r.Cause] || r.Cause == "" || r.Title == "" || r.When == "" || r.Against == "" || len(r.Do) == 0 || r.Weight <= 0 || r.match == nil {
			t.Errorf("the row of %q is not whole, or there are two", r.Cause)
		}
		seen[r.Cause] = true
		wantRunbook(t, r.Runbook)
	}
	if got := Causes(); len(got) != len(seen)+2 || got[len(got)-1] != Healthy {
		t.Errorf("the set of causes is %v", got)
	}
	// A rule of more weight comes first, so that the table reads as the ranking does.
	if !slices.IsSortedFunc(rules(), func(a, b Rule) int { return b.Weight - a.Weight }) {
		t.Error("the rows are not in the order of their weights")
	}
}

// What an alert says of each cause fits a line on a phone: a short clause, and one sentence.
func TestSay(t *testing.T) {
	for _, c := range Causes() {
		title, do := c.Say()
		if title == "" || len(title) > 60 || strings.ContainsAny(title, ".?\n") {
			t.Errorf("%s: title %q", c, title)
		}
		if len(do) > 110 || !strings.HasSuffix(do, ".") || strings.Contains(do, ". ") || strings.ContainsAny(do, "?!\n") {
			t.Errorf("%s: %d bytes to do: %q", c, len(do), do)
		}
	}
	if _, do := Certificate.Say(); !strings.HasPrefix(do, "Renew the certificate") {
		t.Errorf("a certificate: %s", do)
	}
}

func wantRunbook(t *testing.T, name string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join("..", "..", "docs", "runbooks", name+".md")); err != nil {
		t.Errorf("runbook %s: %v", name, err)
	}
}

// noon is the instant of all evidence.
var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// of returns evidence of an endpoint in a state since a minute ago.
func of(state health.State, probes ...Probe) *Evidence {
	e := &Evidence{At: noon, Endpoint: "e", Condition: Condition{State: state, Since: noon.Add(-time.Minute)}, Succeeded: true}
	for i := range probes {
		e.Probes = append(e.Probes, &probes[i])
	}
	return e
}

// many returns probes that ended in the same way, one every 5 s, the latest now.
func many(n int, like Probe) []Probe {
	all := make([]Probe, n)
	for i := range all {
		all[i] = like
		all[i].Start, all[i].Module = noon.Add(time.Duration(i-n)*5*time.Second), "interactive"
	}
	return all
}

// inTurns returns probes that ended in several ways, one after the other.
func inTurns(n int, like ...Probe) []Probe {
	all := many(n, like[0])
	for i := range all {
		at := all[i].Start
		all[i] = like[i%len(like)]
		all[i].Start = at
	}
	return all
}

// answered returns an answer by its durations.
func answered(ttft time.Duration) Probe {
	return Probe{
		Outcome: result.Success, Status: 200, StartLag: -1, Server: api.ServerTimes{Queue: -1, Prefill: -1},
		Timing: result.Timing{TTFT: ttft, TPOT: 20 * time.Millisecond, Duration: ttft + time.Second},
	}
}

// slow returns evidence of answers whose latencies are (now, usual, objective).
func slow(ttft, tpot [3]float64) *Evidence {
	e := of(health.Slow, many(12, answered(time.Duration(ttft[0]*float64(time.Second))))...)
	e.Speeds = []Speed{{Module: "interactive", TTFT: latency(ttft), TPOT: latency(tpot)}}
	return e
}

func latency(v [3]float64) Level { return Level{Now: &v[0], Usual: &v[1], Objective: &v[2]} }

func now(v float64) Level             { return Level{Now: &v} }
func levels(now, usual float64) Level { return Level{Now: &now, Usual: &usual} }

// Levels are those of Pages.
type Levels = map[config.Quantity]Level

// calm are latencies as usual and within the objective.
var (
	calmTTFT = [3]float64{0.2, 0.2, 0.5}
	calmTPOT = [3]float64{0.02, 0.02, 0.05}
)

// card returns the card of an endpoint that shows this.
func card(shown *gpu.DeviceSnapshot) []*gpu.DeviceSnapshot {
	shown.UUID = "GPU-1"
	return []*gpu.DeviceSnapshot{shown}
}

// with changes evidence.
func with(e *Evidence, change func(*Evidence)) *Evidence {
	change(e)
	return e
}

// tested has so many requests run and wait at a server that met the objectives with 48.5 in flight in a load test, and missed them with 97.
func tested(running, waiting float64) func(*Evidence) {
	return func(e *Evidence) {
		e.Servers = &Pages{Known: 1, Up: 1, Levels: Levels{config.RequestsRunning: levels(running, 40), config.RequestsWaiting: levels(waiting, 0)}}
		e.LoadTest = &LoadTest{At: noon.Add(-26 * time.Hour), MaxGood: &loadtest.Capacity{InFlight: 48.5}, Knee: &loadtest.Capacity{InFlight: 97}}
	}
}

// constructed are faults by evidence that is made of recorded facts, for those that
// cannot be injected over the wire on one machine without privileges.
func constructed() []struct {
	name string
	e    *Evidence
	want []Cause // the first, and others in any order
} {
	failed := func(o result.Outcome, status int) Probe {
		return Probe{Outcome: o, Status: status, Timing: result.Timing{TTFT: -1, TPOT: -1, Duration: time.Second}, Error: "text"}
	}
	stalled := func(side result.Side) Probe {
		p := failed(result.TimeoutStall, 200)
		p.Stall = &result.Stall{Side: side, Duration: 15 * time.Second, Samples: 14, Evidence: []string{"14 of 14"}}
		return p
	}
	saying := func(p Probe, text string) Probe {
		p.Error = text
		return p
	}
	late := [3]float64{2, 0.2, 0.5}
	behind := func(s *Pages, change func(*Pages)) func(*Evidence) {
		return func(e *Evidence) { e.Servers, e.Gateway = s, gatewayWith(change) }
	}
	serversUp := &Pages{Known: 2, Up: 2, Usual: 2, Levels: Levels{config.RequestsWaiting: levels(0, 0), config.RequestsRunning: levels(0, 2), config.GenerationTokens: levels(0, 90)}}
	differ := func(e *Evidence) {
		e.Servers = &Pages{Known: 2, Up: 2}
		e.Facts = known(&page.Compared{Findings: []page.Difference{{Setting: "version", Values: map[string][]string{"1": {"a"}, "2": {"b"}}}}})
	}
	admitsNothing := func(e *Evidence) {
		e.Servers = &Pages{Known: 1, Up: 1, Stuck: 3 * time.Minute, Work: "5 requests wait, none runs", Levels: Levels{
			config.RequestsRunning: levels(0, 3), config.RequestsWaiting: levels(5, 0), config.KVCacheUsage: levels(0.99, 0.4),
		}}
	}
	corrupted := func(e *Evidence) {
		e.Corruptions = []string{"answers with special tokens since 2026-11-22 11:00 UTC: 2 of 90, usually 0 % (module interactive)"}
	}
	return []struct {
		name string
		e    *Evidence
		want []Cause
	}{
		{"special tokens in answers", with(of(health.Up, many(12, answered(200*time.Millisecond))...), corrupted), []Cause{AnswersBroken}},
		{"special tokens in answers, key refused", with(of(health.Down, many(6, failed(result.Unauthorized, 401))...), corrupted), []Cause{Credentials, AnswersBroken}},
		{"special tokens in answers, some of which are empty", with(of(health.Degraded, append(many(3, failed(result.Empty, 200)), many(5, answered(time.Second))...)...), corrupted), []Cause{AnswersBroken}},
		{"answers stall, segments are lost", of(health.Down, many(6, stalled(result.SideNetwork))...), []Cause{Network}},
		{"answers stall, the host is gone", of(health.Down, many(6, stalled(result.SideHost))...), []Cause{Network}},
		{"answers stall, the server is silent", of(health.Down, many(6, stalled(result.SideServer))...), []Cause{Hung}},
		{"answers stall, the exporter does not read", of(health.Down, many(6, stalled(result.SideExporter))...), []Cause{ExporterBusy}},
		{"packets dropped by a firewall", of(health.Down, many(6, failed(result.TimeoutConnect, 0))...), []Cause{Network}},
		{"no route to the host", of(health.Down, many(6, Probe{Outcome: result.ConnectError, Reason: result.Unreachable})...), []Cause{Network}},
		{"certificate expired", of(health.Down, many(6, Probe{Outcome: result.TLSError, Reason: result.Expired})...), []Cause{Certificate}},
		{"410 after the date of retirement", with(of(health.Down, many(6, failed(result.HTTPError, 410))...), func(e *Evidence) { e.Facts = known(health.Retirement{Retirement: api.Retirement{Header: 1}}) }), []Cause{Request}},
		{"429 of a text-generation-inference server", with(of(health.Down, many(6, failed(result.RateLimited, 429))...), func(e *Evidence) { e.Engine = "tgi" }), []Cause{QueueFull}},
		{"502 by a gateway, all servers' pages refused", with(of(health.Down, many(6, failed(result.HTTPError, 502))...), func(e *Evidence) {
			e.Servers = &Pages{Known: 2, Lost: []string{"a:8000: connect", "b:8000: connect"}}
		}), []Cause{ProcessGone}},
		{"GPU lost, engine hung", with(of(health.Down, many(6, failed(result.TimeoutFirstToken, 0))...), func(e *Evidence) {
			e.Servers = &Pages{Known: 1, Up: 1, Stuck: 2 * time.Minute, Levels: Levels{config.RequestsRunning: now(3), config.RequestsWaiting: now(0)}}
			e.GPUs = card(&gpu.DeviceSnapshot{})
		}), []Cause{Hung}},
		{"a scheduler that admits nothing", with(of(health.Down, many(6, failed(result.TimeoutFirstToken, 0))...), admitsNothing), []Cause{Hung}},
		{"a scheduler that admits nothing, its queue is full", with(of(health.Down, many(6, failed(result.Overloaded, 503))...), admitsNothing), []Cause{Hung}},
		{"a scheduler that admits nothing, first tokens of other servers late", with(slow(late, calmTPOT), admitsNothing), []Cause{Hung}},
		{"one of several servers admits nothing, probes go to others", with(of(health.Up, many(12, answered(200*time.Millisecond))...), admitsNothing), []Cause{Hung}},
		{"a rank is starved, first tokens late", with(slow(late, calmTPOT), func(e *Evidence) {
			e.Servers = &Pages{Known: 1, Up: 1, Lag: []string{"a rank of 8 of a:8000 has had no request"}, Levels: Levels{config.RequestsWaiting: levels(9, 0), config.QueueTime: levels(1.6, 0)}}
		}), []Cause{RankBehind, QueueFull}},
		{"a rank is slow, probes pass", with(of(health.Up, many(12, answered(200*time.Millisecond))...), func(e *Evidence) {
			e.Servers = &Pages{Known: 1, Up: 1, Lag: []string{"a rank of 8 of a:8000 is slow"}}
		}), []Cause{RankBehind}},
		{"replicas differ, probes pass", with(of(health.Up, many(12, answered(200*time.Millisecond))...), differ), []Cause{ReplicasDiffer}},
		{"replicas differ, and the name does not resolve", with(of(health.Down, many(6, failed(result.DNSError, 0))...), differ), []Cause{DNS}},
		{"replicas differ, and a rank is slow", with(of(health.Up, many(12, answered(200*time.Millisecond))...), func(e *Evidence) {
			differ(e)
			e.Servers.Lag = []string{"a rank of 8 of a:8000 is slow"}
		}), []Cause{RankBehind, ReplicasDiffer}},
		{"429 by a gateway whose backends are saturated, no queue at the servers", with(of(health.Down, many(6, failed(result.RateLimited, 429))...), behind(serversUp, func(g *Pages) {
			g.Levels[config.RequestsWaiting], g.Levels[config.Saturation] = levels(40, 35), now(1.25)
		})), []Cause{GatewayQueue, QueueFull}},
		{"first tokens late, requests wait in a gateway that does not show for how long", with(slow(late, calmTPOT), behind(nil, func(g *Pages) {
			delete(g.Levels, config.QueueTime)
			g.Levels[config.RequestsWaiting] = levels(12, 1)
		})), []Cause{GatewayQueue}},
		{"connections to the gateway refused, its page too, servers up", with(of(health.Down, many(6, Probe{Outcome: result.ConnectError, Reason: result.Refused})...), behind(serversUp, lost)), []Cause{GatewayLost, ProcessGone}},
		{"504 by a balancer, the page of the gateway behind it lost", with(of(health.Down, many(6, failed(result.HTTPError, 504))...), behind(nil, lost)), []Cause{GatewayLost, GatewayFault}},
		{"key refused while the gateway's page is lost", with(of(health.Down, many(6, failed(result.Unauthorized, 401))...), behind(nil, lost)), []Cause{Credentials}},
		{"connections refused, the page of the gateway was never read", with(of(health.Down, many(6, Probe{Outcome: result.ConnectError, Reason: result.Refused})...), behind(nil, func(g *Pages) {
			lost(g)
			g.WasRead = false
		})), []Cause{ProcessGone}},
		{"503 by a gateway without a ready backend, servers up", with(of(health.Down, many(6, failed(result.Overloaded, 503))...), behind(serversUp, ready(0, 4))), []Cause{GatewayBackends, QueueFull}},
		{"404 by a gateway that lost the last backend of its model", with(of(health.Down, many(6, failed(result.HTTPError, 404))...), behind(nil, func(g *Pages) {
			g.Levels = Levels{config.ModelsReady: levels(0, 1)}
		})), []Cause{GatewayBackends}},
		{"503 by a gateway without a ready backend, all servers' pages refused", with(of(health.Down, many(6, failed(result.Overloaded, 503))...), behind(&Pages{Known: 1, Lost: []string{"a:8000: connect"}}, ready(0, 4))), []Cause{ProcessGone, GatewayBackends}},
		{"two of four backends left, requests wait at the servers", with(slow(late, calmTPOT), behind(&Pages{Known: 1, Up: 1, Levels: Levels{config.RequestsWaiting: levels(9, 0), config.RequestsRunning: levels(32, 20), config.QueueTime: levels(1.6, 0)}}, ready(2, 4))), []Cause{GatewayBackends, QueueFull}},
		{"first tokens late, half of what is more in the queue of the gateway", with(slow(late, calmTPOT), behind(&Pages{Known: 1, Up: 1, Levels: Levels{config.TTFT: levels(0.2, 0.18), config.RequestsWaiting: levels(0, 0)}}, func(g *Pages) {
			g.Levels[config.RequestsWaiting], g.Levels[config.QueueTime] = levels(12, 0), levels(1.7, 0.001)
		})), []Cause{GatewayQueue}},
		{"no first token in time, requests wait in the gateway and the servers work", with(of(health.Down, many(6, failed(result.TimeoutFirstToken, 0))...), behind(&Pages{Known: 1, Up: 1, Levels: Levels{config.RequestsRunning: now(8), config.RequestsWaiting: now(0), config.GenerationTokens: now(300)}}, func(g *Pages) {
			g.Levels[config.RequestsWaiting] = levels(40, 0)
		})), []Cause{GatewayQueue}},
		{"tokens late at more requests than met the objectives in a load test", with(slow([3]float64{0.3, 0.2, 0.5}, [3]float64{0.08, 0.03, 0.05}), tested(60, 0)), []Cause{OverCapacity, DecodeSlow}},
		{"first tokens late in a queue, at more requests than met the objectives in a load test", with(slow(late, calmTPOT), tested(50, 30)), []Cause{QueueFull, OverCapacity}},
		{"KV cache full with preemptions", with(slow(late, calmTPOT), func(e *Evidence) {
			e.Servers = &Pages{Known: 1, Up: 1, Levels: Levels{config.KVCacheUsage: levels(0.99, 0.5), config.Preemptions: levels(3, 0), config.RequestsWaiting: levels(12, 0), config.RequestsRunning: levels(30, 10), config.QueueTime: levels(1.5, 0)}}
		}), []Cause{KVCacheFull, QueueFull}},
		{"prefix cache lost after a change of the prompts", with(slow(late, calmTPOT), func(e *Evidence) {
			e.Servers = &Pages{Known: 1, Up: 1, Levels: Levels{hitRatio: levels(0.05, 0.7), config.RequestsWaiting: now(0), config.RequestsRunning: levels(4, 4), config.TTFT: levels(1.9, 0.18)}}
		}), []Cause{PrefixCacheLost, PrefillSlow}},
		{"GPU throttled by heat, slow tokens", with(slow(calmTTFT, [3]float64{0.08, 0.02, 0.05}), func(e *Evidence) {
			e.GPUs = card(&gpu.DeviceSnapshot{Up: true, Readings: []gpu.Reading{{Kind: gpu.ClockEventActive, Label: "hw_thermal", Value: 1}}})
		}), []Cause{DecodeSlow}},
		{"part of the model on the CPU, slow prompts and tokens", with(slow(late, [3]float64{0.08, 0.02, 0.05}), func(e *Evidence) {
			e.Servers = &Pages{Known: 1, Up: 1, Levels: Levels{onGPUs: levels(0.75, 1)}}
		}), []Cause{DecodeSlow, PrefillSlow}},
		{"neighbour on the card, slow prompts and tokens", with(slow(late, [3]float64{0.08, 0.02, 0.05}), func(e *Evidence) {
			e.GPUs = card(&gpu.DeviceSnapshot{Up: true, Processes: []gpu.ProcessReading{{PID: 1, Name: "vllm", MemoryUsed: 7e10}, {PID: 7, Name: "python3", SMUtilization: 0.3}}})
		}), []Cause{DecodeSlow, PrefillSlow}},
		{"probes imprecise on a starved machine", with(slow(late, calmTPOT), func(e *Evidence) {
			for i := range e.Probes {
				e.Probes[i].Imprecise = i%3 > 0
			}
		}), []Cause{ExporterBusy}},
		{"descriptors exhausted", with(of(health.Stale), func(e *Evidence) {
			e.Exporter = Exporter{Skipped: map[result.SkipReason]int{result.SkipResources: 5}, SkippedAt: map[result.SkipReason]time.Time{result.SkipResources: noon}}
		}), []Cause{ExporterBusy}},
		{"budget used up", with(of(health.Stale, many(3, answered(time.Second))...), func(e *Evidence) {
			e.Exporter = Exporter{Skipped: map[result.SkipReason]int{result.SkipBudget: 8}, SkippedAt: map[result.SkipReason]time.Time{result.SkipBudget: noon}}
		}), []Cause{ProbesThrottled}},
		{"quota with a long Retry-After, no probe since", with(of(health.Stale, many(2, failed(result.RateLimited, 429))...), func(e *Evidence) {
			e.Exporter = Exporter{Skipped: map[result.SkipReason]int{result.SkipBackoff: 30}, SkippedAt: map[result.SkipReason]time.Time{result.SkipBackoff: noon}}
			e.Since = noon.Add(-10 * time.Second)
		}), []Cause{Quota}},
		{"a secret that is missing", with(of(health.Waiting), func(e *Evidence) {
			e.Exporter = Exporter{Skipped: map[result.SkipReason]int{result.SkipSecret: 4}, SkippedAt: map[result.SkipReason]time.Time{result.SkipSecret: noon}}
		}), []Cause{KeyMissing}},
		{"401 to requests without a key", with(of(health.Down, many(6, failed(result.Unauthorized, 401))...), func(e *Evidence) { e.NoKey = true }), []Cause{KeyMissing}},
		// LiteLLM 1.106.2 without a database, to a virtual key that it does not know.
		{"400 of LiteLLM to an unknown key", of(health.Down, many(6, saying(failed(result.HTTPError, 400), "status 400: No connected db. (no_db_connection)"))...), []Cause{Credentials}},
		{"503 of llama.cpp that loads its model", of(health.Down, many(6, saying(failed(result.Overloaded, 503), "status 503: Loading model (unavailable_error)"))...), []Cause{Loading}},
		{"503 of a server that was refused a minute ago", of(health.Down, append(many(12, Probe{Outcome: result.ConnectError, Reason: result.Refused})[:6], many(6, failed(result.Overloaded, 503))...)...), []Cause{Loading}},
		{"503 of a process that started a minute ago", with(of(health.Down, many(6, failed(result.Overloaded, 503))...), func(e *Evidence) {
			e.Servers = &Pages{Known: 1, Up: 1, Started: noon.Add(-time.Minute), Levels: Levels{config.RequestsWaiting: levels(0, 0)}}
		}), []Cause{Loading}},
		{"503 of a young process with a queue", with(of(health.Down, many(6, failed(result.Overloaded, 503))...), func(e *Evidence) {
			e.Servers = &Pages{Known: 1, Up: 1, Started: noon.Add(-time.Minute), Levels: Levels{config.RequestsWaiting: levels(40, 0)}}
		}), []Cause{QueueFull}},
		{"the process is back, and refuses the key", of(health.Down, append(many(12, Probe{Outcome: result.ConnectError, Reason: result.Refused})[:9], many(3, failed(result.Unauthorized, 401))...)...), []Cause{Credentials}},
		{"slow resolver", with(of(health.Slow, many(6, Probe{Outcome: result.Success, Timing: result.Timing{
			Duration: 3 * time.Second, TTFT: 200 * time.Millisecond, Phases: [result.NumPhases]time.Duration{result.PhaseDNS: 2 * time.Second},
		}})...), func(e *Evidence) {
			e.Speeds = []Speed{{Module: "interactive", TTFT: latency(calmTTFT), TPOT: latency(calmTPOT), E2E: Level{Now: new(3.0), Objective: new(1.5)}}}
		}), []Cause{DNS}},
		{"first tokens of users late since prompts are longer, probes well", with(of(health.Slow, many(6, answered(200*time.Millisecond))...), seenBy(health.Users)), []Cause{Workload}},
		{"replica lost and the survivors queue", with(slow(late, calmTPOT), func(e *Evidence) {
			e.Servers = &Pages{Known: 2, Up: 1, Usual: 2, Lost: []string{"b:8000: connect"}, Levels: Levels{config.RequestsWaiting: levels(9, 0), config.RequestsRunning: levels(32, 16), config.QueueTime: levels(1.6, 0)}}
		}), []Cause{ReplicaLost, QueueFull}},
	}
}

// seenBy has an incident be seen by a witness.
func seenBy(w health.Witness) func(*Evidence) {
	return func(e *Evidence) {
		e.Witness = w
		if w == health.Users || w == health.Both {
			e.Users = "users: 340 of 1,200 requests over TTFT 500ms since 14:02 UTC: prompts of 8000 tokens in the mean, 900 in the hour before"
		}
	}
}

// What users' requests show is said of each cause, and is one of its own only while probes are well.
func TestWitness(t *testing.T) {
	for w, want := range map[health.Witness]string{
		health.Both: "users: 340 of 1,200", health.ProbesOnly: "users' requests are well meanwhile", health.Probes: "6 of 6 failed probes",
	} {
		got := Explain(with(of(health.Down, many(6, Probe{Outcome: result.ConnectError, Reason: result.Refused})...), seenBy(w)))
		if len(got) != 1 || got[0].Cause != ProcessGone || !strings.HasPrefix(got[0].Evidence[0], want) {
			t.Errorf("%s: %+v", w, got)
		}
	}
	if got := Explain(with(of(health.Slow, many(6, answered(200*time.Millisecond))...), seenBy(health.Users)))[0]; !strings.HasSuffix(got.Evidence[0], "900 in the hour before") || got.Runbook != "InferenceTTFTHigh" {
		t.Errorf("%+v", got)
	}
}

// gatewayWith returns what the page of a gateway with four ready backends shows, but for a
// change.
func gatewayWith(change func(*Pages)) *Pages {
	g := &Pages{Name: "router", Known: 1, Up: 1, WasRead: true, Levels: Levels{config.BackendsReady: levels(4, 4), config.Backends: now(4), config.RequestsWaiting: levels(0, 0), config.QueueTime: levels(0.001, 0.001)}}
	change(g)
	return g
}

// lost is a gateway whose page does not answer, and ready one with other ready backends.
func lost(g *Pages) {
	*g = Pages{Name: "router", Known: 1, Lost: []string{"router:9090: connect: connection refused"}, WasRead: true}
}

func ready(now, usual float64) func(*Pages) {
	return func(g *Pages) {
		g.Levels[config.BackendsReady], g.NotReady = levels(now, usual), []string{"pod-1", "pod-2"}
	}
}

// Faults is the table of the constructed faults, for docs/explain.md.
func Faults() string {
	var b strings.Builder
	b.WriteString("| evidence | first | also |\n| --- | --- | --- |\n")
	for _, c := range constructed() {
		also := []string{}
		for _, cause := range c.want[1:] {
			also = append(also, "`"+string(cause)+"`")
		}
		b.WriteString("| " + c.name + " | `" + string(c.want[0]) + "` | " + strings.Join(also, ", ") + " |\n")
	}
	return b.String()
}

func TestConstructedFaults(t *testing.T) {
	for _, c := range constructed() {
		got := Explain(c.e)
		if got[0].Cause != c.want[0] {
			t.Errorf("%s: %+v, want %s", c.name, got, c.want[0])
		}
		for _, also := range c.want[1:] {
			if !slices.ContainsFunc(got, func(f Finding) bool { return f.Cause == also }) {
				t.Errorf("%s: %s is missing in %+v", c.name, also, got)
			}
		}
		for _, f := range got {
			wantRunbook(t, f.Runbook)
			if len(f.Evidence) == 0 || len(f.Against) == 0 || len(f.Do) == 0 {
				t.Errorf("%s: %s lacks a text: %+v", c.name, f.Cause, f)
			}
		}
	}
}

// A date of retirement explains a model that is not found once it has come, and nothing else.
func TestRetired(t *testing.T) {
	f := func(status int, at time.Duration, want bool) {
		t.Helper()
		p := Probe{Outcome: result.HTTPError, Status: status, Error: "text"}
		got := Explain(with(of(health.Down, many(6, p)...), func(e *Evidence) {
			e.Facts = known(health.Retirement{Retirement: api.Retirement{Listed: e.At.Add(at).Unix()}})
		}))[0]
		if (got.Runbook == "InferenceEndpointRetiring") != want || strings.Contains(strings.Join(got.Evidence, "\n"), "announced to end") != want {
			t.Errorf("%d, retired in %s: %+v", status, at, got)
		}
	}
	f(404, -time.Hour, true)
	f(410, -time.Hour, true)
	f(404, time.Hour, false)
	f(503, -time.Hour, false)
}

// Nothing is blamed without evidence of its own.
func TestNothingIsBlamedWithoutEvidence(t *testing.T) {
	late := [3]float64{2, 0.2, 0.5}
	mixed := of(health.Degraded, slices.Concat(many(2, Probe{Outcome: result.Unauthorized}), many(2, Probe{Outcome: result.Empty}),
		many(2, Probe{Outcome: result.ConnectError, Reason: result.Refused}), many(6, answered(time.Second)))...)
	for _, c := range []struct {
		name string
		e    *Evidence
		want Cause
	}{
		{"up", of(health.Up, many(12, answered(200*time.Millisecond))...), Healthy},
		{"up again after an outage", of(health.Up, append(many(6, Probe{Outcome: result.ConnectError, Reason: result.Refused}), many(6, answered(200*time.Millisecond))...)...), Healthy},
		{"up with a full KV cache, requests waiting and one buffered answer", with(of(health.Up, append(many(1, Probe{Outcome: result.Success, Buffered: true}), many(5, answered(time.Second))...)...), func(e *Evidence) {
			e.Servers = &Pages{Known: 1, Up: 1, Levels: Levels{config.KVCacheUsage: now(0.99), config.Preemptions: now(2), config.RequestsWaiting: now(9)}}
			e.GPUs = card(&gpu.DeviceSnapshot{Up: true, Readings: []gpu.Reading{{Kind: gpu.ClockEventActive, Label: "hw_thermal", Value: 1}}})
		}), Healthy},
		{"up with an old change of the model", with(of(health.Up, many(3, answered(time.Second))...), func(e *Evidence) {
			e.Changes = []Change{{At: noon.Add(-3 * time.Hour), What: "model"}}
		}), Healthy},
		{"up, and no progress of a server for less than two minutes", with(of(health.Up, many(12, answered(200*time.Millisecond))...), func(e *Evidence) {
			e.Servers = &Pages{Known: 2, Up: 2, Stuck: page.HungAfter - time.Second, Work: "5 requests wait, none runs"}
		}), Healthy},
		{"waiting for the first probe", of(health.Waiting), Unknown},
		{"stale for no known reason", of(health.Stale, many(3, answered(time.Second))...), Unknown},
		{"slow without a server's page", slow(late, calmTPOT), Unknown},
		{"slow at as many requests as met the objectives in a load test", with(slow(late, calmTPOT), tested(48, 0)), Unknown},
		{"slow, and no load that a load test tried missed the objectives", with(slow(late, calmTPOT), func(e *Evidence) {
			tested(60, 0)(e)
			e.LoadTest.Knee = nil
		}), Unknown},
		{"up at more requests than met the objectives in a load test", with(of(health.Up, many(12, answered(200*time.Millisecond))...), tested(60, 0)), Healthy},
		{"slow, with all of the model on GPUs", with(slow(late, calmTPOT), func(e *Evidence) {
			e.Servers = &Pages{Known: 1, Up: 1, Levels: Levels{onGPUs: levels(1, 1)}}
		}), Unknown},
		{"slow, and the server as fast as ever, whose queue is empty and whose TTFT is not known", with(slow(late, calmTPOT), func(e *Evidence) {
			e.Servers = &Pages{Known: 1, Up: 1, Levels: Levels{config.RequestsWaiting: now(0), config.RequestsRunning: now(1), hitRatio: levels(0.6, 0.7), config.KVCacheUsage: now(0.4)}}
		}), Unknown},
		{"four kinds of failures, none of them half", mixed, Unknown},
		{"three kinds of failures in turns, the latest of one", of(health.Degraded, inTurns(12, Probe{Outcome: result.Unauthorized}, Probe{Outcome: result.Empty}, Probe{Outcome: result.HTTPError, Status: 500})...), Unknown},
		{"two kinds of failures in turns", of(health.Degraded, inTurns(11, Probe{Outcome: result.TimeoutConnect}, Probe{Outcome: result.HTTPError, Status: 500})...), Unknown},
		{"up while the page of the gateway is lost", with(of(health.Up, many(6, answered(200*time.Millisecond))...), func(e *Evidence) { e.Gateway = gatewayWith(lost) }), Healthy},
		{"slow, with fewer backends and nothing waiting", with(slow(late, calmTPOT), func(e *Evidence) {
			e.Gateway, e.Servers = gatewayWith(ready(2, 4)), &Pages{Known: 1, Up: 1, Levels: Levels{config.RequestsWaiting: now(0)}}
		}), Unknown},
		{"slow, with as few backends as usual, and requests that wait in the gateway for a moment", with(slow(late, calmTPOT), func(e *Evidence) {
			e.Gateway = gatewayWith(func(g *Pages) {
				ready(2, 2)(g)
				g.Levels[config.RequestsWaiting], g.Levels[config.QueueTime] = levels(3, 0), levels(0.05, 0.001)
			})
		}), Unknown},
		{"refused key while the KV cache is full", with(of(health.Down, many(6, Probe{Outcome: result.Unauthorized, Status: 401})...), func(e *Evidence) {
			e.Servers = &Pages{Known: 1, Up: 1, Levels: Levels{config.KVCacheUsage: now(1), config.Preemptions: now(2), config.RequestsWaiting: now(9)}}
		}), Credentials},
		{"a change of the model while the host is gone", with(of(health.Down, many(6, Probe{Outcome: result.ConnectError, Reason: result.Refused})...), func(e *Evidence) {
			e.Changes = []Change{{At: noon.Add(-5 * time.Minute), What: "model"}}
		}), ProcessGone},
	} {
		got := Explain(c.e)
		if got[0].Cause != c.want || len(got) != 1 {
			t.Errorf("%s: %+v, want %s alone", c.name, got, c.want)
		}
	}
}

// A server that admits nothing is said to hang in words that tell it from one that is full.
func TestWordsOfAHang(t *testing.T) {
	e := of(health.Up, many(12, answered(200*time.Millisecond))...)
	e.Servers = &Pages{Known: 2, Up: 2, Stuck: 3 * time.Minute, Work: "5 requests wait, none runs", Levels: Levels{config.RequestsWaiting: levels(5, 0)}}
	if got, want := Explain(e)[0].Evidence, []string{"5 requests wait, none runs, and nothing was generated for 3 min"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The load test is quoted with its day.
func TestWordsOfOverCapacity(t *testing.T) {
	got := Explain(with(slow(calmTTFT, [3]float64{0.08, 0.03, 0.05}), tested(60, 3)))[0].Evidence[0]
	if want := "63 requests run or wait; 48.5 at once met the objectives and 97 missed them in the load test of " + date(noon.Add(-26*time.Hour)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Equal evidence gives equal findings, and lets the evidence be as it is.
func TestExplainIsPure(t *testing.T) {
	for _, c := range constructed() {
		first := strings.Join(texts(Explain(c.e)), "\n")
		if again := strings.Join(texts(Explain(c.e)), "\n"); again != first {
			t.Errorf("%s: %s\nthen\n%s", c.name, first, again)
		}
	}
}

func texts(all []Finding) []string {
	var lines []string
	for _, f := range all {
		lines = append(lines, slices.Concat([]string{string(f.Cause), f.Title, f.Runbook}, f.Evidence, f.Against, f.Do)...)
	}
	return lines
}

// The figures of a finding are those of the evidence.
func TestEvidenceHasItsNumbers(t *testing.T) {
	e := slow([3]float64{2.2, 0.4, 1}, calmTPOT)
	e.Servers = &Pages{Known: 1, Up: 1, Levels: Levels{config.RequestsWaiting: levels(14, 0), config.RequestsRunning: levels(32, 20), config.QueueTime: levels(1.7, 0.01)}}
	got := Explain(e)[0]
	want := []string{
		"waiting requests: 14, usually 0", "running requests: 32, usually 20", "time in the queue: 1.7 s, usually 10 ms",
		"TTFT of interactive: 2.2 s, usually 400 ms, objective 1 s",
	}
	if got.Cause != QueueFull || !slices.Equal(got.Evidence, want) {
		t.Errorf("got %s: %q, want %q", got.Cause, got.Evidence, want)
	}
	one := 1.2
	e.Facts = known(&loadtest.Loss{Now: &loadtest.Headroom{Lower: 0.95, Upper: &one}, Peak: &loadtest.Headroom{Lower: 1.5}})
	lost := slow([3]float64{2.2, 0.4, 1}, calmTPOT)
	lost.Servers, lost.Facts = &Pages{Known: 3, Up: 2, Usual: 3, Levels: Levels{}}, e.Facts
	busy := slow([3]float64{2.2, 0.4, 1}, calmTPOT)
	tested(50, 0)(busy)
	busy.Facts = e.Facts
	for cause, e := range map[Cause]*Evidence{QueueFull: e, ReplicaLost: lost, OverCapacity: busy} {
		const want = "with one server fewer: objectives undecided at the load of now (the others carry 0.95 to 1.20 times it), objectives met at the daily peak (the others carry 1.50 times it)"
		if got := Explain(e)[0]; got.Cause != cause || !slices.Contains(got.Evidence, want) {
			t.Errorf("%s: %s: %q, want %q", cause, got.Cause, got.Evidence, want)
		}
	}
	e = of(health.Degraded, append(many(3, Probe{Outcome: result.Unauthorized, Error: "status 401: Invalid API key"}), many(5, answered(time.Second))...)...)
	got = Explain(e)[0]
	if want := []string{"3 of 3 failed probes: not authorized: status 401: Invalid API key"}; got.Cause != Credentials || !slices.Equal(got.Evidence, want) {
		t.Errorf("got %s: %q, want %q", got.Cause, got.Evidence, want)
	}
}

// An incident says which share of the probes failed since when, and what is up what
// failed last.
func TestShareOfFailures(t *testing.T) {
	e := of(health.Flapping, append(many(12, Probe{Outcome: result.HTTPError, Status: 500, Error: "status 500: oops"})[:4], many(8, answered(time.Second))...)...)
	e.Since, e.Failed, e.Of, e.Spells = noon.Add(-40*time.Minute), 94, 193, 16
	want := []string{"94 of 193 probes failed (49 %) since 11:20:00 UTC, in 16 spells", "4 of 4 failed probes: an HTTP error: status 500: oops"}
	if got := Explain(e)[0]; got.Cause != ServerError || !slices.Equal(got.Evidence, want) {
		t.Errorf("got %s: %q, want %q", got.Cause, got.Evidence, want)
	}
	e.State, e.Failed = health.Up, 0
	want = []string{"8 of the latest 12 probes succeeded", "the latest that failed, at 11:59:15 UTC: an HTTP error: status 500: oops"}
	if got := Explain(e)[0]; got.Title != "nothing is wrong now" || !slices.Equal(got.Evidence, want) {
		t.Errorf("got %s: %q, want %q", got.Title, got.Evidence, want)
	}
}

// What the gateway shows is evidence with its name and figures.
func TestGatewayIsEvidence(t *testing.T) {
	refused := many(2, Probe{Outcome: result.ConnectError, Reason: result.Refused, Error: "connection refused"})
	failing := "backend pod-1 of the gateway router: 12 of 40 requests failed in the last 5 min"
	for _, c := range []struct {
		name  string
		e     *Evidence
		title string
		want  []string
	}{
		{
			"lost", with(of(health.Down, refused...), func(e *Evidence) { e.Gateway = gatewayWith(lost) }), "the gateway router is down",
			[]string{"2 of 2 failed probes: no connection: connection refused", "no page of the gateway router answers:", "router:9090: connect: connection refused"},
		},
		{
			"no backend", with(of(health.Down, many(3, Probe{Outcome: result.Overloaded, Status: 503, Error: "no engine"})...), func(e *Evidence) {
				e.Gateway = gatewayWith(ready(0, 4))
			}), "the gateway router has no ready backend",
			[]string{
				"3 of 3 failed probes: overloaded: no engine", "0 of 4 backends of the gateway router ready, usually 4", "not ready: pod-1", "not ready: pod-2",
				"waiting requests in the gateway router: 0, usually 0",
			},
		},
		{
			"no model, and metrics that cannot be read", with(of(health.Down, many(3, Probe{Outcome: result.Overloaded, Status: 503, Error: "no worker"})...), func(e *Evidence) {
				e.Gateway = gatewayWith(func(g *Pages) {
					g.Levels, g.Trouble = Levels{config.ModelsReady: levels(0, 1)}, []string{"gateway router: 6 reads of the metrics of its backends failed in the last 5m0s"}
				})
			}), "the gateway router has no ready model",
			[]string{
				"3 of 3 failed probes: overloaded: no worker", "0 models of the gateway router ready, usually 1",
				"gateway router: 6 reads of the metrics of its backends failed in the last 5m0s",
			},
		},
		{
			"errors of a backend", with(of(health.Degraded, many(3, Probe{Outcome: result.HTTPError, Status: 500, Error: "oops"})...), func(e *Evidence) {
				e.Gateway = gatewayWith(func(g *Pages) { g.Failing = []string{failing} })
			}), "the server fails on requests",
			[]string{"3 of 3 failed probes: an HTTP error: oops", "4 of 4 backends of the gateway router ready, usually 4", "waiting requests in the gateway router: 0, usually 0", failing},
		},
	} {
		if got := Explain(c.e)[0]; got.Title != c.title || !slices.Equal(got.Evidence, c.want) {
			t.Errorf("%s: %q, %q, want %q, %q", c.name, got.Title, got.Evidence, c.title, c.want)
		}
	}
}

// What went wrong in a gateway lately is in words, and what did not is left out.
func TestTroubleOfGateway(t *testing.T) {
	g := NewGateway("router")
	at := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	read := func(after time.Duration, stale, errors, fallbacks float64) {
		g.Add([]page.Status{{Server: "a", State: page.Up, At: at.Add(after), Snapshot: &page.Snapshot{At: at.Add(after), Values: map[config.Quantity]float64{
			config.BackendsStale: stale, config.DataLayerErrors: errors, config.Fallbacks: fallbacks, config.FallbackFailures: 3, config.Retries: 8,
		}}}})
	}
	read(0, 0, 10, 20)
	if got := g.evidence(at).Trouble; got != nil {
		t.Errorf("after one reading: %q", got)
	}
	read(time.Minute, 2, 14, 25)
	want := []string{
		"the gateway router lacks the metrics of 2 backends, and takes them for full",
		"gateway router: 4 reads of the metrics of its backends failed in the last 1m0s",
		"gateway router: 5 requests were given to another model after failures in the last 1m0s",
	}
	if got := g.evidence(at.Add(time.Minute)).Trouble; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Signs of corruption are evidence of answers that are broken, and beside failures too.
func TestCorruptionIsEvidence(t *testing.T) {
	line := "answers with special tokens since 2026-11-22 11:00 UTC: 2 of 90, usually 0 % (module interactive)"
	for _, c := range constructed() {
		if len(c.e.Corruptions) == 0 {
			continue
		}
		all := Explain(c.e)
		i := slices.IndexFunc(all, func(f Finding) bool { return f.Cause == AnswersBroken })
		if i < 0 || !slices.Contains(all[i].Evidence, line) {
			t.Errorf("%s: %+v", c.name, all)
		}
	}
}

// When it got worse, and what else changed then, is in the evidence of the first finding:
// steps of what is late now, or of failures while probes fail, of the last day.
func TestStepsAreEvidence(t *testing.T) {
	late, ago := [3]float64{2, 0.2, 0.5}, func(d time.Duration) float64 { return float64(noon.Add(-d).Unix()) }
	steps := []Step{
		{At: ago(time.Hour), Module: "interactive", Metric: series.MetricTTFT, Before: 0.2, After: 2, Beside: []string{"address changed from 10.0.0.1 to 10.0.0.2", "exporter restarted"}},
		{At: ago(2 * time.Hour), Module: "interactive", Metric: series.MetricTTFT, Before: 0.4, After: 0.2},
		{At: ago(3 * time.Hour), Module: "interactive", Metric: series.MetricTPOT, Before: 0.02, After: 0.03},
		{At: ago(3 * time.Hour), Module: "other", Metric: series.MetricTTFT, Before: 0.2, After: 2},
		{At: ago(26 * time.Hour), Module: "interactive", Metric: series.MetricTTFT, Before: 0.1, After: 0.4},
		{At: ago(2 * time.Minute), Module: "interactive", Metric: series.MetricFailures, Before: 0, After: 0.5},
	}
	ttft := "TTFT of interactive rose from 200 ms to 2 s at 11:00:00 UTC; at that time: address changed from 10.0.0.1 to 10.0.0.2, exporter restarted"
	failures := "failures of interactive rose from 0 % to 50 % of the probes at 11:58:00 UTC"
	for _, c := range []struct {
		name string
		e    *Evidence
		want []string
	}{
		{"late, for no known reason", slow(late, calmTPOT), []string{ttft}},
		{"late for a queue", with(slow(late, calmTPOT), func(e *Evidence) {
			e.Servers = &Pages{Known: 1, Up: 1, Levels: Levels{config.RequestsWaiting: levels(14, 0), config.QueueTime: levels(1.7, 0.01)}}
		}), []string{ttft}},
		{"failing", of(health.Degraded, many(6, Probe{Outcome: result.Unauthorized})...), []string{failures}},
		{"up", of(health.Up, many(6, answered(time.Second))...), nil},
	} {
		c.e.Steps = steps
		var got []string
		for i, f := range Explain(c.e) {
			for _, line := range f.Evidence {
				if strings.Contains(line, " rose from ") {
					got = append(got, line)
					if i > 0 {
						t.Errorf("%s: finding %d has %q", c.name, i, line)
					}
				}
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// Another model than usual is named for as long as it answers, also while the endpoint is up.
func TestAnotherModelIsNamedWhileItAnswers(t *testing.T) {
	e := of(health.Up, many(12, answered(time.Second/5))...)
	e.Since = noon.Add(-48 * time.Hour)
	e.Facts = known(drift.Changes{Names: &drift.Change{Source: drift.SourceModel, Since: noon.Add(-26 * time.Hour), From: "a", To: "b"}, Scores: &drift.Change{Source: drift.SourceLogprob, Since: noon}})
	want := []string{
		"b answers since 2026-11-21 10:00 UTC, before that a",
		"the score of the reference passage is another one than usual since 2026-11-22 12:00 UTC",
	}
	if got := Explain(e)[0]; got.Cause != ModelChanged || !slices.Equal(got.Evidence, want) {
		t.Errorf("%+v", got)
	}
	if e.Facts = (EndpointFacts{}); Explain(e)[0].Cause != Healthy {
		t.Errorf("the usual one: %+v", Explain(e)[0])
	}
}

// A change of the model comes before what it brings about where it is as old as a step to
// the worse, and not where the step was before it or in something else.
func TestChangeAtAStepRanksUp(t *testing.T) {
	late := [3]float64{2, 0.2, 0.5}
	for _, c := range []struct {
		name   string
		step   time.Duration // before noon
		metric series.Metric
		want   []Cause
	}{
		{"at the same time", 20 * time.Minute, series.MetricTTFT, []Cause{ModelChanged, QueueFull}},
		{"an hour before", 80 * time.Minute, series.MetricTTFT, []Cause{QueueFull, ModelChanged}},
		{"of what is as usual", 20 * time.Minute, series.MetricTPOT, []Cause{QueueFull, ModelChanged}},
		{"none", 0, "", []Cause{QueueFull, ModelChanged}},
	} {
		e := slow(late, calmTPOT)
		e.Servers = &Pages{Known: 1, Up: 1, Levels: Levels{config.RequestsWaiting: levels(14, 0), config.QueueTime: levels(1.7, 0.01)}}
		e.Changes = []Change{{At: noon.Add(-15 * time.Minute), Module: "answers", What: "model"}}
		if c.step > 0 {
			e.Steps = []Step{{At: float64(noon.Add(-c.step).Unix()), Module: "interactive", Metric: c.metric, Before: 0.2, After: 2}}
		}
		var got []Cause
		for _, f := range Explain(e) {
			got = append(got, f.Cause)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// What is not explained names the most frequent failures first.
func TestUnknownIsSorted(t *testing.T) {
	refused, empty, unauthorized := Probe{Outcome: result.ConnectError, Reason: result.Refused}, Probe{Outcome: result.Empty}, Probe{Outcome: result.Unauthorized}
	e := of(health.Degraded, inTurns(9, refused, empty, refused, unauthorized, refused, empty, refused, unauthorized, empty)...)
	got := Explain(e)[0]
	var counts []string
	for _, line := range got.Evidence {
		n, _, _ := strings.Cut(line, ":")
		counts = append(counts, n)
	}
	if want := []string{"4 of 9 failed probes", "3 of 9 failed probes", "2 of 9 failed probes"}; got.Cause != Unknown || !slices.Equal(counts, want) {
		t.Errorf("%s: %q, want %q", got.Cause, counts, want)
	}
}

// A neighbour of each failing endpoint decides what they have in common.
func TestInCommon(t *testing.T) {
	peer := func(name string, c Cause, factors ...string) Peer {
		p := Peer{Endpoint: name, Cause: c, Since: noon}
		for _, f := range factors {
			kind, value, _ := strings.Cut(f, "=")
			p.Factors = append(p.Factors, Factor{kind, value})
		}
		return p
	}
	later := func(p Peer) Peer { p.Since = noon.Add(time.Hour); return p }
	then := func(p Peer, well time.Duration) Peer {
		p.Since, p.Well = noon.Add(5*time.Minute), noon.Add(well)
		return p
	}
	most := []Peer{peer("c", Hung, "host=i"), peer("d", Hung, "host=j"), peer("e", Hung, "host=k"), peer("f", Healthy, "host=l"), peer("g", Healthy, "host=m")}
	well := func(p Peer, at time.Duration) Peer { p.Well = noon.Add(at); return p }
	for _, c := range []struct {
		name  string
		peers []Peer
		want  string // of the endpoint a; "" is nothing
	}{
		{"a dead host", []Peer{peer("a", ProcessGone, "host=h", "zone=z"), peer("b", Network, "host=h", "zone=z"), peer("c", Healthy, "host=i", "zone=z")}, "host h: a b"},
		{"one of two on a host", []Peer{peer("a", ProcessGone, "host=h"), peer("b", Healthy, "host=h"), peer("c", ProcessGone, "host=i")}, ""},
		{"a zone rather than its hosts", []Peer{
			peer("a", Hung, "host=h", "zone=z"), peer("b", Hung, "host=h", "zone=z"), peer("c", Hung, "host=i", "zone=z"), peer("d", Healthy, "host=j", "zone=y"),
		}, "zone z: a b c"},
		{"two of a zone are chance", []Peer{peer("a", Hung, "zone=z"), peer("b", Hung, "zone=z"), peer("c", Healthy, "zone=y")}, ""},
		{"other causes on the same host", []Peer{peer("a", Credentials, "host=h"), peer("b", Hung, "host=h")}, ""},
		{"four endpoints of one proxy, each wrong in its own way", []Peer{
			peer("a", Credentials, "gateway=g"), peer("b", Request, "gateway=g"), peer("c", KeyMissing, "gateway=g"), peer("d", "", "gateway=g"), well(peer("e", Healthy, "gateway=g"), time.Minute),
		}, ""},
		{"four of five behind a gateway, the fifth of which is well since", []Peer{
			peer("a", Request, "gateway=g"), peer("b", Request, "gateway=g"), peer("c", Request, "gateway=g"), peer("d", Request, "gateway=g"), well(peer("e", Healthy, "gateway=g"), time.Minute),
		}, ""},
		{"four of five on a host that fail now and then", []Peer{
			well(peer("a", ServerError, "host=h"), time.Minute), well(peer("b", ServerError, "host=h"), time.Minute), well(peer("c", ServerError, "host=h"), time.Minute),
			well(peer("d", ServerError, "host=h"), time.Minute), well(peer("e", Healthy, "host=h"), time.Minute),
		}, "host h: a b c d"},
		{"four of five on a host, the fifth not asked since", []Peer{
			peer("a", Hung, "host=h"), peer("b", Hung, "host=h"), peer("c", Hung, "host=h"), peer("d", Hung, "host=h"), well(peer("e", Healthy, "host=h"), -time.Minute),
		}, "host h: a b c d"},
		{"no key for any of three", []Peer{peer("a", KeyMissing, "host=h"), peer("b", KeyMissing, "host=h"), peer("c", KeyMissing, "host=h")}, ""},
		{"hours apart", []Peer{peer("a", Hung, "host=h"), later(peer("b", Hung, "host=h"))}, ""},
		{"others fail too", []Peer{
			peer("a", DNS, "domain=x"), peer("b", DNS, "domain=x"), peer("c", DNS, "domain=x"), peer("d", DNS, "domain=y"), peer("e", Healthy, "domain=y"),
		}, "exporter : a b c d"},
		{"all, and a label of the exporter's own place", []Peer{peer("a", Network, "location=l"), peer("b", Network, "location=l"), peer("c", Network, "location=l")}, "exporter : a b c"},
		{"a gateway that all are behind", []Peer{peer("a", Credentials, "gateway=g"), peer("b", Credentials, "gateway=g")}, "gateway g: a b"},
		{"a host in a domain of which one more fails", []Peer{
			peer("a", Hung, "host=h", "domain=x"), peer("b", Hung, "host=h", "domain=x"), peer("c", Hung, "host=h", "domain=x"), peer("d", Hung, "host=h", "domain=x"),
			peer("e", Hung, "host=i", "domain=x"), peer("f", Healthy, "host=j", "domain=y"),
		}, "host h: a b c d"},
		{"the one more", []Peer{
			peer("b", Hung, "host=h", "domain=x"), peer("c", Hung, "host=h", "domain=x"), peer("d", Hung, "host=h", "domain=x"), peer("e", Hung, "host=h", "domain=x"),
			peer("a", Hung, "host=i", "domain=x"), peer("f", Healthy, "host=j", "domain=y"),
		}, ""},
		{"a host that dies an hour after another", []Peer{
			peer("a", ProcessGone, "host=h"), peer("b", ProcessGone, "host=h"), later(peer("c", ProcessGone, "host=i")), later(peer("d", ProcessGone, "host=i")), later(peer("e", ProcessGone, "host=i")),
		}, "host h: a b"},
		{"a host that dies while most others fail, which was well since they do", append([]Peer{
			then(peer("a", Hung, "host=h"), 4*time.Minute), then(peer("b", Hung, "host=h"), 3*time.Minute),
		}, most...), "host h: a b"},
		{"a host that most others fail with, of which it shows later", append([]Peer{
			then(peer("a", Hung, "host=h"), -time.Minute), then(peer("b", Hung, "host=h"), -time.Minute),
		}, most...), ""},
		{"one endpoint of the host was not asked since others fail", append([]Peer{
			then(peer("a", Hung, "host=h"), 4*time.Minute), then(peer("b", Hung, "host=h"), -time.Minute),
		}, most...), ""},
		{"one that fails now and then, as most others may", append([]Peer{
			then(peer("a", Hung, "host=h"), 6*time.Minute), then(peer("b", Hung, "host=h"), 4*time.Minute),
		}, most...), ""},
		{"a key that is refused", []Peer{peer("a", Credentials, "key=k"), peer("b", Credentials, "key=k"), peer("c", Credentials, "key=k"), peer("d", Healthy, "key=l")}, "key k: a b c"},
		{"a key that nobody looked at", []Peer{peer("a", Network, "key=k"), peer("b", Network, "key=k"), peer("c", Network, "key=k"), peer("d", Healthy, "key=l"), peer("e", Healthy, "key=l")}, ""},
		{"an endpoint that nothing is known of", []Peer{peer("a", Hung, "host=h"), peer("b", Hung, "host=h"), peer("c", "", "host=h")}, "host h: a b"},
	} {
		got := ""
		if s := InCommon(c.peers)["a"]; s != nil {
			got = s.Kind + " " + s.Value + ": " + strings.Join(s.Endpoints, " ")
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// What endpoints have in common comes before how each of them fails.
func TestCommonComesFirst(t *testing.T) {
	e := of(health.Down, many(6, Probe{Outcome: result.ConnectError, Reason: result.Refused})...)
	e.Common = &Shared{Factor: Factor{"host", "node-7"}, Cause: ProcessGone, Endpoints: []string{"a", "b"}, All: 2, Outside: 5}
	got := Explain(e)
	if len(got) != 2 || got[0].Cause != SharedCause || got[1].Cause != ProcessGone || got[0].Title != "2 endpoints fail at once, all of host node-7" {
		t.Errorf("got %+v", got)
	}
}

func TestWords(t *testing.T) {
	for v, want := range map[float64]string{0.0004: "0.4 ms", 0.25: "250 ms", 1.234: "1.23 s", 90: "90 s", 600: "10 min"} {
		if got := seconds(v); got != want {
			t.Errorf("%v s: %q, want %q", v, got, want)
		}
	}
	for v, want := range map[float64]string{12345: "12345", 0.5: "0.5", 3: "3"} {
		if got := number(v); got != want {
			t.Errorf("%v: %q, want %q", v, got, want)
		}
	}
}

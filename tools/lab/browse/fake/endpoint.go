package fake

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/internal/users"
	"github.com/inference-exporter/inference_exporter/internal/web"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/load"
	"github.com/inference-exporter/inference_exporter/internal/workload/loadtest"
)

// interval is the time between two probes of a series, points how many are kept.
const (
	interval = 30.0
	points   = 240
)

// Kind is what an endpoint is like.
type Kind struct {
	Name, Model, Engine string
	// TTFT and TPOT are typical, in seconds.
	TTFT, TPOT float64
	// Outcome is how the latest probes end, and Bad how many of them; Error is
	// what the server said.
	Outcome result.Outcome
	Bad     int
	Error   string
	State   health.State
	Labels  map[string]string
	// Waiting, Running and KV are what its servers report.
	Waiting, Running, KV float64
	Bursts               bool
}

// Endpoint makes up all that is known of an endpoint. The same kind gives the
// same numbers.
func Endpoint(k Kind) *status.Detail {
	r := rand.New(rand.NewPCG(uint64(len(k.Name)), uint64(k.TTFT*1e6)))
	slo := &series.Objectives{Share: 0.99, TTFT: 500 * time.Millisecond, TPOT: 50 * time.Millisecond, E2E: 10 * time.Second}
	d := &status.Detail{Row: status.Row{
		Name: k.Name, URL: "http://" + strings.ReplaceAll(k.Name, " ", "-") + ".inference.svc:8000/v1", Model: k.Model, API: "openai-chat",
		Engine: k.Engine, Labels: k.Labels, Module: "interactive", State: k.State, SLO: slo, Since: now() - 5400,
	}}
	if k.State == health.Waiting {
		d.Since = now() - 9
		return d
	}
	d.Series = allSeries(k, r, slo)
	first := d.Series[0]
	last := len(first.History.At) - 1
	d.LastAt, d.Outcomes, d.Runs = first.History.At[last], first.History.Outcome[last-29:], first.Runs
	d.TTFT, d.TPOT = first.History.TTFT[last], first.History.TPOT[last]
	if d.TTFT != nil {
		d.Duration = new(*d.TTFT + *d.TPOT*31)
	}
	d.Window = first.Window
	if k.Engine != "" {
		d.Pages = pages(k)
		d.Servers = &status.Load{Known: 2, Up: 2, Running: &k.Running, Waiting: &k.Waiting, KVUsage: &k.KV, Hits: new(0.62)}
	}
	if k.Name == "judge" {
		d.Facts = &workload.Findings{All: []workload.Finding{ofUsers()}}
	}
	if k.Bursts {
		d.Findings = findings()
	}
	if k.Bad > 0 {
		addFailure(d, k)
	}
	if k.State == health.Slow {
		d.TTFT, d.ProbesSince, d.OverSince = new(0.612), 17, 14
		d.Slow, d.Why = []string{"interactive"}, "interactive: TTFT 612ms, objective 500ms; 14 of 17 answers over an objective since 06:15 UTC; 9 requests wait in the queue"
	}
	return d
}

func addFailure(d *status.Detail, k Kind) {
	d.Failure = &status.Failure{
		At: d.LastAt, Module: "interactive", Outcome: k.Outcome, Message: k.Error,
		Advice: "The request arrived, but no token came. Look at the server's queue and running requests, then at its log: it may be overloaded, loading the model, or hung.",
	}
	d.Changes = []status.Change{
		{At: d.LastAt - interval*float64(k.Bad), Module: "interactive", Text: "failing: " + string(k.Outcome)},
		{At: d.LastAt - 5000, Text: "up again"},
		{At: d.LastAt - 5300, Module: "questions", Text: "the answer to an old question is a new one: capital-of-france"},
	}
	if k.State == health.Up {
		d.Failure.At -= 3000
		return
	}
	d.Since = d.LastAt - interval*float64(k.Bad)
	d.Failing = []string{"interactive"}
	d.ProbesSince, d.FailedSince, d.Why = 2*k.Bad, k.Bad, k.Error+" (interactive)"
	d.Changes[0] = status.Change{At: d.Since, Text: d.Why, State: k.State}
	d.Changes = append(d.Changes, status.Change{At: d.LastAt - 6000, Until: d.LastAt - 5700, Text: k.Error, State: health.Degraded})
}

func allSeries(k Kind, r *rand.Rand, slo *series.Objectives) []*status.Series {
	list := []*status.Series{
		oneSeries(k, r, slo, result.SeriesID{Module: "interactive", Prefix: "cold"}, 1),
		oneSeries(Kind{TTFT: k.TTFT / 3, TPOT: k.TPOT}, r, slo, result.SeriesID{Module: "pairs", Prefix: "warm", InputTokens: "512", OutputTokens: "16"}, 1),
	}
	for i, n := range []string{"256", "1024", "3072"} {
		list = append(list, oneSeries(Kind{TTFT: k.TTFT, TPOT: k.TPOT}, r, slo, result.SeriesID{Module: "lengths", Prefix: "cold", InputTokens: n, OutputTokens: "8"}, 0.5+float64(i)*0.9))
	}
	if k.Bursts {
		for i, n := range []string{"1", "4", "16", "48"} {
			list = append(list, oneSeries(Kind{TTFT: k.TTFT, TPOT: k.TPOT}, r, nil, result.SeriesID{Module: "burst", Prefix: "cold", Concurrency: n}, 1+float64(i)*0.8))
		}
	}
	return list
}

// oneSeries makes up the history of a series whose times are so many times
// those of its kind.
func oneSeries(k Kind, r *rand.Rand, slo *series.Objectives, id result.SeriesID, times float64) *status.Series {
	h := &status.History{}
	end := now() - 7
	for i := range points {
		outcome := result.Success
		if left := points - i; left <= k.Bad && k.State != health.Up || k.State == health.Up && k.Bad > 0 && left > 100 && left <= 100+k.Bad {
			outcome = k.Outcome
		}
		h.At = append(h.At, end-interval*float64(points-1-i))
		h.Outcome = append(h.Outcome, outcome)
		if outcome != result.Success {
			h.TTFT, h.TPOT = append(h.TTFT, nil), append(h.TPOT, nil)
			continue
		}
		load := 1 + 0.35*r.NormFloat64()*r.Float64() + max(0, r.Float64()-0.97)*30
		h.TTFT = append(h.TTFT, new(k.TTFT*times*max(0.6, load)))
		h.TPOT = append(h.TPOT, new(k.TPOT*times*max(0.8, 1+0.08*r.NormFloat64())))
	}
	s := &status.Series{
		Runs: runs(h, slo), Module: id.Module, Prefix: id.Prefix, InputTokens: id.InputTokens, OutputTokens: id.OutputTokens, Concurrency: id.Concurrency,
		Interval: interval, SLO: slo, History: h,
		Window: &status.Window{Samples: 120, P50: new(k.TTFT * 1.02), P99: new(k.TTFT * 1.9), P99Lower: new(k.TTFT * 1.6)},
	}
	for i := range 30 {
		s.Probes = append(s.Probes, probe(k, r, h, points-1-i, id))
	}
	return s
}

// ofUsers is what users met of whom some were late for certain, and others perhaps.
func ofUsers() *users.View {
	return &users.View{
		Counts: map[string]users.Count{"availability": {Eligible: 41873}, "ttft": {Eligible: 41873, Bad: 1204, Possible: 2310}},
		TTFT:   users.Window{Samples: 41873, Seconds: map[string]float64{"p50_lower": 0.25, "p50_upper": 0.5, "p99_lower": 2.5}},
	}
}

// findings are those of the modules of an endpoint with bursts.
func findings() []*status.Module {
	of := func(value, lower, upper float64) workload.Interval {
		return workload.Interval{Value: value, Lower: lower, Upper: upper}
	}
	found := func(f workload.Finding) *workload.Findings { return &workload.Findings{All: []workload.Finding{f}} }
	benefit := of(0.052, 0.047, 0.058)
	return []*status.Module{
		{Module: "burst", Findings: found(&load.BurstFinding{Knee: &load.Burst{Concurrency: 16}, Bursts: []load.Burst{
			{Concurrency: 1, TokensPerSecond: 41}, {Concurrency: 4, TokensPerSecond: 150}, {Concurrency: 16, TokensPerSecond: 420}, {Concurrency: 48, Failed: 2, TokensPerSecond: 510},
		}})},
		{Module: "lengths", Findings: found(&load.Finding{Prefill: &load.Prefill{TokensPerSecond: of(8012, 7630, 8410), FixedSeconds: of(0.031, 0.027, 0.036)}})},
		{Module: "load", Findings: found(loadTest())},
		{Module: "pairs", Findings: found(&load.Finding{Benefit: &benefit, HitRatio: new(0.94)})},
	}
}

// loadTest is one of 4 levels, of which the last misses the objective.
func loadTest() *loadtest.Finding {
	at := time.Unix(int64(now())-7200, 0)
	of := func(value, lower, upper float64) loadtest.Quantile {
		return loadtest.Quantile{Value: value, Lower: lower, Upper: upper}
	}
	level := func(users float64, requests int, p50 float64, p99 loadtest.Quantile, tokens float64, v loadtest.Verdict) loadtest.Level {
		return loadtest.Level{
			Level: users, At: at, Complete: true, Seconds: 100, Requests: requests, InFlight: 0.97 * users, Goodput: new(1.0), OutputTokensPerSecond: tokens,
			TTFT: loadtest.Quantiles{P50: of(p50, p50, p50), P99: p99}, TPOT: loadtest.Quantiles{P50: of(0.02, 0.02, 0.02)}, Verdict: v,
		}
	}
	return &loadtest.Finding{
		At: at, End: loadtest.UsersWaiting, Text: "2 requests of users wait", Kind: config.LoadUsers, Target: 50, TTFT: 0.5,
		Levels: []loadtest.Level{
			level(1, 60, 0.08, of(0.11, 0.1, 0), 48, loadtest.Undecided), level(10, 590, 0.1, of(0.21, 0.18, 0.26), 420, loadtest.Met),
			level(50, 2110, 0.16, of(0.38, 0.35, 0.43), 1510, loadtest.Met), level(100, 2300, 0.4, of(1.31, 1.2, 1.5), 1720, loadtest.Missed),
		},
		MaxGood: &loadtest.Capacity{Level: 50, InFlight: 48.5, Confidence: 0.997}, Knee: &loadtest.Capacity{Level: 100, InFlight: 97},
	}
}

// runs are the latest 30 of a history, which misses none.
func runs(h *status.History, slo *series.Objectives) string {
	var b strings.Builder
	for i := len(h.At) - 30; i < len(h.At); i++ {
		switch {
		case h.Outcome[i] != result.Success:
			b.WriteByte('x')
		case slo != nil && (*h.TTFT[i] > slo.TTFT.Seconds() || *h.TPOT[i] > slo.TPOT.Seconds()):
			b.WriteByte('o')
		default:
			b.WriteByte('.')
		}
	}
	return b.String()
}

// probe is one result in the form of the command `probe -o json`.
func probe(k Kind, r *rand.Rand, h *status.History, i int, id result.SeriesID) *result.Document {
	p := &result.Document{
		Time: time.UnixMilli(int64(h.At[i] * 1000)).UTC(), Endpoint: k.Name, Module: id.Module, Outcome: h.Outcome[i], Prefix: id.Prefix,
		TraceID: fmt.Sprintf("%016x%016x", r.Uint64(), r.Uint64()), Clock: result.ClockKernel,
	}
	if p.Outcome != result.Success {
		p.Error, p.Advice = k.Error, "Look at the server's queue and running requests, then at its log."
		p.Duration = new(10.0)
		p.Phases = map[string]*float64{"dns": new(0.0012), "connect": new(0.0008), "write": new(0.0001)}
		return p
	}
	ttft, tpot := *h.TTFT[i], *h.TPOT[i]
	t := 0.0021 + ttft
	for n := range 32 {
		p.Events = append(p.Events, result.DocumentEvent{At: t, Tokens: 1, Merged: n == 9, Reasoning: n < 4})
		t += tpot * max(0.2, 1+0.3*r.NormFloat64())
		if n == 20 {
			t += tpot * 6
		}
	}
	last := p.Events[31].At
	p.TTFT, p.TPOT, p.Duration, p.Output = &ttft, &tpot, new(last+0.0004), new(32)
	p.Prompt, p.Cached, p.Reasoning = new(512), new(256), new(4)
	p.Model, p.Finish, p.Status, p.Speed = k.Model, "length", 200, new(1/tpot)
	p.Phases = map[string]*float64{
		"dns": new(0.0012), "connect": new(0.0008), "write": new(0.0001), "first_byte": new(ttft * 0.96), "first_token": new(ttft * 0.04),
		"decode": new(last - ttft - 0.0021), "close": new(0.0004),
	}
	return p
}

func pages(k Kind) []*status.Server {
	values := map[string]float64{
		string(config.RequestsWaiting): k.Waiting / 2, string(config.RequestsRunning): k.Running / 2,
		string(config.KVCacheUsage): k.KV, string(config.Preemptions): 12,
	}
	host := strings.ReplaceAll(k.Name, " ", "-")
	return []*status.Server{
		{Server: host + "-0:8000", URL: "http://" + host + "-0:8000/metrics", Engine: k.Engine, At: now() - 4, State: page.Up, Values: values, Hits: new(0.62)},
		{Server: host + "-1:8000", URL: "http://" + host + "-1:8000/metrics", At: now() - 4, State: page.Down, Reason: page.ReasonConnect, Error: "dial tcp 10.4.0.17:8000: connect: connection refused"},
	}
}

// Fleet is a small fleet with an endpoint in every state.
func Fleet() []*status.Detail {
	kinds := []Kind{
		{
			Name: "chat-eu", Model: "Qwen/Qwen3-32B", Engine: "vllm", TTFT: 0.085, TPOT: 0.0123, State: health.Up, Bursts: true,
			Labels: map[string]string{"region": "eu-west-1", "tier": "prod"}, Running: 6, KV: 0.31,
		},
		{
			Name: "chat-us", Model: "Qwen/Qwen3-32B", Engine: "vllm", TTFT: 0.31, TPOT: 0.0187, State: health.Up, Bad: 2,
			Outcome: result.StreamError, Error: "the server ended the reply with an error: EngineDeadError", Running: 22, Waiting: 3, KV: 0.78,
			Labels: map[string]string{"region": "us-east-1", "tier": "prod"},
		},
		{
			Name: "judge", Model: "meta-llama/Llama-3.3-70B-Instruct", Engine: "sglang", TTFT: 0.44, TPOT: 0.031, State: health.Down, Bad: 9, Bursts: true,
			Outcome: result.TimeoutFirstToken, Error: "no first token within 10 s; the server answered 200 and sent nothing", Running: 48, Waiting: 210, KV: 0.99,
			Labels: map[string]string{"region": "eu-west-1", "tier": "prod"},
		},
		{
			Name: "code/70b", Model: "deepseek-ai/DeepSeek-Coder-V3", Engine: "trtllm", TTFT: 0.62, TPOT: 0.044, State: health.Degraded, Bad: 3,
			Outcome: result.CheckFailed, Error: `want an answer that contains "Paris"`, Running: 17, Waiting: 1, KV: 0.55,
			Labels: map[string]string{"region": "us-east-1", "tier": "beta"},
		},
		{Name: "rag-staging", Model: "mistralai/Mistral-Small-3.2", Engine: "tgi", TTFT: 0.2, TPOT: 0.02, State: health.Stale, Running: 1, KV: 0.04},
		{Name: "vision-lab", State: health.Waiting},
		{Name: "hosted", Model: "gpt-5-mini", TTFT: 0.48, TPOT: 0.0095, State: health.Slow, Labels: map[string]string{"vendor": "hosted"}},
	}
	var all []*status.Detail
	for _, k := range kinds {
		all = append(all, Endpoint(k))
	}
	return all
}

// Many is a fleet of n endpoints, of which every hundredth is down.
func Many(n int) []*status.Detail {
	some := Fleet()
	var all []*status.Detail
	for i := range n {
		d := *some[i%2]
		if i%100 == 99 {
			d = *some[2]
		}
		d.Name = fmt.Sprintf("endpoint-%05d", i)
		all = append(all, &d)
	}
	return all
}

// Explain names causes of the states of Fleet, as the exporter does.
func Explain(name string) (*explain.Report, bool) {
	return &explain.Report{At: now(), Endpoint: name, State: "down", Findings: []explain.Finding{
		{
			Cause: explain.Hung, Title: "the engine hangs", Evidence: []string{"9 of 18 probes failed: no first token within 10 s", "the server counts no finished request since 06:15"},
			Against: []string{"the number of finished requests grows"}, Do: []string{"Look at the engine's log.", "Restart the process."}, Runbook: "InferenceServerHung",
		},
		{
			Cause: explain.QueueFull, Title: "more requests than the servers take", Evidence: []string{"210 requests wait"},
			Against: []string{}, Do: []string{"Add replicas."}, Runbook: "InferenceQueueSaturated",
		},
	}}, true
}

// OtherPages is content for the pages besides the fleet.
func OtherPages() Content {
	return Content{
		GPUs: gpus(),
		Info: web.Info{
			Version: "1.4.0", Revision: "4be1f0c9d2a7", Started: now() - 50*3600, ConfigFile: "/etc/inference_exporter.yml",
			ConfigLoaded: now() - 3*3600, ConfigOK: false, ConfigError: `endpoints[3].url: want a URL like http://host:8000, got "http//judge"`,
			Endpoints: 7,
		},
		Config: "global:\n  interval: 30s\nmodules:\n  agent:\n    interval: 2m\n  rag:\n    interval: 1m\nendpoints:\n  - name: chat-eu\n    url: http://chat-eu:8000/v1\n    modules:\n      - rag\n    http: {authorization: {credentials: <secret>}}\n  - name: judge\n    url: http://judge:8000/v1\n",
	}
}

func gpus() *status.GPUPage {
	return &status.GPUPage{
		State: "readings are there", Driver: "580.95.05", CUDA: "13.0", At: now() - 3, Simulated: true,
		GPUs: []*status.GPU{
			{
				Index: 0, UUID: "GPU-6e1f2c1a-77aa-4d1e-9a2b-0b7c41ad5512", Name: "NVIDIA H100 80GB HBM3", Endpoints: []string{"chat-eu", "code/70b"},
				MemoryUsed: new(71.3e9), MemoryTotal: new(85.5e9), Utilization: new(0.97), SMActive: new(0.41),
				BandwidthUse: new(0.62), Bandwidth: new(3.35e12), Power: new(512.4), PowerLimit: new(700.0), Temperature: new(61.0),
				Processes: []*status.GPUProcess{{PID: 4711, Name: "VLLM::EngineCore", MemoryUsed: new(70.9e9)}},
			},
			{
				Index: 1, UUID: "GPU-0b1d3f44-0c58-47e5-8d3f-6c1f0a8e9b77", Name: "NVIDIA H100 80GB HBM3",
				MemoryUsed: new(84.9e9), MemoryTotal: new(85.5e9), Utilization: new(1.0), Power: new(698.0), PowerLimit: new(700.0),
				Temperature: new(86.0), Throttle: []string{"sw_power_cap", "hw_thermal_slowdown"},
				Problems: []string{"XID 48 (2 times, last 4 min ago): uncorrectable memory error"},
			},
		},
	}
}

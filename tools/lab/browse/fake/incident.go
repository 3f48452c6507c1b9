package fake

import (
	"encoding/json"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/recorder"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// Incident makes up the recording of an incident of twelve minutes, in which a server took requests and answered nothing. What a
// server says in it is said.
func Incident(said string) *recorder.Recording {
	start := time.Date(2026, 11, 26, 3, 4, 5, 0, time.UTC)
	end := start.Add(12 * time.Minute)
	r := &recorder.Recording{
		Version: recorder.Version, Exporter: "inference_exporter 0.9.0, go1.26.0", Endpoint: "llama-prod",
		Incident: recorder.Incident{Kind: health.KindDown, Scope: "host gpu-3", Witness: health.Both, Start: start, End: end},
		From:     start.Add(-10 * time.Minute),
		Config:   "endpoints:\n  - name: llama-prod\n    url: http://gpu-3.inference.svc:8000/v1\n    http: {authorization: {credentials: <secret>}}\n",
	}
	put := func(at time.Time, e recorder.Entry) {
		e.At = at
		r.Entries = append(r.Entries, e)
	}
	var failed []*explain.Probe
	for at, i := r.From, 0; !at.After(end); at, i = at.Add(30*time.Second), i+1 {
		isBad := !at.Before(start) && at.Before(end.Add(-time.Minute))
		if i%10 == 0 || isBad && i%2 == 0 || at.Equal(end) {
			putSamples(put, at, isBad, float64(i))
		}
		if isBad {
			failed = append(failed, &explain.Probe{Module: "interactive", Error: said, Start: at, Outcome: result.TimeoutStall})
		}
		put(at, recorder.Entry{Probe: stalled(at, i, isBad, said)})
		if isBad && len(failed) == 2 || at.Equal(end) {
			putWhy(put, at, failed, isBad)
		}
	}
	return r
}

func stalled(at time.Time, i int, isBad bool, said string) *result.Document {
	d := &result.Document{
		Time: at, Endpoint: "llama-prod", URL: "http://gpu-3.inference.svc:8000/v1", Module: "interactive", Outcome: result.Success, Status: 200,
		Model: "llama-3.3-70b", Engine: "vllm", Prefix: "cold", TraceID: "ab", Clock: result.ClockKernel,
		TTFT: new(0.2 + 0.01*float64(i%7)), TPOT: new(0.02), Duration: new(0.85),
		Phases: map[string]*float64{"dns": new(0.002), "connect": new(0.01), "write": new(0.001), "first_byte": new(0.19), "first_token": new(0.01), "decode": new(0.62), "close": new(0.017)},
	}
	events := 32
	if isBad {
		events = 9
		d.Outcome, d.Error, d.TPOT, d.Duration = result.TimeoutStall, said, nil, new(10.4)
		d.Stall = &result.DocumentStall{Side: result.SideServer, At: 0.4, Duration: 10, Samples: 10, Evidence: []string{
			"10 of 10 keepalives were acknowledged by the host, the latest 180 ms before the end",
		}}
		d.Phases = map[string]*float64{"dns": new(0.002), "connect": new(0.01), "write": new(0.001), "first_byte": new(0.19), "first_token": new(0.01)}
	}
	for j := range events {
		d.Events = append(d.Events, result.DocumentEvent{At: 0.213 + 0.02*float64(j), Tokens: 1})
	}
	return d
}

func putSamples(put func(time.Time, recorder.Entry), at time.Time, isBad bool, i float64) {
	running, generated, state := 6.0, 900*30*i, recorder.State{State: health.Up}
	if isBad {
		running, generated, state = 48, 900*30*20, recorder.State{State: health.Down, Cause: explain.Hung, Title: "the engine stops in mid-answer"}
	}
	for _, source := range []string{"10.0.3.7:8000", "10.0.3.8:8000"} {
		if source == "10.0.3.8:8000" {
			running, generated = 5, 900*30*i
		}
		put(at, recorder.Entry{Page: &recorder.Page{Source: source, Role: recorder.RoleServer, Engine: "vllm", State: page.Up, Values: recorder.ValuesOf(map[string]float64{
			"requests_running": running, "requests_waiting": max(0, running-32), "kv_cache_usage_ratio": min(1, running/40),
			"generation_tokens_total": generated, "ttft_seconds_sum": i * 6, "ttft_seconds_count": i * 30,
		})}})
	}
	utilization := 0.62
	if isBad {
		utilization = 0
	}
	put(at, recorder.Entry{GPU: &recorder.GPU{UUID: "GPU-5c1f07d2-2c3a-4b1e", Up: true, Values: recorder.ValuesOf(map[string]float64{
		"utilization_ratio": utilization, "power_watts": 120 + 500*utilization, "memory_used_bytes": 7.1e10,
	})}})
	put(at, recorder.Entry{Self: &recorder.Self{ScheduleLag: 0.004, ReadLag: 0.0002, Probes: 40}})
	if at.Minute() == 54 || at.Minute() == 4 || at.Minute() == 16 {
		put(at, recorder.Entry{State: &state})
	}
}

func putWhy(put func(time.Time, recorder.Entry), at time.Time, failed []*explain.Probe, isBad bool) {
	e := &explain.Evidence{At: at, Endpoint: "llama-prod", Condition: explain.Condition{State: health.Up, Since: at}, Succeeded: true}
	if isBad {
		e.Condition = explain.Condition{State: health.Down, Since: failed[0].Start, Failed: len(failed), Of: len(failed)}
		e.Probes = failed
		e.Servers = &explain.Pages{Known: 2, Up: 2, Usual: 2, Stuck: 90 * time.Second, Work: "requests run"}
		e.Speeds = []explain.Speed{{Module: "interactive", TTFT: explain.Level{Objective: new(0.25)}}}
	}
	text, err := explain.Encode(e)
	if err != nil {
		panic(err)
	}
	put(at, recorder.Entry{Evidence: json.RawMessage(text)})
	put(at, recorder.Entry{Report: &explain.Report{
		At: stats.UnixSeconds(at), Endpoint: "llama-prod", State: string(e.State), Since: stats.UnixSeconds(e.Since), Findings: explain.Explain(e),
	}})
}

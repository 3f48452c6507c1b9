package loadtest

import (
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

func metrics() []workload.Metric {
	kinds, ends := config.LoadKinds(), Ends() // once, and not for each sample
	stats := []string{"p50", "p50_lower", "p50_upper", "p90", "p90_lower", "p90_upper", "p99", "p99_lower", "p99_upper"}
	ofLevel := func(name, unit, help string, get func(l *Level) float64) workload.Metric {
		return workload.Metric{
			Name: "load_" + name, Unit: unit, Help: help, Each: []string{"level", "load"},
			Value: workload.Of(func(f *Finding, i int) float64 { return get(&f.Levels[i]) }),
		}
	}
	quantiles := func(name, what string, get func(l *Level) *Quantiles) workload.Metric {
		return workload.Metric{
			Name: "load_" + name, Unit: "seconds", Label: "stat", Values: stats, Each: []string{"level", "load"},
			Help: what + " of the requests of the level, in its steady state: quantiles with the bounds that the true ones are between with 95 % confidence. What too few requests support is absent, and what is infinite because so many failed.",
			Value: workload.Of(func(f *Finding, i int) float64 {
				q, stat := get(&f.Levels[i/len(stats)]), i%len(stats)
				one := [...]Quantile{q.P50, q.P90, q.P99}[stat/3]
				return workload.Positive([...]float64{one.Value, one.Lower, one.Upper}[stat%3])
			}),
		}
	}
	ofKind := func(name, unit, help string, get func(f *Finding) float64) workload.Metric {
		return workload.Metric{
			Name: "load_" + name, Unit: unit, Help: help, Label: "load", Values: config.Texts(config.LoadKinds()),
			Value: workload.Of(func(f *Finding, i int) float64 { return workload.If(kinds[i] == f.Kind, get(f)) }),
		}
	}
	capacity := func(name, unit, help string, of func(f *Finding) *Capacity, get func(c *Capacity) float64) workload.Metric {
		return ofKind(name, unit, help, func(f *Finding) float64 { return workload.Part(of(f), get) })
	}
	good := func(f *Finding) *Capacity { return f.MaxGood }
	level := func(c *Capacity) float64 { return c.Level }
	return []workload.Metric{
		quantiles("ttft_seconds", "TTFT", func(l *Level) *Quantiles { return &l.TTFT }),
		quantiles("tpot_seconds", "TPOT", func(l *Level) *Quantiles { return &l.TPOT }),
		ofLevel("requests", "", "Requests that were sent in the steady state of the level, and ended.", func(l *Level) float64 { return float64(l.Requests) }),
		ofLevel("failed_requests", "", "Those of inference_probe_load_requests that failed.", func(l *Level) float64 { return float64(l.Failed) }),
		ofLevel("late_requests", "", "Those of inference_probe_load_requests whose latencies do not count because this process was late.", func(l *Level) float64 { return float64(l.Late) }),
		ofLevel("in_flight", "", "Requests of the load test that were in flight on average, in the steady state of the level.", func(l *Level) float64 { return l.InFlight }),
		ofLevel("goodput_ratio", "ratio", "Share of the requests of the level that met all objectives. Absent without an objective of latency.", func(l *Level) float64 { return workload.Known(l.Goodput) }),
		ofLevel("output_tokens_per_second", "tokens_per_second", "Output tokens of all requests of the load test that came in the steady state of the level, per second.", func(l *Level) float64 { return workload.Positive(l.OutputTokensPerSecond) }),
		ofLevel("output_tokens_per_second_per_gpu", "", "inference_probe_load_output_tokens_per_second divided by the GPUs of the endpoint. Absent where their number is not known.", func(l *Level) float64 { return workload.Positive(l.OutputTokensPerSecondPerGPU) }),
		ofLevel("usd_per_million_output_tokens", "", "What a million output tokens cost at the level in US dollars: by the price of the GPUs for the time that they take, or else by the prices of tokens. Absent without a price.", func(l *Level) float64 { return workload.Positive(l.USDPerMillionOutputTokens) }),
		capacity("max_good", "", "Largest level that meets the objectives for certain, below inference_probe_load_knee: at most 1 % of its requests are over the objective of TTFT, or of TPOT, with 95 % confidence. That takes 299 requests at the least. Absent where no level does.", good, level),
		capacity("max_good_in_flight", "", "Requests in flight on average at inference_probe_load_max_good.", good, func(c *Capacity) float64 { return c.InFlight }),
		capacity("max_good_confidence_ratio", "ratio", "Confidence that inference_probe_load_max_good meets the objectives, by the binomial distribution: how likely more of its requests would be over one, if it were 1 % of them in truth.", good, func(c *Capacity) float64 { return c.Confidence }),
		capacity("knee", "", "Smallest level that misses an objective for certain: more than 1 % of its requests are over it or failed, with 95 % confidence. Absent if none does.", func(f *Finding) *Capacity { return f.Knee }, level),
		ofKind("input_tokens", "", "Mean length of the prompts that the load test asks, by the configuration. Where it or inference_probe_load_output_tokens changes, figures before and after are not to be compared. Absent for prompts of one's own.", func(f *Finding) float64 { return workload.Positive(float64(f.Input)) }),
		ofKind("output_tokens", "", "Mean length of the answers that the load test asks for, by the configuration.", func(f *Finding) float64 { return workload.Positive(float64(f.Output)) }),
		ofKind("target", "", "Level at which the objectives are to be met, by the configuration.", func(f *Finding) float64 { return workload.Positive(f.Target) }),
		ofKind("target_missed", "", "Whether the target misses an objective: 1 if it misses one for certain, 0 if it meets them for certain, by its latest measurement. Absent where it is undecided, and without an objective.", func(f *Finding) float64 {
			verdict := f.TargetVerdict()
			return workload.If(verdict == Missed || verdict == Met, workload.Number(verdict == Missed))
		}),
		ofKind("target_timestamp_seconds", "seconds", "When the load test of the target that inference_probe_load_target_missed is about ended, as Unix time.", func(f *Finding) float64 {
			return workload.Part(f.level(f.Target), func(l *Level) float64 { return workload.Unix(l.At) })
		}),
		workload.One("load_running", "", "Whether a load test runs: 1 while the exporter puts load on the endpoint, which the pages of its servers count as they count users, else 0.", func(f *Finding) float64 {
			return workload.Number(f.Begun.After(f.At))
		}),
		{
			Name: "load_end", Label: "end", Values: config.Texts(Ends()),
			Help:  "Why the latest load test ended, or did not begin: 1 for the reason, 0 for the others.",
			Value: workload.Of(func(f *Finding, i int) float64 { return workload.Number(f.End == ends[i]) }),
		},
		workload.One("load_end_timestamp_seconds", "seconds", "When the latest load test ended, or did not begin, as Unix time.", func(f *Finding) float64 { return workload.Unix(f.At) }),
	}
}

// Workload returns the workload.
func Workload() workload.Workload {
	return workload.Workload{Estimate: estimateOf, Finding: new(Finding), Metrics: metrics}
}

func estimateOf(e *config.Endpoint, m *config.Module) workload.Estimate {
	if m.Load == nil {
		return nil
	}
	o := series.NewObjectives(e.SLOWith(m))
	return &Estimate{kind: m.Load.Kind(), ttft: o.TTFT.Seconds(), tpot: o.TPOT.Seconds(), mean: m.MeanLengths()}
}

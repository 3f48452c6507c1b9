package e2e

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

const (
	// inputTokens, outputTokens and batchSize are what the probes ask.
	inputTokens, outputTokens, batchSize = 512, 32, 4
	// learning is how many probes may pass before a prompt has its length, and
	// measured how many are compared after that.
	learning, measured = 3, 3
	// warmProbes is how many probes repeat one prompt.
	warmProbes = 2
	// patience limits a probe: a server may load the model for the first one.
	patience = model.Duration(5 * time.Minute)
)

// Problem is something that must hold and does not.
type Problem struct {
	// API is the protocol; "" where none was found.
	API string
	// Text says what does not hold.
	Text string
}

// String returns the problem in one line.
func (p Problem) String() string { return p.API + ": " + p.Text }

// Refusal is a protocol that the server does not offer.
type Refusal struct {
	API, Reason string
}

// Report is the result of Check.
type Report struct {
	// API, Engine and Model are what the first probe used or detected.
	API, Engine, Model string
	// Figures has one entry for each protocol that the server offers, that of
	// API first.
	Figures []Figures
	// Refusals are the other protocols.
	Refusals []Refusal
	// Problems is empty when all is well.
	Problems []Problem
}

// Check probes an endpoint as configured, its modules aside, and then by every
// other protocol of the same kind. Each protocol that answers costs eight
// requests of 512 tokens for 32.
func Check(ctx context.Context, cfg *config.Endpoint, limits Limits) Report {
	dialer := prober.NewDialer()
	defer dialer.Close()
	c := &checker{cfg: *cfg, dialer: dialer}
	first := c.series(ctx, cfg.API)
	if first == nil {
		return c.report
	}
	c.report.API, c.report.Engine, c.report.Model = first.API, first.Engine, first.Model
	c.cfg.Model = first.Model
	for _, name := range api.Names() {
		if p, _ := api.Lookup(name); p.Kind == first.Kind && name != first.API && ctx.Err() == nil {
			c.series(ctx, name)
		}
	}
	c.report.Problems = append(c.report.Problems, compare(c.report.Figures, limits)...)
	return c.report
}

// checker is one run of Check.
type checker struct {
	cfg    config.Endpoint
	dialer *prober.Dialer
	report Report
}

func (c *checker) problem(name, format string, args ...any) {
	c.report.Problems = append(c.report.Problems, Problem{API: name, Text: fmt.Sprintf(format, args...)})
}

// series makes the probes of one protocol, the empty name being the one that
// is detected. It returns the first result, or nil where that is no success.
func (c *checker) series(ctx context.Context, name string) *result.Result {
	cfg := c.cfg
	cfg.API = name
	endpoint, err := prober.NewEndpoint(&cfg, prober.Options{Dialer: c.dialer, UserAgent: "inference_exporter/e2e"})
	if err != nil {
		c.problem(name, "%v", err)
		return nil
	}
	cold := c.probes(ctx, endpoint, newModule(config.PrefixCold), learning+measured)
	if len(cold) == 0 {
		c.problem(name, "no probe was made")
		return nil
	}
	first := cold[0]
	if first.Outcome != result.Success {
		c.judgeFailure(cmp.Or(first.API, name), first)
		return nil
	}
	results := append(cold, c.probes(ctx, endpoint, newModule(config.PrefixWarm), warmProbes)...)
	for i, r := range results {
		for _, text := range broken(r) {
			c.problem(r.API, "probe %d, %s: %s", i+1, r.Prefix, text)
		}
	}
	if len(cold) == learning+measured {
		c.report.Figures = append(c.report.Figures, figuresOf(cold[learning:]))
	}
	return first
}

// judgeFailure separates a protocol that the server does not offer from a broken one.
func (c *checker) judgeFailure(name string, r *result.Result) {
	if c.report.API == "" || offered(r) { // the first one must succeed
		c.problem(name, "%s: %v", r.Outcome, r.Err)
		return
	}
	c.report.Refusals = append(c.report.Refusals, Refusal{API: name, Reason: fmt.Sprintf("%s: %v", r.Outcome, r.Err)})
}

// offered reports whether a first probe that failed still shows that the server
// knows the protocol. Any other one gives 404 or the like, or a page of
// something else.
func offered(r *result.Result) bool {
	switch r.Outcome {
	case result.HTTPError:
		return r.Status == 500
	case result.ProtocolError, result.Unauthorized:
		return false
	}
	return true
}

// probes probes n times, or until the first failure.
func (c *checker) probes(ctx context.Context, endpoint *prober.Endpoint, m *config.Module, n int) []*result.Result {
	p, err := endpoint.NewProber(m)
	if err != nil {
		c.problem("", "%v", err)
		return nil
	}
	defer p.Close()
	var results []*result.Result
	for range n {
		run, skip := p.Run(ctx, time.Time{})
		if skip != nil {
			c.problem("", "%v", skip)
			break
		}
		results = append(results, run...)
		if run[0].Outcome != result.Success {
			break
		}
	}
	return results
}

func newModule(prefix config.Prefix) *config.Module {
	return &config.Module{
		Interval: patience, Timeout: patience,
		Timeouts:    config.Timeouts{Connect: model.Duration(10 * time.Second), Headers: patience, FirstToken: patience, Stall: patience},
		InputTokens: config.Tokens(inputTokens), OutputTokens: config.Tokens(outputTokens), BatchSize: batchSize,
		Prefix: prefix, Connection: config.ConnectionNew,
	}
}

// promptWithin is how far a learned prompt may be from the wanted length.
const promptWithin = 0.05

// Figures are the medians of the cold probes of one protocol, once their
// length is learned; each may be absent as in a Result.
type Figures struct {
	API            string
	Kind           api.Kind
	Prompt, Output int
	Source         result.TokenSource
	TTFT, TPOT     time.Duration
	Duration       time.Duration
}

// String returns the figures in one line.
func (f Figures) String() string {
	return fmt.Sprintf("%s: prompt %d tokens, output %d (%s), TTFT %s, TPOT %s, end to end %s",
		f.API, f.Prompt, f.Output, f.Source, f.TTFT, f.TPOT, f.Duration)
}

func figuresOf(results []*result.Result) Figures {
	last := results[len(results)-1]
	return Figures{
		API: last.API, Kind: last.Kind, Source: last.Tokens.Source,
		Prompt:   median(results, func(r *result.Result) int { return r.Tokens.Prompt }),
		Output:   median(results, func(r *result.Result) int { return r.Tokens.Output }),
		TTFT:     median(results, func(r *result.Result) time.Duration { return r.Timing.TTFT }),
		TPOT:     median(results, func(r *result.Result) time.Duration { return r.Timing.TPOT }),
		Duration: median(results, func(r *result.Result) time.Duration { return r.Timing.Duration }),
	}
}

func median[T int | time.Duration](results []*result.Result, of func(*result.Result) T) T {
	all := make([]T, len(results))
	for i, r := range results {
		all[i] = of(r)
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// Tolerance is how far two figures of one server may be apart: by a factor or,
// where that is more, by a time.
type Tolerance struct {
	Factor float64
	Slack  time.Duration
}

func (t Tolerance) allows(a, b time.Duration) bool {
	low, high := min(a, b), max(a, b)
	return float64(high) <= t.Factor*float64(low) || high-low <= t.Slack
}

// Limits say what counts as the same figure by two protocols.
type Limits struct {
	TTFT, TPOT Tolerance
}

// DefaultLimits are for a server that has other work, too: medians of three
// must be within a factor of 2 or 50 ms (TTFT), of 1.5 or 5 ms (TPOT).
func DefaultLimits() Limits {
	return Limits{TTFT: Tolerance{2, 50 * time.Millisecond}, TPOT: Tolerance{1.5, 5 * time.Millisecond}}
}

// compare holds the figures of the other protocols against those of the first,
// and each prompt against the wanted length.
func compare(all []Figures, limits Limits) []Problem {
	var problems []Problem
	problem := func(f Figures, format string, args ...any) {
		problems = append(problems, Problem{API: f.API, Text: fmt.Sprintf(format, args...)})
	}
	for _, f := range all {
		first := all[0]
		if f.Kind == api.Generation && f.Prompt >= 0 && !isNear(f.Prompt, inputTokens) {
			problem(f, "prompts of %d tokens, want %d within %.0f %%", f.Prompt, inputTokens, 100*promptWithin)
		}
		if f.TTFT >= 0 && first.TTFT >= 0 && !limits.TTFT.allows(f.TTFT, first.TTFT) {
			problem(f, "TTFT %s, by %s %s", f.TTFT, first.API, first.TTFT)
		}
		// By another count of tokens it is another pace.
		if f.Source == first.Source && f.TPOT >= 0 && first.TPOT >= 0 && !limits.TPOT.allows(f.TPOT, first.TPOT) {
			problem(f, "TPOT %s, by %s %s", f.TPOT, first.API, first.TPOT)
		}
	}
	return problems
}

func isNear(n, want int) bool {
	off := float64(n)/float64(want) - 1
	return off >= -promptWithin && off <= promptWithin
}

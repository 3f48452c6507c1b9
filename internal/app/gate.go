package app

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/inference-exporter/inference_exporter/internal/compare"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	probereport "github.com/inference-exporter/inference_exporter/internal/report"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// undecidedError marks an error for which a comparison has no verdict. It adds nothing to the
// text.
type undecidedError struct{ error }

func (e undecidedError) Unwrap() error { return e.error }

// errRegression is the verdict that blocks.
var errRegression = errors.New("the candidate is worse than the baseline")

// exit returns the error of a gate with its exit code: what is neither a pass nor a
// regression is undecided.
func exit(err error) error {
	if err == nil || errors.Is(err, errRegression) {
		return err
	}
	return undecidedError{err}
}

// margins are the flags that say what a regression is.
type margins struct{ alpha, latency, tpot, failures, answers *float64 }

func (m *margins) addTo(clause *kingpin.CmdClause) {
	ratio := func(name, help string, value float64) *float64 {
		return clause.Flag(name, help).Default(strconv.FormatFloat(value, 'g', -1, 64)).Float64()
	}
	d := compare.Defaults()
	m.latency = ratio("ttft-margin", "Increase of TTFT, or of the duration of requests without tokens, above which it is a regression: 0.1 is 10 %.", d.Latency)
	m.tpot = ratio("tpot-margin", "The same of TPOT.", d.TPOT)
	m.failures = ratio("failures-margin", "Increase of the share of failures above which it is a regression: 0.1 is from 2 % to 12 %.", d.Failures)
	m.answers = ratio("answers-margin", "The same of the share of wrong answers, where the module checks or inspects them.", d.WrongAnswers)
	m.alpha = ratio("alpha", "Probability of a false verdict, at most.", d.Alpha)
}

func (m *margins) options() compare.Options {
	return compare.Options{Alpha: *m.alpha, Latency: *m.latency, TPOT: *m.tpot, Failures: *m.failures, WrongAnswers: *m.answers}
}

// check refuses numbers that make no sense.
func (m *margins) check() error {
	for _, f := range []struct {
		name  string
		value *float64
		most  float64
	}{{"ttft-margin", m.latency, 10}, {"tpot-margin", m.tpot, 10}, {"failures-margin", m.failures, 0.9}, {"answers-margin", m.answers, 0.9}, {"alpha", m.alpha, 0.5}} {
		if !(*f.value > 0 && *f.value <= f.most) {
			return fmt.Errorf("--%s=%v: want more than 0 and at most %v", f.name, *f.value, f.most)
		}
	}
	return nil
}

// fewestPairs and mostPairs bound how many pairs may be asked for.
const fewestPairs, mostPairs = 10, 1000

// gate compares two sides until it is decided which verdict is right.
type gate struct {
	baseline, candidate *side
	options             compare.Options
	maxPairs            int
	interval            time.Duration // between two pairs
	seed                uint64        // of the order within pairs
	format              string        // text, json or junit
}

// side is one of the two that are compared.
type side struct {
	report  probereport.Side
	measure func(context.Context) (compare.Figures, error)
}

// newSide returns a side that is probed.
func newSide(p *fleet.Prober, t result.Target) *side {
	s := &side{report: probereport.Side{Target: t, Results: &probereport.Summary{}}}
	s.measure = func(ctx context.Context) (compare.Figures, error) {
		run := p.Run(ctx, 0)
		results := run.All()
		if slices.ContainsFunc(results, isCanceled) {
			return compare.Figures{}, errors.New("interrupted")
		}
		if len(results) == 0 {
			return compare.Figures{}, fmt.Errorf("%s: %w", t.Endpoint, nothingAsked(run.Skip()))
		}
		s.report.Results.Add(results...)
		return compare.NewFigures(results), nil
	}
	return s
}

// run compares, prints, and returns the verdict as an error.
func (g *gate) run(ctx context.Context, env environment) error {
	report := &probereport.Comparison{MaxPairs: g.maxPairs, Alpha: g.options.Alpha, Seed: g.seed, Start: time.Now()}
	comparison := compare.New(g.options)
	stopped := g.probe(ctx, env, comparison)
	report.Baseline, report.Candidate = g.baseline.report, g.candidate.report
	report.End(comparison)
	if comparison.Pairs() > 0 {
		if err := g.print(env, report); err != nil {
			return err
		}
	}
	switch v := comparison.Verdict(); {
	case v == compare.Regression:
		return errRegression
	case v == compare.Pass:
		return nil
	case stopped != nil:
		return stopped
	}
	return fmt.Errorf("undecided after %s: more pairs or a larger margin would decide", probereport.Count(comparison.Pairs(), "pair", "pairs"))
}

// probe probes pairs until the comparison is decided, or all are done. The error is why
// it ended before.
func (g *gate) probe(ctx context.Context, env environment, comparison *compare.Comparison) error {
	progress := newProgress(env.Stderr, "comparing", g.maxPairs)
	defer progress.end()
	order := rand.New(rand.NewPCG(g.seed, 0))
	for comparison.Pairs() < g.maxPairs && comparison.Verdict() == compare.Undecided {
		if comparison.Pairs() > 0 && !pause(ctx, g.interval) {
			return errors.New("interrupted")
		}
		if comparison.Hopeless() {
			return fmt.Errorf("no latency measured on both sides in %d pairs", comparison.Pairs())
		}
		progress.set(comparison.Pairs(), g.baseline.report.Results.Failed()+g.candidate.report.Results.Failed())
		sides := []*side{g.baseline, g.candidate}
		order.Shuffle(len(sides), func(i, j int) { sides[i], sides[j] = sides[j], sides[i] })
		figures := map[*side]compare.Figures{}
		for _, s := range sides {
			f, err := s.measure(ctx)
			if err != nil {
				return err
			}
			figures[s] = f
		}
		comparison.Add(figures[g.baseline], figures[g.candidate])
	}
	return nil
}

func (g *gate) print(env environment, report *probereport.Comparison) error {
	var err error
	switch g.format {
	case "json":
		err = report.JSON(env.Stdout)
	case "junit":
		err = report.JUnit(env.Stdout)
	default:
		err = report.Text(env.Stdout, probereport.Options{Width: fleet.ReportWidth, Color: wantsColor(env.Stdout)})
	}
	if err != nil {
		return fmt.Errorf("print the comparison: %w", err)
	}
	return nil
}

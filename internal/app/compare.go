package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/compare"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	probereport "github.com/inference-exporter/inference_exporter/internal/report"
	"github.com/inference-exporter/inference_exporter/prober"
)

// undecided marks an error for which a comparison has no verdict. It adds nothing to the
// text.
type undecided struct{ error }

func (e undecided) Unwrap() error { return e.error }

// errRegression is the verdict that blocks.
var errRegression = errors.New("the candidate is worse than the baseline")

// compareCommand probes two endpoints in turns, and compares them.
type compareCommand struct {
	request
	margins
	baseline, candidate *string
	maxPairs            int
	seed                *uint64
	interval            *time.Duration
	output              *string
}

func newCompareCommand(c *kingpin.CmdClause) *compareCommand {
	p := &compareCommand{
		baseline:  c.Arg("baseline", "What to compare with: URL or HOST:PORT, or name of an endpoint in --config.file.").Required().String(),
		candidate: c.Arg("candidate", "What may be worse: URL or HOST:PORT, or name of an endpoint in --config.file.").Required().String(),
	}
	p.request.addTo(c)
	p.margins.addTo(c)
	c.Flag("max-pairs", "Number of pairs after which it is undecided, 10 to 1000.").Short('n').Default("300").SetValue(cli.Whole(&p.maxPairs))
	p.interval = c.Flag("interval", "Pause between two pairs.").Default("0s").Duration()
	p.seed = c.Flag("seed", "Seed of the order within the pairs.").Default("1").Uint64()
	p.output = c.Flag("output", "Format of the report: text, json or junit.").Short('o').Default("text").Enum("text", "json", "junit")
	return p
}

// margins are the flags that say what a regression is.
type margins struct{ alpha, latency, tpot, failures, answers *float64 }

func (m *margins) addTo(clause *kingpin.CmdClause) {
	ratio := func(name, help string, value float64) *float64 {
		return clause.Flag(name, help).PlaceHolder("RATIO").Default(strconv.FormatFloat(value, 'g', -1, 64)).Float64()
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

// These are how many pairs may be asked for. how many pairs may be asked for.
const fewestPairs, mostPairs = 10, 1000

// check refuses numbers that make no sense.
func (c *compareCommand) check() error {
	switch {
	case c.maxPairs < fewestPairs || c.maxPairs > mostPairs:
		return fmt.Errorf("--max-pairs=%d: want %d to %d", c.maxPairs, fewestPairs, mostPairs)
	case *c.interval < 0:
		return fmt.Errorf("--interval=%s is negative", *c.interval)
	}
	return cmp.Or(c.margins.check(), c.request.check())
}

func (c *compareCommand) run(ctx context.Context, env environment) error {
	err := c.compare(ctx, env)
	if err == nil || errors.Is(err, errRegression) {
		return err
	}
	return undecided{err}
}

// compare compares, prints, and returns the verdict as an error.
func (c *compareCommand) compare(ctx context.Context, env environment) error {
	if err := c.check(); err != nil {
		return err
	}
	dialer := prober.NewDialer()
	defer dialer.Close()
	baseline, err := c.side(ctx, *c.baseline, dialer, env)
	if err != nil {
		return fmt.Errorf("baseline: %w", err)
	}
	defer baseline.Close()
	candidate, err := c.side(ctx, *c.candidate, dialer, env)
	if err != nil {
		return fmt.Errorf("candidate: %w", err)
	}
	defer candidate.Close()
	report := &probereport.Comparison{
		Baseline: baseline.report, Candidate: candidate.report,
		MaxPairs: c.maxPairs, Alpha: *c.alpha, Seed: *c.seed, Start: time.Now(),
	}
	comparison := compare.New(c.options())
	stopped := c.probe(ctx, env, comparison, baseline, candidate)
	report.End(comparison)
	if comparison.Pairs() > 0 {
		if err := c.print(env, report); err != nil {
			return err
		}
	}
	return conclude(comparison, stopped)
}

// conclude returns the verdict as an error. stopped is why no more pairs were probed.
func conclude(c *compare.Comparison, stopped error) error {
	switch v := c.Verdict(); {
	case v == compare.Regression:
		return errRegression
	case v == compare.Pass:
		return nil
	case stopped != nil:
		return stopped
	}
	return fmt.Errorf("undecided after %s: more would decide, or a larger margin", probereport.Count(c.Pairs(), "pair", "pairs"))
}

// side is one of the two that are compared.
type side struct {
	*fleet.Prober
	report probereport.Side
}

func (c *compareCommand) side(ctx context.Context, name string, dialer *prober.Dialer, env environment) (*side, error) {
	t, err := c.resolve(ctx, name, env)
	if err != nil {
		return nil, err
	}
	p, err := t.NewProber(dialer)
	if err != nil {
		return nil, err
	}
	return &side{p, probereport.Side{Target: t.Report(), Results: &probereport.Summary{}}}, nil
}

// measure probes once.
func (s *side) measure(ctx context.Context) (compare.Figures, error) {
	run := s.Run(ctx, 0)
	results := run.All()
	if slices.ContainsFunc(results, isCanceled) {
		return compare.Figures{}, errors.New("interrupted")
	}
	if len(results) == 0 {
		return compare.Figures{}, fmt.Errorf("%s: %w", s.report.Endpoint, nothingAsked(run.Skip()))
	}
	s.report.Results.Add(results...)
	return compare.NewFigures(results), nil
}

// probe probes pairs until the comparison is decided, or all are done. The error is why
// it ended before.
func (c *compareCommand) probe(ctx context.Context, env environment, comparison *compare.Comparison, baseline, candidate *side) error {
	progress := newProgress(env.Stderr, c.maxPairs)
	defer progress.clear()
	order := rand.New(rand.NewPCG(*c.seed, 0))
	for comparison.Pairs() < c.maxPairs && comparison.Verdict() == compare.Undecided {
		if comparison.Pairs() > 0 && !pause(ctx, *c.interval) {
			return errors.New("interrupted")
		}
		if comparison.Hopeless() {
			return fmt.Errorf("no latency of both sides in %d pairs", comparison.Pairs())
		}
		progress.draw(comparison.Pairs(), baseline.report.Results, candidate.report.Results)
		sides := []*side{baseline, candidate}
		order.Shuffle(len(sides), func(i, j int) { sides[i], sides[j] = sides[j], sides[i] })
		figures := map[*side]compare.Figures{}
		for _, s := range sides {
			f, err := s.measure(ctx)
			if err != nil {
				return err
			}
			figures[s] = f
		}
		comparison.Add(figures[baseline], figures[candidate])
	}
	return nil
}

func (c *compareCommand) print(env environment, report *probereport.Comparison) error {
	var err error
	switch *c.output {
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

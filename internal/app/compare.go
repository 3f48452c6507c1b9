package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/compare"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	"github.com/inference-exporter/inference_exporter/internal/foreign"
	probereport "github.com/inference-exporter/inference_exporter/internal/report"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober"
)

type compareCommand struct {
	request
	margins
	baseline, candidate *string
	maxPairs            int
	seed                uint64
	interval            time.Duration
	output              *string
}

func newCompareCommand(c *kingpin.CmdClause) *compareCommand {
	p := new(compareCommand)
	p.baseline = c.Arg("baseline", "What to compare with: URL or HOST:PORT, or name of an endpoint in --config.file.").Required().HintAction(p.endpointNames).String()
	p.candidate = c.Arg("candidate", "What may be worse: URL or HOST:PORT, or name of an endpoint in --config.file.").Required().HintAction(p.endpointNames).String()
	p.request.addTo(c)
	p.margins.addTo(c)
	c.Flag("max-pairs", "Number of pairs after which it is undecided, 10 to 1000.").Short('n').Default("300").SetValue(cli.Between(&p.maxPairs, fewestPairs, mostPairs))
	c.Flag("interval", "Pause between two pairs.").Default("0s").SetValue(cli.AtLeast(&p.interval, 0))
	c.Flag("seed", "Seed of the order within the pairs.").Default("1").SetValue(cli.AtLeast(&p.seed, 0))
	p.output = c.Flag("output", "Format of the report: text, json or junit.").Short('o').Default("text").Enum("text", "json", "junit")
	return p
}

func (c *compareCommand) run(ctx context.Context, env environment) (err error) {
	defer func() { err = exit(err) }()
	dialer := prober.NewDialer()
	defer dialer.Close()
	g := gate{module: *c.module, options: c.Options, maxPairs: c.maxPairs, interval: c.interval, seed: c.seed, format: *c.output}
	for _, of := range []struct {
		name, target string
		side         **side
	}{{"baseline", *c.baseline, &g.baseline}, {"candidate", *c.candidate, &g.candidate}} {
		t, err := c.resolve(ctx, of.target, env)
		if err != nil {
			return fmt.Errorf("%s: %w", of.name, err)
		}
		p, err := t.NewProber(dialer)
		if err != nil {
			return fmt.Errorf("%s: %w", of.name, err)
		}
		defer p.Close()
		*of.side = newSide(p, t.Report())
	}
	c.access.warn(env.Stderr)
	return g.run(ctx, env)
}

var errRegression = errors.New("the candidate is worse than the baseline")

// exit returns the error of a gate with its exit code: what is neither a pass nor a regression is undecided.
func exit(err error) error {
	if err == nil || errors.Is(err, errRegression) {
		return err
	}
	return usageError{err} // as cli.ExitUndecided is cli.ExitUsage
}

// margins are the flags that say what a regression is.
type margins struct{ compare.Options }

func (m *margins) addTo(clause *kingpin.CmdClause) {
	m.Options = compare.Defaults()
	ratio := func(name, help string, to *float64, most float64) {
		clause.Flag(name, help).Default(strconv.FormatFloat(*to, 'g', -1, 64)).SetValue(cli.Between(to, 1e-6, most))
	}
	ratio("ttft-margin", "Increase of TTFT, or of the duration of requests without tokens, above which it is a regression: 0.1 is 10 %.", &m.Latency, 10)
	ratio("tpot-margin", "The same of TPOT.", &m.TPOT, 10)
	ratio("failures-margin", "Increase of the share of failures above which it is a regression: 0.1 is from 2 % to 12 %.", &m.Failures, 0.9)
	ratio("answers-margin", "The same of the share of wrong answers, where the module checks or inspects them.", &m.WrongAnswers, 0.9)
	ratio("alpha", "Probability of a false verdict, at most.", &m.Alpha, 0.5)
}

const fewestPairs, mostPairs = 10, 1000

type gate struct {
	module              string
	baseline, candidate *side
	options             compare.Options
	maxPairs            int
	interval            time.Duration // between two pairs
	seed                uint64        // of the order within pairs
	format              string        // text, json or junit
}

type side struct {
	report  probereport.Side
	measure func(context.Context) (compare.Figures, error)
}

func newSide(p *fleet.Prober, t result.Target) *side {
	s := &side{report: probereport.NewSide(t.Endpoint, t.URL, t.Price)}
	s.measure = func(ctx context.Context) (compare.Figures, error) {
		run := p.Run(ctx, 0)
		results := run.All()
		if slices.ContainsFunc(results, isCanceled) {
			return compare.Figures{}, errors.New("interrupted")
		}
		if len(results) == 0 {
			return compare.Figures{}, fmt.Errorf("%s: %w", t.Endpoint, nothingAsked(run.Skip()))
		}
		s.report.Add(results...)
		return compare.NewFigures(results), nil
	}
	return s
}

// run compares, prints, and returns the verdict as an error.
func (g *gate) run(ctx context.Context, env environment) error {
	report := &probereport.Comparison{Module: g.module, MaxPairs: g.maxPairs, Alpha: g.options.Alpha, Seed: g.seed, Start: time.Now().UTC()}
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

// probe probes pairs until the comparison is decided, or all are done. The error is why it ended before.
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
		progress.set(comparison.Pairs(), g.baseline.report.Failed()+g.candidate.report.Failed())
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
	text := func() error { return report.Text(env.Stdout, probereport.Options{Color: wantsColor(env.Stdout)}) }
	if g.format == "junit" {
		text = func() error { return report.JUnit(env.Stdout) }
	}
	return printAs(g.format, text, func() error { return report.JSON(env.Stdout) })
}

const maxBaselineBytes = 16 << 20

// baseline are the flags of probe that store figures, and that compare with them.
type baseline struct {
	margins
	save, with *string
}

func (b *baseline) addTo(clause *kingpin.CmdClause) {
	b.save = clause.Flag("save-baseline", "File to write the figures of all probes to, for --baseline.").PlaceHolder("FILE").String()
	b.with = clause.Flag("baseline", "File of --save-baseline to compare with, as compare does: probes until it is clear whether the endpoint is worse.").
		PlaceHolder("FILE").String()
	b.margins.addTo(clause)
}

func (b *baseline) check(count int) error {
	switch {
	case *b.save != "" && *b.with != "":
		return errors.New("--save-baseline and --baseline are mutually exclusive")
	case *b.save != "" && count < fewestPairs:
		return fmt.Errorf("--save-baseline: want --count of at least %d", fewestPairs)
	}
	return nil
}

// store writes a baseline of a number of runs, if so many measured something.
func (b *baseline) store(t result.Target, began time.Time, runs []compare.Figures, count int) error {
	if len(runs) < count {
		return fmt.Errorf("baseline not saved: only %d of %d runs measured anything", len(runs), count)
	}
	var text bytes.Buffer
	stored := compare.Baseline{Time: began.UTC(), Endpoint: t.Endpoint, URL: t.URL, Module: t.Module, Runs: runs}
	if err := stored.Write(&text); err != nil {
		return fmt.Errorf("encode the baseline: %w", err)
	}
	if err := os.WriteFile(*b.save, text.Bytes(), 0o644); err != nil {
		return fmt.Errorf("save the baseline: %w", err)
	}
	return nil
}

// load reads the baseline to compare with, which must be of the module.
func (b *baseline) load(module string) (*compare.Baseline, error) {
	text, err := foreign.ReadFile(*b.with, maxBaselineBytes)
	if err != nil {
		return nil, fmt.Errorf("--baseline: %w", err)
	}
	stored, err := compare.ReadBaseline(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("--baseline=%s: %w", *b.with, err)
	case stored.Module != module:
		return nil, fmt.Errorf("--baseline=%s: measured with the module %q: want --module=%[2]s", *b.with, stored.Module)
	case len(stored.Runs) < fewestPairs:
		return nil, fmt.Errorf("--baseline=%s: %d runs, want at least %d", *b.with, len(stored.Runs), fewestPairs)
	}
	return stored, nil
}

func (c *probeCommand) gate(ctx context.Context, env environment, p *fleet.Prober, t fleet.Target) error {
	stored, err := c.load(t.Name)
	if err != nil {
		return err
	}
	const seed = 1
	runs := stored.Shuffled(seed)
	most := min(len(runs), mostPairs)
	if c.counted {
		if c.count < fewestPairs || c.count > most {
			return fmt.Errorf("--count=%d: want %d to %d, the runs of the baseline", c.count, fewestPairs, most)
		}
		most = c.count
	}
	before := &side{report: probereport.NewSide(stored.Endpoint, stored.URL, nil), measure: func(context.Context) (compare.Figures, error) {
		next := runs[0]
		runs = runs[1:]
		return next, nil
	}}
	g := gate{
		module: t.Name, baseline: before, candidate: newSide(p, t.Report()), options: c.Options,
		maxPairs: most, interval: c.interval, seed: seed, format: *c.output,
	}
	return g.run(ctx, env)
}

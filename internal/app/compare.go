package app

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/prober"
)

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
	p := new(compareCommand)
	p.baseline = c.Arg("baseline", "What to compare with: URL or HOST:PORT, or name of an endpoint in --config.file.").Required().HintAction(p.endpointNames).String()
	p.candidate = c.Arg("candidate", "What may be worse: URL or HOST:PORT, or name of an endpoint in --config.file.").Required().HintAction(p.endpointNames).String()
	p.request.addTo(c)
	p.margins.addTo(c)
	c.Flag("max-pairs", "Number of pairs after which it is undecided, 10 to 1000.").Short('n').Default("300").SetValue(cli.Whole(&p.maxPairs))
	p.interval = c.Flag("interval", "Pause between two pairs.").Default("0s").Duration()
	p.seed = c.Flag("seed", "Seed of the order within the pairs.").Default("1").Uint64()
	p.output = c.Flag("output", "Format of the report: text, json or junit.").Short('o').Default("text").Enum("text", "json", "junit")
	return p
}

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
	return exit(c.compare(ctx, env))
}

// compare compares, prints, and returns the verdict as an error.
func (c *compareCommand) compare(ctx context.Context, env environment) error {
	if err := c.check(); err != nil {
		return err
	}
	dialer := prober.NewDialer()
	defer dialer.Close()
	baseline, stop, err := c.side(ctx, *c.baseline, dialer, env)
	if err != nil {
		return fmt.Errorf("baseline: %w", err)
	}
	defer stop()
	candidate, stop, err := c.side(ctx, *c.candidate, dialer, env)
	if err != nil {
		return fmt.Errorf("candidate: %w", err)
	}
	defer stop()
	c.access.warn(env.Stderr)
	g := gate{baseline: baseline, candidate: candidate, options: c.options(), maxPairs: c.maxPairs, interval: *c.interval, seed: *c.seed, format: *c.output}
	return g.run(ctx, env)
}

// side returns a side that probes, and a function that closes its connections.
func (c *compareCommand) side(ctx context.Context, name string, dialer *prober.Dialer, env environment) (*side, func(), error) {
	t, err := c.resolve(ctx, name, env)
	if err != nil {
		return nil, nil, err
	}
	p, err := t.NewProber(dialer)
	if err != nil {
		return nil, nil, err
	}
	return newSide(p, t.Report()), p.Close, nil
}

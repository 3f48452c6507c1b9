package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/inference-exporter/inference_exporter/internal/compare"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	"github.com/inference-exporter/inference_exporter/internal/foreign"
	probereport "github.com/inference-exporter/inference_exporter/internal/report"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// maxBaselineBytes is the size of the largest baseline that is read.
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

// check refuses flags that do not go together.
func (b *baseline) check(count int) error {
	switch {
	case *b.save != "" && *b.with != "":
		return errors.New("--save-baseline and --baseline are mutually exclusive")
	case *b.save != "" && count < fewestPairs:
		return fmt.Errorf("--save-baseline: want --count of at least %d", fewestPairs)
	}
	return b.margins.check()
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

// gate compares the target with the baseline.
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
	before := &side{report: probereport.Side{
		Target:  result.Target{Endpoint: stored.Endpoint, URL: stored.URL, Module: stored.Module},
		Results: &probereport.Summary{},
	}}
	before.measure = func(context.Context) (compare.Figures, error) {
		next := runs[0]
		runs = runs[1:]
		return next, nil
	}
	g := gate{
		baseline: before, candidate: newSide(p, t.Report()), options: c.options(),
		maxPairs: most, interval: *c.interval, seed: seed, format: *c.output,
	}
	return g.run(ctx, env)
}

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/compare"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	probereport "github.com/inference-exporter/inference_exporter/internal/report"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/prober"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

const maxAtOnce = 1000

type probeCommand struct {
	request
	baseline
	target      *string
	count       int
	counted     bool // --count is given
	concurrency int
	interval    time.Duration
	output      *string
}

func newProbeCommand(c *kingpin.CmdClause) *probeCommand {
	p := new(probeCommand)
	p.target = c.Arg("target", "URL or HOST:PORT, or name of an endpoint in --config.file.").Required().HintAction(p.endpointNames).String()
	p.request.addTo(c)
	p.baseline.addTo(c)
	c.Flag("count", "Number of probes. With --baseline the most of them, and all of its own if it is not given.").
		Short('n').Default("1").IsSetByUser(&p.counted).SetValue(cli.AtLeast(&p.count, 1))
	c.Flag("concurrency", "Number of probes at once, each with a connection of its own; without --count as many as this.").
		Short('c').Default("1").SetValue(cli.Between(&p.concurrency, 1, maxAtOnce))
	c.Flag("interval", "Pause between two probes.").Default("0s").SetValue(cli.AtLeast(&p.interval, 0))
	p.output = c.Flag("output", "Format of the output: text, json with one line for each probe, or with --baseline junit.").
		Short('o').Default("text").Enum("text", "json", "junit")
	return p
}

// request are the flags that say what to ask an endpoint, and how to connect to it.
type request struct {
	file               *string
	module, api, model *string
	timeout            time.Duration // 0 is the module's
	prompt             *string
	asks               bool // --prompt is given
	access             access
	engines            map[string]*config.Mapping // of the file, once an endpoint is found
}

func (c *request) addTo(clause *kingpin.CmdClause) {
	c.file = clause.Flag("config.file", "Configuration file with endpoints and modules.").String()
	c.module = clause.Flag("module", "Module to probe with.").Default(config.Interactive).HintAction(c.moduleNames).String()
	c.api = clause.Flag("api", "Wire protocol, instead of the endpoint's: "+strings.Join(api.Names(), ", ")+".").PlaceHolder("NAME").HintOptions(api.Names()...).String()
	c.model = clause.Flag("model", "Model to ask for, instead of the endpoint's.").String()
	c.prompt = clause.Flag("prompt", "Text to ask instead of the module's prompt. The answer is as long as the module allows, and shown where one endpoint is probed.").
		PlaceHolder("TEXT").IsSetByUser(&c.asks).String()
	c.access = newAccess(clause)
	clause.Flag("timeout", "Limit of one probe, instead of the module's.").SetValue(cli.Above(&c.timeout, 0))
}

func (c *probeCommand) run(ctx context.Context, env environment) (err error) {
	if *c.with != "" {
		defer func() { err = exit(err) }()
	}
	if !c.counted {
		c.count = max(c.count, c.concurrency)
	}
	if err := c.check(); err != nil {
		return usageError{err}
	}
	t, err := c.resolve(ctx, *c.target, env)
	if err != nil {
		return err
	}
	c.access.warn(env.Stderr)
	dialer := prober.NewDialer()
	defer dialer.Close()
	probers, err := t.NewProbers(dialer, min(c.concurrency, c.count))
	if err != nil {
		return usageError{err}
	}
	for _, p := range probers {
		defer p.Close()
	}
	if *c.with != "" {
		return c.gate(ctx, env, probers[0], t)
	}
	return c.probe(ctx, env, probers, t)
}

// check refuses flags that do not go together.
func (c *probeCommand) check() error {
	switch {
	case c.concurrency > 1 && (*c.with != "" || *c.save != ""):
		return errors.New("--concurrency: not with --baseline and --save-baseline, whose probes run one after the other")
	case *c.output == "junit" && *c.with == "":
		return errors.New("--output=junit: only with --baseline")
	}
	return c.baseline.check(c.count)
}

// resolve returns what target names, a URL or the name of an endpoint.
func (c *request) resolve(ctx context.Context, target string, env environment) (t fleet.Target, err error) {
	e, modules, err := c.find(ctx, target, env.Stderr)
	if err != nil {
		return t, err
	}
	t, err = fleet.NewTarget(e, modules, *c.module, *c.api, *c.model)
	if err != nil {
		return t, usageError{err}
	}
	if err := c.access.apply(t.Endpoint); err != nil {
		return t, usageError{err}
	}
	if why := t.Endpoint.MissingSecret; why != "" {
		return t, usageError{fmt.Errorf("a secret is missing (%s); set it, or give a key with --key-env or --key-file", why)}
	}
	if c.asks {
		if t.Module, err = t.Module.Asking(*c.prompt); err != nil {
			return t, usageError{fmt.Errorf("--prompt: %w", err)}
		}
	}
	if c.timeout > 0 {
		t.Module = withTimeout(t.Module, c.timeout)
	}
	return t, nil
}

// find returns the endpoint, and the modules to choose from. A URL may be missing in the file.
func (c *request) find(ctx context.Context, target string, stderr io.Writer) (*config.Endpoint, map[string]*config.Module, error) {
	cfg := config.None()
	if *c.file != "" {
		var err error
		if cfg, err = loadConfig(*c.file, config.SkipEndpoint); err != nil {
			return nil, nil, err
		}
	}
	c.engines = cfg.Engines
	if e := fleet.FindEndpoint(cfg.Endpoints, target); e != nil {
		return e, cfg.Modules, nil
	}
	if len(cfg.Discovery) == 0 { // else an address is the name of a discovered endpoint
		target = withScheme(ctx, target, stderr)
	}
	switch {
	case fleet.IsURL(target):
	case *c.file == "":
		return nil, nil, usageError{errors.New("the target is not a URL: give one like http://host:8000, HOST:PORT, or --config.file with an endpoint of that name")}
	default:
		return nil, nil, usageError{fmt.Errorf("no endpoint named %q in %s, and it is not a URL%s", target, *c.file, nameHint(cfg, target))}
	}
	e, err := fleet.EndpointAt(target)
	if err != nil {
		return nil, nil, usageError{fmt.Errorf("target: %w", err)}
	}
	return e, cfg.Modules, nil
}

// namesOf returns the names of the endpoints.
func namesOf(cfg *config.Config) []string {
	return stats.Map(cfg.Endpoints, func(e *config.Endpoint) string { return e.Name })
}

// nameHint returns what a target without an endpoint of its name may be.
func nameHint(cfg *config.Config, target string) string {
	hint := config.DidYouMean(target, namesOf(cfg))
	if len(cfg.Discovery) > 0 {
		hint += "; discovered endpoints have names in the running exporter alone: ask its page /probe, or give the URL"
	}
	return hint
}

// withTimeout returns the module with another limit, which no part exceeds.
func withTimeout(m *config.Module, limit time.Duration) *config.Module {
	own, d := *m, model.Duration(limit)
	own.Timeout = d
	own.Timeouts = config.Timeouts{
		Connect: min(m.Timeouts.Connect, d), Headers: min(m.Timeouts.Headers, d),
		FirstToken: min(m.Timeouts.FirstToken, d), Stall: min(m.Timeouts.Stall, d),
	}
	return &own
}

// probe probes, prints, and returns an error unless all succeeded.
func (c *probeCommand) probe(ctx context.Context, env environment, probers []*fleet.Prober, target fleet.Target) error {
	t := target.Report()
	o := probereport.Options{Color: wantsColor(env.Stdout), Answer: c.asks}
	if c.count > 1 {
		return c.repeat(ctx, env, probers, target, o)
	}
	progress := c.progress(env)
	all := probers[0].Run(ctx, 0)
	progress.end()
	results := all.All()
	err := printAs(*c.output,
		func() error { return probereport.Text(env.Stdout, t, results, all.Skip(), o) },
		func() error { return c.printJSON(env.Stdout, t, results) },
	)
	if err != nil {
		return err
	}
	if len(results) == 0 {
		return nothingAsked(all.Skip())
	}
	for _, r := range results {
		if r.Outcome != result.Success {
			return fmt.Errorf("the probe ended as %s", r.Outcome)
		}
	}
	return nil
}

func (c *probeCommand) printJSON(w io.Writer, t result.Target, results []*result.Result) error {
	for _, r := range results {
		if err := probereport.JSON(w, t, r); err != nil {
			return err
		}
	}
	return nil
}

// repeat runs until the count is reached or ctx ends, and shows the results so far. JSON is printed after each run.
func (c *probeCommand) repeat(ctx context.Context, env environment, probers []*fleet.Prober, target fleet.Target, o probereport.Options) error {
	t := target.Report()
	s := probereport.NewSummary()
	s.Price = t.Price
	tracker := target.Tracker(nil)
	progress := c.progress(env)
	defer progress.end()
	gone := make(chan struct{})
	defer close(gone)
	began, done := time.Now(), 0
	var runs []compare.Figures
	for rungs := range c.runs(ctx, gone, probers) {
		results := rungs.All()
		if slices.ContainsFunc(results, isCanceled) {
			continue // and so are those that follow
		}
		done++
		s.Add(results...)
		if len(results) > 0 {
			runs = append(runs, compare.NewFigures(results))
		}
		for _, rung := range rungs {
			s.Together = tracker.Observe(rung.Results)
			s.Skip(rung.Skip)
		}
		nothing := func() error { return nil }
		if err := printAs(*c.output, nothing, func() error { return c.printJSON(env.Stdout, t, results) }); err != nil {
			return err
		}
		progress.set(done, s.Failed())
	}
	progress.end()
	err := printAs(*c.output,
		func() error { return s.Text(env.Stdout, t, o) },
		func() error { return s.JSON(env.Stdout, t) },
	)
	if err != nil {
		return err
	}
	if *c.save != "" {
		if err := c.store(t, began, runs, c.count); err != nil {
			return err
		}
	}
	return c.verdict(s, done)
}

// runs returns what comes of the runs, as many at once as probers, until the count is reached, ctx ends, or nobody reads.
func (c *probeCommand) runs(ctx context.Context, gone <-chan struct{}, probers []*fleet.Prober) <-chan fleet.Results {
	all := make(chan fleet.Results)
	var begun atomic.Int64
	var workers sync.WaitGroup
	for _, p := range probers {
		workers.Go(func() {
			for first := true; (first || pause(ctx, c.interval)) && begun.Add(1) <= int64(c.count); first = false {
				select {
				case all <- p.Run(ctx, 0):
				case <-gone:
					return
				}
			}
		})
	}
	go func() {
		workers.Wait()
		close(all)
	}()
	return all
}

// progress returns the progress of the probes: none where it would be among their JSON.
func (c *probeCommand) progress(env environment) *progress {
	if *c.output == "json" && isTerminal(env.Stdout) {
		return nil
	}
	return newProgress(env.Stderr, "probing", c.count)
}

// nothingAsked is the error of probes of which each run was skipped, before or after it had asked something.
func nothingAsked(why *result.Skip) error {
	if len(why.Spent) > 0 {
		return fmt.Errorf("nothing was measured: %w", why)
	}
	return fmt.Errorf("nothing was asked: %w", why)
}

func isCanceled(r *result.Result) bool { return r.Outcome == result.Canceled }

// printAs prints a result in a format: json, or else text.
func printAs(format string, text, json func() error) error {
	write := text
	if format == "json" {
		write = json
	}
	if err := write(); err != nil {
		return fmt.Errorf("print a result: %w", err)
	}
	return nil
}

func (c *probeCommand) verdict(s *probereport.Summary, done int) error {
	asked, failed := s.Probes(), s.Failed()
	switch {
	case asked == 0 && s.Skipped != nil:
		return nothingAsked(s.Skipped)
	case failed > 0:
		return fmt.Errorf("%d of %d probes failed", failed, asked)
	case done < c.count:
		return fmt.Errorf("interrupted after %d of %d probes", done, c.count)
	}
	return nil
}

// pause waits, and reports whether ctx still runs.
func pause(ctx context.Context, d time.Duration) bool {
	if d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// wantsColor reports whether colours are shown and not turned off.
func wantsColor(w io.Writer) bool {
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

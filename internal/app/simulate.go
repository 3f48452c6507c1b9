package app

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/alecthomas/kingpin/v2"

	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
)

// simulateCommand runs one simulated inference server.
type simulateCommand struct {
	listen string
	o      simulator.Options
	faults *[]string
}

func newSimulateCommand(c *kingpin.CmdClause) *simulateCommand {
	s := &simulateCommand{}
	c.Flag("web.listen-address", "Address to listen on.").Default("127.0.0.1:8000").StringVar(&s.listen)
	c.Flag("listen-address", "The same, as it was called before.").Hidden().StringVar(&s.listen)
	c.Flag("model", "Name of the model.").Default("simulated-8b").StringVar(&s.o.Model)
	c.Flag("engine", "Server software to show to detection: "+strings.Join(simulator.Engines(), ", ")+".").
		Default(simulator.Engines()[0]).EnumVar(&s.o.Engine, simulator.Engines()...)
	c.Flag("replicas", "Engines behind the address.").Default("1").SetValue(cli.Whole(&s.o.Replicas))
	c.Flag("routing", "How a request finds its engine: "+strings.Join(simulator.Routings(), ", ")+".").
		Default(simulator.LeastLoaded).EnumVar(&s.o.Routing, simulator.Routings()...)
	c.Flag("sticky-header", "Header by which sticky routing keeps requests together.").Default("X-Session-Id").StringVar(&s.o.StickyHeader)
	c.Flag("slots", "Sequences that an engine batches at once.").Default("32").SetValue(cli.Whole(&s.o.Slots))
	c.Flag("queue-limit", "Waiting requests past which an engine answers 503; 0 is no limit.").SetValue(cli.Whole(&s.o.QueueLimit))
	c.Flag("prefill-rate", "Uncached prompt tokens per second of an engine.").Default("8000").Float64Var(&s.o.PrefillTokensPerSecond)
	c.Flag("fixed-delay", "Time before a request reaches an engine: network, tokenising.").DurationVar(&s.o.FixedDelay)
	c.Flag("prefill-noise", "Relative standard deviation of the time to the first token.").Float64Var(&s.o.PrefillNoise)
	c.Flag("decode-step", "Time of a decode step.").Default("20ms").DurationVar(&s.o.DecodeStep)
	c.Flag("decode-step-per-sequence", "Time that each further sequence adds to a step; negative is none.").Default("100us").DurationVar(&s.o.DecodeStepPerSequence)
	c.Flag("blocks", "Blocks of an engine's KV cache, of 16 tokens each.").Default("4096").SetValue(cli.Whole(&s.o.Blocks))
	c.Flag("context-length", "Longest prompt and answer together, in tokens.").Default("8192").SetValue(cli.Whole(&s.o.ContextLength))
	c.Flag("reasoning-tokens", "Reasoning tokens before an answer.").SetValue(cli.Whole(&s.o.ReasoningTokens))
	c.Flag("background", "Sequences that the server keeps running or queued by itself.").SetValue(cli.Whole(&s.o.Background))
	c.Flag("weights-version", "Name of the weights, which decides answers, fingerprint and log-probabilities.").StringVar(&s.o.WeightsVersion)
	c.Flag("quality", "Share of the built-in questions that are answered right. POST /simulator/weights?quality=0.5 changes it at run time.").
		Default("1").Float64Var(&s.o.Quality)
	c.Flag("greedy-flips", "Share of greedy answers that differ although nothing changed.").Float64Var(&s.o.GreedyFlips)
	c.Flag("logprob-shift", "What is added to each log-probability, in nats.").Float64Var(&s.o.LogprobShift)
	c.Flag("logprob-noise", "Standard deviation of what is added to all log-probabilities of a request, in nats.").Float64Var(&s.o.LogprobNoise)
	c.Flag("fault-ratio", "Share of the requests that show one of --fault.").Float64Var(&s.o.FaultRatio)
	c.Flag("seed", "Seed of ids, lengths and draws.").Uint64Var(&s.o.Seed)
	names := make([]string, 0, len(simulator.Faults()))
	for _, f := range simulator.Faults() {
		names = append(names, f.Name)
	}
	s.faults = c.Flag("fault", "Fault to show, repeatable: "+strings.Join(names, ", ")+". A path /fault/NAME/v1/... shows one for a single request.").
		PlaceHolder("NAME").Enums(names...)
	return s
}

func (c *simulateCommand) run(ctx context.Context, env environment) error {
	if err := c.check(); err != nil {
		return unusable{err}
	}
	o := c.o
	o.Faults, o.Logger = faultsNamed(*c.faults...), env.logger
	if o.Quality == 0 {
		o.Quality = -1 // which is how the options say none
	}
	l, err := listenTCP(c.listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Stdout, "simulated server %s: http://%s (truth: /simulator/state)\n", o.Model, l.Addr())
	if env.OnListen != nil {
		env.OnListen(l.Addr())
	}
	return simulator.New(o).Serve(ctx, l)
}

// check refuses numbers that make no server.
func (c *simulateCommand) check() error {
	for _, f := range []struct {
		flag  string
		value float64
	}{
		{"replicas", float64(c.o.Replicas)},
		{"slots", float64(c.o.Slots)},
		{"queue-limit", float64(c.o.QueueLimit)},
		{"prefill-rate", c.o.PrefillTokensPerSecond},
		{"fixed-delay", c.o.FixedDelay.Seconds()},
		{"prefill-noise", c.o.PrefillNoise},
		{"decode-step", c.o.DecodeStep.Seconds()},
		{"blocks", float64(c.o.Blocks)},
		{"context-length", float64(c.o.ContextLength)},
		{"reasoning-tokens", float64(c.o.ReasoningTokens)},
		{"background", float64(c.o.Background)},
		{"quality", c.o.Quality},
		{"greedy-flips", c.o.GreedyFlips},
		{"logprob-noise", c.o.LogprobNoise},
		{"fault-ratio", c.o.FaultRatio},
	} {
		if f.value < 0 || math.IsNaN(f.value) {
			return fmt.Errorf("--%s=%v is negative or no number", f.flag, f.value)
		}
	}
	for _, f := range []struct {
		flag  string
		value float64
	}{{"fault-ratio", c.o.FaultRatio}, {"quality", c.o.Quality}, {"greedy-flips", c.o.GreedyFlips}} {
		if f.value > 1 {
			return fmt.Errorf("--%s=%v is not from 0 to 1", f.flag, f.value)
		}
	}
	if math.IsNaN(c.o.LogprobShift) || math.IsInf(c.o.LogprobShift, 0) {
		return fmt.Errorf("--logprob-shift=%v is no number", c.o.LogprobShift)
	}
	return nil
}

// faultsNamed returns the faults of the given names; unknown ones are left
// out.
func faultsNamed(names ...string) []simulator.Fault {
	var out []simulator.Fault
	for _, name := range names {
		if f, ok := simulator.FaultNamed(name); ok {
			out = append(out, f)
		}
	}
	return out
}

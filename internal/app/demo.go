package app

import (
	"context"
	_ "embed" // of demo.yml
	"fmt"
	"net"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kingpin/v2"
	toolkit "github.com/prometheus/exporter-toolkit/web"

	"github.com/inference-exporter/inference_exporter/alerts"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/web"
)

// demoFile is the configuration of the demo, with the name of a simulated server in braces for its URL.
//
//go:embed demo.yml
var demoFile string

type demoCommand struct {
	address string
	given   bool // --web.listen-address is
}

func newDemoCommand(c *kingpin.CmdClause) *demoCommand {
	d := &demoCommand{}
	c.Flag("web.listen-address", "Address to listen on. Where the default is taken, a free port is used.").
		Default("127.0.0.1" + listenAddress).IsSetByUser(&d.given).StringVar(&d.address)
	return d
}

func (c *demoCommand) run(ctx context.Context, env environment) error {
	surviveBrokenPipes()
	servers := demoServers()
	var urls []string
	for _, s := range servers {
		r, err := simulator.NewReplica(s.options, net.Listen)
		if err != nil {
			return err
		}
		defer r.Drop()
		urls = append(urls, r.URL())
	}
	cfg, err := demoConfig(demoFile, urls)
	if err != nil {
		return err
	}
	onListen := env.OnListen
	env.OnListen = func(a net.Addr) {
		printDemo(env, servers, urls, a)
		onListen(a)
	}
	d, err := newDaemon(cfg, env, daemonOptions{
		collectors: collectors{probe: true, server: true, gpu: true, simulated: true}, shard: shard{count: 1},
		metricsPath: "/metrics", links: web.Links{Runbooks: alerts.DefaultRunbookURL}, load: func() (*config.Config, error) { return cfg, nil },
	})
	if err != nil {
		return err
	}
	return d.run(ctx, c.listen, &toolkit.FlagConfig{WebConfigFile: new("")})
}

// listen opens the given address, else the usual one, else a free port.
func (c *demoCommand) listen() ([]net.Listener, error) {
	l, err := listenTCP(c.address)
	if err != nil && !c.given {
		l, err = listenTCP("127.0.0.1:0")
	}
	if err != nil {
		return nil, err
	}
	return []net.Listener{l}, nil
}

func demoConfig(text string, urls []string) (*config.Config, error) {
	for i, s := range demoServers() {
		text = strings.ReplaceAll(text, "{"+s.name+"}", urls[i])
	}
	return config.Parse([]byte(text), "demo")
}

func printDemo(env environment, servers []demoServer, urls []string, a net.Addr) {
	fmt.Fprintln(env.Stdout, "Probing six simulated servers every 5 s, one of them in bursts. Ctrl-C ends it.")
	fmt.Fprintln(env.Stdout)
	w := tabwriter.NewWriter(env.Stdout, 0, 4, 2, ' ', 0)
	for i, s := range servers {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", s.name, urls[i], s.what)
	}
	fmt.Fprintf(w, "  GPUs\t\ttwo simulated ones, marked by inference_gpu_simulated\n")
	_ = w.Flush()
	fmt.Fprintf(env.Stdout, "\nThe status page, for a browser: http://%s/\n", a)
	fmt.Fprintf(env.Stdout, "Metrics: http://%s/metrics, as in\n  curl -s http://%s/metrics | grep -E 'probe_(last_ttft|last_tpot|prefix_cache|burst_knee)|checks_total|server_requests_(run|wait)|kv_cache_usage|gpu_dram'\n\n", a, a)
}

type demoServer struct {
	name, what string
	options    simulator.Options
}

func demoServers() []demoServer {
	return []demoServer{
		{"healthy", "answers at once, and is asked everything that does not disturb it", simulator.Options{
			Model: "simulated-8b", Seed: 1, PrefillNoise: 0.05, Quality: 0.9, LogprobNoise: 0.002, WeightsVersion: "v1",
		}},
		{"saturated", "always has more requests than slots", simulator.Options{
			Model: "simulated-70b", Seed: 2, Slots: 8, Background: 10, BackgroundOutput: 64, Blocks: 1024,
			PrefillTokensPerSecond: 3000, DecodeStep: 45 * time.Millisecond, DecodeStepPerSequence: time.Millisecond,
		}},
		{"failing", "fails half of the requests, in several ways", simulator.Options{
			Model: "simulated-8b", Seed: 3, FaultRatio: 0.5,
			Faults: faultsNamed("status_503", "stall_midstream", "error_event_midstream", "cut_before_finish", "empty_stream"),
		}},
		{"crowded", "is asked in bursts, which would disturb other probes", simulator.Options{
			Model: "simulated-8b", Seed: 4, PrefillNoise: 0.05,
		}},
		{"altered", "always answers at once with status 200, and many of its answers are not right or pause", simulator.Options{
			Model: "simulated-8b", Seed: 5, PrefillNoise: 0.05, Quality: 0.3, GreedyFlips: 0.2, WeightsVersion: "v2", LogprobNoise: 0.01, QuantizeAfter: 3 * time.Minute,
			Replicas: 4, Routing: simulator.Sticky, Background: 1,
			TokensPerEvent: 1.6, BadCalls: 0.3, FaultRatio: 0.3, Faults: faultsNamed("pause_midstream", "foreign_script", "special_token"),
		}},
		{"embedder", "embeds texts, and after three minutes by other weights", simulator.Options{
			Model: "simulated-embed", Seed: 6, PrefillNoise: 0.05, WeightsVersion: "v1", QuantizeAfter: 3 * time.Minute,
		}},
	}
}

type simulateCommand struct {
	listen string
	o      simulator.Options
	faults *[]string
	front  bool // a gateway in front of the replicas
	gate   simulator.GatewayOptions
}

func newSimulateCommand(c *kingpin.CmdClause) *simulateCommand {
	s := &simulateCommand{}
	c.Flag("web.listen-address", "Address to listen on.").Default("127.0.0.1:8000").StringVar(&s.listen)
	c.Flag("model", "Name of the model.").Default("simulated-8b").StringVar(&s.o.Model)
	c.Flag("engine", "Server software to show to detection: "+strings.Join(simulator.Engines(), ", ")+".").
		Default(simulator.Engines()[0]).EnumVar(&s.o.Engine, simulator.Engines()...)
	c.Flag("replicas", "Engines behind the address.").Default("1").SetValue(cli.AtLeast(&s.o.Replicas, 0))
	c.Flag("routing", "How a request finds its engine: "+strings.Join(simulator.Routings(), ", ")+".").
		Default(simulator.LeastLoaded).EnumVar(&s.o.Routing, simulator.Routings()...)
	c.Flag("sticky-header", "Header by which sticky routing keeps requests together.").Default("X-Session-Id").StringVar(&s.o.StickyHeader)
	c.Flag("gateway", "Serve each replica on a port of its own, behind a gateway at --web.listen-address that has the metrics page of an endpoint picker. --routing is random or prefix-aware. POST /simulator/replicas/0?up=false drops the first replica, up=true starts it again.").BoolVar(&s.front)
	c.Flag("gateway-limit", "Requests that the gateway has at the replicas at once; others wait in its queue. 0 is no limit.").SetValue(cli.AtLeast(&s.gate.Limit, 0))
	c.Flag("gateway-delay", "Round trip between client and gateway.").SetValue(cli.AtLeast(&s.gate.NetworkDelay, 0))
	c.Flag("slots", "Sequences that an engine batches at once.").Default("32").SetValue(cli.AtLeast(&s.o.Slots, 0))
	c.Flag("queue-limit", "Waiting requests past which an engine answers 503; 0 is no limit.").SetValue(cli.AtLeast(&s.o.QueueLimit, 0))
	c.Flag("prefill-rate", "Uncached prompt tokens per second of an engine.").Default("8000").SetValue(cli.Between(&s.o.PrefillTokensPerSecond, 0, 1e9))
	c.Flag("fixed-delay", "Time before a request reaches an engine: network, tokenising.").SetValue(cli.AtLeast(&s.o.FixedDelay, 0))
	c.Flag("prefill-noise", "Relative standard deviation of the time to the first token.").SetValue(cli.Between(&s.o.PrefillNoise, 0, 1e9))
	c.Flag("decode-step", "Time of a decode step.").Default("20ms").SetValue(cli.AtLeast(&s.o.DecodeStep, 0))
	c.Flag("decode-step-per-sequence", "Time that each further sequence adds to a step; negative is none.").Default("100us").SetValue(cli.AtLeast(&s.o.DecodeStepPerSequence, -time.Hour))
	c.Flag("tokens-per-event", "Mean number of tokens in an event of a stream, as with speculative decoding: 1 to 5.").Default("1").SetValue(cli.Between(&s.o.TokensPerEvent, 0, 1e9))
	c.Flag("blocks", "Blocks of an engine's KV cache, of 16 tokens each.").Default("4096").SetValue(cli.AtLeast(&s.o.Blocks, 0))
	c.Flag("context-length", "Longest prompt and answer together, in tokens.").Default("8192").SetValue(cli.AtLeast(&s.o.ContextLength, 0))
	c.Flag("reasoning-tokens", "Reasoning tokens before an answer.").SetValue(cli.AtLeast(&s.o.ReasoningTokens, 0))
	c.Flag("background", "Sequences that the server keeps running or queued by itself.").SetValue(cli.AtLeast(&s.o.Background, 0))
	c.Flag("weights-version", "Name of the weights, which decides answers, fingerprint, log-probabilities, and a part of embeddings and scores.").StringVar(&s.o.WeightsVersion)
	c.Flag("quality", "Share of the built-in questions that are answered right. POST /simulator/weights?quality=0.5 changes it at run time.").
		Default("1").SetValue(cli.Between(&s.o.Quality, 0, 1))
	c.Flag("bad-calls", "Share of tool calls and of answers in JSON that are not valid.").SetValue(cli.Between(&s.o.BadCalls, 0, 1))
	c.Flag("greedy-flips", "Share of greedy answers that differ although nothing changed.").SetValue(cli.Between(&s.o.GreedyFlips, 0, 1))
	c.Flag("logprob-shift", "What is added to each log-probability, in nats.").SetValue(cli.Between(&s.o.LogprobShift, -1e9, 1e9))
	c.Flag("quantize-after", "Time after which first tokens, embeddings and scores are those of quantized weights; 0 is never.").
		SetValue(cli.AtLeast(&s.o.QuantizeAfter, 0))
	c.Flag("logprob-noise", "Standard deviation of what is added to all log-probabilities of a request, in nats.").SetValue(cli.Between(&s.o.LogprobNoise, 0, 1e9))
	c.Flag("fault-ratio", "Share of the requests that show one of --fault.").SetValue(cli.Between(&s.o.FaultRatio, 0, 1))
	c.Flag("seed", "Seed of ids, lengths and draws.").SetValue(cli.AtLeast(&s.o.Seed, 0))
	names := stats.Map(simulator.Faults(), func(f simulator.Fault) string { return f.Name })
	s.faults = c.Flag("fault", "Fault to show, repeatable: "+strings.Join(names, ", ")+". A path /fault/NAME/v1/... shows one for a single request.").
		PlaceHolder("NAME").HintOptions(names...).Enums(names...)
	return s
}

func (c *simulateCommand) run(ctx context.Context, env environment) error {
	if r := c.o.Routing; c.front && (c.o.Replicas == 0 || r != simulator.LeastLoaded && r != simulator.Random && r != simulator.PrefixAware) {
		return usageError{fmt.Errorf("--gateway with --replicas=%d --routing=%s: want a replica, and random or prefix-aware routing", c.o.Replicas, r)}
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
	if c.front {
		return c.serveGateway(ctx, env, o, l)
	}
	fmt.Fprintf(env.Stdout, "simulated server %s: http://%s (truth: /simulator/state)\n", o.Model, l.Addr())
	env.OnListen(l.Addr())
	return simulator.New(o).Serve(ctx, l)
}

// serveGateway serves a gateway on l until ctx ends, and its replicas on free ports.
func (c *simulateCommand) serveGateway(ctx context.Context, env environment, o simulator.Options, l net.Listener) error {
	g := c.gate
	g.Seed, g.Logger = o.Seed, env.logger
	if o.Routing == simulator.PrefixAware {
		g.Routing = o.Routing
	}
	var replicas []*simulator.Replica
	count := o.Replicas
	o.Replicas, o.Routing = 1, ""
	for i := range count {
		o.Seed = c.o.Seed + uint64(i)
		r, err := simulator.NewReplica(o, net.Listen)
		if err != nil {
			_ = l.Close()
			return err
		}
		defer r.Drop()
		replicas = append(replicas, r)
	}
	fmt.Fprintf(env.Stdout, "simulated gateway of %s: http://%s (its page: /metrics)\n", o.Model, l.Addr())
	for i, r := range replicas {
		fmt.Fprintf(env.Stdout, "replica %d: %s (its page: /metrics)\n", i, r.URL())
	}
	env.OnListen(l.Addr())
	return simulator.NewGateway(g, replicas).Serve(ctx, l)
}

// faultsNamed returns the faults of the given names; unknown ones are left out.
func faultsNamed(names ...string) []simulator.Fault {
	var out []simulator.Fault
	for _, name := range names {
		if f, ok := simulator.FaultNamed(name); ok {
			out = append(out, f)
		}
	}
	return out
}

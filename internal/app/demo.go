package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/alecthomas/kingpin/v2"
	toolkit "github.com/prometheus/exporter-toolkit/web"

	"github.com/inference-exporter/inference_exporter/config"
)

// demoModules probes often and gives up early, so that there is something to
// see within seconds.
const demoModules = `
global: {interval: 5s, timeout: 10s}
modules:
  interactive: {timeouts: {stall: 2s}}
  warm: {input_tokens: 512, output_tokens: 16, prefix: warm, timeouts: {stall: 2s}}
endpoints:
`

// demoCommand runs the daemon against simulated servers.
type demoCommand struct {
	port *int
}

func newDemoCommand(c *kingpin.CmdClause) *demoCommand {
	return &demoCommand{
		port: c.Flag("port", "Port of the daemon on this machine; 0 is 10115 or, where that is taken, a free one.").Int(),
	}
}

func (c *demoCommand) run(ctx context.Context, env environment) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	servers := demoServers()
	stopped := make(chan error, len(servers))
	urls := make([]string, len(servers))
	for i, s := range servers {
		var err error
		if urls[i], err = startSimulator(ctx, s.options, stopped); err != nil {
			return err
		}
	}
	cfg, err := demoConfig(servers, urls)
	if err != nil {
		return err
	}
	d, err := newDaemon(cfg, env, "/metrics")
	if err != nil {
		return err
	}
	address, err := c.address()
	if err != nil {
		return err
	}
	onListen := env.OnListen
	d.env.OnListen = func(a net.Addr) {
		printDemo(env, servers, urls, a)
		if onListen != nil {
			onListen(a)
		}
	}
	none := ""
	err = d.run(ctx, &toolkit.FlagConfig{WebListenAddresses: &[]string{address}, WebConfigFile: &none})
	cancel()
	for range servers {
		err = errors.Join(err, <-stopped)
	}
	return err
}

// address returns where to listen: the given port, else the usual one, else a
// free one.
func (c *demoCommand) address() (string, error) {
	if *c.port != 0 {
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(*c.port)), nil
	}
	usual := "127.0.0.1" + listenAddress
	l, err := net.Listen("tcp", usual)
	if err != nil {
		return "127.0.0.1:0", nil
	}
	return usual, l.Close()
}

// demoConfig is a configuration as a user would write it.
func demoConfig(servers []demoServer, urls []string) (*config.Config, error) {
	var b strings.Builder
	b.WriteString(demoModules)
	for i, s := range servers {
		fmt.Fprintf(&b, "  - {name: %s, url: %q, modules: [interactive, warm]}\n", s.name, urls[i])
	}
	return config.Parse([]byte(b.String()), "demo")
}

func printDemo(env environment, servers []demoServer, urls []string, a net.Addr) {
	fmt.Fprintln(env.Stdout, "Probing three simulated servers every 5 s. Ctrl-C ends it.")
	fmt.Fprintln(env.Stdout)
	w := tabwriter.NewWriter(env.Stdout, 0, 4, 2, ' ', 0)
	for i, s := range servers {
		fmt.Fprintf(w, "  %s\t%s\t%s\n", s.name, urls[i], s.what)
	}
	_ = w.Flush()
	fmt.Fprintf(env.Stdout, "\nMetrics: http://%s/metrics\n", a)
	fmt.Fprintf(env.Stdout, "Look at, after some seconds:\n  curl -s http://%s/metrics | grep -E 'probe_(last_ttft|last_tpot|results|output_tokens)'\n\n", a)
}

// Package app is the program: flags, commands and the wiring of the parts.
package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/version"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	probereport "github.com/inference-exporter/inference_exporter/internal/report"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// Options are what a caller, such as a test, sets.
type Options struct {
	// Stdout and Stderr take the output of commands and the log.
	Stdout, Stderr io.Writer
	// OnListen is called with the address that the daemon listens on, and OnLogger with the log
	// of the program before anything is logged; nil is not called.
	OnListen func(net.Addr)
	OnLogger func(*slog.Logger)
	// OwnProcess is true where nothing else runs in the process, so that a daemon may set how Go's runtime works in it and
	// where the packages of others log.
	OwnProcess bool
}

type command func(ctx context.Context, env environment) error

type environment struct {
	Options
	logger    *slog.Logger
	lostLines func() uint64 // of the log
	secrets   *safetext.Configured
}

// Run runs the program with the given arguments until it is done or ctx ends, and returns the exit code: 0, 1 for a
// failure while running, 2 for flags or a configuration that cannot be used, or what is not decided, and 3 for a load
// test that ended early.
func Run(ctx context.Context, args []string, o Options) int {
	line := newCommandLine(o)
	cmd, err := line.parse(args)
	if line.done {
		return cli.ExitOK
	}
	if err == nil {
		log, secrets := newLogQueue(o.Stderr), new(safetext.Configured)
		var level slog.Level
		_ = level.UnmarshalText([]byte(*line.logLevel)) // one of the enum
		logger := newLogger(log, *line.logFormat, level, secrets.Secrets())
		if o.OnLogger != nil {
			o.OnLogger(logger)
		}
		if o.OnListen == nil {
			o.OnListen = func(net.Addr) {}
		}
		err = cmd(ctx, environment{Options: o, logger: logger, lostLines: log.lost.Load, secrets: secrets})
		log.close()
	}
	return report(o.Stderr, err)
}

// report prints err, one line for each problem, and returns the exit code.
func report(w io.Writer, err error) int {
	if err == nil {
		return cli.ExitOK
	}
	problems := configProblems(err)
	for _, p := range problems {
		printLine(w, oneLine(p))
	}
	if len(problems) > 0 {
		return cli.ExitUsage
	}
	printLine(w, "inference_exporter: "+oneLine(err))
	if _, ok := errors.AsType[usageError](err); ok {
		return cli.ExitUsage
	}
	if _, ok := errors.AsType[endedEarly](err); ok {
		return cli.ExitEarly
	}
	return cli.ExitFailure
}

// printLine writes a line: on a terminal folded between words, so that no word is broken.
func printLine(w io.Writer, text string) {
	if isTerminal(w) {
		text = strings.Join(probereport.Fold(text, probereport.Width-2), "\n  ")
	}
	fmt.Fprintln(w, text)
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// usageError marks an error of what the program was given: flags, or a file that they name. It adds nothing to the text.
// One of a comparison that is not decided is marked by it too, as the exit code is the same.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// loadConfig reads a configuration file as config.Load does, with all checks.
func loadConfig(name string, missing config.MissingSecrets) (*config.Config, error) {
	cfg, err := config.Load(name, missing, fleet.Checks()...)
	if err != nil {
		return nil, usageError{err}
	}
	return cfg, nil
}

// configProblems returns every problem of a configuration that err holds, each a *config.Error.
func configProblems(err error) (all []error) {
	switch e := err.(type) {
	case *config.Error:
		return []error{e}
	case interface{ Unwrap() []error }:
		for _, sub := range e.Unwrap() {
			all = append(all, configProblems(sub)...)
		}
	case interface{ Unwrap() error }:
		return configProblems(e.Unwrap())
	}
	return all
}

type commandLine struct {
	app       *kingpin.Application
	commands  map[string]command
	logLevel  *string
	logFormat *string
	done      bool // --help or --version has answered
}

func newCommandLine(o Options) *commandLine {
	c := &commandLine{app: kingpin.New("inference_exporter", "Prometheus exporter and synthetic prober for inference endpoints.")}
	c.app.UsageWriter(o.Stdout)
	c.app.ErrorWriter(o.Stderr)
	c.app.Terminate(func(int) { c.done = true })
	c.app.HelpFlag.Short('h').Help("Show help. For one command: help COMMAND.")
	c.app.Version(version.Print("inference_exporter"))
	c.logLevel = c.app.Flag("log.level", "Least severe level to log: debug, info, warn or error.").
		Default("info").Enum("debug", "info", "warn", "error")
	c.logFormat = c.app.Flag("log.format", "Format of the log: logfmt or json.").
		Default("logfmt").Enum("logfmt", "json")
	c.commands = map[string]command{
		"serve":      newServeCommand(c.app.Command("serve", "Probe the endpoints and serve metrics (the default).").Default()).run,
		"check":      newCheckCommand(c.app.Command("check", "Check a configuration file and print every problem with its place.")).run,
		"demo":       newDemoCommand(c.app.Command("demo", "Run the daemon against six simulated servers.")).run,
		"compare":    newCompareCommand(c.app.Command("compare", "Probe two endpoints in turns until it is clear whether the second is worse.")).run,
		"probe":      newProbeCommand(c.app.Command("probe", "Probe one endpoint now and show what happened.")).run,
		"load":       newLoadCommand(c.app.Command("load", "Put the load of many users on one endpoint and show how it serves them.")).run,
		"detect":     newDetectCommand(c.app.Command("detect", "Find out what answers at a URL, and print the configuration for it.")).run,
		"explain":    newExplainCommand(c.app.Command("explain", "Say why an endpoint is as it is: the likeliest cause, its evidence, and what to do.")).run,
		"incident":   newIncidentCommand(c.app.Command("incident", "Print what was recorded around an incident, as one page for a ticket.")).run,
		"modules":    newModulesCommand(c.app.Command("modules", "List the modules: what they ask, how often, and what for.")),
		"rules":      newRulesCommand(c.app.Command("rules", "Print recording and alert rules for Prometheus.")).run,
		"simulate":   newSimulateCommand(c.app.Command("simulate", "Run one simulated inference server.")).run,
		"completion": printing(cli.Completion(c.app.Command("completion", "Print the completion script of a shell."))),
		"man":        printing(cli.Man(c.app)),
		"schema":     printing(printSchema),
	}
	c.app.Command("schema", "Print the JSON schema of the configuration, by which editors complete and check it.")
	c.app.Command("man", "Print the manual page.")
	cli.SetHelp(c.app)
	return c
}

func printSchema(w io.Writer) error {
	_, err := io.WriteString(w, config.Schema)
	return err
}

func printing(print func(io.Writer) error) command {
	return func(_ context.Context, env environment) error { return print(env.Stdout) }
}

// parse returns the command to run; nil where help or version was all.
func (c *commandLine) parse(args []string) (command, error) {
	args, completes := cli.ToComplete(c.app, args)
	if !completes {
		if err := cli.UnknownError(c.app, args); err != nil {
			return nil, usageError{err}
		}
	}
	name, err := c.app.Parse(args)
	if err != nil && !c.done {
		return nil, usageError{fmt.Errorf("%w, try %s", cmp.Or(cli.ValueError(c.app, args), err), cli.TryHelp(c.app, args))}
	}
	return c.commands[name], nil
}

const (
	// exitTimeout is how long after the signal to stop the process ends, whatever
	// still hangs then. With exitMargin it is less than the 5 s of the documentation.
	exitTimeout = 4500 * time.Millisecond
	// exitMargin is how long the last words may take.
	exitMargin = 200 * time.Millisecond
)

// Main runs the program with the arguments of the process until it is done, or the process is asked to stop, and
// returns the exit code as Run does. What does not end in time ends with the process, and its exit code is 1.
func Main(o Options) int {
	StampVersion()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(exitTimeout, func() { exitNow(o.Stderr) }) })()
	// Libraries write to the default logs, net/http what a server sends on an idle
	// connection and frames that it does not know. A server can send many.
	slog.SetLogLoggerLevel(slog.LevelDebug)
	o.OnLogger = slog.SetDefault
	return Run(ctx, os.Args[1:], o)
}

// exitNow ends the process. Its last line may be lost, as what hangs may be the log.
func exitNow(w io.Writer) {
	said := make(chan struct{})
	go func() {
		defer close(said)
		fmt.Fprintln(w, "inference_exporter: it was asked to stop, and something still hangs: the process ends")
	}()
	select {
	case <-said:
	case <-time.After(exitMargin):
	}
	os.Exit(cli.ExitFailure)
}

// surviveBrokenPipes makes a write to standard output or error whose reader is gone an error, from now to the end of
// the process: without it the runtime ends the process at that write.
func surviveBrokenPipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// unknownVersion is the version of a program without one, as in the Makefile.
const unknownVersion = "unknown"

// StampVersion fills the build information that the linker did not set from what the go command left in the binary, so
// that a program made by `go install module@version` or `go build` reports its version too. To be called once, before
// Run: the log, the metric, --version and the user agent all read the variables of prometheus/common/version, which has
// no other way to set them.
func StampVersion() {
	info, _ := debug.ReadBuildInfo()
	version.Version = cmp.Or(version.Version, moduleVersion(info))
	version.Branch = cmp.Or(version.Branch, unknownVersion)
}

// moduleVersion is the version of the main module without its leading v, as
// releases write it. The revision needs no help: version.GetRevision looks for it.
func moduleVersion(info *debug.BuildInfo) string {
	if info == nil || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return unknownVersion
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}

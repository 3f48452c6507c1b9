package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/prometheus/common/version"
)

const (
	// exitTimeout is how long after the signal to stop the process ends, whatever
	// still hangs then. With exitMargin it is less than the 5 s of the documentation.
	exitTimeout = 4500 * time.Millisecond
	// exitMargin is how long the last words may take.
	exitMargin = 200 * time.Millisecond
)

// Main runs the program with the arguments of the process until it is done, or
// the process is asked to stop, and returns the exit code as Run does. What does
// not end in time ends with the process, and its exit code is 1.
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

// exitNow ends the process. Its last line may be lost, as what hangs may be the
// log.
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

// surviveBrokenPipes makes a write to standard output or error whose reader is
// gone an error, from now to the end of the process: without it the runtime ends
// the process at that write.
func surviveBrokenPipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// unknownVersion is the version of a program without one, as in the Makefile.
const unknownVersion = "unknown"

// StampVersion fills the build information that the linker did not set from
// what the go command left in the binary, so that a program made by `go
// install module@version` or `go build` reports its version too. To be called
// once, before Run: the log, the metric, --version and the user agent all read
// the variables of prometheus/common/version, which has no other way to set them.
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

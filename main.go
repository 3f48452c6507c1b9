// Command inference_exporter probes inference endpoints and exports what it
// finds to Prometheus.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/inference-exporter/inference_exporter/internal/app"
)

func main() {
	app.StampVersion()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := app.Run(ctx, os.Args[1:], app.Options{Stdout: os.Stdout, Stderr: os.Stderr})
	stop()
	os.Exit(code)
}

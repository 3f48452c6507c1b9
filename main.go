// Command inference_exporter probes inference endpoints and exports what it finds to Prometheus.
package main

import (
	"os"
	"runtime"
	"runtime/debug"

	"github.com/inference-exporter/inference_exporter/internal/app"
)

func main() {
	runtime.MemProfileRate = 0 // nothing reads a profile of the heap, whose samples take memory
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(25) // until the number of endpoints is known
	}
	os.Exit(app.Main(app.Options{Stdout: os.Stdout, Stderr: os.Stderr, OwnProcess: true}))
}

// Command inference_exporter probes inference endpoints and exports what it
// finds to Prometheus.
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
		// The memory in use changes little: collecting garbage more often costs less
		// than the memory that it would otherwise take.
		debug.SetGCPercent(25)
	}
	os.Exit(app.Main(app.Options{Stdout: os.Stdout, Stderr: os.Stderr}))
}

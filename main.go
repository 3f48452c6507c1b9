// Command inference_exporter probes inference endpoints and exports what it
// finds to Prometheus.
package main

import (
	"os"

	"github.com/inference-exporter/inference_exporter/internal/app"
)

func main() {
	os.Exit(app.Main(app.Options{Stdout: os.Stdout, Stderr: os.Stderr}))
}

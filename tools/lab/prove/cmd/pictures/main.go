// Command pictures draws panels of the dashboards, by their own queries, from a
// Prometheus that scraped the exporter for some minutes. Grafana does not take
// part.
//
//	go run ./cmd/pictures -prometheus ../../../.tools/prometheus
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/inference-exporter/inference_exporter/tools/lab/prove/board"
	"github.com/inference-exporter/inference_exporter/tools/lab/prove/stand"
)

// shown is how much of the time a picture shows at most; step is the time
// between two points, and rate what a rate is taken over.
const (
	shown = 4 * time.Minute
	step  = 2 * time.Second
	rate  = 30 * time.Second
)

// picture says which panels of a board to draw.
type picture struct {
	board  string // file name without its ending
	values map[string]string
	panels []string // titles
}

// pictures lists what is drawn. All that is not of the main endpoint is of all.
func pictures() []picture {
	fleet := map[string]string{"job": ".*", "model": ".*", "endpoint": ".*"}
	main := map[string]string{"job": ".*", "model": ".*", "endpoint": stand.Main}
	return []picture{
		{"fleet", fleet, []string{
			"State over time", "Endpoints that miss an objective",
		}},
		{"endpoint", main, []string{
			"State over time", "TTFT of the probes",
			"TTFT outside and inside", "Phases of a probe",
			"TPOT", "Output speed",
			"Failures by outcome", "What is proven of the p99 of TTFT",
		}},
	}
}

func main() {
	prometheus := flag.String("prometheus", "../../../.tools/prometheus", "binary of Prometheus")
	boards := flag.String("boards", "../../../dashboards", "directory of the dashboards")
	rules := flag.String("rules", "../../../alerts/*.yml", "files of rules")
	out := flag.String("out", "../../../docs/images", "directory of the pictures")
	wait := flag.Duration("for", 4*time.Minute, "how long to scrape first")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *prometheus, *boards, *rules, *out, *wait); err != nil {
		fmt.Fprintf(os.Stderr, "pictures: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, program, boards, rules, out string, wait time.Duration) (err error) {
	s, err := stand.Start(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	files, err := filepath.Glob(rules)
	if err != nil {
		return err
	}
	p, err := stand.StartPrometheus(ctx, stand.PrometheusOptions{Program: program, Native: true, Targets: s.Targets(), Rules: files})
	if err != nil {
		return err
	}
	defer p.Close()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(wait):
	}
	return drawAll(ctx, p.Client, boards, out, min(wait, shown))
}

// drawAll draws every picture into a directory.
func drawAll(ctx context.Context, c stand.Client, boards, out string, length time.Duration) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, p := range pictures() {
		b, err := board.Read(filepath.Join(boards, p.board+".json"))
		if err != nil {
			return err
		}
		panels, err := ask(ctx, c, b, p, length)
		if err != nil {
			return fmt.Errorf("picture of %s: %w", p.board, err)
		}
		file := filepath.Join(out, p.board+".png")
		if err := drawPanels(file, b.Title, panels); err != nil {
			return fmt.Errorf("draw %s: %w", file, err)
		}
		fmt.Println(file)
	}
	return nil
}

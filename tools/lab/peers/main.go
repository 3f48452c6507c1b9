// Command peers runs other tools and this exporter on the same streams of a
// simulated server, and compares what they measured with the truth.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/inference-exporter/inference_exporter/tools/lab/process"
)

func main() {
	serveOf := flag.String("serve", "", "run only the simulated server of a scenario, and print its address")
	only := flag.String("tools", "", "run only these tools, separated by commas, and keep what is known of the others")
	quick := flag.Bool("quick", false, "few requests: tries that every tool works, and writes no evidence")
	table := flag.Bool("table", false, "write only the tables of the document, from the evidence")
	loads := flag.String("load", "", "run the load tools against these real servers instead, separated by commas")
	rounds := flag.Int("rounds", 3, "how often each load tool runs, in turn with the others")
	at := flag.String("at", "", "URL of that real server, where it runs already")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	peers := func() error { return run(ctx, *serveOf, *only, *quick, *table) }
	if *loads != "" {
		peers = func() error { return load(ctx, *loads, *only, *at, *rounds) }
	}
	if err := peers(); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, serveOf, only string, quick, table bool) error {
	if serveOf != "" {
		for _, s := range scenarios() {
			if s.Name == serveOf {
				return serve(ctx, s)
			}
		}
		return fmt.Errorf("no scenario %q", serveOf)
	}
	var e evidence
	if err := readJSON(evidenceFile, &e); err != nil {
		return err
	}
	if !table {
		l, err := newLab(ctx)
		if err == nil {
			err = l.buildDaemons(ctx)
		}
		if err != nil {
			return err
		}
		for _, t := range toolList() {
			if only != "" && !slices.Contains(strings.Split(only, ","), t.name) {
				continue
			}
			e.put(l.measure(ctx, t, quick))
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if !quick {
				e.Date, e.Machine = time.Now().UTC().Format(time.DateOnly), fmt.Sprintf("%s/%s, %d processors", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
				if err := writeJSON(evidenceFile, e); err != nil {
					return err
				}
			}
		}
		if quick {
			return nil
		}
	}
	var loads loadEvidence
	if err := readJSON(loadFile, &loads); err != nil {
		return err
	}
	return writeTables(document, e, loads)
}

// lab is where the tools are installed and run: a folder that git ignores.
type lab struct{ root, work, exporter, blackbox, cloudprober string }

// newLab builds the exporter.
func newLab(ctx context.Context) (*lab, error) {
	here, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	l := &lab{root: filepath.Join(here, "..", "..", "..")}
	l.work = filepath.Join(l.root, ".tools", "peers")
	l.exporter, l.blackbox = filepath.Join(l.work, "inference_exporter"), filepath.Join(l.work, "blackbox_exporter")
	l.cloudprober = filepath.Join(l.work, "cloudprober")
	if err := writeTokenizer(l.cache()); err != nil {
		return nil, err
	}
	return l, l.command(ctx, l.root, "go", "build", "-o", l.exporter, ".")
}

// buildDaemons builds blackbox_exporter and Cloudprober.
func (l *lab) buildDaemons(ctx context.Context) error {
	directory := filepath.Join(l.root, "tools", "lab", "peers")
	if err := l.command(ctx, filepath.Join(directory, "blackbox"), "go", "build", "-o", l.blackbox, "github.com/prometheus/blackbox_exporter"); err != nil {
		return err
	}
	return l.command(ctx, filepath.Join(directory, "cloudprober"), "go", "build", "-o", l.cloudprober, "github.com/cloudprober/cloudprober/cmd/cloudprober")
}

// cache is where tools find the tokenizer.
func (l *lab) cache() string { return filepath.Join(l.work, "cache") }

// env keeps the tools from the network.
func (l *lab) env() []string {
	return []string{"HF_HUB_OFFLINE=1", "HF_HOME=" + l.cache(), "DO_NOT_TRACK=1", "NO_COLOR=1"}
}

// command runs a command in a directory.
func (l *lab) command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", filepath.Base(name), args[0], err, process.Tail(string(out)))
	}
	return nil
}

// install makes the environment of a tool, once, and returns where its programs
// are. That of vLLM is the one that make real installs.
func (l *lab) install(ctx context.Context, t tool) (string, error) {
	dir := filepath.Join(l.work, t.name)
	if t.environment != "" {
		dir = filepath.Join(l.root, t.environment)
		if _, err := os.Stat(dir); err != nil {
			return "", fmt.Errorf("run make real first: %w", err)
		}
	}
	bin := filepath.Join(dir, "bin")
	if len(t.packages) == 0 {
		return bin, nil
	}
	done := filepath.Join(dir, "installed")
	if have, err := os.ReadFile(done); err == nil && string(have) == fmt.Sprint(t.packages) {
		return bin, nil
	}
	if err := l.command(ctx, l.root, "python3", "-m", "venv", dir); err != nil {
		return "", err
	}
	if err := l.command(ctx, l.root, filepath.Join(bin, "pip"), append([]string{"install", "-q"}, t.packages...)...); err != nil {
		return "", err
	}
	return bin, os.WriteFile(done, []byte(fmt.Sprint(t.packages)), 0o644)
}

// measure runs a tool on all streams. What goes wrong is in the outcome.
func (l *lab) measure(ctx context.Context, t tool, quick bool) outcome {
	o := outcome{Tool: t.name, Version: t.version, Definition: t.definition}
	if t.missing != "" {
		o.NotChecked = t.missing
	}
	var bin string
	if t.missing == "" {
		var err error
		if bin, err = l.install(ctx, t); err != nil {
			o.NotChecked = err.Error()
		}
	}
	if o.NotChecked != "" {
		fmt.Printf("%s: NOT CHECKED: %s\n", t.name, o.NotChecked)
		return o
	}
	for _, r := range plan(t, quick) {
		r.measure(ctx, l, t, bin)
		o.Runs = append(o.Runs, r)
		fmt.Println(t.name, r)
	}
	return o
}

// plan lists the runs of a tool: one request alone, which shows what its start
// takes, then plain streams and those of the other scenarios.
func plan(t tool, quick bool) []measured {
	runs := []measured{{Scenario: "plain", Streams: 1, Requests: 1}}
	add := func(scenario string, streams int) {
		if t.most > 0 && streams > t.most || len(t.only) > 0 && !slices.Contains(t.only, scenario) {
			return
		}
		requests := 15 + 5*streams
		if quick {
			requests = 2 * streams
		}
		runs = append(runs, measured{Scenario: scenario, Streams: streams, Requests: requests})
	}
	for _, streams := range []int{1, 10, 100} {
		add("plain", streams)
	}
	for _, s := range scenarios()[1:] {
		add(s.Name, 10)
	}
	return runs
}

// measure runs a tool against a new server.
func (r *measured) measure(ctx context.Context, l *lab, t tool, bin string) {
	err := func() error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
		defer cancel()
		i := slices.IndexFunc(scenarios(), func(s scenario) bool { return s.Name == r.Scenario })
		s, err := startServer(ctx, l.work, scenarios()[i])
		if err != nil {
			return err
		}
		defer s.Stop()
		dir, err := os.MkdirTemp(l.work, "run")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		result, err := t.run(ctx, &bench{lab: l, server: s, streams: r.Streams, requests: r.Requests, bin: bin, dir: dir})
		if err != nil {
			return err
		}
		records, err := s.take(ctx)
		if err != nil {
			return err
		}
		r.Measured, r.Truth, r.Cost = result.figures, truth(records, result.probes), result.cost
		return nil
	}()
	if err != nil {
		r.Error = err.Error()
	}
}

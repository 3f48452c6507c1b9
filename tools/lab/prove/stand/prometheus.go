package stand

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/tools/lab/process"
)

const (
	// startPatience is how long a process has to begin to listen.
	startPatience = 30 * time.Second
	// stopPatience is how long it has to end after it was asked to.
	stopPatience = 10 * time.Second
	// pace is how often Prometheus scrapes and evaluates rules.
	pace = "1s"
)

// PrometheusOptions say what a Prometheus does.
type PrometheusOptions struct {
	// Program is the path of the prometheus binary.
	Program string
	// Native makes it store native histograms instead of classic ones.
	Native bool
	// Targets are what to scrape.
	Targets []Target
	// Rules are the names of the files with its rules. They are evaluated every
	// second, whatever they say.
	Rules []string
	// Data is the directory of its data; empty is one that Close removes.
	Data string
}

// Target is something to scrape.
type Target struct {
	// Address is the host:port where it is.
	Address string
	// Instance is the host:port that its series are labelled with.
	Instance string
}

// Prometheus is a running Prometheus.
type Prometheus struct {
	Client
	dir     string
	process *process.Process
}

// StartPrometheus starts a Prometheus that scrapes and evaluates every second.
// It returns when the Prometheus listens.
func StartPrometheus(ctx context.Context, o PrometheusOptions) (*Prometheus, error) {
	dir, err := os.MkdirTemp("", "prometheus")
	if err != nil {
		return nil, err
	}
	p := &Prometheus{dir: dir}
	if err := p.start(ctx, o); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", o.Program, err), p.Close())
	}
	return p, nil
}

// listens finds the address in the line that says where Prometheus listens.
var listens = regexp.MustCompile(`msg="Listening on".* address=(\S+)`)

// start starts the process, and waits until it listens.
func (p *Prometheus) start(ctx context.Context, o PrometheusOptions) error {
	file, err := writeConfig(p.dir, o)
	if err != nil {
		return err
	}
	data := o.Data
	if data == "" {
		data = filepath.Join(p.dir, "data")
	}
	p.process, err = process.Start(
		ctx, process.Options{Dir: p.dir}, o.Program,
		"--config.file="+file, "--storage.tsdb.path="+data, "--web.listen-address=127.0.0.1:0",
	)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	address, err := p.process.Find(ctx, listens)
	p.Client = Client{Base: "http://" + address}
	return err
}

// Close ends the process, passes the errors in its log on to standard error, and removes
// its data, unless they were there before.
func (p *Prometheus) Close() error {
	if p.process != nil {
		p.process.Stop()
		for line := range strings.Lines(p.process.Output()) {
			if strings.Contains(line, "level=ERROR") {
				fmt.Fprint(os.Stderr, line)
			}
		}
	}
	return os.RemoveAll(p.dir)
}

// writeConfig writes the configuration of a Prometheus and returns its name.
func writeConfig(dir string, o PrometheusOptions) (string, error) {
	rules, err := quicken(o.Rules, dir)
	if err != nil {
		return "", err
	}
	targets := make([]any, len(o.Targets))
	for i, t := range o.Targets {
		targets[i] = map[string]any{"targets": []string{t.Address}, "labels": map[string]string{"instance": t.Instance}}
	}
	text, err := yaml.Marshal(map[string]any{
		"global": map[string]any{
			"scrape_interval": pace, "scrape_timeout": pace, "evaluation_interval": pace,
			"scrape_native_histograms": o.Native,
		},
		"rule_files": rules,
		"scrape_configs": []any{map[string]any{
			"job_name":       "inference_exporter",
			"static_configs": targets,
		}},
	})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "prometheus.yml")
	return file, os.WriteFile(file, text, 0o600)
}

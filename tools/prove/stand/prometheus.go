package stand

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"gopkg.in/yaml.v3"
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
	dir    string
	cancel context.CancelFunc
	ended  chan struct{}
}

// StartPrometheus starts a Prometheus that scrapes and evaluates every second.
// It returns when the Prometheus listens.
func StartPrometheus(ctx context.Context, o PrometheusOptions) (*Prometheus, error) {
	dir, err := os.MkdirTemp("", "prometheus")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &Prometheus{dir: dir, cancel: cancel, ended: make(chan struct{})}
	address, err := p.start(ctx, o)
	if err != nil {
		cancel()
		_ = os.RemoveAll(dir)
		return nil, fmt.Errorf("start %s: %w", o.Program, err)
	}
	select {
	case a, ok := <-address:
		if ok {
			p.Client = Client{Base: "http://" + a}
			return p, nil
		}
		err = errors.New("it ended at once")
	case <-time.After(startPatience):
		err = errors.New("it does not listen")
	}
	return nil, errors.Join(fmt.Errorf("start %s: %w", o.Program, err), p.Close())
}

// start starts the process. The channel gives the address that it listens on,
// and is closed when it ends.
func (p *Prometheus) start(ctx context.Context, o PrometheusOptions) (<-chan string, error) {
	file, err := writeConfig(p.dir, o)
	if err != nil {
		return nil, err
	}
	data := o.Data
	if data == "" {
		data = filepath.Join(p.dir, "data")
	}
	command := exec.CommandContext(
		ctx, o.Program,
		"--config.file="+file, "--storage.tsdb.path="+data, "--web.listen-address=127.0.0.1:0",
	)
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = stopPatience
	log, err := command.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	address := make(chan string, 1)
	go func() {
		defer close(p.ended)
		defer close(address)
		readLog(log, address)
		_ = command.Wait() // canceled
	}()
	return address, nil
}

// listens finds the address in the line that says where Prometheus listens.
var listens = regexp.MustCompile(`msg="Listening on".* address=(\S+)`)

// readLog reads a log to its end and sends the address in it. It passes
// errors on to standard error.
func readLog(log io.Reader, address chan<- string) {
	found := false
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if m := listens.FindStringSubmatch(lines.Text()); m != nil && !found {
			found = true
			address <- m[1]
		}
		if bytes.Contains(lines.Bytes(), []byte("level=ERROR")) {
			fmt.Fprintln(os.Stderr, lines.Text())
		}
	}
}

// Close ends the process and removes its data, unless they were there before.
func (p *Prometheus) Close() error {
	p.cancel()
	<-p.ended
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

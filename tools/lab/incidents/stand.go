package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/tools/lab/process"
)

// programs are the paths of what is run.
type programs struct{ exporter, prometheus, alertmanager string }

// stand is everything that runs.
type stand struct {
	programs
	dir       string
	notes     *notebook
	webhook   *http.Server
	servers   map[string]*server // by key
	exporters map[string]*exporter
	others    []*process.Process
	query     string // URL of Prometheus
	kept      bool   // the logs are kept
}

// exporter is an exporter that runs.
type exporter struct {
	*process.Process
	watcher
	address string
}

// startStand starts everything, in a temporary folder and on free ports.
func startStand(ctx context.Context, p programs) (s *stand, err error) {
	s = &stand{programs: p, notes: &notebook{}, servers: map[string]*server{}, exporters: map[string]*exporter{}}
	if s.dir, err = os.MkdirTemp("", "incidents"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.keepLogs()
			s.close()
		}
	}()
	for i, t := range targets() {
		if s.servers[t.key()], err = startServer(t, uint64(i)); err != nil {
			return s, err
		}
		if c := s.servers[t.key()].crowd; c != nil {
			c.run(ctx)
		}
	}
	for _, w := range watchers() {
		if err = s.startExporter(w); err != nil {
			return s, err
		}
	}
	return s, s.startMonitoring(ctx)
}

// startExporter starts an exporter, or starts one again where it was.
func (s *stand) startExporter(w watcher) error {
	of := s.exporters[w.name]
	if of == nil {
		address, err := process.FreeAddress("127.0.0.1")
		if err != nil {
			return err
		}
		of = &exporter{watcher: w, address: address}
		s.exporters[w.name] = of
		if err := s.write(w.name+".yml", s.exporterConfig(w)); err != nil {
			return err
		}
	}
	var err error
	of.Process, err = s.start(s.exporter, "--config.file="+w.name+".yml", "--web.listen-address="+of.address, "--no-collector.gpu", "--state.path=state-"+w.name)
	return err
}

// startMonitoring starts what watches the exporters.
func (s *stand) startMonitoring(ctx context.Context) error {
	prometheus, err := process.FreeAddress("127.0.0.1")
	if err != nil {
		return err
	}
	alertmanager, err := process.FreeAddress("127.0.0.1")
	if err != nil {
		return err
	}
	s.query = "http://" + prometheus
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.webhook = &http.Server{Handler: s.notes, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.webhook.Serve(listener) }()

	rules, err := s.printed(ctx, "rules", "--set=all", "--config.file=main.yml", "--keep-label=cluster")
	if err != nil {
		return err
	}
	routes, err := s.printed(ctx, "rules", "--format=alertmanager", "--config.file=main.yml", "--keep-label=cluster")
	if err != nil {
		return err
	}
	routes, err = withWebhooks(routes, "http://"+listener.Addr().String()+"/")
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"rules.yml": rules, "alertmanager.yml": routes, "prometheus.yml": s.prometheusConfig(alertmanager)} {
		if err := s.write(name, text); err != nil {
			return err
		}
	}
	for _, c := range [][]string{
		{s.alertmanager, "--config.file=alertmanager.yml", "--storage.path=alertmanager", "--web.listen-address=" + alertmanager, "--cluster.listen-address="},
		{s.prometheus, "--config.file=prometheus.yml", "--storage.tsdb.path=prometheus", "--web.listen-address=" + prometheus},
	} {
		p, err := s.start(c[0], c[1:]...)
		if err != nil {
			return err
		}
		s.others = append(s.others, p)
	}
	return nil
}

// exporterConfig has limits that a busy machine keeps.
func (s *stand) exporterConfig(w watcher) string {
	var b strings.Builder
	limit := 5 * time.Second
	if w.cluster == "users" {
		limit = objective
	}
	fmt.Fprintf(&b, `global: {interval: 15s, timeout: 30s}
modules: {interactive: {input_tokens: 64, output_tokens: 64, slo: {objective: 0.99, ttft: %dms, tpot: 1s}}}
endpoints:
`, limit.Milliseconds())
	for _, t := range watched(w) {
		more := map[string]string{"users/queue": ", gateway: queue", "users/starts": ", warm_up: 5m"}[t.name()]
		fmt.Fprintf(&b, "  - {name: %s, url: \"http://%s\", api: openai-chat, modules: [interactive]%s}\n", t.endpoint, s.servers[t.key()].address, more)
	}
	if queue := s.servers["users/queue"]; w.cluster == "users" {
		fmt.Fprintf(&b, "gateways: {queue: {urls: [\"http://%s/gateway\"]}}\n", queue.address)
	}
	return b.String()
}

// watched are the targets of an exporter.
func watched(w watcher) []target {
	return slices.DeleteFunc(targets(), func(t target) bool { return t.cluster != w.cluster || t.from != "" && t.from != w.name })
}

// prometheusConfig is that of examples/stack, with a label for each cluster.
func (s *stand) prometheusConfig(alertmanager string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `
global: {scrape_interval: 15s, evaluation_interval: 15s, scrape_native_histograms: true}
rule_files: [rules.yml]
alerting: {alertmanagers: [{static_configs: [{targets: [%q]}]}]}
scrape_configs:
  - job_name: inference_exporter
    static_configs:
`, alertmanager)
	for _, e := range s.exporters {
		fmt.Fprintf(&b, "      - {targets: [%q], labels: {cluster: %s}}\n", e.address, e.cluster)
	}
	return b.String()
}

// withWebhooks has each receiver of routes notify a webhook.
func withWebhooks(routes, url string) (string, error) {
	head, receivers, ok := strings.Cut(routes, "\nreceivers:\n")
	if !ok {
		return "", errors.New("the routes have no receivers")
	}
	var b strings.Builder
	b.WriteString(head + "\nreceivers:\n")
	for line := range strings.Lines(receivers) {
		b.WriteString(line)
		if strings.HasPrefix(line, "  - name: ") {
			fmt.Fprintf(&b, "    webhook_configs: [{url: %q, send_resolved: true}]\n", url)
		}
	}
	return b.String(), nil
}

func (s *stand) write(name, text string) error {
	return os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600)
}

// printed returns what the exporter prints.
func (s *stand) printed(ctx context.Context, arguments ...string) (string, error) {
	cmd := exec.CommandContext(ctx, s.exporter, arguments...)
	cmd.Dir = s.dir
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(arguments, " "), err, said.String())
	}
	return string(out), nil
}

// waitUntilWell waits until Prometheus knows of all endpoints that they are well, and that
// its rules are evaluated.
func (s *stand) waitUntilWell(ctx context.Context) error {
	n := 0
	for _, w := range watchers() {
		n += len(watched(w))
	}
	well := fmt.Sprintf(`count(inference_probe_success == 1) == %d and on () ALERTS{alertname="InferenceWatchdog"}`, n)
	deadline := time.Now().Add(patience)
	for !s.holds(ctx, well) {
		if err := s.failed(); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			s.keepLogs()
			return fmt.Errorf("not all endpoints are well within %s", patience)
		}
		if err := sleep(ctx, time.Second); err != nil {
			return err
		}
	}
	return nil
}

// holds reports whether an expression has a result.
func (s *stand) holds(ctx context.Context, expr string) bool { return len(s.results(ctx, expr)) > 0 }

// witness returns who saw the incident that pages for an endpoint; "" for none.
func (s *stand) witness(ctx context.Context, t target) string {
	for _, labels := range s.results(ctx, fmt.Sprintf("inference_endpoint_incident_witness{cluster=%q, endpoint=%q} == 1", t.cluster, t.endpoint)) {
		return labels["witness"]
	}
	return ""
}

// results returns the labels of the results of an expression; nil where there is no answer.
func (s *stand) results(ctx context.Context, expr string) (all []map[string]string) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.query+"/api/v1/query", nil)
	if err != nil {
		return nil
	}
	request.URL.RawQuery = url.Values{"query": {expr}}.Encode()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	var answer struct {
		Data struct {
			Result []struct{ Metric map[string]string }
		}
	}
	if json.NewDecoder(response.Body).Decode(&answer) != nil {
		return nil
	}
	for _, r := range answer.Data.Result {
		all = append(all, r.Metric)
	}
	return all
}

// failed returns an error where a process ended by itself.
func (s *stand) failed() error {
	for _, p := range s.processes() {
		if p.Ended() {
			s.keepLogs()
			return fmt.Errorf("ended by itself: %s", p.Tail())
		}
	}
	return nil
}

func (s *stand) processes() []*process.Process {
	all := slices.Clone(s.others)
	for _, e := range s.exporters {
		if e.Process != nil {
			all = append(all, e.Process)
		}
	}
	return all
}

// keepLogs has close leave the folder as it is.
func (s *stand) keepLogs() {
	if !s.kept {
		s.kept = true
		fmt.Fprintln(os.Stderr, "incidents: the logs are in", s.dir)
	}
}

// close ends all processes.
func (s *stand) close() {
	for _, p := range s.processes() {
		_ = p.Kill()
	}
	for _, of := range s.servers {
		_ = of.set(fault{gone: true})
	}
	if s.webhook != nil {
		_ = s.webhook.Close()
	}
	if !s.kept {
		_ = os.RemoveAll(s.dir)
	}
}

// start starts a program in the folder of the stand, with a log of its own.
func (s *stand) start(path string, arguments ...string) (*process.Process, error) {
	return process.Start(context.Background(), process.Options{Dir: s.dir}, path, arguments...)
}

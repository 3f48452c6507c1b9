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
	"strconv"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/tools/lab/process"
)

// programs are the paths of what is run.
type programs struct{ exporter, prometheus, promtool, alertmanager string }

// job is the name of the scrape job.
const job = "inference_exporter"

// endpoints are where the simulated servers listen: those of one machine share an
// address of the loopback network.
func endpoints() []endpoint {
	return []endpoint{
		{"single", "127.0.0.2"},
		{"node-0", "127.0.0.3"},
		{"node-1", "127.0.0.3"},
		{"node-2", "127.0.0.3"},
		{"healthy-0", "127.0.0.4"},
		{"healthy-1", "127.0.0.5"},
	}
}

type endpoint struct{ name, host string }

// stand is everything that runs.
type stand struct {
	programs
	dir     string
	notes   *notebook
	webhook *http.Server
	address map[string]string           // by endpoint
	servers map[string]*process.Process // by endpoint
	others  []*process.Process
	query   string // URL of Prometheus
	kept    bool   // the logs are kept
}

// startStand starts everything, in a temporary folder and on free ports.
func startStand(ctx context.Context, p programs) (s *stand, err error) {
	s = &stand{programs: p, notes: &notebook{}, address: map[string]string{}, servers: map[string]*process.Process{}}
	if s.dir, err = os.MkdirTemp("", "incidents"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.keepLogs()
			s.close()
		}
	}()
	for _, e := range endpoints() {
		if s.address[e.name], err = process.FreeAddress(e.host); err != nil {
			return s, err
		}
		if err = s.revive([]string{e.name}); err != nil {
			return s, err
		}
	}
	return s, s.startMonitoring(ctx)
}

// startMonitoring starts what watches the servers.
func (s *stand) startMonitoring(ctx context.Context) error {
	var address [3]string
	for i := range address {
		var err error
		if address[i], err = process.FreeAddress("127.0.0.1"); err != nil {
			return err
		}
	}
	exporter, prometheus, alertmanager := address[0], address[1], address[2]
	s.query = "http://" + prometheus
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.webhook = &http.Server{Handler: s.notes, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.webhook.Serve(listener) }()

	if err := s.write("exporter.yml", s.exporterConfig()); err != nil {
		return err
	}
	rules, err := s.printed(ctx, "rules", "--config.file=exporter.yml")
	if err != nil {
		return err
	}
	routes, err := s.printed(ctx, "rules", "--format=alertmanager", "--config.file=exporter.yml")
	if err != nil {
		return err
	}
	routes, err = withWebhooks(routes, "http://"+listener.Addr().String()+"/")
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		"rules.yml": rules, "alertmanager.yml": routes, "prometheus.yml": prometheusConfig(exporter, alertmanager),
	} {
		if err := s.write(name, text); err != nil {
			return err
		}
	}
	if err := s.startOther(s.exporter, "--config.file=exporter.yml", "--web.listen-address="+exporter, "--no-collector.gpu", "--state.path=state"); err != nil {
		return err
	}
	if err := s.waitUntilProbed(ctx, exporter); err != nil {
		return err
	}
	if err := s.remember(ctx, exporter); err != nil {
		return err
	}
	for _, c := range [][]string{
		{s.alertmanager, "--config.file=alertmanager.yml", "--storage.path=alertmanager", "--web.listen-address=" + alertmanager, "--cluster.listen-address="},
		{s.prometheus, "--config.file=prometheus.yml", "--storage.tsdb.path=prometheus", "--web.listen-address=" + prometheus},
	} {
		if err := s.startOther(c[0], c[1:]...); err != nil {
			return err
		}
	}
	return nil
}

// startOther starts a program that is no server.
func (s *stand) startOther(path string, arguments ...string) error {
	p, err := s.start(path, arguments...)
	if err == nil {
		s.others = append(s.others, p)
	}
	return err
}

// waitUntilProbed waits until each endpoint has answered two probes.
func (s *stand) waitUntilProbed(ctx context.Context, exporter string) error {
	return s.await(ctx, "two answers of each endpoint", func() bool {
		page, err := get(ctx, "http://"+exporter+"/metrics")
		probed := 0
		for line := range strings.Lines(page) {
			series, value, _ := strings.Cut(line, "} ")
			isSuccess := strings.HasPrefix(series, "inference_probe_results_total{") && strings.Contains(series, `outcome="success"`)
			if n, err := strconv.Atoi(strings.TrimSpace(value)); isSuccess && err == nil && n >= 2 {
				probed++
			}
		}
		return err == nil && probed == len(endpoints())
	})
}

// await waits until something is so, and returns an error where it takes too long.
func (s *stand) await(ctx context.Context, what string, is func() bool) error {
	found := false
	err := s.wait(ctx, patience, func() bool {
		found = found || is()
		return found
	})
	if err == nil && !found {
		err = fmt.Errorf("no %s within %s", what, patience)
	}
	return err
}

// exporterConfig has limits that a busy machine keeps.
func (s *stand) exporterConfig() string {
	var b strings.Builder
	b.WriteString(`global: {interval: 15s, timeout: 30s}
modules: {interactive: {input_tokens: 64, output_tokens: 16, slo: {objective: 0.99, ttft: 5s, tpot: 1s}}}
endpoints:
`)
	for _, e := range endpoints() {
		fmt.Fprintf(&b, "  - {name: %s, url: \"http://%s\", api: openai-chat, modules: [interactive]}\n", e.name, s.address[e.name])
	}
	return b.String()
}

// prometheusConfig is that of examples/stack.
func prometheusConfig(exporter, alertmanager string) string {
	return fmt.Sprintf(`
global: {scrape_interval: 15s, evaluation_interval: 15s, scrape_native_histograms: true}
rule_files: [rules.yml]
alerting: {alertmanagers: [{static_configs: [{targets: [%q]}]}]}
scrape_configs: [{job_name: inference_exporter, static_configs: [{targets: [%q]}]}]
`, alertmanager, exporter)
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

// kill kills the servers of endpoints, as the kernel does where memory runs out.
func (s *stand) kill(names []string) error {
	for _, name := range names {
		if err := s.servers[name].Kill(); err != nil {
			return err
		}
		delete(s.servers, name)
	}
	return nil
}

// revive starts the servers of endpoints where they were.
func (s *stand) revive(names []string) error {
	for _, name := range names {
		p, err := s.start(s.exporter, "simulate", "--web.listen-address="+s.address[name], "--model="+name, "--decode-step=5ms")
		if err != nil {
			return err
		}
		s.servers[name] = p
	}
	return nil
}

// waitUntilWell waits until Prometheus knows of all endpoints that they are well, and that
// its rules are evaluated.
func (s *stand) waitUntilWell(ctx context.Context) error {
	well := fmt.Sprintf(`count(inference_probe_success == 1) == %d and on () ALERTS{alertname="InferenceWatchdog"} and on () module:inference_probe_slo_bad:ratio_rate1h`, len(endpoints()))
	err := s.await(ctx, "evaluation of the rules with all endpoints well", func() bool { return s.holds(ctx, well) })
	if err != nil {
		s.keepLogs()
	}
	return err
}

// holds reports whether an expression has a result.
func (s *stand) holds(ctx context.Context, expr string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.query+"/api/v1/query", nil)
	if err != nil {
		return false
	}
	request.URL.RawQuery = url.Values{"query": {expr}}.Encode()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	var answer struct {
		Data struct{ Result []any }
	}
	return json.NewDecoder(response.Body).Decode(&answer) == nil && len(answer.Data.Result) > 0
}

// failed returns an error where a process ended by itself.
func (s *stand) failed() error {
	all := slices.Clone(s.others)
	for _, p := range s.servers {
		all = append(all, p)
	}
	for _, p := range all {
		if p.Ended() {
			s.keepLogs()
			return fmt.Errorf("ended by itself: %s", p.Tail())
		}
	}
	return nil
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
	for _, p := range s.servers {
		_ = p.Kill()
	}
	for _, p := range s.others {
		_ = p.Kill()
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

//go:build linux

package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/internal/app"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

const (
	// envRun says that the tests which run the program for minutes run.
	envRun = "INFERENCE_EXPORTER_HOSTILE"
	// runAsProgram makes the test binary behave as the program itself.
	runAsProgram = "INFERENCE_EXPORTER_TEST_PROGRAM"
	// patience is how long to wait for what must happen at all.
	patience = 3 * time.Minute
)

func TestMain(m *testing.M) {
	if os.Getenv(runAsProgram) != "" {
		os.Exit(app.Main(app.Options{Stdout: os.Stdout, Stderr: os.Stderr}))
	}
	if as := os.Getenv(runAsServer); as != "" {
		runStreamServer(as)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// needsMinutes skips a test that was not asked for, and lets it run beside others,
// as it mostly waits.
func needsMinutes(t *testing.T) {
	t.Helper()
	if os.Getenv(envRun) == "" {
		t.Skipf("runs the program for minutes: make hostile, or set %s", envRun)
	}
	t.Parallel()
}

// program is the program in a process of its own.
type program struct {
	tb      testing.TB
	cmd     *exec.Cmd
	base    string // URL
	logFile string // "" where the log goes elsewhere
}

// start runs the daemon with a configuration until the test ends. limits are
// commands of a shell for the process, "" is none.
func start(tb testing.TB, limits, configuration string, env ...string) *program {
	tb.Helper()
	dir := tb.TempDir()
	p := prepare(tb, limits, write(tb, dir, "exporter.yml", configuration), env...)
	p.logFile = filepath.Join(dir, "log")
	log, err := os.Create(p.logFile)
	if err != nil {
		tb.Fatal(err)
	}
	defer log.Close()
	p.cmd.Stderr = log
	p.run()
	p.listens()
	return p
}

// prepare returns the daemon before its start, at an address of its own.
func prepare(tb testing.TB, limits, file string, env ...string) *program {
	tb.Helper()
	address := unusedAddress(tb)
	args := []string{"-c", limits + "\n" + `exec "$0" "$@"`, os.Args[0], "--config.file=" + file, "--web.listen-address=" + address, "--no-collector.gpu", "--state.path="}
	p := &program{tb: tb, cmd: exec.Command("/bin/sh", args...), base: "http://" + address}
	p.cmd.Env = append(append(os.Environ(), runAsProgram+"=1", "GOGC=25"), env...) // GOGC as main.go sets it
	return p
}

func (p *program) run() {
	p.tb.Helper()
	if err := p.cmd.Start(); err != nil {
		p.tb.Fatal(err)
	}
	p.tb.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
	})
}

// listens waits until the daemon answers.
func (p *program) listens() {
	p.tb.Helper()
	p.wait("an answer", func() bool {
		resp, err := client.Get(p.base + "/-/healthy")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// wait waits until something is so.
func (p *program) wait(what string, is func() bool) {
	p.tb.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.tb.Fatalf("waited in vain for %s; the log ends:\n%s", what, p.logEnd())
		}
	}
}

func (p *program) log() []byte {
	p.tb.Helper()
	text, err := os.ReadFile(p.logFile)
	if err != nil {
		p.tb.Fatal(err)
	}
	return text
}

func (p *program) logEnd() string {
	if p.logFile == "" {
		return ""
	}
	text := p.log()
	return string(text[max(0, len(text)-2000):])
}

// terminate sends SIGTERM and checks that the program ends without SIGKILL: its exit
// code is another one where it had to give something up after 5 s.
func (p *program) terminate() {
	p.tb.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.tb.Fatal(err)
	}
	kill := time.AfterFunc(time.Minute, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	_ = p.cmd.Wait()
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		p.tb.Errorf("exit code %d (%s); the log ends:\n%s", code, p.cmd.ProcessState, p.logEnd())
	}
}

var client = &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}

// get returns the body of a page.
func (p *program) get(path string) ([]byte, error) {
	resp, err := client.Get(p.base + path)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", resp.StatusCode)
	}
	return body, err
}

// page is what /metrics shows.
type page map[string]*dto.MetricFamily

func (p *program) scrape() page {
	p.tb.Helper()
	var families page
	p.wait("a scrape", func() bool {
		body, err := p.get("/metrics")
		if err != nil {
			return false
		}
		parser := expfmt.NewTextParser(model.UTF8Validation)
		if families, err = parser.TextToMetricFamilies(bytes.NewReader(body)); err != nil {
			p.tb.Fatal(err)
		}
		return true
	})
	return families
}

// sum adds the samples of a family that have these labels.
func (p page) sum(family string, labels ...string) (sum float64) {
	for _, m := range p[family].GetMetric() {
		if has(m, labels...) {
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
		}
	}
	return sum
}

func has(m *dto.Metric, labels ...string) bool {
	left := len(labels) / 2
	for _, l := range m.GetLabel() {
		for i := 0; i < len(labels); i += 2 {
			if l.GetName() == labels[i] && l.GetValue() == labels[i+1] {
				left--
			}
		}
	}
	return left == 0
}

// outcomes counts the results of an endpoint.
func (p page) outcomes(endpoint string) map[result.Outcome]float64 {
	counts := map[result.Outcome]float64{}
	for _, o := range result.Outcomes() {
		if n := p.sum("inference_probe_results_total", "endpoint", endpoint, "outcome", string(o)); n > 0 {
			counts[o] = n
		}
	}
	return counts
}

// results counts the results of an endpoint, without those of confirmations that the
// next probe overtook.
func (p page) results(endpoint string) (n float64) {
	for o, one := range p.outcomes(endpoint) {
		if o != result.Canceled {
			n += one
		}
	}
	return n
}

// peakMemory returns the largest resident set of the process so far, in MB.
func (p *program) peakMemory() float64 {
	p.tb.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.tb.Fatal(err)
	}
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(text)
	if m == nil {
		p.tb.Fatalf("no VmHWM in %s", text)
	}
	kB, _ := strconv.ParseFloat(string(m[1]), 64)
	return kB * 1024 / 1e6
}

// checkTexts checks that what the program shows has no control characters, and
// that its JSON is JSON.
func (p *program) checkTexts() {
	p.tb.Helper()
	for _, path := range []string{"/metrics", "/api/v1/endpoints", "/api/v1/self", "/config"} {
		body, err := p.get(path)
		if err != nil {
			p.tb.Errorf("%s: %v", path, err)
			continue
		}
		if strings.HasPrefix(path, "/api/") && !json.Valid(body) {
			p.tb.Errorf("%s is no JSON", path)
		}
		p.checkText(path, body)
	}
	p.checkText("the log", p.log())
}

func (p *program) checkText(what string, text []byte) {
	p.tb.Helper()
	i := bytes.IndexFunc(text, func(r rune) bool { return r != '\n' && (r < ' ' || r == 0x7f || r == 0x202e || r == 0x2028) })
	if i >= 0 {
		p.tb.Errorf("%s has a control character: %q", what, text[max(0, i-80):min(len(text), i+20)])
	}
	if bytes.Contains(text, []byte("panic")) {
		p.tb.Errorf("%s reports a panic", what)
	}
}

func write(tb testing.TB, dir, name, text string) string {
	tb.Helper()
	name = filepath.Join(dir, name)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return name
}

func unusedAddress(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// startAll starts a server for each behaviour until the test ends.
func startAll(tb testing.TB, all []Behaviour) []*Server {
	tb.Helper()
	servers := make([]*Server, len(all))
	for i, b := range all {
		s, err := Start(b)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(s.Close)
		servers[i] = s
	}
	return servers
}

// startHealthy starts a server that answers until the test ends, and returns its
// URL.
func startHealthy(tb testing.TB) string {
	tb.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"m","object":"model","owned_by":"somebody"}]}`)
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		parts := append([]string{role}, strings.Split(strings.Repeat(token+"|", 8), "|")...)
		for _, part := range append(parts, finish+usage("16")+end) {
			_, _ = io.WriteString(w, part)
			_ = http.NewResponseController(w).Flush()
			time.Sleep(2 * time.Millisecond)
		}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &http.Server{Handler: mux}
	go func() { _ = s.Serve(l) }()
	tb.Cleanup(func() { _ = s.Shutdown(context.WithoutCancel(tb.Context())) })
	return "http://" + l.Addr().String()
}

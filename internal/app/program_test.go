package app

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"go/build"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// patience is how long a test waits for what must come before it gives up.
const patience = 5 * time.Minute

// program is a Run in this process that goes on until it is stopped.
type program struct {
	t      *testing.T
	base   string // URL of its first listener
	stdout *output
	stderr *output
	client *http.Client
	cancel context.CancelFunc
	code   chan int
}

// start runs the program with the given arguments. It returns when the
// program listens; the end of the test stops it. It must leave no goroutine, which
// TestMain sees when all tests have ended.
func start(t *testing.T, args ...string) *program {
	t.Helper()
	// Not the test's context, which ends before the clean-up.
	ctx, cancel := context.WithCancel(context.Background())
	p := &program{
		t: t, stdout: &output{}, stderr: &output{}, cancel: cancel, code: make(chan int, 1),
		client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}},
	}
	listening := make(chan string, 4)
	go func() {
		p.code <- Run(ctx, args, Options{Stdout: p.stdout, Stderr: p.stderr, OnListen: func(a net.Addr) {
			listening <- "http://" + a.String()
		}})
	}()
	select {
	case p.base = <-listening:
	case code := <-p.code:
		t.Fatalf("%q ended with %d: %s", args, code, p.stderr)
	case <-time.After(patience):
		t.Fatalf("%q does not listen", args)
	}
	t.Cleanup(func() {
		if ctx.Err() == nil {
			p.stop()
		}
	})
	return p
}

// leaks returns an error where goroutines do not end within patience. goleak alone waits
// for less than half a second, in which a busy machine ends none.
func leaks() error {
	for deadline := time.Now().Add(patience); ; {
		err := goleak.Find()
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// stop ends the program as a signal would and returns its exit code. What hangs is
// seen at the limit of all tests, which prints where.
func (p *program) stop() int {
	p.t.Helper()
	p.cancel()
	return <-p.code
}

// get returns the status and the body of a page. Headers come in pairs.
func (p *program) get(path string, header ...string) (*http.Response, []byte) {
	p.t.Helper()
	return get(p.t, p.client, p.base+path, header...)
}

func get(t *testing.T, client *http.Client, url string, header ...string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, body
}

// metricsPage is a page of metrics.
type metricsPage = testlab.Page

// waitFor scrapes until the page is as wanted, and returns it and its text.
func (p *program) waitFor(what string, wanted func(metricsPage) bool) (metricsPage, []byte) {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		began := time.Now()
		_, body := p.get("/metrics")
		got := testlab.ParsePage(p.t, body)
		if wanted(got) {
			return got, body
		}
		select {
		case <-time.After(max(20*time.Millisecond, 4*time.Since(began))): // a page of many series must not take what it waits for
		case <-deadline:
			p.t.Fatalf("waited in vain for %s; the log:\n%s", what, p.stderr)
		}
	}
}

// writeFile writes a file of the test and returns its name.
func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// output is what a program printed; it may be read while the program runs.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// lines returns the lines that contain a text.
func (o *output) lines(with string) []string {
	var found []string
	for line := range strings.Lines(o.String()) {
		if strings.Contains(line, with) {
			found = append(found, strings.TrimSuffix(line, "\n"))
		}
	}
	return found
}

// runAsProgram makes the test binary behave as the program itself, so that a
// test can measure it from another process.
const runAsProgram = "INFERENCE_EXPORTER_TEST_PROGRAM"

// hanging is the value with which its part that serves never ends.
const hanging = "hanging"

// atEnd removes what is left when all tests and benchmarks have ended.
var atEnd = func() {}

func TestMain(m *testing.M) {
	// No test keeps a state but in a directory of its own. The go command, which some
	// run, finds its modules without a home.
	for name, value := range map[string]string{
		"STATE_DIRECTORY": "", "XDG_STATE_HOME": "", "HOME": "/", "GOPATH": build.Default.GOPATH,
	} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	if os.Getenv(runAsProgram) != "" {
		o := Options{Stdout: os.Stdout, Stderr: os.Stderr}
		if os.Getenv(runAsProgram) == hanging {
			o.OnListen = func(net.Addr) { select {} }
		}
		os.Exit(Main(o))
	}
	code := m.Run()
	atEnd()
	if err := leaks(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// startProgram runs the program in another process until the test ends. It
// returns the process and the first URL that it prints.
func startProgram(tb testing.TB, args ...string) (*os.Process, string) {
	tb.Helper()
	cmd, out := launchProgram(tb, args...)
	url := regexp.MustCompile(`http://[0-9.:]+`)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if u := url.FindString(lines.Text()); u != "" {
			return cmd.Process, u
		}
	}
	tb.Fatalf("%q printed no URL", args)
	return nil, ""
}

// launchProgram runs the program in another process until the test ends. It is the test
// binary, with what tests need in it; memory is measured with launchBuilt.
func launchProgram(tb testing.TB, args ...string) (*exec.Cmd, io.Reader) {
	tb.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), runAsProgram+"=1", "GOGC=25") // GOGC as main.go sets it
	return cmd, runUntilEnd(tb, cmd)
}

func runUntilEnd(tb testing.TB, cmd *exec.Cmd) io.Reader {
	tb.Helper()
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		kill := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		_ = cmd.Wait()
	})
	return out
}

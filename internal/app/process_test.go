//go:build unix

package app

import (
	"bufio"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/cli"
)

// launchWithLog runs the daemon in another process with its log in a pipe, whose
// end it returns once the daemon listens.
func launchWithLog(t *testing.T, mode string, args ...string) (p *process, log *os.File) {
	t.Helper()
	log, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	cmd := exec.Command(os.Args[0], append(args, "--web.listen-address=127.0.0.1:0", "--no-collector.gpu")...)
	cmd.Env = append(os.Environ(), runAsProgram+"="+mode)
	cmd.Stderr = w
	err = cmd.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	p = &process{t: t, cmd: cmd}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			p.kill()
		}
	})
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if m := regexp.MustCompile(`msg="Listening on" address=(\S+)`).FindStringSubmatch(lines.Text()); m != nil {
			p.base = "http://" + m[1]
		}
		if p.base != "" || mode == hanging && strings.Contains(lines.Text(), "msg=starting") {
			return p, log
		}
	}
	t.Fatalf("%q does not listen", args)
	return nil, nil
}

// signalAndWait sends a signal and returns the exit code.
func (p *process) signalAndWait(s os.Signal) int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
	_ = p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode()
}

// manyMistakes is a configuration of which the log has thousands of lines: more
// than a pipe and the queue before it hold.
func manyMistakes() string {
	return "endpoints: [{url: http://127.0.0.1:9}]\nmodules:\n" + strings.Repeat("  m: {timeout: never and never and never and never and never and never}\n", 3000)
}

// A log that nobody reads, or whose reader is gone, costs its lines alone.
func TestDeadLog(t *testing.T) {
	t.Parallel()
	for _, gone := range []bool{false, true} {
		file := writeFile(t, "exporter.yml", "endpoints: [{url: http://127.0.0.1:9}]\n")
		p, log := launchWithLog(t, "1", "--config.file="+file)
		if gone {
			log.Close()
		}
		if err := os.WriteFile(file, []byte(manyMistakes()), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		got := p.waitFor("lost lines", func(got metricsPage) bool {
			return got.Sum("inference_exporter_log_lines_dropped_total") > 0
		})
		if !got.Has("inference_exporter_config_last_reload_successful") {
			t.Error("the page is not the exporter's")
		}
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		if resp, body := get(t, client, p.base+"/-/ready"); resp.StatusCode != http.StatusOK {
			t.Errorf("not ready: %d, %s", resp.StatusCode, body)
		}
		if code := p.signalAndWait(syscall.SIGTERM); code != cli.ExitOK {
			t.Errorf("log gone: %t, exit code %d", gone, code)
		}
	}
}

// What hangs does not hold up the end.
func TestExitWhileSomethingHangs(t *testing.T) {
	t.Parallel()
	p, log := launchWithLog(t, hanging, "--endpoint=http://127.0.0.1:9")
	rest := make(chan string, 1)
	go func() {
		var text strings.Builder
		for lines := bufio.NewScanner(log); lines.Scan(); {
			text.WriteString(lines.Text() + "\n")
		}
		rest <- text.String()
	}()
	if code := p.signalAndWait(syscall.SIGTERM); code != cli.ExitFailure {
		t.Errorf("exit code %d, want %d", code, cli.ExitFailure)
	}
	if text := <-rest; !strings.Contains(text, "something still hangs") {
		t.Errorf("the log does not say why: %s", text)
	}
}

func TestModuleVersion(t *testing.T) {
	f := func(version, want string) {
		t.Helper()
		info := &debug.BuildInfo{Main: debug.Module{Version: version}}
		if got := moduleVersion(info); got != want {
			t.Errorf("%q: got %q, want %q", version, got, want)
		}
	}
	f("v1.2.3", "1.2.3")                                                                     // go install module@v1.2.3
	f("v0.0.0-20251121183900-0123456789ab+dirty", "0.0.0-20251121183900-0123456789ab+dirty") // go build in a repository
	f("(devel)", "unknown")                                                                  // go build -buildvcs=false
	f("", "unknown")
	if got := moduleVersion(nil); got != "unknown" {
		t.Errorf("no build information: got %q", got)
	}
}

// The test binary is built without flags of the linker: nothing may be empty.
func TestVersionWithoutLinkerFlags(t *testing.T) {
	cmd := exec.Command(os.Args[0], "--version")
	cmd.Env = append(os.Environ(), runAsProgram+"=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^inference_exporter, version \S+ \(branch: \S+, revision: \S+\)\n`).Match(out) {
		t.Errorf("got %s", out)
	}
}

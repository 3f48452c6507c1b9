package app

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// runAsProgram makes the test binary behave as the program itself, so that a
// test can measure it from another process.
const runAsProgram = "INFERENCE_EXPORTER_TEST_PROGRAM"

// hanging is the value with which its part that serves never ends.
const hanging = "hanging"

func TestMain(m *testing.M) {
	if os.Getenv(runAsProgram) != "" {
		o := Options{Stdout: os.Stdout, Stderr: os.Stderr}
		if os.Getenv(runAsProgram) == hanging {
			o.OnListen = func(net.Addr) { select {} }
		}
		os.Exit(Main(o))
	}
	goleak.VerifyTestMain(m)
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

// launchProgram runs the program in another process until the test ends.
func launchProgram(tb testing.TB, args ...string) (*exec.Cmd, io.Reader) {
	tb.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), runAsProgram+"=1")
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
	return cmd, out
}

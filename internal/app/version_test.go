package app

import (
	"os"
	"os/exec"
	"regexp"
	"runtime/debug"
	"testing"
)

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

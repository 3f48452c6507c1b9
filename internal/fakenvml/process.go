package fakenvml

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// envLibrary tells a test that it runs in a process of its own.
const envLibrary = "FAKENVML_LIBRARY"

// Process is the process of a test that may load one library.
type Process struct {
	// Library, State and Calls are the paths of the library, of the state that
	// it reads and of the list of functions called.
	Library, State, Calls string
}

// Alone runs body, which must be all that the test does, in a process of its
// own with a library of the given variant, as a process can load only one, beside
// other tests. extra are further variables of its environment.
func Alone(t *testing.T, v Variant, body func(*testing.T, Process), extra ...string) {
	t.Helper()
	if library := os.Getenv(envLibrary); library != "" {
		body(t, Process{Library: library, State: os.Getenv(EnvState), Calls: os.Getenv(EnvCalls)})
		return
	}
	t.Parallel()
	dir := t.TempDir()
	pattern := "^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$"
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", pattern, "-test.count=1", "-test.timeout=60s", "-test.v")
	cmd.Env = append(os.Environ(),
		envLibrary+"="+Build(t, v),
		EnvState+"="+filepath.Join(dir, "state"),
		EnvCalls+"="+filepath.Join(dir, "calls"))
	cmd.Env = append(cmd.Env, extra...)
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case !strings.Contains(string(out), "--- PASS: "+t.Name()+" ") && !strings.Contains(string(out), "--- SKIP: "+t.Name()+" "):
		t.Errorf("the test did not run:\n%s", out)
	case testing.Verbose():
		t.Logf("%s", out)
	}
}

// Package fakenvml makes, for tests, a library that a program can load in place
// of the GPU driver's own, and that answers what a file says at the moment of
// the call. testdata/fakenvml.h tells what can be said.
package fakenvml

import (
	"embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The library reads these names in its environment.
const (
	// EnvState names the file that a State was written to.
	EnvState = "FAKENVML_STATE"
	// EnvCalls, where set, names a file to which the name of every function
	// called is added.
	EnvCalls = "FAKENVML_CALLS"
)

// Variant is what a library has.
type Variant string

// The variants.
const (
	Full  Variant = "FULL"  // all that the exporter calls
	Old   Variant = "OLD"   // a driver of about 2020
	Bare  Variant = "BARE"  // nothing but opening devices
	Empty Variant = "EMPTY" // a library that is not a driver's
)

//go:embed testdata
var sources embed.FS

// Build compiles a library and returns its path, which is good until the test
// ends. Without a C compiler or cgo the test is skipped; where CI is set in the
// environment it fails.
func Build(tb testing.TB, v Variant) string {
	tb.Helper()
	if !cgo {
		missing(tb, "cgo is off")
	}
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "gcc"
	}
	if _, err := exec.LookPath(compiler); err != nil {
		missing(tb, err.Error())
	}
	dir := tb.TempDir()
	if err := os.CopyFS(dir, sources); err != nil {
		tb.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "testdata", "*.c"))
	if err != nil {
		tb.Fatal(err)
	}
	library := filepath.Join(dir, "libnvidia-ml.so.1")
	output(tb, compiler, append([]string{
		"-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-Wno-deprecated-declarations",
		"-Wl,-soname,libnvidia-ml.so.1", "-Wl,-Bsymbolic",
		"-D" + string(v), "-I", headers(tb), "-o", library,
	}, files...)...)
	return library
}

func missing(tb testing.TB, why string) {
	tb.Helper()
	if os.Getenv("CI") != "" {
		tb.Fatalf("cannot build the fake driver library: %s", why)
	}
	tb.Skipf("cannot build the fake driver library: %s", why)
}

// headers returns where the binding keeps the header of the real library.
func headers(tb testing.TB) string {
	tb.Helper()
	dir := output(tb, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/NVIDIA/go-nvml")
	return filepath.Join(strings.TrimSpace(dir), "pkg", "nvml")
}

func output(tb testing.TB, name string, args ...string) string {
	tb.Helper()
	var stderr strings.Builder
	cmd := exec.CommandContext(tb.Context(), name, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		tb.Fatalf("%s: %v\n%s", cmd, err, stderr.String())
	}
	return string(out)
}

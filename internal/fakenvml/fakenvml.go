// Package fakenvml makes, for tests, a library that a program can load in place of the GPU driver's own, and that
// answers what a file says at the moment of the call. testdata/fakenvml.h documents the file.
package fakenvml

import (
	"embed"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The library reads these names in its environment.
const (
	// EnvState names the file that a State was written to.
	EnvState = "FAKENVML_STATE"
	// EnvCalls, where set, names a file to which the name of every function called is added.
	EnvCalls = "FAKENVML_CALLS"
	// EnvHeap, where set, names a file to which the end of the library's use writes how many bytes of C's heap the process has.
	EnvHeap = "FAKENVML_HEAP"
)

// Variant is what a library has.
type Variant string

const (
	Full  Variant = "FULL"  // all that the exporter calls
	Old   Variant = "OLD"   // a driver of about 2020
	Bare  Variant = "BARE"  // nothing but opening devices
	Empty Variant = "EMPTY" // a library that is not a driver's
)

//go:embed testdata
var sources embed.FS

// Build compiles a library and returns its path, which is good until the test ends. Without a C compiler or cgo the
// test is skipped; where CI is set in the environment it fails.
func Build(tb testing.TB, v Variant) string {
	tb.Helper()
	if strings.TrimSpace(output(tb, "go", "env", "CGO_ENABLED")) != "1" {
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

// envLibrary is set where a test runs in a process of its own.
const envLibrary = "FAKENVML_LIBRARY"

// Process is the process of a test that may load one library.
type Process struct {
	// Library, State and Calls are the paths of the library, of the state that
	// it reads and of the list of functions called.
	Library, State, Calls string
}

// Alone runs body, which must be all that the test does, in a process of its own with a library of the given variant,
// as a process can load only one, beside other tests. extra are further variables of its environment.
func Alone(t *testing.T, v Variant, body func(*testing.T, Process), extra ...string) {
	t.Helper()
	if library := os.Getenv(envLibrary); library != "" {
		body(t, Process{Library: library, State: os.Getenv(EnvState), Calls: os.Getenv(EnvCalls)})
		return
	}
	t.Parallel()
	dir := t.TempDir()
	pattern := "^" + strings.ReplaceAll(t.Name(), "/", "$/^") + "$"
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", pattern, "-test.count=1", "-test.timeout=0", "-test.v")
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

// State is what a library answers.
type State map[string]string

// Write replaces the file at path at once, so that no call sees half of it.
func (s State) Write(tb testing.TB, path string) {
	tb.Helper()
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(&text, "%s %s\n", key, s[key])
	}
	file, err := os.CreateTemp(filepath.Dir(path), "state")
	if err != nil {
		tb.Fatal(err)
	}
	_, err = file.WriteString(text.String())
	if err := errors.Join(err, file.Close()); err != nil {
		tb.Fatal(err)
	}
	if err := os.Rename(file.Name(), path); err != nil {
		tb.Fatal(err)
	}
}

// Machine is a machine with GPUs that answer every call. The values are made
// up; those of GPU number n differ from the others in their identity alone.
func Machine(gpus int) State {
	s := State{
		"driver_version": "550.54.15",
		"cuda_version":   "12040",
		"devices":        fmt.Sprint(gpus),
		"confidential":   "1 0 0",
	}
	for n := range gpus {
		device := fmt.Sprintf("device%d.", n)
		for key, value := range gpu {
			s[device+key] = value
		}
		s[device+"uuid"] = fmt.Sprintf("GPU-00000000-0000-0000-0000-%012d", n)
		s[device+"serial"] = fmt.Sprintf("165000000000%d", n)
		s[device+"pci_bus_id"] = fmt.Sprintf("00000000:%02X:00.0", 0x3b+n)
		s[device+"minor"] = fmt.Sprint(n)
	}
	return s
}

// gpu is what every GPU of Machine answers, beside its identity.
var gpu = map[string]string{
	"name": "Fake GPU", "compute_capability": "9.0",
	"memory_total": "85520809984", "memory_used": "60000000000", "memory_free": "24983938304", "memory_reserved": "536871680",
	"memory_bus_width": "5120", "utilization": "87", "memory_utilization": "41",
	"encoder_utilization": "3", "decoder_utilization": "4",
	"clock_graphics": "1755", "clock_sm": "1740", "clock_memory": "2619", "clock_video": "1545",
	"clock_graphics_max": "1980", "clock_sm_max": "1975", "clock_memory_max": "2620", "clock_video_max": "1546",
	"power_usage": "412345", "power_limit": "700000", "energy": "9876543210123",
	"temperature": "54", "fans": "2", "fan0": "33", "fan1": "104", "pstate": "0",
	"pcie_generation": "4", "pcie_width": "8", "pcie_generation_max": "5", "pcie_width_max": "16", "pcie_replays": "7",
	"ecc_corrected": "11", "ecc_uncorrected": "12", "ecc_corrected_lifetime": "13", "ecc_uncorrected_lifetime": "14",
	"remapped_rows": "1 2 1 0", "clock_event_reasons": "36", "fabric_state": "3",
	"fabric_cluster": "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16", "fabric_clique": "32766", "platform": "1823825185529 5 4 1 2",
	"power_limit_default": "750000", "power_limit_requested": "720000", "power_profiles": "65 64",
	"temperature_margin": "-3", "threshold_shutdown": "95", "threshold_slowdown": "92", "threshold_memory_max": "94", "threshold_gpu_max": "87",
	"sram": "21 22 23 24 25 26 27 28 29 30 31 1", "repair": "1 0", "unrepairable": "1", "row_remapper": "640 5 4 3 2",
	"mig_mode": "0", "mig_slots": "7", "event_types": "8", "gpm_supported": "1",
	"field82.0": "uint32 61",
}

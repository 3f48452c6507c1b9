//go:build linux && cgo

package gpu

import (
	"debug/elf"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/fakenvml"
)

// openFake opens the library of a process on a machine.
func openFake(t *testing.T, p fakenvml.Process, machine fakenvml.State) Library {
	t.Helper()
	machine.Write(t, p.State)
	l := NVML(p.Library)
	if err := l.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func deviceOf(t *testing.T, l Library, index int) Device {
	t.Helper()
	d, err := l.Device(index)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func wantCode(t *testing.T, what string, err error, want Code) {
	t.Helper()
	if !hasCode(err, want) {
		t.Errorf("%s = %v, want %s", what, err, want)
	}
}

// only drops all but the error.
func only[T any](_ T, err error) error { return err }

// textQuestions are those of Device.Text.
var textQuestions = []string{
	"UUID", "name", "PCI bus id", "compute capability", "addressing mode", "virtualization mode", "confidential computing mode",
	"chassis serial number", "slot number", "tray index", "host id", "module id", "fabric cluster", "fabric clique",
}

// deviceCalls calls every method of a device but GPMMetrics, which needs samples, with every question.
func deviceCalls(d Device) map[string]error {
	calls := map[string]error{
		"Fields":             only(d.Fields([]Field{{ID: 82}})),
		"VGPUs":              only(d.VGPUs()),
		"VGPUUtilization":    only(d.VGPUUtilization(0)),
		"MIGDevices":         only(d.MIGDevices()),
		"Processes":          only(d.Processes()),
		"ProcessUtilization": only(d.ProcessUtilization(0)),
		"GPMSample":          sampleAndFree(d),
	}
	for _, question := range textQuestions {
		calls[question] = only(d.Text(question))
	}
	for question := range nvmlNumbers() {
		calls[question] = only(d.Numbers(question))
	}
	return calls
}

// Every question of the table is one that the library knows.
func TestNVMLQuestions(t *testing.T) {
	known := nvmlNumbers()
	for _, q := range newTables().questions {
		if known[q.name] == nil {
			t.Errorf("unknown question %q", q.name)
		}
	}
}

func sampleAndFree(d Device) error {
	s, err := d.GPMSample()
	if err == nil {
		s.Free()
	}
	return err
}

// TestNVMLBare: no call of a function that the driver does not have ends the
// process.
func TestNVMLBare(t *testing.T) {
	fakenvml.Alone(t, fakenvml.Bare, func(t *testing.T, p fakenvml.Process) {
		l := openFake(t, p, fakenvml.Machine(1))
		d := deviceOf(t, l, 0)
		calls := deviceCalls(d)
		for name, err := range calls {
			wantCode(t, name, err, CodeFunctionNotFound)
		}
		wantCode(t, "DriverVersion", only(l.DriverVersion()), CodeFunctionNotFound)
		wantCode(t, "CUDAVersion", only(l.CUDAVersion()), CodeFunctionNotFound)
		wantCode(t, "Watch", l.Watch(d), CodeFunctionNotFound)
		wantCode(t, "NextXID", only(l.NextXID()), CodeTimeout)
	})
}

// TestNVMLEmpty: a library that is not the driver's is reported as such.
func TestNVMLEmpty(t *testing.T) {
	fakenvml.Alone(t, fakenvml.Empty, func(t *testing.T, p fakenvml.Process) {
		l := NVML(p.Library)
		wantCode(t, "Open", l.Open(), CodeFunctionNotFound)
		l.Close()
		wantCode(t, "DeviceCount", only(l.DeviceCount()), CodeFunctionNotFound)
	})
}

// TestNVMLBoundAtOnce: the program starts, and reads, where the dynamic linker
// binds every function when it starts a program.
func TestNVMLBoundAtOnce(t *testing.T) {
	fakenvml.Alone(t, fakenvml.Bare, func(t *testing.T, p fakenvml.Process) {
		l := openFake(t, p, fakenvml.Machine(3))
		if n, err := l.DeviceCount(); n != 3 || err != nil {
			t.Errorf("DeviceCount() = %d, %v, want 3", n, err)
		}
	}, "LD_BIND_NOW=1")
}

// TestNVMLSymbols: no function of the library is left for the dynamic linker to
// find, and none is offered to the library in place of its own.
func TestNVMLSymbols(t *testing.T) {
	program, err := elf.Open(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	symbols, err := program.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if strings.HasPrefix(s.Name, "nvml") {
			t.Errorf("%s is a dynamic symbol: nvml_symbols_linux.c must define it, hidden", s.Name)
		}
	}
}

func TestNVMLNotLoaded(t *testing.T) {
	dir := t.TempDir()
	corrupt := filepath.Join(dir, "libnvidia-ml.so.1")
	if err := os.WriteFile(corrupt, []byte(strings.Repeat("not a library ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, path, detail string }{
		{"absent", filepath.Join(dir, "absent.so"), "No such file"},
		{"corrupt", corrupt, "invalid ELF header"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := NVML(tt.path)
			defer l.Close()
			var e *Error
			if err := l.Open(); !errors.As(err, &e) {
				t.Fatalf("Open() = %v", err)
			}
			if e.Code != CodeLibraryNotFound || e.Number != 12 || !strings.Contains(e.Detail, tt.detail) {
				t.Errorf("Open() = %+v, want a detail with %q", e, tt.detail)
			}
		})
	}
}

// TestNVMLReopen: a driver that is loaded later is found, and nothing is called
// between a failed Open and the next.
func TestNVMLReopen(t *testing.T) {
	fakenvml.Alone(t, fakenvml.Full, func(t *testing.T, p fakenvml.Process) {
		machine := fakenvml.Machine(1)
		machine["nvmlInit_v2.return"] = "9"
		machine.Write(t, p.State)
		l := NVML(p.Library)
		wantCode(t, "Open without a driver", l.Open(), CodeDriverNotLoaded)
		l.Close()
		if calls := read(t, p.Calls); calls != "nvmlInit_v2\n" {
			t.Errorf("called %q, want no call after nvmlInit_v2", calls)
		}
		wantCode(t, "DeviceCount before Open", only(l.DeviceCount()), CodeUninitialized)

		delete(machine, "nvmlInit_v2.return")
		machine.Write(t, p.State)
		for range 3 {
			if err := l.Open(); err != nil {
				t.Fatal(err)
			}
			if err := l.Watch(deviceOf(t, l, 0)); err != nil {
				t.Error(err)
			}
			l.Close()
			if calls := read(t, p.Calls); !strings.HasSuffix(calls, "nvmlEventSetFree\nnvmlShutdown\n") {
				t.Errorf("called %q, want the events freed before the end", calls)
			}
		}
	})
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// returnCodes are those of the library's documentation.
var returnCodes = map[int]Code{
	1: CodeUninitialized, 2: CodeUnknown, 3: CodeNotSupported, 4: CodeNoPermission, 6: CodeNotFound,
	7: CodeUnknown, 9: CodeDriverNotLoaded, 10: CodeTimeout, 12: CodeLibraryNotFound, 13: CodeFunctionNotFound,
	15: CodeLost, 16: CodeResetRequired, 17: CodeOperatingSystem, 18: CodeVersionMismatch, 21: CodeNoData,
	25: CodeNotSupported, 26: CodeNotSupported, 27: CodeUnknown, 28: CodeLost, 998: CodeUnknown, 999: CodeUnknown,
}

func TestNVMLFull(t *testing.T) {
	fakenvml.Alone(t, fakenvml.Full, func(t *testing.T, p fakenvml.Process) {
		for _, tt := range []struct {
			name string
			test func(*testing.T, fakenvml.Process)
		}{
			{"codes", testCodes},
			{"lost", testLost},
			{"stuck", testStuck},
			{"values", testValues},
			{"not available", testNotAvailable},
			{"fields", testFields},
			{"mig", testMIG},
			{"processes", testProcesses},
			{"process utilization", testProcessUtilization},
			{"gpm", testGPM},
			{"xids", testXIDs},
		} {
			t.Run(tt.name, func(t *testing.T) { tt.test(t, p) })
		}
	})
}

func testCodes(t *testing.T, p fakenvml.Process) {
	machine := fakenvml.Machine(1)
	d := deviceOf(t, openFake(t, p, machine), 0)
	for _, number := range slices.Sorted(maps.Keys(returnCodes)) {
		machine["nvmlDeviceGetPowerUsage.return"] = itoa(number)
		machine.Write(t, p.State)
		_, err := d.Numbers("power")
		want := Error{Call: "nvmlDeviceGetPowerUsage", Code: returnCodes[number], Number: number}
		if e, ok := err.(*Error); !ok || *e != want {
			t.Errorf("power = %v, want %v", err, &want)
		}
	}
}

func testLost(t *testing.T, p fakenvml.Process) {
	machine := fakenvml.Machine(2)
	l := openFake(t, p, machine)
	lost, kept := deviceOf(t, l, 0), deviceOf(t, l, 1)
	machine["device0.lost"] = "1"
	machine.Write(t, p.State)
	calls := deviceCalls(lost)
	delete(calls, "confidential computing mode") // which the machine answers
	for name, err := range calls {
		wantCode(t, name, err, CodeLost)
	}
	if _, err := kept.Numbers("power"); err != nil {
		t.Errorf("the other GPU: %v", err)
	}
	if n, err := l.DeviceCount(); n != 2 || err != nil {
		t.Errorf("DeviceCount() = %d, %v, want 2", n, err)
	}
}

// testStuck: a call that does not return ends when the driver lets it.
func testStuck(t *testing.T, p fakenvml.Process) {
	machine := fakenvml.Machine(1)
	d := deviceOf(t, openFake(t, p, machine), 0)
	machine["nvmlDeviceGetPowerUsage.sleep"] = "3600"
	machine.Write(t, p.State)
	// The library waits here for a reader, who then knows that it was called.
	if err := errors.Join(os.Remove(p.Calls), syscall.Mkfifo(p.Calls, 0o600)); err != nil {
		t.Fatal(err)
	}
	done := make(chan []float64)
	go func() {
		power, _ := d.Numbers("power")
		done <- power
	}()
	if calls := read(t, p.Calls); calls != "nvmlDeviceGetPowerUsage\n" {
		t.Fatalf("called %q", calls)
	}
	if err := os.Remove(p.Calls); err != nil {
		t.Fatal(err)
	}
	delete(machine, "nvmlDeviceGetPowerUsage.sleep")
	machine["device0.power_usage"] = "1"
	machine.Write(t, p.State)
	if power := <-done; !slices.Equal(power, []float64{1}) {
		t.Errorf("power = %v, want 1, the value at its end", power)
	}
}

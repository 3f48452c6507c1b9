//go:build linux && cgo

package gpu

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/fakenvml"
)

// TestNVMLLeavesNothing: a thousand times from Open to Close, with all calls in
// between, leave no thread, no file and no memory behind.
func TestNVMLLeavesNothing(t *testing.T) {
	fakenvml.Alone(t, fakenvml.Full, func(t *testing.T, p fakenvml.Process) {
		t.Setenv(fakenvml.EnvCalls, "")
		machine := fakenvml.Machine(2)
		machine["device0.gpm10"] = "50"
		machine["device0.process0"] = "101 1000 -"
		machine["device0.sample0"] = "101 1700000000000001 30"
		machine["device1.mig3.uuid"] = "MIG-three"
		machine.Write(t, p.State)
		l := NVML(p.Library)
		times := func(n int) held {
			for range n {
				cycle(t, l)
			}
			return holds(t)
		}
		before := times(200)
		after := times(1000)
		t.Logf("before %+v, after %+v", before, after)
		if after.files != before.files {
			t.Errorf("files went from %d to %d", before.files, after.files)
		}
		// The Go runtime may start a thread or two of its own.
		if after.threads > before.threads+3 {
			t.Errorf("threads went from %d to %d", before.threads, after.threads)
		}
		// 1,000 samples would be 2,600 KiB.
		if after.memory > before.memory+2000 {
			t.Errorf("memory went from %d to %d KiB", before.memory, after.memory)
		}
	}, "GOGC=") // the usual one, whatever it is for the tests
}

// cycle is what a poll does, with a new start before and an end after it.
func cycle(t *testing.T, l Library) {
	t.Helper()
	if err := l.Open(); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for index := range 2 {
		d := deviceOf(t, l, index)
		_ = l.Watch(d)
		_ = deviceCalls(d)
		older, newer := sampleOf(t, d), sampleOf(t, d)
		if _, err := d.GPMMetrics(older, newer, []int{10}); err != nil {
			t.Fatal(err)
		}
		older.Free()
		newer.Free()
	}
	_, _ = l.NextXID()
}

func sampleOf(t *testing.T, d Device) GPMSample {
	t.Helper()
	s, err := d.GPMSample()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// held is what this process has; memory is in KiB.
type held struct{ threads, files, memory int }

func holds(t *testing.T) (h held) {
	t.Helper()
	debug.FreeOSMemory()
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	h.files = len(files)
	status, err := os.Open("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	defer status.Close()
	for lines := bufio.NewScanner(status); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		switch name {
		case "Threads":
			_, err = fmt.Sscan(value, &h.threads)
		case "VmRSS":
			_, err = fmt.Sscan(value, &h.memory)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// BenchmarkNVMLDevice reads all values of a device, each by its own call, from
// the fake library: what the binding and this package add to the driver's time,
// and the fake's own share, which looks at its file in every call.
func BenchmarkNVMLDevice(b *testing.B) {
	library := fakenvml.Build(b, fakenvml.Full)
	state := library + ".state"
	b.Setenv(fakenvml.EnvState, state)
	fakenvml.Machine(1).Write(b, state)
	l := NVML(library)
	if err := l.Open(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(l.Close)
	d, err := l.Device(0)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("all", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			readAll(b, d)
		}
	})
	b.Run("one call", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := d.Numbers("power"); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// readAll calls everything. What only other machines have, such as hosts of vGPUs, this
// one does not support, or it finds no sample of it.
func readAll(b *testing.B, d Device) {
	for name, err := range deviceCalls(d) {
		if err != nil && !errors.Is(err, &Error{Code: CodeNotSupported}) && !errors.Is(err, &Error{Code: CodeNotFound}) {
			b.Fatalf("%s: %v", name, err)
		}
	}
}

//go:build linux && cgo

package gpu

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
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
		heap := filepath.Join(t.TempDir(), "heap")
		t.Setenv(fakenvml.EnvHeap, heap)
		l := NVML(p.Library)
		times := func(n int) held {
			for range n {
				cycle(t, l)
			}
			return holds(t, heap)
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
		// 1,000 samples never freed would be 5,000 KiB of C's heap, and 1 KiB of Go's for each time 1,000 KiB.
		if after.c > before.c+200 || after.golang > before.golang+400 {
			t.Errorf("memory went from %+v to %+v KiB", before, after)
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

// held is what this process has; the heaps of C and of Go are in KiB. They are what the allocators have
// given out: what the kernel has given them depends on when it was asked.
type held struct{ threads, files, c, golang int }

func holds(t *testing.T, heap string) (h held) {
	t.Helper()
	for name, n := range map[string]*int{"/proc/self/task": &h.threads, "/proc/self/fd": &h.files} {
		entries, err := os.ReadDir(name)
		if err != nil {
			t.Fatal(err)
		}
		*n = len(entries)
	}
	text, err := os.ReadFile(heap)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(string(text), &h.c); err != nil {
		t.Fatal(err)
	}
	h.c /= 1024
	// A finalizer frees with the second collection.
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	h.golang = int(m.HeapAlloc / 1024)
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
		if err != nil && !hasCode(err, CodeNotSupported) && !hasCode(err, CodeNotFound) {
			b.Fatalf("%s: %v", name, err)
		}
	}
}

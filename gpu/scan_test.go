package gpu

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A scanner that finds nothing, then GPUs, loses one, then all, panics and hangs.
func TestScanning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gpuOf := func(uuid string, up bool) DeviceSnapshot {
			return DeviceSnapshot{Vendor: AMD, UUID: uuid, Name: "AMD Instinct MI300X", Up: up, Readings: []Reading{{Kind: Power, Value: 1}, {Kind: MemoryTotal, Value: 2}}}
		}
		release := make(chan struct{})
		type scanFunc = func(asking func(device, question string)) (scanned, error)
		var current atomic.Value // of scanFunc: the poller's goroutine calls it
		current.Store(scanFunc(func(func(device, question string)) (scanned, error) {
			return scanned{}, &Error{Call: "find", Code: CodeLibraryNotFound}
		}))
		var log bytes.Buffer
		p := newScanning("fake", Options{Logger: slog.New(slog.NewTextHandler(&log, nil))},
			func(asking func(device, question string)) (scanned, error) { return current.Load().(scanFunc)(asking) })
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- p.Run(ctx) }()
		expect := func(state State, up ...bool) *Snapshot {
			t.Helper()
			synctest.Wait()
			s := p.Snapshot()
			if s.State != state || s.Source != "fake" || len(s.Devices) != len(up) {
				t.Fatalf("%s of %s with %d GPUs, want %s with %d: %v", s.State, s.Source, len(s.Devices), state, len(up), s.Err)
			}
			for i, d := range s.Devices {
				if d.Up != up[i] || !d.Up && d.Readings != nil {
					t.Errorf("GPU %s: %+v", d.UUID, d)
				}
			}
			return s
		}
		expect(StateNoLibrary)
		current.Store(scanFunc(func(asking func(device, question string)) (scanned, error) {
			for _, device := range []string{"a", "b"} { // each in time, both together not
				asking(device, "power")
				time.Sleep(8 * time.Second)
			}
			return scanned{driver: "6", devices: []DeviceSnapshot{gpuOf("a", true), gpuOf("b", true)}}, nil
		}))
		time.Sleep(scanAgain + 20*time.Second)
		s := expect(StateUp, true, true)
		// 5.3 TB/s is that of the data sheet; memory comes first on a page.
		if r := s.Devices[0].Readings; s.Driver != "6" || s.Count != 2 || len(r) != 6 || r[0].Kind != MemoryTotal || r[1] != (Reading{MemoryBandwidth, "table", 5.3e12}) {
			t.Errorf("%+v", s.Devices[0])
		}
		current.Store(scanFunc(func(func(device, question string)) (scanned, error) {
			return scanned{devices: []DeviceSnapshot{gpuOf("b", true)}, problems: map[string]error{"power": &Error{Call: "power", Code: CodeNoData}}}, nil
		}))
		time.Sleep(20 * time.Second)
		if s := expect(StateUp, false, true); s.Count != 1 {
			t.Errorf("%d GPUs are counted", s.Count)
		}
		current.Store(scanFunc(func(func(device, question string)) (scanned, error) {
			return scanned{devices: []DeviceSnapshot{gpuOf("b", false)}}, nil
		}))
		time.Sleep(6 * time.Second)
		expect(StateLost, false, false)
		current.Store(scanFunc(func(func(device, question string)) (scanned, error) { panic("test") }))
		time.Sleep(6 * time.Second)
		expect(StateFailed, false, false)
		current.Store(scanFunc(func(asking func(device, question string)) (scanned, error) {
			asking("b", "power")
			<-release
			return scanned{}, nil
		}))
		time.Sleep(scanAgain + 11*time.Second)
		if s := expect(StateStuck, false, false); !strings.Contains(s.Err.Error(), "in power of b") {
			t.Errorf("stuck: %v", s.Err)
		}
		close(release)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		for want, times := range map[string]int{"reading a GPU failed": 1, "a GPU is lost": 2, `reads="[memory_bandwidth_bytes_per_second`: 1} {
			if got := strings.Count(log.String(), want); got != times {
				t.Errorf("%q is logged %d times, want %d:\n%s", want, got, times, log.String())
			}
		}
	})
}

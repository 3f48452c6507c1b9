package gpu

import (
	"fmt"
	"log/slog"
	"testing"
	"time"
)

// BenchmarkPoll is the cost of reading eight H100s, the driver's own aside.
func BenchmarkPoll(b *testing.B) {
	var devices []*fakeDevice
	for i := range 8 {
		devices = append(devices, h100(fmt.Sprint("GPU-", i)))
	}
	s := newSession(newFake(devices...), Options{}, slog.New(slog.DiscardHandler))
	s.progress = func() {}
	b.ReportAllocs()
	for b.Loop() {
		if o := s.cycle(false); o.state != StateUp {
			b.Fatal(o.err)
		}
	}
	s.close()
}

// BenchmarkSnapshot is the cost of a look, at fresh readings and at old ones.
func BenchmarkSnapshot(b *testing.B) {
	for name, age := range map[string]time.Duration{"fresh": 0, "stale": time.Hour} {
		b.Run(name, func(b *testing.B) {
			p := New(newFake(), Options{StaleAfter: time.Minute})
			devices := make([]DeviceSnapshot, 8)
			p.current.Store(&Snapshot{State: StateUp, At: time.Now().Add(-age), Devices: devices})
			b.ReportAllocs()
			for b.Loop() {
				if len(p.Snapshot().Devices) != 8 {
					b.Fatal("devices are missing")
				}
			}
		})
	}
}

package gpu

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestSimulated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		p := New(Simulated(), Options{Processes: true})
		ended := make(chan error)
		go func() { ended <- p.Run(ctx) }()
		before := map[Kind]float64{}
		values := map[Kind]map[float64]bool{}
		for range 100 {
			time.Sleep(5 * time.Second)
			synctest.Wait()
			s := p.Snapshot()
			want(t, s, StateUp)
			if !s.Simulated || len(s.Devices) != 2 {
				t.Fatalf("%+v", s)
			}
			checkSimulated(t, s.Devices[1], before, values)
		}
		for _, kind := range []Kind{Power, Temperature, SMActive, DRAMBandwidthUtilization, Energy, "nvlink_transmit_bytes_total"} {
			if len(values[kind]) < 5 {
				t.Errorf("%s does not move: %v", kind, values[kind])
			}
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// checkSimulated holds the readings of a simulated GPU against what may be.
func checkSimulated(t *testing.T, d DeviceSnapshot, before map[Kind]float64, values map[Kind]map[float64]bool) {
	t.Helper()
	if d.Name != "Simulated H100" || !strings.HasPrefix(d.UUID, "GPU-simulated-") {
		t.Errorf("%s %s", d.Name, d.UUID)
	}
	units := map[Kind]Info{}
	for _, i := range Readings() {
		units[i.Kind] = i
	}
	for _, r := range d.Readings {
		if values[r.Kind] == nil {
			values[r.Kind] = map[float64]bool{}
		}
		values[r.Kind][r.Value] = true
		info := units[r.Kind]
		if r.Value < 0 || info.Unit == "ratio" && r.Value > 1 {
			t.Errorf("%v", r)
		}
		if info.Type == Counter && info.Label == "" {
			if r.Value < before[r.Kind] {
				t.Errorf("%s fell from %v to %v", r.Kind, before[r.Kind], r.Value)
			}
			before[r.Kind] = r.Value
		}
	}
	i := slices.IndexFunc(d.Readings, func(r Reading) bool { return r.Kind == Power })
	if w := d.Readings[i].Value; w < 300 || w > 700 {
		t.Errorf("%v W", w)
	}
}

package gpu

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// splitH100 has one MIG device for each name, each a GPU instance of its own.
func splitH100(uuids ...string) *fakeDevice {
	d := h100("GPU-0")
	d.split = []bool{true}
	for i, uuid := range uuids {
		d.parts = append(d.parts, MIGDevice{GPUInstance: i, Device: &fakeDevice{
			uuid: uuid, name: "NVIDIA H100 80GB HBM3 MIG 1g.10gb", memory: &Memory{Total: 1}, gpm: shares,
		}})
	}
	return d
}

// MIG devices come and go; the samples of those that went are freed, and a new
// one in the same place begins anew.
func TestPartsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		device := splitH100("MIG-a", "MIG-b")
		library := newFake(device)
		s := newTestSession(t, library, Options{})
		device.split = []bool{false}
		s.must(t)
		device.split = []bool{true}
		s.must(t)
		if library.samples != 2 {
			t.Errorf("%d samples are kept for two parts and no whole", library.samples)
		}
		time.Sleep(5 * time.Second)
		for _, m := range s.must(t).devices[0].MIG {
			if got, ok := tensor(m.Readings); !ok || got != 0.05 {
				t.Errorf("%s: %v, %v", m.UUID, got, ok)
			}
		}
		library.set(func() { device.parts = splitH100("MIG-c", "MIG-b").parts })
		time.Sleep(5 * time.Second)
		parts := s.must(t).devices[0].MIG
		if _, ok := tensor(parts[0].Readings); ok || parts[0].UUID != "MIG-c" {
			t.Errorf("a new part has a share: %v", parts[0])
		}
		if _, ok := tensor(parts[1].Readings); !ok {
			t.Errorf("an old part lost its share: %v", parts[1])
		}
		if library.samples != 2 {
			t.Errorf("%d samples are kept for two parts", library.samples)
		}
		library.set(func() { device.split = []bool{false} })
		time.Sleep(5 * time.Second)
		if d := s.must(t).devices[0]; d.MIG != nil || library.samples != 1 {
			t.Errorf("without MIG: %v, %d samples", d.MIG, library.samples)
		}
	})
}

// A MIG device that went while it was looked at is left out; the others stay.
func TestPartGoes(t *testing.T) {
	device := splitH100("MIG-a", "MIG-b", "MIG-c")
	for i, call := range []string{"UUID", "Memory"} {
		device.parts[i].Device.(*fakeDevice).fail = map[string]error{call: failed(CodeNotFound)}
	}
	s := newTestSession(t, newFake(device), Options{})
	parts := s.must(t).devices[0].MIG
	if len(parts) != 2 || parts[0].UUID != "MIG-b" || len(parts[0].Readings) != 0 || len(parts[1].Readings) != 3 {
		t.Errorf("%v", parts)
	}
}

func TestPartsAreBounded(t *testing.T) {
	var uuids []string
	for i := range 1000 {
		uuids = append(uuids, fmt.Sprint("MIG-", i))
	}
	s := newTestSession(t, newFake(splitH100(uuids...)), Options{})
	if n := len(s.must(t).devices[0].MIG); n != 64 {
		t.Errorf("%d parts", n)
	}
}

// The memory of a GPU instance is asked for once in a poll, also when it is
// not to be had.
func TestFailedPartIsAskedOnce(t *testing.T) {
	device := a100("GPU-0")
	library := newFake(device)
	for _, p := range device.parts {
		p.Device.(*fakeDevice).fail = map[string]error{"Memory": failed(CodeUnknown)}
	}
	s := newTestSession(t, library, Options{})
	s.must(t)
	if n := library.called("Memory"); n != 3 { // the GPU and its two GPU instances
		t.Errorf("asked %d times", n)
	}
}

func TestPartBandwidth(t *testing.T) {
	device := splitH100("MIG-a", "MIG-b")
	s := newTestSession(t, newFake(device), Options{Bandwidth: map[string]float64{"MIG-b": 5e11, "GPU-0": 3e12}})
	d := s.must(t).devices[0]
	if got := showReadings("", d.Readings)[4]; got != "memory_bandwidth_bytes_per_second{config} 3000000000000" {
		t.Errorf("GPU: %s", got)
	}
	if has(DeviceSnapshot{Readings: d.MIG[0].Readings}, MemoryBandwidth) {
		t.Error("a part has a bandwidth that nobody gave")
	}
	if got := showReadings("", d.MIG[1].Readings)[3]; got != "memory_bandwidth_bytes_per_second{config} 500000000000" {
		t.Errorf("part: %s", got)
	}
	s.settings.bandwidth.Store(&map[string]float64{"GPU-0": 2e12})
	d = s.must(t).devices[0]
	if got := showReadings("", d.Readings)[4]; got != "memory_bandwidth_bytes_per_second{config} 2000000000000" {
		t.Errorf("GPU, configured anew: %s", got)
	}
	if has(DeviceSnapshot{Readings: d.MIG[1].Readings}, MemoryBandwidth) {
		t.Error("a part has a bandwidth that is no longer configured")
	}
}

package gpu

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Every kind is in the table once, with what a page needs.
func TestReadings(t *testing.T) {
	seen := map[Kind]bool{}
	for _, r := range Readings() {
		if seen[r.Kind] {
			t.Errorf("%s is in the table twice", r.Kind)
		}
		seen[r.Kind] = true
		if !strings.HasSuffix(r.Help, ".") || r.Hardware == "" {
			t.Errorf("%s: help %q, hardware %q", r.Kind, r.Help, r.Hardware)
		}
		if (r.Type == Counter) != strings.HasSuffix(string(r.Kind), "_total") || r.Type != Counter && r.Type != Gauge {
			t.Errorf("%s is a %s", r.Kind, r.Type)
		}
		for unit, part := range map[string]string{
			"bytes": "_bytes", "ratio": "_ratio", "hertz": "_hertz", "watts": "_watts", "joules": "_joules", "seconds": "_seconds", "degrees Celsius": "_celsius",
		} {
			if (r.Unit == unit) != strings.Contains(string(r.Kind), part) && r.Unit != "bytes per second" {
				t.Errorf("%s is in %q", r.Kind, r.Unit)
			}
		}
		if slices.Contains([]Kind{FanSpeed, "nvlink_up", "nvlink_bit_error_ratio", "c2c_link_up", "c2c_link_bandwidth_bytes_per_second"}, r.Kind) != (r.Label != "" && r.Values == nil) || r.Label == "" && r.Values != nil {
			t.Errorf("%s has the label %q with the values %v", r.Kind, r.Label, r.Values)
		}
	}
	if len(seen) != 85 {
		t.Errorf("%d kinds", len(seen))
	}
}

// All readings of the tests' GPUs are in the table, and every kind is read from
// one of them.
func TestReadingsOfDevices(t *testing.T) {
	table, had := map[Kind]Info{}, map[Kind]bool{}
	for _, r := range Readings() {
		table[r.Kind] = r
	}
	grace, guest := b200("GPU-4"), rtx4090("GPU-5")
	grace.texts["addressing mode"] = "ats"
	grace.gpm = func(time.Time, time.Time) map[int]float64 { return map[int]float64{1: 1, 2: 1, 3: 1, 5: 1, 10: 1} }
	for _, id := range []int{201, 203, 220, 240} {
		for link := range uint32(18) {
			grace.fields[Field{id, link}] = 1
		}
	}
	for _, f := range []Field{{185, 1}, {190, 1}, {185, 2}} {
		grace.fields[f] = 1000
	}
	grace.texts["confidential computing mode"] = "on"
	grace.numbers["fabric state"] = []float64{3, 1, 0}
	grace.numbers["workload power profiles"] = []float64{0, 1}
	grace.fields[Field{ID: 170}] = 1
	for _, id := range []int{171, 172, 231, 251, 254, 255, 274, 297} {
		grace.fields[Field{ID: id}] = 1
	}
	volta := t4("GPU-6")
	delete(volta.fail, "Fields")
	volta.fields = map[Field]float64{{29, 0}: 1, {30, 0}: 1, {31, 0}: 1}
	guest.texts["virtualization mode"], guest.numbers["vGPU license"] = virtualizationGuest, []float64{1, 1}
	synctest.Test(t, func(t *testing.T) {
		s := newTestSession(t, newFake(h100("GPU-0"), a100("GPU-1"), rtx4090("GPU-2"), t4("GPU-3"), grace, guest, volta), Options{})
		s.must(t)
		time.Sleep(meterShortest) // the shares of the units take two polls
		for _, d := range s.must(t).Devices {
			for _, r := range d.Readings {
				had[r.Kind] = true
				info, ok := table[r.Kind]
				if !ok || (r.Label != "") != (info.Label != "") || info.Values != nil && !slices.Contains(info.Values, r.Label) {
					t.Errorf("%v is not as in the table", r)
				}
			}
		}
	})
	for kind := range table {
		if !had[kind] && !strings.HasPrefix(string(kind), "xgmi_") { // those of AMD
			t.Errorf("no GPU has %s", kind)
		}
	}
}

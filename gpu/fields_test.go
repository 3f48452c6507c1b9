package gpu

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// b200 is a GPU with NVLink 5: it has no totals of its links. What each of them
// counts is invented.
func b200(uuid string) *fakeDevice {
	d := h100(uuid)
	d.texts["name"], d.texts["compute capability"] = "NVIDIA B200", "10.0"
	for _, id := range []int{38, 45, 52, 59} {
		delete(d.fields, Field{ID: id})
	}
	delete(d.fields, Field{138, allLinks})
	delete(d.fields, Field{139, allLinks})
	for link := range uint32(18) {
		for _, id := range []int{206, 207, 208, 210, 211, 212, 214, 215} { // 209 is not supported
			d.fields[Field{id, link}] = 0
		}
		d.fields[Field{166, link}] = 7 // NVLink 5
		d.fields[Field{202, link}] = 1000 * float64(link)
		d.fields[Field{204, link}] = 10
	}
	d.fields[Field{208, 0}], d.fields[Field{208, 17}] = 5, 7
	d.fields[Field{214, 2}] = 1
	d.fields[Field{215, 1}], d.fields[Field{215, 2}] = 4, 1
	return d
}

// linkLines returns what the NVLinks count.
func linkLines(d DeviceSnapshot) []string {
	return slices.DeleteFunc(show(d), func(line string) bool {
		return !strings.HasPrefix(line, "nvlink_") || strings.HasPrefix(line, "nvlink_up") || strings.HasPrefix(line, "nvlink_version")
	})
}

// linksUp returns for how many links a device reports the state.
func linksUp(d DeviceSnapshot) int {
	n := 0
	for _, r := range d.Readings {
		if r.Kind == "nvlink_up" {
			n++
		}
	}
	return n
}

// What the links count is added up where there is no total; less than all of
// them is no value.
func TestLinkSums(t *testing.T) {
	device := b200("GPU-0")
	s := newTestSession(t, newFake(device), Options{})
	check := func(what string, want []string) {
		t.Helper()
		if diff := cmp.Diff(want, linkLines(s.must(t).Devices[0])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	check("before the links are known", []string{})
	all := []string{
		"nvlink_transmit_bytes_total 153000", // 1000 * (0 + 1 + ... + 17)
		"nvlink_receive_bytes_total 180",     // 18 * 10
		"nvlink_errors_total{malformed} 0",
		"nvlink_errors_total{buffer_overrun} 0",
		"nvlink_errors_total{receive} 12",
		"nvlink_errors_total{receive_general} 0",
		"nvlink_errors_total{link_integrity} 0",
		"nvlink_errors_total{transmit_discard} 0",
		"nvlink_errors_total{recovery} 5",
		"nvlink_errors_total{recovery_failed} 1",
	}
	check("all links", all)
	device.fieldFaults = map[Field]error{{202, 9}: failed(CodeNoData)}
	check("without one link", all[1:])
	device.fieldFaults = nil
	check("all links again", all)
}

// A GPU that has totals has no series twice.
func TestLinkTotals(t *testing.T) {
	device := h100("GPU-0")
	for link := range uint32(18) {
		device.fields[Field{202, link}], device.fields[Field{204, link}] = 1, 1
		device.fields[Field{215, link}], device.fields[Field{214, link}] = 1, 1
	}
	s := newTestSession(t, newFake(device), Options{})
	s.must(t)
	want := []string{
		"nvlink_transmit_bytes_total 10240",
		"nvlink_receive_bytes_total 20480",
		"nvlink_errors_total{crc_flit} 0",
		"nvlink_errors_total{crc_data} 0",
		"nvlink_errors_total{replay} 4",
		"nvlink_errors_total{recovery} 0",
		"nvlink_errors_total{recovery_failed} 18",
	}
	if diff := cmp.Diff(want, linkLines(s.must(t).Devices[0])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// There are as many links as the driver counts, and others are not asked for.
func TestLinkCount(t *testing.T) {
	for _, tt := range []struct {
		counted float64 // negative: not at all
		want    int
	}{{-1, 18}, {0, 0}, {4, 4}, {18, 18}, {36, 36}, {1000, 36}} {
		device := b200("GPU-0")
		for link := range uint32(64) {
			device.fields[Field{165, link}] = 1
		}
		delete(device.fields, Field{ID: 91})
		if tt.counted >= 0 {
			device.fields[Field{ID: 91}] = tt.counted
		}
		s := newTestSession(t, newFake(device), Options{})
		s.must(t)
		if got := linksUp(s.must(t).Devices[0]); got != tt.want {
			t.Errorf("%v counted: %d links, want %d", tt.counted, got, tt.want)
		}
		for _, f := range device.asked {
			if f.Scope != 0 && int(f.Scope) >= tt.want {
				t.Errorf("%v counted: field %v was asked", tt.counted, f)
			}
		}
	}
}

// What was refused of links while MIG was on is asked again.
func TestLinksAfterMIG(t *testing.T) {
	device := b200("GPU-0")
	device.numbers["MIG mode"] = []float64{1}
	device.fields[Field{ID: 91}] = 2
	device.fieldFaults = map[Field]error{{ID: 91}: failed(CodeNotSupported)}
	s := newTestSession(t, newFake(device), Options{})
	if n := linksUp(s.must(t).Devices[0]); n != 0 {
		t.Errorf("%d links under MIG", n)
	}
	device.numbers["MIG mode"], device.fieldFaults = []float64{0}, nil
	if n := linksUp(s.must(t).Devices[0]); n != 2 {
		t.Errorf("%d links, want 2", n)
	}
}

package gpu

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The GPUs here are composed: names, clocks, widths and which readings there
// are are those of the hardware, as far as documented; the rest is invented.

func h100(uuid string) *fakeDevice {
	d := &fakeDevice{
		uuid: uuid, name: "NVIDIA H100 80GB HBM3", bus: "00000000:19:00.0", capability: "9.0",
		memory:   &Memory{Total: 85899345920, Used: 76000000000, Free: 9362475008, Reserved: 536870912, ReservedKnown: true},
		busWidth: 5120, utilization: []int{100, 11}, decoder: []int{0},
		clocks:    map[ClockDomain]int{ClockGraphics: 1755, ClockSM: 1755, ClockMemory: 2619, ClockVideo: 1545},
		maxClocks: map[ClockDomain]int{ClockGraphics: 1980, ClockSM: 1980, ClockMemory: 2619, ClockVideo: 1545},
		power:     621345, powerLimit: 700000, energy: 123456789, temperature: 61,
		link: [2]int{5, 16}, linkMax: [2]int{5, 16}, replays: 3,
		ecc:     map[[2]bool]uint64{{false, false}: 2, {true, false}: 0, {false, true}: 17, {true, true}: 1},
		rows:    &RemappedRows{Correctable: 1, Pending: true},
		reasons: 0x4, fabric: 3, split: []bool{false}, gpm: shares,
		fields: map[Field]float64{
			{82, 0}: 71, {74, 0}: 5e9, {76, 0}: 0, {269, 0}: 1500000, {270, 0}: 0, {271, 0}: 0,
			{197, 0}: 1000, {198, 0}: 2000, {230, 0}: 0,
			{91, 0}: 18, {138, 0xFFFFFFFF}: 10, {139, 0xFFFFFFFF}: 20, {38, 0}: 0, {45, 0}: 0, {52, 0}: 4, {59, 0}: 0,
		},
	}
	for link := range uint32(18) {
		d.fields[Field{165, link}] = 1
		d.fields[Field{166, link}] = 6 // NVLink 4
	}
	d.fields[Field{165, 6}] = 2 // it sleeps
	d.fields[Field{165, 7}] = 0
	return d
}

// a100 is split in three MIG devices, two of them of one GPU instance.
func a100(uuid string) *fakeDevice {
	part := func(uuid, profile string, instance, compute int, total, used uint64) MIGDevice {
		return MIGDevice{GPUInstance: instance, ComputeInstance: compute, Device: &fakeDevice{
			uuid: uuid, name: "NVIDIA A100-SXM4-80GB MIG " + profile,
			memory: &Memory{Total: total, Used: used, Free: total - used},
		}}
	}
	return &fakeDevice{
		uuid: uuid, name: "NVIDIA A100-SXM4-80GB", bus: "00000000:07:00.0", capability: "8.0", minor: 2,
		memory:   &Memory{Total: 85899345920, Used: 30000000000, Free: 55899345920},
		busWidth: 5120, utilization: []int{1, 1}, encoder: []int{1}, decoder: []int{1},
		clocks:    map[ClockDomain]int{ClockGraphics: 1410, ClockSM: 1410, ClockMemory: 1593, ClockVideo: 1275},
		maxClocks: map[ClockDomain]int{ClockGraphics: 1410, ClockSM: 1410, ClockMemory: 1593, ClockVideo: 1290},
		power:     250000, powerLimit: 400000, energy: 1000, temperature: 40,
		link: [2]int{4, 16}, linkMax: [2]int{4, 16},
		ecc:  map[[2]bool]uint64{{false, false}: 0, {true, false}: 0, {false, true}: 0, {true, true}: 0},
		rows: &RemappedRows{}, split: []bool{true},
		fields: map[Field]float64{{82, 0}: 50, {138, 0xFFFFFFFF}: 1, {165, 0}: 1},
		parts: []MIGDevice{
			part("MIG-b", "1g.10gb", 9, 0, 10200547328, 4000000000),
			part("MIG-a2", "1c.3g.40gb", 2, 1, 42949672960, 20000000000),
			part("MIG-a1", "2c.3g.40gb", 2, 0, 42949672960, 20000000000),
		},
	}
}

func rtx4090(uuid string) *fakeDevice {
	return &fakeDevice{
		uuid: uuid, name: "NVIDIA GeForce RTX 4090", bus: "00000000:01:00.0", capability: "8.9",
		memory:   &Memory{Total: 25757220864, Used: 20000000000, Free: 5300000000, Reserved: 457220864, ReservedKnown: true},
		busWidth: 384, utilization: []int{37, 12}, encoder: []int{0}, decoder: []int{5},
		clocks:    map[ClockDomain]int{ClockGraphics: 2520, ClockSM: 2520, ClockMemory: 10251, ClockVideo: 1950},
		maxClocks: map[ClockDomain]int{ClockGraphics: 3105, ClockSM: 3105, ClockMemory: 10501, ClockVideo: 2415},
		power:     98765, powerLimit: 450000, energy: 1, temperature: 52, fans: []int{30, 104}, pstate: 2,
		link: [2]int{1, 8}, linkMax: [2]int{4, 16}, reasons: 0x1 | 0x20 | 0x100, fabric: 0,
		fields: map[Field]float64{{74, 0}: 1, {76, 0}: 0, {269, 0}: 0, {270, 0}: 0, {271, 0}: 0},
	}
}

// t4 has a driver that is too old for some of the questions.
func t4(uuid string) *fakeDevice {
	old := failed(CodeFunctionNotFound)
	return &fakeDevice{
		uuid: uuid, name: "Tesla T4", bus: "00000000:00:1E.0", capability: "7.5",
		memory:   &Memory{Total: 16106127360, Used: 15000000000, Free: 1106127360},
		busWidth: 256, utilization: []int{0, 0}, encoder: []int{0}, decoder: []int{0},
		clocks:    map[ClockDomain]int{ClockGraphics: 585, ClockSM: 585, ClockMemory: 5000, ClockVideo: 810},
		maxClocks: map[ClockDomain]int{ClockGraphics: 1590, ClockSM: 1590, ClockMemory: 5001, ClockVideo: 1470},
		power:     27500, powerLimit: 70000, energy: 500, temperature: 44,
		link: [2]int{3, 8}, linkMax: [2]int{3, 16},
		ecc: map[[2]bool]uint64{{false, false}: 0, {true, false}: 0, {false, true}: 0, {true, true}: 0},
		fail: map[string]error{
			"ClockEventReasons": old, "Fabric": old, "GPMSupported": old, "RemappedRows": old, "MIGEnabled": old, "Fields": old,
		},
	}
}

// What each GPU has is worked out by hand in its file: what the driver gives,
// brought to base units.
func TestHardware(t *testing.T) {
	for file, device := range map[string]*fakeDevice{
		"h100-sxm.txt": h100("GPU-h100"),
		"a100-mig.txt": a100("GPU-a100"),
		"rtx-4090.txt": rtx4090("GPU-4090"),
		"t4.txt":       t4("GPU-t4"),
	} {
		t.Run(file, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newTestSession(t, newFake(device), Options{})
				s.must(t)
				time.Sleep(4 * time.Second)
				wantReadings(t, file, s.must(t).devices[0])
			})
		})
	}
}

// wantReadings compares the readings of a device with those of a file.
func wantReadings(t *testing.T, file string, got DeviceSnapshot) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join("testdata", "readings", file))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(want)) {
		if line != "\n" && !strings.HasPrefix(line, "#") {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	if diff := cmp.Diff(lines, show(got)); diff != "" {
		t.Errorf("readings (-want +got):\n%s", diff)
	}
}

// show returns the readings of a device as lines.
func show(d DeviceSnapshot) []string {
	lines := showReadings("", d.Readings)
	for _, m := range d.MIG {
		head := m.UUID + " " + m.Profile + " " + strconv.Itoa(m.GPUInstance) + "/" + strconv.Itoa(m.ComputeInstance)
		lines = append(append(lines, head), showReadings(m.UUID+" ", m.Readings)...)
	}
	for _, v := range d.VGPUs {
		lines = append(lines, fmt.Sprintf("%s %s %q memory %.0f sm %v", v.UUID, v.VM, v.Profile, v.MemoryUsed, v.SMUtilization))
	}
	return lines
}

func showReadings(head string, list []Reading) []string {
	var lines []string
	for _, r := range list {
		line := head + string(r.Kind)
		if r.Label != "" {
			line += "{" + r.Label + "}"
		}
		lines = append(lines, line+" "+strconv.FormatFloat(r.Value, 'f', -1, 64))
	}
	return lines
}

// testSession is the poller's side of the library without its goroutine.
type testSession struct {
	*session
	library *fakeLibrary
}

func newTestSession(t *testing.T, l *fakeLibrary, o Options) testSession {
	s := testSession{newSession(l, o, testLogger(t)), l}
	s.progress = func() {}
	t.Cleanup(func() {
		s.close()
		noMisuse(t, l)
	})
	return s
}

// must does a cycle that is to succeed.
func (s testSession) must(t *testing.T) outcome {
	t.Helper()
	o := s.cycle(false)
	if o.state != StateUp {
		t.Fatalf("state %s: %v", o.state, o.err)
	}
	return o
}

// noMisuse fails when the library was used against its contract, or not closed.
func noMisuse(t *testing.T, l *fakeLibrary) {
	t.Helper()
	l.Lock()
	defer l.Unlock()
	for _, m := range l.misuse {
		t.Error(m)
	}
	if l.samples != 0 {
		t.Errorf("%d samples are not freed", l.samples)
	}
}

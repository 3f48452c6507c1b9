package gpu

import (
	"fmt"
	"maps"
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

// card returns a GPU with texts and what most of them answer.
func card(uuid, name, bus, capability string, numbers map[string][]float64) *fakeDevice {
	all := map[string][]float64{"minor number": {0}, "performance state": {0}, "PCIe replays": {0}, "clock event reasons": {0}}
	maps.Copy(all, numbers)
	return &fakeDevice{
		texts:   map[string]string{"UUID": uuid, "name": name, "PCI bus id": bus, "compute capability": capability},
		numbers: all,
	}
}

func h100(uuid string) *fakeDevice {
	d := card(uuid, "NVIDIA H100 80GB HBM3", "00000000:19:00.0", "9.0", map[string][]float64{
		"memory": {85899345920, 76000000000, 9362475008, 536870912}, "memory bus width": {5120},
		"utilization": {100, 11}, "decoder utilization": {0},
		"clock graphics": {1755}, "clock sm": {1755}, "clock memory": {2619}, "clock video": {1545},
		"highest clock graphics": {1980}, "highest clock sm": {1980}, "highest clock memory": {2619}, "highest clock video": {1545},
		"power": {621345}, "power limit": {700000}, "energy": {123456789}, "temperature": {61},
		"PCIe generation": {5}, "PCIe width": {16}, "highest PCIe generation": {5}, "highest PCIe width": {16}, "PCIe replays": {3},
		"ECC errors, corrected": {2}, "ECC errors, uncorrected": {0}, "ECC errors, corrected, lifetime": {17}, "ECC errors, uncorrected, lifetime": {1},
		"remapped rows": {1, 0, 1, 0}, "clock event reasons": {0x4}, "fabric state": {3, 1}, "MIG mode": {0}, "unit counters": {1},
		"default power limit": {700000}, "requested power limit": {650000}, "temperature margin": {26}, "row remapper": {640, 0, 0, 0, 0},
		"SRAM ECC errors": {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, "repair": {0, 0}, "unrepairable memory": {0},
	})
	d.gpm = shares
	d.fields = map[Field]float64{
		{82, 0}: 71, {74, 0}: 5e9, {76, 0}: 0, {269, 0}: 1500000, {270, 0}: 0, {271, 0}: 0,
		{197, 0}: 1000, {198, 0}: 2000, {230, 0}: 0, {173, 0}: 3, {194, 0}: -2,
		{91, 0}: 18, {138, allLinks}: 10, {139, allLinks}: 20, {38, 0}: 0, {45, 0}: 0, {52, 0}: 4, {59, 0}: 0,
	}
	for link := range uint32(18) {
		d.fields[Field{165, link}] = 1
		d.fields[Field{166, link}] = 6 // NVLink 4
	}
	d.fields[Field{165, 6}] = 2 // it sleeps
	d.fields[Field{165, 7}] = 0
	return d
}

// allLinks is the scope of a field for the sum over all NVLinks.
const allLinks = 0xFFFFFFFF

// a100 is split in three MIG devices, two of them of one GPU instance.
func a100(uuid string) *fakeDevice {
	part := func(uuid, profile string, instance, compute int, total, used float64) MIGDevice {
		return MIGDevice{GPUInstance: instance, ComputeInstance: compute, Device: &fakeDevice{
			texts:   map[string]string{"UUID": uuid, "name": "NVIDIA A100-SXM4-80GB MIG " + profile},
			numbers: map[string][]float64{"memory": {total, used, total - used}},
		}}
	}
	d := card(uuid, "NVIDIA A100-SXM4-80GB", "00000000:07:00.0", "8.0", map[string][]float64{
		"minor number": {2}, "memory": {85899345920, 30000000000, 55899345920}, "memory bus width": {5120},
		"utilization": {1, 1}, "encoder utilization": {1}, "decoder utilization": {1},
		"clock graphics": {1410}, "clock sm": {1410}, "clock memory": {1593}, "clock video": {1275},
		"highest clock graphics": {1410}, "highest clock sm": {1410}, "highest clock memory": {1593}, "highest clock video": {1290},
		"power": {250000}, "power limit": {400000}, "energy": {1000}, "temperature": {40},
		"PCIe generation": {4}, "PCIe width": {16}, "highest PCIe generation": {4}, "highest PCIe width": {16},
		"ECC errors, corrected": {0}, "ECC errors, uncorrected": {0}, "ECC errors, corrected, lifetime": {0}, "ECC errors, uncorrected, lifetime": {0},
		"remapped rows": {0, 0, 0, 0}, "MIG mode": {1}, "row remapper": {640, 0, 0, 0, 0},
		"temperature of shutdown": {92}, "temperature of slowdown": {89}, "temperature of memory maximum": {95}, "temperature of GPU maximum": {85},
	})
	d.fields = map[Field]float64{{82, 0}: 50, {138, allLinks}: 1, {165, 0}: 1}
	d.parts = []MIGDevice{
		part("MIG-b", "1g.10gb", 9, 0, 10200547328, 4000000000),
		part("MIG-a2", "1c.3g.40gb", 2, 1, 42949672960, 20000000000),
		part("MIG-a1", "2c.3g.40gb", 2, 0, 42949672960, 20000000000),
	}
	return d
}

func rtx4090(uuid string) *fakeDevice {
	d := card(uuid, "NVIDIA GeForce RTX 4090", "00000000:01:00.0", "8.9", map[string][]float64{
		"memory": {25757220864, 20000000000, 5300000000, 457220864}, "memory bus width": {384},
		"utilization": {37, 12}, "encoder utilization": {0}, "decoder utilization": {5},
		"clock graphics": {2520}, "clock sm": {2520}, "clock memory": {10251}, "clock video": {1950},
		"highest clock graphics": {3105}, "highest clock sm": {3105}, "highest clock memory": {10501}, "highest clock video": {2415},
		"power": {98765}, "power limit": {450000}, "energy": {1}, "temperature": {52}, "fans": {30, 104}, "performance state": {2},
		"PCIe generation": {1}, "PCIe width": {8}, "highest PCIe generation": {4}, "highest PCIe width": {16},
		"clock event reasons": {0x1 | 0x20 | 0x100},
	})
	d.fields = map[Field]float64{{74, 0}: 1, {76, 0}: 0, {269, 0}: 0, {270, 0}: 0, {271, 0}: 0}
	return d
}

// t4 has a driver that is too old for some of the questions.
func t4(uuid string) *fakeDevice {
	d := card(uuid, "Tesla T4", "00000000:00:1E.0", "7.5", map[string][]float64{
		"memory": {16106127360, 15000000000, 1106127360}, "memory bus width": {256},
		"utilization": {0, 0}, "encoder utilization": {0}, "decoder utilization": {0},
		"clock graphics": {585}, "clock sm": {585}, "clock memory": {5000}, "clock video": {810},
		"highest clock graphics": {1590}, "highest clock sm": {1590}, "highest clock memory": {5001}, "highest clock video": {1470},
		"power": {27500}, "power limit": {70000}, "energy": {500}, "temperature": {44},
		"PCIe generation": {3}, "PCIe width": {8}, "highest PCIe generation": {3}, "highest PCIe width": {16},
		"ECC errors, corrected": {0}, "ECC errors, uncorrected": {0}, "ECC errors, corrected, lifetime": {0}, "ECC errors, uncorrected, lifetime": {0},
	})
	old := failed(CodeFunctionNotFound)
	d.fail = map[string]error{
		"clock event reasons": old, "fabric state": old, "unit counters": old, "remapped rows": old, "MIG mode": old, "Fields": old,
	}
	return d
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
				wantReadings(t, file, s.must(t).Devices[0])
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
	if d.Place != (Place{}) {
		lines = append(lines, fmt.Sprintf("place %+v", d.Place))
	}
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
	o.Logger = testLogger(t)
	s := testSession{newSession(l, newPoller(SourceNVML, o)), l}
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
	if o.State != StateUp {
		t.Fatalf("state %s: %v", o.State, o.Err)
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

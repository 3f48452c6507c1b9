//go:build unix

package gpu

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// sysfs makes a sysfs of recorded cards.
func sysfs(t *testing.T, files ...string) string {
	t.Helper()
	for i := range files {
		files[i] = filepath.Join("testdata/amd", files[i])
	}
	return testlab.Sysfs(t, files...)
}

func scanOnce(t *testing.T, s *amdgpu) scanned {
	t.Helper()
	found, err := s.scan(func(string, string) {})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// lines returns readings as text, sorted.
func linesOf(d DeviceSnapshot) []string {
	var all []string
	for _, r := range d.Readings {
		name := string(r.Kind)
		if r.Label != "" {
			name += "{" + r.Label + "}"
		}
		all = append(all, fmt.Sprintf("%s %v", name, r.Value))
	}
	slices.Sort(all)
	return all
}

func expectLines(t *testing.T, d DeviceSnapshot, want string) {
	t.Helper()
	all := strings.Split(strings.TrimSpace(want), "\n")
	for i, l := range all {
		all[i] = strings.TrimSpace(l)
	}
	slices.Sort(all)
	if got := linesOf(d); !slices.Equal(got, all) {
		t.Errorf("%s:\n%s\nwant\n%s", d.UUID, strings.Join(got, "\n"), strings.Join(all, "\n"))
	}
}

// The expected values are worked out by hand from the recorded files.
func TestScan(t *testing.T) {
	t.Run("RX 7800 XT", func(t *testing.T) {
		d := scanOnce(t, &amdgpu{sys: sysfs(t, "rx7800xt.txt")}).devices[0]
		if d.UUID != "PCI-0000:03:00.0" || d.PCIBusID != "0000:03:00.0" || d.Name != "AMD 1002:747e" || d.Vendor != AMD || !d.Up {
			t.Errorf("%+v", d)
		}
		expectLines(t, d, `
			utilization_ratio 0.02
			power_watts 32
			power_limit_watts 236
			temperature_celsius{gpu} 24
			temperature_celsius{junction} 31
			temperature_celsius{memory} 48
			clock_hertz{graphics} 2.011e+09
			clock_hertz{memory} 4.56e+08
			clock_max_hertz{graphics} 2.254e+09
			clock_max_hertz{memory} 1.218e+09
			fan_speed_ratio{0} 0.34901960784313724
			pcie_link_generation 4
			pcie_link_width 16
			clock_event_active{sw_power_cap} 0
			clock_event_active{current_limit} 0
			clock_event_active{hw_thermal} 0
			clock_event_active{hw_power_brake} 0`)
	})
	t.Run("integrated", func(t *testing.T) {
		d := scanOnce(t, &amdgpu{sys: sysfs(t, "phoenix.txt")}).devices[0]
		if d.UUID != "PCI-0000:64:00.0" || d.Name != "AMD 1002:15bf" {
			t.Errorf("%+v", d)
		}
		// 4294967296 + 31433977856 and 1272893440 + 211398656 bytes: what is set aside, and GTT.
		expectLines(t, d, `
			memory_total_bytes 3.5728945152e+10
			memory_used_bytes 1.484292096e+09
			memory_free_bytes 3.4244653056e+10
			utilization_ratio 0
			power_watts 3.103
			temperature_celsius{gpu} 25
			clock_hertz{graphics} 8e+08
			clock_hertz{memory} 4e+08
			clock_max_hertz{graphics} 2.7e+09
			clock_max_hertz{memory} 8e+08
			pcie_link_generation 4
			pcie_link_generation_max 4
			pcie_link_width 16
			pcie_link_width_max 16`)
	})
	t.Run("Instinct", func(t *testing.T) {
		sys := sysfs(t, "mi300x.txt")
		m := metrics16(t)
		file := filepath.Join(sys, "devices/mi300x/gpu_metrics")
		testlab.WriteFile(t, file, m.bytes(t))
		s := &amdgpu{sys: sys}
		d := scanOnce(t, s).devices[0]
		if d.UUID != "GPU-0123456789abcdef" || d.Name != "AMD Instinct MI300X" {
			t.Errorf("%+v", d)
		}
		m.PPTResidency += 10
		testlab.WriteFile(t, file, m.bytes(t))
		// 65536 × 2^-16 J; 7 links of 1000 and of 500 KiB, while the eighth is not there.
		expectLines(t, scanOnce(t, s).devices[0], `
			memory_total_bytes 2.06141652992e+11
			memory_used_bytes 1.8e+11
			memory_free_bytes 2.6141652992e+10
			utilization_ratio 0.97
			memory_utilization_ratio 0.41
			power_watts 612
			power_limit_watts 750
			power_limit_default_watts 750
			energy_joules_total 1
			temperature_celsius{gpu} 71
			temperature_celsius{junction} 71
			temperature_celsius{memory} 58
			clock_hertz{graphics} 1.87e+09
			clock_hertz{memory} 1.3e+09
			clock_max_hertz{graphics} 2.1e+09
			clock_max_hertz{memory} 1.3e+09
			clock_event_active{sw_power_cap} 1
			clock_event_active{hw_thermal} 0
			clock_event_active{hw_power_brake} 0
			pcie_link_generation 5
			pcie_link_generation_max 5
			pcie_link_width 8
			pcie_link_width_max 16
			pcie_replays_total 3
			xgmi_receive_bytes_total 7.168e+06
			xgmi_transmit_bytes_total 3.584e+06
			xgmi_errors_total{corrected} 2
			xgmi_errors_total{uncorrected} 0
			ecc_errors_total{corrected} 15
			ecc_errors_total{uncorrected} 1`)
	})
}

// The documentation has what is read, and nothing else.
func TestFiles(t *testing.T) {
	sys := sysfs(t, "mi300x.txt", "rx7800xt.txt")
	testlab.WriteFile(t, filepath.Join(sys, "devices/mi300x/gpu_metrics"), metrics16(t).bytes(t))
	documented, read := map[Kind]bool{}, map[Kind]bool{}
	for _, info := range Readings() {
		documented[info.Kind] = info.AMDGPU != ""
	}
	for _, d := range scanOnce(t, &amdgpu{sys: sys}).devices {
		for _, r := range d.Readings {
			read[r.Kind] = true
			if !documented[r.Kind] {
				t.Errorf("%s is not documented", r.Kind)
			}
		}
	}
	for kind, is := range documented {
		if is && !read[kind] {
			t.Errorf("%s is not read", kind)
		}
	}
}

// The residencies of an integrated GPU with gpu_metrics 3.0 count from the second scan on.
func TestResidencies(t *testing.T) {
	sys := sysfs(t, "strixpoint.txt")
	s := &amdgpu{sys: sys}
	if d := scanOnce(t, s).devices[0]; strings.Contains(strings.Join(linesOf(d), "\n"), "clock_event_active") {
		t.Errorf("a first scan knows what grew: %q", linesOf(d))
	}
	file := filepath.Join(sys, "devices/strixpoint/gpu_metrics")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	data[248]++ // throttle_residency_thm_gfx
	testlab.WriteFile(t, file, data)
	got := strings.Join(linesOf(scanOnce(t, s).devices[0]), "\n")
	for _, want := range []string{"clock_event_active{hw_thermal} 1", "clock_event_active{sw_power_cap} 0", "clock_event_active{hw_power_brake} 0"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

// Several cards have the order of their PCI addresses; other drivers' cards are none.
func TestCards(t *testing.T) {
	sys := sysfs(t, "phoenix.txt", "rx7800xt.txt")
	testlab.WriteFile(t, filepath.Join(sys, "class/drm/card9/device/vendor"), []byte("0x1002\n"))
	testlab.WriteFile(t, filepath.Join(sys, "class/drm/card9/device/uevent"), []byte("DRIVER=radeon\n"))
	testlab.WriteFile(t, filepath.Join(sys, "class/drm/card8/device/vendor"), []byte("0x1a03\n"))
	testlab.WriteFile(t, filepath.Join(sys, "class/drm/card1-DP-1/status"), []byte("connected\n"))
	found := scanOnce(t, &amdgpu{sys: sys})
	if len(found.devices) != 2 || found.devices[0].PCIBusID != "0000:03:00.0" || found.devices[1].Index != 1 || found.driver != "6.12.12" {
		t.Errorf("%+v", found)
	}
	if amd, nvidia := VendorsPresent(sys); !amd || nvidia {
		t.Errorf("present: AMD %t, NVIDIA %t", amd, nvidia)
	}
	_, err := (&amdgpu{sys: t.TempDir()}).scan(func(string, string) {})
	if !hasCode(err, CodeLibraryNotFound) {
		t.Errorf("without a card: %v", err)
	}
	if amd, nvidia := VendorsPresent(t.TempDir()); amd || nvidia {
		t.Error("a GPU in an empty directory")
	}
}

// A card that sleeps is not woken, and one that refuses to answer has no readings.
func TestSilentCards(t *testing.T) {
	sys := sysfs(t, "rx7800xt.txt")
	device := filepath.Join(sys, "devices/rx7800xt")
	testlab.WriteFile(t, filepath.Join(device, "power/runtime_status"), []byte("suspended\n"))
	if d := scanOnce(t, &amdgpu{sys: sys}).devices[0]; !d.Up || len(d.Readings) > 0 {
		t.Errorf("a card that sleeps: %+v", d)
	}
	testlab.WriteFile(t, filepath.Join(device, "power/runtime_status"), []byte("active\n"))
	for _, name := range []string{"gpu_metrics", "gpu_busy_percent"} {
		if err := os.Remove(filepath.Join(device, name)); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(filepath.Join(device, name), 0o750); err != nil { // a read fails with EISDIR
			t.Fatal(err)
		}
	}
	found := scanOnce(t, &amdgpu{sys: sys})
	d := found.devices[0]
	got := strings.Join(linesOf(d), "\n")
	if !d.Up || strings.Contains(got, "utilization") || !strings.Contains(got, "power_watts 32") {
		t.Errorf("a card that does not answer everything: %v\n%s", d.Up, got)
	}
	if found.problems["gpu_busy_percent"] == nil || found.problems["gpu_metrics"] == nil || len(found.problems) != 2 {
		t.Errorf("problems: %v", found.problems)
	}
}

// A driver that has no answer yet is not waited for.
func TestFileWithoutAnswer(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe") // a read fails with EAGAIN while it is open for writing and empty
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pipe.Close() }()
	if data, err := readFile(name); fileCode(err) != CodeNoData {
		t.Errorf("%q, %v", data, err)
	}
}

// Bytes that are no gpu_metrics, or too few, give nothing and no panic.
func TestBadMetrics(t *testing.T) {
	full := metrics16(t).bytes(t)
	for n := range full {
		if _, ok := parseMetrics(full[:n]); ok {
			t.Fatalf("%d of %d bytes are taken", n, len(full))
		}
	}
	short := slices.Clone(full[:64])
	binary.LittleEndian.PutUint16(short, 64)
	m, ok := parseMetrics(short)
	if list, _ := m.readings(nil); !ok || len(list) > 0 {
		t.Errorf("of a structure that is too small: %v", list)
	}
	unknown := slices.Clone(full)
	unknown[3] = 99
	m, _ = parseMetrics(unknown)
	if list, _ := m.readings(map[int]uint32{108: 1}); len(list) > 0 {
		t.Errorf("of an unknown version: %v", list)
	}
}

// The offsets follow from the fields of the structures in the kernel's header, by the rules
// of alignment in C. The recorded files have the sizes of 1.3 and 3.0.
func TestLayouts(t *testing.T) {
	type field struct{ size, count int }
	u8, u16, u32, u64 := func(n int) field { return field{1, n} }, func(n int) field { return field{2, n} },
		func(n int) field { return field{4, n} }, func(n int) field { return field{8, n} }
	header := []field{u16(1), u8(2)}
	// v13 is up to indep_throttle_status, v2 up to that of 2.2.
	v13 := append(slices.Clone(header), u16(10), u64(2), u16(14), u32(1), u16(3), u16(1), u32(2), u16(4), u64(1), u16(3), u16(1))
	v2 := append(slices.Clone(header), u16(12), u16(2), u64(1), u16(4), u16(8), u16(6), u16(6), u16(8), u16(2), u32(1), u16(1), u16(3))
	v14 := append(slices.Clone(header), u16(4), u16(2), u16(4))
	v15 := append(slices.Clone(v14), u16(32))
	link := []field{u64(2), u32(2), u16(4), u32(2), u64(5)}
	v3 := append(slices.Clone(header), u16(2), u16(16), u16(1), u16(2), u16(8), u16(16), u16(4), u64(1), u32(1), u16(1), u32(4),
		u16(16), u16(3), u16(8), u16(16), u16(2))
	end := func(parts ...[]field) int { // of the last field
		offset := 0
		for _, f := range slices.Concat(parts...) {
			offset = (offset + f.size - 1) / f.size * f.size
			offset += f.size * f.count
		}
		return offset
	}
	at := func(size int, parts ...[]field) int { return end(append(parts, []field{{size, 0}})...) }
	want := amd().Layouts
	for _, f := range []struct {
		name      string
		got, want int
	}{
		{"1.3 throttle", want["1.3"].Throttle, at(8, v13)},
		{"2.2 throttle", want["2.2"].Throttle, at(8, v2)},
		{"2.3 size", want["2.3"].Size, at(8, v2, []field{u64(1), u16(12)})},
		{"2.4 size", want["2.4"].Size, at(8, v2, []field{u64(1), u16(12), u16(6)})},
		{"1.4 energy", want["1.4"].Energy, at(8, v14)},
		{"1.4 read", want["1.4"].XGMIRead, at(8, v14, link)},
		{"1.4 write", want["1.4"].XGMIWrite, at(8, v14, link, []field{u64(8)})},
		{"1.4 size", want["1.4"].Size, at(8, v14, link, []field{u64(16), u64(1), u16(8), u16(12), u16(2)})},
		{"1.5 energy", want["1.5"].Energy, at(8, v15)},
		{"1.5 read", want["1.5"].XGMIRead, at(8, v15, link, []field{u32(2)})},
		{"1.5 write", want["1.5"].XGMIWrite, at(8, v15, link, []field{u32(2), u64(8)})},
		{"1.5 size", want["1.5"].Size, at(8, v15, link, []field{u32(2), u64(16), u64(1), u16(8), u16(12), u16(2)})},
		{"3.0 prochot", want["3.0"].Residencies["hw_power_brake"][0], at(4, v3)},
	} {
		if f.got != f.want {
			t.Errorf("%s: %d, want %d", f.name, f.got, f.want)
		}
	}
}

// gpuMetrics16 is struct gpu_metrics_v1_6 of kgd_pp_interface.h, whose fields are aligned.
type gpuMetrics16 struct {
	Size                                                                                     uint16
	Format, Content                                                                          uint8
	Hotspot, Memory, VRSoC, Power, GFX, UMC                                                  uint16
	VCN                                                                                      [4]uint16
	JPEG                                                                                     [32]uint16
	Energy, Clock                                                                            uint64
	Accumulation, ProchotResidency, PPTResidency, SocketResidency, VRResidency, HBMResidency uint32
	Throttle, Lock                                                                           uint32
	PCIeWidth, PCIeSpeed, XGMIWidth, XGMISpeed                                               uint16
	GFXActivity, MemoryActivity                                                              uint32
	PCIeBandwidth, PCIeBandwidthNow, Recoveries, Replays, Rollovers                          uint64
	NAKSent, NAKReceived                                                                     uint32
	XGMIRead, XGMIWrite                                                                      [8]uint64
	FirmwareTime                                                                             uint64
	GFXClock                                                                                 [8]uint16
	SoCClock, VClock, DClock                                                                 [4]uint16
	UClock, Padding                                                                          uint16
	Tail                                                                                     uint32 // C pads to 8 bytes
}

func (m *gpuMetrics16) bytes(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	m.Size = uint16(binary.Size(m))
	if err := binary.Write(&b, binary.LittleEndian, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func metrics16(t *testing.T) *gpuMetrics16 {
	t.Helper()
	m := &gpuMetrics16{
		Format: 1, Content: 6, Energy: 1 << 16, Accumulation: 77, ProchotResidency: 1, PPTResidency: 2,
		SocketResidency: 3, VRResidency: 4, HBMResidency: 5, Throttle: 6, Lock: 7, PCIeBandwidth: 8, Replays: 9,
	}
	for i := range 7 {
		m.XGMIRead[i], m.XGMIWrite[i] = 1000, 500
	}
	m.XGMIRead[7], m.XGMIWrite[7] = 1<<64-1, 1<<64-1
	return m
}

package gpu

import (
	"slices"
	"testing"
)

// A GPU that several sources read is shown once, as the first of them reads it. The cards of
// AMD are known by what both forms of their UUIDs have in common.
func TestDevicesOfSeveralSources(t *testing.T) {
	of := func(source string, vendor Vendor, uuids ...string) *Snapshot {
		s := &Snapshot{Source: source}
		for _, uuid := range uuids {
			s.Devices = append(s.Devices, DeviceSnapshot{UUID: uuid, Vendor: vendor})
		}
		return s
	}
	f := func(name string, all Snapshots, devices, copies []string) {
		t.Helper()
		var gotDevices, gotCopies []string
		for s, d := range all.Devices() {
			gotDevices = append(gotDevices, s.Source+" "+d.UUID)
		}
		for s, d := range all.Copies() {
			gotCopies = append(gotCopies, s.Source+" "+d.UUID)
		}
		if !slices.Equal(gotDevices, devices) || !slices.Equal(gotCopies, copies) {
			t.Errorf("%s: got %q and the copies %q, want %q and %q", name, gotDevices, gotCopies, devices, copies)
		}
	}
	nvml := of(SourceNVML, NVIDIA, "GPU-a", "GPU-b")
	f("a driver alone", Snapshots{nvml}, []string{"nvml GPU-a", "nvml GPU-b"}, nil)
	f("a page of the same machine and another", Snapshots{nvml, of("dcgm", NVIDIA, "GPU-b", "GPU-c")},
		[]string{"nvml GPU-a", "nvml GPU-b", "dcgm GPU-c"}, []string{"dcgm GPU-b"})
	// The number 0xcce0c6d49f5b0d86 of an MI300X (device 74a1), as amdsmi_uuid_gen writes it.
	const card, page = "GPU-cce0c6d49f5b0d86", "ccff74a1-0000-1000-80e0-c6d49f5b0d86"
	sysfs := of("amdgpu", AMD, card, "PCI-0000:64:00.0")
	f("AMD", Snapshots{sysfs, of("amd", AMD, page, "17ff74b5-0000-1000-805c-37b0fbe69430")},
		[]string{"amdgpu " + card, "amdgpu PCI-0000:64:00.0", "amd 17ff74b5-0000-1000-805c-37b0fbe69430"}, []string{"amd " + page})
	partitions := of("amd", AMD, "cc0074a1-0000-1000-80e0-c6d49f5b0d86", "cc0174a1-0000-1000-80e0-c6d49f5b0d86")
	f("partitions of a card", Snapshots{partitions}, []string{"amd " + partitions.Devices[0].UUID, "amd " + partitions.Devices[1].UUID}, nil)
	f("partitions of a card of this machine", Snapshots{sysfs, partitions}, []string{"amdgpu " + card, "amdgpu PCI-0000:64:00.0"},
		[]string{"amd " + partitions.Devices[0].UUID, "amd " + partitions.Devices[1].UUID})
	f("other vendors", Snapshots{of("x", Intel, page), of("y", Intel, "GPU-cce0c6d49f5b0d86")}, []string{"x " + page, "y " + card}, nil)
}

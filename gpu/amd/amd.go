// Package amd reads AMD's GPUs by the files of the kernel's driver amdgpu: sysfs and
// hwmon, without a library. It needs no device and no permission.
package amd

import (
	"cmp"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/inference-exporter/inference_exporter/gpu"
)

// Source is the name of the source.
const Source = "amdgpu"

// The ids of PCI.
const (
	vendorAMD    = "0x1002"
	vendorNVIDIA = "0x10de"
)

// Present reports which GPUs the PCI bus lists, whether they have a driver or not. sys is
// the directory of sysfs.
func Present(sys string) (amd, nvidia bool) {
	devices, _ := filepath.Glob(filepath.Join(sys, "bus/pci/devices/*")) // the pattern is well-formed
	for _, device := range devices {
		d := newDirectory(device, nil)
		class := d.text("class")
		// 0x03 is a display controller, 0x12 a processing accelerator.
		if !strings.HasPrefix(class, "0x03") && !strings.HasPrefix(class, "0x12") {
			continue
		}
		switch d.text("vendor") {
		case vendorAMD:
			amd = true
		case vendorNVIDIA:
			nvidia = true
		}
	}
	return amd, nvidia
}

// New returns a scanner of the GPUs of this machine. sys is the directory of sysfs, which is
// /sys.
func New(sys string) gpu.Scanner { return &scanner{sys: sys, residencies: map[string]map[int]uint32{}} }

type scanner struct {
	sys string
	// residencies are those of the latest scan, by UUID and offset.
	residencies map[string]map[int]uint32
}

// Source implements gpu.Scanner.
func (s *scanner) Source() string { return Source }

// Scan implements gpu.Scanner.
func (s *scanner) Scan(asking func(device, question string)) (gpu.Scan, error) {
	cards := s.cards()
	if len(cards) == 0 {
		return gpu.Scan{}, &gpu.Error{Call: "find GPUs of amdgpu", Code: gpu.CodeLibraryNotFound, Detail: "no card in class/drm has this driver"}
	}
	driver := newDirectory(filepath.Join(s.sys, "module/amdgpu"), nil)
	found := gpu.Scan{Driver: driver.text("version"), Problems: map[string]error{}}
	before := s.residencies
	s.residencies = map[string]map[int]uint32{}
	for i, pci := range slices.Sorted(maps.Keys(cards)) {
		c := card{
			directory:      newDirectory(cards[pci], func(name string) { asking(pci, name) }),
			DeviceSnapshot: gpu.DeviceSnapshot{Vendor: gpu.AMD, Index: i, Minor: -1, Up: true, PCIBusID: pci},
		}
		c.identify()
		if c.text("power/runtime_status") != "suspended" { // to read would wake it
			s.residencies[c.UUID] = c.readAll(before[c.UUID])
		}
		for name, err := range c.failed {
			found.Problems[generic(name)] = &gpu.Error{Call: name, Code: codeOf(err), Detail: err.Error()}
		}
		found.Devices = append(found.Devices, c.DeviceSnapshot)
	}
	return found, nil
}

// generic returns the name of a file without the number of its hwmon.
func generic(name string) string { return hwmonNumber.ReplaceAllString(name, "hwmon") }

var hwmonNumber = regexp.MustCompile(`hwmon\d+`)

// cards returns the directories of the cards of the driver, by their PCI address. Parts of
// a card that is split have no files of their own and are left out.
func (s *scanner) cards() map[string]string {
	class := newDirectory(filepath.Join(s.sys, "class/drm"), nil)
	found := map[string]string{}
	for _, name := range class.names("card[0-9]*") {
		if strings.Contains(name, "-") { // a connector
			continue
		}
		path := filepath.Join(class.path, name, "device")
		d := newDirectory(path, nil)
		uevent := fields(d.text("uevent"), "=")
		driver := cmp.Or(link(filepath.Join(path, "driver")), uevent["DRIVER"])
		if driver == "amdgpu" && d.text("vendor") == vendorAMD {
			found[cmp.Or(uevent["PCI_SLOT_NAME"], link(path), name)] = path
		}
	}
	return found
}

func newDirectory(path string, asking func(name string)) *directory {
	if asking == nil {
		asking = func(string) {}
	}
	return &directory{path: path, asking: asking, failed: map[string]error{}}
}

// fields returns the lines of a text as names and values.
func fields(text, separator string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(line, separator); ok {
			all[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	return all
}

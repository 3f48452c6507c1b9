// Package amd reads AMD's GPUs by the files of the kernel's driver amdgpu: sysfs and
// hwmon, without a library. It needs no device and no permission.
package amd

import (
	"cmp"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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

// card is one GPU while it is read.
type card struct {
	*directory
	gpu.DeviceSnapshot
}

// add adds a reading unless a better source gave it already.
func (c *card) add(kind gpu.Kind, label string, value float64) {
	if !slices.ContainsFunc(c.Readings, func(r gpu.Reading) bool { return r.Kind == kind && r.Label == label }) {
		c.Readings = append(c.Readings, gpu.Reading{Kind: kind, Label: label, Value: value})
	}
}

// numberFile is a file with one number.
type numberFile struct {
	kind gpu.Kind
	file string
	per  float64 // units of the file in one of the reading
}

// numberFiles are those of a card, the better one of a kind first.
func numberFiles() []numberFile {
	return []numberFile{
		{gpu.Utilization, "gpu_busy_percent", 100},
		{gpu.MemoryUtilization, "mem_busy_percent", 100},
		{gpu.Power, "hwmon/hwmon*/power1_average", 1e6},
		{gpu.Power, "hwmon/hwmon*/power1_input", 1e6},
		{gpu.PowerLimit, "hwmon/hwmon*/power1_cap", 1e6},
		{gpu.Energy, "hwmon/hwmon*/energy1_input", 1e6},
		{gpu.PCIeReplays, "pcie_replay_count", 1},
	}
}

// identify sets the identity. The UUID is that of rocminfo; integrated GPUs and older cards
// have none, and are identified by their PCI address.
func (c *card) identify() {
	c.UUID = "PCI-" + c.PCIBusID
	if id := c.text("unique_id"); id != "" && strings.Trim(id, "0") != "" {
		c.UUID = "GPU-" + strings.TrimPrefix(id, "0x")
	}
	device := strings.TrimPrefix(c.text("device"), "0x")
	if device == "" {
		_, device, _ = strings.Cut(fields(c.text("uevent"), "=")["PCI_ID"], ":")
	}
	device = strings.ToLower(device)
	c.Name = cmp.Or(c.text("product_name"), productNames()[device+" "+strings.TrimPrefix(c.text("revision"), "0x")], "AMD 1002:"+device)
}

// productNames are the names of products by device id and revision of PCI, for boards whose
// product_name is empty: those that serve models, by data/amdgpu.ids of libdrm.
func productNames() map[string]string {
	return map[string]string{
		"738c 01": "AMD Instinct MI100", "740f 02": "AMD Instinct MI210", "74a0 00": "AMD Instinct MI300A",
		"74a1 00": "AMD Instinct MI300X", "74a5 00": "AMD Instinct MI325X", "75a0 00": "AMD Instinct MI350X", "75a3 00": "AMD Instinct MI355X",
		"7448 00": "AMD Radeon PRO W7900", "745e cc": "AMD Radeon PRO W7800", "744c c8": "AMD Radeon RX 7900 XTX",
		"744c cc": "AMD Radeon RX 7900 XT", "744c ce": "AMD Radeon RX 7900 GRE", "747e c8": "AMD Radeon RX 7800 XT",
		"7550 c0": "AMD Radeon RX 9070 XT", "7550 c3": "AMD Radeon RX 9070", "7551 c0": "AMD Radeon AI PRO R9700",
	}
}

// readAll adds all readings and returns the residencies of gpu_metrics. A GPU of which no
// file can be read, while they are there, is lost.
func (c *card) readAll(before map[int]uint32) map[int]uint32 {
	c.read = 0
	m, hasMetrics := parseMetrics(c.bytes("gpu_metrics"))
	c.readMemory(hasMetrics && m.integrated())
	for _, f := range numberFiles() {
		for _, file := range c.names(f.file) {
			if v, ok := c.number(file); ok {
				c.add(f.kind, "", v/f.per)
			}
		}
	}
	for _, hwmon := range c.names("hwmon/hwmon*") {
		c.readSensors(hwmon)
	}
	c.readClockTable("pp_dpm_sclk", "graphics")
	c.readClockTable("pp_dpm_mclk", "memory")
	c.readLink()
	c.readErrors()
	if c.read == 0 && len(c.failed) > 0 {
		for _, err := range c.failed {
			c.Up = c.Up && codeOf(err) != gpu.CodeLost
		}
		return nil
	}
	if !hasMetrics {
		return nil
	}
	list, residencies := m.readings(before)
	for _, r := range list {
		c.add(r.Kind, r.Label, r.Value)
	}
	return residencies
}

// readMemory adds the memory that programs on the GPU can have: of a card its own, of an
// integrated GPU the part of the machine's memory that is set aside for it and what it may
// take besides (GTT), as servers use both.
func (c *card) readMemory(integrated bool) {
	total, known := c.number("mem_info_vram_total")
	used, knownUsed := c.number("mem_info_vram_used")
	if integrated {
		moreTotal, ok := c.number("mem_info_gtt_total")
		moreUsed, okUsed := c.number("mem_info_gtt_used")
		total, known = total+moreTotal, known && ok
		used, knownUsed = used+moreUsed, knownUsed && okUsed
	}
	if known {
		c.add(gpu.MemoryTotal, "", total)
	}
	if knownUsed {
		c.add(gpu.MemoryUsed, "", used)
	}
	if known && knownUsed && used <= total {
		c.add(gpu.MemoryFree, "", total-used)
	}
}

// readSensors adds what needs more than one file of hwmon: temperatures, clocks, the fan. The
// temperature of the chip is that of its edge or, on a GPU that has none, that of its hottest point.
func (c *card) readSensors(hwmon string) {
	in := func(name string) string { return filepath.Join(hwmon, name) }
	found := map[string]float64{}
	for i := range 3 {
		file := in("temp" + strconv.Itoa(i+1))
		text := c.text(file + "_label")
		if v, err := strconv.Atoi(c.text(file + "_input")); err == nil {
			found[text] = float64(v) / 1000
		}
	}
	for _, sensor := range [][2]string{{"edge", "gpu"}, {"junction", "gpu"}, {"junction", "junction"}, {"mem", "memory"}} {
		if v, ok := found[sensor[0]]; ok {
			c.add(gpu.Temperature, sensor[1], v)
		}
	}
	for i := range 2 {
		file := in("freq" + strconv.Itoa(i+1))
		domain := map[string]string{"sclk": "graphics", "mclk": "memory"}[c.text(file+"_label")]
		if v, ok := c.number(file + "_input"); ok && domain != "" {
			c.add(gpu.Clock, domain, v)
		}
	}
	speed, ok := c.number(in("pwm1"))
	if most, known := c.number(in("pwm1_max")); ok && known && most > 0 {
		c.add(gpu.FanSpeed, "0", speed/most)
	}
}

// clockLine is a line of pp_dpm_sclk, as in "1: 2219Mhz *", where * is the current one.
var clockLine = regexp.MustCompile(`(?i)^\s*\d+:\s*(\d+)\s*Mhz\s*(\*?)`)

// readClockTable adds the highest clock of a table and, where hwmon does not have it, the
// current one.
func (c *card) readClockTable(file, domain string) {
	most, current := 0.0, 0.0
	for line := range strings.Lines(c.text(file)) {
		m := clockLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		v, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			continue
		}
		most = max(most, v*1e6)
		if m[2] != "" {
			current = v * 1e6
		}
	}
	if most > 0 {
		c.add(gpu.ClockMax, domain, most)
	}
	if current > 0 {
		c.add(gpu.Clock, domain, current)
	}
}

// readLink adds the PCIe link: the speeds of sysfs are transfers per second of a lane.
func (c *card) readLink() {
	for file, kind := range map[string]gpu.Kind{"current_link_speed": gpu.PCIeLinkGeneration, "max_link_speed": gpu.PCIeLinkGenerationMax} {
		speed, _, _ := strings.Cut(c.text(file), " ")
		if g := map[string]float64{"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}[speed]; g != 0 {
			c.add(kind, "", g)
		}
	}
	for file, kind := range map[string]gpu.Kind{"current_link_width": gpu.PCIeLinkWidth, "max_link_width": gpu.PCIeLinkWidthMax} {
		if lanes, ok := c.number(file); ok && lanes > 0 && lanes <= 32 {
			c.add(kind, "", lanes)
		}
	}
}

// readErrors adds the errors that the driver counts by block of the GPU (RAS), as in
// "ue: 0" and "ce: 12": those of the XGMI links, and those of all others as of memory.
func (c *card) readErrors() {
	sums := map[gpu.Reading]float64{}
	for _, file := range c.names("ras/*_err_count") {
		kind := gpu.ECCErrors
		if strings.Contains(file, "xgmi") {
			kind = gpu.XGMIErrors
		}
		counts := fields(c.text(file), ":")
		for name, severity := range map[string]string{"ce": "corrected", "ue": "uncorrected"} {
			if n, err := strconv.ParseUint(counts[name], 10, 64); err == nil {
				sums[gpu.Reading{Kind: kind, Label: severity}] += float64(n)
			}
		}
	}
	for r, n := range sums {
		c.add(r.Kind, r.Label, n)
	}
}

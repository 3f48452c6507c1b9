package gpu

import (
	"cmp"
	_ "embed"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/inference-exporter/inference_exporter/internal/asset"
)

// The ids of PCI.
const (
	vendorAMD    = "0x1002"
	vendorNVIDIA = "0x10de"
)

// VendorsPresent reports which GPUs the PCI bus of a sysfs lists, whether they have a driver or not.
func VendorsPresent(sys string) (amd, nvidia bool) {
	devices, _ := filepath.Glob(filepath.Join(sys, "bus/pci/devices/*")) // the pattern is well-formed
	for _, device := range devices {
		d := newDirectory(device, nil)
		class := d.text("class")
		// 0x03 is a display controller, 0x12 a processing accelerator.
		if !strings.HasPrefix(class, "0x03") && !strings.HasPrefix(class, "0x12") {
			continue
		}
		vendor := d.text("vendor")
		amd, nvidia = amd || vendor == vendorAMD, nvidia || vendor == vendorNVIDIA
	}
	return amd, nvidia
}

// NewAMD returns a Poller of AMD's GPUs by the files of the kernel's driver amdgpu: sysfs and hwmon, without a library.
// It needs no device and no permission. sys is the directory of sysfs, which is /sys.
func NewAMD(sys string, o Options) *Poller {
	return newScanning("amdgpu", o, (&amdgpu{sys: sys}).scan)
}

// amdgpu reads the files of the driver.
type amdgpu struct {
	sys string
	// residencies are those of the latest scan, by UUID and offset.
	residencies map[string]map[int]uint32
}

func (s *amdgpu) scan(asking func(device, question string)) (scanned, error) {
	cards := s.cards()
	if len(cards) == 0 {
		return scanned{}, &Error{Call: "find GPUs of amdgpu", Code: CodeLibraryNotFound, Detail: "no card in class/drm has this driver"}
	}
	driver := newDirectory(filepath.Join(s.sys, "module/amdgpu"), nil)
	found := scanned{driver: driver.text("version"), problems: map[string]error{}}
	before := s.residencies
	s.residencies = map[string]map[int]uint32{}
	for i, pci := range slices.Sorted(maps.Keys(cards)) {
		c := amdCard{
			directory:      newDirectory(cards[pci], func(name string) { asking(pci, name) }),
			DeviceSnapshot: DeviceSnapshot{Vendor: AMD, Index: i, Minor: -1, Up: true, PCIBusID: pci},
		}
		c.identify()
		if c.text("power/runtime_status") != "suspended" { // to read would wake it
			s.residencies[c.UUID] = c.readAll(before[c.UUID])
		}
		for name, err := range c.failed {
			// Without the number of its hwmon a file has one name on all cards.
			found.problems[hwmonNumber.ReplaceAllString(name, "hwmon")] = &Error{Call: name, Code: fileCode(err), Detail: err.Error()}
		}
		found.devices = append(found.devices, c.DeviceSnapshot)
	}
	return found, nil
}

var hwmonNumber = regexp.MustCompile(`hwmon\d+`)

// cards returns the directories of the cards of the driver, by their PCI address. Parts of a card that is split have no
// files of their own and are left out.
func (s *amdgpu) cards() map[string]string {
	class := newDirectory(filepath.Join(s.sys, "class/drm"), nil)
	found := map[string]string{}
	for _, name := range class.names("card[0-9]*") {
		if strings.Contains(name, "-") { // a connector
			continue
		}
		path := filepath.Join(class.path, name, "device")
		d := newDirectory(path, nil)
		uevent := pairs(d.text("uevent"), "=")
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

// pairs returns the lines of a text as names and values.
func pairs(text, separator string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(line, separator); ok {
			all[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	return all
}

// amdTables are the lists of amd.yml, which describes them.
type amdTables struct {
	Numbers []struct {
		Kind Kind
		File string
		Per  float64
	}
	Names   map[string]string
	Layouts map[string]layout
}

//go:embed amd.yml
var amdFile []byte

var amd = asset.Once[amdTables]("amd.yml", amdFile)

// amdCard is one GPU while it is read.
type amdCard struct {
	*directory
	DeviceSnapshot
}

// add adds a reading unless a better source gave it already.
func (c *amdCard) add(kind Kind, label string, value float64) {
	if !slices.ContainsFunc(c.Readings, func(r Reading) bool { return r.Kind == kind && r.Label == label }) {
		c.Readings = append(c.Readings, Reading{Kind: kind, Label: label, Value: value})
	}
}

// identify sets the identity. The UUID is that of rocminfo; integrated GPUs and older cards have none, and are
// identified by their PCI address.
func (c *amdCard) identify() {
	c.UUID = "PCI-" + c.PCIBusID
	if id := c.text("unique_id"); id != "" && strings.Trim(id, "0") != "" {
		c.UUID = "GPU-" + strings.TrimPrefix(id, "0x")
	}
	device := strings.TrimPrefix(c.text("device"), "0x")
	if device == "" {
		_, device, _ = strings.Cut(pairs(c.text("uevent"), "=")["PCI_ID"], ":")
	}
	device = strings.ToLower(device)
	c.Name = cmp.Or(c.text("product_name"), amd().Names[device+" "+strings.TrimPrefix(c.text("revision"), "0x")], "AMD 1002:"+device)
}

// readAll adds all readings and returns the residencies of gpu_metrics. A GPU of which no file can be read, while they
// are there, is lost.
func (c *amdCard) readAll(before map[int]uint32) map[int]uint32 {
	c.read = 0
	m, _ := parseMetrics(c.bytes("gpu_metrics")) // without the file nothing of it is known
	c.readMemory(m.integrated())
	for _, f := range amd().Numbers {
		for _, file := range c.names(f.File) {
			if v, ok := c.number(file); ok {
				c.add(f.Kind, "", v/f.Per)
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
			c.Up = c.Up && fileCode(err) != CodeLost
		}
		return nil
	}
	list, residencies := m.readings(before)
	for _, r := range list {
		c.add(r.Kind, r.Label, r.Value)
	}
	return residencies
}

// readMemory adds the memory that programs on the GPU can have: of a card its own, of an integrated GPU the part of the
// machine's memory that is set aside for it and what it may take besides (GTT), as servers use both.
func (c *amdCard) readMemory(integrated bool) {
	total, known := c.number("mem_info_vram_total")
	used, knownUsed := c.number("mem_info_vram_used")
	if integrated {
		moreTotal, ok := c.number("mem_info_gtt_total")
		moreUsed, okUsed := c.number("mem_info_gtt_used")
		total, known = total+moreTotal, known && ok
		used, knownUsed = used+moreUsed, knownUsed && okUsed
	}
	if known {
		c.add(MemoryTotal, "", total)
	}
	if knownUsed {
		c.add(MemoryUsed, "", used)
	}
	if known && knownUsed && used <= total {
		c.add(MemoryFree, "", total-used)
	}
}

// readSensors adds what needs more than one file of hwmon: temperatures, clocks, the fan. The temperature of the chip
// is that of its edge or, on a GPU that has none, that of its hottest point.
func (c *amdCard) readSensors(hwmon string) {
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
			c.add(Temperature, sensor[1], v)
		}
	}
	for i := range 2 {
		file := in("freq" + strconv.Itoa(i+1))
		domain := map[string]string{"sclk": "graphics", "mclk": "memory"}[c.text(file+"_label")]
		if v, ok := c.number(file + "_input"); ok && domain != "" {
			c.add(Clock, domain, v)
		}
	}
	speed, ok := c.number(in("pwm1"))
	if most, known := c.number(in("pwm1_max")); ok && known && most > 0 {
		c.add(FanSpeed, "0", speed/most)
	}
}

// clockLine is a line of pp_dpm_sclk, as in "1: 2219Mhz *", where * is the current one.
var clockLine = regexp.MustCompile(`(?i)^\s*\d+:\s*(\d+)\s*Mhz\s*(\*?)`)

// readClockTable adds the highest clock of a table and, where hwmon does not have it, the current one.
func (c *amdCard) readClockTable(file, domain string) {
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
		c.add(ClockMax, domain, most)
	}
	if current > 0 {
		c.add(Clock, domain, current)
	}
}

// readLink adds the PCIe link: the speeds of sysfs are transfers per second of a lane.
func (c *amdCard) readLink() {
	for file, kind := range map[string]Kind{"current_link_speed": PCIeLinkGeneration, "max_link_speed": PCIeLinkGenerationMax} {
		speed, _, _ := strings.Cut(c.text(file), " ")
		if g := map[string]float64{"2.5": 1, "5.0": 2, "8.0": 3, "16.0": 4, "32.0": 5, "64.0": 6}[speed]; g != 0 {
			c.add(kind, "", g)
		}
	}
	for file, kind := range map[string]Kind{"current_link_width": PCIeLinkWidth, "max_link_width": PCIeLinkWidthMax} {
		if lanes, ok := c.number(file); ok && lanes > 0 && lanes <= 32 {
			c.add(kind, "", lanes)
		}
	}
}

// readErrors adds the errors that the driver counts by block of the GPU (RAS), as in "ue: 0" and "ce: 12": those of the
// XGMI links, and those of all others as of memory.
func (c *amdCard) readErrors() {
	sums := map[Reading]float64{}
	for _, file := range c.names("ras/*_err_count") {
		kind := ECCErrors
		if strings.Contains(file, "xgmi") {
			kind = XGMIErrors
		}
		counts := pairs(c.text(file), ":")
		for name, severity := range map[string]string{"ce": "corrected", "ue": "uncorrected"} {
			if n, err := strconv.ParseUint(counts[name], 10, 64); err == nil {
				sums[Reading{Kind: kind, Label: severity}] += float64(n)
			}
		}
	}
	for r, n := range sums {
		c.add(r.Kind, r.Label, n)
	}
}

package gpu

import (
	"cmp"
	"math"
	"sync"
	"time"
)

// fakeLibrary is a library of GPUs that a test makes up. Its fields may be changed
// under its lock while it is in use.
type fakeLibrary struct {
	sync.Mutex
	devices  []*fakeDevice
	fail     map[string]error         // by the name of the call
	hang     map[string]chan struct{} // a call waits for its channel to be closed
	slow     map[string]time.Duration
	xids     []XID
	calls    map[string]int
	isOpen   bool
	misuse   []string // calls that the contract forbids
	samples  int      // not freed
	inFlight int
}

func newFake(devices ...*fakeDevice) *fakeLibrary {
	l := &fakeLibrary{
		devices: devices, fail: map[string]error{}, hang: map[string]chan struct{}{},
		slow: map[string]time.Duration{}, calls: map[string]int{},
	}
	for _, d := range devices {
		d.library = l
	}
	return l
}

// set changes the library while it is in use.
func (l *fakeLibrary) set(change func()) {
	l.Lock()
	defer l.Unlock()
	change()
}

func (l *fakeLibrary) called(name string) int {
	l.Lock()
	defer l.Unlock()
	return l.calls[name]
}

// call keeps the books of a call, which may be one to a device, and returns its
// error.
func (l *fakeLibrary) call(name string, d *fakeDevice) error {
	l.Lock()
	l.calls[name]++
	if !l.isOpen && name != "Open" {
		l.misuse = append(l.misuse, name+" without Open")
	}
	if l.inFlight > 0 {
		l.misuse = append(l.misuse, name+" beside another call")
	}
	l.inFlight++
	hang, slow := l.hang[name], l.slow[name]
	l.Unlock()
	if hang != nil {
		<-hang
	}
	time.Sleep(slow)
	l.Lock()
	defer l.Unlock()
	l.inFlight--
	if err := l.fail[name]; err != nil {
		return err
	}
	if d == nil {
		return nil
	}
	return cmp.Or(d.fail[name], d.fail["*"])
}

func (l *fakeLibrary) Open() error {
	err := l.call("Open", nil)
	l.set(func() { l.isOpen = err == nil })
	return err
}

func (l *fakeLibrary) Close() {
	_ = l.call("Close", nil)
	l.set(func() {
		if l.samples != 0 {
			l.misuse = append(l.misuse, "Close with samples that are not freed")
		}
		l.isOpen, l.xids = false, nil
	})
}

func (l *fakeLibrary) DriverVersion() (string, error) {
	return "550.54.15", l.call("DriverVersion", nil)
}
func (l *fakeLibrary) CUDAVersion() (string, error) { return "12.4", l.call("CUDAVersion", nil) }

func (l *fakeLibrary) DeviceCount() (int, error) {
	err := l.call("DeviceCount", nil)
	l.Lock()
	defer l.Unlock()
	return len(l.devices), err
}

func (l *fakeLibrary) Device(index int) (Device, error) {
	l.Lock()
	d := l.devices[index]
	l.Unlock()
	return d, l.call("Device", d)
}

func (l *fakeLibrary) Watch(d Device) error { return l.call("Watch", d.(*fakeDevice)) }

func (l *fakeLibrary) NextXID() (XID, error) {
	if err := l.call("NextXID", nil); err != nil {
		return XID{}, err
	}
	l.Lock()
	defer l.Unlock()
	if len(l.xids) == 0 {
		return XID{}, failed(CodeTimeout)
	}
	x := l.xids[0]
	l.xids = l.xids[1:]
	return x, nil
}

func failed(c Code) error { return &Error{Call: "fake", Code: c} }

// fakeDevice is a GPU, or a MIG device. A value that is nil or absent is not
// supported.
type fakeDevice struct {
	library *fakeLibrary
	fail    map[string]error // by the name of the call; "*" is all of them

	uuid, name, bus, capability string
	minor                       int
	memory                      *Memory
	busWidth                    int
	utilization                 []int // gpu, memory
	encoder, decoder            []int
	clocks, maxClocks           map[ClockDomain]int
	power, powerLimit           int
	energy                      uint64
	temperature                 int
	fans                        []int
	pstate                      int
	link, linkMax               [2]int
	replays                     int
	ecc                         map[[2]bool]uint64 // uncorrected, lifetime
	rows                        *RemappedRows
	reasons                     uint64
	fabric                      int
	fabricFault                 bool
	fields                      map[Field]float64
	fieldFaults                 map[Field]error // of those that are there
	split                       []bool
	parts                       []MIGDevice
	processes                   []Process
	samples                     []ProcessSample
	since                       []uint64 // what ProcessUtilization was asked with
	gpm                         func(older, newer time.Time) map[int]float64
	asked                       []Field // by the latest call of Fields
	addressing                  AddressingMode
	virtualization              VirtualizationMode
	license                     *License
	vgpus                       []VGPU
	vgpuSamples                 []VGPUSample
}

// number returns the value of a list of one, or none.
func (d *fakeDevice) number(name string, values ...int) (int, error) {
	if err := d.library.call(name, d); err != nil {
		return 0, err
	}
	d.library.Lock()
	defer d.library.Unlock()
	if len(values) == 0 {
		return 0, failed(CodeNotSupported)
	}
	return values[0], nil
}

func (d *fakeDevice) text(name, value string) (string, error) {
	if err := d.library.call(name, d); err != nil {
		return "", err
	}
	if value == "" {
		return "", failed(CodeNotSupported)
	}
	return value, nil
}

func (d *fakeDevice) UUID() (string, error)     { return d.text("UUID", d.uuid) }
func (d *fakeDevice) Name() (string, error)     { return d.text("Name", d.name) }
func (d *fakeDevice) PCIBusID() (string, error) { return d.text("PCIBusID", d.bus) }
func (d *fakeDevice) MinorNumber() (int, error) { return d.number("MinorNumber", d.minor) }
func (d *fakeDevice) ComputeCapability() (string, error) {
	return d.text("ComputeCapability", d.capability)
}

func (d *fakeDevice) Memory() (Memory, error) {
	if err := d.library.call("Memory", d); err != nil {
		return Memory{}, err
	}
	if d.memory == nil {
		return Memory{}, failed(CodeNotSupported)
	}
	return *d.memory, nil
}

func (d *fakeDevice) MemoryBusWidth() (int, error) { return d.number("MemoryBusWidth", d.busWidth) }

func (d *fakeDevice) Utilization() (gpu, memory int, err error) {
	gpu, err = d.number("Utilization", d.utilization...)
	if err != nil {
		return 0, 0, err
	}
	return gpu, d.utilization[1], nil
}

func (d *fakeDevice) EncoderUtilization() (int, error) {
	return d.number("EncoderUtilization", d.encoder...)
}

func (d *fakeDevice) DecoderUtilization() (int, error) {
	return d.number("DecoderUtilization", d.decoder...)
}

func (d *fakeDevice) clock(name string, of map[ClockDomain]int, domain ClockDomain) (int, error) {
	if mhz, ok := of[domain]; ok {
		return d.number(name, mhz)
	}
	return d.number(name)
}

func (d *fakeDevice) Clock(c ClockDomain) (int, error)    { return d.clock("Clock", d.clocks, c) }
func (d *fakeDevice) MaxClock(c ClockDomain) (int, error) { return d.clock("MaxClock", d.maxClocks, c) }
func (d *fakeDevice) PowerUsage() (int, error)            { return d.number("PowerUsage", d.power) }
func (d *fakeDevice) PowerLimit() (int, error)            { return d.number("PowerLimit", d.powerLimit) }

func (d *fakeDevice) Temperature() (int, error) { return d.number("Temperature", d.temperature) }

func (d *fakeDevice) PerformanceState() (int, error) { return d.number("PerformanceState", d.pstate) }

func (d *fakeDevice) PCIeReplays() (int, error) { return d.number("PCIeReplays", d.replays) }

func (d *fakeDevice) Fabric() (Fabric, error) {
	state, err := d.number("Fabric", d.fabric)
	return Fabric{State: state, Healthy: !d.fabricFault}, err
}

func (d *fakeDevice) FanSpeed(fan int) (int, error) { return d.number("FanSpeed", d.fans[fan]) }

func (d *fakeDevice) Energy() (uint64, error) { return d.energy, d.library.call("Energy", d) }

func (d *fakeDevice) FanCount() (int, error) {
	if d.fans == nil {
		return d.number("FanCount")
	}
	return d.number("FanCount", len(d.fans))
}

func (d *fakeDevice) PCIeLink() (generation, width int, err error) {
	return d.link[0], d.link[1], d.library.call("PCIeLink", d)
}

func (d *fakeDevice) PCIeLinkMax() (generation, width int, err error) {
	return d.linkMax[0], d.linkMax[1], d.library.call("PCIeLinkMax", d)
}

func (d *fakeDevice) ECCErrors(uncorrected, lifetime bool) (uint64, error) {
	if err := d.library.call("ECCErrors", d); err != nil {
		return 0, err
	}
	n, ok := d.ecc[[2]bool{uncorrected, lifetime}]
	if !ok {
		return 0, failed(CodeNotSupported)
	}
	return n, nil
}

func (d *fakeDevice) RemappedRows() (RemappedRows, error) {
	if err := d.library.call("RemappedRows", d); err != nil {
		return RemappedRows{}, err
	}
	if d.rows == nil {
		return RemappedRows{}, failed(CodeNotSupported)
	}
	return *d.rows, nil
}

func (d *fakeDevice) ClockEventReasons() (uint64, error) {
	return d.reasons, d.library.call("ClockEventReasons", d)
}

func (d *fakeDevice) Fields(fields []Field) ([]FieldResult, error) {
	if err := d.library.call("Fields", d); err != nil {
		return nil, err
	}
	d.library.Lock()
	defer d.library.Unlock()
	d.asked = fields
	results := make([]FieldResult, len(fields))
	for i, f := range fields {
		v, ok := d.fields[f]
		results[i] = FieldResult{v, d.fieldFaults[f]}
		if !ok {
			results[i].Err = failed(CodeNotSupported)
		}
	}
	return results, nil
}

func (d *fakeDevice) AddressingMode() (AddressingMode, error) {
	mode, err := d.text("AddressingMode", string(d.addressing))
	return AddressingMode(mode), err
}

func (d *fakeDevice) VirtualizationMode() (VirtualizationMode, error) {
	mode, err := d.text("VirtualizationMode", string(d.virtualization))
	return VirtualizationMode(mode), err
}

func (d *fakeDevice) License() (License, error) {
	if err := d.library.call("License", d); err != nil {
		return License{}, err
	}
	if d.license == nil {
		return License{}, failed(CodeNotSupported)
	}
	return *d.license, nil
}

func (d *fakeDevice) VGPUs() ([]VGPU, error) { return d.vgpus, d.library.call("VGPUs", d) }

func (d *fakeDevice) VGPUUtilization(since uint64) ([]VGPUSample, error) {
	d.since = append(d.since, since)
	return d.vgpuSamples, d.library.call("VGPUUtilization", d)
}

func (d *fakeDevice) MIGEnabled() (bool, error) {
	err := d.library.call("MIGEnabled", d)
	d.library.Lock()
	defer d.library.Unlock()
	if err == nil && len(d.split) == 0 {
		err = failed(CodeNotSupported)
	}
	return err == nil && d.split[0], err
}

func (d *fakeDevice) MIGDevices() ([]MIGDevice, error) {
	err := d.library.call("MIGDevices", d)
	d.library.Lock()
	defer d.library.Unlock()
	for _, p := range d.parts {
		p.Device.(*fakeDevice).library = d.library
	}
	return d.parts, err
}

func (d *fakeDevice) Processes() ([]Process, error) {
	return d.processes, d.library.call("Processes", d)
}

func (d *fakeDevice) ProcessUtilization(since uint64) ([]ProcessSample, error) {
	d.since = append(d.since, since)
	return d.samples, d.library.call("ProcessUtilization", d)
}

func (d *fakeDevice) GPMSupported() (bool, error) {
	return d.gpm != nil, d.library.call("GPMSupported", d)
}

func (d *fakeDevice) GPMSample() (GPMSample, error) {
	if err := d.library.call("GPMSample", d); err != nil {
		return nil, err
	}
	d.library.set(func() { d.library.samples++ })
	return &fakeSample{library: d.library, at: time.Now()}, nil
}

func (d *fakeDevice) GPMMetrics(older, newer GPMSample, ids []int) (map[int]float64, error) {
	if err := d.library.call("GPMMetrics", d); err != nil {
		return nil, err
	}
	a, b := older.(*fakeSample), newer.(*fakeSample)
	d.library.set(func() {
		if a.freed || b.freed {
			d.library.misuse = append(d.library.misuse, "GPMMetrics of a sample that is freed")
		}
	})
	values := map[int]float64{}
	all := d.gpm(a.at, b.at)
	for _, id := range ids {
		if v, ok := all[id]; ok {
			values[id] = v
		}
	}
	return values, nil
}

type fakeSample struct {
	library *fakeLibrary
	at      time.Time
	freed   bool
}

func (s *fakeSample) Free() {
	s.library.Lock()
	defer s.library.Unlock()
	if s.freed {
		s.library.misuse = append(s.library.misuse, "Free twice")
	}
	if !s.library.isOpen {
		s.library.misuse = append(s.library.misuse, "Free without Open")
	}
	s.freed = true
	s.library.samples--
}

// shares is what the units of the fake GPUs count: the share of the tensor
// cores is the time between the samples in seconds.
func shares(older, newer time.Time) map[int]float64 {
	return map[int]float64{
		1: 96.5, 2: 81.25, 3: math.NaN(), 5: newer.Sub(older).Seconds(), 10: 62.5, 20: 1000,
	}
}

package gpu

import (
	"cmp"
	"math"
	"slices"
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

// fakeDevice is a GPU, or a MIG device. What is absent is not supported.
type fakeDevice struct {
	library *fakeLibrary
	fail    map[string]error // by the name of the call or the question; "*" is all of them

	texts       map[string]string
	numbers     map[string][]float64
	fields      map[Field]float64
	fieldFaults map[Field]error // of those that are there
	parts       []MIGDevice
	processes   []Process
	samples     []Sample
	since       []uint64 // what was asked for samples since
	gpm         func(older, newer time.Time) map[int]float64
	asked       []Field // by the latest call of Fields that is one of each poll, or without such a call by the latest
	vgpus       []VGPU
	vgpuSamples []Sample
}

func (d *fakeDevice) Text(question string) (string, error) {
	if err := d.library.call(question, d); err != nil {
		return "", err
	}
	if d.texts[question] == "" {
		return "", failed(CodeNotSupported)
	}
	return d.texts[question], nil
}

func (d *fakeDevice) Numbers(question string) ([]float64, error) {
	if err := d.library.call(question, d); err != nil {
		return nil, err
	}
	d.library.Lock()
	defer d.library.Unlock()
	if d.numbers[question] == nil {
		return nil, failed(CodeNotSupported)
	}
	return d.numbers[question], nil
}

func (d *fakeDevice) Fields(fields []Field) ([]FieldResult, error) {
	if err := d.library.call("Fields", d); err != nil {
		return nil, err
	}
	d.library.Lock()
	defer d.library.Unlock()
	if everyPoll := (Field{ID: 230}); slices.Contains(fields, everyPoll) || !slices.Contains(d.asked, everyPoll) {
		d.asked = fields
	}
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

func (d *fakeDevice) VGPUs() ([]VGPU, error) { return d.vgpus, d.library.call("VGPUs", d) }

func (d *fakeDevice) VGPUUtilization(since uint64) ([]Sample, error) {
	d.since = append(d.since, since)
	return d.vgpuSamples, d.library.call("VGPUUtilization", d)
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

func (d *fakeDevice) ProcessUtilization(since uint64) ([]Sample, error) {
	d.since = append(d.since, since)
	return d.samples, d.library.call("ProcessUtilization", d)
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

package gpu

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"time"
)

// maxFans bounds the fans of a board.
const maxFans = 16

// question is one call to a device, which adds readings.
type question struct {
	// name identifies the question, in the set of those that a device refused and
	// in the log.
	name string
	// unsplit: not to be asked while MIG is on.
	unsplit bool
	ask     func(d Device, out *readings) error
}

// readings gathers the readings of a device.
type readings struct{ list []Reading }

// add leaves out what is not a number.
func (r *readings) add(kind Kind, label string, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return
	}
	r.list = append(r.list, Reading{kind, label, value})
}

// questions returns the questions to a GPU, those to its fields and to the
// units that count aside.
func questions() []question {
	list := []question{
		{name: "memory", ask: askMemory},
		unsplit(both("utilization", Utilization, MemoryUtilization, percent, Device.Utilization)),
		unsplit(one("encoder utilization", EncoderUtilization, "", percent, Device.EncoderUtilization)),
		unsplit(one("decoder utilization", DecoderUtilization, "", percent, Device.DecoderUtilization)),
		one("power", Power, "", milli, Device.PowerUsage),
		one("power limit", PowerLimit, "", milli, Device.PowerLimit),
		{name: "energy", ask: askEnergy},
		one("temperature", Temperature, "gpu", plain, Device.Temperature),
		{name: "fans", ask: askFans},
		one("performance state", PState, "", plain, Device.PerformanceState),
		both("PCIe link", PCIeLinkGeneration, PCIeLinkWidth, plain, Device.PCIeLink),
		both("PCIe link, highest", PCIeLinkGenerationMax, PCIeLinkWidthMax, plain, Device.PCIeLinkMax),
		one("PCIe replays", PCIeReplays, "", plain, Device.PCIeReplays),
		askECC("corrected", false, false),
		askECC("uncorrected", true, false),
		askECC("corrected", false, true),
		askECC("uncorrected", true, true),
		unsplit(question{name: "remapped rows", ask: askRemappedRows}),
		{name: "clock event reasons", ask: askClockReasons},
		{name: "fabric state", ask: askFabric},
	}
	for _, domain := range []ClockDomain{ClockGraphics, ClockSM, ClockMemory, ClockVideo} {
		list = append(list,
			one("clock "+string(domain), Clock, string(domain), mega, func(d Device) (int, error) { return d.Clock(domain) }),
			one("highest clock "+string(domain), ClockMax, string(domain), mega, func(d Device) (int, error) { return d.MaxClock(domain) }),
		)
	}
	return list
}

// unsplit marks a question that a GPU does not answer while MIG is on.
func unsplit(q question) question {
	q.unsplit = true
	return q
}

// one is a question with one number for an answer.
func one(name string, kind Kind, label string, convert func(float64) float64, get func(Device) (int, error)) question {
	return question{name: name, ask: func(d Device, out *readings) error {
		v, err := get(d)
		if err != nil {
			return err
		}
		out.add(kind, label, convert(float64(v)))
		return nil
	}}
}

// both is a question whose answer is two numbers.
func both(name string, first, second Kind, convert func(float64) float64, get func(Device) (int, int, error)) question {
	return question{name: name, ask: func(d Device, out *readings) error {
		a, b, err := get(d)
		if err != nil {
			return err
		}
		out.add(first, "", convert(float64(a)))
		out.add(second, "", convert(float64(b)))
		return nil
	}}
}

func plain(v float64) float64   { return v }
func percent(v float64) float64 { return v / 100 }
func milli(v float64) float64   { return v / 1000 }
func mega(v float64) float64    { return v * 1e6 }

func flag(v bool) float64 {
	if v {
		return 1
	}
	return 0
}

func askMemory(d Device, out *readings) error {
	m, err := d.Memory()
	if err != nil {
		return err
	}
	out.add(MemoryTotal, "", float64(m.Total))
	out.add(MemoryUsed, "", float64(m.Used))
	out.add(MemoryFree, "", float64(m.Free))
	if m.ReservedKnown {
		out.add(MemoryReserved, "", float64(m.Reserved))
	}
	return nil
}

func askEnergy(d Device, out *readings) error {
	millijoules, err := d.Energy()
	if err != nil {
		return err
	}
	out.add(Energy, "", milli(float64(millijoules)))
	return nil
}

func askFans(d Device, out *readings) error {
	n, err := d.FanCount()
	if err != nil {
		return err
	}
	for i := range min(n, maxFans) {
		speed, err := d.FanSpeed(i)
		if err != nil {
			return err
		}
		out.add(FanSpeed, strconv.Itoa(i), percent(float64(speed)))
	}
	return nil
}

func askECC(severity string, uncorrected, lifetime bool) question {
	kind, name := ECCErrors, "ECC errors, "+severity
	if lifetime {
		kind, name = ECCErrorsLifetime, name+", lifetime"
	}
	return question{name: name, ask: func(d Device, out *readings) error {
		n, err := d.ECCErrors(uncorrected, lifetime)
		if err != nil {
			return err
		}
		out.add(kind, severity, float64(n))
		return nil
	}}
}

func askRemappedRows(d Device, out *readings) error {
	rows, err := d.RemappedRows()
	if err != nil {
		return err
	}
	out.add(RemappedRowsCount, "correctable", float64(rows.Correctable))
	out.add(RemappedRowsCount, "uncorrectable", float64(rows.Uncorrectable))
	out.add(RowRemapPending, "", flag(rows.Pending))
	out.add(RowRemapFailure, "", flag(rows.Failure))
	return nil
}

func askClockReasons(d Device, out *readings) error {
	mask, err := d.ClockEventReasons()
	if err != nil {
		return err
	}
	for _, r := range clockReasons() {
		out.add(ClockEventActive, r.name, flag(mask&r.bit != 0))
		mask &^= r.bit
	}
	if mask != 0 {
		out.add(ClockEventActive, clockReasonOther, 1)
	}
	return nil
}

// fabricCompleted is the state of a GPU that was registered with the fabric.
const fabricCompleted = 3

func askFabric(d Device, out *readings) error {
	fabric, err := d.Fabric()
	if err != nil {
		return err
	}
	if fabric.State == 0 { // the GPU has no fabric
		return &Error{Call: "fabric state", Code: CodeNotSupported}
	}
	out.add(FabricState, "", float64(fabric.State))
	if fabric.State == fabricCompleted {
		out.add(FabricHealthy, "", flag(fabric.Healthy))
	}
	return nil
}

// The units of a GPU count what they do; two samples give the shares of the
// time between them. Too short a time gives noise, too long a one an
// outdated mean.
const (
	meterShortest = time.Second
	meterLongest  = 10 * time.Minute
)

// meterKinds are the numbers that the driver gives to the shares.
func meterKinds() map[int]Kind {
	return map[int]Kind{
		1:  GraphicsActive,
		2:  SMActive,
		3:  SMOccupancy,
		5:  TensorActive,
		10: DRAMBandwidthUtilization,
	}
}

// meter makes readings of the samples of one device.
type meter struct {
	old    GPMSample
	at     time.Time // of old
	latest []Reading
}

// reset forgets everything and frees the sample.
func (m *meter) reset() {
	if m.old != nil {
		m.old.Free()
	}
	*m = meter{}
}

// read takes a sample and adds what happened since the one before.
func (m *meter) read(d Device, now time.Time, out *readings) error {
	if m.old != nil && now.Sub(m.at) < meterShortest {
		out.list = append(out.list, m.latest...)
		return nil
	}
	sample, err := d.GPMSample()
	if err != nil {
		m.reset()
		return err
	}
	old, age := m.old, now.Sub(m.at)
	m.old, m.at, m.latest = sample, now, nil
	if old == nil {
		return nil
	}
	defer old.Free()
	if age > meterLongest {
		return nil
	}
	kinds := meterKinds()
	ids := slices.Sorted(maps.Keys(kinds))
	values, err := d.GPMMetrics(old, sample, ids)
	if err != nil {
		return err
	}
	var shares readings
	for _, id := range ids {
		if v, ok := values[id]; ok {
			shares.add(kinds[id], "", percent(v))
		}
	}
	m.latest = shares.list
	out.list = append(out.list, m.latest...)
	return nil
}

// readUnits reads the units of the GPU, or of a part of it, where these count.
func (d *device) readUnits(m *meter, of Device, now time.Time, out *readings) error {
	supported := false
	err := d.ask("unit counters", func() (err error) {
		supported, err = d.GPMSupported()
		if err == nil && !supported {
			err = &Error{Call: "unit counters", Code: CodeNotSupported}
		}
		return err
	})
	if err != nil || !supported {
		return err
	}
	return d.ask("sample of the unit counters", func() error { return m.read(of, now, out) })
}

package gpu

import (
	"maps"
	"slices"
	"time"
)

// The units of a GPU count what they do; two samples give the shares of the
// time between them. Too short a time gives noise, too long a one a mean of
// what nobody looks at any more.
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

package page

import (
	"cmp"
	"maps"
	"math"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/inference-exporter/inference_exporter/gpu"
)

// Bounds of what a page of accelerators shows.
const (
	maxDevices     = 1024
	maxDeviceNames = 2 * maxDevices // of devices, within an hour
	maxParts       = 64             // of a device
	maxXIDsADevice = 64             // different ones
)

// devices are the accelerators of a page.
type devices struct {
	mapping *accelerators
	host    string // of the page, "" is this machine
	all     []*device
	byID    map[string]*device
	tooMany bool
}

// device is a device on its way into a snapshot.
type device struct {
	gpu.DeviceSnapshot
	driver string
	own    values
	parts  map[int]*devicePart
	xids   map[uint64]float64 // how many of late, by number
	last   float64            // number of the latest one; negative is unknown
}

// devicePart is a part of a device, such as a MIG device.
type devicePart struct {
	profile string
	own     values
}

// slot is a place for a number: a term of a source.
type slot struct {
	readingTarget
	bit string // a label of Bits
}

// values are the numbers of a device or a part.
type values map[slot]float64

// readDevices reads the accelerators of a page.
func (r *Reader) readDevices(p *page, c *mapping, at time.Time, host string) (*Snapshot, error) {
	d := &devices{mapping: c.accelerators, host: host, byID: map[string]*device{}}
	wants := func(name []byte) bool { return len(c.accelerators.find(string(name))) > 0 }
	err := p.walk(wants, func(ls labels.Labels, value float64) {
		for _, t := range c.accelerators.find(ls.Get(model.MetricNameLabel)) {
			d.add(t, ls, value)
		}
	})
	switch {
	case err != nil:
		return nil, err
	case d.tooMany:
		return nil, pageErrorf(ReasonTooLarge, "more than %d devices", maxDevices)
	case !r.shown.names.Admit(maps.Keys(d.byID), maxDeviceNames, at):
		return nil, pageErrorf(ReasonTooLarge, "more than %d devices within an hour", maxDeviceNames)
	}
	return &Snapshot{Engine: c.name, At: at, PrefixCacheRatio: -1, Devices: d.snapshots(&r.xids, at), Driver: d.driver()}, nil
}

// add takes in a sample.
func (p *devices) add(t readingTarget, ls labels.Labels, v float64) {
	m := p.mapping
	if !(v >= 0) || math.IsInf(v, 0) || m.isBlank(v) {
		return
	}
	if t.kind == xidLast || t.kind == xidRecent {
		p.addXID(t, ls, v)
		return
	}
	s := m.Readings[t.kind][t.source]
	for name, want := range s.Labels {
		if ls.Get(name) != want {
			return
		}
	}
	if s.DropZero && v == 0 {
		return
	}
	if s.Values != nil {
		known := false
		if v, known = s.Values[v]; !known {
			return
		}
	}
	if s.Positive && v > 0 {
		v = 1
	}
	d := p.device(cmp.Or(s.Device, &m.Device), ls)
	if d == nil {
		return
	}
	into := d.valuesOf(m, t.kind, ls)
	if into == nil {
		return
	}
	if len(s.Bits) == 0 {
		into.add(slot{readingTarget: t}, v*s.Scale, s.Combine)
		return
	}
	for label, bit := range s.Bits {
		set := 0.0
		if uint64(v)&bit != 0 {
			set = 1
		}
		into.add(slot{t, label}, set, s.Combine)
	}
}

func (v values) add(s slot, x float64, combine string) {
	old, there := v[s]
	switch {
	case !there:
		v[s] = x
	case combine == "sum":
		v[s] = old + x
	default:
		v[s] = max(old, x)
	}
}

// addXID takes in a sample of critical errors.
func (p *devices) addXID(t readingTarget, ls labels.Labels, v float64) {
	d := p.device(&p.mapping.Device, ls)
	if d == nil {
		return
	}
	if t.kind == xidLast {
		d.last = max(d.last, v)
		return
	}
	number, err := strconv.ParseUint(ls.Get("xid"), 10, 64)
	if _, seen := d.xids[number]; err == nil && number > 0 && (seen || len(d.xids) < maxXIDsADevice) {
		d.xids[number] = max(d.xids[number], v)
	}
}

// device returns the device of a sample; nil for a sample of none.
func (p *devices) device(by *identity, ls labels.Labels) *device {
	uuid, pci, index := by.UUID.of(ls.Get), by.PCIBusID.of(ls.Get), by.Index.of(ls.Get)
	id := cmp.Or(uuid, pci, index)
	if id == "" {
		return nil
	}
	host := cmp.Or(by.Host.of(ls.Get), p.host)
	d := p.byID[host+"\xff"+id]
	if d == nil {
		if len(p.all) == maxDevices {
			p.tooMany = true
			return nil
		}
		d = &device{
			DeviceSnapshot: gpu.DeviceSnapshot{
				Vendor: p.mapping.Vendor, Host: host, UUID: cmp.Or(uuid, pci, host+"/"+id), PCIBusID: pci, Index: numberAtEnd(index), Minor: -1, Up: true,
			},
			own: values{}, parts: map[int]*devicePart{}, xids: map[uint64]float64{}, last: -1,
		}
		p.all = append(p.all, d)
		p.byID[host+"\xff"+id] = d
	}
	d.Name = cmp.Or(d.Name, by.Name.of(ls.Get))
	d.driver = cmp.Or(d.driver, by.Driver.of(ls.Get))
	return d
}

// hostOf returns the host of a page that does not name its own; "" is this machine.
func hostOf(from *url.URL) string {
	host := from.Hostname()
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return ""
	}
	return host
}

// numberAtEnd returns the number that a text ends in; negative is none.
func numberAtEnd(text string) int {
	digits := text[len(strings.TrimRight(text, "0123456789")):]
	n, err := strconv.Atoi(digits)
	if err != nil {
		return -1
	}
	return n
}

// valuesOf returns where the values of a sample go: to a part where the sample is of
// one and the kind is its own, else to the device; nil is a part too many.
func (d *device) valuesOf(m *accelerators, kind gpu.Kind, ls labels.Labels) values {
	name := m.Device.Part.of(ls.Get)
	id := numberAtEnd(name)
	if id < 0 || !slices.Contains(m.Parts, kind) {
		return d.own
	}
	if d.parts[id] == nil {
		if len(d.parts) == maxParts {
			return nil
		}
		d.parts[id] = &devicePart{profile: m.Device.Profile.of(ls.Get), own: values{}}
	}
	return d.parts[id].own
}

// snapshots returns the devices, in the order of hosts and indices.
func (p *devices) snapshots(x *xidWatch, now time.Time) []gpu.DeviceSnapshot {
	slices.SortFunc(p.all, func(a, b *device) int {
		return cmp.Or(strings.Compare(a.Host, b.Host), cmp.Compare(a.Index, b.Index), strings.Compare(a.UUID, b.UUID))
	})
	var all []gpu.DeviceSnapshot
	for _, d := range p.all {
		d.Readings = p.mapping.readings(d.own)
		for id, part := range d.parts {
			d.MIG = append(d.MIG, gpu.MIGSnapshot{Profile: part.profile, GPUInstance: id, Readings: p.mapping.readings(part.own)})
		}
		slices.SortFunc(d.MIG, func(a, b gpu.MIGSnapshot) int { return cmp.Compare(a.GPUInstance, b.GPUInstance) })
		d.XIDs = x.add(d, now)
		all = append(all, d.DeviceSnapshot)
	}
	return all
}

// driver returns the version of the driver that the page shows.
func (p *devices) driver() string {
	for _, d := range p.all {
		if d.driver != "" {
			return d.driver
		}
	}
	return ""
}

// readings returns the readings of a device or a part, in the order of gpu.Readings.
func (m *accelerators) readings(own values) []gpu.Reading {
	var all []gpu.Reading
	for _, info := range gpu.Readings() {
		start := len(all)
		for i, s := range m.Readings[info.Kind] {
			for label, v := range s.results(own, readingTarget{kind: info.Kind, source: i}) {
				known := slices.ContainsFunc(all[start:], func(r gpu.Reading) bool { return r.Label == label })
				if !known {
					all = append(all, gpu.Reading{Kind: info.Kind, Label: label, Value: v})
				}
			}
		}
		slices.SortFunc(all[start:], func(a, b gpu.Reading) int { return strings.Compare(a.Label, b.Label) })
	}
	return all
}

// results returns what a source yields, by label.
func (s *readingSource) results(own values, t readingTarget) map[string]float64 {
	results := map[string]float64{}
	for label := range s.Bits {
		if v, there := own[slot{t, label}]; there {
			results[label] = v
		}
	}
	if len(s.Bits) > 0 {
		return results
	}
	sum := 0.0
	for t.term = range len(s.Plus) + 1 {
		v, there := own[slot{readingTarget: t}]
		if !there {
			return nil
		}
		sum += v
	}
	if math.IsInf(sum, 0) {
		return nil
	}
	results[s.As] = sum
	return results
}

// xidWatch counts the critical errors of the devices of one page from one reading to
// the next.
type xidWatch struct{ devices map[string]*xidsOf }

// xidsOf is what is known of a device.
type xidsOf struct {
	counts map[uint64]*gpu.XIDCount
	recent map[uint64]float64 // of the latest reading
	last   float64            // the same; negative before the first one
}

// add takes in what a page shows of a device and returns the errors so far. That a page
// shows the latest error counts from the second reading on, as it may be an old one: an
// error of the same number is not seen there again.
func (x *xidWatch) add(d *device, now time.Time) []gpu.XIDCount {
	if d.last < 0 && len(d.xids) == 0 {
		return nil
	}
	if x.devices == nil {
		x.devices = map[string]*xidsOf{}
	}
	w := x.devices[d.UUID]
	if w == nil {
		if len(x.devices) == 2*maxDevices { // a page that makes them up
			clear(x.devices)
		}
		w = &xidsOf{counts: map[uint64]*gpu.XIDCount{}, last: -1}
		x.devices[d.UUID] = w
	}
	for number, n := range d.xids {
		w.count(number, n-w.recent[number], now)
	}
	if len(d.xids) == 0 && w.recent == nil && w.last >= 0 && d.last != w.last && d.last > 0 {
		w.count(uint64(d.last), 1, now)
	}
	if w.last = d.last; len(d.xids) > 0 || w.recent != nil {
		w.recent = d.xids
	}
	var all []gpu.XIDCount
	for _, c := range w.counts {
		all = append(all, *c)
	}
	slices.SortFunc(all, func(a, b gpu.XIDCount) int { return cmp.Compare(a.Number, b.Number) })
	return all
}

// count adds more errors of a number.
func (w *xidsOf) count(number uint64, more float64, now time.Time) {
	if more <= 0 {
		return
	}
	c := w.counts[number]
	if c == nil {
		if len(w.counts) == maxXIDsADevice {
			return
		}
		c = &gpu.XIDCount{Number: number}
		w.counts[number] = c
	}
	c.Count += uint64(more)
	c.Last = now
}

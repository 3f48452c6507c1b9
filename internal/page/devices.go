package page

import (
	"cmp"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

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

// device is a device on its way into a snapshot.
type device struct {
	gpu.DeviceSnapshot
	id     string
	driver string
	parts  int                // how many there are
	xids   map[uint64]float64 // how many of late, by number
	last   float64            // number of the latest one; negative is unknown
}

// devicePart is a part of a device, such as a MIG device, or all of it.
type devicePart struct {
	*device
	number  int // of the part; negative is the whole
	profile string
}

// deviceOf returns the number of the device, or the part of one, that a sample is of, and what the sample counts
// as. It is not ok for one of none. A sample of critical errors is taken in here.
func (s *scratch) deviceOf(c *mapping, src *deviceSource, ls labels.Labels, v float64) (owner int32, value float64, ok bool) {
	a := c.exporter
	if value, ok = src.value(v); !ok || slices.ContainsFunc(a.Blanks, func(b blank) bool { return v >= b.From && v <= b.To }) {
		return 0, 0, false
	}
	d := s.device(a, cmp.Or(src.Device, &a.Device), ls)
	if d == nil {
		return 0, 0, false
	}
	if src.xids {
		d.addXID(src.byXID, ls, v)
		return 0, 0, false
	}
	number := -1
	if src.parts {
		number = numberAtEnd(a.Device.Part.of(ls.Get))
	}
	key := d.id
	if number >= 0 {
		key += "\xff" + strconv.Itoa(number)
	}
	if s.parts[key] == nil {
		if number >= 0 && d.parts == maxParts {
			return 0, 0, false
		}
		s.parts[key] = &devicePart{d, number, a.Device.Profile.of(ls.Get)}
		d.parts += min(1, number+1)
	}
	return s.owner(key), value, true
}

// device returns the device of a sample; nil for a sample of none.
func (s *scratch) device(a *Exporter, by *identity, ls labels.Labels) *device {
	uuid, pci, index := by.UUID.of(ls.Get), by.PCIBusID.of(ls.Get), by.Index.of(ls.Get)
	id := cmp.Or(uuid, pci, index)
	if id == "" {
		return nil
	}
	host := cmp.Or(by.Host.of(ls.Get), s.host)
	key := host + "\xff" + id
	d := s.devices[key]
	if d == nil {
		if len(s.devices) > maxDevices { // an error in any case
			return nil
		}
		if s.devices == nil {
			s.devices, s.parts = map[string]*device{}, map[string]*devicePart{}
		}
		d = &device{
			DeviceSnapshot: gpu.DeviceSnapshot{
				Vendor: a.Vendor, Host: host, UUID: cmp.Or(uuid, pci, host+"/"+id), PCIBusID: pci, Index: numberAtEnd(index), Minor: -1, Up: true,
			},
			id: key, xids: map[uint64]float64{}, last: -1,
		}
		s.devices[key] = d
	}
	d.Name = cmp.Or(d.Name, by.Name.of(ls.Get))
	d.driver = cmp.Or(d.driver, by.Driver.of(ls.Get))
	return d
}

// addXID takes in a sample of critical errors.
func (d *device) addXID(by string, ls labels.Labels, v float64) {
	if by == "" {
		d.last = max(d.last, v)
		return
	}
	number, err := strconv.ParseUint(ls.Get(by), 10, 64)
	if _, seen := d.xids[number]; err == nil && number > 0 && (seen || len(d.xids) < maxXIDsADevice) {
		d.xids[number] = max(d.xids[number], v)
	}
}

// readDevices makes a snapshot of the samples of the accelerators of a page, in the order of hosts and indices.
func (r *Reader) readDevices(c *mapping, s *scratch, p *page, at time.Time) (*Snapshot, error) {
	switch {
	case len(s.devices) > maxDevices:
		return nil, pageErrorf(ReasonTooLarge, "more than %d devices", maxDevices)
	case !r.shown.admit(maps.Keys(s.devices), maxDeviceNames, at):
		return nil, pageErrorf(ReasonTooLarge, "more than %d devices within an hour", maxDeviceNames)
	}
	for key, samples := range s.byOwner() {
		s.again(c, samples)
		if err := s.assemble(p, c); err != nil {
			return nil, err
		}
		s.gauges(c)
		if part, readings := s.parts[key], c.readingsOf(s.results); part.number < 0 {
			part.Readings = readings
		} else {
			part.MIG = append(part.MIG, gpu.MIGSnapshot{Profile: part.profile, GPUInstance: part.number, Readings: readings})
		}
	}
	snap := &Snapshot{Engine: c.name, At: at, PrefixCacheRatio: -1}
	for _, d := range slices.SortedFunc(maps.Values(s.devices), func(a, b *device) int {
		return cmp.Or(strings.Compare(a.Host, b.Host), cmp.Compare(a.Index, b.Index), strings.Compare(a.UUID, b.UUID))
	}) {
		slices.SortFunc(d.MIG, func(a, b gpu.MIGSnapshot) int { return cmp.Compare(a.GPUInstance, b.GPUInstance) })
		d.XIDs = r.countXIDs(d, at)
		snap.Devices, snap.Driver = append(snap.Devices, d.DeviceSnapshot), cmp.Or(snap.Driver, d.driver)
	}
	return snap, nil
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
	n, err := strconv.Atoi(text[len(strings.TrimRight(text, "0123456789")):])
	if err != nil {
		return -1
	}
	return n
}

// xidWatch counts the critical errors of a device from one reading to the next.
type xidWatch struct {
	counts []gpu.XIDCount     // by number
	recent map[uint64]float64 // of the latest reading
	last   float64            // the same; negative before the first one
}

// countXIDs takes in what a page shows of a device and returns the errors so far. That a page shows the latest
// error counts from the second reading on, as it may be an old one: an error of the same number is not seen there
// again.
func (r *Reader) countXIDs(d *device, now time.Time) []gpu.XIDCount {
	if d.last < 0 && len(d.xids) == 0 {
		return nil
	}
	w := r.xids[d.UUID]
	if w == nil {
		if r.xids == nil || len(r.xids) == 2*maxDevices { // a page that makes them up
			r.xids = map[string]*xidWatch{}
		}
		w = &xidWatch{last: -1}
		r.xids[d.UUID] = w
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
	return slices.Clone(w.counts)
}

// count adds more errors of a number.
func (w *xidWatch) count(number uint64, more float64, now time.Time) {
	i, known := slices.BinarySearchFunc(w.counts, number, func(c gpu.XIDCount, n uint64) int { return cmp.Compare(c.Number, n) })
	if more <= 0 || !known && len(w.counts) == maxXIDsADevice {
		return
	}
	if !known {
		w.counts = slices.Insert(w.counts, i, gpu.XIDCount{Number: number})
	}
	w.counts[i].Count += uint64(more)
	w.counts[i].Last = now
}

package pages

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/internal/page"
)

// Bounds of what a page shows.
const (
	maxDevices     = 1024
	maxNames       = 2 * maxDevices // of devices, within an hour
	maxParts       = 64             // of a device
	maxXIDsADevice = 64             // different ones
)

// shownPage is what the text of a page shows.
type shownPage struct {
	mapping *mapping
	devices []*device
	byID    map[string]*device
	tooMany bool
}

// device is a device on its way into a snapshot.
type device struct {
	gpu.DeviceSnapshot
	driver string
	own    values
	parts  map[int]*part
	xids   map[uint64]float64 // how many of late, by number
	last   float64            // number of the latest one; negative is unknown
}

// part is a part of a device, such as a MIG device.
type part struct {
	profile string
	own     values
}

// slot is a place for a number: a term of a source.
type slot struct {
	target
	bit string // a label of Bits
}

// values are the numbers of a device or a part.
type values map[slot]float64

// read reads a page with the mapping of that name, or with the first one that the page
// has a sentinel of. Errors are a *page.PageError.
func read(all []*mapping, software string, from *url.URL, text []byte, contentType string) (*shownPage, error) {
	m, err := recognise(all, software, text, contentType)
	if err != nil {
		return nil, err
	}
	p := &shownPage{mapping: m, byID: map[string]*device{}}
	wants := func(name []byte) bool { return len(m.find(string(name))) > 0 }
	err = page.Walk(text, contentType, wants, func(name string, ls labels.Labels, value float64) {
		for _, t := range m.find(name) {
			p.add(t, ls, value, from)
		}
	})
	if err == nil && p.tooMany {
		err = &page.PageError{Reason: page.ReasonTooLarge, Err: fmt.Errorf("more than %d devices", maxDevices)}
	}
	return p, err
}

// recognise returns the mapping to read a page with.
func recognise(all []*mapping, software string, text []byte, contentType string) (*mapping, error) {
	var found *mapping
	err := page.Walk(text, contentType, func(name []byte) bool {
		for _, m := range all {
			bare := strings.TrimPrefix(string(name), m.Prefix)
			if found == nil && (software == "" || software == m.name) && slices.Contains(m.Sentinels, bare) {
				found = m
			}
		}
		return false
	}, nil)
	switch {
	case err != nil:
		return nil, err
	case found != nil:
		return found, nil
	}
	what := "of any known exporter of GPUs"
	if software != "" {
		what = "of " + software
	}
	return nil, &page.PageError{Reason: page.ReasonUnmapped, Err: errors.New("no series " + what)}
}

// add takes in a sample.
func (p *shownPage) add(t target, ls labels.Labels, v float64, from *url.URL) {
	m := p.mapping
	if !(v >= 0) || math.IsInf(v, 0) || m.isBlank(v) {
		return
	}
	if t.kind == xidLast || t.kind == xidRecent {
		p.addXID(t, ls, v, from)
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
	d := p.device(cmp.Or(s.Device, &m.Device), ls, from)
	if d == nil {
		return
	}
	into := d.valuesOf(m, t.kind, ls)
	if into == nil {
		return
	}
	if len(s.Bits) == 0 {
		into.add(slot{target: t}, v*s.Scale, s.Combine)
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
func (p *shownPage) addXID(t target, ls labels.Labels, v float64, from *url.URL) {
	d := p.device(&p.mapping.Device, ls, from)
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
func (p *shownPage) device(by *identity, ls labels.Labels, from *url.URL) *device {
	uuid, pci, index := by.UUID.of(ls.Get), by.PCIBusID.of(ls.Get), by.Index.of(ls.Get)
	id := cmp.Or(uuid, pci, index)
	if id == "" {
		return nil
	}
	host := cmp.Or(by.Host.of(ls.Get), hostOf(from))
	d := p.byID[host+"\xff"+id]
	if d == nil {
		if len(p.devices) == maxDevices {
			p.tooMany = true
			return nil
		}
		d = &device{
			DeviceSnapshot: gpu.DeviceSnapshot{
				Vendor: p.mapping.Vendor, Host: host, UUID: cmp.Or(uuid, pci, host+"/"+id), PCIBusID: pci, Index: numberAtEnd(index), Minor: -1, Up: true,
			},
			own: values{}, parts: map[int]*part{}, xids: map[uint64]float64{}, last: -1,
		}
		p.devices = append(p.devices, d)
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
func (d *device) valuesOf(m *mapping, kind gpu.Kind, ls labels.Labels) values {
	name := m.Device.Part.of(ls.Get)
	id := numberAtEnd(name)
	if id < 0 || !slices.Contains(m.Parts, kind) {
		return d.own
	}
	if d.parts[id] == nil {
		if len(d.parts) == maxParts {
			return nil
		}
		d.parts[id] = &part{profile: m.Device.Profile.of(ls.Get), own: values{}}
	}
	return d.parts[id].own
}

// snapshots returns the devices, in the order of hosts and indices.
func (p *shownPage) snapshots(x *xidWatch, now time.Time) []gpu.DeviceSnapshot {
	slices.SortFunc(p.devices, func(a, b *device) int {
		return cmp.Or(strings.Compare(a.Host, b.Host), cmp.Compare(a.Index, b.Index), strings.Compare(a.UUID, b.UUID))
	})
	var all []gpu.DeviceSnapshot
	for _, d := range p.devices {
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
func (p *shownPage) driver() string {
	for _, d := range p.devices {
		if d.driver != "" {
			return d.driver
		}
	}
	return ""
}

// readings returns the readings of a device or a part, in the order of gpu.Readings.
func (m *mapping) readings(own values) []gpu.Reading {
	var all []gpu.Reading
	for _, info := range gpu.Readings() {
		start := len(all)
		for i, s := range m.Readings[info.Kind] {
			for label, v := range s.results(own, target{kind: info.Kind, source: i}) {
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
func (s *source) results(own values, t target) map[string]float64 {
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
		v, there := own[slot{target: t}]
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

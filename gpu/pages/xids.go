package pages

import (
	"cmp"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/gpu"
)

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

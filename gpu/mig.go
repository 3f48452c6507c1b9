package gpu

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// maxParts bounds the MIG devices of a GPU; the hardware has seven at most.
const maxParts = 64

// listParts returns the MIG devices that exist now, those of a GPU instance
// beside each other. They come and go, so that their handles are not kept.
func (d *device) listParts() ([]MIGDevice, error) {
	if !d.split {
		return nil, nil
	}
	var parts []MIGDevice
	err := d.ask("MIG devices", func() (err error) { parts, err = d.MIGDevices(); return err })
	if err != nil {
		return nil, err
	}
	parts = slices.Clone(parts[:min(len(parts), maxParts)])
	slices.SortFunc(parts, func(a, b MIGDevice) int {
		return cmp.Or(cmp.Compare(a.GPUInstance, b.GPUInstance), cmp.Compare(a.ComputeInstance, b.ComputeInstance))
	})
	return parts, nil
}

// readParts reads the MIG devices. Memory and units belong to the GPU instance
// and stand at the first device of each.
func (d *device) readParts(parts []MIGDevice, now time.Time) ([]MIGSnapshot, error) {
	var list []MIGSnapshot
	for i, part := range parts {
		s := MIGSnapshot{GPUInstance: part.GPUInstance, ComputeInstance: part.ComputeInstance}
		if err := d.text("MIG UUID", &s.UUID, part.UUID); err != nil {
			return nil, err
		}
		if i == 0 || parts[i-1].GPUInstance != part.GPUInstance {
			readings, err := d.readPart(part, s.UUID, now)
			if err != nil {
				return nil, err
			}
			s.Readings = readings
		}
		if s.UUID == "" { // it went while it was looked at
			continue
		}
		var name string
		if err := d.text("MIG name", &name, part.Name); err != nil {
			return nil, err
		}
		_, s.Profile, _ = strings.Cut(name, " MIG ")
		list = append(list, s)
	}
	d.forgetParts(list)
	return list, nil
}

// readPart reads what belongs to the GPU instance of a MIG device.
func (d *device) readPart(part MIGDevice, uuid string, now time.Time) ([]Reading, error) {
	if uuid == "" {
		return nil, nil
	}
	var out readings
	if value, ok := (*d.settings.bandwidth.Load())[uuid]; ok {
		out.add(MemoryBandwidth, sourceConfig, value)
	}
	if err := d.ask("MIG memory", func() error { return askMemory(part.Device, &out) }); err != nil {
		return nil, err
	}
	if d.parts[uuid] == nil {
		d.parts[uuid] = &meter{}
	}
	if err := d.readUnits(d.parts[uuid], part.Device, now, &out); err != nil {
		return nil, err
	}
	return d.settings.sorted(out.list), nil
}

// forgetParts frees what is held of MIG devices that are gone.
func (d *device) forgetParts(list []MIGSnapshot) {
	for uuid, m := range d.parts {
		if !slices.ContainsFunc(list, func(s MIGSnapshot) bool { return s.UUID == uuid }) {
			m.reset()
			delete(d.parts, uuid)
		}
	}
}

package gpu

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
)

// roster is what is known of all GPUs of a source, those that are lost included.
type roster struct {
	log   *slog.Logger
	known map[string]DeviceSnapshot      // every GPU ever seen, by UUID, as last seen
	xids  map[string]map[uint64]XIDCount // by UUID and number
}

func newRoster(log *slog.Logger) roster {
	return roster{log: log, known: map[string]DeviceSnapshot{}, xids: map[string]map[uint64]XIDCount{}}
}

// list updates what is known of all GPUs, those that are lost included, and
// returns it in the order of their index, with how many are up.
// It logs each GPU that went or came back. found is added to.
func (r *roster) list(found map[string]DeviceSnapshot, lost map[string]error) (devices []DeviceSnapshot, up int) {
	for uuid, before := range r.known {
		if _, there := found[uuid]; !there {
			found[uuid] = withoutReadings(before, false)
		}
	}
	for uuid, now := range found {
		before, seen := r.known[uuid]
		switch wasUp := before.Up || !seen; {
		case wasUp && !now.Up:
			r.log.Warn("a GPU is lost", "uuid", uuid, "gpu", now.Index, "err", lost[uuid])
		case !wasUp && now.Up:
			r.log.Info("a GPU is back", "uuid", uuid, "gpu", now.Index)
		}
		r.know(uuid, now)
	}
	devices = r.all()
	return devices, upCount(devices)
}

// all returns what is known of all GPUs, with their critical errors.
func (r *roster) all() []DeviceSnapshot {
	var devices []DeviceSnapshot
	for uuid, d := range r.known {
		d.XIDs = slices.SortedFunc(maps.Values(r.xids[uuid]), func(a, b XIDCount) int { return cmp.Compare(a.Number, b.Number) })
		devices = append(devices, d)
	}
	slices.SortFunc(devices, func(a, b DeviceSnapshot) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.UUID, b.UUID))
	})
	return devices
}

// allDown returns the same with no GPU that answers.
func (r *roster) allDown() []DeviceSnapshot {
	devices := r.all()
	for i, d := range devices {
		devices[i] = withoutReadings(d, false)
	}
	return devices
}

// know keeps what is known of a GPU. Of GPUs that are lost, some are forgotten
// when there are too many.
func (r *roster) know(uuid string, now DeviceSnapshot) {
	r.known[uuid] = now
	for other, d := range r.known {
		if len(r.known) <= 2*maxDevices {
			return
		}
		if !d.Up {
			delete(r.known, other)
			delete(r.xids, other)
		}
	}
}

// withoutReadings returns what identifies a GPU, with its critical errors.
func withoutReadings(d DeviceSnapshot, up bool) DeviceSnapshot {
	d.Up = up
	d.Readings, d.Processes, d.VGPUs = nil, nil, nil
	d.MIG = slices.Clone(d.MIG)
	for i := range d.MIG {
		d.MIG[i].Readings = nil
	}
	return d
}

// upCount returns how many of the GPUs answer.
func upCount(devices []DeviceSnapshot) int {
	up := 0
	for _, d := range devices {
		if d.Up {
			up++
		}
	}
	return up
}

package gpu

import (
	"cmp"
	"maps"
	"slices"
)

// list brings up to date what is known of all GPUs, those that are lost
// included, and returns it in the order of their index, with how many are up.
// It logs each GPU that went or came back. found is added to.
func (s *session) list(found map[string]DeviceSnapshot, lost map[string]error) (devices []DeviceSnapshot, up int) {
	for uuid, before := range s.known {
		if _, there := found[uuid]; !there {
			found[uuid] = withoutReadings(before, false)
		}
	}
	for uuid, now := range found {
		before, seen := s.known[uuid]
		switch wasUp := before.Up || !seen; {
		case wasUp && !now.Up:
			s.log.Warn("a GPU is lost", "uuid", uuid, "gpu", now.Index, "err", lost[uuid])
		case !wasUp && now.Up:
			s.log.Info("a GPU is back", "uuid", uuid, "gpu", now.Index)
		}
		s.know(uuid, now)
	}
	devices = s.all()
	for _, d := range devices {
		if d.Up {
			up++
		}
	}
	return devices, up
}

// all returns what is known of all GPUs, with their critical errors.
func (s *session) all() []DeviceSnapshot {
	var devices []DeviceSnapshot
	for uuid, d := range s.known {
		d.XIDs = slices.SortedFunc(maps.Values(s.xids[uuid]), func(a, b XIDCount) int { return cmp.Compare(a.Number, b.Number) })
		devices = append(devices, d)
	}
	slices.SortFunc(devices, func(a, b DeviceSnapshot) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.UUID, b.UUID))
	})
	return devices
}

// allDown returns the same with no GPU that answers.
func (s *session) allDown() []DeviceSnapshot {
	devices := s.all()
	for i, d := range devices {
		devices[i] = withoutReadings(d, false)
	}
	return devices
}

// know keeps what is known of a GPU. Of GPUs that are lost, some are forgotten
// when there are too many.
func (s *session) know(uuid string, now DeviceSnapshot) {
	s.known[uuid] = now
	for other, d := range s.known {
		if len(s.known) <= 2*maxDevices {
			return
		}
		if !d.Up {
			delete(s.known, other)
			delete(s.xids, other)
		}
	}
}

// withoutReadings returns what identifies a GPU, with its critical errors.
func withoutReadings(d DeviceSnapshot, up bool) DeviceSnapshot {
	d.Up = up
	d.Readings, d.Processes = nil, nil
	d.MIG = slices.Clone(d.MIG)
	for i := range d.MIG {
		d.MIG[i].Readings = nil
	}
	return d
}

// takeXIDs counts the critical errors since the poll before.
func (s *session) takeXIDs() {
	type kind struct {
		uuid   string
		number uint64
	}
	fresh := map[kind]int{}
	s.settings.asked.set("", "critical errors")
	for range maxXIDs {
		x, err := s.lib.NextXID()
		if err != nil {
			if code := codeOf(err); code != CodeTimeout && code != CodeNotSupported && code != CodeFunctionNotFound && !libraryDown(err) {
				s.settings.log.problem("critical errors", err)
			}
			break
		}
		if s.countXID(x) {
			fresh[kind{x.UUID, x.Number}]++
		}
	}
	for k, n := range fresh {
		s.log.Warn("a GPU had a critical error", "uuid", k.uuid, "xid", k.number, "times", n)
	}
}

// countXID adds one critical error of a GPU that was opened, unless it had too
// many different ones.
func (s *session) countXID(x XID) bool {
	if !slices.ContainsFunc(s.devices, func(d *device) bool { return d.identity.UUID == x.UUID }) {
		return false
	}
	counts := s.xids[x.UUID]
	if counts == nil {
		counts = map[uint64]XIDCount{}
		s.xids[x.UUID] = counts
	}
	c, seen := counts[x.Number]
	if !seen && len(counts) >= maxXIDsADevice {
		return false
	}
	counts[x.Number] = XIDCount{Number: x.Number, Count: c.Count + 1, Last: x.At}
	return true
}

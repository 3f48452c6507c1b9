package pods

import (
	"regexp"
	"strconv"
)

// maxIDBytes bounds the id of a device; the longest form that is known has 60.
const maxIDBytes = 128

// The forms of the id of a device. A shared GPU has several ids: its own with
// ::N after it, or /vgpuN on GKE.
var (
	uuidID = regexp.MustCompile(`^((?:GPU|MIG)-` + uuidForm + `)` + replica + `$`)
	// partID is how drivers before R470 named a MIG device.
	partID = regexp.MustCompile(`^MIG-(GPU-` + uuidForm + `)/` + number + `/` + number + replica + `$`)
	// numberID is how the device plugin of GKE names GPUs and MIG devices.
	numberID = regexp.MustCompile(`^nvidia` + number + `(?:/gi` + number + `)?(?:/vgpu[0-9]+)?` + replica + `$`)
)

const (
	uuidForm = `[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`
	number   = `(0|[1-9][0-9]{0,4})`
	replica  = `(?:::[0-9]+)?`
)

// device is what the id of a device tells, as in Assignment.
type device struct {
	uuid                                string
	minor, gpuInstance, computeInstance int
}

// parseID reads the id of a device. It is not ok for an id of no known form.
func parseID(id string) (d device, ok bool) {
	if len(id) > maxIDBytes {
		return device{}, false
	}
	if m := uuidID.FindStringSubmatch(id); m != nil {
		return device{m[1], -1, -1, -1}, true
	}
	if m := partID.FindStringSubmatch(id); m != nil {
		return device{m[1], -1, ordinal(m[2]), ordinal(m[3])}, true
	}
	if m := numberID.FindStringSubmatch(id); m != nil {
		return device{"", ordinal(m[1]), ordinal(m[2]), -1}, true
	}
	return device{}, false
}

// ordinal returns the value of a number of an id, -1 for none.
func ordinal(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return -1
	}
	return n
}

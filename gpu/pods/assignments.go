//go:build pod_resources

package pods

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// Bounds of what is taken from a reply.
const (
	maxAssignments = 4096
	maxNameBytes   = 253 // the longest name that Kubernetes allows
)

// assignmentsIn returns who has which GPU, sorted, and one id of a GPU that is
// of no known form, "" for none. A reply with more than maxAssignments is an
// error: to show some of them would say that the others have none. Names are without the
// secrets.
func assignmentsIn(
	reply *podresources.ListPodResourcesResponse, resources []string, secrets *safetext.Secrets,
) (list []Assignment, strange string, err error) {
	found := map[Assignment]struct{}{}
	for id, a := range devicesIn(reply, resources) {
		d, ok := parseID(id)
		if !ok {
			strange = id
			continue
		}
		for _, name := range []*string{&a.Namespace, &a.Pod, &a.Container} {
			*name = secrets.Line(*name, maxNameBytes)
		}
		a.UUID, a.Minor, a.GPUInstance, a.ComputeInstance = d.uuid, d.minor, d.gpuInstance, d.computeInstance
		found[a] = struct{}{}
		if len(found) > maxAssignments {
			return nil, strange, fmt.Errorf("more than %d containers with a GPU", maxAssignments)
		}
	}
	return slices.SortedFunc(maps.Keys(found), compare), strange, nil
}

// devicesIn returns the id of each GPU in a reply, with the names of who has it.
func devicesIn(reply *podresources.ListPodResourcesResponse, resources []string) iter.Seq2[string, Assignment] {
	return func(yield func(string, Assignment) bool) {
		for _, pod := range reply.GetPodResources() {
			for _, c := range pod.GetContainers() {
				a := Assignment{Namespace: pod.GetNamespace(), Pod: pod.GetName(), Container: c.GetName()}
				if !fits(a.Namespace) || !fits(a.Pod) || !fits(a.Container) {
					continue
				}
				for _, devices := range c.GetDevices() {
					if !isGPU(devices.GetResourceName(), resources) {
						continue
					}
					for _, id := range devices.GetDeviceIds() {
						if !yield(id, a) {
							return
						}
					}
				}
			}
		}
	}
}

// fits reports whether a name is one that Kubernetes allows, by its length.
func fits(name string) bool { return name != "" && len(name) <= maxNameBytes }

// isGPU reports whether a resource is one of resources.
func isGPU(name string, resources []string) bool {
	return slices.ContainsFunc(resources, func(r string) bool {
		if prefix, ok := strings.CutSuffix(r, "*"); ok {
			return strings.HasPrefix(name, prefix)
		}
		return name == r
	})
}

func compare(a, b Assignment) int {
	return cmp.Or(
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container),
		cmp.Compare(a.UUID, b.UUID), cmp.Compare(a.Minor, b.Minor),
		cmp.Compare(a.GPUInstance, b.GPUInstance), cmp.Compare(a.ComputeInstance, b.ComputeInstance),
	)
}

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

// device is what the id of a device contains, as in Assignment.
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

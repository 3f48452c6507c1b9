package pods

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// Bounds of what is taken from a reply.
const (
	maxAssignments = 4096
	maxNameBytes   = 253 // the longest name that Kubernetes allows
)

// assignmentsIn returns who has which GPU, sorted, and one id of a GPU that is
// of no known form, "" for none. A reply with more than maxAssignments is an
// error: to show some of them would say that the others have none.
func assignmentsIn(reply *podresources.ListPodResourcesResponse, resources []string) (list []Assignment, strange string, err error) {
	found := map[Assignment]struct{}{}
	for id, a := range devicesIn(reply, resources) {
		d, ok := parseID(id)
		if !ok {
			strange = id
			continue
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

// fits tells whether a name is one that Kubernetes allows, by its length.
func fits(name string) bool { return name != "" && len(name) <= maxNameBytes }

// isGPU tells whether a resource is one of resources.
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

package collector

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/gpu/pods"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// podsFailures lists the states that a question to the kubelet can fail with.
func podsFailures() []pods.State {
	return []pods.State{pods.StateUnreachable, pods.StateDenied, pods.StateFailed}
}

// NewPods returns a collector of which pod has which GPU. The kubelet says who has a device; the GPUs say which one
// that is, so that a device that they do not have is left out. Both functions must return at once, pods never nil.
func NewPods(pods func() *pods.Snapshot, gpus func() gpu.Snapshots) prometheus.Collector {
	return newTable(sections()["pods"], func(s *sender) { s.pods(pods(), gpus) })
}

func (s *sender) pods(snapshot *pods.Snapshot, all func() gpu.Snapshots) {
	if snapshot.State == pods.StateStarting {
		return
	}
	s.send("gpu_pods_up", workload.Number(snapshot.State == pods.StateUp))
	for _, state := range podsFailures() {
		s.send("gpu_pods_failures_total", float64(snapshot.Failures[state]), string(state))
	}

	gpus := all()
	type holding struct {
		given                     givenDevice
		namespace, pod, container string
	}
	seen := map[holding]bool{} // a device may be named in two ways
	for _, a := range snapshot.Assignments {
		for _, g := range givenDevices(a, gpus) {
			h := holding{g, a.Namespace, a.Pod, a.Container}
			if seen[h] {
				continue
			}
			seen[h] = true
			s.send("gpu_pod_info", 1, string(g.vendor), g.uuid, strconv.Itoa(g.index), g.mig, a.Namespace, a.Pod, a.Container)
		}
	}
}

// givenDevice is a GPU, or a MIG device of it, that a container was given.
type givenDevice struct {
	vendor gpu.Vendor
	uuid   string // of the GPU
	index  int
	mig    string // "" for the whole GPU
}

// givenDevices returns the devices that an assignment names. A GPU instance means all MIG devices in it.
func givenDevices(a pods.Assignment, gpus gpu.Snapshots) []givenDevice {
	var list []givenDevice
	for _, d := range gpus.Devices() {
		if d.Host != "" {
			continue // the kubelet is that of this machine
		}
		whole := givenDevice{vendor: d.Vendor, uuid: d.UUID, index: d.Index}
		named := a.UUID == d.UUID
		if a.UUID == "" {
			named = a.Minor >= 0 && a.Minor == d.Minor
		}
		if named && a.GPUInstance < 0 {
			list = append(list, whole)
			continue
		}
		for j := range d.MIG {
			m := &d.MIG[j]
			inInstance := named && m.GPUInstance == a.GPUInstance &&
				(a.ComputeInstance < 0 || m.ComputeInstance == a.ComputeInstance)
			if inInstance || a.UUID != "" && m.UUID == a.UUID {
				part := whole
				part.mig = m.UUID
				list = append(list, part)
			}
		}
	}
	return list
}

// NewGPUPages returns a collector of how the reading of pages of other exporters goes. statuses must return at once.
func NewGPUPages(statuses func() []page.GPUPageStatus) prometheus.Collector {
	return newTable(sections()["gpu pages"], func(s *sender) {
		for _, st := range statuses() {
			up := st.State == page.Up
			s.send("gpu_page_up", workload.Number(up), st.Source, st.Server)
			if up {
				s.send("gpu_page_devices", float64(st.Devices), st.Source, st.Server, st.Software)
			}
			for reason, n := range st.Failures {
				s.send("gpu_page_failures_total", float64(n), st.Source, st.Server, string(reason))
			}
		}
	})
}

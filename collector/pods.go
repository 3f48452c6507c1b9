package collector

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/gpu/pods"
	"github.com/inference-exporter/inference_exporter/internal/page"
)

// podsFailures lists the states that a question to the kubelet can fail with.
func podsFailures() []pods.State {
	return []pods.State{pods.StateUnreachable, pods.StateDenied, pods.StateFailed}
}

// podFamilies describes the families of pods and their GPUs in the order of the
// documentation.
func podFamilies() []Family {
	return []Family{
		{
			Name: namePrefix + "gpu_pods_up", Group: GroupGPU, Type: Gauge,
			Help: "1 if the latest request to the kubelet for the GPUs of pods succeeded, 0 otherwise. Absent before the first request has ended and without --gpu.pod-resources.",
		},
		{
			Name: namePrefix + "gpu_pods_failures_total", Group: GroupGPU, Type: Counter,
			Labels: []string{"state"}, Values: config.Texts(podsFailures()),
			Help: "Failed requests to the kubelet: no answer in time (unreachable), no permission (denied), or another error (failed). Absent before the first request has ended and without --gpu.pod-resources.",
		},
		{
			Name: namePrefix + "gpu_pod_info", Group: GroupGPU, Type: Gauge,
			Labels: []string{"vendor", "uuid", "gpu", "mig_uuid", "namespace", "pod", "container"},
			Help:   "Always 1. A container with a GPU or, with mig_uuid, a MIG device; a shared GPU has several containers. To add the pod to other series of a GPU that is not shared: * on(uuid) group_left(namespace, pod, container). Kept for three intervals after the kubelet stops answering.",
		},
	}
}

// NewPods returns a collector of which pod has which GPU. The kubelet says who
// has a device; the GPUs say which one that is, so that a device that they do
// not have is left out. Both functions must return at once, pods never nil.
func NewPods(pods func() *pods.Snapshot, gpus func() gpu.Snapshots) prometheus.Collector {
	return newTable(podFamilies(), func(send send) { sendPods(send, pods(), gpus) })
}

func sendPods(send send, snapshot *pods.Snapshot, all func() gpu.Snapshots) {
	if snapshot.State == pods.StateStarting {
		return
	}
	send("gpu_pods_up", number(snapshot.State == pods.StateUp))
	for _, state := range podsFailures() {
		send("gpu_pods_failures_total", float64(snapshot.Failures[state]), string(state))
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
			send("gpu_pod_info", 1, string(g.vendor), g.uuid, strconv.Itoa(g.index), g.mig, a.Namespace, a.Pod, a.Container)
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

// givenDevices returns the devices that an assignment names. A GPU instance means
// all MIG devices in it.
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

// gpuPageFamilies describes the families of pages of other exporters that GPUs are read
// from, in the order of the documentation.
func gpuPageFamilies() []Family {
	const present = " Present only with pages under gpus in the configuration."
	return []Family{
		{
			Name: namePrefix + "gpu_page_up", Group: GroupGPU, Type: Gauge, Labels: []string{"source", "server"},
			Help: "1 if the latest reading of the page of this host succeeded, 0 otherwise; the GPUs of the host then have no series." + present,
		},
		{
			Name: namePrefix + "gpu_page_devices", Group: GroupGPU, Type: Gauge, Labels: []string{"source", "server", "software"},
			Help: "Number of GPUs that the page of this host shows, and the exporter that it is of. A decrease means that a GPU is lost or that the exporter no longer sees it." + present,
		},
		{
			Name: namePrefix + "gpu_page_failures_total", Group: GroupGPU, Type: Counter, Labels: []string{"source", "server", "reason"},
			Values: config.Texts(scrapeReasons()),
			Help:   "Failed readings of the page of this host, by reason as in inference_server_scrape_failures_total." + present,
		},
	}
}

// NewGPUPages returns a collector of how the reading of pages of other exporters goes.
// statuses must return at once.
func NewGPUPages(statuses func() []page.GPUPageStatus) prometheus.Collector {
	return newTable(gpuPageFamilies(), func(send send) {
		for _, s := range statuses() {
			up := s.State == page.Up
			send("gpu_page_up", number(up), s.Source, s.Server)
			if up {
				send("gpu_page_devices", float64(s.Devices), s.Source, s.Server, s.Software)
			}
			for reason, n := range s.Failures {
				send("gpu_page_failures_total", float64(n), s.Source, s.Server, string(reason))
			}
		}
	})
}

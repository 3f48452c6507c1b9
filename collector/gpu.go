package collector

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/gpu/pods"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// gpuStates lists the closed set of states of the poller. A build without NVML
// is none of them: it has nothing to say of GPUs.
func gpuStates() []gpu.State {
	return []gpu.State{
		gpu.StateStarting, gpu.StateUp, gpu.StateNoLibrary, gpu.StateNoDriver, gpu.StateNoDevices,
		gpu.StateDenied, gpu.StateDriverChanged, gpu.StateLost, gpu.StateStuck, gpu.StateFailed,
	}
}

// gpuFailures lists the states in which a poll can fail.
func gpuFailures() []gpu.State {
	return slices.DeleteFunc(gpuStates(), func(s gpu.State) bool { return s == gpu.StateStarting || s == gpu.StateUp })
}

// migKinds lists what a MIG device has of its own.
func migKinds() []gpu.Kind {
	return []gpu.Kind{
		gpu.MemoryTotal, gpu.MemoryUsed, gpu.MemoryFree, gpu.MemoryReserved, gpu.MemoryBandwidth,
		gpu.GraphicsActive, gpu.SMActive, gpu.SMOccupancy, gpu.TensorActive, gpu.DRAMBandwidthUtilization,
	}
}

// The labels of every series of a GPU, and of a MIG device.
func deviceLabels(own ...string) []string {
	return append([]string{"vendor", "host", "uuid", "gpu"}, own...)
}

func gpuFamilies() []Family {
	var readings, ofMIG []Family
	for _, i := range gpu.Readings() {
		readings = append(readings, readingFamily(i, string(i.Kind), i.Help, deviceLabels()))
	}
	for _, kind := range migKinds() {
		ofMIG = append(ofMIG, migFamily(kind))
	}
	return slices.Concat(sections()["gpu sources"], readings, sections()["gpus"], ofMIG, sections()["vgpus"])
}

// migFamily is the family of a kind of reading for MIG devices.
func migFamily(kind gpu.Kind) Family {
	all := gpu.Readings()
	i := all[slices.IndexFunc(all, func(i gpu.Info) bool { return i.Kind == kind })]
	if kind == gpu.MemoryBandwidth {
		i.Values = []string{"config"} // nothing else knows the share of a MIG device
	}
	return readingFamily(i, "mig_"+string(kind),
		"As inference_gpu_"+string(kind)+", of a MIG device. MIG devices of the same GPU instance share the value; it is reported for the first of them only.",
		deviceLabels("mig_uuid", "gpu_instance_id", "mig_profile"))
}

// readingFamily is the family of a kind of reading, whose label comes last.
func readingFamily(i gpu.Info, name, help string, labels []string) Family {
	if i.Label != "" {
		labels = append(labels, i.Label)
	}
	return Family{Name: namePrefix + "gpu_" + name, Group: GroupGPU, Type: Type(i.Type), Unit: unitOf(i), Labels: labels, Values: i.Values, Help: help}
}

// unitOf returns the unit as the name of the metric spells it.
func unitOf(i gpu.Info) string {
	if i.Unit == "degrees Celsius" {
		return "celsius"
	}
	return strings.ReplaceAll(i.Unit, " ", "_")
}

// NewGPU returns a collector of GPUs. snapshots is called once for each scrape; it must not wait for a driver.
func NewGPU(snapshots func() gpu.Snapshots) prometheus.Collector {
	return &gpuCollector{table: newTable(gpuFamilies(), nil), snapshots: snapshots}
}

type gpuCollector struct {
	*table
	snapshots func() gpu.Snapshots
	latest    atomic.Pointer[gpuPage]
}

// gpuPage is snapshots, which do not change, with the metrics made of them: most
// scrapes come between two polls or beside other scrapes, and find them made.
type gpuPage struct {
	of      gpu.Snapshots
	metrics []prometheus.Metric
}

// Collect implements prometheus.Collector.
func (c *gpuCollector) Collect(out chan<- prometheus.Metric) {
	all := c.snapshots()
	page := c.latest.Load()
	if page == nil || !slices.Equal(page.of, all) {
		page = &gpuPage{of: all}
		s := &sender{c.families, func(m prometheus.Metric) { page.metrics = append(page.metrics, m) }}
		for _, of := range all {
			s.gpuSource(of)
		}
		for of, d := range all.Devices() {
			s.gpu(of, d)
		}
		c.latest.Store(page)
	}
	for _, m := range page.metrics {
		out <- m
	}
}

func (s *sender) gpuSource(of *gpu.Snapshot) {
	source := of.Source
	if of.Simulated {
		s.send("gpu_simulated", 1, source)
	}
	if of.State == gpu.StateNotBuilt {
		if of.Required {
			s.send("gpu_up", 0, source)
		}
		return
	}
	for _, state := range gpuStates() {
		s.send("gpu_state", workload.Number(of.State == state), source, string(state))
	}
	if of.At.IsZero() && of.State == gpu.StateNoLibrary && !of.Required {
		return // a machine without GPUs: nothing is wrong
	}
	if of.State != gpu.StateStarting {
		s.send("gpu_up", workload.Number(of.State == gpu.StateUp), source)
	}
	for _, state := range gpuFailures() {
		s.send("gpu_poll_failures_total", float64(of.Failures[state]), source, string(state))
	}
	switch {
	case of.State == gpu.StateNoDevices && !of.Remote:
		s.send("gpu_devices", 0, source)
	case !of.At.IsZero() && !of.Remote:
		s.send("gpu_devices", float64(of.Count), source)
	}
	if !of.At.IsZero() {
		s.send("gpu_last_poll_timestamp_seconds", workload.Unix(of.At), source)
		s.send("gpu_poll_duration_seconds", of.Duration.Seconds(), source)
	}
}

func (s *sender) gpu(of *gpu.Snapshot, d *gpu.DeviceSnapshot) {
	index := ""
	if d.Index >= 0 { // it is known
		index = strconv.Itoa(d.Index)
	}
	base := []string{string(d.Vendor), d.Host, d.UUID, index}
	s.send("gpu_device_up", workload.Number(d.Up), append(base, of.Source)...)
	s.send("gpu_info", 1, append(base, of.Source, d.Name, d.PCIBusID, of.Driver, of.CUDA, d.ComputeCapability)...)
	if p := d.Place; p.Module != "" {
		s.send("gpu_platform_info", 1, append(base, p.ChassisSerial, p.Slot, p.Tray, p.Host, p.Module)...)
	}
	if p := d.Place; p.FabricCluster != "" {
		s.send("gpu_fabric_info", 1, append(base, p.FabricCluster, p.FabricClique)...)
	}
	s.readings("gpu_", d.Readings, base)
	for _, m := range d.MIG {
		instance := strconv.Itoa(m.GPUInstance)
		s.send("gpu_mig_info", 1, append(base, m.UUID, instance, strconv.Itoa(m.ComputeInstance), m.Profile)...)
		s.readings("gpu_mig_", m.Readings, append(base, m.UUID, instance, m.Profile))
	}
	for _, v := range d.VGPUs {
		labels := append(base, v.UUID)
		s.send("gpu_vgpu_info", 1, append(labels, v.Profile, v.VM)...)
		s.sendKnown("gpu_vgpu_memory_used_bytes", v.MemoryUsed, labels...)
		s.sendKnown("gpu_vgpu_sm_utilization_ratio", v.SMUtilization, labels...)
	}
	for _, x := range d.XIDs {
		labels := append(base, strconv.FormatUint(x.Number, 10))
		s.send("gpu_xid_errors_total", float64(x.Count), labels...)
		s.send("gpu_xid_last_timestamp_seconds", workload.Unix(x.Last), labels...)
	}
	for _, p := range d.Processes {
		labels := append(base, strconv.Itoa(p.PID), p.Name, p.Container, p.PodUID)
		s.sendKnown("gpu_process_memory_used_bytes", p.MemoryUsed, labels...)
		s.sendKnown("gpu_process_sm_utilization_ratio", p.SMUtilization, labels...)
	}
}

// readings sends those that have a family, whose name begins with a prefix.
func (s *sender) readings(prefix string, readings []gpu.Reading, base []string) {
	for _, r := range readings {
		name := prefix + string(r.Kind)
		switch f := s.families[name]; {
		case f == nil:
		case len(f.Labels) == len(base):
			s.send(name, r.Value, base...)
		default:
			s.send(name, r.Value, append(base, r.Label)...)
		}
	}
}

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

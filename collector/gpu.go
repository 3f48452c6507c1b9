package collector

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
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

func migLabels() []string { return deviceLabels("mig_uuid", "gpu_instance_id", "mig_profile") }

// gpuFamilies returns the families of GPUs in the order of the documentation.
func gpuFamilies() []Family {
	all := pollRows()
	for _, i := range gpu.Readings() {
		all = append(all, readingFamily(i, string(i.Kind), i.Help, deviceLabels()))
	}
	all = append(all, deviceRows()...)
	for _, kind := range migKinds() {
		all = append(all, migFamily(kind))
	}
	all = append(all, vgpuRows()...)
	for i := range all {
		all[i].Name, all[i].Group = namePrefix+"gpu_"+all[i].Name, GroupGPU
	}
	return all
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
		migLabels())
}

// readingFamily is the family of a kind of reading, whose label comes last.
func readingFamily(i gpu.Info, name, help string, labels []string) Family {
	if i.Label != "" {
		labels = append(labels, i.Label)
	}
	return Family{Name: name, Type: Type(i.Type), Unit: unitOf(i), Labels: labels, Values: i.Values, Help: help}
}

// unitOf returns the unit as the name of the metric spells it.
func unitOf(i gpu.Info) string {
	switch i.Unit {
	case "degrees Celsius":
		return "celsius"
	case "bytes per second":
		return "bytes_per_second"
	}
	return i.Unit
}

// pollRows are how the reading of the GPUs goes, and which GPUs there are.
func pollRows() []Family {
	return []Family{
		{
			Name: "up", Type: Gauge, Labels: []string{"source"},
			Help: "1 if this source can read its GPUs, 0 otherwise; see inference_gpu_state for the reason. Absent before the first poll has ended, and on a machine that never had a driver, which is normal for a prober; an exporter that only reads GPUs reports 0 there.",
		},
		{
			Name: "state", Type: Gauge, Labels: []string{"source", "state"}, Values: config.Texts(gpuStates()),
			Help:  "1 for the current state of a reader of GPUs, 0 for all others.",
			Notes: "Readings are available (up), no poll has ended yet (starting), the driver library is missing (no_library), the library is present but the driver is not loaded (no_driver), the driver found no GPU (no_devices), no permission for any GPU (denied), the driver was replaced while in use (driver_mismatch), no GPU responds any more (lost), a driver call does not return (stuck), or another error (failed). Absent in a build without NVML.",
		},
		{
			Name: "simulated", Type: Gauge, Labels: []string{"source"},
			Help: "Always 1. Present only if the readings are simulated, as in the demonstration.",
		},
		{
			Name: "devices", Type: Gauge, Labels: []string{"source"},
			Help: "Number of GPUs that the driver reports, including GPUs that may not be opened, so it can be larger than the number of series of inference_gpu_device_up. A decrease means that a GPU fell off the bus. Absent for pages of other exporters, which have inference_gpu_page_devices.",
		},
		{
			Name: "last_poll_timestamp_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"source"},
			Help: "Unix time at which the latest successful poll started. All readings are from that time; readings that are too old are dropped.",
		},
		{
			Name: "poll_duration_seconds", Type: Gauge, Unit: "seconds", Labels: []string{"source"},
			Help: "Duration of the latest successful poll. A driver that becomes slow often has a GPU that is about to fail.",
		},
		{
			Name: "poll_failures_total", Type: Counter, Labels: []string{"source", "state"}, Values: config.Texts(gpuFailures()),
			Help: "Failed polls, by the resulting state.",
		},
		{
			Name: "device_up", Type: Gauge, Labels: deviceLabels("source"),
			Help: "1 if the GPU responds, 0 if it is lost or no GPU can be read; it then has no readings.",
		},
		{
			Name: "info", Type: Gauge,
			Labels: deviceLabels("source", "name", "pci_bus_id", "driver_version", "cuda_version", "compute_capability"),
			Help:   "Always 1. Identifies a GPU and its driver; join by uuid.",
		},
	}
}

// deviceRows are what is known of a GPU besides readings.
func deviceRows() []Family {
	process := deviceLabels("pid", "process", "container", "pod_uid")
	return []Family{
		{
			Name: "xid_errors_total", Type: Counter, Labels: deviceLabels("xid"),
			Help: "Critical errors (XID) reported by the driver since the exporter started. An XID appears with its first error. 48, 62, 64, 74, 79, 95, 119 and 120 indicate a problem of the GPU; 13, 31 and 43 are mostly faults of a program.",
		},
		{
			Name: "xid_last_timestamp_seconds", Type: Gauge, Unit: "seconds", Labels: deviceLabels("xid"),
			Help: "Unix time of the latest critical error of this XID. Alert on this, as it includes the first error.",
		},
		{
			Name: "process_memory_used_bytes", Type: Gauge, Unit: "bytes", Labels: process,
			Help: "GPU memory that a process uses. Present only if processes are enabled; at most 128 processes per GPU, those with the most memory.",
		},
		{
			Name: "process_sm_utilization_ratio", Type: Gauge, Unit: "ratio", Labels: process,
			Help: "Ratio of time in which kernels of the process were running, as last sampled. Absent while there is no new sample, and with MIG.",
		},
		{
			Name: "mig_info", Type: Gauge, Labels: deviceLabels("mig_uuid", "gpu_instance_id", "compute_instance_id", "mig_profile"),
			Help: "Always 1. Identifies a MIG device.",
		},
	}
}

// vgpuRows are what is known of the vGPUs that run on the GPUs of a host.
func vgpuRows() []Family {
	return []Family{
		{
			Name: "vgpu_info", Type: Gauge, Labels: deviceLabels("vgpu_uuid", "vgpu_profile", "vm"),
			Help: "Always 1. Identifies a vGPU that runs on a GPU of this host: its profile, and the virtual machine as the hypervisor names it.",
		},
		{
			Name: "vgpu_memory_used_bytes", Type: Gauge, Unit: "bytes", Labels: deviceLabels("vgpu_uuid"),
			Help: "GPU memory that a vGPU uses, on its host.",
		},
		{
			Name: "vgpu_sm_utilization_ratio", Type: Gauge, Unit: "ratio", Labels: deviceLabels("vgpu_uuid"),
			Help: "Ratio of time in which kernels of a vGPU were running, as last sampled on its host. Absent while there is no new sample.",
		},
	}
}

// NewGPU returns a collector of GPUs. snapshots is called once for each scrape; it
// must not wait for a driver.
func NewGPU(snapshots func() gpu.Snapshots) prometheus.Collector {
	return &gpuCollector{snapshots: snapshots, families: describe(gpuFamilies())}
}

type gpuCollector struct {
	snapshots func() gpu.Snapshots
	families  map[string]*described
	latest    atomic.Pointer[gpuPage]
}

// gpuPage is snapshots, which do not change, with the metrics made of them: most
// scrapes come between two polls or beside other scrapes, and find them made.
type gpuPage struct {
	of      gpu.Snapshots
	metrics gpuMetrics
}

// Describe implements prometheus.Collector.
func (c *gpuCollector) Describe(out chan<- *prometheus.Desc) {
	for _, f := range c.families {
		out <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (c *gpuCollector) Collect(out chan<- prometheus.Metric) {
	all := c.snapshots()
	page := c.latest.Load()
	if page == nil || !slices.Equal(page.of, all) {
		page = &gpuPage{of: all}
		for _, s := range all {
			c.poll(&page.metrics, s)
		}
		for s, d := range all.Devices() {
			c.device(&page.metrics, s, d)
		}
		c.latest.Store(page)
	}
	for i := range page.metrics {
		out <- &page.metrics[i]
	}
}

// gpuMetric is a metric of one value. Those of a GPU share the pairs of their
// labels: making these again for each metric would be most of a scrape.
type gpuMetric struct {
	family  *described
	labels  []*dto.LabelPair // sorted by name
	counter *dto.Counter     // this or the other
	gauge   *dto.Gauge
}

// gpuMetrics are the metrics of one snapshot.
type gpuMetrics []gpuMetric

// Desc implements prometheus.Metric.
func (m *gpuMetric) Desc() *prometheus.Desc { return m.family.desc }

// Write implements prometheus.Metric.
func (m *gpuMetric) Write(out *dto.Metric) error {
	out.Label, out.Counter, out.Gauge = m.labels, m.counter, m.gauge
	return nil
}

// send makes one metric of the family with a name, which comes without inference_gpu_.
func (c *gpuCollector) send(out *gpuMetrics, name string, v float64, labels ...*dto.LabelPair) {
	f := c.families["gpu_"+name]
	labels = slices.Clone(labels)
	slices.SortFunc(labels, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
	m := gpuMetric{family: f, labels: labels}
	if f.Type == Counter {
		m.counter = &dto.Counter{Value: &v}
	} else {
		m.gauge = &dto.Gauge{Value: &v}
	}
	*out = append(*out, m)
}

// label makes the pair of a label. Texts of the driver need not be UTF-8.
func label(name, value string) *dto.LabelPair {
	value = strings.ToValidUTF8(value, "\uFFFD")
	return &dto.LabelPair{Name: &name, Value: &value}
}

// poll sends how the reading of the GPUs of one source goes.
func (c *gpuCollector) poll(out *gpuMetrics, s *gpu.Snapshot) {
	source := label("source", s.Source)
	if s.Simulated {
		c.send(out, "simulated", 1, source)
	}
	if s.State == gpu.StateNotBuilt {
		if s.Required {
			c.send(out, "up", 0, source)
		}
		return
	}
	for _, state := range gpuStates() {
		c.send(out, "state", number(s.State == state), source, label("state", string(state)))
	}
	if s.At.IsZero() && s.State == gpu.StateNoLibrary && !s.Required {
		return // a machine without GPUs: nothing is wrong
	}
	if s.State != gpu.StateStarting {
		c.send(out, "up", number(s.State == gpu.StateUp), source)
	}
	for _, state := range gpuFailures() {
		c.send(out, "poll_failures_total", float64(s.Failures[state]), source, label("state", string(state)))
	}
	switch {
	case s.State == gpu.StateNoDevices && !s.Remote:
		c.send(out, "devices", 0, source)
	case !s.At.IsZero() && !s.Remote:
		c.send(out, "devices", float64(s.Count), source)
	}
	if !s.At.IsZero() {
		c.send(out, "last_poll_timestamp_seconds", unixSeconds(s.At), source)
		c.send(out, "poll_duration_seconds", s.Duration.Seconds(), source)
	}
}

// number is how a page shows what holds or not.
func number(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

// indexText returns the index of a GPU as a label; "" where it is unknown.
func indexText(i int) string {
	if i < 0 {
		return ""
	}
	return strconv.Itoa(i)
}

// device sends what is known of one GPU.
func (c *gpuCollector) device(out *gpuMetrics, s *gpu.Snapshot, d *gpu.DeviceSnapshot) {
	base := []*dto.LabelPair{
		label("vendor", string(d.Vendor)), label("host", d.Host), label("uuid", d.UUID), label("gpu", indexText(d.Index)),
	}
	source := label("source", s.Source)
	c.send(out, "device_up", number(d.Up), append(base, source)...)
	c.send(out, "info", 1, append(base, source,
		label("name", d.Name), label("pci_bus_id", d.PCIBusID), label("driver_version", s.Driver),
		label("cuda_version", s.CUDA), label("compute_capability", d.ComputeCapability))...)
	c.sendReadings(out, "", d.Readings, base)
	for _, m := range d.MIG {
		part := append(base,
			label("mig_uuid", m.UUID), label("gpu_instance_id", strconv.Itoa(m.GPUInstance)), label("mig_profile", m.Profile))
		c.send(out, "mig_info", 1, append(part, label("compute_instance_id", strconv.Itoa(m.ComputeInstance)))...)
		c.sendReadings(out, "mig_", m.Readings, part)
	}
	c.sendVGPUs(out, d.VGPUs, base)
	for _, x := range d.XIDs {
		labels := append(base, label("xid", strconv.FormatUint(x.Number, 10)))
		c.send(out, "xid_errors_total", float64(x.Count), labels...)
		c.send(out, "xid_last_timestamp_seconds", unixSeconds(x.Last), labels...)
	}
	for _, p := range d.Processes {
		labels := append(base,
			label("pid", strconv.Itoa(p.PID)), label("process", p.Name), label("container", p.Container), label("pod_uid", p.PodUID))
		if p.MemoryUsed >= 0 {
			c.send(out, "process_memory_used_bytes", p.MemoryUsed, labels...)
		}
		if p.SMUtilization >= 0 {
			c.send(out, "process_sm_utilization_ratio", p.SMUtilization, labels...)
		}
	}
}

// sendVGPUs sends what is known of the vGPUs of a GPU.
func (c *gpuCollector) sendVGPUs(out *gpuMetrics, vgpus []gpu.VGPUSnapshot, base []*dto.LabelPair) {
	for _, v := range vgpus {
		labels := append(base, label("vgpu_uuid", v.UUID))
		c.send(out, "vgpu_info", 1, append(labels, label("vgpu_profile", v.Profile), label("vm", v.VM))...)
		if v.MemoryUsed >= 0 {
			c.send(out, "vgpu_memory_used_bytes", v.MemoryUsed, labels...)
		}
		if v.SMUtilization >= 0 {
			c.send(out, "vgpu_sm_utilization_ratio", v.SMUtilization, labels...)
		}
	}
}

// sendReadings sends those readings that have a family, whose name begins with a prefix.
func (c *gpuCollector) sendReadings(out *gpuMetrics, prefix string, readings []gpu.Reading, base []*dto.LabelPair) {
	for _, r := range readings {
		f := c.families["gpu_"+prefix+string(r.Kind)]
		switch {
		case f == nil:
		case len(f.Labels) == len(base):
			c.send(out, prefix+string(r.Kind), r.Value, base...)
		default:
			c.send(out, prefix+string(r.Kind), r.Value, append(base, label(f.Labels[len(base)], r.Label))...)
		}
	}
}

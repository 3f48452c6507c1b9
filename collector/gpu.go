package collector

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/inference-exporter/inference_exporter/gpu"
)

// NewGPU returns a collector of the GPUs of this machine. snapshot is called
// once for each scrape; it must not wait for the driver, nor return nil.
func NewGPU(snapshot func() *gpu.Snapshot) prometheus.Collector {
	return &gpuCollector{snapshot: snapshot, gpuFamilies: newGPUFamilies()}
}

type gpuCollector struct {
	snapshot func() *gpu.Snapshot
	gpuFamilies
	latest atomic.Pointer[gpuPage]
}

// gpuPage is a snapshot, which does not change, with the metrics made of it: most
// scrapes come between two polls or beside other scrapes, and find them made.
type gpuPage struct {
	of      *gpu.Snapshot
	metrics gpuMetrics
}

// Describe implements prometheus.Collector.
func (c *gpuCollector) Describe(out chan<- *prometheus.Desc) {
	for _, f := range c.list() {
		out <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (c *gpuCollector) Collect(out chan<- prometheus.Metric) {
	s := c.snapshot()
	page := c.latest.Load()
	if page == nil || page.of != s {
		page = &gpuPage{of: s}
		c.poll(&page.metrics, s)
		for i := range s.Devices {
			c.device(&page.metrics, s, &s.Devices[i])
		}
		c.latest.Store(page)
	}
	for i := range page.metrics {
		out <- &page.metrics[i]
	}
}

// gpuMetric is a metric of one value. Those of a GPU share the pairs of their
// labels: making these anew for each metric would be most of a scrape.
type gpuMetric struct {
	family  *gpuFamily
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

// send makes one metric.
func (f *gpuFamily) send(out *gpuMetrics, v float64, labels ...*dto.LabelPair) {
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

// poll sends how the reading of the GPUs goes.
func (c *gpuCollector) poll(out *gpuMetrics, s *gpu.Snapshot) {
	if s.Simulated {
		c.simulated.send(out, 1)
	}
	if s.State == gpu.StateNotBuilt {
		if s.Required {
			c.up.send(out, 0)
		}
		return
	}
	for _, state := range gpuStates() {
		c.state.send(out, number(s.State == state), label("state", string(state)))
	}
	if s.At.IsZero() && s.State == gpu.StateNoLibrary && !s.Required {
		return // a machine without GPUs: nothing is wrong
	}
	if s.State != gpu.StateStarting {
		c.up.send(out, number(s.State == gpu.StateUp))
	}
	for _, state := range gpuFailures() {
		c.pollFailures.send(out, float64(s.Failures[state]), label("state", string(state)))
	}
	switch {
	case s.State == gpu.StateNoDevices:
		c.devices.send(out, 0)
	case !s.At.IsZero():
		c.devices.send(out, float64(s.Count))
	}
	if !s.At.IsZero() {
		c.lastPoll.send(out, unixSeconds(s.At))
		c.pollDuration.send(out, s.Duration.Seconds())
	}
}

// number is how a page shows what holds or not.
func number(holds bool) float64 {
	if holds {
		return 1
	}
	return 0
}

// device sends what is known of one GPU.
func (c *gpuCollector) device(out *gpuMetrics, s *gpu.Snapshot, d *gpu.DeviceSnapshot) {
	base := []*dto.LabelPair{label("uuid", d.UUID), label("gpu", strconv.Itoa(d.Index))}
	c.deviceUp.send(out, number(d.Up), base...)
	c.info.send(out, 1, append(base,
		label("name", d.Name), label("pci_bus_id", d.PCIBusID), label("driver_version", s.Driver),
		label("cuda_version", s.CUDA), label("compute_capability", d.ComputeCapability))...)
	sendReadings(out, c.whole, d.Readings, base)
	for _, m := range d.MIG {
		part := append(base,
			label("mig_uuid", m.UUID), label("gpu_instance_id", strconv.Itoa(m.GPUInstance)), label("mig_profile", m.Profile))
		c.migInfo.send(out, 1, append(part, label("compute_instance_id", strconv.Itoa(m.ComputeInstance)))...)
		sendReadings(out, c.parts, m.Readings, part)
	}
	for _, x := range d.XIDs {
		labels := append(base, label("xid", strconv.FormatUint(x.Number, 10)))
		c.xidErrors.send(out, float64(x.Count), labels...)
		c.xidLast.send(out, unixSeconds(x.Last), labels...)
	}
	for _, p := range d.Processes {
		labels := append(base,
			label("pid", strconv.Itoa(p.PID)), label("process", p.Name), label("container", p.Container), label("pod_uid", p.PodUID))
		if p.MemoryUsed >= 0 {
			c.processMemory.send(out, p.MemoryUsed, labels...)
		}
		if p.SMUtilization >= 0 {
			c.processSM.send(out, p.SMUtilization, labels...)
		}
	}
}

// sendReadings sends those readings that have a family.
func sendReadings(out *gpuMetrics, families map[gpu.Kind]*gpuFamily, readings []gpu.Reading, base []*dto.LabelPair) {
	for _, r := range readings {
		f := families[r.Kind]
		switch {
		case f == nil:
		case f.own == "":
			f.send(out, r.Value, base...)
		default:
			f.send(out, r.Value, append(base, label(f.own, r.Label))...)
		}
	}
}

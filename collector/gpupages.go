package collector

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-exporter/inference_exporter/internal/page"
)

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
			Values: labelValues(scrapeReasons()),
			Help:   "Failed readings of the page of this host, by reason as in inference_server_scrape_failures_total." + present,
		},
	}
}

// gpuPageCollector makes the metrics of the pages of other exporters.
type gpuPageCollector struct {
	statuses              func() []page.GPUPageStatus
	up, devices, failures *prometheus.Desc
}

// NewGPUPages returns a collector of how the reading of pages of other exporters goes.
// statuses must return at once.
func NewGPUPages(statuses func() []page.GPUPageStatus) prometheus.Collector {
	f := gpuPageFamilies()
	desc := func(f Family) *prometheus.Desc { return prometheus.NewDesc(f.Name, f.Help, f.Labels, nil) }
	return &gpuPageCollector{statuses: statuses, up: desc(f[0]), devices: desc(f[1]), failures: desc(f[2])}
}

// Describe implements prometheus.Collector.
func (c *gpuPageCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.up
	ch <- c.devices
	ch <- c.failures
}

// Collect implements prometheus.Collector.
func (c *gpuPageCollector) Collect(ch chan<- prometheus.Metric) {
	for _, s := range c.statuses() {
		up := s.State == page.Up
		ch <- prometheus.MustNewConstMetric(c.up, prometheus.GaugeValue, number(up), s.Source, s.Server)
		if up {
			ch <- prometheus.MustNewConstMetric(c.devices, prometheus.GaugeValue, float64(s.Devices), s.Source, s.Server, s.Software)
		}
		for reason, n := range s.Failures {
			ch <- prometheus.MustNewConstMetric(c.failures, prometheus.CounterValue, float64(n), s.Source, s.Server, string(reason))
		}
	}
}

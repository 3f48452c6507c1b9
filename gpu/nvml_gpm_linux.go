//go:build linux && cgo

package gpu

import (
	"math"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

func (d *nvmlDevice) GPMSupported() (bool, error) {
	support, r := d.handle.GpmQueryDeviceSupport()
	if err := call("nvmlGpmQueryDeviceSupport").result(r); err != nil {
		return false, err
	}
	return support.IsSupportedDevice != 0, nil
}

// nvmlSample is a sample in memory of the library.
type nvmlSample struct {
	sample nvml.GpmSample // nil once freed
}

func (s *nvmlSample) Free() {
	if s.sample != nil {
		_ = s.sample.Free()
		s.sample = nil
	}
}

func (d *nvmlDevice) GPMSample() (GPMSample, error) {
	sample, r := d.binding.GpmSampleAlloc()
	if err := call("nvmlGpmSampleAlloc").result(r); err != nil {
		return nil, err
	}
	s := &nvmlSample{sample: sample}
	if err := call("nvmlGpmSampleGet").result(sample.Get(d.handle)); err != nil {
		s.Free()
		return nil, err
	}
	return s, nil
}

func (d *nvmlDevice) GPMMetrics(older, newer GPMSample, ids []int) (map[int]float64, error) {
	const name = call("nvmlGpmMetricsGet")
	first, last := heldSample(older), heldSample(newer)
	if first == nil || last == nil {
		return nil, &Error{Call: string(name), Code: CodeNoData, Detail: "no two samples"}
	}
	request := nvml.GpmMetricsGetType{Sample1: first, Sample2: last}
	request.NumMetrics = uint32(min(len(ids), len(request.Metrics)))
	for i := range request.NumMetrics {
		request.Metrics[i].MetricId = uint32(ids[i])
	}
	if err := name.result(d.binding.GpmMetricsGet(&request)); err != nil {
		return nil, err
	}
	metrics := make(map[int]float64, request.NumMetrics)
	for _, m := range request.Metrics[:request.NumMetrics] {
		if nvml.Return(m.NvmlReturn) == nvml.SUCCESS && !math.IsNaN(m.Value) && !math.IsInf(m.Value, 0) {
			metrics[int(m.MetricId)] = m.Value
		}
	}
	return metrics, nil
}

// heldSample returns the library's sample, nil if there is none.
func heldSample(s GPMSample) nvml.GpmSample {
	held, ok := s.(*nvmlSample)
	if !ok || held == nil {
		return nil
	}
	return held.sample
}

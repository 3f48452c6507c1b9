package collector

import (
	"slices"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
)

// hardwareValues is the state behind the samples of what an endpoint runs on.
type hardwareValues struct {
	*config.Hardware
	gpus      []*labelBlock // one for each of UUIDs
	bandwidth float64       // of all GPUs together, in bytes per second; 0 is not known
}

// hardwareFamily is a family of what endpoints run on.
type hardwareFamily = familyOf[hardwareValues]

// hardwareFamilies returns the families of what endpoints run on, in the order
// of the documentation.
func hardwareFamilies() []*hardwareFamily {
	return []*hardwareFamily{
		hardwareGauge("decode_ceiling_tokens_per_second", "tokens_per_second",
			"Tokens per second that one sequence can get at most without speculative decoding: the memory bandwidth of the endpoint's GPUs over the bytes of weights that each token reads. 60 to 85 % of it can be reached. A batch shares the reads, so that all sequences together get more. Absent unless both are known.",
			func(v hardwareValues) gauge {
				ceiling := gpu.DecodeCeiling(v.bandwidth, float64(v.Weights))
				return gauge{ceiling, ceiling > 0}
			}),
		hardwareGauge("gpus", "",
			"GPUs that work on one token of the endpoint at the same time, as configured.",
			func(v hardwareValues) gauge { return gauge{float64(v.GPUs), true} }),
		hardwareGauge("weights_bytes", "bytes",
			"Bytes of weights that are read for each token, as configured.",
			func(v hardwareValues) gauge { return gauge{float64(v.Weights), v.Weights > 0} }),
		{newFamily(Family{
			Name: "endpoint_gpu_info", Group: GroupEndpoint, Type: Gauge,
			Help: "Always 1. A GPU that the endpoint runs on, as configured: its uuid or, for a MIG device, its mig_uuid. Joins the endpoint to the readings of the GPU.",
		}, []string{"endpoint", "model", "uuid", "mig_uuid"}, nil), func(e encoder, _ *family, v hardwareValues) {
			for _, block := range v.gpus {
				e.labels(block, time.Time{})
				e.gauge(0, 1)
			}
		}},
	}
}

// hardwareGauge returns a family of one gauge for each endpoint whose hardware
// is configured.
func hardwareGauge(name, unit, help string, get func(v hardwareValues) gauge) *hardwareFamily {
	f := Family{Name: "endpoint_" + name, Group: GroupEndpoint, Type: Gauge, Unit: unit, Help: help}
	return &hardwareFamily{newFamily(f, []string{"endpoint", "model"}, nil), func(e encoder, _ *family, v hardwareValues) {
		if g := get(v); g.present {
			e.gauge(0, g.value)
		}
	}}
}

// newHardware renders the labels of what an endpoint runs on and finds its
// bandwidth, as far as the configuration tells.
func newHardware(info EndpointInfo, reserved []string) labelled[hardwareValues] {
	base := []pair{{"endpoint", info.Endpoint}, {"model", boundModel(info.Model)}}
	v := hardwareValues{Hardware: info.Hardware, bandwidth: configuredBandwidth(info.Hardware)}
	for _, uuid := range info.Hardware.UUIDs {
		label := "uuid"
		if isMIG(uuid) {
			label = "mig_uuid"
		}
		v.gpus = append(v.gpus, newLabelBlock(append(base, pair{label, uuid}), info.Labels, reserved))
	}
	slices.SortFunc(v.gpus, compareLabels)
	return labelled[hardwareValues]{newLabelBlock(base, info.Labels, reserved), v}
}

func isMIG(uuid string) bool { return strings.HasPrefix(uuid, "MIG-") }

// configuredBandwidth returns the memory bandwidth of all GPUs together, 0 when
// the configuration does not tell it. A MIG device has a share of the
// product's that nobody tells.
func configuredBandwidth(h *config.Hardware) float64 {
	one := float64(h.MemoryBandwidth)
	if one == 0 && !slices.ContainsFunc(h.UUIDs, isMIG) {
		one, _ = gpu.ProductBandwidth(h.GPU) // 0 for none that is known
	}
	return float64(h.GPUs) * one
}

// addLocal adds the bandwidth of GPUs of this machine to what the configuration
// leaves open.
func (p *Probes) addLocal(runsOn []labelled[hardwareValues]) []labelled[hardwareValues] {
	if p.gpus == nil || len(runsOn) == 0 {
		return runsOn
	}
	local := localBandwidths(p.gpus())
	out := slices.Clone(runsOn)
	for i := range out {
		if v := &out[i].value; v.bandwidth == 0 {
			v.bandwidth = localBandwidth(local, v.UUIDs)
		}
	}
	return out
}

// localBandwidths returns the memory bandwidth of each GPU and MIG device of
// this machine for which it is known.
func localBandwidths(s *gpu.Snapshot) map[string]float64 {
	out := make(map[string]float64)
	add := func(uuid string, readings []gpu.Reading) {
		for _, r := range readings {
			if r.Kind == gpu.MemoryBandwidth {
				out[uuid] = r.Value
			}
		}
	}
	for _, d := range s.Devices {
		add(d.UUID, d.Readings)
		for _, m := range d.MIG {
			add(m.UUID, m.Readings)
		}
	}
	return out
}

// localBandwidth returns the sum over the GPUs of an endpoint, 0 unless each of
// them is known.
func localBandwidth(local map[string]float64, uuids []string) float64 {
	var sum float64
	for _, uuid := range uuids {
		one := local[uuid]
		if one == 0 {
			return 0
		}
		sum += one
	}
	return sum
}

package collector

import (
	"slices"
	"time"
)

// precisionFamily is the family of the number formats of endpoints' weights and
// of the arithmetic on them.
func precisionFamily() *hardwareFamily {
	return &hardwareFamily{newFamily(Family{
		Name: "endpoint_precision_info", Group: GroupEndpoint, Type: Gauge,
		Help: "Always 1. The number formats in which the weights of the endpoint's model are stored and in which the GPU multiplies, as configured; empty is not configured. Where they differ, the weights are converted on the way: the ceiling stays, while less of it can be reached.",
	}, []string{"endpoint", "model", "weights_precision", "compute_precision"}, nil), func(e encoder, _ *family, v hardwareValues) {
		if v.precision != nil {
			e.labels(v.precision, time.Time{})
			e.gauge(0, 1)
		}
	}}
}

// newPrecision renders the labels of the precisions, nil where none is configured.
func newPrecision(info EndpointInfo, base []pair, labels *labeller) *labelBlock {
	h := info.Hardware
	if h.WeightsPrecision == "" && h.ComputePrecision == "" {
		return nil
	}
	all := append(slices.Clone(base), pair{"weights_precision", string(h.WeightsPrecision)}, pair{"compute_precision", string(h.ComputePrecision)})
	return labels.block(all, info.Labels)
}

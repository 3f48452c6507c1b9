package config

import "math"

// Precision is the number format of weights, or of the arithmetic on them. The
// set is closed: it is a label value.
type Precision string

// The precisions.
const (
	FP32  Precision = "fp32"
	BF16  Precision = "bf16"
	FP16  Precision = "fp16"
	FP8   Precision = "fp8"
	MXFP8 Precision = "mxfp8" // with a scale of 8 bits for each 32 weights
	INT8  Precision = "int8"
	FP4   Precision = "fp4"
	MXFP4 Precision = "mxfp4" // with a scale of 8 bits for each 32 weights
	NVFP4 Precision = "nvfp4" // with a scale of 8 bits for each 16 weights
	INT4  Precision = "int4"
)

// Precisions returns all precisions, the widest first.
func Precisions() []Precision {
	return []Precision{FP32, BF16, FP16, FP8, MXFP8, INT8, FP4, MXFP4, NVFP4, INT4}
}

// precisionNames are the names of all precisions.
func precisionNames() []string {
	var names []string
	for _, p := range Precisions() {
		names = append(names, string(p))
	}
	return names
}

// BytesPerWeight returns the bytes of memory of one weight, with its part of the
// scales of its block where the format defines these: OCP Microscaling Formats
// (MX) 1.0 for mxfp8 and mxfp4, NVIDIA's NVFP4. Formats whose scales are up to
// the checkpoint count without them. It is 0 for no precision.
func (p Precision) BytesPerWeight() float64 {
	switch p {
	case FP32:
		return 4
	case BF16, FP16:
		return 2
	case FP8, INT8:
		return 1
	case MXFP8:
		return 1 + 1.0/32
	case FP4, INT4:
		return 0.5
	case MXFP4:
		return 0.5 + 1.0/32
	case NVFP4:
		return 0.5 + 1.0/16
	default:
		return 0
	}
}

// maxParameters is more parameters than any model has.
const maxParameters = 1e15

// ReadBytes returns the bytes of weights that are read for each token: those
// configured, or those of the parameters in the precision of the weights; 0 for
// unknown.
func (h *Hardware) ReadBytes() Bytes {
	if h.Weights > 0 {
		return h.Weights
	}
	return Bytes(math.Round(h.Parameters * h.WeightsPrecision.BytesPerWeight()))
}

// validatePrecision checks the precisions, and that the bytes of weights follow
// from one thing only.
func (h *Hardware) validatePrecision(r *report, p path) {
	check := func(at path, precision Precision) {
		if r.written(at) && !r.failed[at] {
			validateOneOf(r, at, string(precision), precisionNames()...)
		}
	}
	check(p.key("weights_precision"), h.WeightsPrecision)
	check(p.key("compute_precision"), h.ComputePrecision)
	at := p.key("parameters")
	switch {
	case !r.written(at) || r.failed[at]:
	case !(h.Parameters >= 1 && h.Parameters <= maxParameters):
		r.errorf(at, "want 1 to %g parameters, like 8.03e9, got %v", float64(maxParameters), h.Parameters)
	case h.Weights > 0:
		r.errorf(at, "weights gives the bytes already; leave one of them out")
	case h.WeightsPrecision == "":
		r.errorf(p.key("weights_precision"), "missing, but required by parameters")
	}
}

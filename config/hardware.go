package config

import (
	"math"
	"regexp"
)

// Hardware says what an endpoint runs on, for the ceiling of what it can
// decode: the memory bandwidth of its GPUs over the bytes of weights that each
// token reads. Nothing in it is required; what is left out makes no series.
type Hardware struct {
	// GPU is the name of the product, such as `H100 SXM`, which determines the memory
	// bandwidth.
	GPU string `yaml:"gpu,omitempty" text:"128"`
	// GPUs is how many GPUs work on one token at the same time (tensor parallel).
	// Replicas do not count, nor do the stages of a pipeline, which
	// work one after the other. Default: the number of `uuids`, or 1.
	GPUs int `yaml:"gpus" default:"1" range:"[1,1024]"`
	// MemoryBandwidth is that of one GPU or MIG device, in bytes per second.
	// Default: that of the product, though not for MIG devices, whose share
	// of it is unknown; else that of the GPUs of this machine that `uuids`
	// names.
	MemoryBandwidth Bytes `yaml:"memory_bandwidth,omitempty"`
	// Weights are the bytes of weights that are read for each token, over all
	// GPUs together and in the type they are stored in: all of the model, or the
	// active ones of a mixture of experts.
	Weights Bytes `yaml:"weights,omitempty"`
	// Parameters is the number of weights that are read for each token, such as
	// `8.03e9`, where their bytes are to follow from `weights_precision`. What a checkpoint keeps in another
	// precision, mostly embeddings, is then not counted.
	Parameters float64 `yaml:"parameters,omitempty" range:"[1,1e15]" requires:"weights_precision" excludes:"weights"`
	// TotalWeights are the bytes of all weights that one replica holds on its GPUs
	// together; of a mixture of experts, those of all experts. With it the memory of the
	// GPUs is split into weights, KV cache and rest, where the server does not
	// report its weights.
	TotalWeights Bytes `yaml:"total_weights,omitempty"`
	// KVCachePerToken are the bytes of KV cache of one token on all GPUs of a replica
	// together: 2 × layers × KV heads × head size × bytes of a value, such as 128KiB
	// for Llama 3.1 8B in bf16. With it the bytes of the KV cache follow from its
	// capacity in tokens, where the server does not report them.
	KVCachePerToken Bytes `yaml:"kv_cache_per_token,omitempty"`
	// WeightsPrecision is the number format in which the weights are stored. It is a
	// label, and gives the bytes of `parameters`.
	WeightsPrecision Precision `yaml:"weights_precision,omitempty" form:"precision"`
	// ComputePrecision is the number format in which the GPU multiplies. Where it is not that of the weights, these are converted on the
	// way: the ceiling stays, while less of it can be reached.
	ComputePrecision Precision `yaml:"compute_precision,omitempty" form:"precision"`
	// UUIDs are the GPUs or MIG devices as the driver names them, `GPU-...` or
	// `MIG-...`. They join the endpoint to the readings of these GPUs, on
	// whatever machine these are.
	UUIDs []string `yaml:"uuids,omitempty" form:"GPU" items:"unique"`
}

// gpuUUID is how drivers and exporters name a GPU or a part of one: GPU-UUID,
// MIG-GPU-UUID/7/0, a PCI address, or the hexadecimal number of a card of AMD.
var gpuUUID = regexp.MustCompile(`^([0-9A-Za-z]+[-:/][0-9A-Za-z._:/-]{1,110}|(0x)?[0-9a-f]{16})$`)

func (h *Hardware) complete(r *report, p path) {
	orDefault(r, p.key("gpus"), &h.GPUs, max(1, len(h.UUIDs)))
}

func (h *Hardware) check(r *report, p path) {
	if len(h.UUIDs) > 0 && h.GPUs != len(h.UUIDs) {
		r.errorf(p.key("gpus"), "%d GPUs and %d uuids; leave gpus out", h.GPUs, len(h.UUIDs))
	}
}

// Precision is the number format of weights, or of the arithmetic on them. The
// set is closed: it is a label value.
type Precision string

// The precisions.
const (
	FP32  Precision = "fp32"
	BF16  Precision = "bf16"
	FP16  Precision = "fp16"
	FP8   Precision = "fp8"
	MXFP8 Precision = "mxfp8"
	INT8  Precision = "int8"
	FP4   Precision = "fp4"
	MXFP4 Precision = "mxfp4"
	NVFP4 Precision = "nvfp4"
	INT4  Precision = "int4"
)

// Precisions returns all precisions, the widest first.
func Precisions() []Precision {
	return []Precision{FP32, BF16, FP16, FP8, MXFP8, INT8, FP4, MXFP4, NVFP4, INT4}
}

// BytesPerWeight returns the bytes of memory of one weight, with its part of the
// scales of its block where the format defines these: OCP Microscaling Formats
// (MX) 1.0 for mxfp8 and mxfp4, NVIDIA's NVFP4. Formats whose scales are up to
// the checkpoint count without them. It is 0 for no precision.
func (p Precision) BytesPerWeight() float64 {
	return map[Precision]float64{
		FP32: 4, BF16: 2, FP16: 2, FP8: 1, MXFP8: 1 + 1.0/32, INT8: 1, FP4: 0.5, MXFP4: 0.5 + 1.0/32, NVFP4: 0.5 + 1.0/16, INT4: 0.5,
	}[p]
}

// ReadBytes returns the bytes of weights that are read for each token: those
// configured, or those of the parameters in the precision of the weights; 0 for
// unknown.
func (h *Hardware) ReadBytes() Bytes {
	if h.Weights > 0 {
		return h.Weights
	}
	return Bytes(math.Round(h.Parameters * h.WeightsPrecision.BytesPerWeight()))
}

package config

import (
	"math"
	"regexp"
	"strings"
)

// Hardware says what an endpoint runs on, for the ceilings of what it can decode and prefill: the memory bandwidth of its
// GPUs over the bytes of weights that each token reads, and their arithmetic over that of a token. Nothing in it is
// required; what is left out makes no series.
type Hardware struct {
	// GPU is the name of the product, such as `H100 SXM`, which determines the memory bandwidth and
	// the peak operations.
	GPU string `yaml:"gpu,omitempty" text:"128"`
	// GPUs is how many GPUs work on one token at the same time (tensor parallel). Replicas do not count, nor do the
	// stages of a pipeline, which work one after the other. Default: the number of `uuids`, or 1.
	GPUs int `yaml:"gpus" default:"1" range:"[1,1024]"`
	// MemoryBandwidth is that of one GPU or MIG device, in bytes per second. Default: that of the product, though not
	// for MIG devices, whose share of it is unknown; else that of the GPUs of this machine that `uuids` names.
	MemoryBandwidth Bytes `yaml:"memory_bandwidth,omitempty"`
	// Weights are the bytes of weights that are read for each token, over all GPUs together and in the type they are
	// stored in: all of the model, or the active ones of a mixture of experts.
	Weights Bytes `yaml:"weights,omitempty"`
	// Parameters is the number of weights that are read for each token, such as
	// `8.03e9`, where their bytes are to follow from `weights_precision`. What a checkpoint keeps in another
	// precision, mostly embeddings, is then not counted.
	Parameters float64 `yaml:"parameters,omitempty" range:"[1,1e15]" requires:"weights_precision" excludes:"weights"`
	// TotalWeights are the bytes of all weights that one replica holds on its GPUs together; of a mixture of experts,
	// those of all experts. With it the memory of the GPUs is split into weights, KV cache and rest, where the server
	// does not report its weights.
	TotalWeights Bytes `yaml:"total_weights,omitempty"`
	// KVCachePerToken are the bytes of KV cache of one token on all GPUs of a replica together: 2 × layers × KV heads ×
	// head size × bytes of a value, such as 128KiB for Llama 3.1 8B in bf16. With it the bytes of the KV cache follow
	// from its capacity in tokens, where the server does not report them.
	KVCachePerToken Bytes `yaml:"kv_cache_per_token,omitempty"`
	// WeightsPrecision is the number format in which the weights are stored. It
	// gives the bytes of `parameters`, and the ceiling of prefill needs it.
	WeightsPrecision string `yaml:"weights_precision,omitempty" form:"precision"`
	// ComputePrecision is the number format in which the GPU multiplies. Where it is not that of the weights, these are converted on the
	// way: the ceiling of decode stays, while less of it can be reached. The ceiling of prefill needs it,
	// unless the weights have 16 bits.
	ComputePrecision string `yaml:"compute_precision,omitempty" form:"precision"`
	// UUIDs are the GPUs or MIG devices as the driver names them, `GPU-...` or `MIG-...`. They join the endpoint to the
	// readings of these GPUs, on whatever machine these are.
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

// ReadParameters returns the number of weights that are read for each token: that configured, or that of the bytes of
// weights in their precision; 0 for unknown.
func (h *Hardware) ReadParameters() float64 {
	for _, p := range precisions {
		if h.Parameters == 0 && p.name == h.WeightsPrecision {
			return float64(h.Weights) / p.bytes
		}
	}
	return h.Parameters
}

// Arithmetic returns the number format in which the GPU multiplies: that configured, or that of weights of 16 bits, which
// nothing converts; "" for unknown, as engines multiply narrower weights in their own format or in a wider one.
func (h *Hardware) Arithmetic() string {
	if h.ComputePrecision == "" && (h.WeightsPrecision == "bf16" || h.WeightsPrecision == "fp16") {
		return h.WeightsPrecision
	}
	return h.ComputePrecision
}

// StoredPrecision returns the number format of the weights that settings of a server show: that of the model, if the server
// says that nothing quantizes it; "" for unknown.
func StoredPrecision(settings map[Setting]string) string {
	if !strings.EqualFold(settings[Quantization], "none") {
		return ""
	}
	return map[string]string{"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32"}[settings[Precision]]
}

// precisions are the number formats of weights and of the arithmetic on them, the widest first, with the bytes of
// memory of one weight and its part of the scales of its block where the format defines these: OCP Microscaling Formats
// (MX) 1.0 for mxfp8 and mxfp4, NVIDIA's NVFP4. Formats whose scales are up to the checkpoint count without them.
var precisions = []struct {
	name  string
	bytes float64
}{
	{"fp32", 4},
	{"bf16", 2},
	{"fp16", 2},
	{"fp8", 1},
	{"mxfp8", 1 + 1.0/32},
	{"int8", 1},
	{"fp4", 0.5},
	{"mxfp4", 0.5 + 1.0/32},
	{"nvfp4", 0.5 + 1.0/16},
	{"int4", 0.5},
}

// Precisions returns the closed set of precisions, the widest first.
func Precisions() (names []string) {
	for _, p := range precisions {
		names = append(names, p.name)
	}
	return names
}

// ReadBytes returns the bytes of weights that are read for each token: those configured, or
// those of the parameters in the precision of the weights; 0 for unknown.
func (h *Hardware) ReadBytes() Bytes {
	for _, p := range precisions {
		if h.Weights == 0 && p.name == h.WeightsPrecision {
			return Bytes(math.Round(h.Parameters * p.bytes))
		}
	}
	return h.Weights
}

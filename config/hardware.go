package config

import (
	"fmt"
	"regexp"
	"slices"
)

// maxGPUs is more GPUs than work on one request together.
const maxGPUs = 1024

// Hardware says what an endpoint runs on, for the ceiling of what it can
// decode: the memory bandwidth of its GPUs over the bytes of weights that each
// token reads. Nothing in it is required; what is left out makes no series.
type Hardware struct {
	// GPU is the name of the product, such as `H100 SXM`, which tells the memory
	// bandwidth; at most 128 bytes.
	GPU string `yaml:"gpu,omitempty"`
	// GPUs is how many GPUs work on one token at the same time (tensor parallel),
	// 1 to 1,024. Replicas do not count, nor do the stages of a pipeline, which
	// work one after the other. Default: the number of `uuids`, or 1.
	GPUs int `yaml:"gpus"`
	// MemoryBandwidth is that of one GPU or MIG device, in bytes per second.
	// Default: that of the product, though not for MIG devices, which have a share
	// of it that nothing tells; else that of the GPUs of this machine that `uuids`
	// names.
	MemoryBandwidth Bytes `yaml:"memory_bandwidth,omitempty"`
	// Weights are the bytes of weights that are read for each token, over all
	// GPUs together and in the type they are stored in: all of the model, or the
	// active ones of a mixture of experts.
	Weights Bytes `yaml:"weights,omitempty"`
	// UUIDs are the GPUs or MIG devices as the driver names them, `GPU-...` or
	// `MIG-...`. They join the endpoint to the readings of these GPUs, on
	// whatever machine these are.
	UUIDs []string `yaml:"uuids,omitempty"`
}

// Format writes the hardware as printYAML does.
func (h Hardware) Format(f fmt.State, _ rune) { printYAML(f, h) }

// gpuUUID is how the driver names a GPU or a MIG device. Older drivers name the
// latter MIG-GPU-UUID/7/0.
var gpuUUID = regexp.MustCompile(`^(GPU|MIG)-[0-9A-Za-z/-]{1,90}$`)

func (h *Hardware) validate(r *report, p path) {
	if r.failed[p] {
		return // not hardware at all
	}
	if r.written(p.key("gpu")) {
		validateText(r, p.key("gpu"), "GPU name", h.GPU, maxNameBytes)
	}
	validateRange(r, p.key("gpus"), h.GPUs, 1, maxGPUs)
	uuids := p.key("uuids")
	for i, uuid := range h.UUIDs {
		switch {
		case r.failed[uuids.index(i)]:
		case !gpuUUID.MatchString(uuid):
			r.errorf(uuids.index(i), "want a UUID that begins with GPU- or MIG-, as nvidia-smi -L shows it, got %s", quote(uuid))
		case slices.Contains(h.UUIDs[:i], uuid):
			r.errorf(uuids.index(i), "%s is listed twice", quote(uuid))
		}
	}
	if len(h.UUIDs) > 0 && h.GPUs != len(h.UUIDs) {
		r.errorf(p.key("gpus"), "%d GPUs and %d uuids; leave gpus out", h.GPUs, len(h.UUIDs))
	}
}

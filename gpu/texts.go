package gpu

import (
	"errors"
	"slices"

	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// maxTextBytes bounds a text of a driver, a file or a page.
const maxTextBytes = 256

// Clean makes all texts of a snapshot, which others wrote, safe to show: each is one
// bounded line of printable characters without the secrets. It must not have been
// published; its devices may share what they hold with others.
func (s *Snapshot) Clean(secrets *safetext.Secrets) {
	line := func(texts ...*string) {
		for _, t := range texts {
			*t = secrets.Line(*t, maxTextBytes)
		}
	}
	line(&s.Driver, &s.CUDA)
	if s.Err != nil {
		if text := secrets.Line(s.Err.Error(), 2*maxTextBytes); text != s.Err.Error() {
			s.Err = errors.New(text)
		}
	}
	for i := range s.Devices {
		d := &s.Devices[i]
		line(&d.Host, &d.UUID, &d.Name, &d.PCIBusID, &d.ComputeCapability)
		d.MIG, d.Processes, d.VGPUs = slices.Clone(d.MIG), slices.Clone(d.Processes), slices.Clone(d.VGPUs)
		for i := range d.MIG {
			line(&d.MIG[i].UUID, &d.MIG[i].Profile)
		}
		for i := range d.Processes {
			line(&d.Processes[i].Name, &d.Processes[i].Container, &d.Processes[i].PodUID)
		}
		for i := range d.VGPUs {
			line(&d.VGPUs[i].UUID, &d.VGPUs[i].VM, &d.VGPUs[i].Profile)
		}
	}
}

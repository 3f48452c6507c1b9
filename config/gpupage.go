package config

import (
	"maps"
	"slices"
)

// GPUs says from where GPUs are read besides the drivers of this machine.
type GPUs struct {
	// Pages are metrics pages of other exporters that show GPUs or other accelerators,
	// by name; see below. They are read while `--collector.gpu` is on.
	Pages map[string]*MetricsPages `yaml:"pages,omitempty"`
}

// reservedGPUSources are the names of what reads the GPUs of this machine.
func reservedGPUSources() []string { return []string{"nvml", "amdgpu"} }

func (c *Config) validateGPUs(r *report) {
	for _, name := range slices.Sorted(maps.Keys(c.GPUs.Pages)) {
		p := path("gpus").key("pages").key(name)
		validateText(r, p, "page name", name, maxNameBytes)
		if slices.Contains(reservedGPUSources(), name) {
			r.errorf(p, "the name %s is that of the driver of this machine", quote(name))
		}
		c.GPUs.Pages[name].validate(r, p, "exporter")
	}
}

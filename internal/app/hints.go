package app

import (
	"maps"
	"slices"

	"github.com/inference-exporter/inference_exporter/config"
)

// moduleNames returns the names of the modules, for completion: those of --config.file too.
func (c *request) moduleNames() []string {
	cfg, err := config.LoadWithoutSecrets(*c.file)
	if err != nil {
		cfg = config.None()
	}
	return slices.Sorted(maps.Keys(cfg.Modules))
}

// endpointNames returns the names of the endpoints in --config.file, for completion.
func (c *request) endpointNames() []string {
	var names []string
	if cfg, err := config.LoadWithoutSecrets(*c.file); err == nil {
		for _, e := range cfg.Endpoints {
			names = append(names, e.Name)
		}
	}
	return names
}

package app

import (
	"fmt"

	"github.com/inference-exporter/inference_exporter/config"
)

// stanza is an endpoint as it is written in a file: one of the list, or what
// discovered ones have in common.
type stanza struct {
	path string
	*config.Endpoint
}

// stanzas lists those of a configuration.
func stanzas(cfg *config.Config) []stanza {
	var all []stanza
	for i, e := range cfg.Endpoints {
		all = append(all, stanza{fmt.Sprintf("endpoints[%d]", i), e})
	}
	for i, d := range cfg.Discovery {
		all = append(all, stanza{fmt.Sprintf("discovery[%d]", i), &d.Template})
	}
	return all
}

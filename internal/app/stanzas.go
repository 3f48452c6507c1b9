package app

import (
	"fmt"
	"iter"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// stanza is an endpoint as it is written in a file: one of the list, or what
// discovered ones have in common.
type stanza struct {
	path string
	*config.Endpoint
}

// asked returns the modules of the stanza by their place in its list, but for
// those without a sound definition.
func (s stanza) asked(cfg *config.Config) iter.Seq2[int, *config.Module] {
	return func(yield func(int, *config.Module) bool) {
		for i, name := range s.Modules {
			if m := cfg.Modules[name]; m != nil && !yield(i, m) {
				return
			}
		}
	}
}

// isOfTexts tells whether the stanza names a wire protocol without answers in
// tokens.
func (s stanza) isOfTexts() bool {
	p, _ := api.Lookup(s.API)
	return isOfTexts(p.Kind)
}

// mistake is one in the value at a path under the stanza.
func (s stanza) mistake(at, format string, args ...any) *config.Error {
	return &config.Error{Path: s.path + "." + at, Msg: fmt.Sprintf(format, args...)}
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

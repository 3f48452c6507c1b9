package app

import (
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/inference-exporter/inference_exporter/config"
)

// moduleNames returns the names of the modules, for completion: those of the file on the
// line to complete too.
func moduleNames() []string {
	cfg := config.None()
	if named := fileToComplete(); named != nil {
		cfg = named
	}
	return slices.Sorted(maps.Keys(cfg.Modules))
}

// endpointNames returns the names of the endpoints in the file on the line to complete.
func endpointNames() []string {
	var names []string
	if cfg := fileToComplete(); cfg != nil {
		for _, e := range cfg.Endpoints {
			names = append(names, e.Name)
		}
	}
	return names
}

// fileToComplete returns the configuration that the line to complete names; nil where
// none is named, or it cannot be used, or nothing is to be completed.
func fileToComplete() *config.Config {
	if len(os.Args) < 2 || os.Args[1] != "complete" {
		return nil
	}
	const flag = "--config.file"
	for i, word := range os.Args {
		name, named := strings.CutPrefix(word, flag+"=")
		if word == flag && i+1 < len(os.Args) {
			name, named = os.Args[i+1], true
		}
		if named {
			cfg, _ := config.LoadWithoutSecrets(name)
			return cfg
		}
	}
	return nil
}

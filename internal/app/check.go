package app

import (
	"context"
	"fmt"

	"github.com/alecthomas/kingpin/v2"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/prober"
)

// checkCommand checks a configuration file.
type checkCommand struct {
	file *string
}

func newCheckCommand(c *kingpin.CmdClause) *checkCommand {
	return &checkCommand{file: c.Flag("config.file", "Configuration file to check.").Required().String()}
}

func (c *checkCommand) run(_ context.Context, env environment) error {
	cfg, err := loadConfig(*c.file)
	if err != nil {
		return err
	}
	probes := 0
	for _, e := range cfg.Endpoints {
		for _, name := range e.Modules {
			probes += len(cfg.Modules[name].Rungs())
		}
	}
	fmt.Fprintf(env.Stdout, "%s: good: %d endpoints, %d probes", *c.file, len(cfg.Endpoints), probes)
	if n := len(cfg.Discovery); n > 0 {
		fmt.Fprintf(env.Stdout, ", and what %d discoveries find", n)
	}
	fmt.Fprintln(env.Stdout)
	for _, note := range tightBudgets(cfg) {
		fmt.Fprintf(env.Stdout, "%s: note: %s\n", *c.file, note)
	}
	return nil
}

// checkModules finds modules that ask what the configured protocol of an endpoint
// has no way to ask.
func checkModules(cfg *config.Config) error {
	for _, e := range stanzas(cfg) {
		for j, name := range e.Modules {
			if err := prober.Suits(e.API, cfg.Modules[name]); err != nil {
				return &config.Error{Path: fmt.Sprintf("%s.modules[%d]", e.path, j), Msg: fmt.Sprintf("module %q: %v", name, err)}
			}
		}
	}
	return nil
}

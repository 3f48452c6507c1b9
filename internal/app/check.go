package app

import (
	"context"
	"fmt"

	"github.com/alecthomas/kingpin/v2"
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
		probes += len(e.Modules)
	}
	fmt.Fprintf(env.Stdout, "%s: good: %d endpoints, %d probes\n", *c.file, len(cfg.Endpoints), probes)
	return nil
}

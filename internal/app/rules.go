package app

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kingpin/v2"

	"github.com/inference-exporter/inference_exporter/alerts"
	"github.com/inference-exporter/inference_exporter/config"
)

// rulesCommand prints rules for Prometheus.
type rulesCommand struct {
	file *string
}

func newRulesCommand(c *kingpin.CmdClause) *rulesCommand {
	return &rulesCommand{file: c.Flag("config.file", "Configuration file to make the rules for; without it they are for the defaults.").String()}
}

func (c *rulesCommand) run(_ context.Context, env environment) error {
	options := alerts.Default()
	if *c.file != "" {
		cfg, err := loadConfig(*c.file)
		if err != nil {
			return err
		}
		options = ruleOptions(cfg)
	}
	text, err := alerts.Marshal(append(alerts.Recording(options), alerts.Alerts(options)...), alerts.Limits(options)...)
	if err != nil {
		return err
	}
	if _, err := env.Stdout.Write(text); err != nil {
		return fmt.Errorf("print the rules: %w", err)
	}
	return nil
}

// ruleOptions returns what rules take from a configuration: the labels of all
// endpoints, as far as it names them, and the intervals of the modules in use.
func ruleOptions(cfg *config.Config) alerts.Options {
	labels := map[string]bool{}
	modules := map[string]time.Duration{}
	for _, d := range cfg.Discovery {
		for _, name := range d.StaticLabels() {
			labels[name] = true
		}
		for _, r := range d.RelabelConfigs {
			if name := r.TargetLabel; name != "" && !strings.HasPrefix(name, "__") && !strings.Contains(name, "$") {
				labels[name] = true
			}
		}
	}
	for _, e := range stanzas(cfg) {
		for name := range e.Labels {
			labels[name] = true
		}
		for _, name := range e.Modules {
			modules[name] = time.Duration(cfg.Modules[name].Interval)
		}
	}
	return alerts.Options{Labels: slices.Sorted(maps.Keys(labels)), Modules: modules}
}

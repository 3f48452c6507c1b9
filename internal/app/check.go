package app

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
	probereport "github.com/inference-exporter/inference_exporter/internal/report"
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
	fmt.Fprintf(env.Stdout, "%s: good: %s, %s", *c.file,
		probereport.Count(len(cfg.Endpoints), "endpoint", "endpoints"), probereport.Count(probes, "probe", "probes"))
	if n := len(cfg.Discovery); n > 0 {
		fmt.Fprintf(env.Stdout, ", and what is found by %s", probereport.Count(n, "discovery", "discoveries"))
	}
	fmt.Fprintln(env.Stdout)
	for _, note := range tightBudgets(cfg) {
		fmt.Fprintf(env.Stdout, "%s: note: %s\n", *c.file, note)
	}
	return nil
}

// checkModules finds modules that ask what the configured protocol of an endpoint
// has no way to ask.
func checkModules(cfg *config.Config) []*config.Error {
	var mistakes []*config.Error
	for _, e := range stanzas(cfg) {
		for j, m := range e.asked(cfg) {
			if err := prober.Suits(e.API, m); err != nil {
				mistakes = append(mistakes, e.mistake(fmt.Sprintf("modules[%d]", j), "module %q: %v", e.Modules[j], err))
			}
		}
	}
	return mistakes
}

// checkObjectives finds objectives for tokens where no endpoint that they hold
// for answers with tokens.
func checkObjectives(cfg *config.Config) []*config.Error {
	var mistakes []*config.Error
	users := map[string][]stanza{} // by module
	for _, e := range stanzas(cfg) {
		for _, name := range e.Modules {
			users[name] = append(users[name], e)
		}
		if e.SLO != nil && e.isOfTexts() {
			mistakes = append(mistakes, tokenObjectives(e.SLO, e.path, e.API)...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(users)) {
		m, all := cfg.Modules[name], users[name]
		generates := func(e stanza) bool { return !e.isOfTexts() }
		if m != nil && m.SLO != nil && !slices.ContainsFunc(all, generates) {
			mistakes = append(mistakes, tokenObjectives(m.SLO, config.Key("modules", name), all[0].API)...)
		}
	}
	return mistakes
}

// tokenObjectives are the objectives for tokens, as mistakes.
func tokenObjectives(slo *config.SLO, at, apiName string) []*config.Error {
	var mistakes []*config.Error
	for _, limit := range []struct {
		key string
		d   model.Duration
	}{{"ttft", slo.TTFT}, {"tpot", slo.TPOT}} {
		if limit.d > 0 {
			mistakes = append(mistakes, &config.Error{
				Path: at + ".slo." + limit.key,
				Msg:  fmt.Sprintf("the api %s embeds or ranks and does not generate: want e2e instead", apiName),
			})
		}
	}
	return mistakes
}

package app

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/alerts"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// sloFormats are the formats of the command rules for tools that make rules of
// objectives.
func sloFormats() map[string]func([]alerts.SLO) ([]byte, error) {
	return map[string]func([]alerts.SLO) ([]byte, error){
		"sloth": alerts.Sloth, "pyrra": alerts.Pyrra, "openslo": alerts.OpenSLO,
	}
}

// slosText returns the objectives of a configuration in a format. An SLO there names its
// endpoint, so that it needs one to be known, and knows no labels beside.
func (c *rulesCommand) slosText(cfg *config.Config, render func([]alerts.SLO) ([]byte, error)) ([]byte, error) {
	switch {
	case cfg == nil:
		return nil, usageError{fmt.Errorf("--format=%s: requires --config.file", *c.format)}
	case len(*c.keep) > 0:
		return nil, usageError{fmt.Errorf("--format=%s: cannot be combined with --keep-label; generate one file per cluster", *c.format)}
	}
	slos := slosOf(cfg)
	if len(slos) == 0 {
		return nil, usageError{errors.New("the file has no endpoint with an objective; discovered endpoints are not known here")}
	}
	return render(slos)
}

// slosOf lists the objectives of the endpoints that a configuration names.
func slosOf(cfg *config.Config) []alerts.SLO {
	var all []alerts.SLO
	for _, e := range cfg.Endpoints {
		if e.MissingSecret != "" {
			continue
		}
		for _, name := range e.Modules {
			if m := cfg.Modules[name]; m.Judged() {
				all = append(all, slosWith(e, name, m)...)
			}
		}
	}
	return all
}

// slosWith lists the objectives of an endpoint when it is probed with a module. They
// are those that collector counts.
func slosWith(e *config.Endpoint, name string, m *config.Module) []alerts.SLO {
	promised := e.SLOWith(m)
	var all []alerts.SLO
	add := func(slo, good string) {
		all = append(all, alerts.SLO{Endpoint: e.Name, Module: name, SLO: slo, Objective: promised.Objective, Good: good})
	}
	within := func(slo, good string, limit model.Duration) {
		if limit > 0 {
			add(slo, good+" within "+time.Duration(limit).String())
		}
	}
	add("availability", "succeed")
	if kind := fleet.KindOf(e, m); kind == "" || kind == api.Generation {
		within("ttft", "have their first token", promised.TTFT)
		within("tpot", "have each further token on average", promised.TPOT)
		if promised.Fluidity > 0 {
			add("fluidity", fmt.Sprintf("meet %g of their token deadlines", promised.Fluidity))
		}
	}
	within("e2e", "end", promised.E2E)
	return all
}

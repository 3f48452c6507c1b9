package fleet

import (
	"fmt"
	"maps"
	"slices"

	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/prober"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Checks returns the checks of a configuration that need to know what a fleet does with it.
func Checks() []config.Check {
	return []config.Check{checkEngines, checkSoftware, checkHardware, checkModules, checkObjectives, checkBudgets}
}

// section describes an endpoint in the configuration, or is the template of discovered ones.
type section struct {
	path string
	*config.Endpoint
}

// isOfTexts reports whether the section names a wire protocol without answers in tokens.
func (s section) isOfTexts() bool {
	p, _ := api.Lookup(s.API)
	return isOfTexts(p.Kind)
}

func (s section) mistake(at, format string, args ...any) *config.Error {
	return &config.Error{Path: s.path + "." + at, Msg: fmt.Sprintf(format, args...)}
}

func sections(cfg *config.Config) []section {
	var all []section
	for i, e := range cfg.Endpoints {
		all = append(all, section{fmt.Sprintf("endpoints[%d]", i), e})
	}
	for i, d := range cfg.Discovery {
		all = append(all, section{fmt.Sprintf("discovery[%d]", i), &d.Template})
	}
	return all
}

// checkEngines finds mappings of engines that cannot be used, and references to an engine without one.
func checkEngines(cfg *config.Config) []*config.Error {
	known, mistakes := page.Check(page.Servers, cfg.Engines)
	for _, e := range sections(cfg) {
		if name := e.Servers.Engine; name != "" && !slices.Contains(known, name) {
			mistakes = append(mistakes, e.mistake("servers.engine", "unknown engine %.64q%s", name, config.Hint(name, "known", known)))
		}
	}
	return mistakes
}

// checkSoftware does the same for the mappings of gateways, and finds pages of GPUs of an exporter that nobody knows.
func checkSoftware(cfg *config.Config) []*config.Error {
	gateways, mistakes := page.Check(page.Gateways, cfg.GatewayMappings)
	exporters, _ := page.Check(page.Accelerators, nil) // a test holds that there are no mistakes
	return slices.Concat(mistakes, unknownSoftware("gateways", "gateway software", cfg.Gateways, gateways),
		unknownSoftware("gpus.pages", "software", cfg.GPUs.Pages, exporters))
}

func unknownSoftware(section, what string, pages map[string]*config.MetricsPages, known []string) []*config.Error {
	var mistakes []*config.Error
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		if software := pages[name].Software; software != "" && !slices.Contains(known, software) {
			mistakes = append(mistakes, &config.Error{
				Path: config.Key(section, name) + ".software",
				Msg:  fmt.Sprintf("unknown %s %.64q%s", what, software, config.Hint(software, "known", known)),
			})
		}
	}
	return mistakes
}

// checkModules finds modules that ask what the protocol of an endpoint has no way to ask.
func checkModules(cfg *config.Config) []*config.Error {
	var mistakes []*config.Error
	for _, e := range sections(cfg) {
		for j, name := range e.Modules {
			m := cfg.Modules[name]
			if m == nil { // without a sound definition
				continue
			}
			if err := prober.Suits(e.API, m); err != nil {
				mistakes = append(mistakes, e.mistake(fmt.Sprintf("modules[%d]", j), "module %q: %v", name, err))
			}
		}
	}
	return mistakes
}

// checkObjectives finds objectives for tokens where no endpoint that they hold for answers with tokens.
func checkObjectives(cfg *config.Config) []*config.Error {
	var mistakes []*config.Error
	users := map[string][]section{} // by module
	for _, e := range sections(cfg) {
		for _, name := range e.Modules {
			users[name] = append(users[name], e)
		}
		if e.SLO != nil && e.isOfTexts() {
			mistakes = append(mistakes, tokenObjectives(e.SLO, e.path, e.API)...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(users)) {
		m, all := cfg.Modules[name], users[name]
		generates := func(e section) bool { return !e.isOfTexts() }
		if m != nil && m.SLO != nil && !slices.ContainsFunc(all, generates) {
			mistakes = append(mistakes, tokenObjectives(m.SLO, config.Key("modules", name), all[0].API)...)
		}
	}
	return mistakes
}

func tokenObjectives(slo *config.SLO, at, apiName string) []*config.Error {
	var mistakes []*config.Error
	refuse := func(key string, limit model.Duration) {
		if limit > 0 {
			text := fmt.Sprintf("the api %s embeds or ranks and does not generate: want e2e instead", apiName)
			mistakes = append(mistakes, &config.Error{Path: at + ".slo." + key, Msg: text})
		}
	}
	refuse("ttft", slo.TTFT)
	refuse("tpot", slo.TPOT)
	return mistakes
}

// checkBudgets finds modules whose single run may exceed a budget, so that they would never run. Discovered endpoints
// make the shares of global.budget smaller, which nobody can know here.
func checkBudgets(cfg *config.Config) []*config.Error {
	each, rest := shares(cfg.Global.Budget, cfg.Endpoints, cfg.Modules)
	var mistakes []*config.Error
	for i, e := range sections(cfg) {
		for j, name := range e.Modules {
			m := cfg.Modules[name]
			if m == nil {
				continue
			}
			mistake := func(err error, whose string) {
				mistakes = append(mistakes, e.mistake(fmt.Sprintf("modules[%d]", j), "module %q: %v that %s allows", name, err, whose))
			}
			if err := checkBudget(e.Endpoint, m, e.Budget); err != nil {
				mistake(err, "the endpoint's budget")
			}
			if err := checkBudget(e.Endpoint, m, cfg.Global.Budget); err != nil {
				mistake(err, "global.budget")
			} else if i < len(each) {
				if err := checkBudget(e.Endpoint, m, each[i]); err != nil && checkBudget(e.Endpoint, m, rest) != nil {
					mistake(err, "its share of global.budget")
				}
			}
		}
	}
	return mistakes
}

func checkBudget(e *config.Endpoint, m *config.Module, b config.Budget) error {
	for _, rung := range m.Rungs() {
		most := newSpending(e, rung.Module, nil).most()
		if b.TokensPerHour > 0 && most.Tokens > b.TokensPerHour {
			return fmt.Errorf("one run may take %d tokens, more than the %d per hour", most.Tokens, b.TokensPerHour)
		}
		if b.USDPerDay > 0 && most.USD > b.USDPerDay {
			return fmt.Errorf("one run may cost $%.4f, more than the $%g per day", most.USD, b.USDPerDay)
		}
	}
	return nil
}

// Bandwidths returns the memory bandwidths that a configuration gives to GPUs, by UUID.
func Bandwidths(cfg *config.Config) map[string]float64 {
	bandwidth := map[string]float64{}
	for _, e := range sections(cfg) {
		if h := e.Hardware; h != nil && h.MemoryBandwidth != 0 {
			for _, uuid := range h.UUIDs {
				bandwidth[uuid] = float64(h.MemoryBandwidth)
			}
		}
	}
	return bandwidth
}

// checkHardware finds GPUs that two endpoints give different memory bandwidths, and products
// whose bandwidth nobody knows.
func checkHardware(cfg *config.Config) []*config.Error {
	var mistakes []*config.Error
	first := map[string]section{} // that gave the GPU its bandwidth
	for _, e := range sections(cfg) {
		h := e.Hardware
		if h == nil {
			continue
		}
		if h.MemoryBandwidth == 0 {
			if _, ok := gpu.ProductBandwidth(h.GPU); !ok && h.GPU != "" {
				mistakes = append(mistakes, e.mistake("hardware.gpu", "unknown product %.64q; docs/gpu.md lists the known ones; for another set memory_bandwidth", h.GPU))
			}
			continue
		}
		for _, uuid := range h.UUIDs {
			before, seen := first[uuid]
			if !seen {
				first[uuid] = e
			} else if given := before.Hardware.MemoryBandwidth; given != h.MemoryBandwidth {
				mistakes = append(mistakes, e.mistake("hardware.memory_bandwidth", "%s is that of %s, which has %s at %s", h.MemoryBandwidth, uuid, given, before.path))
				break // one for a value
			}
		}
	}
	return mistakes
}

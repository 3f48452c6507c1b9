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
func Checks() []config.Check { return []config.Check{check} }

func check(cfg *config.Config) []*config.Error {
	c := &checker{Config: cfg, sections: sections(cfg)}
	c.checkEngines()
	c.checkSoftware()
	c.checkHardware()
	c.checkModules()
	c.checkObjectives()
	return c.mistakes
}

// checker collects the mistakes of a configuration.
type checker struct {
	*config.Config
	sections []section
	mistakes []*config.Error
}

func (c *checker) mistake(path, format string, args ...any) {
	c.mistakes = append(c.mistakes, &config.Error{Path: path, Msg: fmt.Sprintf(format, args...)})
}

// section describes an endpoint in the configuration, or is the template of discovered ones.
type section struct {
	path string
	*config.Endpoint
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

// generates reports whether the section names no wire protocol without answers in tokens.
func (s section) generates() bool {
	p, _ := api.Lookup(s.API)
	return !isOfTexts(p.Kind)
}

// known returns the software of a role, of which the own mappings can be used.
func (c *checker) known(r page.Role, own map[string]*config.Mapping) []string {
	names, mistakes := page.Check(r, own)
	c.mistakes = append(c.mistakes, mistakes...)
	return names
}

// checkEngines finds mappings of engines that cannot be used, and references to an engine without one.
func (c *checker) checkEngines() {
	known := c.known(page.Servers, c.Engines)
	for _, e := range c.sections {
		if name := e.Servers.Engine; name != "" && !slices.Contains(known, name) {
			c.mistake(e.path+".servers.engine", "unknown engine %.64q%s", name, config.Hint(name, "known", known))
		}
	}
}

// checkSoftware does the same for the mappings of gateways, and finds pages of GPUs of an exporter that nobody knows.
func (c *checker) checkSoftware() {
	c.checkPages("gateways", "gateway software", c.Gateways, c.known(page.Gateways, c.GatewayMappings))
	c.checkPages("gpus.pages", "software", c.GPUs.Pages, c.known(page.Accelerators, nil))
}

func (c *checker) checkPages(section, what string, pages map[string]*config.MetricsPages, known []string) {
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		if software := pages[name].Software; software != "" && !slices.Contains(known, software) {
			c.mistake(config.Key(section, name)+".software", "unknown %s %.64q%s", what, software, config.Hint(software, "known", known))
		}
	}
}

// checkModules finds modules that ask what the protocol of an endpoint has no way to ask, and those whose single run may
// exceed a budget, so that they would never run. Discovered endpoints make the shares of global.budget smaller, which
// nobody can know here.
func (c *checker) checkModules() {
	each, rest := shares(c.Global.Budget, c.Endpoints, c.Modules)
	for i, e := range c.sections {
		for j, name := range e.Modules {
			m := c.Modules[name]
			if m == nil { // without a sound definition
				continue
			}
			mistake := func(err error, which string) {
				c.mistake(fmt.Sprintf("%s.modules[%d]", e.path, j), "module %q: %v%s", name, err, which)
			}
			if err := prober.Suits(e.API, m); err != nil {
				mistake(err, "")
			}
			if err := checkBudget(e.Endpoint, m, e.Budget); err != nil {
				mistake(err, " that the endpoint's budget allows")
			}
			if err := checkBudget(e.Endpoint, m, c.Global.Budget); err != nil {
				mistake(err, " that global.budget allows")
			} else if i < len(each) {
				if err := checkBudget(e.Endpoint, m, each[i]); err != nil && checkBudget(e.Endpoint, m, rest) != nil {
					mistake(err, " that its share of global.budget allows")
				}
			}
		}
	}
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

// checkObjectives finds objectives for tokens where no endpoint that they hold for answers with tokens.
func (c *checker) checkObjectives() {
	users := map[string][]section{} // by module
	for _, e := range c.sections {
		for _, name := range e.Modules {
			users[name] = append(users[name], e)
		}
		if !e.generates() {
			c.refuseTokens(e.SLO, e.path, e.API)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(users)) {
		if m, all := c.Modules[name], users[name]; m != nil && !slices.ContainsFunc(all, section.generates) {
			c.refuseTokens(m.SLO, config.Key("modules", name), all[0].API)
		}
	}
}

// refuseTokens refuses objectives for tokens, if there are any.
func (c *checker) refuseTokens(slo *config.SLO, at, apiName string) {
	refuse := func(key string, limit model.Duration) {
		if limit > 0 {
			c.mistake(at+".slo."+key, "the api %s embeds or ranks and does not generate: want e2e instead", apiName)
		}
	}
	if slo != nil {
		refuse("ttft", slo.TTFT)
		refuse("tpot", slo.TPOT)
	}
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

// checkHardware finds GPUs that two endpoints give different bandwidths, and products whose bandwidth nobody knows.
func (c *checker) checkHardware() {
	first := map[string]section{} // that gave the GPU its bandwidth
	for _, e := range c.sections {
		h := e.Hardware
		if h == nil {
			continue
		}
		if h.MemoryBandwidth == 0 {
			if _, ok := gpu.ProductBandwidth(h.GPU); !ok && h.GPU != "" {
				c.mistake(e.path+".hardware.gpu", "unknown product %.64q; docs/gpu.md lists the known ones; for another set memory_bandwidth", h.GPU)
			}
			continue
		}
		for _, uuid := range h.UUIDs {
			before, seen := first[uuid]
			if !seen {
				first[uuid] = e
			} else if given := before.Hardware.MemoryBandwidth; given != h.MemoryBandwidth {
				c.mistake(e.path+".hardware.memory_bandwidth", "%s is that of %s, which has %s at %s", h.MemoryBandwidth, uuid, given, before.path)
				break // one for a value
			}
		}
	}
}

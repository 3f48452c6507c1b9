package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/alerts"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	probereport "github.com/inference-exporter/inference_exporter/internal/report"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

type checkCommand struct {
	file string // the argument
	flag string // --config.file, as of the other commands
	open bool   // --no-secrets
}

func newCheckCommand(c *kingpin.CmdClause) *checkCommand {
	check := new(checkCommand)
	c.Arg("file", "Configuration file to check.").StringVar(&check.file)
	c.Flag("config.file", "The same as FILE.").Hidden().StringVar(&check.flag)
	c.Flag("no-secrets", "Take no notice of secrets that are missing, variables and files: for the CI of the file, which has none.").BoolVar(&check.open)
	return check
}

func (c *checkCommand) run(_ context.Context, env environment) error {
	if (c.file == "") == (c.flag == "") {
		return usageError{errors.New("check wants one configuration file: inference_exporter check FILE")}
	}
	file := cmp.Or(c.file, c.flag)
	var missing config.MissingSecrets
	if c.open {
		missing = config.IgnoreSecrets
	}
	cfg, err := loadConfig(file, missing)
	if err != nil {
		return err
	}
	probes, loads := 0, 0
	for _, e := range cfg.Endpoints {
		for _, name := range e.Modules {
			if m := cfg.Modules[name]; m.Load != nil {
				loads++
			} else {
				probes += len(m.Rungs())
			}
		}
	}
	fmt.Fprintf(env.Stdout, "%s: good: %s, %s", file,
		probereport.Count(len(cfg.Endpoints), "endpoint", "endpoints"), probereport.Count(probes, "probe", "probes"))
	if loads > 0 {
		fmt.Fprintf(env.Stdout, ", %s", probereport.Count(loads, "load test", "load tests"))
	}
	if n := len(cfg.Discovery); n > 0 {
		fmt.Fprintf(env.Stdout, ", and what is found by %s", probereport.Count(n, "discovery", "discoveries"))
	}
	fmt.Fprintln(env.Stdout)
	for _, e := range cfg.Endpoints {
		if e.MissingSecret != "" {
			printLine(env.Stdout, fmt.Sprintf("%s: note: endpoint %s is left out: %s", file, e.Name, e.MissingSecret))
		}
	}
	each, all := fleet.CostsOf(cfg)
	printCosts(env.Stdout, each, all)
	for _, c := range each {
		if c.Open {
			printLine(env.Stdout, fmt.Sprintf("%s: note: a load test of %s is not counted, as it takes as many tokens as the endpoint answers; load.max_tokens bounds it", file, c.Whose))
		}
	}
	for _, note := range fleet.TightBudgets(cfg) {
		printLine(env.Stdout, file+": note: "+note)
	}
	return nil
}

// maxCosts is how many endpoints check lists with what their probes cost.
const maxCosts = 20

// printCosts writes what the probes take, the dearest endpoints first.
func printCosts(w io.Writer, each []fleet.Costs, all fleet.Costs) {
	if len(each) == 0 {
		return
	}
	rows := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(rows, "PROBES OF\tTOKENS A DAY\tCOST A DAY\tIN 30 DAYS")
	row := func(c fleet.Costs) {
		fmt.Fprintf(rows, "%s\t%s\t%s\t%s\n", c.Whose, stats.Grouped(c.Tokens), money(c.Money, 1), money(c.Money, 30))
	}
	for _, c := range each[:min(len(each), maxCosts)] {
		row(c)
	}
	if more := len(each) - maxCosts; more > 0 {
		fmt.Fprintf(rows, "and %d more\t\t\t\n", more)
	}
	if len(each) > 1 {
		row(all)
	}
	_ = rows.Flush()
}

// money is an amount of each currency, so many times; "-" where no price is known.
func money(amounts map[string]float64, times float64) string {
	var all []string
	for _, currency := range slices.Sorted(maps.Keys(amounts)) {
		if currency == fleet.USD {
			all = append(all, "$"+fleet.Amount(times*amounts[currency]))
		} else {
			all = append(all, fleet.Amount(times*amounts[currency])+" "+currency)
		}
	}
	return cmp.Or(strings.Join(all, " + "), "-")
}

// newModulesCommand lists the modules: the built-in ones, and those of a file.
func newModulesCommand(c *kingpin.CmdClause) command {
	file := c.Flag("config.file", "Configuration file whose modules to list too.").String()
	return printing(func(w io.Writer) error { return printModules(w, *file) })
}

func printModules(w io.Writer, file string) error {
	modules := config.None().Modules
	if file != "" {
		cfg, err := loadConfig(file, config.IgnoreSecrets)
		if err != nil {
			return err
		}
		modules = cfg.Modules
	}
	purposes := map[string]string{}
	for _, p := range config.Presets() {
		purposes[p.Name] = p.Purpose
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(modules)) {
		m := modules[name]
		fmt.Fprintf(&text, "%s\n", strings.TrimSuffix(name+": "+purposes[name], ": "))
		fmt.Fprintf(&text, "  every %s: %s, output %s, objective %s\n", m.Interval, m.WhatIsAsked(), m.OutputTokens.Words(), objectiveText(m))
	}
	if _, err := io.WriteString(w, text.String()); err != nil {
		return fmt.Errorf("print the modules: %w", err)
	}
	return nil
}

// objectiveText is what a module promises where the endpoint does not say otherwise.
func objectiveText(m *config.Module) string {
	if len(m.Concurrency) > 0 {
		return "-"
	}
	slo := series.NewObjectives(new(config.Endpoint).SLOWith(m))
	text := fmt.Sprintf("%g", slo.Share)
	for i := series.TTFT; i <= series.E2E; i++ {
		if limit := slo.Limit(i); limit > 0 {
			text += fmt.Sprintf(", %s %s", strings.ToUpper(series.ObjectiveNames()[i]), model.Duration(limit))
		}
	}
	if slo.Fluidity > 0 {
		text += fmt.Sprintf(", fluidity %g", slo.Fluidity)
	}
	return text
}

type rulesCommand struct {
	file, format, sets string
	options            alerts.Options // but the labels, modules and sets
}

func newRulesCommand(c *kingpin.CmdClause) *rulesCommand {
	r := new(rulesCommand)
	c.Flag("config.file", "Configuration file to make the rules for; without it they are for the defaults.").StringVar(&r.file)
	c.Flag("format", "What to print: rules for Prometheus, the same for mimirtool, routes and inhibitions for Alertmanager, or the objectives of the file for tools that make rules of them: sloth, pyrra, openslo.").
		Default("prometheus").EnumVar(&r.format, append([]string{"prometheus", "mimir", "alertmanager"}, alerts.SLOFormats()...)...)
	c.Flag("set", "Sets of rules to print beside the default one, separated by commas: "+strings.Join(alerts.Sets(), ", ")+", or all.").
		PlaceHolder("SET,...").StringVar(&r.sets)
	c.Flag("keep-label", "Label that Prometheus adds to all metrics of an exporter and that distinguishes endpoints of the same name, such as cluster. Repeatable.").StringsVar(&r.options.Keep)
	c.Flag("job", "Regular expression for the names of the scrape jobs of exporters.").Default(alerts.DefaultJob).StringVar(&r.options.Job)
	c.Flag("grafana-url", "URL of Grafana, put before the links to dashboards.").StringVar(&r.options.GrafanaURL)
	c.Flag("exporter-url", "URL of the exporter's page, for links from alerts to the probable cause.").StringVar(&r.options.ExporterURL)
	c.Flag("runbook-url", "URL below which the pages of the runbooks are, for the links from alerts.").
		Default(alerts.DefaultRunbookURL).StringVar(&r.options.RunbookURL)
	return r
}

func (c *rulesCommand) run(_ context.Context, env environment) error {
	text, err := c.text()
	if err != nil {
		return err
	}
	if _, err := env.Stdout.Write(text); err != nil {
		return fmt.Errorf("print the rules: %w", err)
	}
	return nil
}

func (c *rulesCommand) text() ([]byte, error) {
	var cfg *config.Config
	of := alerts.Default()
	if c.file != "" {
		var err error
		if cfg, err = loadConfig(c.file, config.IgnoreSecrets); err != nil {
			return nil, err
		}
		of = ruleOptions(cfg)
	}
	if slices.Contains(alerts.SLOFormats(), c.format) {
		return c.slosText(cfg)
	}
	options := c.options
	options.Labels, options.Modules = of.Labels, of.Modules
	switch c.sets {
	case "":
	case "all":
		options.Sets = alerts.Sets()
	default:
		options.Sets = strings.Split(c.sets, ",")
	}
	if err := options.Validate(); err != nil {
		return nil, usageError{err}
	}
	groups := func() []alerts.Group { return append(alerts.Recording(options), alerts.Alerts(options)...) }
	switch c.format {
	case "alertmanager":
		return alerts.Alertmanager(options)
	case "mimir":
		return alerts.Mimir(groups())
	}
	return alerts.Marshal(groups())
}

// ruleOptions returns what rules take from a configuration: the labels of all
// endpoints, as far as it names them, and the intervals of the modules in use.
func ruleOptions(cfg *config.Config) alerts.Options {
	labels := map[string]bool{}
	modules := map[string]time.Duration{}
	add := func(e *config.Endpoint) {
		for name := range e.Labels {
			labels[name] = true
		}
		for _, name := range e.Modules {
			if m := cfg.Modules[name]; m.Load == nil { // which is no probe
				modules[name] = time.Duration(m.Interval)
			}
		}
	}
	for _, e := range cfg.Endpoints {
		add(e)
	}
	for _, d := range cfg.Discovery {
		add(&d.Template)
		for _, name := range d.StaticLabels() {
			labels[name] = true
		}
		for _, r := range d.RelabelConfigs {
			if name := r.TargetLabel; name != "" && !strings.HasPrefix(name, "__") && !strings.Contains(name, "$") {
				labels[name] = true
			}
		}
	}
	return alerts.Options{Labels: slices.Sorted(maps.Keys(labels)), Modules: modules}
}

// slosText returns the objectives of a configuration in the format. An SLO there names its
// endpoint, so that it needs one to be known, and knows no labels beside.
func (c *rulesCommand) slosText(cfg *config.Config) ([]byte, error) {
	switch {
	case cfg == nil:
		return nil, usageError{fmt.Errorf("--format=%s: requires --config.file", c.format)}
	case len(c.options.Keep) > 0:
		return nil, usageError{fmt.Errorf("--format=%s: cannot be combined with --keep-label; generate one file per cluster", c.format)}
	}
	slos := slosOf(cfg)
	if len(slos) == 0 {
		return nil, usageError{errors.New("the file has no endpoint with an objective; discovered endpoints are not known here")}
	}
	return alerts.SLOs(c.format, slos)
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

// slosWith lists the objectives of an endpoint when it is probed with a module. They are those that collector counts.
func slosWith(e *config.Endpoint, name string, m *config.Module) []alerts.SLO {
	promised := series.NewObjectives(e.SLOWith(m))
	var all []alerts.SLO
	for i, good := range [series.NumObjectives]string{
		"succeed", "have their first token", "have each further token on average", "end", fmt.Sprintf("meet %g of their token deadlines", promised.Fluidity),
	} {
		o := series.Objective(i)
		if limit := promised.Limit(o); limit > 0 {
			good += " within " + limit.String()
		}
		if promised.HasOf(o, cmp.Or(fleet.KindOf(e, m), api.Generation)) {
			all = append(all, alerts.SLO{Endpoint: e.Name, Module: name, SLO: series.ObjectiveNames()[i], Objective: promised.Share, Good: good})
		}
	}
	return all
}

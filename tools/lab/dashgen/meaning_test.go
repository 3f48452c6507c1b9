package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

type (
	given struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	}
	wanted struct {
		Labels string  `yaml:"labels"`
		Value  float64 `yaml:"value"`
	}
	asked struct {
		Expr    string   `yaml:"expr"`
		At      string   `yaml:"eval_time"`
		Samples []wanted `yaml:"exp_samples"`
	}
	meaning struct {
		Name     string  `yaml:"name"`
		Interval string  `yaml:"interval"`
		Given    []given `yaml:"input_series"`
		Asked    []asked `yaml:"promql_expr_test"`
	}
)

// one is the labels of an endpoint of the tests.
func one(endpoint, more string) string {
	return `{job="j",model="m",endpoint="` + endpoint + `"` + more + "}"
}

// bad is a recorded share of bad probes.
func bad(window, endpoint, more, values string) given {
	return given{"module:inference_probe_slo_bad:ratio_rate" + window + `{model="m",endpoint="` + endpoint + `",slo="availability"` + more + "}", values}
}

// state of endpoints at 600 s, two minutes being the limit without a success.
func stateMeaning() meaning {
	probe := func(endpoint, module, success, last string) []given {
		labels := one(endpoint, `,module="`+module+`"`)
		g := []given{{"inference_probe_success" + labels, success + "x10"}}
		if last != "" {
			g = append(g, given{"inference_probe_last_success_timestamp_seconds" + labels, last + "x10"})
		}
		return g
	}
	m := meaning{Name: "state", Interval: "1m"}
	ask := asked{Expr: endpointState(), At: "10m"}
	for _, c := range []struct {
		endpoint string
		want     float64
		given    [][]given
	}{
		{"fresh outage", 0, [][]given{probe("fresh outage", "x", "0", "420"), {bad("5m", "fresh outage", "", "0.5x10")}}},
		{"one failure", 0.5, [][]given{probe("one failure", "x", "0", "540"), {bad("5m", "one failure", "", "0.5x10")}}},
		{"other module answers", 0.5, [][]given{
			probe("other module answers", "x", "0", "100"), probe("other module answers", "y", "1", "590"),
			{bad("5m", "other module answers", `,module="x"`, "1x10"), bad("5m", "other module answers", `,module="y"`, "0x10")},
		}},
		{"never answered", 0, [][]given{probe("never answered", "x", "0", "")}},
		{"all failed", 0, [][]given{probe("all failed", "x", "0", "590"), {bad("5m", "all failed", "", "1x10")}}},
		{"well", 1, [][]given{probe("well", "x", "1", "590"), {bad("5m", "well", "", "0x10")}}},
	} {
		for _, g := range c.given {
			m.Given = append(m.Given, g...)
		}
		ask.Samples = append(ask.Samples, wanted{`{model="m",endpoint="` + c.endpoint + `"}`, c.want})
	}
	// Without a probe that ended and without a failure there is no verdict.
	m.Given = append(m.Given, probe("no verdict", "x", "1", "100")...)
	m.Asked = []asked{ask}
	return m
}

// Of twelve endpoints the ten worst have a row: first the one that has just gone
// down, though the others failed more in the hours before.
func worstMeaning() meaning {
	m := meaning{Name: "worst", Interval: "1m"}
	ask := asked{At: "1h"}
	for _, q := range fleetStates().Queries {
		ask.Expr = grafana.Replace(q.Expr)
	}
	add := func(endpoint, success, last, share string, state float64, shown bool) {
		labels := one(endpoint, `,module="x"`)
		m.Given = append(
			m.Given,
			given{"inference_probe_success" + labels, success}, given{"inference_probe_last_success_timestamp_seconds" + labels, last},
			bad("5m", endpoint, "", share),
		)
		if shown {
			ask.Samples = append(ask.Samples, wanted{`{model="m",endpoint="` + endpoint + `"}`, state})
		}
	}
	add("down", "1x55 0x5", "0+60x55 3300x5", "0x55 0.1x5", 0, true)
	for i := range 11 {
		add(fmt.Sprintf("e%d", i), "1x60", "0+60x60", fmt.Sprintf("%vx60", 0.2+float64(i)/100), 0.5, i >= 2)
	}
	m.Asked = []asked{ask}
	return m
}

// A quarter of the probes bad uses up half of a budget of a half in the days that
// there are: all 30 of them, or three. A half uses up twice one of a quarter: each
// module has its own.
func budgetMeaning() meaning {
	share := func(module, objective, bad, hours string) []given {
		labels := `{model="m",endpoint="e",module="` + module + `",slo="availability"}`
		return []given{
			{"module:inference_slo_objective:ratio" + labels, "_x719 " + objective},
			{"module:inference_probe_slo_bad:ratio30d" + labels, "_x719 " + bad},
			{"module:inference_probe_slo_eligible:increase_each_hour" + labels, hours},
		}
	}
	return meaning{
		Name: "budget", Interval: "1h",
		Given: slices.Concat(share("x", "0.5", "0.25", "1x719"), share("y", "0.75", "0.5", "1x719"), share("new", "0.5", "0.25", "_x647 1x71")),
		Asked: []asked{{budgetLeft(), "719h", []wanted{
			{`{model="m",endpoint="e",module="x",slo="availability"}`, 0.5},
			{`{model="m",endpoint="e",module="y",slo="availability"}`, -1},
			{`{model="m",endpoint="e",module="new",slo="availability"}`, 0.95},
		}}},
	}
}

// Of four endpoints, those of a dead exporter are not covered, though the probes
// of the other one all ran.
func coverageMeaning() meaning {
	m := meaning{Name: "coverage", Interval: "1m"}
	for _, of := range []struct{ endpoint, instance string }{{"a", "alive"}, {"b", "dead"}, {"c", "dead"}, {"d", "dead"}} {
		m.Given = append(m.Given, given{"instance:inference_endpoint_info:last" + one(of.endpoint, `,instance="`+of.instance+`"`), "1x30"})
	}
	m.Given = append(
		m.Given,
		given{`up{job="j",instance="alive"}`, "1x30"}, given{`up{job="j",instance="dead"}`, "0x30"},
		given{"inference_probe_results_total" + one("a", `,instance="alive"`), "0+2x30"},
		given{"inference_probe_skipped_total" + one("a", `,instance="alive"`), "0x30"},
	)
	for _, p := range fleetStats() {
		if p.Title == "Prober coverage" {
			m.Asked = []asked{{p.Queries[0].Expr, "30m", []wanted{{"{}", 0.25}}}}
		}
	}
	return m
}

// The load of an endpoint that only probes use is nothing, however near it is to
// the highest that there was.
func peakMeaning() meaning {
	m := meaning{Name: "peak", Interval: "1m", Given: []given{
		{`endpoint:inference_server_generation_tokens:rate5m{model="m",endpoint="idle"}`, "1x10"},
		{"inference_probe_output_tokens_total" + one("idle", ""), "0+60x10"},
		{`endpoint:inference_server_generation_tokens:rate5m{model="m",endpoint="used"}`, "21x9 11"},
		{"inference_probe_output_tokens_total" + one("used", ""), "0+60x10"},
	}}
	for _, p := range capacityNow() {
		if p.Title == "Load against its own peak of 7 days" {
			m.Asked = []asked{{p.Queries[0].Expr, "10m", []wanted{
				{`{model="m",endpoint="idle"}`, 0}, {`{model="m",endpoint="used"}`, 10.0 / 21},
			}}}
		}
	}
	return m
}

// Two GPUs without a request for the first of three hours are two GPU-hours,
// however many exporters report it.
func idleMeaning() meaning {
	m := meaning{Name: "idle", Interval: "1m", Given: []given{{"inference_endpoint_gpus" + one("e", ""), "2x180"}}}
	for _, instance := range []string{"a", "b"} {
		m.Given = append(m.Given, given{"inference_server_requests_running" + one("e", `,server="s",instance="`+instance+`"`), "0x59 3x120"})
	}
	for _, p := range capacityNow() {
		if p.Title == "GPU-hours idle in 24 hours" {
			m.Asked = []asked{{p.Queries[0].Expr, "3h", []wanted{{`{model="m",endpoint="e"}`, 2}}}}
		}
	}
	return m
}

// Queries that decide between states or add up over time give what their
// panels say. PROMTOOL names the program of Prometheus that evaluates them.
func TestMeaning(t *testing.T) {
	promtool := os.Getenv("PROMTOOL")
	if promtool == "" {
		t.Skip("PROMTOOL is not set")
	}
	all := strings.NewReplacer("$job", ".*", "$model", ".*", "$endpoint", ".*")
	for _, m := range []meaning{stateMeaning(), worstMeaning(), budgetMeaning(), coverageMeaning(), peakMeaning(), idleMeaning()} {
		t.Run(m.Name, func(t *testing.T) {
			if len(m.Asked) != 1 {
				t.Fatal("no query")
			}
			m.Asked[0].Expr = all.Replace(m.Asked[0].Expr)
			text, err := yaml.Marshal(map[string]any{"evaluation_interval": "1m", "tests": []meaning{m}})
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "meaning.yml")
			if err := os.WriteFile(file, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", file).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

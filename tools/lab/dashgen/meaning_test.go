package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/promqltest"
)

// titled returns the query of the panel of that title.
func titled(panels []Panel, title string) string {
	for _, p := range panels {
		if p.Title == title {
			return p.Queries[0].Expr
		}
	}
	return ""
}

// worstStates is of twelve endpoints, of which the ten worst have a row: first the one that has just
// gone down, though the others failed more in the hours before.
func worstStates() string {
	series := `
		success{endpoint="E",module="x"} 1x60
		last{endpoint="E",module="x"} 0+60x60
		bad{endpoint="E"} `
	script := `
		load 1m
		success{endpoint="down",module="x"} 1x55 0x5
		last{endpoint="down",module="x"} 0+60x55 3300x5
		bad{endpoint="down"} 0x55 0.1x5`
	want := `

		eval instant at 1h QUERY
		{model="m",endpoint="down"} 0`
	for i := range 11 {
		name := fmt.Sprintf("e%d", i)
		script += strings.ReplaceAll(series, "E", name) + fmt.Sprintf("%vx60", 0.2+float64(i)/100)
		if i >= 2 {
			want += strings.ReplaceAll("\n{model=\"m\",endpoint=\"E\"} 0.5", "E", name)
		}
	}
	return script + want
}

// Queries that decide between states or add up over time give what their panels say.
func TestMeaning(t *testing.T) {
	variables := strings.NewReplacer("$job", ".*", "$model", ".*", "$endpoint", ".*", "$instance", ".*", "\n", " ")
	short := strings.NewReplacer(
		"success{", `inference_probe_success{job="j",model="m",`, "last{", `inference_probe_last_success_timestamp_seconds{job="j",model="m",`,
		"bad{", `module:inference_probe_slo_bad:ratio_rate5m{model="m",slo="availability",`,
		"slo{", `{model="m",endpoint="e",slo="availability",`, "of{", `{job="j",model="m",`,
	)
	engine := promqltest.NewTestEngine(t, false, 5*time.Minute, promqltest.DefaultMaxSamplesPerQuery)
	f := func(query, script string) {
		t.Helper()
		if query == "" {
			t.Error("there is no such panel")
			return
		}
		// A sample at the beginning, as the storage takes no sample from long before its first one, and
		// the series of a script are loaded in any order.
		script = "load 1m\n\tbeginning 1\n\n" + short.Replace(script)
		promqltest.RunTest(t, strings.ReplaceAll(script, "QUERY", variables.Replace(query)), engine)
	}
	// Two minutes are the limit without a success. Without a probe that ended and without a failure
	// there is no verdict.
	f(endpointState(), `
		load 1m
		success{endpoint="fresh outage",module="x"} 0x10
		last{endpoint="fresh outage",module="x"} 420x10
		bad{endpoint="fresh outage"} 0.5x10
		success{endpoint="one failure",module="x"} 0x10
		last{endpoint="one failure",module="x"} 540x10
		bad{endpoint="one failure"} 0.5x10
		success{endpoint="other module answers",module="x"} 0x10
		last{endpoint="other module answers",module="x"} 100x10
		bad{endpoint="other module answers",module="x"} 1x10
		success{endpoint="other module answers",module="y"} 1x10
		last{endpoint="other module answers",module="y"} 590x10
		bad{endpoint="other module answers",module="y"} 0x10
		success{endpoint="never answered",module="x"} 0x10
		success{endpoint="all failed",module="x"} 0x10
		last{endpoint="all failed",module="x"} 590x10
		bad{endpoint="all failed"} 1x10
		success{endpoint="well",module="x"} 1x10
		last{endpoint="well",module="x"} 590x10
		bad{endpoint="well"} 0x10
		success{endpoint="no verdict",module="x"} 1x10
		last{endpoint="no verdict",module="x"} 100x10

		eval instant at 10m QUERY
		{model="m",endpoint="fresh outage"} 0
		{model="m",endpoint="one failure"} 0.5
		{model="m",endpoint="other module answers"} 0.5
		{model="m",endpoint="never answered"} 0
		{model="m",endpoint="all failed"} 0
		{model="m",endpoint="well"} 1`)
	states := fleetStates().Queries
	f(grafana.Replace(states[len(states)-1].Expr), worstStates())
	// A quarter of the probes bad uses up half of a budget of a half in the days that there are: all
	// 30 of them, or three. A half uses up twice one of a quarter: each module has its own.
	f(budgetLeft(), `
		load 1h
		module:inference_slo_objective:ratioslo{module="x"} _x719 0.5
		module:inference_probe_slo_bad:ratio30dslo{module="x"} _x719 0.25
		module:inference_probe_slo_eligible:increase_each_hourslo{module="x"} 1x719
		module:inference_slo_objective:ratioslo{module="y"} _x719 0.75
		module:inference_probe_slo_bad:ratio30dslo{module="y"} _x719 0.5
		module:inference_probe_slo_eligible:increase_each_hourslo{module="y"} 1x719
		module:inference_slo_objective:ratioslo{module="new"} _x719 0.5
		module:inference_probe_slo_bad:ratio30dslo{module="new"} _x719 0.25
		module:inference_probe_slo_eligible:increase_each_hourslo{module="new"} _x647 1x71

		eval instant at 719h QUERY
		slo{module="x"} 0.5
		slo{module="y"} -1
		slo{module="new"} 0.95`)
	// Of four endpoints, those of a dead exporter are not covered, though the probes of the other
	// one all ran.
	f(titled(fleetStats(), "Prober coverage"), `
		load 1m
		instance:inference_endpoint_info:lastof{endpoint="a",instance="alive"} 1x30
		instance:inference_endpoint_info:lastof{endpoint="b",instance="dead"} 1x30
		instance:inference_endpoint_info:lastof{endpoint="c",instance="dead"} 1x30
		instance:inference_endpoint_info:lastof{endpoint="d",instance="dead"} 1x30
		up{job="j",instance="alive"} 1x30
		up{job="j",instance="dead"} 0x30
		inference_probe_results_totalof{endpoint="a",instance="alive"} 0+2x30
		inference_probe_skipped_totalof{endpoint="a",instance="alive"} 0x30

		eval instant at 30m QUERY
		{} 0.25`)
	// The load of an endpoint that only probes use is nothing, however near it is to the highest
	// that there was.
	f(titled(capacityNow(), "Load against its own peak of 7 days"), `
		load 1m
		endpoint:inference_server_generation_tokens:rate5m{model="m",endpoint="idle"} 1x10
		inference_probe_output_tokens_totalof{endpoint="idle"} 0+60x10
		endpoint:inference_server_generation_tokens:rate5m{model="m",endpoint="used"} 21x9 11
		inference_probe_output_tokens_totalof{endpoint="used"} 0+60x10

		eval instant at 10m QUERY
		{model="m",endpoint="idle"} 0
		{model="m",endpoint="used"} 0.47619047619047616`)
	// Two GPUs without a request for the first of three hours are two GPU-hours, however many
	// exporters report it.
	f(titled(capacityNow(), "GPU-hours idle in 24 hours"), `
		load 1m
		inference_endpoint_gpusof{endpoint="e"} 2x180
		inference_server_requests_runningof{endpoint="e",server="s",instance="a"} 0x59 3x120
		inference_server_requests_runningof{endpoint="e",server="s",instance="b"} 0x59 3x120

		eval instant at 3h QUERY
		{model="m",endpoint="e"} 2`)
	// Exporters that are dead are in the table, whether their job has the usual name or
	// their page of the last hour was an exporter's. Another target is not.
	f(titled(selfNow(), "Exporters"), `
		load 1m
		up{job="inference_exporter",instance="a"} 1x20 0x40
		up{job="named otherwise",instance="b"} 1x30 0x30
		inference_exporter_build_info{job="named otherwise",instance="b"} 1x30 stale
		up{job="inference-exporter",instance="alive"} 1x60
		inference_exporter_build_info{job="inference-exporter",instance="alive"} 1x60
		up{job="node",instance="c"} 0x60

		eval instant at 1h QUERY
		{job="inference_exporter",instance="a"} 1
		{job="named otherwise",instance="b"} 1
		{job="inference-exporter",instance="alive"} 0`)
	// An endpoint that is stale is listed, and one whose exporter is dead; one that is up is not,
	// however old its latest probe.
	f(titled(selfNow(), "Endpoints without a fresh probe"), `
		load 1m
		inference_probe_last_run_timestamp_seconds{endpoint="stale",module="x"} 60x60
		inference_endpoint_state{endpoint="stale",state="stale"} 1x60
		inference_probe_last_run_timestamp_seconds{endpoint="up",module="x"} 60x60
		inference_endpoint_state{endpoint="up",state="stale"} 0x60
		inference_probe_last_run_timestamp_seconds{endpoint="dead exporter",module="x"} 120x10 stale
		inference_endpoint_state{endpoint="dead exporter",state="stale"} 0x10 stale

		eval instant at 1h QUERY
		{endpoint="stale",module="x"} 60000
		{endpoint="dead exporter",module="x"} 120000`)
	// Of 100 requests a minute 60 are in the first bucket: the median is somewhere in it and has no
	// line, and the 9th decile is three quarters of the way through the second.
	latency := func(q float64) string {
		return classicQuantile(q, "model", "5m", "inference_server_queue_seconds", ofEndpoint)
	}
	requests := `
		load 1m
		inference_server_queue_seconds_bucketof{endpoint="e",le="0.3"} 0+60x10
		inference_server_queue_seconds_bucketof{endpoint="e",le="0.7"} 0+100x10
		inference_server_queue_seconds_bucketof{endpoint="e",le="+Inf"} 0+100x10

		eval instant at 10m QUERY`
	f(latency(0.5), requests)
	f(latency(0.9), requests+`
		{model="m"} 0.6`)
}

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

// disagreement is of endpoints whose exporters do not agree. As exporters have it, all states of
// an endpoint are exported, one of them with 1.
func disagreement() string {
	script := "load 1m\n"
	until := "x60"
	add := func(instance, endpoint, state, since string) {
		for _, s := range endpointStates {
			if s.Text != notProbed {
				value := 0
				if s.Text == state {
					value = 1
				}
				script += fmt.Sprintf("\t\tstate of{endpoint=%q,instance=%q,state=%q} %d%s\n", endpoint, instance, s.Text, value, until)
			}
		}
		script += fmt.Sprintf("\t\tsince of{endpoint=%q,instance=%q} %s%s\n", endpoint, instance, since, until)
		script += fmt.Sprintf("\t\tinfo of{endpoint=%q,instance=%q} 1%s\n\t\tlast of{endpoint=%q,instance=%q} 1x60\n", endpoint, instance, until, endpoint, instance)
	}
	add("a", "one sees it down", "down", "3000")
	add("b", "one sees it down", "up", "100")
	add("a", "both see it down", "down", "3000")
	add("b", "both see it down", "flapping", "2900")
	add("a", "one has no result yet", "waiting", "3500")
	add("b", "one has no result yet", "degraded", "1800")
	add("a", "muted by one", "muted", "1200")
	add("b", "muted by one", "down", "1100")
	add("a", "one sees it sleep", "asleep", "1000")
	add("b", "one sees it sleep", "down", "900")
	until = "x59 stale"
	add("a", "one scrape failed", "slow", "1500")
	// The exporter of this one died after half an hour.
	return script + `		info of{endpoint="exporter is dead",instance="c"} 1x30 stale
		last of{endpoint="exporter is dead",instance="c"} 1x60
`
}

// latestStates is of twelve endpoints that are down; the ten that changed last have a row.
func latestStates() string {
	script, want := "load 1m\n", "\n\t\teval instant at 1h QUERY"
	for i := range 12 {
		labels := fmt.Sprintf(`{endpoint="e%d",instance="a"`, i)
		script += "\t\tstate of" + labels + `,state="down"} 1x60` + "\n\t\tinfo of" + labels + "} 1x60\n\t\tlast of" + labels + "} 1x60\n"
		script += fmt.Sprintf("\t\tsince of%s} %dx60\n", labels, 1000+i)
		if i >= 2 {
			want += fmt.Sprintf("\n\t\t{endpoint=\"e%d\"} 7", i)
		}
	}
	return script + want
}

// Queries that decide between states or add up over time give what their panels say.
func TestMeaning(t *testing.T) {
	variables := strings.NewReplacer("$job", ".*", "$model", ".*", "$endpoint", ".*", "$instance", ".*", "\n", " ")
	short := strings.NewReplacer(
		"state of{", `inference_endpoint_state{job="j",`, "since of{", `inference_endpoint_state_since_timestamp_seconds{job="j",`,
		"info of{", `inference_endpoint_info{job="j",model="m",`, "last of{", `instance:inference_endpoint_info:last{job="j",model="m",`,
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
	// Exporters agree as alerts do: an endpoint is as well as the one that sees it best, of those that
	// have a result.
	f(endpointState(), disagreement()+`
		eval instant at 1h QUERY
		{endpoint="one sees it down"} 2
		{endpoint="both see it down"} 6
		{endpoint="one has no result yet"} 5
		{endpoint="muted by one"} 1
		{endpoint="one sees it sleep"} 3
		{endpoint="one scrape failed"} 4
		{endpoint="exporter is dead"} 10`)
	f(countOf("flapping", "down"), disagreement()+`
		eval instant at 1h QUERY
		{} 1`)
	f(countOf(notProbed, notProbed), disagreement()+`
		eval instant at 1h QUERY
		{} 1`)
	// Since when is that of the exporters that say so; of a dead one, when it was last seen.
	f(stateSince(endpointState()), disagreement()+`
		eval instant at 1h QUERY
		{endpoint="one sees it down"} 100
		{endpoint="both see it down"} 2900
		{endpoint="one has no result yet"} 1800
		{endpoint="muted by one"} 1200
		{endpoint="one sees it sleep"} 1000
		{endpoint="one scrape failed"} 1500
		{endpoint="exporter is dead"} 1800`)
	f(stateSince(notUp()), disagreement()+`
		eval instant at 1h QUERY
		{endpoint="both see it down"} 2900
		{endpoint="one has no result yet"} 1800
		{endpoint="muted by one"} 1200
		{endpoint="one sees it sleep"} 1000
		{endpoint="one scrape failed"} 1500
		{endpoint="exporter is dead"} 1800`)
	f(grafana.Replace(titled(fleetStates(), "State over time")), latestStates())
	// What only pends is not there. Critical has the highest rank.
	f(firing(), `
		load 1m
		ALERTS{alertname="InferenceEndpointDown",severity="critical",endpoint="e",scope="host h",alertstate="firing"} 1x10
		ALERTS_FOR_STATE{alertname="InferenceEndpointDown",severity="critical",endpoint="e",scope="host h"} 300x10
		ALERTS{alertname="InferenceGPUXID",severity="warning",instance="i",gpu="0",alertstate="firing"} 1x10
		ALERTS_FOR_STATE{alertname="InferenceGPUXID",severity="warning",instance="i",gpu="0"} 400x10
		ALERTS{alertname="InferenceProbeStale",severity="info",endpoint="other",alertstate="pending"} 1x10
		ALERTS_FOR_STATE{alertname="InferenceProbeStale",severity="info",endpoint="other"} 500x10

		eval instant at 10m QUERY
		{rank="3",severity="critical",alertname="InferenceEndpointDown",alert="EndpointDown",endpoint="e",scope="host h",of="e",board="endpoint"} 300000
		{rank="2",severity="warning",alertname="InferenceGPUXID",alert="GPUXID",instance="i",gpu="0",of="i 0",board="gpu"} 400000`)
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
	f(titled(fleetNow(), "Prober coverage"), `
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

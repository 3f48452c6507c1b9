package main

import (
	"fmt"
	"strconv"
	"strings"
)

// endpointStates are the states of an endpoint. The order is that in which the
// exporters of an endpoint agree, as alerts do: the first that any of them has. One that is
// reached by one exporter is up, and one without a result yet says nothing. The last is
// that of an endpoint whose exporters are all dead.
var endpointStates = []State{
	{"1", "muted", "blue"},
	{"2", "up", "green"},
	{"3", "asleep", "super-light-blue"},
	{"4", "slow", "yellow"},
	{"5", "degraded", "orange"},
	{"6", "flapping", "dark-red"},
	{"7", "down", "red"},
	{"8", "stale", "purple"},
	{"9", "waiting", "light-blue"},
	{"10", notProbed, "dark-purple"},
}

// notProbed is the only state that is not the exporter's.
const notProbed = "not probed"

// code is the number that stands for a state.
func code(text string) string {
	for _, s := range endpointStates {
		if s.Text == text {
			return s.Value
		}
	}
	panic("no state " + text)
}

// upStates are those of a gauge that is 1 where all is well.
var upStates = []State{{"1", "ok", "green"}, {"0", "failed", "red"}}

// lately is the latest value of series: one scrape that fails changes no state.
func lately(series string) string { return "last_over_time(" + series + "[2m])" }

// stateOfProber is the code of the state of an endpoint by each exporter.
func stateOfProber(of scope) string {
	var all []string
	for _, s := range endpointStates {
		if s.Text != notProbed {
			all = append(all, s.Value+" * ("+lately(of.of("inference_endpoint_state", `state="`+s.Text+`"`))+" == 1)")
		}
	}
	return "max by (job, instance, endpoint) (" + strings.Join(all, " or ") + ")"
}

// endpointState is the code of the state of each endpoint: that of the exporter.
// No board has another one.
func endpointState() string {
	// The model may not be known after a restart during an outage, but was before.
	chosen := "last_over_time(" + ofEndpoint.of("inference_endpoint_info") + "[1h])"
	return "(min by (endpoint) (" + stateOfProber(ofState) + ") and on (endpoint) " + chosen +
		" or on (endpoint) " + code(notProbed) + " * group by (endpoint) (" + remembered() + "))"
}

// remembered are the endpoints of all exporters. The rules remember those of an
// exporter that is down.
func remembered() string { return ofEndpoint.of("instance:inference_endpoint_info:last") }

// stateSince is when each of the endpoints with a state began to have it, by the
// first of the exporters that say so; without one, when it was last probed.
func stateSince(states string) string {
	since := lately(ofState.of("inference_endpoint_state_since_timestamp_seconds"))
	seen := "max_over_time(timestamp(" + ofEndpoint.of("inference_endpoint_info") + ")[1h:1m])"
	return "(min by (endpoint) (" + since + " and on (job, instance, endpoint) (" + stateOfProber(ofState) + " == on (endpoint) group_left () " + states + "))" +
		" or on (endpoint) (max by (endpoint) (" + seen + ") and on (endpoint) (" + states + " == " + code(notProbed) + ")))"
}

// notUp are the endpoints that have another state than up.
func notUp() string { return "(" + endpointState() + " != " + code("up") + ")" }

// stateColumns are who has which of the given states, since when and why.
func stateColumns(states string) ([]Query, []Column) {
	with := func(expr string) string { return expr + " and on (endpoint) " + states }
	queries := []Query{
		{Expr: states},
		{Expr: "1000 * " + stateSince(states)},
		// The kind and the scope of an incident are those that began first.
		{Expr: with("bottomk by (endpoint) (1, min by (endpoint, incident, scope) (" + ofState.of("inference_endpoint_incident_start_timestamp_seconds") + "))")},
		{Expr: with("topk by (endpoint) (1, count by (endpoint, title, do) (" + ofState.of("inference_endpoint_cause_info") + "))")},
	}
	return queries, []Column{
		{Label: "endpoint", Title: "Endpoint", Links: []Link{fromRow(uidEndpoint, "Endpoint"), fromRow(uidEngine, "Servers")}},
		{Query: 0, Title: "State", States: endpointStates, Width: 100},
		{Query: 1, Title: "Since", Unit: "dateTimeFromNow", Width: 140},
		{Label: "incident", Title: "Pages as", Width: 100},
		{Label: "scope", Title: "Scope", Width: 180},
		{Label: "title", Title: "Probable cause"},
	}
}

// countOf counts the endpoints with one of two neighbouring states, or with one.
func countOf(first, last string) string {
	if first == last {
		return "sum(" + endpointState() + " == bool " + code(first) + ")"
	}
	low, _ := strconv.Atoi(code(first))
	return fmt.Sprintf("sum(abs(%s - %d.5) < bool 1)", endpointState(), low)
}

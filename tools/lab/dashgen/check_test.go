package main

import (
	"strings"
	"testing"
)

func newTestChecker(t *testing.T) *checker {
	t.Helper()
	c, err := newChecker(rulesFolder)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Each of these would be an empty panel, and nothing would say so.
func TestQueriesThatAreRefused(t *testing.T) {
	c := newTestChecker(t)
	for _, tc := range []struct{ expr, why string }{
		{`sum(`, "parse"},
		{`inference_probe_succes`, "neither exported nor recorded"},
		{`module:inference_probe_slo_bad:ratio_rate7h`, "neither exported nor recorded"},
		{`{job="x"}`, "neither exported nor recorded"},
		{`inference_probe_success{server="a"}`, `no label "server"`},
		{`module:inference_probe_slo_bad:ratio_rate1h{job=~"$job"}`, `no label "job"`},
		{`rate(inference_probe_results_total{outcome="sucess"}[5m])`, `never has the value "sucess"`},
		{`rate(inference_probe_results_total{outcome!~"success|cancelled"}[5m])`, `never has the value "cancelled"`},
		{`inference_probe_ttft_window_seconds{stat="p95"}`, `never has the value "p95"`},
		{`sum by (server) (inference_probe_success)`, `groups by the label "server"`},
		{`histogram_quantile(0.5, sum by (le) (rate(inference_probe_ttft_seconds[5m])))`, `groups by the label "le"`},
		{`inference_probe_results_total`, "without rate or increase"},
		{`max_over_time(inference_probe_results_total[5m])`, "without rate or increase"},
		{`histogram_quantile(0.5, inference_probe_ttft_seconds_bucket)`, "without rate or increase"},
		{`inference_probe_success and on (server) inference_server_up`, `joins on the label "server"`},
		{`sum by (model) (inference_server_up) and on (model, server) inference_server_up`, `joins on the label "server"`},
		{`sum by (model) (inference_server_up) / inference_server_up`, "different labels"},
		{`sum by (model) (inference_server_up) unless inference_server_up`, "different labels"},
		{`inference_server_up * on (endpoint) group_left (pod) max by (endpoint) (inference_endpoint_gpus)`, `takes over the label "pod"`},
	} {
		_, err := c.labelsOf(tc.expr)
		if err == nil {
			err = c.countersAreRates(tc.expr)
		}
		if err == nil || !strings.Contains(err.Error(), tc.why) {
			t.Errorf("%s: got %v, want an error with %q", tc.expr, err, tc.why)
		}
	}
}

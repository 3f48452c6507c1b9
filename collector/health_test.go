package collector

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/drift"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// healthOnly shows the families of the states of a store alone.
type healthOnly struct{ *Probes }

func (h healthOnly) write(e encoder) {
	writeSeries(e, h.states, h.page().states)
}

// statesOf returns the samples of the states without what their names have in common.
func statesOf(t *testing.T, p *Probes) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, v := range samples(t, p) {
		if short := strings.TrimPrefix(name, "inference_endpoint_"); strings.HasPrefix(short, "state") || strings.HasPrefix(short, "objective") || strings.HasPrefix(short, "muted") || strings.HasPrefix(short, "cause") || strings.HasPrefix(short, "incident") {
			out[short] = v
		}
	}
	return out
}

// inState returns a state since a time, in milliseconds since 1970, of an endpoint that misses its
// objective for TTFT.
func inState(s health.State, since int64) func() *health.Status {
	return func() *health.Status {
		return &health.Status{State: s, Since: time.UnixMilli(since), Objectives: 1<<series.Availability | 1<<series.TTFT, Missed: 1 << series.TTFT}
	}
}

// paging returns the state of an endpoint whose incident pages.
func paging() *health.Status {
	return &health.Status{State: health.Down, Objectives: 1 << series.Availability, Paging: &health.Paging{Kind: health.KindDown, Scope: "endpoint e", Witness: health.Probes}}
}

// because returns a cause.
func because(c explain.Cause) func() explain.Cause { return func() explain.Cause { return c } }

// A cause has a series while there is one.
func TestCause(t *testing.T) {
	p, _ := newStore()
	for name, cause := range map[string]func() explain.Cause{"down": because(explain.ProcessGone), "up": because(""), "unexplained": nil} {
		p.OpenEndpoint(EndpointInfo{Endpoint: name, Model: "m", Labels: map[string]string{"team": "search"}, State: inState(health.Down, 0), Cause: cause})
	}
	got := statesOf(t, p)
	for name := range got {
		if !strings.HasPrefix(name, "cause") {
			delete(got, name)
		}
	}
	title, do := explain.ProcessGone.Say()
	wantSamples(t, got, map[string]string{
		fmt.Sprintf(`cause_info{cause="process_gone",do=%q,endpoint="down",team="search",title=%q}`, do, title): "1",
	})
}

// An incident that pages has a series once its scope is known, unless the endpoint is muted.
func TestIncident(t *testing.T) {
	p, _ := newStore()
	incident := &health.Paging{Kind: health.KindTTFT, Start: time.UnixMilli(1_700_000_000_250), Scope: "host gpu-3", Witness: health.Users}
	for name, s := range map[string]health.Status{
		"pages": {Paging: incident}, "muted": {Paging: incident, Mute: &health.Mute{}}, "young": {Paging: &health.Paging{Kind: health.KindDown}}, "up": {},
	} {
		p.OpenEndpoint(EndpointInfo{Endpoint: name, Model: "m", Labels: map[string]string{"team": "search"}, State: func() *health.Status { return &s }})
	}
	got := statesOf(t, p)
	for name := range got {
		if !strings.HasPrefix(name, "incident") {
			delete(got, name)
		}
	}
	wantSamples(t, got, map[string]string{
		`incident_start_timestamp_seconds{endpoint="pages",incident="ttft",scope="host gpu-3",team="search"}`: "1.70000000025e+09",
		`incident_witness{endpoint="pages",team="search",witness="probes"}`:                                   "0",
		`incident_witness{endpoint="pages",team="search",witness="probes_only"}`:                              "0",
		`incident_witness{endpoint="pages",team="search",witness="users"}`:                                    "1",
		`incident_witness{endpoint="pages",team="search",witness="both"}`:                                     "0",
	})
}

// Since when other models answer has a series for each source while they do. The names are a server's, and bounded.
func TestModelChanged(t *testing.T) {
	p, _ := newStore()
	long := strings.Repeat("a", 200) + "\n"
	facts := new(workload.Facts)
	workload.SetFact(facts, drift.Changes{
		Names:  &drift.Change{Source: drift.SourceModel, Since: time.UnixMilli(1_500), From: "a\"b", To: long},
		Scores: &drift.Change{Source: drift.SourceLogprob, Since: time.Unix(2, 0)},
	})
	p.OpenEndpoint(EndpointInfo{Endpoint: "e", Labels: map[string]string{"team": "search"}, State: inState(health.Up, 0), Facts: facts})
	p.OpenEndpoint(EndpointInfo{Endpoint: "usual", State: inState(health.Up, 0), Facts: new(workload.Facts)})
	got := map[string]string{}
	for name, v := range samples(t, p) {
		if short, ok := strings.CutPrefix(name, "inference_endpoint_model_changed_timestamp_seconds"); ok {
			got[short] = v
		}
	}
	wantSamples(t, got, map[string]string{
		fmt.Sprintf(`{endpoint="e",from="a\"b",source="model",team="search",to=%q}`, long[:128]): "1.5",
		`{endpoint="e",source="logprob",team="search"}`:                                          "2",
	})
}

// When an endpoint ends has a series for each source that says it.
func TestRetirement(t *testing.T) {
	p, _ := newStore()
	for name, r := range map[string]api.Retirement{"header": {Header: 1_700_000_000, Deprecated: 1_600_000_000}, "listed": {Listed: 1_800_000_000}, "stays": {}} {
		facts := new(workload.Facts)
		workload.SetFact(facts, health.Retirement{Retirement: r})
		p.OpenEndpoint(EndpointInfo{Endpoint: name, State: inState(health.Up, 0), Facts: facts})
	}
	got := map[string]string{}
	for name, v := range samples(t, p) {
		if short := strings.TrimPrefix(name, "inference_endpoint_"); strings.HasPrefix(short, "retirement") || strings.HasPrefix(short, "deprecation") {
			got[short] = v
		}
	}
	wantSamples(t, got, map[string]string{
		`retirement_timestamp_seconds{endpoint="header",source="header"}`:     "1.7e+09",
		`deprecation_timestamp_seconds{endpoint="header"}`:                    "1.6e+09",
		`retirement_timestamp_seconds{endpoint="listed",source="model_list"}`: "1.8e+09",
	})
}

// One of all states is 1. A model that becomes known changes no labels.
func TestState(t *testing.T) {
	p, _ := newStore()
	e := p.OpenEndpoint(EndpointInfo{
		Endpoint: "e", Model: "m", Labels: map[string]string{"team": "search", "state": "reserved"}, State: inState(health.Degraded, 1_700_000_000_250),
	})
	p.OpenEndpoint(EndpointInfo{Endpoint: "unwatched"})
	e.SetServed(&result.Result{Model: "other"})
	wantSamples(t, statesOf(t, p), map[string]string{
		`state{endpoint="e",state="asleep",team="search"}`:                "0",
		`state{endpoint="e",state="degraded",team="search"}`:              "1",
		`state{endpoint="e",state="down",team="search"}`:                  "0",
		`state{endpoint="e",state="flapping",team="search"}`:              "0",
		`state{endpoint="e",state="muted",team="search"}`:                 "0",
		`state{endpoint="e",state="slow",team="search"}`:                  "0",
		`state{endpoint="e",state="stale",team="search"}`:                 "0",
		`state{endpoint="e",state="up",team="search"}`:                    "0",
		`state{endpoint="e",state="waiting",team="search"}`:               "0",
		`state_since_timestamp_seconds{endpoint="e",team="search"}`:       "1.70000000025e+09",
		`muted{endpoint="e",team="search"}`:                               "0",
		`objective_missed{endpoint="e",slo="availability",team="search"}`: "0",
		`objective_missed{endpoint="e",slo="ttft",team="search"}`:         "1",
	})
	e.Close()
	wantSamples(t, statesOf(t, p), nil)
}

func TestStateEqualsClientGolang(t *testing.T) {
	p, reg := NewProbes(time.Now), prometheus.NewRegistry()
	vec := func(name string, own ...string) *prometheus.GaugeVec {
		return describedGauge(reg, name, append([]string{"endpoint", "a_zone", "team"}, own...)...)
	}
	state, since, muted := vec("endpoint_state", "state"), vec("endpoint_state_since_timestamp_seconds"), vec("endpoint_muted")
	incident, witness := vec("endpoint_incident_start_timestamp_seconds", "scope", "incident"), vec("endpoint_incident_witness", "witness")
	cause, missed := vec("endpoint_cause_info", "cause", "title", "do"), vec("endpoint_objective_missed", "slo")
	for i, target := range targets(false) {
		info := target.info()
		info.State = func() *health.Status {
			return &health.Status{State: health.Muted, Since: time.UnixMilli(int64(i) * 1500), Objectives: 1<<series.Availability | 1<<series.E2E, Missed: 1 << series.Availability, Paging: &health.Paging{Kind: health.KindTPOT, Start: time.UnixMilli(2500), Scope: "zone a", Witness: health.Both}}
		}
		info.Cause = because(explain.Quota)
		p.OpenEndpoint(info)
		with := func(own ...string) []string {
			return append([]string{target.Endpoint, target.Labels["a_zone"], target.Labels["team"]}, own...)
		}
		for _, s := range []string{"down", "flapping", "degraded", "slow", "stale", "waiting", "asleep", "up"} {
			state.WithLabelValues(with(s)...).Set(0)
		}
		state.WithLabelValues(with("muted")...).Set(1)
		since.WithLabelValues(with()...).Set(float64(i) * 1.5)
		muted.WithLabelValues(with()...).Set(0)
		incident.WithLabelValues(with("zone a", "tpot")...).Set(2.5)
		for _, w := range []string{"probes", "probes_only", "users"} {
			witness.WithLabelValues(with(w)...).Set(0)
		}
		witness.WithLabelValues(with("both")...).Set(1)
		title, do := explain.Quota.Say()
		cause.WithLabelValues(with("quota", title, do)...).Set(1)
		missed.WithLabelValues(with("availability")...).Set(1)
		missed.WithLabelValues(with("e2e")...).Set(0)
	}
	compare(t, healthOnly{p}, reg)
}

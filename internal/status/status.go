// Package status keeps what the status page shows: of each endpoint its state, its latest probes and a bounded history
// of them, and what its servers say. It lives in memory; a Past takes the history of a series over a restart.
// Prometheus has the long story. What it returns is JSON as the API under /api/v1 serves it: times are seconds since
// 1970, durations seconds, and what is not known is left out.
package status

import (
	"encoding/json"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/drift"
)

// Fleet is the page of all endpoints: GET /api/v1/endpoints.
type Fleet struct {
	// Version grows with every change. Board.Changes takes it.
	Version uint64 `json:"version"`
	// At is when the page was made.
	At float64 `json:"at"`
	// States counts the endpoints of each state.
	States map[health.State]int `json:"states"`
	// Endpoints are sorted by name.
	Endpoints []*Row `json:"endpoints"`
}

// Update is what has changed since a version.
type Update struct {
	Version uint64               `json:"version"`
	At      float64              `json:"at"`
	States  map[health.State]int `json:"states"`
	// Endpoints are the rows that are new or changed, Removed the names of those
	// that are gone. With Reset the endpoints are all there are.
	Endpoints []*Row   `json:"endpoints,omitempty"`
	Removed   []string `json:"removed,omitempty"`
	Reset     bool     `json:"reset,omitempty"`
}

// Row is one endpoint in the table. Its numbers are those of its first module, cold before warm, the smallest rung; its
// state is that of all modules but bursts.
type Row struct {
	Name   string            `json:"name"`
	URL    string            `json:"url"`
	Model  string            `json:"model,omitempty"`
	API    string            `json:"api,omitempty"`
	Engine string            `json:"engine,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Module string            `json:"module,omitempty"`

	State health.State `json:"state"`
	// Since is when the state began; LastAt when the latest probe started.
	Since  float64 `json:"since,omitempty"`
	LastAt float64 `json:"last_at,omitempty"`
	// ProbesSince counts the probes since the incident began, and FailedSince those of them that failed, in how many
	// spells in which the endpoint was down SpellsSince; of a slow endpoint ProbesSince counts the answers, and
	// OverSince those over an objective. Absent while the endpoint is up, waiting, asleep or stale.
	ProbesSince int `json:"probes_since,omitempty"`
	FailedSince int `json:"failed_since,omitempty"`
	SpellsSince int `json:"spells_since,omitempty"`
	OverSince   int `json:"over_since,omitempty"`
	// Why says for people in one line why the endpoint is not up, the innermost cause
	// first. It may quote the server: bounded, without secrets, and untrusted text.
	Why string `json:"why,omitempty"`
	// Cause is the likeliest cause while the endpoint is not up; absent until one was looked for.
	Cause explain.Cause `json:"cause,omitempty"`
	// Incident is what is wrong in the incident that pages, Scope what the endpoint shares with
	// others that failed when it began to, and IncidentStart when it began; absent without one, and while muted.
	Incident      health.Kind `json:"incident,omitempty"`
	Scope         string      `json:"scope,omitempty"`
	IncidentStart float64     `json:"incident_start,omitempty"`
	// Witness is who saw it, and SeenBy the same in words, with where to look; absent where that is not known. It may quote what
	// servers' pages show: bounded.
	Witness health.Witness `json:"witness,omitempty"`
	SeenBy  string         `json:"seen_by,omitempty"`
	// ModelChanged is in what another model than usual answers; absent while the usual one does.
	ModelChanged *ModelChange `json:"model_changed,omitempty"`
	// RetiresAt is when the API or the model is said to end, and DeprecatedAt since when it is discouraged, in seconds since 1970;
	// absent where it is not said.
	RetiresAt    int64 `json:"retires_at,omitempty"`
	DeprecatedAt int64 `json:"deprecated_at,omitempty"`
	// Muted is the mute that is in force.
	Muted *Muted `json:"muted,omitempty"`
	// Outcomes are those of the latest probes of the first module, the latest last: at most 30.
	Outcomes []result.Outcome `json:"outcomes,omitempty"`
	// Runs are the latest runs of the first module; see Series.
	Runs string `json:"runs,omitempty"`
	// Failing names the modules whose latest probe failed, at most 8.
	Failing []string `json:"failing,omitempty"`
	// Slow names the modules whose answers are over an objective, at most 8.
	Slow []string `json:"slow,omitempty"`
	// Failure is the latest failure, also when all is well again; while modules fail it is the latest of theirs.
	Failure *Failure `json:"failure,omitempty"`

	// The times are those of the latest probe; absent after a failure, and where the exporter does not vouch for them.
	Times
	// Earlier are the times of the latest success that the exporter vouches for, while
	// it does not vouch for those of a success after it.
	Earlier *EarlierTimes `json:"earlier,omitempty"`
	// Window is of the last hour.
	Window *Window `json:"ttft_window,omitempty"`
	// SLO is what is promised.
	SLO *series.Objectives `json:"slo,omitempty"`
	// Uptime is that of all modules but bursts together, BudgetLeft what is left of
	// the error budget of 30 days of the one that has least.
	Uptime     *series.Uptime `json:"uptime,omitempty"`
	BudgetLeft *float64       `json:"budget_left,omitempty"`

	// Servers sums up the servers behind the endpoint; absent where none is known.
	Servers *Load `json:"servers,omitempty"`
}

// ModelChange is that another model than usual answers.
type ModelChange struct {
	Since float64 `json:"since"`
	// Source is what it is seen by. From and To are the names of the models; absent where a score shows it.
	Source drift.Source `json:"source"`
	From   string       `json:"from,omitempty"`
	To     string       `json:"to,omitempty"`
}

// Times are those of one probe.
type Times struct {
	TTFT     *float64 `json:"ttft_seconds,omitempty"`
	TPOT     *float64 `json:"tpot_seconds,omitempty"`
	Duration *float64 `json:"duration_seconds,omitempty"`
}

// EarlierTimes are those of a probe that started at a time.
type EarlierTimes struct {
	At float64 `json:"at"`
	Times
}

// Muted is a mute: until when and why, and the state without it, with its begin.
type Muted struct {
	Until  float64      `json:"until"`
	Reason string       `json:"reason"`
	State  health.State `json:"state"`
	Since  float64      `json:"since,omitempty"`
}

// Window is the time to first token of the probes of the last hour, in seconds. Each statistic is absent where the samples do not carry it.
type Window struct {
	Samples  int      `json:"samples"`
	P50      *float64 `json:"p50,omitempty"`
	P99      *float64 `json:"p99,omitempty"`
	P99Lower *float64 `json:"p99_lower,omitempty"`
	P99Upper *float64 `json:"p99_upper,omitempty"`
}

// Load is what the servers of an endpoint say together: sums of the requests,
// the fullest KV cache, the mean of the hit ratios.
type Load struct {
	Known   int      `json:"known"`
	Up      int      `json:"up"`
	Running *float64 `json:"running,omitempty"`
	Waiting *float64 `json:"waiting,omitempty"`
	KVUsage *float64 `json:"kv_cache_usage_ratio,omitempty"`
	Hits    *float64 `json:"prefix_cache_hit_ratio,omitempty"`
}

// Failure is a failed probe in words. Message may quote the server: it is bounded, without secrets, and untrusted text.
type Failure struct {
	At      float64        `json:"at"`
	Module  string         `json:"module"`
	Outcome result.Outcome `json:"outcome"`
	Message string         `json:"message"`
	Advice  string         `json:"advice,omitempty"`
}

// Detail is the page of one endpoint: GET /api/v1/endpoints/{name}.
type Detail struct {
	Row
	At      float64   `json:"at"`
	Version uint64    `json:"version"`
	Series  []*Series `json:"series"`
	Pages   []*Server `json:"pages,omitempty"`
	// Facts are what is known of the endpoint as a whole, whose fields are among these; nil is nothing.
	Facts *workload.Findings `json:"-"`
	// Gateway is the gateway that requests to the endpoint pass; absent where none is configured.
	Gateway *Gateway `json:"gateway,omitempty"`
	// Findings are what many probes of a module show together, sorted by module.
	Findings []*Module `json:"findings,omitempty"`
	// Changes are what happened lately: incidents, mutes, findings such as a new answer to
	// an old question, and restarts of the exporter; the latest first, at most 50.
	Changes []Change `json:"changes,omitempty"`
	// Restarts are when the exporter was restarted and went on with what an earlier process had kept, the latest last.
	Restarts []int64 `json:"restarts,omitempty"`
}

// Series are the probes of one result.SeriesID.
type Series struct {
	Module       string             `json:"module"`
	Prefix       string             `json:"prefix"`
	InputTokens  string             `json:"input_tokens,omitempty"`
	OutputTokens string             `json:"output_tokens,omitempty"`
	Concurrency  string             `json:"concurrency,omitempty"`
	Interval     float64            `json:"interval_seconds"`
	Window       *Window            `json:"ttft_window,omitempty"`
	SLO          *series.Objectives `json:"slo,omitempty"`
	Uptime       *series.Uptime     `json:"uptime,omitempty"`
	// BudgetLeft is the share of the error budget of 30 days that is left, for the objective that is missed most; below
	// 0 it is missed. Days without probes, as those before the series was kept, use none of it.
	BudgetLeft *float64 `json:"budget_left,omitempty"`
	// Fluidity is that of the stream of the latest probe: the share of its token deadlines
	// that were met. Absent without such an objective.
	Fluidity *float64 `json:"fluidity_ratio,omitempty"`
	History  *History `json:"history"`
	// Runs are the latest runs, the latest last, at most 30: '.' is a success, 'o' a
	// success over an objective, 'x' a failure, '-' a run that did not start.
	Runs string `json:"runs,omitempty"`
	// Steps are when the level of a metric changed for good, the latest first: at most 8.
	Steps []explain.Step `json:"steps,omitempty"`
	// Probes are the latest ones with all that is known, the latest first, in the form of the command `probe -o json`.
	Probes []*result.Document `json:"probes"`
}

// Module is what the probes of one module show together.
type Module struct {
	Module   string             `json:"module"`
	Findings *workload.Findings `json:"-"`
}

// MarshalJSON writes the name of the module, what people see of its findings, and the findings as one object.
func (m *Module) MarshalJSON() ([]byte, error) {
	type plain Module
	return withFindings((*plain)(m), m.Findings)
}

// MarshalJSON writes what is here, what people see of the facts, and the facts as one object.
func (d *Detail) MarshalJSON() ([]byte, error) {
	type plain Detail
	return withFindings((*plain)(d), d.Facts)
}

// withFindings writes an object that has a field at least, and what it does not have of findings; nil is none.
func withFindings(object any, findings *workload.Findings) ([]byte, error) {
	out, err := json.Marshal(object)
	if err != nil || findings == nil {
		return out, err
	}
	for _, more := range []any{struct {
		Figures []workload.Figure `json:"figures,omitempty"`
	}{findings.Figures()}, findings} {
		text, err := json.Marshal(more)
		if err != nil {
			return nil, err
		}
		if len(text) > len("{}") {
			out[len(out)-1] = ','
			out = append(out, text[1:]...)
		}
	}
	return out, nil
}

// History are columns of the kept probes, the oldest first. A null is a value that was not measured.
type History struct {
	// From is since when probes of the series are kept, by this process or an earlier
	// one; the oldest point may be later, as their number is bounded.
	From    float64          `json:"from"`
	At      []float64        `json:"at"`
	TTFT    []*float64       `json:"ttft_seconds"`
	TPOT    []*float64       `json:"tpot_seconds"`
	Outcome []result.Outcome `json:"outcome"`
}

// Server is the latest reading of one server's own page.
type Server struct {
	Server string             `json:"server"`
	URL    string             `json:"url"`
	Engine string             `json:"engine,omitempty"`
	At     float64            `json:"at"`
	State  page.State         `json:"state"`
	Reason page.Reason        `json:"reason,omitempty"`
	Error  string             `json:"error,omitempty"`
	Values map[string]float64 `json:"values,omitempty"` // by config.Quantity
	// Settings are texts of the engine.
	Settings map[config.Setting]string `json:"settings,omitempty"`
	Hits     *float64                  `json:"prefix_cache_hit_ratio,omitempty"`
}

// Change is something that happened. An incident is one change, however often the
// state went to and fro; Until is when it ended, absent while it goes on.
type Change struct {
	At     float64 `json:"at"`
	Until  float64 `json:"until,omitempty"`
	Module string  `json:"module,omitempty"`
	Text   string  `json:"text"`
	// State is that of an incident or a mute; "" is a finding.
	State health.State `json:"state,omitempty"`
}

// maxTextBytes bounds a text that may come from a server.
const maxTextBytes = 1024

// harmless returns a text of any source as the pages show it.
func harmless(text string) string { return safetext.Line(text, maxTextBytes) }

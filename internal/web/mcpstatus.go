//go:build mcp

package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/status"
)

const (
	// defaultMCPRows and maxMCPRows are how many endpoints the tool fleet returns.
	defaultMCPRows = 20
	maxMCPRows     = 100
	// maxMCPProbes is how many of its latest probes a series has, maxMCPServers how many
	// servers an endpoint, and maxMCPChanges how many changes.
	maxMCPProbes  = 10
	maxMCPServers = 10
	maxMCPChanges = 20
)

type mcpFleet struct {
	States []health.State `json:"states,omitempty" jsonschema:"only endpoints in one of these states: down, flapping, degraded, slow, stale, waiting, asleep, muted, up"`
	Match  string         `json:"match,omitempty" jsonschema:"only endpoints with this text in their name, model, engine or in the value of a label; case does not matter"`
	Limit  int            `json:"limit,omitempty" jsonschema:"how many endpoints at most, 1 to 100; default: 20"`
}

type fleetAnswer struct {
	At float64 `json:"at"`
	// States counts all endpoints, Matched those that the arguments want; Endpoints are
	// the worst of these, fewer than the limit where they are too long.
	States    map[health.State]int `json:"states"`
	Matched   int                  `json:"matched"`
	Endpoints []json.RawMessage    `json:"endpoints"`
}

func (h *mcpHandler) callFleet(in mcpFleet) (any, error) {
	if in.Limit < 0 || in.Limit > maxMCPRows {
		return nil, fmt.Errorf("limit is %d: want 1 to %d", in.Limit, maxMCPRows)
	}
	worst := health.States()
	for _, s := range in.States {
		if !slices.Contains(worst, s) {
			return nil, fmt.Errorf("states has %.32q: want one of %v", s, worst)
		}
	}
	fleet := h.Status.Fleet()
	var rows []*status.Row
	for _, row := range fleet.Endpoints {
		if in.wants(row) {
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(a, b *status.Row) int { // which keeps the order of the names
		return cmp.Compare(slices.Index(worst, a.State), slices.Index(worst, b.State))
	})
	answer := &fleetAnswer{At: fleet.At, States: fleet.States, Matched: len(rows), Endpoints: []json.RawMessage{}}
	room := maxMCPAnswer - 1<<10 // for what is beside the endpoints
	for _, row := range rows[:min(len(rows), cmp.Or(in.Limit, defaultMCPRows))] {
		text, err := json.Marshal(inShort(row))
		if err != nil {
			return nil, fmt.Errorf("write endpoint: %w", err)
		}
		if room -= len(text) + len(","); room < 0 {
			break
		}
		answer.Endpoints = append(answer.Endpoints, text)
	}
	return answer, nil
}

func (f *mcpFleet) wants(row *status.Row) bool {
	if len(f.States) > 0 && !slices.Contains(f.States, row.State) {
		return false
	}
	texts := append([]string{row.Name, row.Model, row.Engine}, slices.Collect(maps.Values(row.Labels))...)
	match := strings.ToLower(f.Match)
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(strings.ToLower(text), match) })
}

// inShort returns a row without its histories and what else the tool endpoint has.
func inShort(r *status.Row) *status.Row {
	short := *r
	short.Outcomes, short.Runs, short.Failure, short.Earlier, short.Window, short.SLO, short.Uptime, short.Servers = nil, "", nil, nil, nil, nil, nil, nil
	return &short
}

type mcpDetail struct {
	Endpoint string `json:"endpoint" jsonschema:"name of the endpoint, as fleet lists it"`
	Module   string `json:"module,omitempty" jsonschema:"only the probes and findings of this module"`
	Probes   *int   `json:"probes,omitempty" jsonschema:"how many of the latest probes of each series to show in full, 0 to 10; default: 1"`
}

func (h *mcpHandler) callEndpoint(in mcpDetail) (any, error) {
	probes := 1
	if in.Probes != nil {
		probes = *in.Probes
	}
	if probes < 0 || probes > maxMCPProbes {
		return nil, fmt.Errorf("probes is %d: want 0 to %d", probes, maxMCPProbes)
	}
	found, ok := h.Status.Detail(in.Endpoint)
	if !ok {
		return nil, errNoEndpoint
	}
	detail := *found
	detail.Series = nil
	for _, s := range found.Series {
		if in.Module == "" || s.Module == in.Module {
			detail.Series = append(detail.Series, withoutHistory(s, probes))
		}
	}
	if in.Module != "" {
		if len(detail.Series) == 0 {
			return nil, fmt.Errorf("endpoint has no module %.64q", in.Module)
		}
		detail.Findings = slices.DeleteFunc(slices.Clone(detail.Findings), func(m *status.Module) bool { return m.Module != in.Module })
	}
	detail.Pages = detail.Pages[:min(len(detail.Pages), maxMCPServers)]
	detail.Changes = detail.Changes[:min(len(detail.Changes), maxMCPChanges)]
	return &detail, nil
}

// withoutHistory returns a series with its latest probes alone, and these without their tokens.
func withoutHistory(s *status.Series, probes int) *status.Series {
	short := *s
	short.History = nil
	short.Probes = slices.Clone(s.Probes[:min(len(s.Probes), probes)])
	for i, document := range short.Probes {
		d := *document
		d.Events = nil
		short.Probes[i] = &d
	}
	return &short
}

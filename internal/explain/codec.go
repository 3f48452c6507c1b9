package explain

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/drift"
	"github.com/inference-exporter/inference_exporter/internal/workload/loadtest"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// document is evidence in JSON: what the rules look at, and no more, as many of them are kept. Durations are in nanoseconds.
type document struct {
	*Evidence
	Probes   []*probeDocument      `json:"probes"`
	Steps    []stepDocument        `json:"steps,omitempty"`
	Facts    factDocuments         `json:"facts,omitzero"`
	GPUs     []*gpu.DeviceSnapshot `json:"gpus,omitempty"`
	LoadTest *loadTestDocument     `json:"load_test,omitempty"`
}

type probeDocument struct {
	Start     time.Time       `json:"start"`
	Module    string          `json:"module,omitempty"`
	Outcome   result.Outcome  `json:"outcome"`
	Status    int             `json:"http_status,omitempty"`
	Reason    result.Reason   `json:"reason,omitempty"`
	Error     string          `json:"error,omitempty"`
	StartLag  time.Duration   `json:"start_lag"`
	Timing    result.Timing   `json:"timing"`
	Server    api.ServerTimes `json:"server"`
	Buffered  bool            `json:"buffered,omitempty"`
	Imprecise bool            `json:"imprecise,omitempty"`
	Stall     *result.Stall   `json:"stall,omitempty"`
}

type stepDocument struct {
	Step
	Module string `json:"module"`
}

// Types of facts without the methods that write them as the API has them.
type (
	lossDocument  loadtest.Loss
	partsDocument page.TTFTParts
)

// factDocuments are the facts of an endpoint that a rule looks at.
type factDocuments struct {
	Retirement *api.Retirement   `json:"retirement,omitempty"`
	Names      *drift.Change     `json:"model_names,omitempty"`
	Scores     *drift.Change     `json:"model_scores,omitempty"`
	Differ     []page.Difference `json:"replicas_differ,omitempty"`
	Loss       *lossDocument     `json:"loss_of_a_server,omitempty"`
	Parts      *partsDocument    `json:"ttft_parts,omitempty"`
}

type loadTestDocument struct {
	At      time.Time          `json:"at"`
	MaxGood *loadtest.Capacity `json:"max_good"`
	Knee    *loadtest.Capacity `json:"knee"`
}

// Encode returns evidence as JSON, of which Decode makes evidence with the same findings.
func Encode(e *Evidence) ([]byte, error) {
	d := &document{Evidence: e, Facts: encodeFacts(e.Facts)}
	for _, p := range e.Probes {
		d.Probes = append(d.Probes, &probeDocument{
			p.Start, p.Module, p.Outcome, p.Status, p.Reason, p.Error, p.StartLag, p.Timing, p.Server, p.Buffered, p.Imprecise, p.Stall,
		})
	}
	for _, s := range e.Steps {
		d.Steps = append(d.Steps, stepDocument{s, s.Module})
	}
	for _, g := range e.GPUs {
		kept := &gpu.DeviceSnapshot{UUID: g.UUID, Name: g.Name, Up: g.Up, Processes: g.Processes}
		for _, r := range g.Readings {
			if reduces(r) {
				kept.Readings = append(kept.Readings, r)
			}
		}
		d.GPUs = append(d.GPUs, kept)
	}
	if t := e.LoadTest; t != nil {
		d.LoadTest = &loadTestDocument{t.At, t.MaxGood, t.Knee}
	}
	text, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode evidence: %w", err)
	}
	return text, nil
}

func encodeFacts(all *workload.Findings) (d factDocuments) {
	if ends, ok := workload.In[health.Retirement](all); ok {
		d.Retirement = &ends.Retirement
	}
	changes, _ := workload.In[drift.Changes](all)
	d.Names, d.Scores = changes.Names, changes.Scores
	if servers, ok := workload.In[*page.Compared](all); ok {
		d.Differ = servers.Findings
	}
	loss, _ := workload.In[*loadtest.Loss](all)
	parts, _ := workload.In[*page.TTFTParts](all)
	d.Loss, d.Parts = (*lossDocument)(loss), (*partsDocument)(parts)
	return d
}

// Decode returns the evidence of what Encode wrote. An error says what is wrong, and where.
func Decode(text []byte) (*Evidence, error) {
	d := document{Evidence: new(Evidence)}
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("not evidence: %w", err)
	}
	e := d.Evidence
	if e.At.IsZero() || !slices.Contains(health.States(), e.State) {
		return nil, errors.New("not evidence: want a time and a state")
	}
	e.Facts = d.Facts.decode()
	for i, p := range d.Probes {
		if p == nil || p.Start.IsZero() || !slices.Contains(result.Outcomes(), p.Outcome) {
			return nil, fmt.Errorf("not evidence: probes[%d] has no time or an unknown outcome", i)
		}
		e.Probes = append(e.Probes, &Probe{Module: p.Module, Reason: p.Reason, Error: p.Error, Result: &result.Result{
			Start: p.Start, Outcome: p.Outcome, Status: p.Status, StartLag: p.StartLag, Timing: p.Timing, Server: p.Server, Buffered: p.Buffered, Imprecise: p.Imprecise, Stall: p.Stall,
		}})
	}
	for _, s := range d.Steps {
		s.Step.Module = s.Module
		e.Steps = append(e.Steps, s.Step)
	}
	e.GPUs = slices.DeleteFunc(d.GPUs, func(g *gpu.DeviceSnapshot) bool { return g == nil })
	if t := d.LoadTest; t != nil {
		e.LoadTest = &loadtest.Finding{At: t.At, MaxGood: t.MaxGood, Knee: t.Knee}
	}
	return e, nil
}

func (d *factDocuments) decode() *workload.Findings {
	all := []workload.Finding{drift.Changes{Names: d.Names, Scores: d.Scores}}
	if d.Names == nil && d.Scores == nil {
		all = nil
	}
	if d.Retirement != nil {
		all = append(all, health.Retirement{Retirement: *d.Retirement})
	}
	if d.Differ != nil {
		all = append(all, &page.Compared{Findings: d.Differ})
	}
	if d.Loss != nil {
		all = append(all, (*loadtest.Loss)(d.Loss))
	}
	if d.Parts != nil {
		all = append(all, (*page.TTFTParts)(d.Parts))
	}
	return &workload.Findings{All: all}
}

package report

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
)

// Explain writes why an endpoint is as it is, for a person who has five seconds: the
// likeliest cause with its evidence and what to do, then the others with their evidence.
// Errors are those of w.
func Explain(w io.Writer, r *explain.Report, o Options) error {
	p := newPage(o)
	p.line("%s", p.stateLine(r))
	for i := range r.Findings {
		p.finding(&r.Findings[i], i == 0)
	}
	return p.writeTo(w)
}

// stateLine is as in "llama-prod: degraded since 06:15:04 UTC (1h20m0s)".
func (p *page) stateLine(r *explain.Report) string {
	c := yellow
	switch health.State(r.State) {
	case health.Up:
		c = green
	case health.Down, health.Flapping:
		c = red
	}
	text := clean(r.Endpoint) + ": " + p.paint(c, clean(r.State))
	if r.Since > 0 {
		since, at := time.UnixMilli(int64(r.Since*1e3)), time.UnixMilli(int64(r.At*1e3))
		text += fmt.Sprintf(" since %s (%s)", since.UTC().Format(time.DateTime+" UTC"), at.Sub(since).Round(time.Second))
	}
	return text
}

func (p *page) finding(f *explain.Finding, first bool) {
	label := "also: "
	if first {
		label = ""
	}
	p.line("\n%s", p.paint(bold, label+clean(f.Title))+" ("+clean(string(f.Cause))+")")
	p.list("evidence", f.Evidence)
	if !first {
		return
	}
	p.list("do", f.Do)
	p.list("refuted by", f.Against)
	if f.Runbook != "" {
		p.row("runbook", "docs/runbooks/"+f.Runbook+".md")
	}
}

// list writes rows of which the first has the label.
func (p *page) list(label string, texts []string) {
	for _, text := range texts {
		p.row(label, text)
		label = ""
	}
}

// ExplainJSON writes the report as the API has it. Errors are those of w.
func ExplainJSON(w io.Writer, r *explain.Report) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

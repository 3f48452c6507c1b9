package report

import (
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// waterfall draws the phases below each other, under a title, each from where the one before
// it ended. After a failure the time that belongs to no finished phase is the
// last bar.
func (p *page) waterfall(title string, t *result.Timing, o result.Outcome) {
	total := time.Duration(0)
	for _, d := range t.Phases {
		total += max(0, d)
	}
	rest := t.Duration - total
	total = max(total, t.Duration)
	if total <= 0 {
		return
	}
	p.title("%s", title)
	failed := o != result.Success
	at := time.Duration(0)
	for ph, d := range t.Phases {
		switch ph := result.Phase(ph); {
		case d < 0:
			continue
		case failed && ph == result.PhaseClose: // nothing came to an end here
			p.bar(unfinished, red, at, d, total)
		default:
			p.bar(ph.String(), phaseColor(ph), at, d, total)
		}
		at += d
	}
	if failed && rest > 0 {
		p.bar(unfinished, red, at, rest, total)
	}
}

// unfinished labels the time of a failed probe that belongs to no phase.
const unfinished = "then failed"

func phaseColor(ph result.Phase) color {
	switch ph {
	case result.PhaseDNS, result.PhaseConnect, result.PhaseTLS:
		return blue
	case result.PhaseDecode:
		return green
	case result.PhaseWrite, result.PhaseClose:
		return faint
	}
	return yellow
}

// durationWidth is the column of durations.
const durationWidth = 9

// bar draws one phase; a short one is at least a line thick.
func (p *page) bar(label string, c color, start, d, total time.Duration) {
	columns := p.width - indent - labelWidth - durationWidth - 2
	from, to := column(start, total, columns), column(start+d, total, columns)
	drawn := strings.Repeat("█", to-from)
	if drawn == "" {
		from = min(from, columns-1)
		drawn = "▏"
	}
	p.line("%*s%-*s%*s  %s%s", indent, "", labelWidth, label, durationWidth, duration(d), strings.Repeat(" ", from), p.paint(c, drawn))
}

// column is where a moment stands on a line of so many columns.
func column(at, total time.Duration, columns int) int {
	return int(float64(at)/float64(total)*float64(columns) + 0.5)
}

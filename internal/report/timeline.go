package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

const (
	// stallFactor and stallLeast make a gap a stall: so many times the median
	// gap, and long enough for a reader to notice.
	stallFactor = 4
	stallLeast  = 100 * time.Millisecond
	// maxLines bounds the height of a timeline, maxStalls the list below it.
	maxLines  = 6
	maxStalls = 5
	// gapColumns is how wide the median gap is drawn where there is room.
	gapColumns = 2
)

// Glyphs of a timeline, one for each column.
const (
	glyphNothing   = '.'
	glyphStall     = '~'
	glyphAnswer    = '|'
	glyphReasoning = ':'
	glyphMerged    = '+'
)

type stall struct {
	event int // the event that ended it, counted from 0
	gap   time.Duration
}

func findStalls(events []result.Event) (median time.Duration, stalls []stall) {
	median = medianGap(events)
	for i := 1; i < len(events); i++ {
		if gap := events[i].At - events[i-1].At; gap > stallLeast && gap > stallFactor*median {
			stalls = append(stalls, stall{i, gap})
		}
	}
	return median, stalls
}

// medianGap is the lower median of the gaps between events, at least two, that were both
// measured; of all gaps where there is none of these.
func medianGap(events []result.Event) time.Duration {
	var measured, all []time.Duration
	for i := 1; i < len(events); i++ {
		gap := events[i].At - events[i-1].At
		all = append(all, gap)
		if !events[i-1].Merged && !events[i].Merged {
			measured = append(measured, gap)
		}
	}
	if len(measured) == 0 {
		measured = all
	}
	slices.Sort(measured)
	return measured[(len(measured)-1)/2]
}

func (p *page) timeline(events []result.Event) {
	if len(events) < 2 {
		return
	}
	first := events[0].At
	span := events[len(events)-1].At - first
	if span <= 0 {
		p.title("Tokens over time: all %d events at once, %s after the start", len(events), result.InWords(first))
		return
	}
	median, stalls := findStalls(events)
	columns := p.width - indent - durationWidth - 2
	step := columnStep(span, median, columns)
	p.title("Tokens over time: %d events in %s, one column is %s", len(events), result.InWords(span), result.InWords(step))
	cells := draw(events, stalls, step)
	for from := 0; from < len(cells); from += columns {
		line := cells[from:min(from+columns, len(cells))]
		at := result.InWords(first + time.Duration(from)*step)
		p.line("%*s  %s", indent+durationWidth, at, p.paintGlyphs(line))
	}
	p.row("", legend(cells))
	p.listStalls(events, stalls)
}

// columnStep is the time of a column: a round one, such that all
// fits on one line or, if the median gap could not be seen there, on a few.
func columnStep(span, median time.Duration, columns int) time.Duration {
	step := roundUp(span / time.Duration(columns-1))
	if wanted := median / gapColumns; 0 < wanted && wanted < step {
		// The next round number may be 2.5 times as long: begin below.
		step = min(step, roundUp(max(wanted*3/5, span/time.Duration(maxLines*columns-1))))
	}
	return step
}

// roundUp returns the next longer duration of one digit, 1, 2 or 5.
func roundUp(d time.Duration) time.Duration {
	for unit := time.Duration(1); ; unit *= 10 {
		for _, digit := range []time.Duration{1, 2, 5} {
			if digit*unit > d {
				return digit * unit
			}
		}
	}
}

// draw returns the glyph of each column. Clocks may make an event come before
// the one that it follows, but not draw it outside.
func draw(events []result.Event, stalls []stall, step time.Duration) []rune {
	span := events[len(events)-1].At - events[0].At
	cells := []rune(strings.Repeat(string(glyphNothing), int(span/step)+1))
	at := func(i int) int { return max(0, min(int((events[i].At-events[0].At)/step), len(cells)-1)) }
	for _, s := range stalls {
		for c := at(s.event - 1); c < at(s.event); c++ {
			cells[c] = glyphStall
		}
	}
	for i := range events {
		c, g := at(i), glyphAnswer
		switch {
		case events[i].Merged || cells[c] == glyphMerged:
			g = glyphMerged
		case events[i].Reasoning && cells[c] != glyphAnswer:
			g = glyphReasoning
		}
		cells[c] = g
	}
	return cells
}

// glyph is a character of the timeline with its name in the legend; "" is not listed there.
type glyph struct {
	char  rune
	name  string
	color color
}

func glyphs() []glyph {
	return []glyph{
		{glyphAnswer, "answer", green},
		{glyphReasoning, "reasoning", cyan},
		{glyphMerged, "merged (at the latest there)", yellow},
		{glyphStall, "stall", red},
		{glyphNothing, "", faint},
	}
}

func legend(cells []rune) string {
	var names []string
	for _, g := range glyphs() {
		if g.name != "" && slices.Contains(cells, g.char) {
			names = append(names, string(g.char)+" "+g.name)
		}
	}
	return strings.Join(names, "   ")
}

// paintGlyphs colours runs of the same glyph.
func (p *page) paintGlyphs(line []rune) string {
	var b strings.Builder
	for len(line) > 0 {
		n := 1
		for n < len(line) && line[n] == line[0] {
			n++
		}
		i := slices.IndexFunc(glyphs(), func(g glyph) bool { return g.char == line[0] })
		b.WriteString(p.paint(glyphs()[i].color, string(line[:n])))
		line = line[n:]
	}
	return b.String()
}

func (p *page) listStalls(events []result.Event, stalls []stall) {
	for i, s := range stalls {
		if i == maxStalls {
			p.row("", fmt.Sprintf("and %d more", len(stalls)-maxStalls))
			return
		}
		p.row("stall", fmt.Sprintf("%s before event %d, %s after the start",
			result.InWords(s.gap), s.event+1, result.InWords(events[s.event].At)))
	}
}

// waterfall draws the phases below each other, under a title, each from where the one before it ended. After a failure
// the time that belongs to no finished phase is the last bar. A stall, which is in them, comes below with its side.
func (p *page) waterfall(title string, r *result.Result) {
	t := &r.Timing
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
	failed := r.Outcome != result.Success
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
	if s := r.Stall; s != nil {
		p.bar("stall", red, min(s.At, total), min(s.Duration, total-min(s.At, total)), total)
		p.row("", fmt.Sprintf("by %s: %s", s.Side.Description(), strings.Join(s.Evidence, ", ")))
	}
}

// unfinished labels the time of a failed probe that belongs to no phase.
const unfinished = "then failed"

func phaseColor(ph result.Phase) color {
	colors := map[result.Phase]color{
		result.PhaseDNS: blue, result.PhaseConnect: blue, result.PhaseTLS: blue,
		result.PhaseWrite: faint, result.PhaseDecode: green, result.PhaseClose: faint,
	}
	return cmp.Or(colors[ph], yellow)
}

const durationWidth = 9

// bar draws one phase; a short one is at least a line thick.
func (p *page) bar(label string, c color, start, d, total time.Duration) {
	columns := p.width - indent - labelWidth - durationWidth - 2
	column := func(at time.Duration) int { return int(float64(at)/float64(total)*float64(columns) + 0.5) }
	from, to := column(start), column(start+d)
	drawn := strings.Repeat("█", to-from)
	if drawn == "" {
		from = min(from, columns-1)
		drawn = "▏"
	}
	p.line("%*s%-*s%*s  %s%s", indent, "", labelWidth, label, durationWidth, result.InWords(d), strings.Repeat(" ", from), p.paint(c, drawn))
}

package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
)

type page struct {
	Options
	buf   bytes.Buffer
	width int
}

func newPage(o Options) *page { return &page{Options: o, width: Width} }

func (p *page) writeTo(w io.Writer) error {
	_, err := p.buf.WriteTo(w)
	return err
}

type row struct{ label, text string }

type rows []row

// add adds a row where there is something to say.
func (r *rows) add(is bool, label, format string, args ...any) {
	if is {
		*r = append(*r, row{label, fmt.Sprintf(format, args...)})
	}
}

// section writes rows under a title, and nothing without rows.
func (p *page) section(title string, rows rows) {
	if len(rows) == 0 {
		return
	}
	p.title("%s", title)
	for _, r := range rows {
		p.row(r.label, r.text)
	}
}

func (p *page) title(format string, args ...any) {
	p.line("\n%s", p.paint(bold, fmt.Sprintf(format, args...)))
}

func (p *page) line(format string, args ...any) { fmt.Fprintf(&p.buf, format+"\n", args...) }

// Columns of a row: an indent, the label, the text.
const (
	indent     = 2
	labelWidth = 13
)

func (p *page) row(label, text string) {
	for _, line := range Fold(clean(text), p.width-indent-labelWidth) {
		p.line("%*s%-*s%s", indent, "", labelWidth, label, line)
		label = ""
	}
}

func (p *page) note(text string) {
	for _, line := range Fold(clean(text), p.width-indent) {
		p.line("%*s%s", indent, "", line)
	}
}

func tokens(n int) string { return Count(n, "token", "tokens") }

// Count returns a number with what is counted, in the form that fits the number.
func Count(n int, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, several)
}

// clean makes a text of any source fit for a terminal: what is not printable,
// such as an escape sequence or a change of the writing direction, is blanked.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r):
			return ' '
		}
		return unicode.ReplacementChar
	}, s)
}

// Fold cuts text at spaces into lines of at most width runes; a longer word
// gets a line of its own. Spaces at the start of the text stay.
func Fold(text string, width int) []string {
	var lines []string
	line := text[:len(text)-len(strings.TrimLeft(text, " "))]
	empty := true
	for word := range strings.SplitSeq(strings.TrimSpace(text), " ") {
		switch {
		case empty:
			line += word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			lines = append(lines, strings.TrimRight(line, " "))
			line = word
		default:
			line += " " + word
		}
		empty = false
	}
	return append(lines, line)
}

type color string

const (
	bold   color = "1"
	red    color = "31"
	green  color = "32"
	yellow color = "33"
	blue   color = "34"
	cyan   color = "36"
	faint  color = "2"
)

func (p *page) paint(c color, text string) string {
	if !p.Color || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// Explain writes why an endpoint is as it is, for a person who has five seconds: the likeliest cause with its evidence
// and what to do, then the others with their evidence. Errors are those of w.
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
	c := map[health.State]color{health.Up: green, health.Down: red, health.Flapping: red}[health.State(r.State)]
	text := clean(r.Endpoint) + ": " + p.paint(cmp.Or(c, yellow), clean(r.State))
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

func (p *page) list(label string, texts []string) {
	for _, text := range texts {
		p.row(label, text)
		label = ""
	}
}

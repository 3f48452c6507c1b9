package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload/loadtest"
)

// Load writes what a load test of a target came to: how much it serves within its objectives, tables of its levels, and
// plots. Errors are those of w.
func Load(w io.Writer, t result.Target, f *loadtest.Finding, o Options) error {
	p := newPage(o)
	verdict, c := f.TargetVerdict(), yellow
	switch {
	case verdict == loadtest.Missed:
		c = red
	case f.End == loadtest.Completed:
		c = green
	}
	p.line("%s: %s (%s)", p.paint(c, strings.ReplaceAll(string(f.End), "_", " ")), clean(t.Endpoint), clean(t.URL))
	if f.Text != "" {
		p.row("reason", f.Text)
	}
	p.row("asked", "module "+t.Module)
	var limits []string
	if f.TTFT > 0 {
		limits = append(limits, "TTFT "+result.SecondsInWords(f.TTFT))
	}
	if f.TPOT > 0 {
		limits = append(limits, "TPOT "+result.SecondsInWords(f.TPOT))
	}
	p.row("p99 at most", cmp.Or(strings.Join(limits, ", "), "no objective: --slo.ttft and --slo.tpot set them"))
	p.row("target", f.Kind.Words(f.Target)+": "+cmp.Or(string(verdict), "no verdict"))
	for _, figure := range f.Figures() {
		p.note(fmt.Sprintf("%s: %s %s", figure.Label, figure.Value, figure.Note))
	}
	if len(f.Levels) > 0 {
		p.levels(f)
		p.plot("99th percentile of TTFT (#), its upper bound (-)", f.Levels, f.TTFT, result.SecondsInWords,
			func(l *loadtest.Level) loadtest.Quantile { return l.TTFT.P99 })
		p.plot("Output tokens per second", f.Levels, 0, result.ThreeDigits,
			func(l *loadtest.Level) loadtest.Quantile { return loadtest.Quantile{Value: l.OutputTokensPerSecond} })
	}
	return p.writeTo(w)
}

// levels writes a table of amounts and one of each latency.
func (p *page) levels(f *loadtest.Finding) {
	unit := map[config.LoadKind]string{config.LoadUsers: "users", config.LoadRate: "req/s", config.LoadTrace: "speed"}[f.Kind]
	amounts := [][]string{{unit, "requests", "failed", "late", "in flight", "goodput", "tokens/s", "per GPU", "$ / 1M"}}
	ttft := [][]string{{unit, "p50", "p90", "p99"}}
	tpot := [][]string{{unit, "p50", "p99", "objectives"}}
	for i := range f.Levels {
		l := &f.Levels[i]
		label, goodput, verdict := levelLabel(l), "-", cmp.Or(string(l.Verdict), "-")
		if l.Goodput != nil {
			goodput = percent(*l.Goodput)
		}
		switch {
		case !l.Complete:
			verdict = "cut short"
		case l.Verdict == loadtest.Met, l.Verdict == loadtest.Undecided:
			verdict += fmt.Sprintf(", %.3g %% sure", 100*l.Confidence)
		}
		amounts = append(amounts, []string{
			label, strconv.Itoa(l.Requests), strconv.Itoa(l.Failed), strconv.Itoa(l.Late), known(l.InFlight), goodput,
			known(l.OutputTokensPerSecond), known(l.OutputTokensPerSecondPerGPU), known(l.USDPerMillionOutputTokens),
		})
		ttft = append(ttft, []string{label, quantile(l.TTFT.P50), quantile(l.TTFT.P90), quantile(l.TTFT.P99)})
		tpot = append(tpot, []string{label, quantile(l.TPOT.P50), quantile(l.TPOT.P99), verdict})
	}
	p.table("Levels in the steady state", amounts, 7, 9, 7, 6, 10, 9, 9, 9, 9)
	p.table("TTFT, with 95 % bounds", ttft, 7, 23, 23, 23)
	p.table("TPOT, with 95 % bounds", tpot, 7, 23, 23, 23)
}

func levelLabel(l *loadtest.Level) string { return strconv.FormatFloat(l.Level, 'g', -1, 64) }

// quantile is as in "120 (110-131) ms", with a ? for a bound that is not known; without both as in "120 ms", and of what is not
// known but for its lower bound that alone.
func quantile(q loadtest.Quantile) string {
	switch {
	case q.Value == 0 && q.Lower > 0:
		return "over " + result.SecondsInWords(q.Lower)
	case q.Value == 0:
		return "-"
	case q.Lower == 0 && q.Upper == 0:
		return result.SecondsInWords(q.Value)
	}
	value, unit, _ := strings.Cut(result.SecondsInWords(q.Value), " ")
	bound := func(seconds float64) string {
		if seconds == 0 {
			return "?"
		}
		return strings.TrimSuffix(result.SecondsInWords(seconds), " "+unit)
	}
	return fmt.Sprintf("%s (%s-%s) %s", value, bound(q.Lower), bound(q.Upper), unit)
}

// plotWidth is how many columns the longest bar has.
const plotWidth = 52

// plot writes a bar for each level: # up to its value, - up to its upper bound, and | at the objective, if there is one.
func (p *page) plot(title string, levels []loadtest.Level, objective float64, words func(float64) string, of func(*loadtest.Level) loadtest.Quantile) {
	most := 0.0
	for i := range levels {
		most = max(most, of(&levels[i]).Value, of(&levels[i]).Upper)
	}
	if most == 0 {
		return
	}
	if objective > 0 {
		title += ", the objective of " + words(objective) + " (|)"
		most = max(most, min(objective, 4*most)) // one far off is at the edge, so that bars are long enough to compare
	}
	p.title("%s", title)
	column := func(v float64) int { return int(math.Round(plotWidth * min(v/most, 1))) }
	for i := range levels {
		q := of(&levels[i])
		if q.Value == 0 {
			continue
		}
		bar := []byte(fmt.Sprintf("%-*s", plotWidth+1, strings.Repeat("#", column(q.Value))+strings.Repeat("-", max(0, column(q.Upper)-column(q.Value)))))
		if objective > 0 {
			bar[column(objective)] = '|'
		}
		p.line("%*s%7s %s %9s", indent, "", levelLabel(&levels[i]), bar, words(q.Value))
	}
}

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload/load"
)

// several writes several results: a pair, a conversation, bursts, or the lengths
// of a ladder with one, the other or single requests for each.
func (p *page) several(t result.Target, results []*result.Result) {
	s := NewSummary()
	s.Add(results...)
	good := s.Outcome(result.Success)
	c := green
	if good < s.Probes() {
		c = red
	}
	p.line("%s: %s (%s)", p.paint(c, fmt.Sprintf("%d of %d requests succeeded", good, s.Probes())), clean(t.Endpoint), clean(t.URL))
	common := *results[0]
	common.Prefix, common.Reused = "", false
	p.row("asked", asked(t, &common))
	for len(results) > 0 {
		n := 1
		switch {
		case results[0].Concurrency > 0:
			n = countBursts(results)
			p.bursts(results[:n])
		case countTurns(results) > 1:
			n = countTurns(results)
			p.conversation(results[:n])
		case isPair(results):
			n = 2
			p.pair(results[0], results[1])
		default:
			n = countSingles(results)
			p.lengths(results[:n])
		}
		results = results[n:]
	}
	s.listFailures(p)
}

func isPair(results []*result.Result) bool {
	return len(results) > 1 && results[1].Concurrency == 0 && results[0].Turn == nil &&
		results[0].Prefix == string(config.PrefixCold) && results[1].Prefix == string(config.PrefixWarm)
}

func countBursts(results []*result.Result) int {
	n := 1
	for n < len(results) && results[n].Concurrency >= results[n-1].Concurrency {
		n++
	}
	return n
}

// countSingles counts the results up to the next pair, conversation or burst.
func countSingles(results []*result.Result) int {
	n := 1
	for n < len(results) && results[n].Concurrency == 0 && results[n].Turn == nil && !isPair(results[n:]) {
		n++
	}
	return n
}

func (p *page) pair(cold, warm *result.Result) {
	of := ""
	if cold.Length > 0 {
		of = fmt.Sprintf(", %s", tokens(cold.Length))
	}
	p.waterfall("Cold prompt"+of, cold)
	p.waterfall("The same again, warm", warm)
	var rows rows
	rows.add(warm.Tokens.Prompt >= 0 && warm.Tokens.Cached >= 0, "cached", "%s%s", tokens(warm.Tokens.Prompt), cached(&warm.Tokens))
	if c, w := cold.Timing.TTFT, warm.Timing.TTFT; c >= 0 && w >= 0 && warm.Outcome == result.Success {
		benefit, word := c-w, "earlier"
		if benefit < 0 {
			benefit, word = -benefit, "later"
		}
		rows = append(rows, row{"TTFT", fmt.Sprintf("cold %s, warm %s: %s %s", result.InWords(c), result.InWords(w), result.InWords(benefit), word)})
	}
	p.section("Prefix cache", rows)
}

func (p *page) bursts(results []*result.Result) {
	title := "Bursts"
	if beside := results[len(results)-1].Beside; len(beside) > 0 {
		title = "Alone, and beside one of " + tokens(beside[0].Length) + " with TTFT " + ofSuccess(beside[0], beside[0].Timing.TTFT)
	}
	if n := results[0].Length; n > 0 {
		title += ", prompts of " + tokens(n)
	}
	rows := [][]string{{"at once", "ok", "TTFT p50", "TTFT max", "TPOT p50", "tokens/s", "starts within"}}
	for len(results) > 0 {
		n := 1
		for n < len(results) && results[n].Concurrency == results[0].Concurrency {
			n++
		}
		rows = append(rows, burstRow(results[:n]))
		results = results[n:]
	}
	p.table(title, rows, 8, 6, 11, 11, 11, 10, 15)
}

func burstRow(level []*result.Result) []string {
	s := NewSummary()
	burst, _ := load.MeasureBurst(level)
	s.Add(level...)
	of := func(metric string) (median, most string) {
		if samples := s.samples[metric]; len(samples) > 0 {
			return result.SecondsInWords(*describe(samples).P50), result.InWords(slices.Max(samples))
		}
		return "-", "-"
	}
	ttft, slowest := of("ttft_seconds")
	tpot, _ := of("tpot_seconds")
	spread := "-"
	if burst.Concurrency > 1 && burst.StartSpread >= 0 {
		spread = result.InWords(burst.StartSpread)
	}
	return []string{
		strconv.Itoa(level[0].Concurrency), strconv.Itoa(s.Outcome(result.Success)), ttft, slowest, tpot, known(burst.TokensPerSecond), spread,
	}
}

// known returns a number with three digits; "-" of none.
func known(v float64) string {
	if v <= 0 {
		return "-"
	}
	return result.ThreeDigits(v)
}

func (p *page) lengths(results []*result.Result) {
	rows := [][]string{{"wanted", "prompt", "output", "TTFT", "TPOT", "end to end", "outcome"}}
	for _, r := range results {
		rows = append(rows, []string{
			positive(r.Length), positive(r.Tokens.Prompt), positive(r.Tokens.Output),
			ofSuccess(r, r.Timing.TTFT), ofSuccess(r, r.Timing.TPOT), ofSuccess(r, r.Timing.Duration), string(r.Outcome),
		})
	}
	p.table("Lengths, in tokens", rows, 8, 9, 8, 10, 10, 12, 20)
}

func positive(n int) string {
	if n <= 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// ofSuccess returns a duration of a result; "-" where it is not known, and after a failure.
func ofSuccess(r *result.Result, d time.Duration) string {
	if d < 0 || r.Outcome != result.Success {
		return "-"
	}
	return result.InWords(d)
}

// table writes rows in columns of the given widths, the first row being the titles.
func (p *page) table(title string, rows [][]string, widths ...int) {
	p.title("%s", title)
	for _, cells := range rows {
		var line strings.Builder
		for i, cell := range cells {
			if i > 0 {
				line.WriteByte(' ') // also where a cell is wider than its column
			}
			fmt.Fprintf(&line, "%*s", widths[i]-min(i, 1), cell)
		}
		p.line("%*s%s", indent, "", line.String())
	}
}

// countTurns counts the results of the conversation that the results begin with; 0 is none.
func countTurns(results []*result.Result) int {
	n := 0
	for n < len(results) && results[n].Turn.Index() == n+1 {
		n++
	}
	return n
}

func (p *page) conversation(turns []*result.Result) {
	title := "Conversation, first prompt of " + tokens(turns[0].Length)
	if turns[0].Turn.Affinity == result.AffinitySession {
		title += ", with the session header"
	}
	rows := [][]string{{"turn", "prompt", "cached", "TTFT", "TPOT", "outcome", "replica"}}
	for _, r := range turns {
		hit := "-"
		if r.Tokens.Cached >= 0 && r.Tokens.Prompt > 0 {
			hit = fmt.Sprintf("%.0f %%", 100*float64(r.Tokens.Cached)/float64(r.Tokens.Prompt))
		}
		replica := cmp.Or(clean(r.Turn.Replica), "-")
		if name := []rune(replica); len(name) > 15 {
			replica = "…" + string(name[len(name)-14:])
		}
		rows = append(rows, []string{
			strconv.Itoa(r.Turn.Number), positive(r.Tokens.Prompt), hit, ofSuccess(r, r.Timing.TTFT), ofSuccess(r, r.Timing.TPOT), string(r.Outcome), replica,
		})
	}
	p.table(title, rows, 5, 8, 8, 10, 10, 18, 16)
}

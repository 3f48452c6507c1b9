package report

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/inference-exporter/inference_exporter/internal/estimate"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// countTurns counts the results of the conversation that the results begin with, 0
// where they begin with none.
func countTurns(results []*result.Result) int {
	n := 0
	for n < len(results) && results[n].Turn.Index() == n+1 {
		n++
	}
	return n
}

// conversation is a table of the turns of a conversation, a line for each.
func (p *page) conversation(turns []*result.Result) {
	title := "Conversation, first prompt of " + tokens(turns[0].Length)
	if turns[0].Turn.Affinity == result.AffinitySession {
		title += ", with the session header"
	}
	rows := [][]string{{"turn", "prompt", "cached", "TTFT", "TPOT", "outcome", "replica"}}
	for _, r := range turns {
		prompt, hit, ttft, tpot := "-", "-", "-", "-"
		if r.Tokens.Prompt >= 0 {
			prompt = strconv.Itoa(r.Tokens.Prompt)
			if r.Tokens.Cached >= 0 && r.Tokens.Prompt > 0 {
				hit = fmt.Sprintf("%.0f %%", 100*float64(r.Tokens.Cached)/float64(r.Tokens.Prompt))
			}
		}
		if r.Outcome == result.Success && r.Timing.TTFT >= 0 {
			ttft = duration(r.Timing.TTFT)
		}
		if r.Outcome == result.Success && r.Timing.TPOT >= 0 {
			tpot = duration(r.Timing.TPOT)
		}
		replica := cmp.Or(clean(r.Turn.Replica), "-")
		if name := []rune(replica); len(name) > 15 {
			replica = "…" + string(name[len(name)-14:])
		}
		rows = append(rows, []string{strconv.Itoa(r.Turn.Number), prompt, hit, ttft, tpot, string(r.Outcome), replica})
	}
	p.table(title, rows, 5, 8, 8, 10, 10, 18, 16)
}

// addTurns adds the rows of what conversations show together.
func addTurns(all []estimate.Turn, add func(label, format string, args ...any)) {
	for _, t := range all {
		if t.HitRatio == nil && t.TTFT == nil {
			continue
		}
		hits, ttft := "", ""
		if t.HitRatio != nil {
			hits = fmt.Sprintf("%.1f %% cached", *t.HitRatio*100)
		}
		if t.TTFT != nil {
			ttft = fmt.Sprintf("TTFT %s", asDuration(*t.TTFT))
		}
		if hits != "" && ttft != "" {
			hits += ", "
		}
		add(fmt.Sprintf("turn %d", t.Number), "%s%s, affinity %s", hits, ttft, t.Affinity)
	}
}

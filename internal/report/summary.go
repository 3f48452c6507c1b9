package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// metric is a latency that a summary describes, by its names in JSON and in the table.
type metric struct {
	name, title string
	get         func(*result.Timing) time.Duration
}

func metrics() []metric {
	return []metric{
		{"ttft_seconds", "TTFT", func(t *result.Timing) time.Duration { return t.TTFT }},
		{"ttfo_seconds", "TTFO", func(t *result.Timing) time.Duration { return t.TTFO }},
		{"tpot_seconds", "TPOT", func(t *result.Timing) time.Duration { return t.TPOT }},
		{"max_gap_seconds", "longest gap", func(t *result.Timing) time.Duration { return t.MaxGap }},
		{"duration_seconds", "end to end", func(t *result.Timing) time.Duration { return t.Duration }},
	}
}

// Summary sums up repeated probes of one target. It is not safe for concurrent use.
type Summary struct {
	outcomes map[result.Outcome]int
	failures map[result.Outcome]*result.Result // the first with a reason
	samples  map[string][]time.Duration        // of successes, by the name of a metric
	verdicts map[result.Verdict]int            // on the answers that were checked
	fair     fairness

	Price    *config.Price      // of tokens, set before the first result; nil is none
	Together *workload.Findings // of all results; nil is nothing
	Skipped  *result.Skip       // why the first run without a request was; nil is none
	skipped  int                // how many there were
}

// NewSummary returns that of no probes.
func NewSummary() *Summary {
	return &Summary{
		outcomes: map[result.Outcome]int{}, verdicts: map[result.Verdict]int{},
		failures: map[result.Outcome]*result.Result{}, samples: map[string][]time.Duration{},
	}
}

// Skip counts a run that sent no request; a nil skip is none.
func (s *Summary) Skip(skip *result.Skip) {
	if skip != nil {
		s.skipped++
		s.Skipped = cmp.Or(s.Skipped, skip)
	}
}

// Add counts results. Their latencies count if they are successes.
func (s *Summary) Add(results ...*result.Result) {
	for _, r := range result.Spent(results, nil) {
		s.fair.add(r, s.Price)
		s.outcomes[r.Outcome]++
		if v := r.Answer.Verdict; v != "" {
			s.verdicts[v]++
		}
		if r.Outcome != result.Success && r.Err != nil && s.failures[r.Outcome] == nil {
			s.failures[r.Outcome] = r
		}
	}
	for _, r := range results {
		for _, m := range metrics() {
			if d := m.get(&r.Timing); d >= 0 && r.Outcome == result.Success {
				s.samples[m.name] = append(s.samples[m.name], d)
			}
		}
	}
}

// Probes is how many results were added.
func (s *Summary) Probes() int {
	n := 0
	for _, c := range s.outcomes {
		n += c
	}
	return n
}

// Failed is how many results are no success.
func (s *Summary) Failed() int { return s.Probes() - s.outcomes[result.Success] }

// Outcome is how many results had that outcome.
func (s *Summary) Outcome(o result.Outcome) int { return s.outcomes[o] }

// Text writes the summary as a table: for each latency the number of samples, the extremes, and the median and the 99th
// percentile with bounds that each hold with 95 % confidence, whatever the distribution. Errors are those of w.
func (s *Summary) Text(w io.Writer, t result.Target, o Options) error {
	p := newPage(o)
	c := green
	if s.Probes() == 0 || s.outcomes[result.Success] < s.Probes() {
		c = red
	}
	p.line("%s: %s (%s), module %s",
		p.paint(c, fmt.Sprintf("%d of %d probes succeeded", s.outcomes[result.Success], s.Probes())),
		clean(t.Endpoint), clean(t.URL), clean(t.Module))
	s.listFailures(p)
	s.listVerdicts(p)
	s.table(p)
	p.section("Compared with others", s.fair.rows("speed, cost"))
	p.findings(s.Together)
	return p.writeTo(w)
}

// listFailures lists each failing outcome with how often it was, why at first, and
// what to check; then the runs without a request.
func (s *Summary) listFailures(p *page) {
	for _, o := range result.Outcomes() {
		n := s.outcomes[o]
		if n == 0 || o == result.Success {
			continue
		}
		p.title("%d × %s", n, o)
		if r := s.failures[o]; r != nil {
			p.row("reason", r.Err.Error())
			p.row("check next", r.Advice())
		}
	}
	if s.Skipped != nil {
		p.title("%d × not asked", s.skipped)
		p.row("reason", s.Skipped.Error())
	}
}

func (s *Summary) listVerdicts(p *page) {
	var rows rows
	for _, v := range result.Verdicts() {
		rows.add(s.verdicts[v] > 0, strconv.Itoa(s.verdicts[v]), "%s", v)
	}
	p.section("Answers", rows)
}

func (s *Summary) table(p *page) {
	rows := [][]string{{""}, {"samples"}}
	var columns []distribution
	for _, m := range metrics() {
		if samples := s.samples[m.name]; len(samples) > 0 {
			columns = append(columns, describe(samples))
			rows[0], rows[1] = append(rows[0], m.title), append(rows[1], strconv.Itoa(len(samples)))
		}
	}
	if len(columns) == 0 {
		return
	}
	for _, row := range []struct {
		label string
		get   func(d *distribution) *float64
		needs float64 // a bound takes the samples for one of this quantile
	}{
		{"minimum", func(d *distribution) *float64 { return d.Min }, 0},
		{"p50", func(d *distribution) *float64 { return d.P50 }, 0},
		{"  at least", func(d *distribution) *float64 { return d.P50Lower }, 0.5},
		{"  at most", func(d *distribution) *float64 { return d.P50Upper }, 0.5},
		{"p99", func(d *distribution) *float64 { return d.P99 }, 0},
		{"  at least", func(d *distribution) *float64 { return d.P99Lower }, 0.01},
		{"  at most", func(d *distribution) *float64 { return d.P99Upper }, 0.99},
		{"maximum", func(d *distribution) *float64 { return d.Max }, 0},
	} {
		cells := []string{row.label}
		for i := range columns {
			text := fmt.Sprintf("n < %d", stats.MinSamples(row.needs, alpha))
			if v := row.get(&columns[i]); v != nil {
				text = result.SecondsInWords(*v)
			}
			cells = append(cells, text)
		}
		rows = append(rows, cells)
	}
	p.table("Latency of the successes", rows, append([]int{-labelWidth}, slices.Repeat([]int{12}, len(columns))...)...)
	p.line("")
	p.note("Each bound holds with 95 % confidence, whatever the distribution; n < N stands for one that takes N samples.")
}

type summaryDocument struct {
	Endpoint string                  `json:"endpoint"`
	URL      string                  `json:"url"`
	Module   string                  `json:"module"`
	Probes   int                     `json:"probes"`
	Outcomes map[result.Outcome]int  `json:"outcomes"`
	Verdicts map[result.Verdict]int  `json:"verdicts,omitempty"`
	Skipped  int                     `json:"skipped,omitempty"`
	Latency  map[string]distribution `json:"latency,omitempty"`
	Fair     map[string]float64      `json:"compared,omitempty"`
	Together *workload.Findings      `json:"together,omitempty"`
}

// distribution sums up the samples of one metric, in seconds. Each bound holds with 95 %
// confidence; nil is one that there are too few samples for.
type distribution struct {
	Samples  int      `json:"samples"`
	Min      *float64 `json:"min"`
	P50      *float64 `json:"p50"`
	P50Lower *float64 `json:"p50_lower,omitempty"`
	P50Upper *float64 `json:"p50_upper,omitempty"`
	P99      *float64 `json:"p99"`
	P99Lower *float64 `json:"p99_lower,omitempty"`
	P99Upper *float64 `json:"p99_upper,omitempty"`
	Max      *float64 `json:"max"`
}

// JSON writes the summary as a line: an object with the field `summary`. Errors are those of w.
func (s *Summary) JSON(w io.Writer, t result.Target) error {
	d := summaryDocument{
		Endpoint: t.Endpoint, URL: t.URL, Module: t.Module, Probes: s.Probes(),
		Outcomes: s.outcomes, Verdicts: s.verdicts, Skipped: s.skipped, Latency: map[string]distribution{}, Fair: s.fair.figures(), Together: s.Together,
	}
	for name, samples := range s.samples {
		d.Latency[name] = describe(samples)
	}
	return Encode(w, map[string]summaryDocument{"summary": d})
}

func (p *page) findings(f *workload.Findings) {
	if f == nil {
		return
	}
	p.section("Together", stats.Map(f.Figures(), func(f workload.Figure) row { return row{f.Label, f.Value + " " + f.Note} }))
}

// alpha is how often a bound of a quantile may be wrong.
const alpha = 0.05

// quantileOf estimates the quantile p of sorted samples, at least one, by the nearest rank,
// with its bounds, nil where there are too few samples.
func quantileOf(sorted []time.Duration, p float64) (value, lower, upper *float64) {
	at := func(rank int) *float64 {
		if rank <= 0 {
			return nil
		}
		return result.Seconds(sorted[rank-1])
	}
	low, high := stats.RankBounds(len(sorted), p, alpha)
	return at(stats.Rank(len(sorted), p)), at(low), at(high)
}

// describe sums up samples, at least one, in any order.
func describe(samples []time.Duration) (d distribution) {
	s := slices.Sorted(slices.Values(samples))
	d.Samples, d.Min, d.Max = len(s), result.Seconds(s[0]), result.Seconds(s[len(s)-1])
	d.P50, d.P50Lower, d.P50Upper = quantileOf(s, 0.5)
	d.P99, d.P99Lower, d.P99Upper = quantileOf(s, 0.99)
	return d
}

// fairness is what makes results of one model comparable with those of another, whose tokens may be longer or shorter.
type fairness struct {
	atOnce, priced, output int // requests at once at most, and those with a cost, with their output tokens
	usd                    float64
	perSecond, perToken    []float64 // characters of each answer
}

func (f *fairness) add(r *result.Result, price *config.Price) {
	f.atOnce = max(f.atOnce, r.Concurrency)
	if usd, ok := r.Cost(price); ok {
		f.usd, f.output, f.priced = f.usd+usd, f.output+max(0, r.Tokens.Output), f.priced+1
	}
	if t := &r.Timing; r.Outcome == result.Success && t.TPOT > 0 && t.PerCharacter > 0 {
		f.perSecond = append(f.perSecond, 1/t.PerCharacter.Seconds())
		f.perToken = append(f.perToken, t.TPOT.Seconds()/t.PerCharacter.Seconds())
	}
}

// figures returns what is known, by the names in JSON: medians of Unicode characters, and means of the cost, prompts
// included.
func (f *fairness) figures() map[string]float64 {
	known := map[string]float64{}
	if len(f.perSecond) > 0 {
		known["output_characters_per_second"] = *stats.MedianOf(f.perSecond, 1)
		known["output_characters_per_token"] = *stats.MedianOf(f.perToken, 1)
	}
	if f.priced > 0 {
		known["usd_per_request"] = f.usd / float64(f.priced)
	}
	if f.output > 0 {
		known["usd_per_million_output_tokens"] = 1e6 * f.usd / float64(f.output)
	}
	return known
}

// rows returns the figures in words, and the load that they are at; nil where there are none.
func (f *fairness) rows(label string) rows {
	var parts []string
	known := f.figures()
	for _, figure := range [][2]string{
		{"output_characters_per_second", "%.0f characters/s"},
		{"output_characters_per_token", "%.2f to a token"},
		{"usd_per_request", "$%.6f a request"},
		{"usd_per_million_output_tokens", "$%.2f for a million output tokens with their prompts"},
	} {
		if v, ok := known[figure[0]]; ok {
			parts = append(parts, fmt.Sprintf(figure[1], v))
		}
	}
	if parts == nil {
		return nil
	}
	return rows{{label, strings.Join(parts, ", ")}, {"  at", loadOf(f.atOnce)}}
}

// loadOf says with how much else a request was under way.
func loadOf(atOnce int) string {
	if atOnce > 1 {
		return fmt.Sprintf("up to %d requests at once, beside what others ask", atOnce)
	}
	return "a single request at a time, beside what others ask"
}

// Package report renders the results of probes, as text for people and as JSON for programs. It measures nothing.
package report

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Width is the width of text, in columns.
const Width = 80

// Options say how text looks.
type Options struct {
	// Color turns terminal colours on.
	Color bool
	// Answer shows the text of the answer whole, with its line breaks, at the end.
	Answer bool
}

// Text writes the results of one run for a person at a terminal: all of a single one, and what pairs and bursts come to
// together. Without results, skip says why. Errors are those of w.
func Text(w io.Writer, t result.Target, results []*result.Result, skip *result.Skip, o Options) error {
	p := newPage(o)
	switch len(results) {
	case 0:
		heading := "not asked"
		if len(result.Spent(nil, skip)) > 0 {
			heading = "not measured"
		}
		p.line("%s: %s (%s)", p.paint(yellow, heading), clean(t.Endpoint), clean(t.URL))
		if skip != nil {
			p.row("reason", skip.Error())
		}
		p.row("asked", "module "+t.Module)
	case 1:
		p.single(t, results[0])
	default:
		p.several(t, results)
	}
	p.cost(t.Price, results)
	if p.Answer {
		p.texts(results)
	}
	return p.writeTo(w)
}

func (p *page) texts(results []*result.Result) {
	for _, r := range results {
		if r.Outcome == result.Success && r.Kind == api.Generation {
			p.title("Text of the answer")
			for line := range strings.SplitSeq(cmp.Or(r.Answer.Text, "none: it has no token that a user would see"), "\n") {
				p.note(line)
			}
		}
	}
}

func (p *page) single(t result.Target, r *result.Result) {
	p.heading(t, r)
	p.waterfall("Phases", r)
	p.timeline(r.Events)
	p.latency(r)
	p.amounts(r)
	p.answer(r)
	p.server(r)
	p.measurement(r)
}

// heading says what came out, of what, and why.
func (p *page) heading(t result.Target, r *result.Result) {
	c, when := green, "in"
	if r.Outcome != result.Success {
		c, when = red, "after"
	}
	title := p.paint(c, string(r.Outcome))
	if r.Timing.Duration >= 0 {
		title += " " + when + " " + result.InWords(r.Timing.Duration)
	}
	p.line("%s: %s (%s)", title, clean(t.Endpoint), clean(t.URL))
	if r.Outcome != result.Success {
		if r.Err != nil {
			p.row("reason", r.Err.Error())
		}
		p.row("check next", r.Advice())
	}
	if r.RetryAfter >= 0 {
		p.row("retry after", "the server asks to wait "+result.InWords(r.RetryAfter))
	}
	p.row("asked", asked(t, r))
	p.row("trace", hex.EncodeToString(r.TraceID[:]))
}

func asked(t result.Target, r *result.Result) string {
	parts := []string{"module " + t.Module}
	for _, part := range []struct{ word, value string }{
		{"api", r.API}, {"engine", r.Engine}, {"model", r.Model}, {"prefix", r.Prefix},
	} {
		if part.value != "" {
			parts = append(parts, part.word+" "+part.value)
		}
	}
	if r.Reused {
		parts = append(parts, "kept connection")
	}
	return strings.Join(parts, ", ")
}

func (p *page) latency(r *result.Result) {
	t := &r.Timing
	title := "Latency"
	if r.Outcome != result.Success {
		title = "Latency until the failure"
	}
	var rows rows
	add := func(label string, d time.Duration, what string) {
		rows.add(d >= 0, label, "%9s  %s", result.InWords(d), what)
	}
	add("TTFT", t.TTFT, "to the first token of any kind")
	add("TTFO", t.TTFO, "to the first token that a user sees")
	if t.TPOT > 0 {
		what := "per output token, " + result.ThreeDigits(1/t.TPOT.Seconds()) + " tokens/s"
		if t.PerCharacter > 0 {
			what += ", " + result.ThreeDigits(1/t.PerCharacter.Seconds()) + " characters/s"
		}
		add("TPOT", t.TPOT, what)
	}
	add("longest gap", t.MaxGap, "between two token events")
	add("end to end", t.Duration, "connection set-up included")
	rows.add(t.TPOT > 0, "load", "%s", loadOf(r.Concurrency))
	p.section(title, rows)
}

func (p *page) amounts(r *result.Result) {
	var rows rows
	t, v := &r.Tokens, &r.Vectors
	reasoning := ""
	if t.Reasoning >= 0 {
		reasoning = fmt.Sprintf(", %d of them reasoning", t.Reasoning)
	}
	source := map[result.TokenSource]string{
		result.TokensFromUsage:  "; the server's count",
		result.TokensFromEvents: "; by events, as the server reports no count",
	}[t.Source]
	rows.add(t.Prompt >= 0, "prompt", "%s%s", tokens(t.Prompt), cached(t))
	rows.add(t.Output >= 0, "output", "%s%s%s", tokens(t.Output), reasoning, source)
	rows.add(v.Items > 0 && v.Dimensions > 0, "vectors", "%d of %d dimensions, mean norm %.4g", v.Items, v.Dimensions, v.Norm)
	rows.add(v.Items > 0 && v.Dimensions <= 0, "items", "%d", v.Items)
	rows.add(r.Finish != "", "finish", "%s", r.Finish)
	p.section("Tokens", rows)
}

func cached(t *result.Tokens) string {
	switch {
	case t.Cached < 0:
		return ""
	case t.Prompt == 0:
		return fmt.Sprintf(", %d of them cached", t.Cached)
	}
	return fmt.Sprintf(", %d of them cached (%.0f %%)", t.Cached, 100*float64(t.Cached)/float64(t.Prompt))
}

func (p *page) server(r *result.Result) {
	var rows rows
	took := func(label string, d time.Duration) { rows.add(d >= 0, label, "%9s", result.InWords(d)) }
	took("queue", r.Server.Queue)
	took("prefill", r.Server.Prefill)
	took("decode", r.Server.Decode)
	rows.add(r.RateLimit.Requests >= 0, "quota", "%d requests left", r.RateLimit.Requests)
	rows.add(r.RateLimit.Tokens >= 0, "quota", "%d tokens left", r.RateLimit.Tokens)
	if !r.CertNotAfter.IsZero() {
		text := "valid until " + r.CertNotAfter.UTC().Format(time.DateOnly)
		if left := r.CertNotAfter.Sub(r.Start); left < 30*24*time.Hour {
			text += fmt.Sprintf(", %.1f days", left.Hours()/24)
		}
		rows = append(rows, row{"certificate", text})
	}
	end, since := result.DateOf(r.Retirement.End()), result.DateOf(r.Retirement.Deprecated)
	rows.add(!end.IsZero(), "retirement", "%s, %.1f days", end.Format(time.DateOnly), end.Sub(r.Start).Hours()/24)
	rows.add(!since.IsZero(), "deprecated", "%s", since.Format(time.DateOnly))
	p.section("Reported by the server", rows)
}

// measurement says how far the numbers can be trusted.
func (p *page) measurement(r *result.Result) {
	var rows rows
	rows.add(r.Timing.Phases[result.PhaseFirstByte] >= 0, "clock", "%s", map[result.Clock]string{
		result.ClockKernel:  "receive stamps of the kernel",
		result.ClockProcess: "of the process, after each read",
	}[r.Clock])
	merged := r.MergedEvents()
	rows.add(merged > 0, "merged", "%d of %d events were read together with later data: their arrival is an upper bound", merged, len(r.Events))
	rows.add(r.Buffered, "buffered", "the whole answer came in one burst, so something between held it back: TTFT is that of the burst, TPOT and gaps cannot be measured")
	unmeasured := ""
	if r.Timing.TTFT < 0 {
		unmeasured = "; TTFT, TPOT and gaps cannot be measured"
	}
	rows.add(r.MoreEvents, "events", "%d for %d tokens: some are pieces of tokens, or none, such as text of a gateway%s", len(r.Events), r.Tokens.Output, unmeasured)
	rows.add(r.MaxTokensIgnored, "max_tokens", "max_tokens ignored: the answer has %d tokens, more than the request allowed, so probes cost more than the module says", r.Tokens.Output)
	rows.add(r.Imprecise, "imprecise", "this machine was too busy, its clock was set, or the reply was compressed: do not rely on the latencies")
	rows.add(r.NoFinish && r.Outcome == result.Success, "no finish", "the reply gave no finish reason: whether the answer is whole is not certain")
	rows.add(r.NoEndMarker, "no end", "the reply ended without the protocol's end marker")
	p.section("Measurement", rows)
}

// answer says what the answer or the score came to, where somebody looked.
func (p *page) answer(r *result.Result) {
	var rows rows
	add := func(label, text string) { rows.add(text != "", label, "%s", text) }
	a := &r.Answer
	add("verdict", string(a.Verdict))
	add("because", a.Reason)
	rows.add(r.Call.Complete > 0, "call", "first argument after %s, complete after %s", result.InWords(r.Call.FirstArgument), result.InWords(r.Call.Complete))
	rows.add(!p.Answer && a.Text != "", "began with", "%s", a.Text)
	add("text hash", a.Hash)
	add("served model", a.Model)
	add("fingerprint", a.Fingerprint)
	rows.add(r.Logprob.Tokens > 0, "reference", "mean log-probability %.4f nats over %s", r.Logprob.Mean, tokens(r.Logprob.Tokens))
	p.section("Answer", rows)
}

func (p *page) cost(price *config.Price, results []*result.Result) {
	var all fairness
	for _, r := range results {
		all.add(r, price)
	}
	if all.priced == 0 {
		return
	}
	text := fmt.Sprintf("$%.6f by the configured prices", all.usd)
	if all.priced > 1 {
		text += fmt.Sprintf(", $%.6f a request", all.usd/float64(all.priced))
	}
	if all.priced < len(results) {
		text += fmt.Sprintf(", for the %d of %d requests whose tokens the server counted", all.priced, len(results))
	}
	p.section("Cost", rows{{"run", text}})
}

// JSON writes a result as a line of JSON, whose names are stable. Errors are those of w.
func JSON(w io.Writer, t result.Target, r *result.Result) error {
	return Encode(w, result.NewDocument(t, r))
}

// Encode writes a document, such as that of an explanation or a load test, as a line of JSON as the API has it. Errors are those of w.
func Encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

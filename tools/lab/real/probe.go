package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// probeResult is what the exporter printed of a probe.
type probeResult struct {
	Outcome string   `json:"outcome"`
	Error   string   `json:"error"`
	API     string   `json:"api"`
	Engine  string   `json:"engine"`
	Model   string   `json:"model"`
	TraceID string   `json:"trace_id"`
	TTFT    *float64 `json:"ttft_seconds"`
	Prompt  *int     `json:"prompt_tokens"`
	Cached  *int     `json:"cached_prompt_tokens"`
	Output  *int     `json:"output_tokens"`
	Source  string   `json:"token_source"`
	Events  []struct {
		At     float64 `json:"at_seconds"`
		Merged bool    `json:"merged"`
	} `json:"events"`
	Vectors struct {
		Items int `json:"items"`
	} `json:"vectors"`
	Concurrency int   `json:"concurrency"`
	Answer      names `json:"answer"`
}

// names are those of the model and of the system, as a reply has them.
type names struct {
	Model       string `json:"model"`
	Fingerprint string `json:"system_fingerprint"`
}

// together is what the exporter printed of all probes of one call.
type together struct {
	Knee    int            `json:"burst_knee_concurrency"`
	Changes map[string]int `json:"changes"`
}

// probe runs the exporter's command probe.
func (l *lab) probe(ctx context.Context, args ...string) ([]probeResult, error) {
	results, _, err := l.probeTogether(ctx, args...)
	return results, err
}

// probeTogether is probe, with what the exporter concludes from all of its probes.
func (l *lab) probeTogether(ctx context.Context, args ...string) ([]probeResult, together, error) {
	var all together
	cmd := exec.CommandContext(ctx, l.exporter, append([]string{"probe", "-o", "json"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, all, err
	}
	var results []probeResult
	lines := bufio.NewScanner(bytes.NewReader(output))
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var r struct {
			probeResult
			Summary struct {
				Together together `json:"together"`
			} `json:"summary"`
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, all, fmt.Errorf("read the exporter's JSON: %w", err)
		}
		if r.Outcome == "" { // the summary
			all = r.Summary.Together
			continue
		}
		results = append(results, r.probeResult)
	}
	if len(results) == 0 {
		return nil, all, fmt.Errorf("the exporter printed no result: %s", lastLine(stderr.String()))
	}
	return results, all, nil
}

// How far the exporter's clock may be from the relay's, which stands between
// it and the server on a machine that has other work: medians.
const (
	ttftWithin = 20 * time.Millisecond
	gapWithin  = 2 * time.Millisecond
)

// comparison gathers how far probes are from the recordings of the same bytes.
type comparison struct {
	probes, tokens int
	ttft, gaps     []time.Duration
	wrong          []string
}

func (c *comparison) problem(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// add compares a successful probe with the exchange that it was.
func (c *comparison) add(r probeResult, e *exchange) {
	c.probes++
	if r.Outcome != "success" {
		c.problem("%s: %s", r.Outcome, r.Error)
		return
	}
	if e == nil {
		c.problem("no exchange has the probe's trace")
		return
	}
	raw := readReply(e)
	c.count("prompt tokens", r.Prompt, raw.prompt)
	c.count("cached tokens", r.Cached, raw.cached)
	if raw.items > 0 && r.Vectors.Items > 0 {
		c.tokens += raw.prompt
		if r.Vectors.Items != raw.items {
			c.problem("%d items, in the reply %d", r.Vectors.Items, raw.items)
		}
		return
	}
	if r.Source == "usage" {
		c.count("output tokens", r.Output, raw.output)
	} else if raw.output > 0 { // LiteLLM writes 0 in Gemini's protocol
		c.problem("tokens are counted by %s, the reply says %d", r.Source, raw.output)
	}
	if len(r.Events) != len(raw.tokens) {
		c.problem("%d token events, in the reply %d", len(r.Events), len(raw.tokens))
		return
	}
	c.tokens += max(raw.output, len(raw.tokens))
	c.times(r, e.sent, raw.tokens)
}

func (c *comparison) count(what string, got *int, want int) {
	switch {
	case got == nil && want > 0:
		c.problem("no %s, in the reply %d", what, want)
	case got != nil && *got != want:
		c.problem("%d %s, in the reply %d", *got, what, want)
	}
}

func (c *comparison) times(r probeResult, sent time.Time, tokens []time.Time) {
	if r.TTFT == nil || len(tokens) == 0 {
		return
	}
	c.ttft = append(c.ttft, seconds(*r.TTFT)-tokens[0].Sub(sent))
	for i := 1; i < len(tokens); i++ {
		if !r.Events[i].Merged && !r.Events[i-1].Merged {
			gap := seconds(r.Events[i].At - r.Events[i-1].At)
			c.gaps = append(c.gaps, gap-tokens[i].Sub(tokens[i-1]))
		}
	}
}

func seconds(f float64) time.Duration { return time.Duration(f * float64(time.Second)) }

// verdict returns what was compared, or what was wrong.
func (c *comparison) verdict() (string, error) {
	ttft, gap := medianError(c.ttft), medianError(c.gaps)
	if ttft > ttftWithin {
		c.problem("TTFT is off by %s (median)", ttft)
	}
	if gap > gapWithin {
		c.problem("gaps are off by %s (median)", gap)
	}
	if len(c.wrong) > 0 {
		return "", errors.New(strings.Join(c.wrong[:min(3, len(c.wrong))], "; "))
	}
	text := fmt.Sprintf("%d probes, %d tokens as in the raw reply", c.probes, c.tokens)
	if len(c.ttft) > 0 {
		text += fmt.Sprintf("; TTFT off by %s, %d gaps by %s (medians)", ttft, len(c.gaps), gap)
	}
	return text, nil
}

// medianError is the median of the distances from zero.
func medianError(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	var distances []time.Duration
	for _, d := range all {
		distances = append(distances, d.Abs())
	}
	slices.Sort(distances)
	return distances[len(distances)/2].Round(time.Microsecond)
}

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// knee sends bursts up to twice as many requests as the server runs at once. Those
// above that limit wait for whole answers, which an objective between the two
// times to the first token tells apart: the knee is the burst above the limit.
func knee(ctx context.Context, b *bench) (string, error) {
	slots := b.server.slots
	levels, _, err := b.bursts(ctx, 0)
	if err != nil {
		return "", err
	}
	run, wait := levels[slots][slots-1], levels[2*slots][slots] // the slowest that runs, the fastest that waits
	if wait < run+run/2 {
		return "", cannot("the requests that wait do not stand out: first tokens after %s, and %s of those that run", wait, run)
	}
	objective := ((run + wait) / 2).Truncate(time.Millisecond)
	for range 3 {
		levels, got, err := b.bursts(ctx, objective)
		if err != nil {
			return "", err
		}
		want := kneeOf(levels, objective)
		if got != want {
			return "", fmt.Errorf("the knee is %d with an objective of %s, by the relay %d: %v", got, objective, want, levels)
		}
		if want == 2*slots {
			return fmt.Sprintf("at %d, above the %d requests that it runs at once: first tokens after up to %s at %d, from %s on for those that wait",
				got, slots, levels[slots][slots-1].Round(time.Millisecond), slots, levels[2*slots][slots].Round(time.Millisecond)), nil
		}
	}
	return "", cannot("too much other work: the knee moved, by the exporter as by the relay")
}

// bursts runs the bursts, and returns the times to first tokens of each by the
// relay, in order, and the knee by the exporter where there is an objective.
func (b *bench) bursts(ctx context.Context, objective time.Duration) (levels map[int][]time.Duration, knee int, err error) {
	slots := b.server.slots
	module := fmt.Sprintf("modules:\n  knee: {concurrency: [1, %d, %d], input_tokens: 64, output_tokens: 64, timeout: 2m", slots, 2*slots)
	if objective > 0 {
		module += fmt.Sprintf(", slo: {ttft: %dms}", objective.Milliseconds())
	}
	text, err := os.ReadFile(b.config)
	if err != nil {
		return nil, 0, err
	}
	file := filepath.Join(b.work, b.server.name+"-knee.yml")
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), "modules:", module+"}", 1)), 0o644); err != nil {
		return nil, 0, err
	}
	b.front.tee.forget()
	count := 1
	if objective > 0 {
		count = 2 // so that there is a summary, whose knee is that of the latest run
	}
	results, all, err := b.lab.probeTogether(ctx, "-n", strconv.Itoa(count), "--config.file="+file, "--module=knee", "real")
	if err != nil {
		return nil, 0, err
	}
	results = results[len(results)/count*(count-1):]
	levels = map[int][]time.Duration{}
	for _, r := range results {
		e := b.front.tee.of(r.TraceID)
		if r.Outcome != "success" || e == nil {
			return nil, 0, fmt.Errorf("a burst of %d: %s: %s", r.Concurrency, r.Outcome, r.Error)
		}
		levels[r.Concurrency] = append(levels[r.Concurrency], readReply(e).tokens[0].Sub(e.sent))
	}
	for n, ttfts := range levels {
		slices.Sort(ttfts)
		if len(ttfts) != n {
			return nil, 0, fmt.Errorf("%d results of a burst of %d", len(ttfts), n)
		}
	}
	return levels, all.Knee, nil
}

// kneeOf is the definition: the smallest burst of which more than a tenth missed
// the objective, 0 where none did.
func kneeOf(levels map[int][]time.Duration, objective time.Duration) int {
	knee := 0
	for n, ttfts := range levels {
		missed := 0
		for _, d := range ttfts {
			if d > objective {
				missed++
			}
		}
		if 10*missed > n && (knee == 0 || n < knee) {
			knee = n
		}
	}
	return knee
}

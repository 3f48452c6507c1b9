package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// endToEnd runs make e2e's check, and compares its figures of each protocol with
// those of the relay. The check also wants the protocols to have about the same
// times. It asks them one after the other, so that on a machine with other work
// their times do differ: where the relay saw the same, that is no problem.
func endToEnd(ctx context.Context, b *bench) (string, error) {
	b.front.tee.forget()
	cmd := exec.CommandContext(ctx, b.e2e, "-test.run=^TestEndpoint$", "-test.v")
	cmd.Dir = filepath.Join(b.root, "internal", "e2e")
	cmd.Env = append(os.Environ(), "INFERENCE_EXPORTER_E2E_CONFIG="+b.config)
	output, err := cmd.CombinedOutput()
	os.WriteFile(filepath.Join(b.work, b.server.name+"-e2e.log"), output, 0o644)
	figures, differ, problems := readReport(string(output))
	if len(figures) == 0 && len(problems) == 0 {
		return "", fmt.Errorf("the check printed no figures: %w", err)
	}
	problems = append(problems, compareFigures(figures, b.front.tee.exchanges())...)
	if len(problems) > 0 {
		return "", fmt.Errorf("%s", strings.Join(problems, "; "))
	}
	var names []string
	for _, f := range figures {
		names = append(names, f.api)
	}
	text := "offered, and in agreement with the relay: " + strings.Join(names, ", ")
	if len(differ) > 0 {
		text += "; times of the server that changed from one protocol to the next: " + strings.Join(differ, ", ")
	}
	return text, nil
}

// figures are the medians that the check prints of a protocol; -1 is absent.
type figures struct {
	api        string
	ttft, tpot time.Duration
}

var (
	printed    = regexp.MustCompile(`_test\.go:\d+: (.*)`)
	figureLine = regexp.MustCompile(`^(\S+): prompt \S+ tokens, output .*, TTFT (\S+), TPOT (\S+), end to end `)
	differLine = regexp.MustCompile(`^\S+: (?:TTFT|TPOT) \S+, by \S+ \S+$`)
)

// readReport reads the output of the check: the figures of the protocols that
// are offered, the times that differ between them, and all other problems.
func readReport(output string) (all []figures, differ, problems []string) {
	for _, m := range printed.FindAllStringSubmatch(output, -1) {
		text := m[1]
		switch f := figureLine.FindStringSubmatch(text); {
		case f != nil:
			ttft, err := time.ParseDuration(f[2])
			tpot, err2 := time.ParseDuration(f[3])
			if err != nil || err2 != nil {
				problems = append(problems, "unreadable figures: "+text)
			}
			all = append(all, figures{f[1], ttft, tpot})
		case differLine.MatchString(text):
			differ = append(differ, text)
		case !strings.Contains(text, " is not offered ") && !strings.HasPrefix(text, "api "):
			problems = append(problems, text)
		}
	}
	return all, differ, problems
}

// What the check sends by each protocol: probes until the prompt has its length,
// those of which it prints the medians, and warm ones.
const (
	learning, measured, warmed = 3, 3, 2
	perProtocol                = learning + measured + warmed
)

// compareFigures compares the figures with the same probes as the relay recorded
// them. It knows the requests of a protocol by their path, and the protocols by
// their order.
func compareFigures(all []figures, exchanges []*exchange) (problems []string) {
	var paths []string
	byPath := map[string][]*exchange{}
	for _, e := range exchanges {
		if e.header.Get("Traceparent") == "" || e.status != http.StatusOK || len(readReply(e).tokens) == 0 {
			continue
		}
		if byPath[e.path] == nil {
			paths = append(paths, e.path)
		}
		byPath[e.path] = append(byPath[e.path], e)
	}
	for _, f := range all {
		if f.ttft < 0 && f.tpot < 0 {
			continue // vectors
		}
		if len(paths) == 0 {
			return append(problems, f.api+": no request went through the relay")
		}
		of := byPath[paths[0]]
		paths = paths[1:]
		if len(of) != perProtocol {
			problems = append(problems, fmt.Sprintf("%s: %d probes went through the relay, want %d", f.api, len(of), perProtocol))
			continue
		}
		ttft, tpot := relayed(of[learning : learning+measured])
		if f.ttft >= 0 && !near(f.ttft, ttft, ttftWithin) {
			problems = append(problems, fmt.Sprintf("%s: TTFT %s, by the relay %s", f.api, f.ttft, ttft))
		}
		if f.tpot >= 0 && !near(f.tpot, tpot, gapWithin) {
			problems = append(problems, fmt.Sprintf("%s: TPOT %s, by the relay %s", f.api, f.tpot, tpot))
		}
	}
	return problems
}

// relayed returns the medians of TTFT and TPOT over replies.
func relayed(replies []*exchange) (ttft, tpot time.Duration) {
	var ttfts, tpots []time.Duration
	for _, e := range replies {
		r := readReply(e)
		first, last := r.tokens[0], r.tokens[len(r.tokens)-1]
		ttfts = append(ttfts, first.Sub(e.sent))
		n := r.output
		if n <= 0 {
			n = len(r.tokens)
		}
		tpots = append(tpots, last.Sub(first)/time.Duration(max(1, n-1)))
	}
	slices.Sort(ttfts)
	slices.Sort(tpots)
	return ttfts[len(ttfts)/2], tpots[len(tpots)/2]
}

// near reports whether two times of the same events are a time or a fifth apart
// at most: the relay counts a first event of several tokens as one.
func near(a, b, within time.Duration) bool {
	return (a - b).Abs() <= max(within, max(a, b)/5)
}

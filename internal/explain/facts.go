package explain

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/workload/loadtest"
)

// facts are what follows from the evidence and more than one rule looks at.
type facts struct {
	*Evidence
	failed []*Probe // that the state is about
	good   []*Probe // successes
	mixed  bool     // kinds of failures alternate
	// The modules whose first tokens, further tokens or whole answers are late.
	lateTTFT, lateTPOT, lateE2E []lateness
}

type lateness struct {
	module string
	Level
}

func newFacts(e *Evidence) *facts {
	f := &facts{Evidence: e}
	for _, p := range e.Probes {
		switch {
		case !p.Failed():
			f.good = append(f.good, p)
		case e.isFailing() && p.end().After(e.Since.Add(-slack)):
			f.failed = append(f.failed, p)
		}
	}
	f.mixed = alternate(f.failed)
	if f.troubled() {
		for _, s := range e.Speeds {
			f.addLate(s)
		}
	}
	return f
}

// slack is by how much the beginning of a state and the end of the probe that began it may differ.
const slack = time.Second

// troubled reports whether there is something to explain.
func (f *facts) troubled() bool {
	return f.State != health.Up && f.State != health.Waiting || f.heldBack()
}

func (f *facts) addLate(s Speed) {
	const ms = 1e-3
	if s.TTFT.late(50 * ms) {
		f.lateTTFT = append(f.lateTTFT, lateness{s.Module, s.TTFT})
	}
	if s.TPOT.late(5 * ms) {
		f.lateTPOT = append(f.lateTPOT, lateness{s.Module, s.TPOT})
	}
	if s.E2E.overObjective() {
		f.lateE2E = append(f.lateE2E, lateness{s.Module, s.E2E})
	}
}

// worse is by how much a median must exceed the usual one to be another.
const worse = 1.5

// late reports whether a latency is over its objective or, without one, well over what is usual and by at least a number
// of seconds.
func (l Level) late(least float64) bool {
	if l.Objective != nil || l.Now == nil || l.Usual == nil {
		return l.overObjective()
	}
	return *l.Now > worse**l.Usual && *l.Now-*l.Usual >= least
}

func (l Level) overObjective() bool {
	return l.Now != nil && l.Objective != nil && *l.Now > *l.Objective
}

func (l Level) now() (float64, bool) {
	if l.Now == nil {
		return 0, false
	}
	return *l.Now, true
}

// ratio returns now over usual; 0, false where one is not known.
func (l Level) ratio() (float64, bool) {
	if l.Now == nil || l.Usual == nil || *l.Usual <= 0 {
		return 0, false
	}
	return *l.Now / *l.Usual, true
}

// isMore reports whether a value is well over what is usual, or may be.
func (l Level) isMore() bool {
	more, known := l.ratio()
	return !known || more >= worse
}

// line returns the line of a value that is known; "" for another.
func (l Level) line(what string, show func(float64) string) string {
	if l.Now == nil {
		return ""
	}
	text := what + ": " + show(*l.Now)
	if l.Usual != nil {
		text += ", usually " + show(*l.Usual)
	}
	if l.Objective != nil {
		text += ", objective " + show(*l.Objective)
	}
	return text
}

// kept is how much of its weight a failure keeps with each later one: three of another kind outweigh all before them.
const kept = 0.75

const (
	// minTurns is how often the kind of failure must change among the latest for the kinds to alternate: once is
	// another fault. Twice is one too, after settled of the last kind.
	minTurns = 3
	settled  = 3
)

// alternate reports whether failures are of several kinds in turns.
func alternate(failed []*Probe) bool {
	turns, same := 0, 1
	for i := 1; i < len(failed); i++ {
		a, b := failed[i-1], failed[i]
		same++
		if a.Outcome != b.Outcome || a.Status != b.Status || a.Reason != b.Reason {
			turns++
			same = 1
		}
	}
	return turns >= minTurns || turns == minTurns-1 && same < settled
}

// share returns how many of the failed probes are as wanted, and which share that is, 0 without failures. The later ones
// weigh more, as they are about what is wrong now, unless kinds alternate.
func (f *facts) share(wanted func(*Probe) bool) (n int, share float64) {
	weight, sum, all := 1.0, 0.0, 0.0
	for _, p := range slices.Backward(f.failed) {
		if wanted(p) {
			n++
			sum += weight
		}
		all += weight
		if !f.mixed {
			weight *= kept
		}
	}
	return n, sum / max(all, 1)
}

// tally returns the line of which share of the probes failed since when; "" where that is not known.
func (f *facts) tally() string {
	if f.Failed == 0 {
		return ""
	}
	share := float64(f.Failed) / float64(f.Of)
	line := fmt.Sprintf("%d of %s failed (%.0f %%) since %s", f.Failed, plural(f.Of, "probe"), 100*share, clock(f.Since))
	if f.Spells > 1 {
		line += fmt.Sprintf(", in %d spells", f.Spells)
	}
	return line
}

// witness returns the line of what users' requests show beside probes; "" where that is nothing.
func (f *facts) witness() string {
	switch f.Witness {
	case health.ProbesOnly:
		return "users' requests are well meanwhile, by the servers' pages: look at the path or the prober"
	case health.Users: // all that there is to say
		return ""
	}
	return f.Users
}

// failures returns a match of the failed probes that are as wanted; nil without one.
func (f *facts) failures(wanted func(*Probe) bool) *match {
	n, share := f.share(wanted)
	if n == 0 {
		return nil
	}
	var latest *Probe // they are in the order of their start
	for _, p := range f.failed {
		if wanted(p) {
			latest = p
		}
	}
	return &match{share: share, ofFailures: true, evidence: []string{
		fmt.Sprintf("%d of %s: %s", n, plural(len(f.failed), "failed probe"), f.quote(latest)),
	}}
}

func (f *facts) quote(p *Probe) string {
	if p.Error == "" {
		return p.Outcome.Description()
	}
	return p.Outcome.Description() + ": " + p.Error
}

func outcomes(of ...result.Outcome) func(*Probe) bool {
	return func(p *Probe) bool { return slices.Contains(of, p.Outcome) }
}

// stalledBy reports whether the longest silence of a probe was that of one of these sides.
func stalledBy(p *Probe, sides ...result.Side) bool {
	return p.Stall != nil && slices.Contains(sides, p.Stall.Side)
}

// addStall adds the evidence of the latest probe whose stall was on one of these sides.
func (m *match) addStall(f *facts, sides ...result.Side) *match {
	for _, p := range slices.Backward(f.Probes) {
		if stalledBy(p, sides...) {
			return m.add(fmt.Sprintf("a stall of %s by %s: %s", seconds(p.Stall.Duration.Seconds()), p.Stall.Side.Description(), strings.Join(p.Stall.Evidence, ", ")))
		}
	}
	return m
}

func status(of ...int) func(*Probe) bool {
	return func(p *Probe) bool { return p.Outcome == result.HTTPError && slices.Contains(of, p.Status) }
}

// noUpstream reports whether what is in front of the servers answered, and said that none of them did.
func noUpstream(p *Probe) bool { return status(http.StatusBadGateway, http.StatusGatewayTimeout)(p) }

// pagesGone reports whether pages of servers are known, and none answers.
func (f *facts) pagesGone() bool {
	return f.Servers != nil && f.Servers.Up == 0 && len(f.Servers.Lost) > 0
}

// level returns a quantity; nothing where it or the pages are not known.
func (p *Pages) level(q config.Quantity) Level {
	if p == nil {
		return Level{}
	}
	return p.Levels[q]
}

func (p *Pages) lines(wanted ...config.Quantity) []string {
	var all []string
	for _, w := range wanted {
		i := slices.IndexFunc(quantities[:], func(q quantity) bool { return q.Quantity == w })
		all = append(all, p.level(w).line(quantities[i].words, quantities[i].show))
	}
	return lines(all...)
}

func (f *facts) waiting() (float64, bool) { return f.Servers.level(config.RequestsWaiting).now() }

// idle reports whether the servers had nothing to do while probes waited for them.
func (f *facts) idle() bool { return f.Servers != nil && f.Servers.Idle }

// isLate reports whether first tokens are late, or too late.
func (f *facts) isLate() bool {
	_, timeouts := f.share(outcomes(result.TimeoutFirstToken, result.TimeoutStall, result.TimeoutTotal))
	return len(f.lateTTFT) > 0 || len(f.lateE2E) > 0 || timeouts >= minShare
}

func latencies(what string, all []lateness) []string {
	return first(stats.Map(all, func(l lateness) string { return l.line(what+" of "+l.module, seconds) }))
}

// longestParts returns the parts of TTFT that are known, as indexes of page.TTFTPartNames, the longest first.
func (f *facts) longestParts() []int {
	var known []int
	if parts := f.Facts.Parts; parts != nil {
		for i, v := range parts.Seconds {
			if v != nil {
				known = append(known, i)
			}
		}
		slices.SortStableFunc(known, func(a, b int) int { return cmp.Compare(*parts.Seconds[b], *parts.Seconds[a]) })
	}
	return known
}

// parts returns a line with the parts of TTFT; "" where they are not known.
func (f *facts) parts() string {
	var all []string
	for _, i := range f.longestParts() {
		if v := *f.Facts.Parts.Seconds[i]; v > 0 {
			all = append(all, strings.ReplaceAll(string(page.TTFTPartNames()[i]), "_", " ")+" "+seconds(v))
		}
	}
	if len(all) == 0 {
		return ""
	}
	return "TTFT in parts: " + strings.Join(all, ", ")
}

// oneFewer returns the line of what the loss of one more server would mean; "" where that is not known.
func (f *facts) oneFewer() string {
	if f.Facts.Loss == nil {
		return ""
	}
	return (*loadtest.Loss)(f.Facts.Loss).Words()
}

func (f *facts) lateness() []string {
	return slices.Concat(latencies("TTFT", f.lateTTFT), latencies("TPOT", f.lateTPOT), latencies("duration", f.lateE2E))
}

// seconds returns a duration in words, with three digits.
func seconds(s float64) string {
	switch {
	case math.Abs(s) < 1:
		return number(s*1e3) + " ms"
	case math.Abs(s) < 120:
		return number(s) + " s"
	}
	return number(s/60) + " min"
}

func number(v float64) string {
	text := fmt.Sprintf("%.3g", v)
	if strings.Contains(text, "e") {
		text = fmt.Sprintf("%.0f", v)
	}
	return text
}

func percent(r float64) string { return number(r*100) + " %" }

func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// lines returns those that say something.
func lines(all ...string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(line string) bool { return line == "" })
}

// first returns the first few of a list: more of its kind say no more.
func first(all []string) []string { return all[:min(len(all), 3)] }

package explain

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

const (
	// fullKV is the share of the KV cache in use from which it is full.
	fullKV = 0.95
	// usualHits is the hit ratio below which a prefix cache has nothing to lose, and
	// fewHits the share of the usual ratio below which it is lost.
	usualHits, fewHits = 0.2, 0.5
	// minGood is how many answers a rule about answers takes.
	minGood = 3
	// lately is how old a change may be that is news, and before how long before a state
	// it may have brought it about.
	lately, before = time.Hour, 10 * time.Minute
)

func matchKVCacheFull(f *facts) *match {
	s := f.Servers
	if s == nil || !f.isLate() && len(f.lateTPOT) == 0 && len(f.failed) == 0 || !f.isLoad() {
		return nil
	}
	usage, _ := s.level(config.KVCacheUsage).now()
	preemptions, _ := s.level(config.Preemptions).now()
	waiting, _ := f.waiting()
	preempts := preemptions > 0 && s.level(config.Preemptions).isMore()
	if !preempts && (usage < fullKV || waiting == 0) {
		return nil
	}
	m := &match{share: 1, evidence: append(s.lines(config.KVCacheUsage, config.Preemptions, config.RequestsWaiting), f.lateness()...)}
	if preempts {
		m.title = "the KV cache is full, and requests are preempted"
	}
	return m
}

// isLoad reports whether the failed probes, if there are any, may be due to load.
func (f *facts) isLoad() bool {
	_, share := f.share(outcomes(result.Overloaded, result.RateLimited, result.TimeoutFirstToken, result.TimeoutStall, result.TimeoutTotal))
	return len(f.failed) == 0 || share >= minShare
}

func matchHung(f *facts) *match {
	m := f.failures(outcomes(result.TimeoutFirstToken, result.TimeoutStall))
	if m == nil {
		return nil
	}
	switch s := f.Servers; {
	case s == nil:
		m.against = append(m.against, "no server's page is known: a long queue looks the same from outside")
	case s.Stuck > 0:
		m.evidence = append(m.evidence, fmt.Sprintf("requests run, and nothing was generated for %s", seconds(s.Stuck.Seconds())))
	case s.Up == 0:
		m.evidence = append(m.evidence, "no server's page answers either")
		m.evidence = append(m.evidence, s.Lost[:min(len(s.Lost), 3)]...)
	case f.worksOn():
		return nil // it works on others: a queue, or what is between
	}
	_, stalls := f.share(outcomes(result.TimeoutStall))
	if stalls >= minShare {
		m.title = "the engine stops in mid-answer"
	}
	m.withGPUs(f)
	return m
}

// worksOn reports whether the servers generate tokens, or had nothing to do.
func (f *facts) worksOn() bool {
	generated, ok := f.Servers.level(config.GenerationTokens).now()
	return ok && generated > 0 || f.idle()
}

func matchBuffered(f *facts) *match {
	n := 0
	for i := range f.good {
		if f.good[i].Buffered {
			n++
		}
	}
	if n < minGood || 2*n < len(f.good) {
		return nil
	}
	return &match{share: 1, ofLatency: true, evidence: append([]string{fmt.Sprintf("%d of the latest %s came in one burst", n, plural(len(f.good), "answer"))},
		latencies("TTFT", f.lateTTFT)...)}
}

func matchPrefixCacheLost(f *facts) *match {
	hits := f.Servers.level(hitRatio)
	ratio, ok := hits.ratio()
	if !f.isLate() || !ok || *hits.Usual < usualHits || ratio >= fewHits {
		return nil
	}
	return &match{share: 1, ofLatency: true, evidence: append(f.Servers.lines(hitRatio), latencies("TTFT", f.lateTTFT)...)}
}

func matchGateway(f *facts) *match {
	if !f.pagesGone() {
		between := status(http.StatusRequestTimeout, http.StatusBadGateway, http.StatusGatewayTimeout)
		m := f.failures(func(p *Probe) bool { return between(p) || p.Outcome == result.ProtocolError && f.Succeeded })
		if m != nil {
			m.evidence = append(m.evidence, f.gatewayLines()...)
			m.runbook = "InferenceProbeFailing"
			return m.withServers(f)
		}
	}
	if m := f.failures(outcomes(result.TimeoutFirstToken, result.TimeoutStall)); m != nil && f.idle() && f.Servers.Stuck == 0 {
		m.evidence = append(m.evidence, "the servers' pages show no running and no waiting request meanwhile")
		m.evidence = append(m.evidence, f.gatewayLines()...)
		m.title, m.runbook = "what is between does not pass requests or answers on", "InferenceProbeFailing"
		return m
	}
	return f.delayBetween()
}

// delayBetween matches latencies that the servers' own do not have, unless the queue of
// the gateway is known to be where they come from.
func (f *facts) delayBetween() *match {
	if f.Servers == nil || len(f.lateTTFT) > 0 && f.gatewayQueues() {
		return nil
	}
	var evidence []string
	for _, seen := range []struct {
		what string
		late []lateness
		own  config.Quantity
	}{{"TTFT", f.lateTTFT, config.TTFT}, {"TPOT", f.lateTPOT, config.InterToken}} {
		for _, l := range seen.late {
			if isBetween(l.Level, f.Servers.level(seen.own)) {
				evidence = append(append(evidence, l.line(seen.what+" of "+l.module, seconds)), f.Servers.lines(seen.own)...)
			}
		}
	}
	if len(evidence) == 0 {
		return nil
	}
	return &match{
		share: 1, ofLatency: true, title: "a gateway or proxy between adds the delay",
		evidence: slices.Concat(slices.Compact(evidence), f.parts(), f.gatewayLines()),
	}
}

// isBetween reports whether what a latency has more than usual is, by more than half,
// not in what the servers have more than usual. Where what is usual is not known, the
// servers' part must be less than a third of the latency itself.
func isBetween(seen, own Level) bool {
	server, ok := own.now()
	if !ok || seen.Now == nil {
		return false
	}
	if seen.Usual != nil && own.Usual != nil && *seen.Now > *seen.Usual {
		more := *seen.Now - *seen.Usual
		return more > *seen.Usual*(worse-1) && server-*own.Usual < more/2
	}
	return server < *seen.Now/3
}

func matchQueueFull(f *facts) *match {
	if !f.pagesGone() {
		full := outcomes(result.Overloaded)
		m := f.failures(func(p *Probe) bool {
			return full(p) && !f.loading(p) || p.Outcome == result.RateLimited && f.refusesByLoad()
		})
		if m != nil && m.share >= minShare {
			m.evidence = append(m.evidence, f.queue()...)
			m.runbook = "InferenceProbeFailing"
			return m
		}
	}
	if !f.isLate() || !f.isLoad() || !f.queues() {
		return nil
	}
	return &match{share: 1, title: "requests wait in the queue of the servers", evidence: slices.Concat(f.queue(), f.lateness(), f.parts())}
}

func (f *facts) queue() []string {
	return f.Servers.lines(config.RequestsWaiting, config.RequestsRunning, config.QueueTime)
}

// queues reports whether requests wait longer, or more of them, than usual, and the
// servers go on.
func (f *facts) queues() bool {
	waiting, ok := f.waiting()
	if !ok || waiting < 1 || f.Servers.Stuck > 0 {
		return false
	}
	if queue, known := f.Servers.level(config.QueueTime).now(); known && len(f.lateTTFT) > 0 {
		late := f.lateTTFT[0]
		usual := 0.0
		if u := f.Servers.level(config.QueueTime).Usual; u != nil {
			usual = *u
		}
		if late.Usual != nil {
			return queue-usual >= (*late.Now-*late.Usual)/4
		}
		return queue >= *late.Now/4
	}
	return f.Servers.level(config.RequestsWaiting).isMore()
}

func matchPrefillSlow(f *facts) *match {
	if len(f.lateTTFT) == 0 || f.queues() {
		return nil
	}
	var own []string
	for _, q := range []config.Quantity{config.TTFT, config.PrefillTime} {
		if r, ok := f.Servers.level(q).ratio(); ok && r >= worse {
			own = append(own, f.Servers.lines(q)...)
		}
	}
	own = append(own, f.ownPrefill()...)
	if len(own) == 0 && !f.throttled() {
		return nil
	}
	m := &match{share: 1, ofLatency: true, evidence: slices.Concat(
		latencies("TTFT", f.lateTTFT), own, f.parts(), f.Servers.lines(config.RequestsWaiting, hitRatio),
	)}
	if len(f.lateTPOT) > 0 {
		m.share = 0.9 // all of the engine is slow, and the rest of an answer is most of it
	}
	m.withGPUs(f)
	return m
}

// ownPrefill returns a line where the replies name a prefill time that is most of TTFT.
func (f *facts) ownPrefill() []string {
	var own, all []float64
	for i := range f.good {
		if p := &f.good[i]; p.Server.Prefill > 0 && p.Timing.TTFT > 0 {
			own, all = append(own, p.Server.Prefill.Seconds()), append(all, p.Timing.TTFT.Seconds())
		}
	}
	if len(own) < minGood || *stats.MedianOf(own, 1) < *stats.MedianOf(all, 1)/2 {
		return nil
	}
	return []string{fmt.Sprintf("prefill time in the replies: %s of %s", seconds(*stats.MedianOf(own, 1)), seconds(*stats.MedianOf(all, 1)))}
}

func matchDecodeSlow(f *facts) *match {
	m := f.failures(outcomes(result.TimeoutTotal))
	switch {
	case m != nil && m.share >= minShare:
		m.title = "whole answers do not come in time"
	case len(f.lateTPOT) > 0:
		m = &match{share: 1, ofLatency: true, evidence: latencies("TPOT", f.lateTPOT)}
	default:
		return nil
	}
	m.evidence = append(m.evidence, f.Servers.lines(config.RequestsRunning, config.InterToken)...)
	if r, ok := f.Servers.level(config.RequestsRunning).ratio(); ok && r >= worse {
		m.title = "tokens are generated slowly: more requests run than usual"
	}
	m.withGPUs(f)
	return m
}

// throttled reports whether a GPU of the endpoint is held back, or shared.
func (f *facts) throttled() bool {
	return slices.ContainsFunc(f.GPUs, func(d *gpu.DeviceSnapshot) bool { return len(throttle(d))+len(neighbours(d.Processes)) > 0 })
}

func (m *match) withGPUs(f *facts) {
	for _, d := range f.GPUs {
		name, reduced := strings.TrimSpace(d.Name+" "+d.UUID), throttle(d)
		switch {
		case !d.Up:
			m.evidence = append(m.evidence, name+" no longer answers")
			m.runbook = "InferenceGPULost"
		case len(reduced) > 0:
			m.evidence = append(m.evidence, name+" has reduced clocks: "+strings.Join(reduced, ", "))
			m.runbook = "InferenceGPUThrottled"
		}
		if others := neighbours(d.Processes); len(others) > 0 {
			m.evidence = append(m.evidence, name+" is used by others too: "+strings.Join(others, ", "))
		}
	}
}

const (
	// stepAge is how long before the state a step may be that is named: what was as bad
	// for longer is what the endpoint is like.
	stepAge = 24 * time.Hour
	// maxSteps is how many steps are named.
	maxSteps = 3
)

// worsened returns the steps to the worse that the state may be about, the latest first:
// of latencies that are late now, and of failures while probes fail.
func (f *facts) worsened() []Step {
	var all []Step
	for _, s := range f.Steps {
		since := f.Since.Sub(s.Time())
		if s.After > s.Before && since <= stepAge && f.isAbout(s) {
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b Step) int { return cmp.Compare(b.At, a.At) })
	return all
}

// isAbout reports whether what a step made worse is bad now.
func (f *facts) isAbout(s Step) bool {
	late := func(all []lateness) bool {
		return slices.ContainsFunc(all, func(l lateness) bool { return l.module == s.Module })
	}
	switch s.Metric {
	case series.MetricTTFT:
		return late(f.lateTTFT) || late(f.lateE2E)
	case series.MetricTPOT:
		return late(f.lateTPOT) || late(f.lateE2E)
	}
	return len(f.failed) > 0
}

// stepLines returns the lines of when it got worse, and what else changed then.
func (f *facts) stepLines() []string {
	var texts []string
	for _, s := range f.worsened() {
		texts = append(texts, s.String())
	}
	return texts[:min(len(texts), maxSteps)]
}

// String returns the step in words.
func (s Step) String() string {
	text := fmt.Sprintf("%s of %s rose from %s to %s at %s", strings.ToUpper(string(s.Metric)), s.Module, seconds(s.Before), seconds(s.After), clock(s.Time()))
	if s.Metric == series.MetricFailures {
		text = fmt.Sprintf("failures of %s rose from %s to %s of the probes at %s", s.Module, percent(s.Before), percent(s.After), clock(s.Time()))
	}
	if len(s.Beside) > 0 {
		text += "; at that time: " + strings.Join(s.Beside, ", ")
	}
	return text
}

// worsenedAt reports whether it got worse at an instant, as far as steps and changes are
// dated.
func (f *facts) worsenedAt(at time.Time) bool {
	return slices.ContainsFunc(f.worsened(), func(s Step) bool { return s.Time().Sub(at).Abs() <= before })
}

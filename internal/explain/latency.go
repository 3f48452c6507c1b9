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
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

const (
	// fullKV is the share of the KV cache in use from which it is full.
	fullKV = 0.95
	// usualHits is the hit ratio below which a prefix cache has nothing to lose, and fewHits the share of the usual
	// ratio below which it is lost.
	usualHits, fewHits = 0.2, 0.5
	// minGood is how many answers a rule about answers takes.
	minGood = 3
	// lately is how old a change may be that is news, and before how long before a state it may have brought it
	// about.
	lately, before = time.Hour, 10 * time.Minute
)

func matchKVCacheFull(f *facts) *match {
	s := f.Servers
	if s == nil || s.Stuck > 0 || !f.isLate() && len(f.lateTPOT) == 0 && len(f.failed) == 0 || !f.isLoad() {
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

// byLoad reports whether a probe failed as it may by load.
func byLoad(p *Probe) bool {
	return atServer(p) && outcomes(result.Overloaded, result.RateLimited, result.TimeoutFirstToken, result.TimeoutStall, result.TimeoutTotal)(p)
}

// isLoad reports whether the failed probes, if there are any, may be due to load.
func (f *facts) isLoad() bool {
	_, share := f.share(byLoad)
	return len(f.failed) == 0 || share >= minShare
}

// atServer reports whether what a probe waited for may have been the server: no silence shows that it was another side.
func atServer(p *Probe) bool {
	return !stalledBy(p, result.SideNetwork, result.SideHost, result.SideExporter)
}

func matchHung(f *facts) *match {
	wanted := func(p *Probe) bool {
		return atServer(p) && outcomes(result.TimeoutFirstToken, result.TimeoutStall)(p)
	}
	if f.isStuck() {
		wanted = byLoad // its queue may be full, too
	}
	m := f.failures(wanted)
	if m == nil && len(f.failed) == 0 && f.isStuck() && f.Servers.Stuck >= page.HungAfter {
		m = &match{share: 1} // probes go to other servers
	}
	if m == nil {
		return nil
	}
	switch s := f.Servers; {
	case s == nil:
		m.against = append(m.against, "no server's page is known: a long queue looks the same from outside")
	case s.Stuck > 0:
		m.add(s.Work + ", and nothing was generated for " + seconds(s.Stuck.Seconds()))
	case s.Up == 0:
		m.add("no server's page answers either").add(first(s.Lost)...)
	default:
		if generated, _ := s.level(config.GenerationTokens).now(); generated > 0 || s.Idle {
			return nil // it works on others: a queue, or what is between
		}
	}
	_, stalls := f.share(outcomes(result.TimeoutStall))
	if stalls >= minShare {
		m.title = "the engine stops in mid-answer"
	}
	return m.addStall(f, result.SideServer).withGPUs(f)
}

func (f *facts) isStuck() bool { return f.Servers != nil && f.Servers.Stuck > 0 }

func matchRankBehind(f *facts) *match {
	if f.Servers == nil || len(f.Servers.Lag) == 0 || f.isStuck() {
		return nil
	}
	return new(match{share: 1, ofLatency: true}).add(f.Servers.Lag...).add(f.lateness()...)
}

func matchReplicasDiffer(f *facts) *match {
	if len(f.Facts.Differ) == 0 || f.isFailing() {
		return nil
	}
	m := &match{share: 1, ofLatency: true}
	for _, d := range f.Facts.Differ {
		m.add(d.String() + ", since " + date(time.Unix(int64(d.Since), 0)))
	}
	return m.add(f.lateness()...)
}

func matchBuffered(f *facts) *match {
	line := atLeastHalf(f.good, func(p *Probe) bool { return p.Buffered }, "answer", "came in one burst")
	if line == "" {
		return nil
	}
	return new(match{share: 1, ofLatency: true}).add(line).add(latencies("TTFT", f.lateTTFT)...)
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
		m := f.failures(func(p *Probe) bool {
			return noUpstream(p) || status(http.StatusRequestTimeout)(p) || p.Outcome == result.ProtocolError && f.Succeeded
		})
		if m != nil {
			m.runbook = "InferenceEndpointFailing"
			return m.add(f.gatewayLines()...).withServers(f)
		}
	}
	if m := f.failures(outcomes(result.TimeoutFirstToken, result.TimeoutStall)); m != nil && f.idle() && !f.isStuck() {
		m.title, m.runbook = "what is between does not pass requests or answers on", "InferenceEndpointFailing"
		return m.add("the servers' pages show no running and no waiting request meanwhile").add(f.gatewayLines()...)
	}
	return f.delayBetween()
}

// delayBetween matches latencies that the servers' own do not have, unless the queue of the gateway is known to be
// where they come from.
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
	m := &match{share: 1, ofLatency: true, title: "a gateway or proxy between adds the delay", evidence: slices.Compact(evidence)}
	return m.add(f.parts()).add(f.gatewayLines()...)
}

// isBetween reports whether what a latency has more than usual is, by more than half, not in what the servers have more
// than usual. Where what is usual is not known, the servers' part must be less than a third of the latency itself.
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
	if f.isStuck() {
		return nil // more replicas would not help
	}
	if !f.pagesGone() {
		m := f.failures(func(p *Probe) bool {
			return p.Outcome == result.Overloaded && !f.loading(p) || p.Outcome == result.RateLimited && f.refusesByLoad()
		})
		if m != nil && m.share >= minShare {
			m.runbook = "InferenceEndpointFailing"
			return m.add(f.queue()...).add(f.oneFewer())
		}
	}
	if !f.isLate() || !f.isLoad() || !f.queues() {
		return nil
	}
	m := &match{share: 1, title: "requests wait in the queue of the servers", evidence: f.queue()}
	return m.add(f.lateness()...).add(f.parts(), f.oneFewer())
}

func (f *facts) queue() []string {
	return f.Servers.lines(config.RequestsWaiting, config.RequestsRunning, config.QueueTime)
}

// queues reports whether requests wait longer, or more of them, than usual, and the servers go on.
func (f *facts) queues() bool {
	waiting, ok := f.waiting()
	if !ok || waiting < 1 || f.isStuck() {
		return false
	}
	if queue := f.Servers.level(config.QueueTime); queue.Now != nil && len(f.lateTTFT) > 0 {
		late := f.lateTTFT[0]
		if late.Usual == nil {
			return *queue.Now >= *late.Now/4
		}
		return *queue.Now-*cmp.Or(queue.Usual, new(float64)) >= (*late.Now-*late.Usual)/4
	}
	return f.Servers.level(config.RequestsWaiting).isMore()
}

func matchOverCapacity(f *facts) *match {
	running, ok := f.Servers.level(config.RequestsRunning).now()
	test, late := f.LoadTest, f.lateness()
	if !ok || len(late) == 0 || !f.isLoad() || f.isStuck() || test == nil || test.MaxGood == nil || test.Knee == nil {
		return nil
	}
	waiting, _ := f.waiting()
	if running+waiting <= test.MaxGood.InFlight {
		return nil
	}
	return new(match{share: 1, ofLatency: true}).add(fmt.Sprintf("%s requests run or wait; %s at once met the objectives and %s missed them in the load test of %s",
		number(running+waiting), number(test.MaxGood.InFlight), number(test.Knee.InFlight), date(test.At))).add(late...).add(f.oneFewer())
}

func matchWorkload(f *facts) *match {
	if f.Witness != health.Users || f.Users == "" {
		return nil
	}
	m := &match{share: 1, evidence: []string{f.Users}}
	if f.State == health.Slow {
		m.runbook = "InferenceTTFTHigh"
	}
	return m
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
	own = append(own, f.mostOf("prefill time in the replies", func(p *Probe) (part, whole time.Duration) {
		return p.Server.Prefill, p.Timing.TTFT
	})...)
	own = append(own, f.onCPU()...)
	isHeldBack := func(d *gpu.DeviceSnapshot) bool { return len(throttle(d))+len(neighbours(d.Processes)) > 0 }
	if len(own) == 0 && !slices.ContainsFunc(f.GPUs, isHeldBack) {
		return nil
	}
	m := &match{share: 1, ofLatency: true, evidence: append(latencies("TTFT", f.lateTTFT), own...)}
	if len(f.lateTPOT) > 0 {
		m.share = 0.9 // all of the engine is slow, and the rest of an answer is most of it
	}
	return m.add(f.parts()).add(f.Servers.lines(config.RequestsWaiting, hitRatio)...).withGPUs(f)
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
	if r, ok := f.Servers.level(config.RequestsRunning).ratio(); ok && r >= worse {
		m.title = "tokens are generated slowly: more requests run than usual"
	}
	return m.add(f.Servers.lines(config.RequestsRunning, config.InterToken)...).add(f.onCPU()...).withGPUs(f)
}

// onCPU returns a line where part of the loaded model is not on a GPU.
func (f *facts) onCPU() []string {
	if share, ok := f.Servers.level(onGPUs).now(); !ok || share >= 1 {
		return nil
	}
	return f.Servers.lines(onGPUs)
}

// withGPUs adds what is wrong with the GPUs of the endpoint; it does nothing without a match.
func (m *match) withGPUs(f *facts) *match {
	if m == nil {
		return nil
	}
	for _, d := range f.GPUs {
		name, reduced := strings.TrimSpace(d.Name+" "+d.UUID), throttle(d)
		switch {
		case !d.Up:
			m.add(name + " no longer answers")
			m.runbook = "InferenceGPULost"
		case len(reduced) > 0:
			m.add(name + " has reduced clocks: " + strings.Join(reduced, ", "))
			m.runbook = "InferenceGPUThrottled"
		}
		if others := neighbours(d.Processes); len(others) > 0 {
			m.add(name + " is used by others too: " + strings.Join(others, ", "))
		}
	}
	return m
}

// stepAge is how long before the state a step may be that is named: what was as bad for longer is what the endpoint is
// like.
const stepAge = 24 * time.Hour

// worsened returns the steps to the worse that the state may be about, the latest first: of latencies that are late now,
// and of failures while probes fail.
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
	return first(stats.Map(f.worsened(), Step.String))
}

// String returns the step in words.
func (s Step) String() string {
	what, from, to := strings.ToUpper(string(s.Metric)), seconds(s.Before), seconds(s.After)
	if s.Metric == series.MetricFailures {
		what, from, to = "failures", percent(s.Before), percent(s.After)+" of the probes"
	}
	text := fmt.Sprintf("%s of %s rose from %s to %s at %s", what, s.Module, from, to, clock(s.Time()))
	if len(s.Beside) > 0 {
		text += "; at that time: " + strings.Join(s.Beside, ", ")
	}
	return text
}

// worsenedAt reports whether it got worse at an instant, as far as steps and changes are dated.
func (f *facts) worsenedAt(at time.Time) bool {
	return slices.ContainsFunc(f.worsened(), func(s Step) bool { return s.Time().Sub(at).Abs() <= before })
}

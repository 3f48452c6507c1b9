package explain

import (
	"fmt"
	"math"
	"net/http"
	"slices"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

func matchGatewayLost(f *facts) *match {
	g := f.Gateway
	if g == nil || g.Up > 0 || len(g.Lost) == 0 || !g.WasRead {
		return nil
	}
	silent := outcomes(
		result.ConnectError, result.TimeoutConnect, result.TimeoutFirstToken, result.TimeoutStall, result.Truncated, result.Overloaded,
	)
	m := f.failures(func(p *Probe) bool { return silent(p) || noUpstream(p) })
	if m == nil {
		return nil
	}
	m.title = "the gateway " + g.Name + " is down"
	return m.add("no page of the gateway " + g.Name + " answers:").add(first(g.Lost)...).withServers(f)
}

// withServers adds how many servers are up; it does nothing without a match.
func (m *match) withServers(f *facts) *match {
	if s := f.Servers; s != nil && s.Up > 0 {
		m.add(fmt.Sprintf("%d of %s up by their own pages", s.Up, plural(s.Known, "server")))
	}
	return m
}

func matchGatewayBackends(f *facts) *match {
	g := f.Gateway
	if g == nil || g.Up == 0 {
		return nil
	}
	ready, ok := g.ready().now()
	if !ok || ready > 0 && ready >= g.had() {
		return nil
	}
	m := f.failures(func(p *Probe) bool {
		return byLoad(p) || p.Outcome == result.Truncated || p.Outcome == result.HTTPError && p.Status/100 == 5 ||
			f.modelGone(p)
	})
	switch {
	case m == nil && (len(f.failed) > 0 || !f.isCrowded()):
		return nil
	case m == nil:
		m = &match{share: 1, ofLatency: true}
	}
	m.title = fmt.Sprintf("the gateway %s has fewer ready %ss than before", g.Name, g.readyThing())
	if ready == 0 {
		m.title = fmt.Sprintf("the gateway %s has no ready %s", g.Name, g.readyThing())
	}
	m.add(g.readiness())
	for _, name := range first(g.NotReady) {
		m.add("not ready: " + name)
	}
	return m.add(g.waits()...).add(g.Trouble...).add(f.lateness()...).withServers(f)
}

// modelGone reports whether a probe was told that there is no such model while the gateway has none: the last backend
// of the model has left.
func (f *facts) modelGone(p *Probe) bool {
	ready, ok := f.Gateway.level(config.ModelsReady).now()
	return ok && ready == 0 && status(http.StatusNotFound)(p)
}

// isCrowded reports whether tokens are late and requests wait somewhere, or may.
func (f *facts) isCrowded() bool {
	if !f.isLate() && len(f.lateTPOT) == 0 {
		return false
	}
	atServers, known := f.waiting()
	atGateway, _ := f.Gateway.level(config.RequestsWaiting).now()
	return !known || atServers >= 1 || atGateway >= 1
}

// ready returns how many backends are ready, or how many models, of a gateway that reports that instead; readyThing is
// what it counts.
func (p *Pages) ready() Level {
	if p.readyThing() == "model" {
		return p.level(config.ModelsReady)
	}
	return p.level(config.BackendsReady)
}

func (p *Pages) readyThing() string {
	if p.level(config.BackendsReady).Now == nil && p.level(config.ModelsReady).Now != nil {
		return "model"
	}
	return "backend"
}

// had returns how many were usually ready; 0 is not known.
func (p *Pages) had() float64 {
	if usual := p.ready().Usual; usual != nil {
		return math.Round(*usual)
	}
	return 0
}

// readiness says how many are ready; "" is not known.
func (p *Pages) readiness() string {
	ready, ok := p.ready().now()
	if !ok {
		return ""
	}
	text := number(ready)
	if all, ok := p.level(config.Backends).now(); ok {
		text += " of " + number(all)
	}
	text += " " + p.readyThing() + "s of the gateway " + p.Name + " ready"
	if p.ready().Usual != nil {
		text += ", usually " + number(p.had())
	}
	return text
}

// waits returns the lines of how many requests wait in the gateway, and of its saturation.
func (p *Pages) waits() []string {
	return lines(
		p.level(config.RequestsWaiting).line("waiting requests in the gateway "+p.Name, number),
		p.level(config.Saturation).line("capacity of the backends in use, by the gateway", percent),
	)
}

// isFull reports whether requests wait in the gateway, and it takes its backends for full or has more of them than usual.
func (p *Pages) isFull() bool {
	waiting, _ := p.level(config.RequestsWaiting).now()
	saturation, known := p.level(config.Saturation).now()
	return waiting >= 1 && (known && saturation >= 1 || p.level(config.RequestsWaiting).isMore())
}

// gatewayLines returns what the gateway of the endpoint shows, as evidence of a cause that may be there.
func (f *facts) gatewayLines() []string {
	g := f.Gateway
	if g == nil || g.Up == 0 {
		return nil
	}
	return slices.Concat(lines(g.readiness()), g.waits(), first(g.Failing), g.Trouble)
}

func matchGatewayQueue(f *facts) *match {
	if !f.isLate() && len(f.failed) == 0 || !f.isLoad() || !f.gatewayQueues() {
		return nil
	}
	m := &match{share: 1, ofLatency: true}
	if g := f.Gateway; g != nil {
		m.title = "requests wait in the queue of the gateway " + g.Name
		m.add(g.waits()...).add(g.level(config.QueueTime).line("time in the queue of the gateway", seconds), g.readiness()).add(g.Trouble...)
	}
	if len(f.failed) > 0 {
		n, _ := f.share(byLoad)
		m.ofLatency = false
		m.add(fmt.Sprintf("%d of %s: %s", n, plural(len(f.failed), "failed probe"), f.quote(f.failed[len(f.failed)-1])))
	}
	m.add(f.lateness()...).add(f.parts())
	for _, line := range f.queue() {
		m.add("at the servers: " + line)
	}
	return m
}

// gatewayQueues reports whether the queue of the gateway is what makes first tokens late: the longest part of TTFT or,
// where these are not known, half of what it has more than usual; while probes fail, and where the gateway does not show
// the time in its queue, that it is full.
func (f *facts) gatewayQueues() bool {
	if parts := f.longestParts(); len(parts) > 0 && len(f.lateTTFT) > 0 {
		return page.TTFTPartNames()[parts[0]] == page.PartGatewayQueue
	}
	g := f.Gateway
	if g == nil || g.Up == 0 {
		return false
	}
	if queue := g.level(config.QueueTime); len(f.lateTTFT) > 0 && queue.Now != nil {
		return isMostOf(queue, f.lateTTFT[0].Level)
	}
	return g.isFull()
}

// isMostOf reports whether a part is at least half of what a latency has more than usual, or of all of it where it is
// not known what is usual.
func isMostOf(part, late Level) bool {
	now, ok := part.now()
	if !ok || late.Now == nil || now < *late.Now/4 {
		return false
	}
	if part.Usual != nil && late.Usual != nil && *late.Now > *late.Usual {
		return now-*part.Usual >= (*late.Now-*late.Usual)/2
	}
	return now >= *late.Now/2
}

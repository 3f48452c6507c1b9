package fleet

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// ttftParts divides the time to first token of the probes of an endpoint by what the pages
// of its servers and of its gateway show. It is safe for concurrent use.
type ttftParts struct {
	endpoint string
	split    page.TTFTSplit
	servers  *collector.Servers
	board    *status.Board
	gateway  atomic.Pointer[explain.Gateway] // in front of the servers; nil is none
}

// Observe implements Observer. Bursts are no probes, and scoring has no first token.
func (p *ttftParts) Observe(o *Observation) {
	if o.Concurrency == 0 && o.Kind != api.Scoring {
		p.split.Observe(o.Result, o.Timed())
		p.publish()
	}
}

// disturbed begins again, as the pages count requests that are not as probes are.
func (p *ttftParts) disturbed() {
	if p != nil {
		p.split.Restart()
	}
}

// read takes in the pages of the servers, and the latest ones of the gateway.
func (p *ttftParts) read(statuses []page.Status) {
	p.split.ReadServers(page.NewTotal(statuses))
	if g := p.gateway.Load(); g != nil {
		p.readGateway(g.Latest())
	}
	p.publish()
}

// readGateway takes in the pages of the gateway. A reading that was taken in before changes
// nothing.
func (p *ttftParts) readGateway(statuses []page.Status) {
	if all := page.NewTotal(statuses); all != nil {
		p.split.ReadGateway(all)
	}
}

// front returns the gateway in front of the endpoint; nil is none.
func (p *ttftParts) front() *explain.Gateway {
	if p == nil {
		return nil
	}
	return p.gateway.Load()
}

// evidence returns the parts that are known, the longest first, in the terms of the rules.
func (p *ttftParts) evidence(now time.Time) []explain.Part {
	if p == nil {
		return nil
	}
	parts := p.split.Parts(now)
	if parts == nil {
		return nil
	}
	var all []explain.Part
	for i, name := range page.TTFTPartNames() {
		if v := parts.Seconds[i]; v != nil {
			all = append(all, explain.Part{Name: string(name), Seconds: *v})
		}
	}
	slices.SortStableFunc(all, func(a, b explain.Part) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return all
}

// publish shows the parts by now.
func (p *ttftParts) publish() {
	parts := p.split.Parts(time.Now())
	p.servers.SetTTFTParts(p.endpoint, parts)
	p.board.SetTTFTParts(p.endpoint, parts)
}

package fleet

import (
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

// now returns the parts by now; nil where they are not known.
func (p *ttftParts) now(at time.Time) *page.TTFTParts {
	if p == nil {
		return nil
	}
	return p.split.Parts(at)
}

// publish shows the parts by now.
func (p *ttftParts) publish() {
	parts := p.split.Parts(time.Now())
	p.servers.SetTTFTParts(p.endpoint, parts)
	p.board.SetTTFTParts(p.endpoint, parts)
}

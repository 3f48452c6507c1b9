package fleet

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/estimate"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// ttftParts divides the time to first token of the probes of an endpoint by what the pages
// of its servers and of its gateway show. It is safe for concurrent use.
type ttftParts struct {
	endpoint string
	split    estimate.TTFTSplit
	servers  *collector.Servers
	board    *status.Board
	gateway  atomic.Pointer[gateway] // in front of the servers; nil is none
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
	var servers []string
	for i := range statuses {
		if statuses[i].Snapshot != nil {
			servers = append(servers, statuses[i].Server)
		}
	}
	slices.Sort(servers)
	p.split.ReadServers(readAtOf(statuses), servers, totalOf(statuses, config.QueueTime), totalOf(statuses, config.PrefillTime))
	if g := p.gateway.Load(); g != nil {
		p.readGateway(g.latest())
	}
	p.publish()
}

// readGateway takes in the pages of the gateway. A reading that was taken in before changes
// nothing.
func (p *ttftParts) readGateway(statuses []page.Status) {
	all := page.NewGatewaySnapshot(statuses)
	if all == nil {
		return
	}
	var queue *estimate.Total
	if h := all.Histograms[config.QueueTime]; h != nil {
		queue = &estimate.Total{Count: h.Count, Sum: h.Sum}
	}
	p.split.ReadGateway(readAtOf(statuses), all.Pages, queue)
}

// readAtOf returns when the first of the pages was received.
func readAtOf(statuses []page.Status) (at time.Time) {
	for i := range statuses {
		if s := statuses[i].Snapshot; s != nil && (at.IsZero() || s.At.Before(at)) {
			at = s.At
		}
	}
	return at
}

// totalOf adds up a histogram over all servers that were read; nil where one of them
// lacks it.
func totalOf(statuses []page.Status, q config.Quantity) *estimate.Total {
	var total *estimate.Total
	for i := range statuses {
		s := statuses[i].Snapshot
		if s == nil {
			continue
		}
		h := s.Histograms[q]
		if h == nil {
			return nil
		}
		if total == nil {
			total = new(estimate.Total)
		}
		total.Count += h.Count
		total.Sum += h.Sum
	}
	return total
}

// front returns the gateway in front of the endpoint; nil is none.
func (p *ttftParts) front() *gateway {
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
	for i, name := range estimate.TTFTPartNames() {
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

package fleet

import (
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/engine"
	"github.com/inference-exporter/inference_exporter/estimate"
	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/status"
)

// ttftParts divides the time to first token of the probes of an endpoint by what the pages
// of its servers and of its gateway show. It is safe for concurrent use.
type ttftParts struct {
	endpoint string
	split    estimate.TTFTSplit
	servers  *collector.Servers
	board    *status.Board
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

// read takes in the pages of the servers.
func (p *ttftParts) read(statuses []engine.Status) {
	at, servers := time.Time{}, []string(nil)
	for i := range statuses {
		if s := statuses[i].Snapshot; s != nil {
			servers = append(servers, statuses[i].Server)
			if at.IsZero() || s.At.Before(at) {
				at = s.At
			}
		}
	}
	slices.Sort(servers)
	p.split.ReadServers(at, servers, totalOf(statuses, config.QueueTime), totalOf(statuses, config.PrefillTime))
	p.publish()
}

// totalOf adds up a histogram over all servers that were read; nil where one of them
// lacks it.
func totalOf(statuses []engine.Status, q config.Quantity) *estimate.Total {
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

// publish shows the parts by now.
func (p *ttftParts) publish() {
	parts := p.split.Parts(time.Now())
	p.servers.SetTTFTParts(p.endpoint, parts)
	p.board.SetTTFTParts(p.endpoint, parts)
}

package page

import (
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// TTFTWindow is the longest time that TTFTParts is about.
const TTFTWindow = 5 * time.Minute

const (
	// ttftStarts is how many readings of a page are kept as possible starts of the window; those in between
	// are left out.
	ttftStarts = 10
	// minTTFTProbes is the fewest probes whose time is divided, and maxTTFTProbes how many are kept. More make
	// the window shorter.
	minTTFTProbes, maxTTFTProbes = 3, 256
	// ttftExcess is by how much, as a share of TTFT, the parts may exceed it and still be taken for a division
	// of it: what the edges of the window account for.
	ttftExcess = 0.05
)

// TTFTPart is a part of the time to first token of a client. The set is closed: it is a label value.
type TTFTPart string

// PartGatewayQueue is the time in the queue of the gateway.
const PartGatewayQueue TTFTPart = "gateway_queue"

// Indexes of the parts in TTFTParts, in the order of a request; all before the rest are measured.
const (
	ttftNetwork = iota // a round trip to the address of the endpoint
	ttftGatewayQueue
	ttftEngineQueue
	ttftPrefill // from there to the first token
	ttftRest    // what no other part accounts for
	numTTFTParts
)

// TTFTPartNames lists the closed set, in the order of TTFTParts.Seconds.
func TTFTPartNames() []TTFTPart {
	return []TTFTPart{"network", PartGatewayQueue, "engine_queue", "prefill", "rest"}
}

// TTFTParts is where the mean time to first token of probes went, a fact of the endpoint. It is never changed once made.
type TTFTParts struct {
	workload.NoFigures
	// TTFT is the mean of the probes in seconds, Probes how many there were and Span in how long a time.
	TTFT   float64
	Probes int
	Span   time.Duration
	// Seconds are the parts, in the order of TTFTPartNames; nil is not known, and then contained in the rest.
	// They add up to TTFT.
	Seconds [numTTFTParts]*float64
	// Requests is how many requests the means of the pages are of, the probes among them; 0 where no page is used.
	Requests uint64
	// Excess is by how many seconds the pages' means and the network exceed TTFT: those of other requests,
	// which then say nothing of the probes. All parts are unknown then; 0 else.
	Excess float64
}

// MarshalJSON writes the parts as the API has them, by name and without those that are not known.
func (p *TTFTParts) MarshalJSON() ([]byte, error) {
	parts := map[TTFTPart]float64{}
	for i, name := range TTFTPartNames() {
		if v := p.Seconds[i]; v != nil {
			parts[name] = *v
		}
	}
	type object struct {
		TTFT     float64              `json:"ttft_seconds"`
		Probes   int                  `json:"probes"`
		Span     float64              `json:"window_seconds"`
		Requests uint64               `json:"requests,omitempty"`
		Parts    map[TTFTPart]float64 `json:"parts,omitempty"`
		Excess   float64              `json:"excess_seconds,omitempty"`
	}
	return json.Marshal(map[string]object{"ttft_parts": {p.TTFT, p.Probes, p.Span.Seconds(), p.Requests, parts, p.Excess}})
}

// TTFTFact is where the time to first token of probes went, with its metric.
func TTFTFact() workload.Fact {
	return workload.FactOf[*TTFTParts](workload.Metric{
		Name: "endpoint_ttft_part_seconds", Values: config.Texts(TTFTPartNames()),
		Value: workload.Of(func(p *TTFTParts, i int) float64 { return workload.Known(p.Seconds[i]) }),
	})
}

// TTFTSplit divides the time to first token of the probes of one endpoint, by what the pages of its servers and of
// its gateway show in the same time. The zero value is ready. It is safe for concurrent use.
type TTFTSplit struct {
	mu     sync.Mutex
	model  string               // of the probes
	probes []splitProbe         // the oldest first
	pages  *[ttftRest]pageMeans // by part; nil until a page shows one of them
}

// splitProbe is a probe that succeeded; times in seconds.
type splitProbe struct {
	at    time.Time // of its end
	ttft  float32
	own   [ttftRest]float32 // what its connection and its reply say of the parts; negative is not known
	timed bool              // its latencies count
}

// pageMeans is one histogram of all servers, or of all replicas of a gateway, together.
type pageMeans struct {
	servers []string // of the latest reading
	starts  []pageTotal
	last    pageTotal
}

// pageTotal is how many observations a histogram had at a time, and their sum.
type pageTotal struct {
	at    time.Time
	count uint64
	sum   float64
}

// Observe adds a probe of the endpoint. One that is not timed counts as a request alone. Another model begins again.
func (s *TTFTSplit) Observe(r *result.Result, timed bool) {
	if r.Outcome != result.Success || r.Timing.TTFT < 0 || r.Timing.Duration < 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Model != "" && r.Model != s.model {
		s.model, s.probes, s.pages = r.Model, nil, nil
	}
	if s.pages == nil && r.Server.Queue < 0 && r.Server.Prefill < 0 {
		return // there is nothing to divide by
	}
	p := splitProbe{
		at: r.Start.Add(r.Timing.Duration), ttft: seconds32(r.Timing.TTFT), timed: timed && !r.Imprecise,
		own: [ttftRest]float32{-1, -1, seconds32(r.Server.Queue), seconds32(r.Server.Prefill)},
	}
	if !r.Reused {
		p.own[ttftNetwork] = seconds32(r.Timing.Phases[result.PhaseConnect])
	}
	s.probes = stats.AppendLatest(s.probes, p, maxTTFTProbes)
}

func seconds32(d time.Duration) float32 {
	if d < 0 {
		return -1
	}
	return float32(d.Seconds())
}

// Read takes in how long requests waited at the servers and how long their prefill took, by the pages of all
// servers, and how long they waited at the gateway, by those of its replicas; nil where none was read. A
// gateway whose pages were taken in before changes nothing.
func (s *TTFTSplit) Read(servers, gateway *Total) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read(ttftEngineQueue, servers, config.QueueTime)
	s.read(ttftPrefill, servers, config.PrefillTime)
	if gateway != nil {
		s.read(ttftGatewayQueue, gateway, config.QueueTime)
	}
}

// read takes in a distribution of all pages, or that one of them lacks it.
func (s *TTFTSplit) read(part int, all *Total, q config.Quantity) {
	var h *Histogram
	if all != nil {
		h = all.Histograms[q]
	}
	if s.pages == nil && h != nil {
		s.pages = new([ttftRest]pageMeans)
	}
	if s.pages != nil {
		s.pages[part].read(all, h)
	}
}

// Restart forgets the readings and the probes: as after a burst, which the pages count and no probe is like.
func (s *TTFTSplit) Restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probes, s.pages = nil, nil
}

// read adds a reading. Where the servers are others than before, or one was restarted, the window begins again.
func (p *pageMeans) read(all *Total, h *Histogram) {
	if h == nil || len(all.Servers) == 0 {
		*p = pageMeans{}
		return
	}
	next := pageTotal{all.At, h.Count, h.Sum}
	if !slices.Equal(p.servers, all.Servers) || next.count < p.last.count || next.sum < p.last.sum {
		p.servers, p.starts = slices.Clone(all.Servers), nil
	}
	p.last = next
	p.starts = stats.DropOld(p.starts, func(o pageTotal) bool { return all.At.Sub(o.at) > TTFTWindow })
	if n := len(p.starts); n == 0 || all.At.Sub(p.starts[n-1].at) >= TTFTWindow/ttftStarts {
		p.starts = append(p.starts, next)
	}
}

// since returns the mean from a time to the latest reading, and over how many requests; NaN of none, or where
// it is not known. It begins with the latest reading that is not after that time.
func (p *pageMeans) since(from time.Time) (mean float64, requests uint64) {
	start := p.last
	for _, s := range p.starts {
		if !s.at.After(from) {
			start = s
		}
	}
	requests = p.last.count - start.count
	return max(0, p.last.sum-start.sum) / float64(requests), requests
}

// window returns the time that all pages and the probes are about, and forgets what is older.
func (s *TTFTSplit) window(now time.Time) (from, until time.Time) {
	from, until = now.Add(-TTFTWindow), now
	s.probes = stats.DropOld(s.probes, func(p splitProbe) bool { return p.at.Before(from) })
	if s.pages == nil {
		return from, until
	}
	for i := range s.pages {
		p := &s.pages[i]
		switch {
		case len(p.starts) == 0:
			continue
		case p.last.at.Before(from):
			*p = pageMeans{} // nothing reads it any more
			continue
		}
		if first := p.starts[0].at; first.After(from) {
			from = first
		}
		if p.last.at.Before(until) {
			until = p.last.at
		}
	}
	return from, until
}

// Parts returns the parts by now; nil where too few probes, or nothing but the network, are known.
func (s *TTFTSplit) Parts(now time.Time) *TTFTParts {
	s.mu.Lock()
	defer s.mu.Unlock()
	from, until := s.window(now)
	all, ttft := 0, 0.0
	var timed []splitProbe
	for _, p := range s.probes {
		if !p.at.After(from) || p.at.After(until) {
			continue
		}
		if all++; p.timed {
			timed, ttft = append(timed, p), ttft+float64(p.ttft)
		}
	}
	if len(timed) < minTTFTProbes {
		return nil
	}
	out := &TTFTParts{TTFT: ttft / float64(len(timed)), Probes: len(timed), Span: until.Sub(from)}
	known := false
	for part := range ttftRest {
		sum, n := 0.0, 0
		for _, p := range timed {
			if v := p.own[part]; v >= 0 {
				sum, n = sum+float64(v), n+1
			}
		}
		switch {
		case n == len(timed), n > 0 && part == ttftNetwork:
			out.Seconds[part] = new(sum / float64(n))
		case s.pages != nil:
			// Where the page counted fewer requests, probes went elsewhere.
			if mean, requests := s.pages[part].since(from); requests >= uint64(all) {
				out.Seconds[part], out.Requests = new(mean), max(out.Requests, requests)
			}
		}
		known = known || part != ttftNetwork && out.Seconds[part] != nil
	}
	if !known {
		return nil
	}
	out.close()
	return out
}

// close sets the rest. Parts that exceed the whole by little are scaled down to it; by more they are not parts of
// it.
func (p *TTFTParts) close() {
	sum := 0.0
	for _, v := range p.Seconds {
		if v != nil {
			sum += *v
		}
	}
	switch {
	case sum <= p.TTFT:
		p.Seconds[ttftRest] = new(p.TTFT - sum)
	case sum <= p.TTFT*(1+ttftExcess):
		for i, v := range p.Seconds {
			if v != nil {
				p.Seconds[i] = new(*v * p.TTFT / sum)
			}
		}
		p.Seconds[ttftRest] = new(float64)
	default:
		p.Seconds, p.Excess = [numTTFTParts]*float64{}, sum-p.TTFT
	}
}

package fleet

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/internal/explain"
)

// causesAge is how old the causes of all endpoints may be that one is compared with.
const causesAge = 5 * time.Second

// explainer explains the states of endpoints by what is kept of them. It is safe for
// concurrent use.
type explainer struct {
	*Options
	members atomic.Pointer[map[string]*memory] // by endpoint

	mu     sync.Mutex // held while causes are found
	at     time.Time  // when they were
	shared map[string]*explain.Shared
	top    map[string]explain.Cause // of endpoints that are not up
}

func newExplainer(o *Options) *explainer {
	x := &explainer{Options: o}
	x.members.Store(&map[string]*memory{})
	return x
}

// use sets the endpoints.
func (x *explainer) use(members map[string]*member) {
	all := make(map[string]*memory, len(members))
	for name, m := range members {
		all[name] = m.memory
	}
	x.members.Store(&all)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.at = time.Time{}
}

// endpointState is the state of an endpoint and when it began; "" is not known.
type endpointState struct {
	state explain.State
	since time.Time
}

// states returns those of all endpoints.
func (x *explainer) states() map[string]endpointState {
	all := map[string]endpointState{}
	for _, row := range x.Board.Fleet().Endpoints {
		all[row.Name] = endpointState{explain.State(row.State), time.UnixMilli(int64(row.Since * 1e3))}
	}
	return all
}

// explain returns what is known of an endpoint; false without one of this name.
func (x *explainer) explain(name string) (*explain.Report, bool) {
	m := (*x.members.Load())[name]
	if m == nil {
		return nil, false
	}
	now := time.Now()
	states := x.states()
	x.update(now, states)
	s := states[name]
	e := m.evidence(s, now, x.Board.Usual, x.gpuSnapshot())
	x.mu.Lock()
	e.Common = x.shared[name]
	x.mu.Unlock()
	return explained(e), true
}

// explained returns the report of evidence.
func explained(e *explain.Evidence) *explain.Report {
	r := &explain.Report{At: unixSeconds(e.At), Endpoint: e.Endpoint, State: string(e.State), Findings: explain.Explain(e)}
	if !e.Since.IsZero() {
		r.Since = unixSeconds(e.Since)
	}
	return r
}

// unixSeconds returns t as a Unix time in seconds, exact to a millisecond.
func unixSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1e3 }

func (x *explainer) gpuSnapshot() *gpu.Snapshot {
	if x.GPUs == nil {
		return nil
	}
	return x.GPUs()
}

// update finds the causes of all endpoints that are not up, and what they have in common,
// unless that is recent.
func (x *explainer) update(now time.Time, states map[string]endpointState) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if now.Sub(x.at) < causesAge && !now.Before(x.at) {
		return
	}
	x.at = now
	gpus := x.gpuSnapshot()
	var peers []explain.Peer
	top := map[string]explain.Cause{}
	for name, m := range *x.members.Load() {
		s := states[name]
		p := explain.Peer{Endpoint: name, Since: s.since, Factors: factorsOf(m.endpoint)}
		switch s.state {
		case "", explain.Waiting:
		case explain.Up:
			p.Cause = explain.Healthy
		default:
			p.Cause = explain.Explain(m.evidence(s, now, x.Board.Usual, gpus))[0].Cause
			top[name] = p.Cause
		}
		peers = append(peers, p)
	}
	slices.SortFunc(peers, func(a, b explain.Peer) int { return strings.Compare(a.Endpoint, b.Endpoint) })
	x.shared = explain.InCommon(peers)
	for name := range x.shared {
		top[name] = explain.Common
	}
	x.top = top
}

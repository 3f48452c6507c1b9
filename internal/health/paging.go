package health

import (
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/series"
)

// Kind is what is wrong in an incident that pages. The set is closed: it is a label value.
type Kind string

// The kinds.
const (
	KindDown    Kind = "down"    // no success for two minutes, or that twice in a row
	KindFailing Kind = "failing" // the availability objective is missed
	KindTTFT    Kind = "ttft"    // this objective is missed
	KindTPOT    Kind = "tpot"
)

// Kinds lists the closed set, the worst first.
func Kinds() []Kind { return []Kind{KindDown, KindFailing, KindTTFT, KindTPOT} }

func (k Kind) isWorse(than Kind) bool {
	return slices.Index(Kinds(), k) < slices.Index(Kinds(), than)
}

// Paging is an incident that is certain, and bad enough to wake someone. It is never changed.
type Paging struct {
	// Kind only gets worse, and Start stays: that of the first bad probe.
	Kind  Kind      `json:"kind"`
	Start time.Time `json:"start"`
	// Scope is what the endpoint shared with others when the incident began to page, as in
	// "host gpu-3", until its end. It is "" until SetScope, which comes at once.
	Scope string `json:"scope,omitempty"`
	// Witness is who saw it so far, and Why what changed for users; "" is not known.
	Witness Witness `json:"witness,omitempty"`
	Why     string  `json:"why,omitempty"`
}

// Means says for people in a few words where the fault is, by who saw it; "" is not known.
func (p *Paging) Means() string {
	text := p.Witness.means()
	if p.Witness == Users && p.Why != "" {
		text += ": " + p.Why
	}
	return text
}

func (p *Paging) isSane(now time.Time) bool {
	return slices.Contains(Kinds(), p.Kind) && !p.Start.IsZero() && !p.Start.After(now)
}

const (
	// pageAfter is for how long at least probes are bad in an incident of failures that pages, which is longer than
	// most servers need to restart: two minutes, less what a probe may be late.
	pageAfter = 2*time.Minute - 5*time.Second
	// rowChance is how likely failures in a row may be by chance that make an incident worse in which some probes succeeded.
	rowChance = 0.001
	// flappingAfter is for how long an endpoint is away twice in a row that flaps.
	flappingAfter = 90 * time.Second
)

// page finds whether there is an incident that pages, which lasts until the endpoint is up.
func (e *Endpoint) page() {
	if e.failing == nil && e.slow == nil && len(e.usersIncidents()) == 0 {
		if p := e.paging; p != nil && p.Scope != "" {
			e.logger().Info("incident ended", "incident", string(p.Kind), "scope", p.Scope, "witness", string(p.Witness), "since", p.Start.UTC(), "duration", e.up.Sub(p.Start).Round(time.Second))
		}
		e.paging = nil
		return
	}
	e.pageFor(Probes, e.certain)
	e.pageFor(Users, e.certainOfUsers)
	if e.paging != nil && e.paging.Witness == Probes && e.areUsersWell(e.paging.Kind) {
		e.paging = new(*e.paging)
		e.paging.Witness = ProbesOnly
	}
}

// pageFor takes what a witness is certain of.
func (e *Endpoint) pageFor(w Witness, certain func() (Kind, time.Time)) {
	kind, start := certain()
	if kind == "" {
		return
	}
	if e.paging == nil {
		e.paging = &Paging{Kind: kind, Start: start, Witness: w}
	}
	next := *e.paging
	if kind.isWorse(next.Kind) {
		next.Kind = kind
	}
	if next.Witness != w && (next.Witness != ProbesOnly || w == Users) {
		next.Witness = Both
	}
	if i := e.usersOf(kind); w == Users && i != nil {
		next.Why = i.Text
	}
	if next != *e.paging {
		e.paging = &next
	}
}

// certain returns what is certain by now and pages, and when that began; "" is nothing.
func (e *Endpoint) certain() (Kind, time.Time) {
	if i := e.failing; i != nil {
		paged := e.paging != nil && e.paging.Kind == KindFailing // some of whose failures come in a row by chance
		switch {
		case e.down && i.Latest.Sub(i.Row) >= pageAfter && !(paged && i.mayFail(e.streak)), i.Flaps && !paged:
			return KindDown, i.Begin
		case e.down || !i.Promised: // a server that restarts fails as well
		case paged:
			return KindFailing, i.Begin
		case i.Latest.Sub(e.clusterBegin()) >= pageAfter:
			e.backdate()
			return KindFailing, i.Begin
		}
	}
	if e.slow != nil && e.slow.Missed.Has(series.TTFT) {
		return KindTTFT, e.slow.Begin
	}
	if e.slow != nil && e.slow.Missed.Has(series.TPOT) {
		return KindTPOT, e.slow.Begin
	}
	return "", time.Time{}
}

// mayFail reports whether chance explains so many failures in a row of an endpoint that fails as often as before them: at most
// maxCleanRun of them.
func (i *Incident) mayFail(inRow int) bool {
	bad, of := i.Bad-inRow, i.Probes-inRow // what the server asked to leave out is in a row only
	return bad > 0 && inRow < maxCleanRun && math.Pow(float64(bad)/float64(of), float64(inRow)) >= rowChance
}

// clusterBegin returns when the failures began that are more than chance, or the incident if that was earlier.
func (e *Endpoint) clusterBegin() time.Time {
	first := e.failing.Begin
	for _, m := range e.modules {
		if of := m.Evidence[series.Availability]; of != nil && of.Raised && of.First.Before(first) {
			first = of.First
		}
	}
	return first
}

// backdate has the incident begin with the first of the failures that are more than chance. Those that came in a row by chance were
// incidents before.
func (e *Endpoint) backdate() {
	e.failing.Begin = e.clusterBegin()
	for i := lastFailing(e.past); i >= 0 && e.failing.Begin.Sub(e.past[i].End) <= clusterGap; i = lastFailing(e.past) {
		first := e.failing.Begin
		*e.failing = e.past[i].with(e.failing)
		if first.Before(e.failing.Begin) {
			e.failing.Begin = first
		}
		e.past = slices.Delete(e.past, i, i+1)
	}
}

// SetScope completes an incident that began to page; that of one that has a scope stays.
func (e *Endpoint) SetScope(scope string) {
	now := e.shared.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.paging == nil || e.paging.Scope != "" {
		return
	}
	next := *e.paging
	next.Scope = scope
	e.paging = &next
	e.logger().Warn("incident pages", "incident", string(next.Kind), "scope", scope, "witness", string(next.Witness), "since", next.Start.UTC())
	e.refresh(now)
}

// clusters reports whether an incident that pages for some failures has had one lately, with which others would make a cluster.
func (e *Endpoint) clusters() bool {
	return e.paging != nil && e.paging.Kind == KindFailing && e.last.Sub(e.failing.Latest) <= clusterGap
}

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
	if e.Failing == nil && e.Slow == nil && len(e.raised()) == 0 {
		if p := e.Paging; p != nil && p.Scope != "" {
			e.logger().Info("incident ended", "incident", string(p.Kind), "scope", p.Scope, "witness", string(p.Witness), "since", p.Start.UTC(), "duration", e.Up.Sub(p.Start).Round(time.Second))
		}
		e.Paging = nil
		return
	}
	e.pageFor(Probes, e.certain)
	e.pageFor(Users, e.certainOfUsers)
	if e.Paging != nil && e.Paging.Witness == Probes && e.areUsersWell(e.Paging.Kind) {
		e.Paging = new(*e.Paging)
		e.Paging.Witness = ProbesOnly
	}
}

// pageFor takes what a witness is certain of.
func (e *Endpoint) pageFor(w Witness, certain func() (Kind, time.Time)) {
	kind, start := certain()
	if kind == "" {
		return
	}
	if e.Paging == nil {
		e.Paging = &Paging{Kind: kind, Start: start, Witness: w}
	}
	next := *e.Paging
	if kind.isWorse(next.Kind) {
		next.Kind = kind
	}
	if next.Witness != w && (next.Witness != ProbesOnly || w == Users) {
		next.Witness = Both
	}
	if i := e.usersOf(kind); w == Users && i != nil {
		next.Why = i.Text
	}
	if next != *e.Paging {
		e.Paging = &next
	}
}

// certain returns what is certain by now and pages, and when that began; "" is nothing.
func (e *Endpoint) certain() (Kind, time.Time) {
	if i := e.Failing; i != nil {
		paged := e.Paging != nil && e.Paging.Kind == KindFailing // some of whose failures come in a row by chance
		switch {
		case e.Down && i.Latest.Sub(i.Row) >= pageAfter && !(paged && i.mayFail(e.Streak)), i.Flaps && !paged:
			return KindDown, i.Begin
		case e.Down || !i.Promised: // a server that restarts fails as well
		case paged:
			return KindFailing, i.Begin
		case i.Latest.Sub(e.clusterBegin()) >= pageAfter:
			e.backdate()
			return KindFailing, i.Begin
		}
	}
	if e.Slow != nil && e.Slow.Missed.Has(series.TTFT) {
		return KindTTFT, e.Slow.Begin
	}
	if e.Slow != nil && e.Slow.Missed.Has(series.TPOT) {
		return KindTPOT, e.Slow.Begin
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
	first := e.Failing.Begin
	for _, m := range e.Modules {
		if of := m.Evidence[series.Availability]; of != nil && of.Raised && of.First.Before(first) {
			first = of.First
		}
	}
	return first
}

// backdate has the incident begin with the first of the failures that are more than chance. Those that came in a row by chance were
// incidents before.
func (e *Endpoint) backdate() {
	e.Failing.Begin = e.clusterBegin()
	for i := lastFailing(e.Past); i >= 0 && e.Failing.Begin.Sub(e.Past[i].End) <= clusterGap; i = lastFailing(e.Past) {
		first := e.Failing.Begin
		*e.Failing = e.Past[i].with(e.Failing)
		if first.Before(e.Failing.Begin) {
			e.Failing.Begin = first
		}
		e.Past = slices.Delete(e.Past, i, i+1)
	}
}

// SetScope completes an incident that began to page; that of one that has a scope stays.
func (e *Endpoint) SetScope(scope string) {
	now := e.lock()
	defer e.mu.Unlock()
	if e.Paging == nil || e.Paging.Scope != "" {
		return
	}
	p := new(*e.Paging)
	p.Scope, e.Paging = scope, p
	e.logger().Warn("incident pages", "incident", string(p.Kind), "scope", scope, "witness", string(p.Witness), "since", p.Start.UTC())
	e.refresh(now)
}

// clusters reports whether an incident that pages for some failures has had one lately, with which others would make a cluster.
func (e *Endpoint) clusters() bool {
	return e.Paging != nil && e.Paging.Kind == KindFailing && e.Last.Sub(e.Failing.Latest) <= clusterGap
}

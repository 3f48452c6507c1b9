package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Factor is what endpoints can have in common, of one of Kinds.
type Factor struct {
	Kind  string `json:"kind"`
	Value string `json:"value"`
}

// String returns a factor as people say it, as in "host gpu-3".
func (f Factor) String() string { return strings.TrimSpace(f.Kind + " " + f.Value) }

// Explains reports whether endpoints with the factor may all fail with a cause for it: a key has to do with few.
func (f Factor) Explains(c Cause) bool {
	return f.Kind != "key" || c == Credentials || c == Quota
}

// Kinds returns the kinds of factors, those that say more first. Kinds that are names of labels are taken from the
// labels of the endpoints.
func Kinds() []string {
	return []string{
		"gateway", "gpu", "host", "node", "rack", "cluster", "zone", "availability_zone", "region", "location", "datacenter", "domain", "key",
	}
}

// Everything is the kind of factor of endpoints that have nothing in common but this exporter.
const Everything = "exporter"

// Peer is one of all endpoints, as far as others are compared with it.
type Peer struct {
	Endpoint string
	// Cause is that of the endpoint alone; Healthy while it is up, "" while nothing is known of it.
	Cause Cause
	Since time.Time
	// Well is when the latest probe started that succeeded; zero is never.
	Well    time.Time
	Factors []Factor
}

// wellUntil returns until when an endpoint was well that fails; zero where that is not known, or it is well now and then.
func (p *Peer) wellUntil() time.Time {
	if p.Well.After(p.Since) {
		return time.Time{}
	}
	return p.Well
}

// Shared is what endpoints that fail at once have in common.
type Shared struct {
	Factor
	// Cause is that of each of them alone.
	Cause Cause `json:"cause"`
	// Endpoints fail, sorted; All is how many have the factor. Outside is how many others there are, OutsideFailing
	// how many of those fail in the same way since the same time, but not since these were well.
	Endpoints      []string `json:"endpoints"`
	All            int      `json:"all"`
	Outside        int      `json:"outside"`
	OutsideFailing int      `json:"outside_failing"`

	first, last time.Time // when the first and the last of them began to fail
	// well is until when all of them were well.
	well time.Time
}

const (
	// together is how far apart endpoints may begin to fail that fail at once.
	together = 10 * time.Minute
	// apart is for how long another one must have failed while all of these were well, to fail for something else: what
	// ails all of them shows a little later with some, as where addresses are kept.
	apart = 2 * time.Minute
	// mostly is the share of the endpoints with a factor that must fail.
	mostly = 0.8
)

// fewest returns how many endpoints that fail at once are no chance.
func (f Factor) fewest() int {
	if isMachine(f.Kind) {
		return 2
	}
	return 3
}

// isBetter reports whether what endpoints have in common says more of those of both than something else: what is more
// general only if it has clearly more of them.
func (s *Shared) isBetter(than *Shared) bool {
	rank := append(Kinds(), Everything)
	mine, others := float64(len(s.Endpoints)), float64(len(than.Endpoints))
	if slices.Index(rank, s.Kind) < slices.Index(rank, than.Kind) {
		return mine >= mostly*others
	}
	return mostly*mine > others
}

// classOf returns what a cause looks like to several endpoints: "" is one that they cannot have in common.
func classOf(c Cause) Cause {
	switch c {
	case Network, ProcessGone, GatewayLost:
		return Network
	case "", Healthy, Unknown, SharedCause, ExporterBusy, ProbesThrottled, KeyMissing, ModelChanged:
		return ""
	}
	return c
}

// isMachine reports whether a factor of a kind is one machine: two endpoints of it do not fail at once by chance.
func isMachine(kind string) bool {
	return slices.Contains([]string{"gateway", "gpu", "host", "node"}, kind)
}

// InCommon returns for endpoints that fail at once what they have in common, by their names.
func InCommon(peers []Peer) map[string]*Shared {
	var all []*Peer // of which something is known
	byFactor := map[Factor][]*Peer{}
	failing := map[Cause][]*Peer{}
	for i := range peers {
		p := &peers[i]
		if p.Cause == "" {
			continue
		}
		all = append(all, p)
		for _, f := range p.Factors {
			byFactor[f] = append(byFactor[f], p)
		}
		failing[classOf(p.Cause)] = append(failing[classOf(p.Cause)], p)
	}
	found := map[string]*Shared{}
	keep := func(s *Shared) {
		for _, name := range s.Endpoints {
			if old := found[name]; old == nil || s.isBetter(old) {
				found[name] = s
			}
		}
	}
	compare := func(a, b Factor) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Value, b.Value))
	}
	for _, factor := range slices.SortedFunc(maps.Keys(byFactor), compare) {
		for _, s := range sharedBy(factor, byFactor[factor]) {
			s.Outside = len(all) - s.All
			s.OutsideFailing = -len(s.Endpoints)
			for _, p := range failing[classOf(s.Cause)] {
				if !p.Since.Before(s.last.Add(-together)) && !p.Since.After(s.first.Add(together)) && !s.well.After(p.Since.Add(apart)) {
					s.OutsideFailing++
				}
			}
			// What all endpoints have in common, as a label of the exporter's own place, says nothing of them
			// unless it is a machine.
			if float64(s.OutsideFailing) <= float64(s.Outside)/2 && (s.Outside > 0 || isMachine(s.Kind)) {
				keep(s)
			}
		}
	}
	// What most of all endpoints fail with at once that have nothing else in common is on this side, unless a server
	// says it.
	for _, s := range sharedBy(Factor{Kind: Everything}, all) {
		if !slices.Contains([]Cause{Request, Quota, Loading, ServerError, AnswersBroken}, s.Cause) {
			keep(s)
		}
	}
	left := map[*Shared]int{} // that nothing better explains
	for _, s := range found {
		left[s]++
	}
	maps.DeleteFunc(found, func(_ string, s *Shared) bool { return left[s] < s.fewest() })
	return found
}

// sharedBy returns what the endpoints with a factor fail with at once, for each cause that most of them have.
func sharedBy(factor Factor, peers []*Peer) []*Shared {
	byClass := map[Cause][]*Peer{}
	for _, p := range peers {
		if class := classOf(p.Cause); class != "" {
			byClass[class] = append(byClass[class], p)
		}
	}
	var all []*Shared
	for _, class := range slices.Sorted(maps.Keys(byClass)) {
		failing := atOnce(byClass[class])
		if factor.Kind == Everything { // which is not at fault for one that was well while half of them failed
			half := failing[len(failing)/2].Since.Add(apart)
			failing = slices.DeleteFunc(slices.Clone(failing), func(p *Peer) bool { return p.wellUntil().After(half) })
		}
		if !factor.Explains(class) || len(failing) < factor.fewest() || float64(len(failing)) < mostly*float64(len(peers)) || isMachine(factor.Kind) && refuted(peers, failing) {
			continue
		}
		s := &Shared{Factor: factor, Cause: failing[0].Cause, All: len(peers), first: failing[0].Since, last: failing[len(failing)-1].Since}
		s.well = s.last
		for _, p := range failing {
			s.Endpoints = append(s.Endpoints, p.Endpoint)
			if p.wellUntil().Before(s.well) {
				s.well = p.wellUntil()
			}
		}
		slices.Sort(s.Endpoints)
		all = append(all, s)
	}
	return all
}

// refuted reports whether one of the endpoints of a machine was well after those that fail began to: it is not the
// machine, unless all of them were well now and then as well.
func refuted(peers, failing []*Peer) bool {
	if !slices.ContainsFunc(failing, func(p *Peer) bool { return !p.Well.After(p.Since) }) {
		return false
	}
	last := failing[len(failing)-1].Since
	return slices.ContainsFunc(peers, func(p *Peer) bool { return p.Cause == Healthy && p.Well.After(last) })
}

// atOnce returns the largest group that began to fail at the same time, in the order in which they did.
func atOnce(peers []*Peer) []*Peer {
	slices.SortFunc(peers, func(a, b *Peer) int { return a.Since.Compare(b.Since) })
	var best []*Peer
	from := 0
	for to := range peers {
		for peers[to].Since.Sub(peers[from].Since) > together {
			from++
		}
		if group := peers[from : to+1]; len(group) > len(best) {
			best = group
		}
	}
	return best
}

func matchCommon(f *facts) *match {
	s := f.Common
	if s == nil {
		return nil
	}
	names := strings.Join(s.Endpoints[:min(len(s.Endpoints), 6)], ", ")
	if more := len(s.Endpoints) - 6; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	m := &match{share: 1, title: fmt.Sprintf("%d endpoints fail at once, all of %s %s", len(s.Endpoints), s.Kind, s.Value), evidence: []string{
		fmt.Sprintf("%d of %d endpoints with this in common: %s", len(s.Endpoints), s.All, names),
		fmt.Sprintf("%d of %d others fail in the same way since then (%s)", s.OutsideFailing, s.Outside, s.Cause),
	}}
	if s.Kind == Everything {
		m.title = fmt.Sprintf("%d of %d endpoints fail at once, with nothing in common but this exporter", len(s.Endpoints), s.All)
		m.evidence[1] = "the cause of each alone: " + string(s.Cause)
		m.do = []string{"Look at the network, the resolver and the proxy of the exporter's own machine."}
	}
	return m
}

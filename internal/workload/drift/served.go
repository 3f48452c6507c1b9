package drift

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

const (
	// servedLearn is how many answers are looked at to know the names that are usual. With more than maxUsual of them none
	// is, and it goes on learning.
	servedLearn, maxUsual = 10, 8
	// maxNames bounds the names that are known at a time.
	maxNames = 16
	// servedPatience is how many answers in a row must be those of another model, and servedFor for how long: replicas that
	// are replaced one after the other, or a router, may name several in turns. As many of a usual one end the change.
	servedPatience, servedFor = 5, 3 * time.Minute
	// acceptedAfter is after how long another model is the usual one, and a usual one that never answers no longer is.
	acceptedAfter = 7 * 24 * time.Hour
	// pause is how long a name may be away that has answered all the time.
	pause = 24 * time.Hour
	// maxNameBytes bounds names, as the prober does.
	maxNameBytes = 1 << 10
)

// Change is that something else answers than what is usual, for as long as it does.
type Change struct {
	// Source is what it is seen by: SourceModel or SourceLogprob.
	Source Source    `json:"source,omitempty"`
	Since  time.Time `json:"since"`
	// From and To are names of the model, the usual one that answered last and the one instead; "" of a score. They are
	// texts of the server: bounded, without secrets.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
}

// Changes are those by the names of the model and by the scores of an answer that last, a fact of the endpoint; nil is none.
type Changes struct {
	workload.NoFigures
	Names  *Change `json:"-"`
	Scores *Change `json:"-"`
}

// All returns those that there are.
func (c Changes) All() []*Change {
	return slices.DeleteFunc([]*Change{c.Names, c.Scores}, func(one *Change) bool { return one == nil })
}

// ChangeFact is the kind of Changes, with its metric.
func ChangeFact() workload.Fact {
	sources := []Source{SourceModel, SourceLogprob}
	return workload.FactOf[Changes](workload.Metric{
		Name: "endpoint_model_changed_timestamp_seconds", Values: config.Texts(sources), Each: []string{"from", "to"},
		Value: workload.Of(func(c Changes, i int) float64 {
			one := c.All()[i/len(sources)]
			return workload.If(one.Source == sources[i%len(sources)], workload.Unix(one.Since))
		}),
	})
}

// Series implements workload.Several: one for each change.
func (c Changes) Series() (all [][]workload.Label) {
	for _, one := range c.All() {
		all = append(all, []workload.Label{{Name: "from", Value: one.From}, {Name: "to", Value: one.To}})
	}
	return all
}

// News implements workload.News: another model by its name, or the usual one again. A change of scores is news of its module.
func (c Changes) News(before workload.Finding, _ string) []workload.Line {
	was, _ := before.(Changes)
	switch is := c.Names; {
	case (was.Names == nil) == (is == nil):
		return nil
	case is == nil:
		return []workload.Line{{Message: "the usual model answers again", Note: "the usual model answers again"}}
	default:
		const other = "another model answers than usual"
		return []workload.Line{{Warn: true, Message: other, Note: fmt.Sprintf("%s: %s instead of %s", other, is.To, is.From), Args: []any{"model", is.To, "usual", is.From}}}
	}
}

// Served knows the names by which an endpoint usually calls its model, in lists or requests and in replies, and whether
// it uses only others. The zero value knows none. It is safe for concurrent use.
type Served struct {
	mu       sync.Mutex
	accepted []string
	asked    names
	replied  names
}

// SavedServed is what survives a restart.
type SavedServed struct {
	Asked   names `json:"asked,omitzero"`
	Replied names `json:"replied,omitzero"`
}

// Accept says which names are usual whether they were seen or not. What it accepts is no change from now on.
func (s *Served) Accept(models ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accepted = models
	s.asked.accept(models)
	s.replied.accept(models)
}

// Observe adds an answer.
func (s *Served) Observe(r *result.Result) {
	if r.Outcome != result.Success && r.Outcome != result.CheckFailed {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked.observe(r.Model, r.Start, s.accepted)
	s.replied.observe(r.Answer.Model, r.Start, s.accepted)
}

// Change returns that the model is another one than usual; nil while it is not.
func (s *Served) Change() *Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked.Change != nil {
		return s.asked.Change
	}
	return s.replied.Change
}

// Save returns what survives a restart; nil is nothing.
func (s *Served) Save() *SavedServed {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked.All == nil && s.replied.All == nil {
		return nil
	}
	return &SavedServed{s.asked.clone(), s.replied.clone()}
}

// Restore takes up what Save returned. What cannot be true changes nothing, and is an error.
func (s *Served) Restore(saved *SavedServed, now time.Time) error {
	if !saved.Asked.isSane(now) || !saved.Replied.isSane(now) {
		return errors.New("names of models that no answers lead to")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.replied = saved.Asked.clone(), saved.Replied.clone()
	s.asked.accept(s.accepted)
	s.replied.accept(s.accepted)
	return nil
}

// names are those of one kind. What it exports is what is saved.
type names struct {
	All    []named `json:"all,omitempty"`
	Looked int     `json:"looked,omitempty"` // answers while it learned
	Change *Change `json:"change,omitempty"` // never changed once made

	run   int       // answers in a row that speak for the other side
	began time.Time // the first of them
}

type named struct {
	Name  string    `json:"name"`
	First time.Time `json:"first"` // since when it answers without a long pause
	Last  time.Time `json:"last"`
	Usual bool      `json:"usual,omitempty"`
}

func (n *names) clone() names {
	own := *n
	own.All = slices.Clone(n.All)
	return own
}

func (n *names) observe(name string, at time.Time, accepted []string) {
	if name == "" {
		return
	}
	if n.Change != nil && at.Sub(n.Change.Since) >= acceptedAfter {
		*n = names{}
	}
	u := n.see(name, at)
	u.Usual = u.Usual || slices.Contains(accepted, name) || u.Last.Sub(u.First) >= acceptedAfter
	if n.Looked < servedLearn {
		u.Usual = true
		if n.Looked++; n.Looked == servedLearn && len(n.All) > maxUsual {
			n.All, n.Looked = nil, 0
		}
		return
	}
	if u.Usual != (n.Change != nil) {
		n.run = 0
		return
	}
	if n.run == 0 {
		n.began = at
	}
	n.run++
	switch {
	case n.run < servedPatience:
	case n.Change != nil:
		n.Change, n.run = nil, 0
	case at.Sub(n.began) >= servedFor:
		n.Change, n.run = &Change{Source: SourceModel, Since: n.began, From: n.from(), To: name}, 0
	}
}

// see returns the name, which answers at an instant, and drops those that have not for long, unless none would be usual.
func (n *names) see(name string, at time.Time) *named {
	usual := stats.Count(n.All, func(u named) bool { return u.Usual && at.Sub(u.Last) < acceptedAfter })
	n.All = slices.DeleteFunc(n.All, func(u named) bool {
		return u.Name != name && at.Sub(u.Last) >= acceptedAfter && (usual > 0 || !u.Usual)
	})
	i := slices.IndexFunc(n.All, func(u named) bool { return u.Name == name })
	if i < 0 {
		n.makeRoom()
		n.All = append(n.All, named{Name: name, First: at, Last: at})
		return &n.All[len(n.All)-1]
	}
	u := &n.All[i]
	if at.Sub(u.Last) > pause {
		u.First = at
	}
	if at.After(u.Last) {
		u.Last = at
	}
	return u
}

// makeRoom drops the name that was seen longest ago where there are too many: one that is not usual, if there is one.
func (n *names) makeRoom() {
	if len(n.All) < maxNames {
		return
	}
	drop := -1
	for i, u := range n.All {
		if drop < 0 || !u.Usual && n.All[drop].Usual || u.Usual == n.All[drop].Usual && u.Last.Before(n.All[drop].Last) {
			drop = i
		}
	}
	n.All = slices.Delete(n.All, drop, drop+1)
}

// from returns the usual name that answered last.
func (n *names) from() string {
	var latest named
	for _, u := range n.All {
		if u.Usual && (latest.Name == "" || u.Last.After(latest.Last)) {
			latest = u
		}
	}
	return latest.Name
}

func (n *names) accept(models []string) {
	for i := range n.All {
		n.All[i].Usual = n.All[i].Usual || slices.Contains(models, n.All[i].Name)
	}
	if c := n.Change; c != nil && slices.Contains(models, c.To) {
		n.Change, n.run = nil, 0
	}
}

// isSane reports whether answers until now can have led to the names.
func (n *names) isSane(now time.Time) bool {
	usual := stats.Count(n.All, func(u named) bool { return u.Usual })
	for i, u := range n.All {
		twice := slices.ContainsFunc(n.All[:i], func(other named) bool { return other.Name == u.Name })
		if u.Name == "" || len(u.Name) > maxNameBytes || twice || u.First.After(u.Last) || u.Last.After(now) {
			return false
		}
	}
	c := n.Change
	changed := c == nil || n.Looked == servedLearn && c.Source == SourceModel && !c.Since.After(now) && c.To != "" &&
		len(c.From) <= maxNameBytes && len(c.To) <= maxNameBytes
	return changed && len(n.All) <= maxNames && 0 <= n.Looked && n.Looked <= servedLearn && (usual > 0) == (n.Looked > 0)
}

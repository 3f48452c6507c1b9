package workload

import (
	"slices"
	"testing"
)

type factA struct {
	NoFigures
	n int
}

type factB struct {
	NoFigures
	text string
}

// Of each type one fact is known, the latest; what was taken stays as it was.
func TestFacts(t *testing.T) {
	var facts Facts
	if (*Facts)(nil).Latest() != nil || facts.Latest() != nil {
		t.Fatal("something is known at the start")
	}
	a, b := &factA{n: 1}, &factB{text: "b"}
	if before := SetFact(&facts, a); before != nil || SetFact(&facts, b) != nil {
		t.Errorf("before the first: %+v", before)
	}
	first := facts.Latest()
	if before := SetFact(&facts, &factA{n: 2}); before != a {
		t.Errorf("before the second: %+v", before)
	}
	if !slices.Equal(first.All, []Finding{a, b}) {
		t.Errorf("what was taken became %v", first.All)
	}
	kind := FactOf[*factA]()
	if now, _ := In[*factA](facts.Latest()); now.n != 2 || kind.In(facts.Latest()) != Finding(now) || len(facts.Latest().All) != 2 {
		t.Errorf("now %v", facts.Latest().All)
	}
	if SetFact[*factA](&facts, nil); kind.In(facts.Latest()) != nil || !slices.Equal(facts.Latest().All, []Finding{b}) {
		t.Errorf("after it is no longer known: %v", facts.Latest().All)
	}
}

package discovery

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestSuccession checks that what a source found stays while the one that
// replaces it has not said what there is.
func TestSuccession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n := newFake("m"), newFake("n")
		l := newLab(t, with(t, "", m))
		m.find("g", "a", "b")
		l.want("listed a b")
		before := l.Endpoints(l.cfg).Endpoints

		l.apply(with(t, "", n))
		if got := l.names(); got != "listed a b" {
			t.Errorf("at once: %q", got)
		}
		l.want("listed a b")
		n.find("h", "b", "c")
		l.want("listed b c")
		if l.Endpoints(l.cfg).Endpoints[1] == before[2] {
			t.Error("b is kept although another source found it with other labels")
		}
	})
}

// TestSuccessionEnds checks that a source which says nothing does not keep the
// endpoints of the one before for ever, and that other templates keep nothing.
func TestSuccessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n, o := newFake("m"), newFake("n"), newFake("o")
		l := newLab(t, with(t, "", m))
		m.find("g", "a")
		l.want("listed a")

		l.apply(with(t, "", n))
		l.apply(with(t, "", o)) // before n has said anything
		time.Sleep(patience - time.Second)
		if got := l.names(); got != "listed a" {
			t.Errorf("before the end: %q", got)
		}
		if n := l.changes(); n != 1 {
			t.Errorf("%d changes at the end, want 1", n)
		}
		l.want("listed")

		o.find("g", "b")
		l.want("listed b")
		l.apply(with(t, "model: other", n))
		if got := l.names(); got != "listed" {
			t.Errorf("with another template: %q", got)
		}
	})
}

// TestStaticAtOnce checks that targets which stand in the configuration are there
// with it.
func TestStaticAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, parse(t, "", "discovery: [{static_configs: [{targets: [a, b]}]}]"))
		if got := l.names(); got != "a b" {
			t.Errorf("at once: %q", got)
		}
		l.want("a b")
		a := l.Endpoints(l.cfg).Endpoints[0]
		l.apply(parse(t, "", "discovery: [{static_configs: [{targets: [c, a]}]}]"))
		if got := l.Endpoints(l.cfg); l.names() != "a c" || got.Endpoints[0] != a || got.Waiting != 0 {
			t.Errorf("after a reload: %q, %d wait", l.names(), got.Waiting)
		}
		l.want("a c")
	})
}

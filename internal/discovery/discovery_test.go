package discovery

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	promhttp "github.com/prometheus/prometheus/discovery/http"

	"github.com/inference-exporter/inference_exporter/config"
)

// settle lets all that was sent arrive.
func settle() {
	time.Sleep(time.Minute) // of the bubble
	synctest.Wait()
}

// changes returns how many changes of the endpoints the Finder has signalled.
func (l *lab) changes() int {
	settle()
	return len(l.Changed())
}

func (l *lab) want(names string) {
	l.t.Helper()
	settle()
	if got := l.names(); got != names {
		l.t.Errorf("got %q, want %q", got, names)
	}
}

func TestStaticTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, parse(t, "", `
endpoints: [{url: http://z}, {url: http://m}]
discovery:
  - labels: {team: a}
    static_configs:
      - {targets: [q, b], labels: {zone: x}}
      - {targets: [r]}
  - static_configs: [{targets: [a]}]
`))
		l.want("z m a b q r")
		set := l.Endpoints(l.cfg)
		if set.Waiting != 0 || len(set.Rejected) != 0 {
			t.Errorf("got %d waiting and %v rejected", set.Waiting, set.Rejected)
		}
		if got := set.Endpoints[3].Labels; len(got) != 2 || got["team"] != "a" || got["zone"] != "x" {
			t.Errorf("labels of b: %v", got)
		}
		if set.Endpoints[0] != l.cfg.Endpoints[0] {
			t.Error("a listed endpoint is copied")
		}
	})
}

// TestComeAndGo checks what is found, what is logged, and that an endpoint that
// remains is the same.
func TestComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFake("m")
		l := newLab(t, with(t, "", m))
		if n := l.changes(); n != 0 {
			t.Errorf("%d changes before anything was found", n)
		}
		m.find("g", "a", "b")
		m.find("h", "c") // coalesced
		if n := l.changes(); n != 1 {
			t.Errorf("got %d changes, want 1", n)
		}
		<-l.Changed()
		l.want("listed a b c")
		before := l.Endpoints(l.cfg).Endpoints

		m.find("g", "a", "b")
		if n := l.changes(); n != 0 {
			t.Errorf("%d changes when the same was found again", n)
		}
		for i, e := range l.Endpoints(l.cfg).Endpoints {
			if e != before[i] {
				t.Errorf("%s is another endpoint", e.Name)
			}
		}

		m.find("g", "a")
		if n := l.changes(); n != 1 {
			t.Errorf("got %d changes when b went, want 1", n)
		}
		<-l.Changed()
		l.want("listed a c")
		m.find("g", "a", "b")
		l.want("listed a b c")
		after := l.Endpoints(l.cfg).Endpoints
		if after[1] != before[1] || after[3] != before[3] {
			t.Error("what stayed is another endpoint")
		}
		if after[2] == before[2] {
			t.Error("what was gone is kept")
		}
		m.find("g")
		l.want("listed c")
	})
}

// TestApplyKeeps checks that what a source found survives changes elsewhere.
func TestApplyKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n := newFake("m"), newFake("n")
		l := newLab(t, with(t, "", m))
		m.find("g", "a")
		l.want("listed a")
		a := l.Endpoints(l.cfg).Endpoints[1]

		l.apply(with(t, "", n, m)) // n is now the first
		if got := l.Endpoints(l.cfg); got.Waiting != 1 || len(got.Endpoints) != 2 || got.Endpoints[1] != a {
			t.Errorf("got %d endpoints, %d waiting", len(got.Endpoints), got.Waiting)
		}
		n.find("g", "b")
		m.find("h", "c")
		l.want("listed a b c")

		l.apply(with(t, "labels: {x: y}", n, m)) // the template alone
		if got := l.Endpoints(l.cfg); got.Waiting != 0 || len(got.Endpoints) != 4 || got.Endpoints[1] == a || got.Endpoints[1].Labels["x"] != "y" {
			t.Errorf("got %d endpoints, %d waiting", len(got.Endpoints), got.Waiting)
		}

		l.apply(with(t, "", n))
		if got := l.names(); got != "listed b" {
			t.Errorf("got %q without m", got)
		}
		l.want("listed b")
		l.apply(with(t, "", n, m)) // m comes back, with nothing
		if got := l.Endpoints(l.cfg); got.Waiting != 1 || len(got.Endpoints) != 2 {
			t.Errorf("got %d endpoints, %d waiting", len(got.Endpoints), got.Waiting)
		}
		l.apply(with(t, ""))
		l.want("listed")
	})
}

// TestSharedSource checks that two items with the same source both have it, also
// the one that comes later, and that each mechanism of a source runs.
func TestSharedSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n := newFake("m"), newFake("n")
		l := newLab(t, with(t, "", m))
		m.find("g", "a")
		l.want("listed a")
		two := with(t, "", m, m)
		two.Discovery[1].Template.Model = "other"
		two.Discovery[1].RelabelConfigs = parse(t, "", "discovery: [{static_configs: [{targets: [x]}], relabel_configs: [{target_label: __endpoint__, replacement: other}]}]").Discovery[0].RelabelConfigs
		l.apply(two)
		if got := l.names(); got != "listed a other" {
			t.Errorf("got %q", got)
		}

		// A source with one mechanism in common is another source.
		three := with(t, "", n, n)
		three.Discovery[1].Static = config.Sources{n, newFake("o")}
		l.apply(three)
		settle()
		if got := l.Endpoints(l.cfg).Waiting; got != 3 {
			t.Errorf("%d wait, want 3", got)
		}
		n.find("g", "a")
		n.find("g", "a") // two of them read
		settle()
		if got := l.Endpoints(l.cfg).Waiting; got != 1 {
			t.Errorf("%d wait, want 1", got)
		}
	})
}

func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, n := newFake("m"), newFake("n")
		cfg := with(t, "", m, n)
		f := New(Options{Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.DiscardHandler)})
		if got := f.Endpoints(cfg).Waiting; got != 2 {
			t.Errorf("before Apply: %d wait, want 2", got)
		}
		if err := f.Apply(cfg); err != nil {
			t.Fatal(err)
		}
		if got := f.Endpoints(cfg).Waiting; got != 2 {
			t.Errorf("before Run: %d wait, want 2", got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- f.Run(ctx) }()
		m.find("g") // nothing is an answer
		settle()
		if got := f.Endpoints(cfg).Waiting; got != 1 || len(f.Changed()) != 1 {
			t.Errorf("%d wait, want 1; %d changes", got, len(f.Changed()))
		}
		n.find("g", "a")
		settle()
		if got := f.Endpoints(cfg); got.Waiting != 0 || len(got.Endpoints) != 2 {
			t.Errorf("%d wait, want 0; %d endpoints", got.Waiting, len(got.Endpoints))
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if got := len(f.Endpoints(cfg).Endpoints); got != 2 {
			t.Errorf("%d endpoints after the end", got)
		}
	})
}

// TestWithoutDiscovery checks that an exporter without discovery has none of its
// metrics, nor a goroutine for it.
func TestWithoutDiscovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := func() bool {
			stacks := make([]byte, 1<<20)
			return strings.Contains(string(stacks[:runtime.Stack(stacks, true)]), "github.com/prometheus/prometheus/discovery.(*Manager)")
		}
		l := newLab(t, parse(t, "", "endpoints: [{url: http://h}]"))
		l.want("h")
		if families, err := l.registry.Gather(); err != nil || len(families) > 0 {
			t.Errorf("got %d families of metrics (%v)", len(families), err)
		}
		if runs() {
			t.Error("a goroutine of discovery without discovery")
		}
		l.apply(with(t, "", newFake("m")))
		settle()
		if !runs() {
			t.Error("no goroutine of discovery with discovery")
		}
		if families, err := l.registry.Gather(); err != nil || len(families) == 0 {
			t.Errorf("got %d families of metrics (%v)", len(families), err)
		}
	})
}

// TestApplyError checks that a source which cannot be changes nothing.
func TestApplyError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFake("m")
		l := newLab(t, with(t, "", m))
		m.find("g", "a")
		l.want("listed a")
		bad := parse(t, "", "discovery: [{http_sd_configs: [{url: http://h}]}]")
		bad.Discovery[0].HTTP[0].(*promhttp.SDConfig).HTTPClientConfig.TLSConfig.CAFile = "/gone.pem" // since it was checked
		err := l.Apply(bad)
		if err == nil || !strings.HasPrefix(err.Error(), "start service discovery: discovery[0]: http: ") {
			t.Errorf("got %v", err)
		}
		m.find("g", "a", "b")
		l.want("listed a b")
	})
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		first := New(Options{Registerer: registry, Logger: slog.New(slog.DiscardHandler)})
		if err := first.Apply(with(t, "", newFake("m"))); err != nil {
			t.Fatal(err)
		}
		second := New(Options{Registerer: registry, Logger: slog.New(slog.DiscardHandler)})
		if err := second.Apply(with(t, "", newFake("m"))); err == nil {
			t.Error("two of them have one registry, and no error")
		}
	})
}

// TestManyApplies changes sources again and again; goleak looks for what is left.
func TestManyApplies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, parse(t, "", "endpoints: [{url: http://h}]"))
		kept := newFake("kept")
		cfgs := []*config.Config{with(t, "", kept), with(t, "", newFake("m"), kept), with(t, "", kept, newFake("n"))}
		l.apply(cfgs[0])
		kept.find("g", "a")
		l.want("listed a")
		before := runtime.NumGoroutine()
		for i := range 1000 {
			l.apply(cfgs[i%3])
		}
		l.apply(cfgs[0])
		l.want("listed a")
		// A leak is one for each of some hundred changes. Others come and go outside of
		// the test, such as the runtime's for finalizers.
		if n := runtime.NumGoroutine() - before; n > 50 {
			t.Errorf("%d more goroutines", n)
		}
		if len(l.cache.templates) != 1 {
			t.Errorf("%d templates are kept", len(l.cache.templates))
		}
	})
}

// TestConcurrentUse is for the race detector.
func TestConcurrentUse(t *testing.T) {
	m := newFake("m")
	cfgs := []*config.Config{with(t, "", m), with(t, "labels: {a: b}", newFake("n"), m)}
	l := newLab(t, cfgs[0])
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for j := range 50 {
				if i == 0 {
					if err := l.Apply(cfgs[j%2]); err != nil {
						t.Error(err)
					}
				}
				l.Endpoints(cfgs[(i+j)%2])
			}
		})
	}
	for range 20 {
		m.find("g", "a")
		m.find("g", "b")
	}
	all.Wait()
}

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

// TestStaticAtOnce checks that targets in the configuration are endpoints as soon
// as it is loaded.
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

package fleet

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// probed is when an endpoint of a course is probed next, and how it answers.
type probed struct {
	interval, next time.Duration
	from, until    time.Duration // of its outage, in which a share of the probes fails
	share          float64
	late           bool // instead of failing
	failed         bool
	confirms       int // that are left
}

// course is a fleet whose endpoints have outages, each probed at an interval and a phase of its own.
type course struct {
	*lab
	endpoints map[string]*probed
	after     time.Duration
	pages     map[string][]string // what paged, by endpoint
	random    *rand.Rand
}

// newCourse adds an endpoint for each of "NAME HOST:PORT".
func newCourse(l *lab, addresses ...string) *course {
	c := &course{lab: l, endpoints: map[string]*probed{}, pages: map[string][]string{}, random: rand.New(rand.NewPCG(1, 2))}
	var text []string
	for i, address := range addresses {
		name, host, _ := strings.Cut(address, " ")
		interval := []time.Duration{15 * time.Second, 20 * time.Second, 30 * time.Second, time.Minute}[i%4]
		c.endpoints[name] = &probed{interval: interval, next: interval * time.Duration(i*7%11) / 11}
		text = append(text, fmt.Sprintf("{name: %s, url: \"http://%s\"}", name, host))
	}
	if err := l.Apply(planOf(parse(l.t, "modules: {interactive: {slo: {objective: 0.99, ttft: 1s}}}\nendpoints: ["+strings.Join(text, ", ")+"]"))); err != nil {
		l.t.Fatal(err)
	}
	go func() { _ = l.WatchCauses(l.ctx()) }()
	time.Sleep(time.Second / 2) // probes and looks are never at once
	return c
}

// fail gives the endpoints whose names have a prefix an outage.
func (c *course) fail(prefix string, from, until time.Duration) {
	for name, p := range c.endpoints {
		if strings.HasPrefix(name, prefix) {
			p.from, p.until, p.share = from, until, 1
		}
	}
}

// run goes on until so long after the begin. A failure after a success is confirmed twice, until one succeeds.
func (c *course) run(until time.Duration) {
	for ; c.after < until; c.after += time.Second {
		for _, name := range slices.Sorted(maps.Keys(c.endpoints)) {
			if p := c.endpoints[name]; c.after >= p.next {
				c.probe(name, p)
			}
		}
		for name := range c.endpoints {
			if p := c.State(name).Shown(); p != nil {
				if text := string(p.Kind) + ", " + p.Scope; !slices.Contains(c.pages[name], text) {
					c.pages[name] = append(c.pages[name], text)
				}
			}
		}
		time.Sleep(time.Second)
	}
}

func (c *course) probe(name string, p *probed) {
	failed := c.after >= p.from && c.after < p.until && c.random.Float64() < p.share
	c.take(name, failed)
	if failed && !p.failed {
		p.confirms = 3
	}
	p.confirms--
	p.next, p.failed = c.after+p.interval, failed
	if failed && p.confirms > 0 {
		p.next = c.after + min(5*time.Second, p.interval/3)
	}
}

// take gives an endpoint the result of a probe: a success, or a connection that was refused.
func (c *course) take(name string, failed bool) {
	t := c.endpoint(name).tasks[0]
	r := &result.Result{Start: time.Now(), Outcome: result.Success, Timing: result.Timing{TTFT: 100 * time.Millisecond, TPOT: result.Absent, Duration: time.Second}}
	r.Prefix = string(t.Prefix)
	switch {
	case failed && c.endpoints[name].late:
		r.Timing.TTFT, r.Timing.Duration = 2*time.Second, 2*time.Second
	case failed:
		r.Outcome, r.Timing.TTFT = result.ConnectError, result.Absent
		r.Err = &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}, Err: syscall.ECONNREFUSED}
	}
	t.take(r, false, false)
}

func (c *course) expect(want map[string]string) {
	c.t.Helper()
	for _, name := range slices.Sorted(maps.Keys(c.endpoints)) {
		if got := strings.Join(c.pages[name], "; "); got != want[name] {
			c.t.Errorf("%s pages as %q, want %q", name, got, want[name])
		}
	}
}

// addresses returns n endpoints on a host.
func addresses(prefix, host string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("%s%d %s:%d", prefix, i, host, 8000+i))
	}
	return all
}

// The endpoints of a host that dies page with the host as their scope, one that fails beside them on its own, and those of a
// host that dies an hour later with that.
func TestScopes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourse(newLab(t), slices.Concat(
			addresses("a", "gpu-1.example.com", 10), addresses("b", "gpu-2.example.com", 3), addresses("c", "gpu-3.example.com", 2), addresses("d", "gpu-4.example.com", 1))...)
		c.endpoints["a9"].interval = 40 * time.Minute // it pages an hour later
		c.fail("a", 20*time.Minute, 2*time.Hour)
		c.fail("c0", 21*time.Minute, time.Hour)
		c.fail("b", 80*time.Minute, 2*time.Hour)
		want := map[string]string{"c0": "down, endpoint c0"}
		for i := range 10 {
			want[fmt.Sprint("a", i)] = "down, host gpu-1.example.com"
		}
		for i := range 3 {
			want[fmt.Sprint("b", i)] = "down, host gpu-2.example.com"
		}
		c.run(130 * time.Minute)
		c.expect(want)
	})
}

// Of a host half of whose probes fail, the first endpoint that is certain to has the scope of those that look like it.
func TestScopeOfPartialFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourse(newLab(t), append(addresses("a", "10.0.0.1", 5), addresses("b", "10.0.0.2", 4)...)...)
		for i := range 5 {
			p := c.endpoints[fmt.Sprint("a", i)]
			p.from, p.until, p.share, p.interval = 20*time.Minute, time.Hour, 0.5, time.Duration(15+2*i)*time.Second
		}
		c.run(70 * time.Minute)
		for i := range 5 {
			pages := c.pages[fmt.Sprint("a", i)]
			if len(pages) == 0 || pages[0] != "failing, host 10.0.0.1" || slices.ContainsFunc(pages, func(p string) bool { return !strings.HasSuffix(p, ", host 10.0.0.1") }) {
				t.Errorf("a%d pages as %q", i, pages)
			}
		}
	})
}

// The endpoints of a machine that is slow for no known reason page with it as their scope.
func TestScopeOfSlowness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourse(newLab(t), append(addresses("a", "10.0.0.1", 4), addresses("b", "10.0.0.2", 4)...)...)
		c.fail("a", 20*time.Minute, time.Hour)
		want := map[string]string{}
		for i := range 4 {
			p := c.endpoints[fmt.Sprint("a", i)]
			p.late, p.interval = true, 15*time.Second
			want[fmt.Sprint("a", i)] = "ttft, host 10.0.0.1"
		}
		c.run(50 * time.Minute)
		c.expect(want)
	})
}

// A machine that is lost while most other endpoints fail is the scope of its endpoints: they were well since the others do.
func TestScopeWhileOthersFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourse(newLab(t), append(addresses("a", "10.0.0.1", 3), "b 10.0.1.1:1", "c 10.0.1.2:1", "d 10.0.1.3:1", "e 10.0.1.4:1", "f 10.0.1.5:1", "well-0 10.0.1.6:1", "well-1 10.0.1.7:1")...)
		want := map[string]string{}
		for i, name := range []string{"b", "c", "d", "e", "f"} {
			c.fail(name, 20*time.Minute+time.Duration(i)*20*time.Second, time.Hour)
			want[name] = "down, endpoint " + name
		}
		c.fail("a", 28*time.Minute, time.Hour)
		for i := range 3 {
			want[fmt.Sprint("a", i)] = "down, host 10.0.0.1"
		}
		c.run(70 * time.Minute)
		c.expect(want)
	})
}

// What most endpoints lose at once is not the fault of a machine on which it shows minutes later, because it is probed less often.
func TestScopeOfAMachineProbedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := append(addresses("a", "10.0.0.1", 3), "well-0 10.0.2.1:1", "well-1 10.0.2.2:1", "well-2 10.0.2.3:1", "well-3 10.0.2.4:1")
		want := map[string]string{"a0": "down, endpoint a0", "a1": "down, endpoint a1", "a2": "down, endpoint a2"}
		for i := range 9 {
			all = append(all, fmt.Sprintf("b%d 10.0.1.%d:1", i, i))
			want[fmt.Sprint("b", i)] = fmt.Sprint("down, endpoint b", i)
		}
		c := newCourse(newLab(t), all...)
		c.fail("a", 20*time.Minute, time.Hour)
		c.fail("b", 20*time.Minute, time.Hour)
		for i := range 3 {
			c.endpoints[fmt.Sprint("a", i)].interval, c.endpoints[fmt.Sprint("a", i)].next = 4*time.Minute, 3*time.Minute+30*time.Second
		}
		c.run(70 * time.Minute)
		c.expect(want)
	})
}

// What all endpoints fail with that have nothing else in common is the exporter's side.
func TestScopeOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCourse(newLab(t), "a 10.0.0.1:1", "b 10.0.0.2:1", "c 10.0.0.3:1", "d 10.0.0.4:1")
		c.fail("", 20*time.Minute, time.Hour)
		c.run(70 * time.Minute)
		c.expect(map[string]string{"a": "down, exporter", "b": "down, exporter", "c": "down, exporter", "d": "down, exporter"})
	})
}

// A restart of the exporter in an incident changes neither its scope nor which later ones share it.
func TestScopeOutlastsARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := addresses("a", "10.0.0.1", 5)
		c := newCourse(newLab(t), append(all, "b 10.0.0.2:1")...)
		c.endpoints["a4"].interval = 40 * time.Minute
		c.fail("a", 20*time.Minute, 3*time.Hour)
		c.run(30 * time.Minute)
		var records [][]byte
		if err := c.saveEndpoints(func(record any) error {
			text, err := json.Marshal(record)
			records = append(records, text)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		next := newLab(t)
		for _, r := range records {
			if err := next.restore(r); err != nil {
				t.Fatal(err)
			}
		}
		before := c
		c = newCourse(next, append(all, "b 10.0.0.2:1")...)
		c.endpoints, c.after = before.endpoints, before.after
		c.run(90 * time.Minute)
		c.expect(map[string]string{
			"a0": "down, host 10.0.0.1", "a1": "down, host 10.0.0.1", "a2": "down, host 10.0.0.1", "a3": "down, host 10.0.0.1", "a4": "down, host 10.0.0.1",
		})
	})
}

// An endpoint may have the file of its key in common with others, for what has to do with keys.
func TestFactorOfAKey(t *testing.T) {
	cfg := parse(t, "endpoints: [{url: \"http://a:8000\", http: {authorization: {credentials_file: scopes_test.go}}}]")
	all := factorsOf(cfg.Endpoints[0])
	key := all[len(all)-1]
	if key.Kind != "key" || !strings.HasSuffix(key.Value, "/scopes_test.go") {
		t.Errorf("got %s, want the file of the key", key)
	}
	if key.Explains(explain.Hung) || !key.Explains(explain.Credentials) {
		t.Error("a key explains what it has nothing to do with, or not that it is refused")
	}
}

package incidents

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// afterwards is how long an incident is watched after its end.
var afterwards = flag.Duration("afterwards", 75*time.Minute, "how long incidents are watched after their end, such as 6h")

const (
	// calm is how long endpoints are well before: as long as most windows of alerts.
	calm = 70 * time.Minute
	// warmup is how long before an incident all rules are first evaluated, and past how
	// long those are whose records alerts compare with.
	warmup, past = 15 * time.Minute, 90 * time.Minute
	// cleanRun is how long it may take until failures that are few are known to be over: 40 probes and a page.
	cleanRun = 11 * time.Minute
	// lasting is how long an incident lasts.
	lasting = 30 * time.Minute
)

// incident is one thing that goes wrong.
type incident struct {
	name string
	// faults are what is wrong, by endpoint, while it lasts.
	faults map[string]fault
	// away says that the exporter is away while it lasts, and muted that an operator
	// muted the endpoint a for as long.
	away, muted bool
	// healthy is an hour in which nothing goes wrong.
	healthy bool
	// calm is how long all is well before; 0 is the usual time.
	calm time.Duration
	// config is the configuration of the endpoints; "" is the usual one.
	config string
	// pages is how many notifications the pager is to get, and warned whether others
	// are to get one.
	pages  int
	warned bool
	// within is the time in which the first notification is to come; 0 is any. settles is how long
	// after the end the last is to be resolved; 0 is 5 minutes.
	within, settles time.Duration
}

// usual is the configuration of two endpoints on machines of their own, probed
// every 15 s, with objectives that a healthy one meets.
const usual = `
global: {interval: 15s}
modules: {interactive: {slo: {ttft: 1s, tpot: 60ms}}}
endpoints:
  - {name: a, url: "http://a.test:8000", api: openai-chat, model: llama}
  - {name: b, url: "http://b.test:8000", api: openai-chat, model: llama}
`

// node is the configuration of four endpoints on one machine and two on others.
func node() string {
	var b strings.Builder
	b.WriteString("global: {interval: 15s, limits: {in_flight_per_host: 16}}\nmodules: {interactive: {slo: {ttft: 1s, tpot: 60ms}}}\nendpoints:\n")
	for i := range 4 {
		fmt.Fprintf(&b, "  - {name: node-%[1]d, url: \"http://node.test:800%[1]d\", api: openai-chat, model: llama-%[1]d}\n", i)
	}
	for i := range 2 {
		fmt.Fprintf(&b, "  - {name: other-%[1]d, url: \"http://other-%[1]d.test:8000\", api: openai-chat, model: llama-%[1]d}\n", i)
	}
	return b.String()
}

// twenty is the configuration of twenty endpoints that also get bursts.
func twenty() string {
	var b strings.Builder
	b.WriteString("global: {interval: 15s}\nmodules: {batch: {interval: 5m}}\nendpoints:\n")
	for i := range 20 {
		fmt.Fprintf(&b, "  - {name: e%[1]d, url: \"http://e%[1]d.test:8000\", api: openai-chat, model: llama, modules: [interactive, batch]}\n", i)
	}
	return b.String()
}

// of is a fault of the endpoint a.
func of(f fault) map[string]fault { return map[string]fault{"a": f} }

// ofNode is a fault of the endpoints on one machine.
func ofNode(f fault) map[string]fault {
	return map[string]fault{"node-0": f, "node-1": f, "node-2": f, "node-3": f}
}

// nodes is the configuration of two machines with three endpoints each.
func nodes() string {
	var b strings.Builder
	b.WriteString("global: {interval: 15s}\nmodules: {interactive: {slo: {ttft: 1s, tpot: 60ms}}}\nendpoints:\n")
	for i := range 6 {
		fmt.Fprintf(&b, "  - {name: e%[1]d, url: \"http://node-%[2]d.test:800%[1]d\", api: openai-chat, model: llama-%[1]d}\n", i, i/3)
	}
	return b.String()
}

// nodesOfThree is a fault of all endpoints of one of the two machines, and 20 minutes later of the other.
func nodesOfThree(f fault) map[string]fault {
	all := map[string]fault{"e0": f, "e1": f, "e2": f}
	f.from = 20 * time.Minute
	all["e3"], all["e4"], all["e5"] = f, f, f
	return all
}

// nodeAndEndpoint is a fault of all endpoints of a machine, and two minutes later of one of another.
func nodeAndEndpoint(f fault) map[string]fault {
	all := map[string]fault{"e0": f, "e1": f, "e2": f}
	f.from = 2 * time.Minute
	all["e3"] = f
	return all
}

// incidents lists what may go wrong. Connections that are refused take no time, and
// what hangs ends at the default limits.
func incidents() []incident {
	const prompt = 3 * time.Minute // for an outage
	refused := fault{outcome: result.ConnectError, after: time.Millisecond, lost: 1}
	all := []incident{
		{name: "endpoint refuses", faults: of(refused), pages: 1, within: prompt},
		{name: "refuses in its third minute", faults: of(refused), calm: 3 * time.Minute, pages: 1, within: prompt},
		// Each failure takes half a minute to show.
		{name: "hangs before headers", faults: of(fault{outcome: result.TimeoutFirstToken, after: 30 * time.Second, hangs: true}), pages: 1, within: prompt + 30*time.Second},
		{name: "hangs in the stream", faults: of(fault{outcome: result.TimeoutStall, after: 15 * time.Second, tokens: true, hangs: true}), pages: 1, within: prompt},
		{name: "401", faults: of(fault{outcome: result.Unauthorized, after: 20 * time.Millisecond}), pages: 1, within: prompt},
		{name: "429, Retry-After 600", faults: of(fault{outcome: result.RateLimited, after: 20 * time.Millisecond, retryAfter: 10 * time.Minute}), pages: 1},
		{name: "30 % fail", faults: of(fault{outcome: result.HTTPError, after: 50 * time.Millisecond, share: 0.3}), pages: 1, settles: cleanRun},
		{name: "10 % fail", faults: of(fault{outcome: result.HTTPError, after: 50 * time.Millisecond, share: 0.1}), pages: 1, settles: cleanRun},
		{name: "flaps, 2 min down and 2 min up", faults: of(fault{outcome: result.ConnectError, after: time.Millisecond, turn: 2 * time.Minute}), pages: 1, within: 8 * time.Minute},
		{name: "refuses for 90 s", faults: of(fault{outcome: result.ConnectError, after: time.Millisecond, lasts: 90 * time.Second})},
		{name: "TTFT x 5", faults: of(fault{ttft: 5}), pages: 1},
		{name: "TPOT x 3", faults: of(fault{tpot: 3}), pages: 1},
		{name: "queue full", faults: of(fault{ttft: 20, waiting: 52}), pages: 1},
		{name: "KV cache full", faults: of(fault{ttft: 8, tpot: 3, waiting: 10, kvCache: 1, preempted: 1}), pages: 1},
		{name: "replica lost, survivors slow", faults: of(fault{ttft: 5, lost: 1}), config: replicated, pages: 1},
		{name: "model changed", faults: of(fault{model: "qwen"}), config: unnamed, pages: 1},
		{name: "wrong answers", faults: of(fault{wrong: 0.5}), config: questions, warned: true},
		{name: "node of four lost", faults: ofNode(refused), config: node(), pages: 1, within: prompt},
		{name: "two nodes of three lost, one after the other", faults: nodesOfThree(refused), config: nodes(), pages: 2, within: prompt},
		{name: "endpoint lost soon after a node", faults: nodeAndEndpoint(refused), config: nodes(), pages: 2, within: prompt},
		{name: "node of four lost in its third minute", faults: ofNode(refused), config: node(), calm: 3 * time.Minute, pages: 1, within: prompt},
		{name: "node of four slow", faults: ofNode(fault{ttft: 5}), config: node(), pages: 1},
		{name: "node of four a little slow", faults: ofNode(fault{ttft: 2.8}), config: node(), pages: 4, settles: cleanRun},
		{name: "node of four throttled", faults: ofNode(fault{tpot: 3}), config: node(), pages: 1},
		{name: "30 % of four fail", faults: ofNode(fault{outcome: result.HTTPError, after: 50 * time.Millisecond, share: 0.3}), config: node(), pages: 1, settles: cleanRun},
		{name: "exporter killed", away: true, pages: 1},
		{name: "exporter starved", faults: map[string]fault{
			"a": {ttft: 5, imprecise: 0.97}, "b": {ttft: 5, imprecise: 0.97},
		}, pages: 1},
		{name: "maintenance, muted", faults: of(refused), muted: true},
		{name: "healthy hour of twenty, with bursts", config: twenty(), healthy: true},
	}
	return all
}

// replicated has two servers behind the endpoint a: see replicas.
const replicated = usual

// unnamed is a configuration that leaves the model to the endpoint.
const unnamed = `
global: {interval: 15s}
modules: {interactive: {slo: {ttft: 1s, tpot: 60ms}}}
endpoints:
  - {name: a, url: "http://a.test:8000", api: openai-chat}
  - {name: b, url: "http://b.test:8000", api: openai-chat}
`

// questions is a configuration with known answers.
const questions = `
global: {interval: 15s}
modules: {interactive: {slo: {ttft: 1s, tpot: 60ms}}, answers: {questions: true}}
endpoints:
  - {name: a, url: "http://a.test:8000", api: openai-chat, model: llama, modules: [interactive, answers]}
`

// TestIncidents counts what receivers get of each incident.
func TestIncidents(t *testing.T) {
	for _, in := range incidents() {
		t.Run(in.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				outcome := in.run(t)
				t.Logf("| %s | %s |", in.name, outcome)
				for _, n := range outcome.notes {
					t.Logf("  %s", n)
				}
				for _, miss := range in.misses(outcome) {
					t.Error(miss)
				}
			})
		})
	}
}

// outcome is what an incident caused.
type outcome struct {
	notes      []note // from its onset on
	onset, end time.Time
}

// pager reports whether a receiver is a person, now.
func (n note) pages() bool { return strings.HasSuffix(n.receiver, "pager") }

func (n note) isResolved() bool { return len(n.firing) == 0 }

// firing returns the notifications of a kind that report alerts, before or after the
// end. One of a group that fires already tells a pager nothing new: it is merged.
func (o outcome) firing(pages, after bool) (all []note) {
	open := map[string]bool{}
	for _, n := range o.notes {
		group := n.receiver + n.group
		again := n.pages() && open[group]
		open[group] = !n.isResolved()
		if !n.isResolved() && !again && n.receiver != "watchdog" && n.receiver != "nobody" && n.pages() == pages && n.at.After(o.end) == after {
			all = append(all, n)
		}
	}
	return all
}

// first returns how long it took until the first page; negative without one.
func (o outcome) first() time.Duration {
	for _, n := range o.firing(true, false) {
		return n.at.Sub(o.onset)
	}
	return -1
}

// resolved returns how long after the end the last page was resolved, negative before
// it, and whether all were.
func (o outcome) resolved() (after time.Duration, all bool) {
	open := map[string]bool{}
	for _, n := range o.notes {
		if !n.pages() {
			continue
		}
		open[n.group] = !n.isResolved()
		if n.isResolved() {
			after = n.at.Sub(o.end)
		}
	}
	for _, is := range open {
		if is {
			return after, false
		}
	}
	return after, true
}

// String returns the cells of a table: pages, when the first one came, when the last
// one was resolved after the end, pages after the end, and warnings.
func (o outcome) String() string {
	minutes := func(d time.Duration, there bool) string {
		if !there {
			return "-"
		}
		return fmt.Sprintf("%.1f", d.Minutes())
	}
	first := o.first()
	resolved, all := o.resolved()
	return fmt.Sprintf("%d | %s | %s | %d | %d", len(o.firing(true, false)), minutes(first, first >= 0),
		minutes(max(0, resolved), first >= 0 && all), len(o.firing(true, true)), len(o.firing(false, false))+len(o.firing(false, true)))
}

// misses returns in which ways the notifications are not as wanted.
func (in incident) misses(o outcome) []string {
	var all []string
	add := func(wrong bool, format string, args ...any) {
		if wrong {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	during, later := len(o.firing(true, false)), len(o.firing(true, true))
	add(during != in.pages, "%d pages", during)
	add(later > 0, "%d pages after the end", later)
	add(in.within > 0 && o.first() > in.within, "late")
	after, resolved := o.resolved()
	settles := cmp.Or(in.settles, 5*time.Minute)
	add(!resolved || in.pages > 0 && after > settles, "not resolved within %s", settles)
	warned := len(o.firing(false, false)) > 0
	add(in.warned && !warned, "no warning")
	add(in.pages == 0 && !in.warned && warned, "warned")
	return all
}

// run simulates an incident.
func (in incident) run(t *testing.T) outcome {
	cfg, err := config.Parse([]byte(in.configuration()), "test.yml")
	if err != nil {
		t.Fatal(err)
	}
	before, during, afterwards := in.times()
	begin := time.Now()
	o := outcome{onset: begin.Add(before), end: begin.Add(before + during)}
	w := &world{incident: in, outcome: &o, config: cfg}
	w.servers = w.network()
	p := newPrometheus(t, intervals(cfg))
	a := startAlertmanager(t)
	defer a.stop()
	load, stop := p.evaluate(t, a)
	defer stop()
	w.exporter = startExporter(t, cfg, w.servers)
	defer func() { w.exporter.stop() }()
	seen := p.target("exporter:10115")
	// The two sets of rules, each with when it is evaluated first.
	sets := []ruleSet{{o.onset.Add(-in.past()), p.recorded()}, {o.onset.Add(-warmup), p.rules}}
	time.Sleep(scrapePhase)
	for end := o.end.Add(afterwards); time.Now().Before(end); {
		if len(sets) > 0 && !time.Now().Before(sets[0].from) {
			load(sets[0].rules)
			sets = sets[1:]
		}
		seen.scrape(t, w.page(t))
		if time.Until(o.onset) > time.Hour {
			time.Sleep(4 * scrapeInterval) // less is enough for the long windows
		} else {
			time.Sleep(scrapeInterval)
		}
	}
	o.notes = a.all()
	return o
}

// ruleSet is rules that are evaluated from a time on.
type ruleSet struct {
	from  time.Time
	rules *rulefmt.RuleGroups
}

// past is how long before the incident the slow rules are evaluated first. The share of
// wrong answers is compared with that of six hours before, and with the deviation of a
// day of hours.
func (in incident) past() time.Duration {
	if in.config == questions {
		return calm + 26*time.Hour
	}
	return past
}

// times returns how long all is well, how long the incident lasts, and how long it is
// watched afterwards.
func (in incident) times() (before, during, after time.Duration) {
	switch {
	case in.healthy:
		return 20 * time.Minute, time.Hour, 0
	case in.config == questions:
		return in.past(), lasting, *afterwards
	}
	return cmp.Or(in.calm, calm), lasting, *afterwards
}

// scrapePhase is when scrapes begin, so that none is at the time of something else.
const scrapePhase = 4 * time.Second

// world is everything that is watched.
type world struct {
	incident
	*outcome
	config   *config.Config
	servers  network
	exporter *exporter // nil while it is away
	mute     sync.Once
}

// lasts reports whether the incident lasts now.
func (w *world) lasts() bool {
	return !time.Now().Before(w.onset) && time.Now().Before(w.end)
}

func (w *world) network() network {
	servers := network{}
	for i, e := range w.config.Endpoints {
		servers[e.Name] = &server{
			name: e.Name, replicas: w.replicas(), random: rand.New(rand.NewPCG(1, uint64(i))), failed: map[page.Reason]uint64{},
			fault: func() fault {
				if f := w.faults[e.Name]; w.lasts() && f.shows(time.Since(w.onset)) {
					return f
				}
				return fault{}
			},
		}
	}
	return servers
}

// page returns the page of the exporter, after what happens to it now; nil while it
// is away.
func (w *world) page(t *testing.T) []byte {
	t.Helper()
	switch away := w.away && w.lasts(); {
	case away && w.exporter != nil:
		w.exporter.stop()
		w.exporter = nil
	case !away && w.exporter == nil:
		w.exporter = startExporter(t, w.config, w.servers)
	}
	if w.exporter == nil {
		return nil
	}
	if w.muted && w.lasts() {
		w.mute.Do(func() {
			// An operator leaves time to come back.
			if err := w.exporter.fleet.Mute("a", lasting+2*time.Minute, "maintenance"); err != nil {
				t.Error(err)
			}
		})
	}
	return w.exporter.metrics(t)
}

func (in incident) configuration() string {
	if in.config == "" {
		return usual
	}
	return in.config
}

func (in incident) replicas() int {
	if strings.HasPrefix(in.name, "replica") {
		return 2
	}
	return 1
}

// intervals returns those of the modules in use.
func intervals(cfg *config.Config) map[string]time.Duration {
	all := map[string]time.Duration{}
	for _, e := range cfg.Endpoints {
		for _, name := range e.Modules {
			all[name] = time.Duration(cfg.Modules[name].Interval)
		}
	}
	return all
}

package fleet

import (
	"context"
	"encoding/hex"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
	"github.com/inference-exporter/inference_exporter/prober"
)

// distant is a network with a round trip that the loopback does not have: the servers here
// delay their replies by it, and a connection is set up as much later.
type distant struct {
	network
	roundTrip time.Duration
}

// Runners implements Network.
func (d distant) Runners(e *config.Endpoint) (func(*config.Module) (Runner, error), error) {
	newRunner, err := d.network.Runners(e)
	return func(m *config.Module) (Runner, error) {
		r, err := newRunner(m)
		return distantRunner{r, d.roundTrip}, err
	}, err
}

type distantRunner struct {
	Runner
	roundTrip time.Duration
}

// Run implements Runner.
func (d distantRunner) Run(ctx context.Context, due time.Time) ([]*result.Result, *result.Skip) {
	results, skip := d.Runner.Run(ctx, due)
	for _, r := range results {
		r.Timing.Phases[result.PhaseConnect] += d.roundTrip
		r.Timing.Duration += d.roundTrip
	}
	return results, skip
}

// asked remembers the probes whose time to first token is divided.
type asked struct {
	mu  sync.Mutex
	all []*result.Result
}

// Observe implements Observer.
func (a *asked) Observe(o *Observation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, o.Result)
}

// partsCase is a situation whose truth is known.
type partsCase struct {
	name     string
	gateway  *simulator.GatewayOptions // nil is none
	replicas int
	engine   simulator.Options
	input    int // tokens of a prompt
	at       int // probes at once
	rounds   int
	largest  page.TTFTPart
}

func partsCases() []partsCase {
	const ms = time.Millisecond
	slots := func(n int) simulator.Options {
		return simulator.Options{Slots: n, PrefillTokensPerSecond: 4000, DecodeStep: 10 * ms, DecodeStepPerSequence: -1, Seed: 1}
	}
	delayed := slots(8)
	delayed.FixedDelay = 300 * ms
	return []partsCase{
		{"idle", &simulator.GatewayOptions{}, 2, slots(8), 600, 1, 5, "prefill"},
		{"gateway queue", &simulator.GatewayOptions{Limit: 1}, 2, slots(8), 200, 6, 2, page.PartGatewayQueue},
		{"engine queue", &simulator.GatewayOptions{}, 1, slots(1), 200, 6, 2, "engine_queue"},
		{"both queues", &simulator.GatewayOptions{Limit: 3}, 1, slots(1), 200, 6, 2, "engine_queue"},
		{"long prefill", &simulator.GatewayOptions{Routing: simulator.PrefixAware}, 2, slots(8), 2500, 1, 4, "prefill"},
		{"slow network", &simulator.GatewayOptions{NetworkDelay: 300 * ms}, 2, slots(8), 200, 1, 4, "network"},
		{"slow gateway", &simulator.GatewayOptions{}, 2, delayed, 200, 1, 4, "rest"},
		{"idle, no gateway", nil, 1, slots(8), 600, 1, 5, "prefill"},
		{"engine queue, no gateway", nil, 1, slots(1), 200, 6, 2, "engine_queue"},
		{"long prefill, no gateway", nil, 1, slots(8), 2500, 1, 4, "prefill"},
		{"slow network, no gateway", nil, 1, delayed, 200, 1, 4, "network"},
	}
}

// pickerPage is where the queue of the simulated gateway is on its page.
const pickerPage = `
gateway_mappings:
  picker:
    sentinels: [inference_pool_ready_pods]
    histograms: {queue: [{series: inference_extension_flow_control_request_queue_duration_seconds}]}
gateways: {g: {urls: [%q], software: picker}}
`

// The parts of the time to first token are those of the truth and add up to it, with a gateway in front of the servers and
// without.
func TestTTFTPartsAgainstTheSimulator(t *testing.T) {
	for _, c := range partsCases() {
		t.Run(c.name, func(t *testing.T) {
			testlab.Virtual(t, c.test)
		})
	}
}

func (c *partsCase) test(t *testing.T) {
	var replicas []*simulator.Replica
	var pages []string
	for range c.replicas {
		r, err := simulator.NewReplica(c.engine, testlab.Listener(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Drop)
		replicas, pages = append(replicas, r), append(pages, r.URL()+"/metrics")
	}
	url, roundTrip := replicas[0].URL(), c.engine.FixedDelay
	var gateway *simulator.Gateway
	if c.gateway != nil {
		gateway = simulator.NewGateway(*c.gateway, replicas)
		t.Cleanup(gateway.Close)
		url, roundTrip = testlab.Serve(t, gateway.Handler()), c.gateway.NetworkDelay
	}
	l, seen := newLab(t), &asked{}
	l.Scraping = schedule.New(schedule.Options{})
	l.Fleet.Observers = []Observer{seen}
	dialer := prober.NewDialer()
	t.Cleanup(func() { _ = dialer.Close() })
	l.Network = distant{network{dialer: dialer}, roundTrip}
	text, names := "", []string(nil)
	for i := range c.at {
		names = append(names, fmt.Sprintf("m%d", i))
		text += fmt.Sprintf("  m%d: {input_tokens: %d, output_tokens: 4}\n", i, c.input)
	}
	text = fmt.Sprintf("modules:\n%sendpoints: [{name: e, url: %q, modules: [%s], servers: {urls: [%s]}}]",
		text, url, strings.Join(names, ", "), strings.Join(pages, ", "))
	if gateway != nil {
		text = strings.Replace(text, "{name: e", "{name: e, gateway: g", 1) + fmt.Sprintf(pickerPage, url)
	}
	if err := l.Apply(planOf(parse(t, text))); err != nil {
		t.Fatal(err)
	}
	m := l.endpoint("e")
	read := func() {
		synctest.Wait() // until the servers have done with the requests, which is after the client has read the answer
		if gateway != nil {
			l.active.Load().gateways.byName["g"].read(l.ctx(), schedule.Run{})
		}
		m.scrape.read(l.ctx(), schedule.Run{})
	}
	l.run("e", schedule.Run{Scheduled: time.Now()}) // which finds model and API
	read()
	seen.all = nil
	for range c.rounds {
		var probes sync.WaitGroup
		for _, task := range m.tasks {
			probes.Go(func() { task.probe(l.ctx(), schedule.Run{Scheduled: time.Now()}) })
		}
		probes.Wait()
	}
	time.Sleep(roundTrip) // by which the ends of the probes were moved
	read()
	c.compare(t, l.page(), seen.truth(t, c, gateway, replicas[0].Server()))
}

// truth returns the means of the parts in the order of page.TTFTPartNames, by what gateway and server recorded.
func (a *asked) truth(t *testing.T, c *partsCase, g *simulator.Gateway, s *simulator.Server) (mean [5]float64) {
	t.Helper()
	for _, r := range a.all {
		id := hex.EncodeToString(r.TraceID[:])
		var parts [5]time.Duration
		var known bool
		if g != nil {
			var rec simulator.GatewayRecord
			rec, known = g.Request(id)
			parts = [5]time.Duration{rec.Network, rec.Queue, rec.EngineQueue, rec.Prefill, rec.Rest}
		} else {
			var rec simulator.Record
			rec, known = s.Request(id)
			at := time.Duration(math.Round(firstToken(&rec) * 1e9))
			parts = [5]time.Duration{c.engine.FixedDelay, 0, rec.Queue, rec.Prefill, at - rec.Queue - rec.Prefill - c.engine.FixedDelay}
		}
		sum := time.Duration(0)
		for i, d := range parts {
			sum += d
			mean[i] += d.Seconds() / float64(len(a.all))
		}
		if !known || r.Outcome != result.Success || r.Timing.TTFT != sum {
			t.Errorf("%s (%v), known: %t, with a TTFT of %s, of which %s are known", r.Outcome, r.Err, known, r.Timing.TTFT, sum)
		}
	}
	return mean
}

// compare holds the page against the truth.
func (c *partsCase) compare(t *testing.T, p metricsPage, truth [5]float64) {
	t.Helper()
	const family = "inference_endpoint_ttft_part_seconds"
	whole, sum, largest := 0.0, 0.0, page.TTFTPart("")
	for i, name := range page.TTFTPartNames() {
		whole += truth[i]
		sum += p.Sum(family, "part", string(name))
		if largest == "" || p.Sum(family, "part", string(name)) > p.Sum(family, "part", string(largest)) {
			largest = name
		}
	}
	logRelative(t, "TTFT", sum, whole)
	const resolution = 1e-6 // of the figures that are kept, as float32
	if math.Abs(sum-whole) > resolution {
		t.Errorf("the parts are %.4f s together, want %.4f", sum, whole)
	}
	for i, name := range page.TTFTPartNames() {
		got := p.Sum(family, "part", string(name))
		t.Logf("%s: %.4f, true %.4f", name, got, truth[i])
		if wanted := c.gateway != nil || name != page.PartGatewayQueue; p.Has(family, "part", string(name)) != wanted {
			t.Errorf("%s is on the page: %t", name, !wanted)
		}
		if math.Abs(got-truth[i]) > resolution {
			t.Errorf("%s is %v s, want %v", name, got, truth[i])
		}
	}
	if largest != c.largest {
		t.Errorf("%s is the largest part, want %s", largest, c.largest)
	}
}

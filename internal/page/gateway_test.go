package page

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/inference-exporter/inference_exporter/config"
)

// goldenGateway is what is to be read of a page of a gateway, written by hand.
type goldenGateway struct {
	Software        string                               `yaml:"software"`
	Values          map[config.Quantity]float64          `yaml:"values"`
	Requests        map[string]float64                   `yaml:"requests"`
	PrefixCacheUnit string                               `yaml:"prefix_cache_unit"`
	Histograms      map[config.Quantity]*goldenHistogram `yaml:"histograms"`
	Missing         []config.Quantity                    `yaml:"missing"`
	Backends        map[string]*goldenGateway            `yaml:"backends"`
}

func gatewayPages(t *testing.T) []golden[goldenGateway] {
	t.Helper()
	return readGolden[goldenGateway](t, "pages", "gateways")
}

func gatewayMappings(t *testing.T, own map[string]*config.Mapping) *Mappings {
	t.Helper()
	m := NewMappings(Gateways, own)
	return m
}

// readGateway returns what is read of a page, in the form of what is wanted.
func readGateway(s *Snapshot, want *goldenGateway) *goldenGateway {
	g := &goldenGateway{
		Software: s.Engine, Values: s.Values, Requests: s.Requests, PrefixCacheUnit: s.PrefixCacheUnit, Missing: s.Missing,
		Histograms: map[config.Quantity]*goldenHistogram{}, Backends: map[string]*goldenGateway{},
	}
	for q, h := range s.Histograms {
		one := &goldenHistogram{Count: h.Count, Sum: h.Sum, Bounds: len(h.Bounds)}
		if w := want.Histograms[q]; w != nil && w.At != nil {
			one.At = map[float64]uint64{}
			for bound := range w.At {
				if i, ok := slices.BinarySearch(h.Bounds, bound); ok {
					one.At[bound] = h.Counts[i]
				}
			}
		}
		g.Histograms[q] = one
	}
	for name, b := range s.Backends {
		w := want.Backends[name]
		if w == nil {
			w = &goldenGateway{}
		}
		g.Backends[name] = readGateway(b, w)
		g.Backends[name].Software, g.Backends[name].PrefixCacheUnit = "", ""
	}
	return g
}

// What is read of a gateway's page is what it contains, in all and by backend; the
// software is identified without a hint.
func TestGoldenGateways(t *testing.T) {
	m := gatewayMappings(t, nil)
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	same := gocmp.Options{cmpopts.EquateApprox(1e-12, 0), cmpopts.EquateEmpty()}
	seen := map[string]bool{}
	for _, p := range gatewayPages(t) {
		seen[p.want.Software] = true
		t.Run(p.name, func(t *testing.T) {
			got, err := m.NewReader().Read(p.text, p.contentType, at, Want{})
			if err != nil {
				t.Fatal(err)
			}
			if d := gocmp.Diff(&p.want, readGateway(got, &p.want), same); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
	for _, name := range slices.Sorted(maps.Keys(m.byName)) {
		if !seen[name] {
			t.Errorf("no page of %s", name)
		}
	}
}

const ownGateway = `
endpoints: [{url: "http://localhost:8000"}]
gateway_mappings:
  acme:
    sentinels: [acme_routed_total]
    backend: [target, pod]
    values:
      requests_waiting: [{series: acme_waiting}]
      rate_limit_remaining_tokens: [{series: acme_left}]
      routing_decisions: [{series: acme_routed_total}]
    histograms:
      queue: [{series: acme_queue_seconds}]
    requests: [{series: acme_ended_total, by: [code], as: {"200": success}, else: error}]
    ready: [{series: acme_up, values: [1, 2]}]
`

func acmeReader(t *testing.T) *Reader {
	t.Helper()
	c, err := config.Parse([]byte(ownGateway), "test.yml")
	if err != nil {
		t.Fatal(err)
	}
	return gatewayMappings(t, c.GatewayMappings).NewReader()
}

// The counters of a backend go on over a restart of one series, as those of the page
// do, and a backend that is gone from the page is gone.
func TestBackendsComeAndGo(t *testing.T) {
	r := acmeReader(t)
	read := func(text string) *Snapshot {
		t.Helper()
		s, err := r.Read([]byte(text), textFormat, time.Time{}, Want{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := read(`acme_routed_total{target="a",shard="1"} 10
acme_routed_total{target="a",shard="2"} 5
acme_routed_total{pod="b"} 7
acme_up{target="a"} 2
acme_up{pod="b"} 0
acme_waiting 3
`)
	want := map[config.Quantity]float64{config.RoutingDecisions: 22, config.RequestsWaiting: 3, config.Backends: 2, config.BackendsReady: 1}
	if d := gocmp.Diff(want, first.Values); d != "" {
		t.Errorf("first page (-want +got):\n%s", d)
	}
	second := read(`acme_routed_total{target="a",shard="1"} 1
acme_routed_total{target="a",shard="2"} 6
acme_up{target="a"} 1
acme_waiting 0
`)
	if d := gocmp.Diff(map[config.Quantity]float64{config.RoutingDecisions: 17, config.Backends: 1, config.BackendsReady: 1}, second.Backends["a"].Values); d != "" {
		t.Errorf("a after a reset (-want +got):\n%s", d)
	}
	if len(second.Backends) != 1 {
		t.Errorf("backends %v, want a alone", second.Backends)
	}
}

// Models that were ready and are no longer on the page are not ready; of a page that never had any, none is known.
func TestModelsLeaveThePage(t *testing.T) {
	r := gatewayMappings(t, nil).NewReader()
	const up = "dynamo_frontend_disconnected_clients 0\n"
	for i, c := range []struct {
		text  string
		ready float64
		known bool
	}{{up, 0, false}, {up + "dynamo_frontend_model_ready{model=\"m\"} 1\n", 1, true}, {up, 0, true}} {
		s, err := r.Read([]byte(c.text), textFormat, time.Time{}.Add(time.Duration(i)*time.Minute), Want{})
		if err != nil {
			t.Fatal(err)
		}
		if ready, known := s.Values[config.ModelsReady]; ready != c.ready || known != c.known {
			t.Errorf("page %d: %v models ready, known %v", i, ready, known)
		}
	}
}

// Of what remains of a rate limit the smallest number counts, in all and of each backend.
func TestWhatRemainsIsTheSmallest(t *testing.T) {
	s, err := acmeReader(t).Read([]byte(`acme_routed_total{target="a"} 1
acme_left{target="a",key="1"} 900
acme_left{target="a",key="2"} 120
acme_left{target="b",key="1"} 4000
`), textFormat, time.Time{}, Want{})
	if err != nil {
		t.Fatal(err)
	}
	const left config.Quantity = "rate_limit_remaining_tokens"
	got := []float64{s.Values[left], s.Backends["a"].Values[left], s.Backends["b"].Values[left]}
	if want := []float64{120, 120, 4000}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A page of very many backends is read as a whole, and says nothing by backend.
func TestTooManyBackends(t *testing.T) {
	var b strings.Builder
	for i := range maxBackends + 1 {
		fmt.Fprintf(&b, "acme_routed_total{target=\"t%d\"} 1\nacme_up{target=\"t%d\"} 1\n", i, i)
	}
	s, err := acmeReader(t).Read([]byte(b.String()), textFormat, time.Time{}, Want{})
	if err != nil {
		t.Fatal(err)
	}
	if d := gocmp.Diff(map[config.Quantity]float64{config.RoutingDecisions: maxBackends + 1}, s.Values); d != "" || s.Backends != nil {
		t.Errorf("-want +got:\n%s\nbackends: %d", d, len(s.Backends))
	}
}

// Backends that are gone, of which the page shows counters alone, do not make those that are
// there too many. Their counters are in those of the page.
func TestManyBackendsAreGone(t *testing.T) {
	page := "acme_up{target=\"here\"} 1\nacme_routed_total{target=\"here\"} 7\n"
	for i := range 2 * maxBackends {
		page += fmt.Sprintf("acme_routed_total{target=\"gone%d\"} 1\n", i)
	}
	s, err := acmeReader(t).Read([]byte(page), textFormat, time.Time{}, Want{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[config.Quantity]float64{config.RoutingDecisions: 7 + 2*maxBackends, config.Backends: 1, config.BackendsReady: 1}
	if d := gocmp.Diff(want, s.Values); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if len(s.Backends) != 1 || s.Backends["here"].Values[config.RoutingDecisions] != 7 {
		t.Errorf("backends %v, want here alone", s.Backends)
	}
}

// TestGatewayReference holds docs/gateways.md equal to the mappings.
func TestGatewayReference(t *testing.T) {
	pages := gatewayPages(t)
	all := documented(t, gatewayMappings(t, nil), filepath.Join("mappings", "gateways"), func(name string) string {
		servers := serversOf(pages, func(w *goldenGateway) bool { return w.Software == name })
		return cmp.Or(servers, "composed pages; none was recorded")
	})
	wantReference(t, "gateways.md", template.FuncMap{
		"gateways": func() []documentedEngine { return all },
		"known": func() string {
			return knownBy(t, all, pages, func(w *goldenGateway) string { return w.Software })
		},
		"dropped": func() string { return dropped(t, Gateways, all) },
		"tables": func() []string {
			return sourceTables(all, 3, config.Quantities(config.GatewaySoftware), tableRow{"by backend", (*documentedEngine).byBackend})
		},
	})
}

// byBackend renders what identifies a backend, whether it is ready, and its requests.
func (e *documentedEngine) byBackend() string {
	if len(e.config.Backend) == 0 {
		return "–"
	}
	text := "label " + inCode(e.config.Backend)
	for _, r := range e.config.BackendRequests {
		text += "; requests " + e.series(r.Series, r.Labels)
	}
	for _, r := range e.config.Ready {
		text += "; ready " + e.series(r.Series, r.Labels)
	}
	return text
}

package status

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// GatewayState is how a gateway is, as far as its pages show it.
type GatewayState string

// The states, the worst first.
const (
	GatewayLost     GatewayState = "lost"     // no page can be read
	GatewayUnready  GatewayState = "unready"  // no backend is ready
	GatewayDegraded GatewayState = "degraded" // some pages, or some backends, are missing, or a backend fails requests
	GatewayWaiting  GatewayState = "waiting"  // no page was read yet
	GatewayUp       GatewayState = "up"
)

// GatewayPage is the page of all gateways: GET /api/v1/gateways.
type GatewayPage struct {
	At float64 `json:"at"`
	// Gateways are those with trouble first, then by name.
	Gateways []*Gateway `json:"gateways"`
}

// Gateway is what the pages of a gateway show, over all its replicas. It is never changed once it is on the board.
type Gateway struct {
	Name string `json:"name"`
	// Software is the mapping that the pages were read with, or that of the configuration.
	Software string `json:"software,omitempty"`
	// State is how it is, and Why says in one line why it is not up. Why may quote a
	// server: bounded, without secrets, and untrusted text.
	State GatewayState `json:"state"`
	Why   string       `json:"why,omitempty"`
	// Values are numbers by the name of their metric without "inference_gateway_", over
	// all replicas that could be read.
	Values map[string]float64 `json:"values,omitempty"`
	// UsuallyReady is how many backends were ready in most readings of the last day; absent where that is not known.
	UsuallyReady *float64 `json:"backends_usually_ready,omitempty"`
	// Requests are inference_gateway_requests_total by finish.
	Requests map[string]float64 `json:"requests_total,omitempty"`
	// Span is what Recent is about, here and of backends.
	Span   float64          `json:"window_seconds,omitempty"`
	Recent *page.GatewayUse `json:"recent,omitempty"`
	// Backends are those that are not ready first, then those that fail requests, then by name.
	Backends []*Backend `json:"backends,omitempty"`
	// Pages are its replicas.
	Pages []*Server `json:"pages,omitempty"`
	// Endpoints are those behind it, sorted.
	Endpoints []string `json:"endpoints,omitempty"`
}

// Backend is one backend of a gateway.
type Backend struct {
	Name string `json:"name"`
	// Ready is absent where the pages do not say it by backend.
	Ready *bool `json:"ready,omitempty"`
	// Values are numbers by the name of their metric without "inference_gateway_backend_".
	Values map[string]float64 `json:"values,omitempty"`
	// Requests are inference_gateway_backend_requests_total by finish.
	Requests map[string]float64 `json:"requests_total,omitempty"`
	Recent   *page.GatewayUse   `json:"recent,omitempty"`

	failing bool
}

// NewGateway returns what the latest readings of the pages of a gateway show, and what it
// did lately. Software is that of the configuration; no statuses are those before the
// first reading. usuallyReady is how many backends are mostly ready; nil is not known.
func NewGateway(name, software string, statuses []page.Status, uses *page.GatewayUses, usuallyReady *float64) *Gateway {
	g := &Gateway{Name: name, Software: software, Pages: pagesOf(statuses)}
	if now := page.NewTotal(statuses); now != nil {
		g.Software = cmp.Or(now.Engine, software)
		g.Values, g.Requests = numbersOf(now), now.Requests
		g.UsuallyReady = usuallyReady
		g.Span, g.Recent = uses.Span().Seconds(), uses.Whole()
		for backend, b := range now.Backends {
			g.Backends = append(g.Backends, newBackend(backend, b, uses.Backend(backend)))
		}
		slices.SortFunc(g.Backends, compareBackends)
	}
	g.State, g.Why = g.judge(statuses)
	for _, p := range g.Pages {
		p.Values, p.Hits = nil, nil // Values has them all
	}
	return g
}

// numbersOf returns the numbers of a snapshot by the name of their metric.
func numbersOf(s *page.Total) map[string]float64 {
	values := map[string]float64{}
	for q, v := range s.Values {
		values[q.MetricName()] = v
	}
	return values
}

func newBackend(name string, s *page.Total, use *page.GatewayUse) *Backend {
	b := &Backend{Name: harmless(name), Values: numbersOf(s), Requests: s.Requests, Recent: use, failing: use.IsFailing()}
	if ready, ok := s.Values[config.BackendsReady]; ok {
		b.Ready = new(ready == 1)
	}
	delete(b.Values, string(config.Backends)) // of one backend it is one
	delete(b.Values, string(config.BackendsReady))
	return b
}

func compareBackends(a, b *Backend) int {
	trouble := func(b *Backend) (n int) {
		if b.Ready != nil && !*b.Ready {
			n += 2
		}
		if b.failing {
			n++
		}
		return n
	}
	return cmp.Or(trouble(b)-trouble(a), cmp.Compare(a.Name, b.Name))
}

// judge returns the state, and why it is not up.
func (g *Gateway) judge(statuses []page.Status) (state GatewayState, why string) {
	if len(statuses) == 0 {
		return GatewayWaiting, "its pages were not read yet"
	}
	var reasons []string
	lost := 0
	for _, p := range g.Pages {
		if p.State != page.Up {
			lost++
			reasons = append(reasons, fmt.Sprintf("%s: %s: %s", p.Server, p.Reason, p.Error))
		}
	}
	if lost == len(statuses) {
		return GatewayLost, harmless("no page can be read; " + reasons[0])
	}
	if lost > 0 {
		reasons = []string{fmt.Sprintf("%d of %d pages cannot be read; %s", lost, len(statuses), reasons[0])}
	}
	for _, b := range g.Backends {
		if b.failing {
			reasons = slices.Insert(reasons, 0, fmt.Sprintf("%.0f of %.0f requests to %s failed", *b.Recent.Failed, *b.Recent.Requests, b.Name))
			break // one is named
		}
	}
	ready, known := g.Values[string(config.BackendsReady)]
	models, ofModels := g.Values[string(config.ModelsReady)]
	switch all := g.Values[string(config.Backends)]; {
	case known && ready == 0:
		return GatewayUnready, harmless(strings.Join(slices.Insert(reasons, 0, "no backend is ready"), "; "))
	case ofModels && models == 0:
		return GatewayUnready, harmless(strings.Join(slices.Insert(reasons, 0, "no model is ready"), "; "))
	case known && ready < all:
		text := fmt.Sprintf("%.0f of %.0f backends ready", ready, all)
		if g.UsuallyReady != nil {
			text += fmt.Sprintf(", usually %.0f", *g.UsuallyReady)
		}
		reasons = slices.Insert(reasons, 0, text)
	}
	if len(reasons) > 0 {
		return GatewayDegraded, harmless(strings.Join(reasons, "; "))
	}
	return GatewayUp, ""
}

// SetGateway replaces what is known of a gateway. A change of its state is a change of the endpoints behind it.
func (b *Board) SetGateway(g *Gateway) {
	b.mu.Lock()
	before := b.gateways[g.Name]
	b.gateways[g.Name] = g
	all := b.endpoints
	b.mu.Unlock()
	if before == nil || before.State == g.State {
		return
	}
	for _, e := range all {
		e.mu.Lock()
		if e.cfg.Gateway == g.Name {
			if before.State != GatewayWaiting && g.State != GatewayWaiting {
				e.events.add(b.now(), fmt.Sprintf("gateway %s went from %s to %s", g.Name, before.State, g.State))
			}
			e.touch()
		}
		e.mu.Unlock()
	}
}

// RemoveGateway takes a gateway off the board.
func (b *Board) RemoveGateway(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.gateways, name)
}

// Gateways returns the page of all gateways.
func (b *Board) Gateways() *GatewayPage {
	b.mu.Lock()
	gateways, all := maps.Clone(b.gateways), b.endpoints
	b.mu.Unlock()
	behind := map[string][]string{}
	for _, e := range all {
		e.mu.Lock()
		if name := e.cfg.Gateway; name != "" {
			behind[name] = append(behind[name], e.name)
		}
		e.mu.Unlock()
	}
	p := &GatewayPage{At: stats.UnixSeconds(b.now()), Gateways: []*Gateway{}}
	rank := []GatewayState{GatewayLost, GatewayUnready, GatewayDegraded, GatewayWaiting, GatewayUp}
	for name, g := range gateways {
		shown := *g
		shown.Endpoints = behind[name]
		p.Gateways = append(p.Gateways, &shown)
	}
	slices.SortFunc(p.Gateways, func(x, y *Gateway) int {
		return cmp.Or(cmp.Compare(slices.Index(rank, x.State), slices.Index(rank, y.State)), cmp.Compare(x.Name, y.Name))
	})
	return p
}

// gateway returns a gateway by its name; nil is none.
func (b *Board) gateway(name string) *Gateway {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.gateways[name]
}

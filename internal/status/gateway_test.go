package status

import (
	"errors"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/page"
)

// routerPage is a reading of a gateway's page with two backends, of which b is not ready.
func routerPage(ready, requests, failed float64) page.Status {
	backend := func(ready, requests, failed float64) *page.Snapshot {
		return &page.Snapshot{
			Values:   map[config.Quantity]float64{config.Backends: 1, config.BackendsReady: ready, config.RequestsRunning: 2},
			Requests: map[string]float64{"success": requests, "error": failed},
		}
	}
	return page.Status{
		Server: "router:9090", URL: "http://router:9090/metrics", At: epoch(), State: page.Up,
		Snapshot: &page.Snapshot{
			Engine: "acme", At: epoch(),
			Values:   map[config.Quantity]float64{config.Backends: 2, config.BackendsReady: ready, config.RequestsWaiting: 3, config.RoutingDecisions: requests},
			Requests: map[string]float64{"success": requests, "error": failed},
			Backends: map[string]*page.Snapshot{"a": backend(1, requests, 0), "b": backend(ready-1, 0, failed)},
		},
	}
}

func lostPage(server string) page.Status {
	return page.Status{Server: server, URL: "http://" + server, At: epoch(), State: page.Down, Reason: page.ReasonConnect, Err: errors.New("refused\nby it")}
}

// gatewayOf returns a gateway after some readings, a minute apart.
func gatewayOf(all ...[]page.Status) *Gateway {
	var u page.GatewayUses
	var last []page.Status
	for i, statuses := range all {
		for j := range statuses {
			if s := statuses[j].Snapshot; s != nil {
				s.At = epoch().Add(time.Duration(i) * time.Minute)
			}
		}
		if s := page.NewTotal(statuses); s != nil {
			u.Add(s)
		}
		last = statuses
	}
	return NewGateway("router", "", last, &u, nil)
}

// What a gateway shows has the names of its metrics.
func TestGateway(t *testing.T) {
	expectJSON(t, gatewayOf([]page.Status{routerPage(2, 10, 0)}, []page.Status{routerPage(1, 40, 6)}), `{
		"name": "router", "software": "acme", "state": "degraded", "why": "1 of 2 backends ready; 6 of 6 requests to b failed",
		"values": {"backends": 2, "backends_ready": 1, "requests_waiting": 3, "routing_decisions_total": 40},
		"requests_total": {"success": 40, "error": 6}, "window_seconds": 60,
		"recent": {"requests": 36, "failed": 6, "routing_decisions": 30},
		"backends": [
			{"name": "b", "ready": false, "values": {"requests_running": 2}, "requests_total": {"success": 0, "error": 6}, "recent": {"requests": 6, "failed": 6}},
			{"name": "a", "ready": true, "values": {"requests_running": 2}, "requests_total": {"success": 40, "error": 0}, "recent": {"requests": 30, "failed": 0}}],
		"pages": [{"server": "router:9090", "url": "http://router:9090/metrics", "engine": "acme", "at": 1767323045, "state": "up"}]}`)
	expectJSON(t, NewGateway("router", "acme", nil, new(page.GatewayUses), nil), `{
		"name": "router", "software": "acme", "state": "waiting", "why": "its pages were not read yet"}`)
}

// The state is the worst of what the pages show.
func TestStatesOfGateways(t *testing.T) {
	for _, c := range []struct {
		name  string
		pages []page.Status
		state GatewayState
		why   string
	}{
		{"all ready", []page.Status{routerPage(2, 10, 0)}, GatewayUp, ""},
		{"one of two ready", []page.Status{routerPage(1, 10, 0)}, GatewayDegraded, "1 of 2 backends ready"},
		{"none ready", []page.Status{routerPage(0, 10, 0)}, GatewayUnready, "no backend is ready"},
		{"no model ready", []page.Status{{Server: "router:9090", At: epoch(), State: page.Up, Snapshot: &page.Snapshot{At: epoch(), Values: map[config.Quantity]float64{config.ModelsReady: 0}}}}, GatewayUnready, "no model is ready"},
		{"a backend fails", []page.Status{routerPage(2, 10, 5)}, GatewayDegraded, "5 of 5 requests to b failed"},
		{"none ready, and one fails", []page.Status{routerPage(0, 10, 5)}, GatewayUnready, "no backend is ready; 5 of 5 requests to b failed"},
		{"one of two pages lost", []page.Status{routerPage(2, 10, 0), lostPage("other")}, GatewayDegraded, "1 of 2 pages cannot be read; other: connect: refused by it"},
		{"all pages lost", []page.Status{lostPage("one"), lostPage("other")}, GatewayLost, "no page can be read; one: connect: refused by it"},
	} {
		before := []page.Status{routerPage(2, 0, 0)}
		if len(c.pages) == 2 && c.pages[0].State != page.Up {
			before = nil
		}
		g := gatewayOf(before, c.pages)
		if g.State != c.state || g.Why != c.why {
			t.Errorf("%s: %s, %q, want %s, %q", c.name, g.State, g.Why, c.state, c.why)
		}
	}
}

// The page of gateways lists those with trouble first, each with the endpoints behind it;
// an endpoint shows its own, and a change of its state is a change of theirs.
func TestGatewaysOnTheBoard(t *testing.T) {
	l := newLab(t)
	expectJSON(t, l.board.Gateways(), `{"at": 1767323045, "gateways": []}`)
	for name, gateway := range map[string]string{"e": "router", "d": "router", "other": ""} {
		cfg := configured(name)
		cfg.Gateway = gateway
		l.board.SetEndpoint(cfg)
	}
	named := func(g *Gateway, name string) *Gateway {
		g.Name = name
		return g
	}
	detail := func(name string) *Detail {
		t.Helper()
		d, ok := l.board.Detail(name)
		if !ok {
			t.Fatalf("no endpoint %s", name)
		}
		return d
	}
	l.board.SetGateway(gatewayOf([]page.Status{routerPage(2, 10, 0)}))
	l.board.SetGateway(named(gatewayOf([]page.Status{routerPage(0, 10, 0)}), "unused"))
	shown := l.board.Gateways()
	if len(shown.Gateways) != 2 || shown.Gateways[0].Name != "unused" || shown.Gateways[0].Endpoints != nil {
		t.Errorf("the first gateway is not the one without backends: %s", text(t, shown))
	}
	if got := text(t, shown.Gateways[1].Endpoints); got != `["d","e"]` {
		t.Errorf("endpoints behind the gateway: %s", got)
	}
	if d := detail("e"); d.Gateway == nil || d.Gateway.State != GatewayUp || d.Gateway.Endpoints != nil {
		t.Errorf("the gateway of e: %s", text(t, d.Gateway))
	}
	if d := detail("other"); d.Gateway != nil {
		t.Errorf("an endpoint without a gateway has %s", text(t, d.Gateway))
	}

	behind, _ := l.board.Version("e")
	without, _ := l.board.Version("other")
	l.board.SetGateway(gatewayOf([]page.Status{routerPage(2, 20, 0)}))
	if v, _ := l.board.Version("e"); v != behind {
		t.Error("a reading that changes no state is a change of the endpoint")
	}
	l.board.SetGateway(gatewayOf([]page.Status{lostPage("router:9090")}))
	if v, _ := l.board.Version("e"); v == behind {
		t.Error("the loss of the gateway is no change of the endpoint")
	}
	if v, _ := l.board.Version("other"); v != without {
		t.Error("the loss of the gateway is a change of an endpoint without one")
	}
	if got := l.board.endpoint("e").events.near(l.now, time.Minute, nil); len(got) != 1 || got[0] != "gateway router went from up to lost" {
		t.Errorf("events %q", got)
	}
	l.board.RemoveGateway("router")
	if d := detail("e"); d.Gateway != nil {
		t.Errorf("a gateway that is gone is still there: %s", text(t, d.Gateway))
	}
}

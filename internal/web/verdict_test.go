package web

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/loadtest"
)

// verdictSite is a site with an endpoint of each state, which it is named after; "muted"
// is down under its mute, and "muted up" is up.
func verdictSite(t *testing.T) *site {
	since := time.Unix(1767323045, 250e6)
	states := map[string]*health.Status{
		"waiting":  {State: health.Waiting, Unmuted: health.Waiting, Why: "no result yet"},
		"muted":    {State: health.Muted, Unmuted: health.Down, UnmutedSince: since, Mute: &health.Mute{}, Why: "status 503 (m)"},
		"muted up": {State: health.Muted, Unmuted: health.Up, UnmutedSince: since, Mute: &health.Mute{}},
		"a/b":      {State: health.Up, Unmuted: health.Up, UnmutedSince: since},
	}
	for _, state := range []health.State{health.Up, health.Degraded, health.Slow, health.Down, health.Stale} {
		s := &health.Status{State: state, Since: since, Unmuted: state, UnmutedSince: since}
		if state != health.Up {
			s.Why = "because"
		}
		states[string(state)] = s
	}
	return newSiteWith(t, func(o *Options) { o.Health = func(name string) *health.Status { return states[name] } })
}

func TestVerdict(t *testing.T) {
	s := verdictSite(t)
	defer s.Close()
	f := func(name string, status int, want string) {
		t.Helper()
		name, query, _ := strings.Cut(name, "?")
		resp := s.ask(http.MethodGet, "/api/v1/endpoints/"+name+"/verdict?"+query)
		body := readAll(t, resp.Body)
		if kind := resp.Header.Get("Content-Type"); resp.StatusCode != status || body != want || kind != "application/json" {
			t.Errorf("%s?%s: status %d, %s, %s\nwant %d, %s", name, query, resp.StatusCode, kind, body, status, want)
		}
	}
	const ok, bad = http.StatusOK, http.StatusServiceUnavailable
	f("up", ok, `{"endpoint":"up","ok":true,"state":"up","since":1767323045.25}`)
	f("a%2Fb", ok, `{"endpoint":"a/b","ok":true,"state":"up","since":1767323045.25}`)
	f("down", bad, `{"endpoint":"down","ok":false,"state":"down","since":1767323045.25,"reason":"because"}`)
	f("stale", bad, `{"endpoint":"stale","ok":false,"state":"stale","since":1767323045.25,"reason":"because"}`)
	f("waiting", bad, `{"endpoint":"waiting","ok":false,"state":"waiting","reason":"no result yet"}`)
	f("muted", bad, `{"endpoint":"muted","ok":false,"state":"down","since":1767323045.25,"muted":true,"reason":"status 503 (m)"}`)
	f("muted%20up", ok, `{"endpoint":"muted up","ok":true,"state":"up","since":1767323045.25,"muted":true}`)

	const slow = `{"endpoint":"slow","ok":false,"state":"slow","since":1767323045.25,"reason":"because"}`
	slowOK := strings.Replace(slow, "false", "true", 1)
	degraded := strings.ReplaceAll(slow, "slow", "degraded")
	f("slow", bad, slow)
	f("slow?allow=", bad, slow)
	f("slow?allow=degraded", bad, slow)
	f("slow?allow=slow", ok, slowOK)
	f("slow?allow=degraded,slow", ok, slowOK)
	f("slow?allow=degraded&allow=slow", ok, slowOK)
	f("degraded", bad, degraded)
	f("degraded?allow=slow", bad, degraded)
	f("degraded?allow=slow,degraded", ok, strings.Replace(degraded, "false", "true", 1))
	f("down?allow=slow,degraded", bad, `{"endpoint":"down","ok":false,"state":"down","since":1767323045.25,"reason":"because"}`)

	const want = `: want flapping, degraded or slow, separated by commas"}`
	f("up?allow=down", http.StatusBadRequest, `{"error":"parameter allow has \"down\"`+want)
	f("up?allow=slow,waiting", http.StatusBadRequest, `{"error":"parameter allow has \"waiting\"`+want)
	f("none", http.StatusNotFound, `{"error":"no endpoint with this name"}`)
	for _, name := range []string{"down", "up"} {
		if resp := s.ask(http.MethodPost, "/api/v1/endpoints/"+name+"/verdict"); resp.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("POST: status %d", resp.StatusCode)
		}
		// A name of somebody else, which a page in a browser may have.
		if resp := s.ask(http.MethodGet, "http://evil.example/api/v1/endpoints/"+name+"/verdict"); resp.StatusCode != http.StatusForbidden {
			t.Errorf("by another name: status %d", resp.StatusCode)
		}
	}
}

// loaded is a board on which each endpoint has the findings of load tests by module.
type loaded struct {
	Status
	found map[string]*loadtest.Finding
}

func (l loaded) Detail(string) (*status.Detail, bool) {
	d := new(status.Detail)
	for module, f := range l.found {
		d.Findings = append(d.Findings, &status.Module{Module: module, Findings: &workload.Findings{All: []workload.Finding{f}}})
	}
	one := 0.8
	d.Facts = &workload.Findings{All: []workload.Finding{&loadtest.Loss{Now: &loadtest.Headroom{Lower: 2}, Peak: &loadtest.Headroom{Lower: 0.7, Upper: &one}}}}
	return d, true
}

// TestVerdictShowsLoadTests shows what is certain of the target load, and nothing of a test that is undecided.
func TestVerdictShowsLoadTests(t *testing.T) {
	found := map[string]*loadtest.Finding{}
	for module, verdict := range map[string]loadtest.Verdict{"peak": loadtest.Missed, "usual": loadtest.Met, "short": loadtest.Undecided} {
		found[module] = &loadtest.Finding{Target: 50, Levels: []loadtest.Level{{Level: 50, Complete: true, Verdict: verdict}}}
	}
	s := newSiteWith(t, func(o *Options) {
		o.Health = func(string) *health.Status { return &health.Status{Unmuted: health.Up, UnmutedSince: time.Unix(1, 0)} }
		o.Status = loaded{o.Status, found}
	})
	defer s.Close()
	resp := s.ask(http.MethodGet, "/api/v1/endpoints/e/verdict")
	const want = `{"endpoint":"e","ok":true,"state":"up","since":1,"load_target_missed":{"peak":true,"usual":false},"one_server_fewer":{"now":"met","peak":"missed"}}`
	if body := readAll(t, resp.Body); resp.StatusCode != http.StatusOK || body != want {
		t.Errorf("status %d, %s, want %s", resp.StatusCode, body, want)
	}
}

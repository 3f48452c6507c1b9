package web

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/health"
)

// muter takes down what it is asked for endpoint a/b, which alone there is.
type muter struct{ asked []string }

func (m *muter) Mute(endpoint string, d time.Duration, reason string) error {
	m.asked = append(m.asked, fmt.Sprintf("mute %s for %s: %s", endpoint, d, reason))
	switch {
	case endpoint != "a/b":
		return health.ErrNoEndpoint
	case reason == "":
		return health.ErrNoReason
	case d < time.Minute:
		return health.ErrDuration
	}
	return nil
}

func (m *muter) Unmute(endpoint string) error {
	m.asked = append(m.asked, "unmute "+endpoint)
	if endpoint != "a/b" {
		return health.ErrNoEndpoint
	}
	return nil
}

// askToMute sends a request with the given headers.
func askToMute(t *testing.T, s *site, method, path, body string, header ...string) (status int, answer string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	text, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(text)
}

func TestMute(t *testing.T) {
	m := &muter{}
	s := newSiteWith(t, everything, func(o *Options) { o.Muter = m })
	defer s.Close()
	f := func(method, name, body string, status int, answer, asked string) {
		t.Helper()
		m.asked = nil
		got, text := askToMute(t, s, method, "/api/v1/endpoints/"+name+"/mute", body)
		if got != status || !strings.Contains(text, answer) || strings.Join(m.asked, "; ") != asked {
			t.Errorf("%s %s %.80s: status %d, %q, asked %q; want %d, %q, %q", method, name, body, got, text, m.asked, status, answer, asked)
		}
	}
	const want = `"error":"want a body as`
	f("POST", "a%2Fb", `{"minutes": 90, "reason": "new driver"}`, http.StatusNoContent, "", "mute a/b for 1h30m0s: new driver")
	f("POST", "a%2Fb", `{"minutes": 0.5, "reason": "r"}`, http.StatusBadRequest, "at least 1 minute and at most 7 days", "mute a/b for 30s: r")
	f("POST", "a%2Fb", `{"minutes": 1e300, "reason": "r"}`, http.StatusBadRequest, "at most 7 days", "")
	f("POST", "a%2Fb", `{"minutes": 60}`, http.StatusBadRequest, "mute has no reason", "mute a/b for 1h0m0s: ")
	f("POST", "c", `{"minutes": 60, "reason": "r"}`, http.StatusNotFound, "no endpoint with this name", "mute c for 1h0m0s: r")
	f("POST", "a%2Fb", ``, http.StatusBadRequest, want, "")
	f("POST", "a%2Fb", `{"minutes": "60", "reason": "r"}`, http.StatusBadRequest, want, "")
	f("POST", "a%2Fb", `{"minutes": 60, "reason": "r", "until": 1}`, http.StatusBadRequest, want, "")
	f("POST", "a%2Fb", `{"minutes": 60, "reason": "`+strings.Repeat("r", 5000)+`"}`, http.StatusBadRequest, want, "")
	f("DELETE", "a%2Fb", "", http.StatusNoContent, "", "unmute a/b")
	f("DELETE", "c", "", http.StatusNotFound, "no endpoint with this name", "unmute c")
	f("PUT", "a%2Fb", `{"minutes": 60, "reason": "r"}`, http.StatusMethodNotAllowed, "", "")
}

// No page of another site mutes an endpoint, nor does a name of somebody else.
func TestMuteIsGuarded(t *testing.T) {
	m := &muter{}
	s := newSiteWith(t, everything, func(o *Options) { o.Muter = m })
	defer s.Close()
	const path, body = "/api/v1/endpoints/a%2Fb/mute", `{"minutes": 60, "reason": "r"}`
	for _, method := range []string{"POST", "DELETE"} {
		for _, header := range [][]string{
			{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "http://evil.example"}, {"Origin", "null"},
		} {
			if status, _ := askToMute(t, s, method, path, body, header...); status != http.StatusForbidden {
				t.Errorf("%s with %q: status %d", method, header, status)
			}
		}
		if status, text := askToMute(t, s, method, "http://evil.example"+path, body); status != http.StatusForbidden || !strings.Contains(text, "--web.allowed-host") {
			t.Errorf("%s by another name: status %d, %q", method, status, text)
		}
	}
	if len(m.asked) != 0 {
		t.Errorf("asked %q", m.asked)
	}
	if status, _ := askToMute(t, s, "POST", path, body, "Sec-Fetch-Site", "same-origin"); status != http.StatusNoContent {
		t.Errorf("the exporter's own page: status %d", status)
	}
}

// Without the flag nobody mutes.
func TestMuteNeedsTheFlag(t *testing.T) {
	s := newSiteWith(t, everything, func(o *Options) { o.Muter = nil })
	defer s.Close()
	for _, method := range []string{"POST", "DELETE"} {
		status, text := askToMute(t, s, method, "/api/v1/endpoints/a/mute", `{"minutes": 60, "reason": "r"}`)
		if status != http.StatusForbidden || !strings.Contains(text, "--web.enable-lifecycle") {
			t.Errorf("%s: status %d, %q", method, status, text)
		}
	}
}

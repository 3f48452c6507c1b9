package foreign

import (
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	promconfig "github.com/prometheus/common/config"
	"golang.org/x/net/trace"
)

// Requests carry the headers that Prometheus' own client sends with the same settings.
func TestAuthenticatedAsPrometheus(t *testing.T) {
	var got http.Header
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Clone() }))
	defer server.Close()
	header := func(rt http.RoundTripper, err error) http.Header {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return got
	}
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	headers := &promconfig.Headers{Headers: map[string]promconfig.Header{
		"Api-Key": {Secrets: []promconfig.Secret{"k"}}, "X-Team": {Values: []string{"a", "b"}}, "X-Key": {Files: []string{file}},
	}}
	for name, c := range map[string]struct {
		settings promconfig.HTTPClientConfig
		header   string
		want     string
	}{
		"anonymous": {promconfig.HTTPClientConfig{}, "Authorization", ""},
		"credentials": {
			promconfig.HTTPClientConfig{Authorization: &promconfig.Authorization{Type: "Bearer", Credentials: "c"}}, "Authorization", "Bearer c",
		},
		"file": {
			promconfig.HTTPClientConfig{Authorization: &promconfig.Authorization{Type: "Bearer", CredentialsFile: file}}, "Authorization", "Bearer from-file",
		},
		"type": {promconfig.HTTPClientConfig{Authorization: &promconfig.Authorization{Type: "Negotiate"}}, "Authorization", "Negotiate"},
		"basic": {
			promconfig.HTTPClientConfig{BasicAuth: &promconfig.BasicAuth{Username: "u", PasswordFile: file}}, "Authorization", "Basic dTpmcm9tLWZpbGU=",
		},
		"headers": {promconfig.HTTPClientConfig{HTTPHeaders: headers}, "Api-Key", "k"},
		"both": {
			promconfig.HTTPClientConfig{Authorization: &promconfig.Authorization{Type: "Bearer", Credentials: "c"}, HTTPHeaders: headers},
			"X-Key", "from-file",
		},
	} {
		ours := header(RoundTripper(&c.settings, "ours", new(net.Dialer).DialContext))
		theirs := header(promconfig.NewRoundTripperFromConfig(c.settings, "theirs"))
		if !reflect.DeepEqual(ours, theirs) || ours.Get(c.header) != c.want {
			t.Errorf("%s: headers %v, Prometheus sends %v", name, ours, theirs)
		}
	}
	events := httptest.NewRecorder()
	trace.RenderEvents(events, httptest.NewRequest(http.MethodGet, "/debug/events", nil), true)
	if text := events.Body.String(); strings.Contains(text, "net.ClientConn.ours") || !strings.Contains(text, "net.ClientConn.theirs") {
		t.Errorf("logs of events: %s", text)
	}
}

package prober

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"

	promconfig "github.com/prometheus/common/config"

	"github.com/inference-exporter/inference_exporter/config"
)

// What the configuration holds is never repeated, in whatever form the server
// quotes it.
func TestConfiguredSecretsStayInside(t *testing.T) {
	const secret = "hunter2/pass"
	f := func(name string, set func(*config.Endpoint), quote func(*http.Request) string) {
		t.Run(name, func(t *testing.T) {
			s := chat(t, func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(http.StatusUnauthorized)
				fmt.Fprintf(w, `{"error":{"message":"wrong: %s"}}`, quote(r))
			})
			cfg := newEndpoint(t, s.URL)
			set(cfg)
			r := newProber(t, cfg, newModule()).one(t.Context(), time.Time{})
			text := fmt.Sprint(r.Err)
			if r.Outcome != result.Unauthorized || strings.Contains(text, "hunter2") {
				t.Errorf("outcome %s: %q", r.Outcome, text)
			}
		})
	}
	f("basic auth", func(c *config.Endpoint) {
		c.HTTP.BasicAuth = &promconfig.BasicAuth{Username: "u", Password: secret}
	}, func(r *http.Request) string {
		_, password, _ := r.BasicAuth()
		return password
	})
	f("header", func(c *config.Endpoint) {
		c.HTTP.HTTPHeaders = &promconfig.Headers{Headers: map[string]promconfig.Header{"X-Api-Key": {Secrets: []promconfig.Secret{secret}}}}
	}, func(r *http.Request) string { return r.Header.Get("X-Api-Key") })
	token := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, "you sent %s and %s", body, secret)
	}))
	t.Cleanup(token.Close)
	f("oauth2", func(c *config.Endpoint) {
		c.HTTP.OAuth2 = &promconfig.OAuth2{ClientID: "c", ClientSecret: secret, TokenURL: token.URL}
	}, func(*http.Request) string { return "" })
}

// What a server sends where the reply should begin is quoted by net/http.
func TestReasonsAreBounded(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = c.Read(make([]byte, 64<<10))
		_, _ = io.WriteString(c, strings.Repeat("\x1b[31mB", 100_000)+"\r\n\r\n")
	}()
	r := newProber(t, newEndpoint(t, "http://"+l.Addr().String()), newModule()).one(t.Context(), time.Time{})
	text := fmt.Sprint(r.Err)
	if r.Outcome == result.Success || len(text) > maxReason+8 || strings.ContainsAny(text, "\x1b\r\n") {
		t.Errorf("outcome %s, reason of %d bytes", r.Outcome, len(text))
	}
}

// A server may quote the credentials in its error.
func TestServersWordsHoldNoSecret(t *testing.T) {
	f := func(name string, answer http.HandlerFunc) {
		t.Run(name, func(t *testing.T) {
			const secret = "sk-0123456789abcdef"
			s := chat(t, answer)
			cfg := newEndpoint(t, s.URL)
			cfg.HTTP.Authorization = &promconfig.Authorization{Type: "Bearer", Credentials: secret}
			r := newProber(t, cfg, newModule()).one(t.Context(), time.Time{})
			text := fmt.Sprint(r.Err)
			if strings.Contains(text, secret[:6]) || !strings.Contains(text, "<secret>") {
				t.Errorf("outcome %s: %q", r.Outcome, text)
			}
		})
	}
	f("status", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":{"message":"incorrect API key: %s"}}`, r.Header.Get("Authorization"))
	})
	f("long text", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, strings.Repeat("x", 240)+" "+r.Header.Get("Authorization"))
	})
	f("event", func(w http.ResponseWriter, r *http.Request) {
		events(w, role, fmt.Sprintf(`{"error":{"message":"key %s expired"}}`, r.Header.Get("Authorization")))
	})
}

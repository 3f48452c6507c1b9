package prober

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	promconfig "github.com/prometheus/common/config"
)

func TestRedact(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if got := redact(text, []string{"sk-abcdefgh"}); got != want {
			t.Errorf("redact(%q) = %q, want %q", text, got, want)
		}
	}
	f("no such model", "no such model")
	f("bad key sk-abcdefgh given", "bad key <secret> given")
	f("sk-abcdefgh sk-abcdefgh", "<secret> <secret>")
	f("bad key sk-abc", "bad key <secret>") // cut off by the bound on a server's text
	f("bad key sk-", "bad key sk-")
}

// A server may quote the credentials in its error.
func TestServersWordsHoldNoSecret(t *testing.T) {
	f := func(name string, answer http.HandlerFunc) {
		t.Run(name, func(t *testing.T) {
			const secret = "sk-0123456789abcdef"
			s := chat(t, answer)
			cfg := newEndpoint(t, s.URL)
			cfg.HTTP.Authorization = &promconfig.Authorization{Type: "Bearer", Credentials: secret}
			r := newProber(t, cfg, newModule()).Probe(t.Context(), time.Time{})
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

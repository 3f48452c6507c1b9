package foreign

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/golang-jwt/jwt/v5"
	promconfig "github.com/prometheus/common/config"
)

// Requests for tokens are those of Prometheus' own client with the same settings.
func TestTokensAsPrometheus(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	private := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	type question struct {
		form    url.Values
		header  http.Header
		claims  jwt.MapClaims
		signing string
	}
	var asked question
	var sent string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/token" {
			sent = r.Header.Get("Authorization")
			return
		}
		if err := r.ParseForm(); err != nil {
			t.Error(err)
		}
		asked = question{form: r.PostForm, header: r.Header.Clone()}
		asked.header.Del("Content-Length")  // assertions differ in length
		asked.header.Del("Connection")      // ours is not kept
		asked.header.Del("Accept-Encoding") // and asks for no compression
		if assertion := r.PostForm.Get("assertion"); assertion != "" {
			token, err := jwt.Parse(assertion, func(*jwt.Token) (any, error) { return &key.PublicKey, nil })
			if err != nil {
				t.Error(err)
				return
			}
			asked.claims, asked.signing = token.Claims.(jwt.MapClaims), fmt.Sprint(token.Header)
			for _, varies := range []string{"iat", "exp", "jti"} {
				delete(asked.claims, varies)
			}
			r.PostForm.Del("assertion")
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"access_token": "t", "token_type": "Bearer", "expires_in": 3600}`)
	}))
	defer server.Close()
	for name, o := range map[string]promconfig.OAuth2{
		"client credentials": {
			ClientID: "c", ClientSecret: "s", Scopes: []string{"a", "b"}, EndpointParams: map[string]string{"audience": "x"},
		},
		"no secret": {ClientID: "c"},
		"assertion": {
			ClientID: "c", GrantType: jwtBearer, ClientCertificateKey: promconfig.Secret(private), ClientCertificateKeyID: "k",
			SignatureAlgorithm: "RS512", Audience: "a", Claims: map[string]any{"x": "y"}, Scopes: []string{"a"},
		},
		"assertion of another": {ClientID: "c", GrantType: jwtBearer, ClientCertificateKey: promconfig.Secret(private), Iss: "i"},
	} {
		o.TokenURL = server.URL + "/token"
		h := &promconfig.HTTPClientConfig{OAuth2: &o}
		ask := func(rt http.RoundTripper, err error) question {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			sent = ""
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("User-Agent", "prober")
			resp, err := rt.RoundTrip(req)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			resp.Body.Close()
			if sent != "Bearer t" {
				t.Errorf("%s: sent %q", name, sent)
			}
			return asked
		}
		ours := ask(RoundTripper(h, "ours", new(net.Dialer).DialContext))
		theirs := ask(promconfig.NewRoundTripperFromConfig(*h, "theirs", promconfig.WithDialContextFunc(new(net.Dialer).DialContext)))
		if !reflect.DeepEqual(ours, theirs) {
			t.Errorf("%s: asks with %+v, Prometheus with %+v", name, ours, theirs)
		}
	}
}

// A token server that misbehaves costs the request alone, and gets no secret to another host.
func TestHostileTokenServer(t *testing.T) {
	elsewhere := hostile(t, func(io.Writer) error {
		t.Error("a redirect was followed")
		return nil
	})
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
		case "/endless":
			w.Header().Set("Content-Type", "application/json")
			_ = repeat(w, strings.Repeat(" ", 1<<10))
		case "/upgrade":
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			_ = hang(conn)
		case "/changes":
			_, secret, _ := r.BasicAuth()
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"access_token": %q, "expires_in": 3600}`, "of-"+secret)
		default:
			fmt.Fprint(w, r.Header.Get("Authorization"))
		}
	}))
	defer server.Close()
	get := func(rt http.RoundTripper) (string, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := rt.RoundTrip(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		text, err := ReadAll(resp.Body, 1<<10)
		return string(text), err
	}
	file := filepath.Join(t.TempDir(), "secret")
	rotate := func(secret string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rotate("one")
	with := func(path string) http.RoundTripper {
		t.Helper()
		rt, err := Limits{}.RoundTripper(&promconfig.HTTPClientConfig{
			OAuth2: &promconfig.OAuth2{ClientID: "c", ClientSecretFile: file, TokenURL: server.URL + path},
		}, "test")
		if err != nil {
			t.Fatal(err)
		}
		return rt
	}
	for _, path := range []string{"/redirect", "/endless", "/upgrade"} {
		rt := with(path)
		for range 2 {
			before := asked
			if _, err := get(rt); err == nil || asked == before {
				t.Errorf("%s: %v, asked %d times", path, err, asked-before)
			}
		}
	}
	rt := with("/changes")
	for _, secret := range []string{"one", "two"} {
		rotate(secret)
		if got, err := get(rt); got != "Bearer of-"+secret || err != nil {
			t.Errorf("with secret %s: %q, %v", secret, got, err)
		}
	}
}

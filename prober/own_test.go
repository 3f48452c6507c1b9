package prober

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/cloudauth"
)

// A file that requests need and that cannot be used any more is no failure of the
// endpoint, whatever it holds and whatever the module asks.
func TestOwnFileIsASkip(t *testing.T) {
	plain := chat(t, answerOne)
	secure := httptest.NewUnstartedServer(plain.Config.Handler)
	secure.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	authority := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw}))
	dir := t.TempDir()
	key, certificate := keyPair(t)
	for _, test := range []struct {
		name, url string
		files     map[string]string // that the settings name
		use       func(h *promconfig.HTTPClientConfig)
		then      map[string]string // their new content; "" is none
		text      string
	}{
		{"key removed", plain.URL, map[string]string{"key": "secret"}, func(h *promconfig.HTTPClientConfig) {
			h.Authorization = &promconfig.Authorization{Type: "Bearer", CredentialsFile: filepath.Join(dir, "key")}
		}, map[string]string{"key": ""}, "no such file"},
		{"password too large", plain.URL, map[string]string{"password": "secret"}, func(h *promconfig.HTTPClientConfig) {
			h.BasicAuth = &promconfig.BasicAuth{Username: "u", PasswordFile: filepath.Join(dir, "password")}
		}, map[string]string{"password": strings.Repeat("x", 2<<20)}, "larger than"},
		{"authority cut", secure.URL, map[string]string{"ca": authority}, func(h *promconfig.HTTPClientConfig) {
			h.TLSConfig.CAFile = filepath.Join(dir, "ca")
		}, map[string]string{"ca": authority[:100]}, "CA cert"},
		{"client's certificate cut", secure.URL, map[string]string{"ca": authority, "cert": certificate, "certkey": key}, func(h *promconfig.HTTPClientConfig) {
			h.TLSConfig = promconfig.TLSConfig{CAFile: filepath.Join(dir, "ca"), CertFile: filepath.Join(dir, "cert"), KeyFile: filepath.Join(dir, "certkey")}
		}, map[string]string{"cert": certificate[:100]}, "client cert"},
	} {
		for _, api := range []string{"openai-chat", ""} {
			put(t, dir, test.files)
			cfg := newEndpoint(t, test.url)
			if cfg.API = api; api == "" {
				cfg.Model = ""
			}
			test.use(&cfg.HTTP.HTTPClientConfig)
			p := newProber(t, cfg, newModule())
			if results, why := p.Run(t.Context(), time.Time{}); len(results) != 1 || results[0].Outcome != result.Success {
				t.Fatalf("%s: %+v, skip %+v while the files can be used", test.name, results, why)
			}
			p.endpoint.lookedUpAt = time.Time{} // what is served is asked again
			put(t, dir, test.then)
			if results, why := p.Run(t.Context(), time.Time{}); len(results) > 0 || why == nil || why.Reason != result.SkipSecret || !strings.Contains(why.Text, test.text) {
				t.Errorf("%s, api %q: %d results, skip %+v", test.name, api, len(results), why)
			}
		}
	}
}

// Credentials that the cloud of this machine does not give are its own lack, too, also
// where the time for the probe is up meanwhile.
func TestOwnCredentialsAreASkip(t *testing.T) {
	p := newProber(t, newEndpoint(t, "http://127.0.0.1:1"), newModule())
	p.module.Timeouts.Connect = model.Duration(time.Millisecond)
	p.endpoint.transport = noCredentials{}
	results, why := p.Run(t.Context(), time.Time{})
	if len(results) > 0 || why == nil || why.Reason != result.SkipSecret {
		t.Errorf("%d results, skip %+v", len(results), why)
	}
}

// noCredentials sends nothing, as a cloud that gives no credentials in time.
type noCredentials struct{}

func (noCredentials) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, fmt.Errorf("sign: %w", &cloudauth.Error{Err: r.Context().Err()})
}

// put writes files, and removes those with no content.
func put(t *testing.T, dir string, all map[string]string) {
	t.Helper()
	for name, text := range all {
		name = filepath.Join(dir, name)
		err := os.WriteFile(name, []byte(text), 0o600)
		if text == "" {
			err = os.Remove(name)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// keyPair returns a key and a certificate of it as PEM.
func keyPair(t *testing.T) (key, certificate string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

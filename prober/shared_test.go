package prober

import (
	"net/http"
	"net/url"
	"testing"

	promconfig "github.com/prometheus/common/config"

	"github.com/inference-exporter/inference_exporter/config"
)

func TestEndpointsShareTransports(t *testing.T) {
	settings := func(change func(*config.Endpoint)) func() *config.Endpoint {
		return func() *config.Endpoint {
			c := &config.Endpoint{Name: "e", URL: config.URL{URL: &url.URL{Scheme: "http", Host: "127.0.0.1:1"}}, API: "openai-chat"}
			change(c)
			return c
		}
	}
	key := func(secret promconfig.Secret) func(*config.Endpoint) {
		return func(c *config.Endpoint) {
			c.HTTP.Authorization = &promconfig.Authorization{Type: "Bearer", Credentials: secret}
		}
	}
	header := func(value string) func(*config.Endpoint) {
		return func(c *config.Endpoint) {
			c.HTTP.HTTPHeaders = &promconfig.Headers{Headers: map[string]promconfig.Header{"X-Team": {Values: []string{value}}}}
		}
	}
	proxy := func(host string) func(*config.Endpoint) {
		return func(c *config.Endpoint) {
			c.HTTP.ProxyURL = promconfig.URL{URL: &url.URL{Scheme: "http", Host: host}}
		}
	}
	// Each differs from every other in what is sent, where to, or by whom.
	all := map[string]struct {
		endpoint func() *config.Endpoint
		apart    bool // from an endpoint with the same settings too
	}{
		"plain":          {endpoint: settings(func(*config.Endpoint) {})},
		"key one":        {endpoint: settings(key("one"))},
		"key two":        {endpoint: settings(key("two"))},
		"header a":       {endpoint: settings(header("a"))},
		"header b":       {endpoint: settings(header("b"))},
		"password":       {endpoint: settings(func(c *config.Endpoint) { c.HTTP.BasicAuth = &promconfig.BasicAuth{Username: "u", Password: "p"} })},
		"other password": {endpoint: settings(func(c *config.Endpoint) { c.HTTP.BasicAuth = &promconfig.BasicAuth{Username: "u", Password: "q"} })},
		"proxy one":      {endpoint: settings(proxy("127.0.0.1:2"))},
		"proxy two":      {endpoint: settings(proxy("127.0.0.1:3"))},
		"server name":    {endpoint: settings(func(c *config.Endpoint) { c.HTTP.TLSConfig.ServerName = "a.example" })},
		"other name":     {endpoint: settings(func(c *config.Endpoint) { c.HTTP.TLSConfig.ServerName = "b.example" })},
		"unverified":     {endpoint: settings(func(c *config.Endpoint) { c.HTTP.TLSConfig.InsecureSkipVerify = true })},
		"http/2":         {endpoint: settings(func(c *config.Endpoint) { c.HTTP.EnableHTTP2 = true }), apart: true},
		"oauth2": {endpoint: settings(func(c *config.Endpoint) {
			c.HTTP.OAuth2 = &promconfig.OAuth2{ClientID: "c", TokenURL: "http://127.0.0.1:1/t"}
		}), apart: true},
		"signature": {endpoint: settings(func(c *config.Endpoint) {
			c.SigV4 = &config.SigV4{Region: "r", Service: "s", AccessKeyID: "a", SecretAccessKey: "one"}
		}), apart: true},
		"other signature": {endpoint: settings(func(c *config.Endpoint) {
			c.SigV4 = &config.SigV4{Region: "r", Service: "s", AccessKeyID: "a", SecretAccessKey: "two"}
		}), apart: true},
		"identity": {endpoint: settings(func(c *config.Endpoint) {
			c.CloudIdentity = &config.CloudIdentity{Provider: config.CloudGoogle, Scope: "s"}
		}), apart: true},
		"another identity": {endpoint: settings(func(c *config.Endpoint) {
			c.CloudIdentity = &config.CloudIdentity{Provider: config.CloudAzure, Scope: "s"}
		}), apart: true},
	}
	dialer := &Dialer{}
	transport := func(c *config.Endpoint) http.RoundTripper {
		e, err := NewEndpoint(c, Options{Dialer: dialer})
		if err != nil {
			t.Fatal(err)
		}
		rt, _, err := e.borrow()
		if err != nil {
			t.Fatal(err)
		}
		return rt
	}
	of := map[http.RoundTripper]string{}
	for name, tc := range all {
		rt := transport(tc.endpoint())
		if other, ok := of[rt]; ok {
			t.Errorf("%s: has the transport of %s", name, other)
		}
		of[rt] = name
		if same := transport(tc.endpoint()) == rt; same == tc.apart {
			t.Errorf("%s: two endpoints share their transport: %t, want %t", name, same, !tc.apart)
		}
	}
}

// Only settings that were seen lately are remembered, and what is forgotten
// is never taken for others.
func TestSharedTransportsAreBounded(t *testing.T) {
	var s shared
	made := 0
	get := func(user string) http.RoundTripper {
		h := &config.HTTPClient{HTTPClientConfig: promconfig.HTTPClientConfig{BasicAuth: &promconfig.BasicAuth{Username: user}}}
		rt, err := s.transport(h, func() (http.RoundTripper, error) { made++; return &http.Transport{}, nil })
		if err != nil {
			t.Fatal(err)
		}
		return rt
	}
	first := get("first")
	for i := range maxTransports {
		get(string(rune('a' + i)))
	}
	if len(s.transports) != maxTransports || made != maxTransports+1 {
		t.Errorf("%d remembered of %d made, want %d of %d", len(s.transports), made, maxTransports, maxTransports+1)
	}
	if get("first") == first {
		t.Error("a forgotten transport was returned")
	}
}

package config

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	promconfig "github.com/prometheus/common/config"
	"gopkg.in/yaml.v3"
)

// sentinel is part of every secret but the private key.
const sentinel = "s3cr3t"

// keyPair returns a certificate and its private key as PEM.
func keyPair(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}))
}

type object = map[string]any

// secretConfig sets every secret that the file knows, some by environment.
func secretConfig(t *testing.T) (c *Config, key string) {
	t.Helper()
	t.Setenv("SECRET_IN_TESTS", sentinel+"-env")
	cert, key := keyPair(t)
	tls := object{"cert": cert, "key": key}
	proxy := func(m object) object {
		m["proxy_url"] = "http://ann:" + sentinel + "-proxy@proxy:3128"
		m["proxy_connect_header"] = object{"X-Proxy": []string{sentinel + "-connect"}}
		return m
	}
	clients := []object{
		{"basic_auth": object{"username": "ann", "password": sentinel + "-basic"}, "tls_config": tls},
		proxy(object{"authorization": object{"credentials": "${SECRET_IN_TESTS}"}}),
		{"http_headers": object{"X-Key": object{"secrets": []string{sentinel + "-header"}}}},
		{"oauth2": proxy(object{
			"client_id": "a", "client_secret": sentinel + "-client", "token_url": "http://t", "tls_config": tls,
		})},
		{"oauth2": object{
			"client_id": "a", "token_url": "http://t", "client_certificate_key": sentinel + "-jwt",
			"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer",
		}},
	}
	var endpoints []object
	for i, h := range clients {
		servers := object{"urls": []string{"http://other/metrics"}, "http": h}
		endpoints = append(endpoints, object{"url": fmt.Sprintf("http://h%d", i), "http": h, "servers": servers})
	}
	endpoints[0]["request"] = object{"extra": object{"think": false}}
	endpoints = append(endpoints, object{"url": "http://aws", "sigv4": object{
		"region": "us-east-1", "access_key_id": "AKIA",
		"secret_access_key": sentinel + "-aws", "session_token": "${SECRET_IN_TESTS}",
	}})
	gpuPages := object{}
	for i, h := range clients {
		gpuPages[fmt.Sprintf("p%d", i)] = object{"urls": []string{"http://p/metrics"}, "http": h}
	}
	var discovery []object
	for _, e := range endpoints {
		d := maps.Clone(e)
		delete(d, "url")
		d["allow"] = []string{"h"}
		d["http_sd_configs"] = []object{{"url": "http://sd", "authorization": object{"credentials": sentinel + "-sd"}}}
		discovery = append(discovery, d)
	}
	gateways := object{}
	for i, h := range clients {
		gateways[fmt.Sprintf("g%d", i)] = object{"urls": []string{"http://g/metrics"}, "http": h}
	}
	text, err := yaml.Marshal(object{
		"gateways":  gateways,
		"endpoints": endpoints,
		"discovery": discovery,
		"gpus":      object{"pages": gpuPages},
		"tracing":   object{"otlp_endpoint": "http://otel", "headers": object{"X-Key": "${SECRET_IN_TESTS}"}},
		"metrics":   object{"otlp_endpoint": "http://otel", "headers": object{"X-Key": "${SECRET_IN_TESTS}"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err = Parse(text, "leak.yml")
	if err != nil {
		t.Fatal(err)
	}
	return c, key
}

// secretKeys notes the path of every secret of type t under keys of ours, and
// whether v, which may be invalid, holds it in any of its items.
func secretKeys(t reflect.Type, v reflect.Value, at string, set map[string]bool) {
	if t == reflect.TypeFor[promconfig.Secret]() {
		set[at] = set[at] || v.IsValid() && v.String() != ""
		return
	}
	switch t.Kind() {
	case reflect.Pointer:
		// A source of an engine may hold another, and no secret.
		if t != reflect.TypeFor[promconfig.URL]() && t != reflect.TypeFor[*MappingSource]() {
			secretKeys(t.Elem(), elem(v), at, set)
		}
	case reflect.Map:
		secretKeys(t.Elem(), reflect.Value{}, at+".*", set)
		if v.IsValid() {
			for _, item := range v.Seq2() {
				secretKeys(t.Elem(), item, at+".*", set)
			}
		}
	case reflect.Slice:
		secretKeys(t.Elem(), reflect.Value{}, at+"[]", set)
		for i := 0; v.IsValid() && i < v.Len(); i++ {
			secretKeys(t.Elem(), v.Index(i), at+"[]", set)
		}
	case reflect.Struct:
		if t == reflect.TypeFor[promconfig.Headers]() {
			secretKeys(t.Field(0).Type, field(v, []int{0}), at, set)
			return
		}
		for key, index := range keysOf(t) {
			secretKeys(t.FieldByIndex(index).Type, field(v, index), at+"."+key, set)
		}
	}
}

func elem(v reflect.Value) reflect.Value {
	if !v.IsValid() {
		return v
	}
	return v.Elem()
}

func field(v reflect.Value, index []int) reflect.Value {
	if !v.IsValid() {
		return v
	}
	return v.FieldByIndex(index)
}

// TestLeak prints a configuration with every secret in it in every way.
func TestLeak(t *testing.T) {
	c, key := secretConfig(t)
	set := map[string]bool{}
	secretKeys(reflect.TypeFor[Config](), reflect.ValueOf(*c), "", set)
	for key, ok := range set {
		if !ok {
			t.Errorf("the test sets no secret %s", key)
		}
	}
	if len(set) < 12 {
		t.Errorf("found secrets %v only", set)
	}
	if got := string(c.Endpoints[1].HTTP.Authorization.Credentials); got != sentinel+"-env" {
		t.Errorf("credentials from the environment: got %q", got)
	}

	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb+verb+verb+"\n", c.Tracing, &c.Metrics, c.Endpoints[len(c.Endpoints)-1].SigV4)
	}
	for _, e := range c.Endpoints {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&out, verb+verb+verb+"\n", e, *e, e.HTTP)
			fmt.Fprintf(&out, verb+verb+verb+"\n", e.Servers, &e.Servers, e.Servers.HTTP)
			fmt.Fprintf(&out, verb+verb+"\n", c, *c)
		}
		text, err := json.Marshal([]any{e, e.SigV4, e.Servers, c.Tracing, c.Metrics})
		if err != nil {
			t.Fatal(err)
		}
		out.Write(text)
		slog.New(slog.NewTextHandler(&out, nil)).Info("m", "endpoint", e, "value", *e, "http", e.HTTP, "servers", e.Servers, "config", c)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "endpoint", e, "value", *e, "http", e.HTTP, "servers", e.Servers, "config", c)
	}
	for _, d := range c.Discovery {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&out, verb+verb+verb+"\n", d, *d, d.Sources())
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("m", "discovery", d, "value", *d, "sources", d.HTTP)
	}
	text, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	out.Write(text)
	checkNoLeak(t, out.String(), key)
	if !strings.Contains(out.String(), "<secret>") {
		t.Error("no <secret> is printed")
	}
}

func checkNoLeak(t *testing.T, out, key string) {
	t.Helper()
	if i := strings.Index(out, sentinel); i >= 0 {
		t.Errorf("leaked: %s", out[max(0, i-100):min(len(out), i+50)])
	}
	if body := strings.Split(key, "\n")[1]; strings.Contains(out, body) {
		t.Error("the private key leaked")
	}
}

// TestErrorsDoNotLeak puts secrets where they do not belong.
func TestErrorsDoNotLeak(t *testing.T) {
	f := func(endpoint string) {
		t.Helper()
		_, err := Parse([]byte("endpoints:\n- "+endpoint+"\n"), "leak.yml")
		if err == nil {
			t.Errorf("%s: no error", endpoint)
		} else if strings.Contains(err.Error(), sentinel) {
			t.Errorf("leaked: %v", err)
		}
		if strings.HasPrefix(endpoint, "url: ") {
			_, err := FromURLs([]string{strings.Trim(strings.TrimPrefix(endpoint, "url: "), "'")})
			if err == nil || strings.Contains(err.Error(), sentinel) {
				t.Errorf("leaked, or no error: %v", err)
			}
		}
	}
	f("'http://ann:" + sentinel + "@h'")
	f("url: 'http://ann:" + sentinel + "@h'")
	f("url: 'http://ann:" + sentinel + "'")
	f("url: 'http://ann:" + sentinel + "@h:x'")
	f("url: 'http://ann:" + sentinel + "%zz@h'")
	f("url: 'ann:" + sentinel + "@h'")
	f("url: 'http://h/?key=" + sentinel + "'")
	f("url: 'http://h/#" + sentinel + "'")
	for _, http := range []string{
		sentinel,
		"[" + sentinel + "]",
		"{authorization: " + sentinel + "}",
		"{authorization: {credentials: [" + sentinel + "]}}",
		"{authorization: {credentials: *" + sentinel + "}}",
		"{authorization: {credentials: !" + sentinel + " x}}",
		"{authorization: {credentials: '" + sentinel + "${'}}",
		"{authorization: {credentials: '" + sentinel + "${UNSET_IN_TESTS}'}}",
		"{authorization: {credentials: \"" + sentinel + "\\n\"}}",
		"{authorization: {credentials: " + sentinel + ", credentials_file: token}}",
		"{bearer_token: " + sentinel + "}",
		"{basic_auth: {password_ref: " + sentinel + "}}",
		"{tls_config: {key: " + sentinel + "}}",
		"{tls_config: {cert: " + sentinel + ", key: " + sentinel + "}}",
		"{tls_config: {ca: " + sentinel + "}}",
		"{tls_config: {min_version: " + sentinel + "}}",
		"{proxy_url: 'ann:" + sentinel + "@proxy'}",
		"{proxy_url: 'http://ann:" + sentinel + "'}",
		"{proxy_from_environment: " + sentinel + "}",
		"{http_headers: {X-Key: " + sentinel + "}}",
		"{http_headers: {X-Key: {secrets: " + sentinel + "}}}",
		"{http_headers: {X-Key: {secrets: [\"" + sentinel + "\\r\"]}}}",
	} {
		f("{url: http://h, http: " + http + "}")
		f("{url: http://h, servers: {http: " + http + "}}")
	}
	for _, sigv4 := range []string{
		sentinel,
		"{region: us-east-1, access_key_id: A, secret_access_key: [" + sentinel + "]}",
		"{region: us-east-1, access_key_id: A, secret_access_key: '" + sentinel + "${'}",
		"{region: us-east-1, access_key_id: A, secret_access_key: s, session_token: \"" + sentinel + "\\n\"}",
		"{region: us-east-1, access_key_id: '" + sentinel + "/', secret_access_key: s}",
		"{region: us-east-1, secret_access_key: " + sentinel + "}",
		"{region: '" + sentinel + "/'}",
		"{region: us-east-1, service: '" + sentinel + "/'}",
	} {
		f("{url: http://h, sigv4: " + sigv4 + "}")
	}
	for _, servers := range []string{
		sentinel,
		"{urls: ['http://ann:" + sentinel + "@h/metrics']}",
		"{urls: ['http://h/metrics?key=" + sentinel + "']}",
		"{dns: ['http://h/metrics#" + sentinel + "']}",
		"{dns: '" + sentinel + "'}",
	} {
		f("{url: http://h, servers: " + servers + "}")
	}
	f("{url: http://h, request: {path: '/?key=" + sentinel + "'}}")
	f("{url: http://h, request: {extra: " + sentinel + "}}")
	for _, http := range []string{
		sentinel,
		"[" + sentinel + "]",
		"{url: 'http://ann:" + sentinel + "@h'}",
		"{url: 'http://ann:" + sentinel + "@h:x'}",
		"{url: '" + sentinel + "://h'}",
		"{url: http://h, authorization: " + sentinel + "}",
		"{url: http://h, authorization: {credentials: [" + sentinel + "]}}",
		"{url: http://h, tls_config: {min_version: " + sentinel + "}}",
		"{url: http://h, proxy_url: '" + sentinel + "%zz://h'}",
		"{url: http://h, refresh_interval: " + sentinel + "}",
		"{url: http://h, enable_http2: " + sentinel + "}",
	} {
		f("url: http://h\ndiscovery: [{http_sd_configs: [" + http + "]}]")
	}
	f("url: http://h\ndiscovery: [{http_sd_configs: " + sentinel + "}]")
	for _, tracing := range []string{
		"{otlp_endpoint: 'http://ann:" + sentinel + "@h'}",
		"{otlp_endpoint: http://h, headers: {X-Key: \"" + sentinel + "\\n\"}}",
		"{otlp_endpoint: http://h, headers: {X-Key: [" + sentinel + "]}}",
		"{otlp_endpoint: http://h, headers: " + sentinel + "}",
		"{headers: {X-Key: " + sentinel + "}}",
	} {
		f("url: http://h\ntracing: " + tracing)
	}
}

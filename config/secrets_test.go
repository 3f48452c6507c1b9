package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	promconfig "github.com/prometheus/common/config"
)

func TestSecrets(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"key": "key-of-a-file\n", "header": "header-of-a-file"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Parse([]byte(`
endpoints:
  - url: http://a.example
    http:
      authorization: {credentials_file: `+filepath.Join(dir, "key")+`}
      proxy_url: http://me:proxy-password@proxy.example:3128
      proxy_connect_header: {X-Gate: [connect-secret]}
      http_headers:
        X-Provider: {values: [openai]}
        X-Api-Key: {values: [key-in-values]}
        X-Plain: {secrets: [secret-of-header], values: [messages]}
        X-File: {files: [`+filepath.Join(dir, "header")+`]}
  - url: http://b.example
    http:
      oauth2: {client_id: id, client_secret: oauth-secret, token_url: "http://t.example?tenant=a-tenant&api_key=query-secret", endpoint_params: {audience: everyone, password: param-secret}}
  - url: http://c.example
    sigv4: {region: us-east-1, access_key_id: AKIAEXAMPLE, secret_access_key: aws-secret, session_token: aws-session}
`), "test.yml")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]string{
		{"connect-secret", "header-of-a-file", "key-in-values", "key-of-a-file", "proxy-password", "secret-of-header"},
		{"oauth-secret", "param-secret", "query-secret"},
		{"aws-secret", "aws-session"},
	} {
		if got := Secrets(c.Endpoints[i]); !slices.Equal(got, want) {
			t.Errorf("endpoint %d: %q, want %q", i, got, want)
		}
	}
	for _, h := range []struct {
		name, value string
		public      bool
	}{
		{"X-Provider", "openai", true},
		{"x-plain", "messages", true},
		{"X-Plain", "secret-of-header", false},
		{"X-Api-Key", "key-in-values", false},
		{"X-File", "header-of-a-file", false},
		{"Authorization", "Bearer key-of-a-file", false},
	} {
		if got := c.Endpoints[0].IsPublicHeader(h.name, h.value); got != h.public {
			t.Errorf("%s: %s is public: %t, want %t", h.name, h.value, got, h.public)
		}
	}
}

func TestExpandEnv(t *testing.T) {
	t.Setenv("A", "x")
	t.Setenv("B_2", "${A}$")
	t.Setenv("EMPTY", "")
	f := func(in, want string) {
		t.Helper()
		if got, err := expandEnv(in); err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", in, got, err, want)
		}
	}
	f("", "")
	f("plain", "plain")
	f("${A}", "x")
	f("-${A}-${A}${B_2}-", "-x-x${A}$-") // a value is not expanded again
	f("a$b$$c$", "a$b$$c$")              // dollars without a brace are literal
	f("$${A}", "${A}")
	f("$$${A}", "$${A}")
	f("$A", "$A")

	for _, in := range []string{"${", "${A", "${}", "${1}", "${A B}", "${UNSET_IN_TESTS}", "${EMPTY}"} {
		if got, err := expandEnv(in); err == nil {
			t.Errorf("%s: got %q, want an error", in, got)
		}
	}
}

// TestFilesOfClient names a file in each part of the settings.
func TestFilesOfClient(t *testing.T) {
	h := HTTPClient{promconfig.HTTPClientConfig{
		TLSConfig:     promconfig.TLSConfig{CAFile: "a", CertFile: "b", KeyFile: "c"},
		BasicAuth:     &promconfig.BasicAuth{Username: "user", PasswordFile: "d"},
		Authorization: &promconfig.Authorization{Type: "Bearer"},
		OAuth2:        &promconfig.OAuth2{ClientSecretFile: "e", TLSConfig: promconfig.TLSConfig{CAFile: "f"}},
		HTTPHeaders:   &promconfig.Headers{Headers: map[string]promconfig.Header{"X-Key": {Values: []string{"v"}, Files: []string{"g", "h"}}}},
	}}
	got := h.Files()
	slices.Sort(got)
	if want := []string{"a", "b", "c", "d", "e", "f", "g", "h"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestMissingSecrets checks that a missing secret refuses the file, or leaves out its own
// endpoint where the file says so; other mistakes refuse it either way.
func TestMissingSecrets(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	const endpoints = `
endpoints:
  - {name: good, url: http://a}
  - name: variable
    url: http://b
    http: {authorization: {credentials: "${NOT_SET_IN_TESTS}"}}
  - name: file
    url: http://c
    http: {authorization: {credentials_file: no-such-file}}
  - {name: keys, url: http://d, sigv4: {region: us-east-1}}
`
	_, err := Parse([]byte(endpoints), "f.yml")
	if err == nil || len(strings.Split(err.Error(), "\n")) != 3 {
		t.Errorf("by default: %v; want three mistakes", err)
	}
	c, err := Parse([]byte(endpoints+"global: {missing_secrets: skip_endpoint}\n"), "f.yml")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		"",
		"http.authorization.credentials: environment variable NOT_SET_IN_TESTS is not set, or empty",
		"http.authorization.credentials_file: cannot read the file",
		"sigv4: no keys",
	} {
		if got := c.Endpoints[i].MissingSecret; !strings.HasPrefix(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: %q, want %q", c.Endpoints[i].Name, got, want)
		}
	}
	for _, mistake := range []string{
		"global: {missing_secrets: skip_endpoint}\nendpoints: [{url: http://a, http: {authorization: {credentials: '${no name}'}}}]",
		"global: {missing_secrets: skip_endpoint}\nendpoints: [{url: http://a}]\ntracing: {otlp_endpoint: http://o, headers: {k: '${NOT_SET_IN_TESTS}'}}",
		"global: {missing_secrets: skip_endpoint}\ngateways: {g: {urls: [http://g/metrics], http: {authorization: {credentials: '${NOT_SET_IN_TESTS}'}}}}\nendpoints: [{url: http://a, gateway: g}]",
		"global: {missing_secrets: sometimes}\nendpoints: [{url: http://a}]",
	} {
		if _, err := Parse([]byte(mistake), "f.yml"); err == nil {
			t.Errorf("accepted %s", mistake)
		}
	}
}

// TestSupply checks that only the secrets that are replaced are no longer missing.
func TestSupply(t *testing.T) {
	c, err := Parse([]byte(`
global: {missing_secrets: skip_endpoint}
endpoints:
  - url: http://a
    http:
      authorization: {credentials: "${NOT_SET_IN_TESTS}"}
      http_headers: {X-Tenant: {secrets: ["${NOT_SET_EITHER}"]}}
`), "f.yml")
	if err != nil {
		t.Fatal(err)
	}
	f := func(want string, keys ...string) {
		t.Helper()
		e := *c.Endpoints[0]
		e.Supply(keys...)
		if got := e.MissingSecret; got != want {
			t.Errorf("%q: got %q, want %q", keys, got, want)
		}
	}
	const key = "http.authorization.credentials: environment variable NOT_SET_IN_TESTS is not set, or empty"
	const tenant = "http.http_headers.X-Tenant.secrets[0]: environment variable NOT_SET_EITHER is not set, or empty"
	f(key + "; and " + tenant)
	f(key+"; and "+tenant, "http.basic_auth", "http.http_headers.X-Ten")
	f(tenant, "http.basic_auth", "http.authorization")
	f(key, "http.http_headers.x-tenant")
	f("", "http.http_headers.x-tenant", "http.authorization")
}

// TestCloudIdentity checks the settings of credentials of clouds, which a build without
// their SDKs refuses.
func TestCloudIdentity(t *testing.T) {
	f := func(settings, want string) {
		t.Helper()
		c, err := Parse([]byte("endpoints: [{url: http://h, "+settings+"}]"), "f.yml")
		if want == "" && !hasClouds {
			want = "-tags clouds"
		}
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", settings, err)
		case want == "" && c.Endpoints[0].CloudIdentity != nil && c.Endpoints[0].CloudIdentity.Scope == "":
			t.Errorf("%s: no scope", settings)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", settings, err, want)
		}
	}
	f("cloud_identity: {provider: google}", "")
	f("cloud_identity: {provider: azure, client_id: 1b4e28ba, scope: 'https://ml.azure.com/.default'}", "")
	f("sigv4: {region: r, default_credentials: true, role_arn: 'arn:aws:iam::123456789012:role/team/prober'}", "")
	f("cloud_identity: {provider: google, credentials_file: no-such-file}", "cloud_identity.credentials_file: cannot read the file")
	f("cloud_identity: {provider: aws}", "cloud_identity.provider")
	f("cloud_identity: {}", "cloud_identity.provider")
	f("cloud_identity: {provider: google, client_id: x}", "only valid with provider: azure")
	f("cloud_identity: {provider: azure, credentials_file: secrets_test.go}", "only valid with provider: google")
	f("cloud_identity: {provider: google}, http: {authorization: {credentials: k}}", "mutually exclusive with sigv4")
	f("cloud_identity: {provider: google}, sigv4: {region: r, access_key_id: A, secret_access_key: s}", "mutually exclusive with sigv4")
	f("sigv4: {region: r, default_credentials: true, access_key_id: A, secret_access_key: s}", "default_credentials and access_key_id are mutually exclusive")
	f("sigv4: {region: r, default_credentials: true, role_arn: prober}", "role_arn: must be the ARN")
}

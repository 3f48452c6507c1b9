package config

import (
	"os"
	"path/filepath"
	"slices"
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

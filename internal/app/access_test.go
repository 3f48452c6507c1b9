package app

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	promconfig "github.com/prometheus/common/config"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// TestProbeSendsAKey checks that each way of giving a key reaches the server.
func TestProbeSendsAKey(t *testing.T) {
	const key = "k-3f9a1c77"
	s := simulator.New(testlab.Quick()).Handler()
	url := testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key && r.Header.Get("X-Own-Key") != key {
			http.Error(w, "no key: "+r.Header.Get("Authorization"), http.StatusUnauthorized)
			return
		}
		s.ServeHTTP(w, r)
	}))
	t.Setenv("PROBE_TEST_KEY", key)
	f := func(code int, args ...string) {
		t.Helper()
		got := runToEnd(t, append([]string{"probe", url}, args...)...)
		if got.code != code {
			t.Errorf("%q: exit code %d, want %d: %s%s", args, got.code, code, got.stdout, got.stderr)
		}
		for _, secret := range []string{key, "k-wrong-5d20"} {
			if strings.Contains(got.stdout+got.stderr, secret) {
				t.Errorf("%q: the key is in\n%s%s", args, got.stdout, got.stderr)
			}
		}
	}
	f(cli.ExitFailure)
	f(cli.ExitOK, "--key-env=PROBE_TEST_KEY")
	f(cli.ExitOK, "--key-file="+writeFile(t, "key", key+"\n"))
	f(cli.ExitOK, "-H", "Authorization: Bearer "+key)
	f(cli.ExitOK, "-H", "X-Tenant: a", "--header=x-own-key: "+key)
	f(cli.ExitFailure, "-H", "Authorization: Bearer k-wrong-5d20") // which the server repeats
	f(cli.ExitUsage, "-H", "k-wrong-5d20")
	f(cli.ExitUsage, "-H", "X-Own-Key: k-wrong-5d20\nX-Other: a")
}

func TestAccessThatCannotBeUsed(t *testing.T) {
	f := func(pattern string, args ...string) {
		t.Helper()
		refused(t, cli.ExitUsage, []string{"inference_exporter: " + pattern}, append([]string{"probe", "http://127.0.0.1:9"}, args...)...)
	}
	f("--key-env=NOT_SET_IN_TESTS: not set, or empty", "--key-env=NOT_SET_IN_TESTS")
	f("--key-file: .*no such file or directory", "--key-file=nowhere")
	f("--key-file=.*/empty: not set, or empty", "--key-file="+writeFile(t, "empty", "\n"))
	f("--key-env and --key-file are mutually exclusive", "--key-env=A", "--key-file=b")
	f("--header: want 'Name: value', without line breaks", "-H", "nonsense")
	f("--header: .*not allowed.*", "-H", "Content-Length: 5")
}

// The headers are those of the providers' documentation of their APIs.
func TestKeyIsSentInTheHeaderOfItsHost(t *testing.T) {
	f := func(url, header string, protocol ...string) {
		t.Helper()
		cfg, err := config.FromURLs([]string{url})
		if err != nil {
			t.Fatal(err)
		}
		e := cfg.Endpoints[0]
		e.API = strings.Join(protocol, "")
		setKey(e, "k-3f9a1c77")
		switch {
		case header == "":
			if a := e.HTTP.Authorization; a == nil || a.Type != "Bearer" || a.Credentials != "k-3f9a1c77" {
				t.Errorf("%s: no bearer token", url)
			}
		case e.HTTP.HTTPHeaders == nil || len(e.HTTP.HTTPHeaders.Headers[header].Secrets) != 1:
			t.Errorf("%s: the key is not in %s", url, header)
		}
	}
	f("https://api.anthropic.com", "x-api-key")
	f("https://acme.openai.azure.com", "api-key")
	f("https://generativelanguage.googleapis.com", "x-goog-api-key")
	f("https://us-central1-aiplatform.googleapis.com/v1", "")
	f("https://api.openai.com", "")
	f("http://vllm.internal:8000", "")
	// The protocol comes before the host: some speak several, or are gateways.
	f("http://gateway.internal:8000", "x-api-key", "anthropic")
	f("http://gateway.internal:8000/v1/messages", "x-api-key")
	f("http://gateway.internal:8000", "x-goog-api-key", "gemini")
	f("https://api.anthropic.com/v1", "", "openai-chat")
	f("https://generativelanguage.googleapis.com/v1beta/openai", "")
	f("https://acme.openai.azure.com", "api-key", "openai-chat")
	f("https://us-central1-aiplatform.googleapis.com/v1", "", "anthropic")
}

// The warning of --insecure comes once, also for two endpoints.
func TestInsecure(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(simulator.New(testlab.Quick()).Handler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	if got := runToEnd(t, "probe", server.URL); got.code != cli.ExitFailure {
		t.Errorf("a certificate that nobody trusts: exit code %d", got.code)
	}
	f := func(want int, args ...string) {
		t.Helper()
		got := runToEnd(t, append(args, "--insecure")...)
		if n := strings.Count(got.stderr, "--insecure: the certificate of the server is not verified"); got.code != want || n != 1 {
			t.Errorf("%v: exit code %d, %d warnings, stderr %q", args, got.code, n, got.stderr)
		}
	}
	f(cli.ExitOK, "probe", server.URL)
	f(cli.ExitOK, "detect", server.URL)
	f(cli.ExitOK, "explain", "-n", "1", server.URL)
	ca := writeFile(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	if got := runToEnd(t, "probe", server.URL, "--ca-file="+ca); got.code != cli.ExitOK || got.stderr != "" {
		t.Errorf("a certificate of the authority that --ca-file names: %+v", got)
	}
	if got := runToEnd(t, "detect", server.URL, "--ca-file="+ca); !strings.Contains(got.stdout, "\n      tls_config: {ca_file: "+quoteYAML(ca)+"}\n") {
		t.Errorf("detect: %+v", got)
	}
	refused(t, cli.ExitUsage, []string{"inference_exporter: --ca-file: .*no such file or directory"}, "probe", server.URL, "--ca-file=nowhere")
	down := server.URL + "/fault/status_503"
	f(cli.ExitUndecided, "compare", down, down)
}

// TestProbeNeedsItsOwnSecretsAlone checks that a secret of another endpoint may be missing.
func TestProbeNeedsItsOwnSecretsAlone(t *testing.T) {
	server := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	file := writeFile(t, "exporter.yml", fmt.Sprintf(`
modules: {interactive: {input_tokens: 16, output_tokens: 2}}
endpoints:
  - {name: good, url: %[1]q}
  - {name: keyless, url: "%[1]s/", http: {authorization: {credentials: "${NOT_SET_IN_TESTS}"}}}
`, server))
	if got := runToEnd(t, "probe", "--config.file="+file, "good"); got.code != cli.ExitOK {
		t.Errorf("exit code %d: %s", got.code, got.stderr)
	}
	refused(t, cli.ExitUsage, []string{"inference_exporter: a secret is missing .*NOT_SET_IN_TESTS.*; set it, or give a key with --key-env or --key-file"},
		"probe", "--config.file="+file, "keyless")
	t.Setenv("PROBE_TEST_KEY", "k-3f9a1c77")
	if got := runToEnd(t, "probe", "--config.file="+file, "keyless", "--key-env=PROBE_TEST_KEY"); got.code != cli.ExitOK {
		t.Errorf("with another key: exit code %d: %s", got.code, got.stderr)
	}
	refused(t, cli.ExitUsage, []string{"inference_exporter: a secret is missing .*"}, "probe", "--config.file="+file, "keyless", "-H", "X-Tenant: a")
	refused(t, cli.ExitUsage, []string{`\S+:5: endpoints\[1\].http.authorization.credentials: .*`}, "check", "--config.file="+file)
}

// TestCommandsThatAskNothingNeedNoSecret checks that the CI of a file needs none of its
// secrets, and that other mistakes are still found.
func TestCommandsThatAskNothingNeedNoSecret(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "exporter.yml", `
endpoints:
  - {name: a, url: http://127.0.0.1:9, gateway: g, http: {authorization: {credentials: "${NOT_SET_IN_TESTS}"}}}
  - {name: b, url: https://127.0.0.1:9, http: {authorization: {credentials_file: nowhere}, tls_config: {ca_file: nowhere}}}
gateways: {g: {urls: [http://127.0.0.1:9/metrics], http: {http_headers: {X-Key: {secrets: ["${NOT_SET_IN_TESTS}"]}}}}}
discovery: [{http: {basic_auth: {username: u, password_file: nowhere}}, allow: [h], http_sd_configs: [{url: http://h, authorization: {credentials_file: nowhere}}]}]
tracing: {otlp_endpoint: http://127.0.0.1:9, headers: {k: "${NOT_SET_IN_TESTS}"}}
`)
	for _, args := range [][]string{{"check", "--no-secrets", file}, {"rules", "--config.file=" + file}, {"modules", "--config.file=" + file}} {
		if got := runToEnd(t, args...); got.code != cli.ExitOK || got.stderr != "" {
			t.Errorf("%v: exit code %d: %s", args, got.code, got.stderr)
		}
	}
	if got := runToEnd(t, "check", file); got.code != cli.ExitUsage || strings.Count(got.stderr, "\n") != 7 {
		t.Errorf("check: exit code %d: %s", got.code, got.stderr)
	}
	wrong := writeFile(t, "wrong.yml", `endpoints: [{url: http://h, modules: [fast], http: {authorization: {credentials: "${NOT_SET_IN_TESTS}"}}}]`)
	refused(t, cli.ExitUsage, []string{`\S+:1: endpoints\[0\].modules\[0\]: unknown module "fast".*`}, "check", "--no-secrets", wrong)
}

func TestCheckListsEndpointsWithoutTheirSecret(t *testing.T) {
	file := writeFile(t, "exporter.yml", `
global: {missing_secrets: skip_endpoint}
endpoints:
  - {name: good, url: http://127.0.0.1:9}
  - {name: keyless, url: http://127.0.0.1:9, http: {authorization: {credentials: "${NOT_SET_IN_TESTS}"}}}
`)
	got := runToEnd(t, "check", "--config.file="+file)
	want := file + ": good: 2 endpoints, 2 probes\n" +
		file + ": note: endpoint keyless is left out: http.authorization.credentials: "
	if got.code != cli.ExitOK || !strings.HasPrefix(got.stdout, want) || !strings.Contains(got.stdout, "NOT_SET_IN_TESTS") || strings.Contains(got.stdout, "endpoint good") {
		t.Errorf("exit code %d, stdout %q", got.code, got.stdout)
	}
}

// TestDetectWithAKey checks that detect asks with the key, and that the file that it prints
// names where the key is and is one that the exporter takes.
func TestDetectWithAKey(t *testing.T) {
	const key = "k-3f9a1c77"
	s := simulator.New(testlab.Quick()).Handler()
	url := testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key {
			http.Error(w, "no key", http.StatusUnauthorized)
			return
		}
		s.ServeHTTP(w, r)
	}))
	t.Setenv("DETECT_TEST_KEY", key)
	keyFile := writeFile(t, "key", key+"\n")
	f := func(credentials string, args ...string) {
		t.Helper()
		got := runToEnd(t, append([]string{"detect", url}, args...)...)
		if got.code != cli.ExitOK || !strings.Contains(got.stdout, "\n    model: simulated-8b\n") || !strings.Contains(got.stdout, credentials) {
			t.Errorf("%q: exit code %d: %s%s", args, got.code, got.stdout, got.stderr)
		}
		if strings.Contains(got.stdout+got.stderr, key) {
			t.Errorf("%q: the key is in\n%s%s", args, got.stdout, got.stderr)
		}
		if cfg, err := config.Parse([]byte(got.stdout), "detected"); err != nil {
			t.Errorf("%q: %v\n%s", args, err, got.stdout)
		} else if http := cfg.Endpoints[0].HTTP; http.TLSConfig.InsecureSkipVerify != slices.Contains(args, "--insecure") {
			t.Errorf("%q: insecure_skip_verify is %t", args, http.TLSConfig.InsecureSkipVerify)
		}
	}
	f(`authorization: {credentials: "${DETECT_TEST_KEY}"}`, "--key-env=DETECT_TEST_KEY")
	f("authorization: {credentials_file: "+quoteYAML(keyFile)+"}", "--key-file="+keyFile, "--insecure")
	f("# header Authorization: to be added", "-H", "Authorization: Bearer "+key)
	if got := runToEnd(t, "detect", url); strings.Contains(got.stdout, "model: simulated-8b") {
		t.Errorf("without a key: %s", got.stdout)
	}
	refused(t, cli.ExitUsage, []string{"inference_exporter: --key-env=NOT_SET_IN_TESTS: not set, or empty"}, "detect", url, "--key-env=NOT_SET_IN_TESTS")
}

// TestStanzaNamesTheHeaderOfTheHost checks what a file says of a key that goes into a header.
func TestStanzaNamesTheHeaderOfTheHost(t *testing.T) {
	cfg, err := config.FromURLs([]string{"https://api.anthropic.com"})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("DETECT_TEST_KEY", "k-3f9a1c77")
	var headers []string
	env, file, caFile, insecure := "DETECT_TEST_KEY", "", "", false
	flags := access{&headers, &env, &file, &caFile, &insecure}
	f := func(want promconfig.Header) {
		t.Helper()
		text := "endpoints:\n  - url: https://api.anthropic.com\n" + flags.stanza(cfg.Endpoints[0])
		got, err := config.Parse([]byte(text), "detected")
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if d := cmp.Diff(want, got.Endpoints[0].HTTP.HTTPHeaders.Headers["x-api-key"]); d != "" {
			t.Error(d)
		}
	}
	f(promconfig.Header{Secrets: []promconfig.Secret{"k-3f9a1c77"}})
	env, file = "", writeFile(t, "key", "k-3f9a1c77")
	f(promconfig.Header{Files: []string{file}})
}

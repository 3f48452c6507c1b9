package app

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

func TestTLSAndBasicAuth(t *testing.T) {
	t.Parallel()
	cert, key := selfSigned(t)
	p := start(t, "--endpoint=http://127.0.0.1:9", "--web.listen-address=127.0.0.1:0",
		"--web.config.file="+writeFile(t, "web.yml", fmt.Sprintf(`
tls_server_config: {cert_file: %q, key_file: %q}
basic_auth_users:
  reader: %s
`, writeFile(t, "cert.pem", cert), writeFile(t, "key.pem", key), passwordHash)))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(cert))
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots},
	}}
	https := "https" + strings.TrimPrefix(p.base, "http")
	f := func(url, user, password string, want int) {
		t.Helper()
		auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
		resp, body := get(t, client, url, "Authorization", "Basic "+auth)
		if resp.StatusCode != want {
			t.Errorf("%s as %s: status %d, want %d", url, user, resp.StatusCode, want)
		}
		if shown := strings.Contains(string(body), "inference_exporter_endpoints 1"); shown != (want == http.StatusOK) {
			t.Errorf("%s as %s: metrics shown: %t", url, user, shown)
		}
	}
	f(https+"/metrics", "reader", "let-me-in", http.StatusOK)
	f(https+"/metrics", "reader", "wrong", http.StatusUnauthorized)
	f(https+"/metrics", "nobody", "let-me-in", http.StatusUnauthorized)
	f(https+"/-/healthy", "reader", "wrong", http.StatusUnauthorized)
	f(p.base+"/metrics", "reader", "let-me-in", http.StatusBadRequest) // no TLS
	if resp, _ := get(t, client, https+"/metrics"); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a password: status %d", resp.StatusCode)
	}
}

// passwordHash is the bcrypt hash, with the least cost, of let-me-in.
const passwordHash = "$2a$04$IUlFj9Y7fvqONEDk4Mvctu0ctH8ANacT.CqcMdRwwKI1AL/c3mDjq"

// Browsers get the pages by the names that flags give, and by no other.
func TestAllowedHosts(t *testing.T) {
	t.Parallel()
	p := start(t, "--endpoint=http://127.0.0.1:9", "--web.listen-address=localhost:0",
		"--web.allowed-host=metrics.example.org", "--web.allowed-host=LLM.example.org")
	machine, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	f := func(host, path string, want int) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = host
		resp, err := p.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s at %q: status %d, want %d", path, host, resp.StatusCode, want)
		}
	}
	for _, host := range []string{"metrics.example.org", "llm.example.org:80", "localhost", machine, machine + ".local:1"} {
		f(host, "/config", http.StatusOK)
		f(host, "/probe", http.StatusBadRequest) // no target
	}
	for _, path := range []string{"/", "/config", "/api/v1/config", "/probe?target=a"} {
		f("evil.example", path, http.StatusForbidden)
	}
	f("evil.example", "/metrics", http.StatusOK)
}

// selfSigned returns a certificate for 127.0.0.1 and its key, in PEM.
func selfSigned(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
}

func TestPages(t *testing.T) {
	t.Parallel()
	p := start(t, "--endpoint=http://127.0.0.1:9", "--web.listen-address=127.0.0.1:0", "--web.telemetry-path=/page")
	for _, path := range []string{"/", "/-/healthy", "/page"} {
		if resp, body := p.get(path); resp.StatusCode != http.StatusOK || len(body) == 0 {
			t.Errorf("%s: status %d, %d bytes", path, resp.StatusCode, len(body))
		}
	}
	if resp, _ := p.get("/metrics"); resp.StatusCode != http.StatusNotFound {
		t.Errorf("/metrics, which was moved: status %d", resp.StatusCode)
	}
	for deadline := time.Now().Add(patience); ; {
		resp, _ := p.get("/-/ready")
		if resp.StatusCode == http.StatusOK {
			break
		}
		if resp.StatusCode != http.StatusServiceUnavailable || time.Now().After(deadline) {
			t.Fatalf("/-/ready: status %d", resp.StatusCode)
		}
	}
}

func TestAllListenAddresses(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	second := l.Addr().String()
	l.Close()
	p := start(t, "--endpoint=http://127.0.0.1:9", "--web.listen-address=127.0.0.1:0", "--web.listen-address="+second)
	for _, base := range []string{p.base, "http://" + second} {
		if resp, _ := get(t, p.client, base+"/-/healthy"); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d", base, resp.StatusCode)
		}
	}
}

func TestShutdownWhileProbesHang(t *testing.T) {
	t.Parallel()
	server := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	p := start(t, "--web.listen-address=127.0.0.1:0", "--config.file="+writeFile(t, "exporter.yml", fmt.Sprintf(`
global: {interval: 200ms}
modules: {kept: {connection: reuse}}
endpoints:
  - {name: silent, url: "%[1]s/fault/stall_before_headers", modules: [interactive, kept]}
  - {name: stalling, url: "%[1]s/fault/stall_midstream", modules: [interactive, kept]}
`, server)))
	p.waitFor("hanging probes", func(got metricsPage) bool { return got.Sum("inference_exporter_probes_in_flight") == 4 })
	if code := p.stop(); code != cli.ExitOK {
		t.Errorf("exit code %d", code)
	}
	if n := len(p.stderr.lines(`msg=stopped`)); n != 1 {
		t.Errorf("%d lines report the end:\n%s", n, p.stderr)
	}
	if lines := p.stderr.lines("probe"); len(lines) > 0 {
		t.Errorf("the log takes canceled probes for news: %q", lines)
	}
}

// One line for each change of state, however many probes there are.
func TestLogTellsChangesOnly(t *testing.T) {
	t.Parallel()
	var broken atomic.Bool
	simulated := simulator.New(testlab.Quick()).Handler()
	server := testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			r.URL.Path = "/fault/status_500" + r.URL.Path
		}
		simulated.ServeHTTP(w, r)
	}))
	p := start(t, "--web.listen-address=127.0.0.1:0", "--config.file="+writeFile(t, "exporter.yml", fmt.Sprintf(`
global: {interval: 50ms}
modules: {interactive: {input_tokens: 16, output_tokens: 4}}
endpoints: [{name: moody, url: %q}]
`, server)))
	several := func(outcome string) {
		t.Helper()
		results := func(got metricsPage) float64 {
			return got.Sum("inference_probe_results_total", "endpoint", "moody", "outcome", outcome)
		}
		first := -1.0
		p.waitFor("several probes with outcome "+outcome, func(got metricsPage) bool {
			if first < 0 {
				first = results(got)
			}
			return results(got) >= first+3
		})
	}
	several("success")
	broken.Store(true)
	several("http_error")
	broken.Store(false)
	several("success")
	p.stop()

	f := func(want ...string) {
		t.Helper()
		lines := p.stderr.lines("endpoint=moody module=interactive") // not those about the server's own page
		if len(lines) != len(want) {
			t.Fatalf("%d lines for %d changes:\n%s", len(lines), len(want), p.stderr)
		}
		for i, line := range lines {
			if !strings.Contains(line, want[i]) {
				t.Errorf("line %q, want %q", line, want[i])
			}
		}
	}
	f(`level=info caller=task.go`, `level=info caller=endpoint.go`, `level=warn caller=endpoint.go`, `level=info caller=endpoint.go`)
	f(`msg="probe succeeds"`, `msg="probe failed"`, `msg="endpoint failing"`, `msg="endpoint recovered"`)
	f(``, `outcome=http_error`, ``, ``)
	f(``, `EngineCore encountered an issue`, `EngineCore encountered an issue`, ``) // the server's own words
}

// Servers quote what they were sent. It must not come out again.
func TestSecretsStayInside(t *testing.T) {
	server := testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasPrefix(r.URL.Path, "/200") {
			w.Header().Set("Content-Type", r.Header.Get("Authorization"))
		} else {
			w.WriteHeader(http.StatusUnauthorized)
		}
		fmt.Fprintf(w, `{"error": {"message": "you sent %s and %s"}}`, r.Header.Get("Authorization"), r.Header.Get("X-Key"))
	}))
	t.Setenv("KEY_OF_TEST", "from-the-environment-2718")
	p := start(t, "--web.listen-address=127.0.0.1:0", "--log.level=debug", "--config.file="+writeFile(t, "exporter.yml", fmt.Sprintf(`
global: {interval: 50ms}
tracing: {otlp_endpoint: http://127.0.0.1:1, headers: {x-key: in-the-file-3141}}
discovery:
  - allow: [none.example]
    http: {authorization: {credentials: in-the-file-3141}}
    http_sd_configs: [{url: "http://127.0.0.1:1", authorization: {credentials: in-the-file-3141}}]
endpoints:
  - {name: token, <<: &known {api: openai-chat, model: m, url: %[1]q}, http: {authorization: {credentials: in-the-file-3141}}}
  - {name: quoted, <<: *known, url: "%[1]s/200", http: {authorization: {credentials: in-the-file-3141}}}
  - {name: user, <<: *known, http: {basic_auth: {username: me, password: in-the-file-3141}}}
  - {name: header, <<: *known, http: {http_headers: {X-Key: {secrets: ["${KEY_OF_TEST}"]}}}}
  - {name: file, <<: *known, http: {authorization: {credentials_file: %[2]q}}}
  - {name: unknown, url: %[1]q, http: {http_headers: {X-Key: {secrets: ["${KEY_OF_TEST}"]}}}}
  - {name: unlisted, api: openai-chat, url: %[1]q, http: {http_headers: {X-Key: {secrets: ["${KEY_OF_TEST}"]}}}}
`, server, writeFile(t, "key", "in-a-file-1618\n"))))
	known := []string{"token", "quoted", "user", "header", "file"}
	_, metrics := p.waitFor("probes of all endpoints", func(got metricsPage) bool {
		for _, name := range append(known, "unknown", "unlisted") {
			if got.Probes(name) == 0 {
				return false
			}
		}
		return true
	})
	shown := map[string]string{"/metrics": string(metrics)}
	paths := []string{"/", "/self", "/config", "/endpoint/token", "/api/v1/endpoints", "/api/v1/self", "/api/v1/config", "/api/v1/gpus"}
	for _, name := range append(known, "unknown", "unlisted") {
		paths = append(paths, "/api/v1/endpoints/"+name)
	}
	for _, path := range paths {
		resp, body := p.get(path)
		if resp.StatusCode != http.StatusOK {
			t.Errorf("%s: status %d: %s", path, resp.StatusCode, body)
		}
		shown[path] = string(body)
	}
	for _, name := range known {
		if !strings.Contains(shown["/api/v1/endpoints/"+name], "you sent") {
			t.Errorf("the page of %s does not quote the server: %s", name, shown["/api/v1/endpoints/"+name])
		}
	}
	p.stop()
	shown["the log"], shown["stdout"] = p.stderr.String(), p.stdout.String()

	if n := len(p.stderr.lines("you sent")); n < len(known) {
		t.Errorf("%d lines quote the server, so that the test proves nothing:\n%s", n, p.stderr)
	}
	for _, secret := range []string{
		"in-the-file-3141", "from-the-environment-2718", "in-a-file-1618",
		base64.StdEncoding.EncodeToString([]byte("me:in-the-file-3141")),
	} {
		for where, text := range shown {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows %q:\n%s", where, secret, text)
			}
		}
	}
}

// One shard more takes its share evenly from all the others, and nothing else moves.
func TestShardOf(t *testing.T) {
	const endpoints = 10_000
	for count := 1; count <= 12; count++ {
		moved := make([]int, count)
		shares := make([]int, count+1)
		for i := range endpoints {
			name := fmt.Sprintf("endpoint-%d.example.com:8000", i)
			before, after := shardOf(name, count), shardOf(name, count+1)
			shares[after]++
			if after != before {
				moved[before]++
				if after != count {
					t.Fatalf("%d to %d shards: %s moves from %d to %d, which is not the new one", count, count+1, name, before, after)
				}
			}
		}
		// Binomial, with a deviation below the square root of its mean.
		share := float64(endpoints) / float64(count+1)
		for i, n := range shares {
			if float64(n) < 0.85*share || float64(n) > 1.15*share {
				t.Errorf("%d shards: shard %d has %d of %d endpoints, want about %.0f", count+1, i, n, endpoints, share)
			}
		}
		for i, n := range moved {
			if want := share / float64(count); float64(n) < 0.6*want || float64(n) > 1.4*want {
				t.Errorf("%d to %d shards: %d endpoints move away from shard %d, want about %.0f", count, count+1, n, i, want)
			}
		}
	}
}

func TestShardsHaveEachEndpointOnce(t *testing.T) {
	var all []*config.Endpoint
	for i := range 100 {
		all = append(all, &config.Endpoint{Name: fmt.Sprint("e", i)})
	}
	owners := map[string]int{}
	for i := range 3 {
		for _, e := range (shard{i, 3}).of(all) {
			owners[e.Name]++
		}
	}
	for _, e := range all {
		if owners[e.Name] != 1 {
			t.Errorf("%s belongs to %d of 3 shards", e.Name, owners[e.Name])
		}
	}
	if got := (shard{0, 1}).of(all); len(got) != len(all) {
		t.Errorf("the only shard has %d of %d endpoints", len(got), len(all))
	}
}

func TestShardFlags(t *testing.T) {
	f := func(index, count int, good bool) {
		t.Helper()
		if err := (shard{index, count}).check(); (err == nil) != good {
			t.Errorf("shard %d of %d: %v", index, count, err)
		}
	}
	f(0, 1, true)
	f(2, 3, true)
	f(3, 3, false)
	f(0, 0, false)
}

// Profiles are there by a flag alone, and never the command line, which may name files with keys.
func TestProfiles(t *testing.T) {
	t.Parallel()
	off := start(t, "--web.listen-address=127.0.0.1:0", "--no-collector.probe", "--no-collector.server", "--collector.gpu")
	on := start(t, "--web.listen-address=127.0.0.1:0", "--no-collector.probe", "--no-collector.server", "--collector.gpu", "--web.enable-pprof")
	f := func(p *program, path string, want int) []byte {
		t.Helper()
		resp, body := p.get(path)
		if resp.StatusCode != want {
			t.Errorf("%s: status %d, want %d", path, resp.StatusCode, want)
		}
		return body
	}
	f(off, "/debug/pprof/", http.StatusNotFound)
	f(off, "/debug/pprof/heap", http.StatusNotFound)
	f(on, "/debug/pprof/", http.StatusOK)
	f(on, "/debug/pprof/cmdline", http.StatusNotFound)
	if heap := f(on, "/debug/pprof/heap", http.StatusOK); !bytes.HasPrefix(heap, []byte{0x1f, 0x8b}) {
		t.Errorf("a profile of %d bytes is not one", len(heap))
	}
}

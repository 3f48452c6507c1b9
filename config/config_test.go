package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/relabel"

	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// compare compares configurations by what they say.
func compare() cmp.Option {
	return cmp.Options{
		cmp.Comparer(func(a, b *url.URL) bool {
			if a == nil || b == nil {
				return a == b
			}
			return a.String() == b.String()
		}),
		cmpopts.IgnoreUnexported(promconfig.ProxyConfig{}, Discovery{}),
		cmp.Comparer(func(a, b relabel.Regexp) bool { return a.String() == b.String() }),
	}
}

// setEnv sets what the good files name.
func setEnv(t testing.TB) {
	t.Setenv("LLM_API_KEY", "key-from-environment")
	t.Setenv("LLM_AWS_KEY", "aws-key-from-environment")
	t.Setenv("OPENROUTER_API_KEY", "other-key-from-environment")
	t.Setenv("METRICS_PASSWORD", "password-from-environment")
	t.Setenv("OTLP_TENANT", "tenant-from-environment")
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDFROMENVIRONMENT")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret-from-environment")
	t.Setenv("AWS_SESSION_TOKEN", "token-from-environment")
}

func seconds(n int) model.Duration { return model.Duration(time.Duration(n) * time.Second) }

// resolved is what a file with nothing but the URL http://h:8000 means,
// from the specification and not from the code.
func resolved() *Config {
	return &Config{
		Global:  Global{Interval: seconds(30), Timeout: seconds(60), Limits: Limits{InFlight: 1000, InFlightPerHost: 4, DiscoveryTargets: 20_000, DiscoveryBytes: 10 << 20}, MissingSecrets: "refuse"},
		Modules: builtIn(30, 60),
		Metrics: Metrics{Interval: seconds(60)},
		Endpoints: []*Endpoint{{
			Name: "h:8000", URL: URL{&url.URL{Scheme: "http", Host: "h:8000"}},
			Modules: []string{"interactive"}, Wake: "never",
			Servers: Servers{Find: true, Interval: seconds(15), Timeout: seconds(10)},
		}},
	}
}

func TestDefaults(t *testing.T) {
	f := func(text string, change func(*Config)) {
		t.Helper()
		got, err := Parse([]byte(text), "test.yml")
		if err != nil {
			t.Error(err)
			return
		}
		want := resolved()
		change(want)
		if diff := cmp.Diff(want, got, compare()); diff != "" {
			t.Errorf("%s\n%s", text, diff)
		}
	}
	one := "endpoints: [{url: http://h:8000}]\n"

	f(one, func(*Config) {})
	f("global:\nmodules:\n"+one, func(*Config) {}) // sections without a value
	f("global: {interval: 10s, timeout: 20s}\n"+one, func(c *Config) {
		c.Global.Interval, c.Global.Timeout = seconds(10), seconds(20)
		c.Modules = builtIn(10, 20)
	})
	f("modules: {interactive: {timeout: 5s, output_tokens: 8}}\n"+one, func(c *Config) {
		m := c.Modules["interactive"]
		m.Timeout, m.OutputTokens = seconds(5), Tokens(8)
		m.Timeouts = Timeouts{Connect: seconds(5), Headers: seconds(5), FirstToken: seconds(5), Stall: seconds(5)}
	})
	f("modules: {interactive: {timeouts: {first_token: 40s}}}\n"+one, func(c *Config) {
		c.Modules["interactive"].Timeouts.FirstToken = seconds(40)
		c.Modules["interactive"].Timeouts.Headers = seconds(40)
	})
	f("modules: {interactive: {timeouts: {headers: 3s}}}\n"+one, func(c *Config) {
		c.Modules["interactive"].Timeouts.Headers = seconds(3)
	})
	f("modules: {plain: }\n"+one, func(c *Config) {
		c.Modules["plain"] = plain()
	})
	f("global: {labels: {a: x, b: x}}\nendpoints: [{url: http://h:8000, labels: {b: y, c: 1.10}}]\n", func(c *Config) {
		c.Global.Labels = map[string]string{"a": "x", "b": "x"}
		c.Endpoints[0].Labels = map[string]string{"a": "x", "b": "y", "c": "1.10"}
	})
	f("modules: {interactive: {batch_size: 32}}\n"+one, func(c *Config) {
		c.Modules["interactive"].BatchSize = 32
	})
	f("endpoints: [{url: http://h:8000, api: gemini, request: {extra: {a: [1.0, ~, {b: x}]}, omit: [c.d], path: /e, max_tokens_field: f}}]\n", func(c *Config) {
		c.Endpoints[0].API = "gemini"
		c.Endpoints[0].Request = Request{
			Extra: map[string]any{"a": []any{1, nil, map[string]any{"b": "x"}}},
			Omit:  []string{"c.d"}, Path: "/e", MaxTokensField: "f",
		}
	})
	f("probe: {allow: [h]}\ntracing: {otlp_endpoint: http://otel:4318, headers: {X-Key: a}}\n"+one, func(c *Config) {
		c.Probe.Allow = []string{"h"}
		c.Tracing = Tracing{
			OTLPEndpoint: URL{&url.URL{Scheme: "http", Host: "otel:4318"}},
			Headers:      map[string]promconfig.Secret{"X-Key": "a"},
		}
	})
	f("metrics: {compact: true, otlp_endpoint: http://otel:4318, headers: {X-Key: a}, interval: 15s}\n"+one, func(c *Config) {
		c.Metrics = Metrics{
			Compact: true, OTLPEndpoint: URL{&url.URL{Scheme: "http", Host: "otel:4318"}},
			Headers: map[string]promconfig.Secret{"X-Key": "a"}, Interval: seconds(15),
		}
	})
	f("endpoints: [{url: http://h:8000, http: {enable_http2: true, follow_redirects: false}}]\n", func(c *Config) {
		c.Endpoints[0].HTTP.EnableHTTP2 = true
	})
	f("endpoints: [{url: http://h:8000, servers: {find: false, urls: [http://h:8000/metrics, https://h], dns: [http://H:8000/a%2fb], engine: vllm, interval: 5s, http: {}}}]\n", func(c *Config) {
		c.Endpoints[0].Servers = Servers{
			URLs:   []PageURL{{&url.URL{Scheme: "http", Host: "h:8000", Path: "/metrics"}}, {&url.URL{Scheme: "https", Host: "h"}}},
			DNS:    []PageURL{{&url.URL{Scheme: "http", Host: "H:8000", Path: "/a/b", RawPath: "/a%2fb"}}},
			Engine: "vllm", Interval: seconds(5), Timeout: seconds(5), HTTP: &HTTPClient{},
		}
	})
	f("endpoints: [{url: http://h:8000, servers: {interval: 1m, http: }}]\n", func(c *Config) {
		c.Endpoints[0].Servers.Interval = seconds(60)
	})
	f("endpoints: [{url: http://h:8000, servers: {timeout: 15s}}]\n", func(c *Config) {
		c.Endpoints[0].Servers.Timeout = seconds(15)
	})
	f("modules: {interactive: {slo: {e2e: 20s}}, plain: {slo: }}\nendpoints: [{url: http://h:8000, slo: {objective: 0.9, ttft: 500ms}}]\n", func(c *Config) {
		c.Modules["plain"] = plain()
		c.Modules["interactive"].SLO = &SLO{Objective: 0.99, E2E: seconds(20)}
		c.Endpoints[0].SLO = &SLO{Objective: 0.9, TTFT: model.Duration(500 * time.Millisecond)}
	})
	f("endpoints: [{url: http://h:8000, slo: {}}]\n", func(c *Config) {
		c.Endpoints[0].SLO = &SLO{Objective: 0.99}
	})
	f("endpoints: [{url: http://h:8000, price: {gpu_hour_usd: 3.2}}]\n", func(c *Config) {
		c.Endpoints[0].Price = &Price{GPUHourUSD: 3.2, GPUs: 1}
	})
	f("endpoints: [{url: http://h:8000, price: {input_usd: 3, output_usd: 15}}]\n", func(c *Config) {
		c.Endpoints[0].Price = &Price{GPUs: 1, InputUSD: 3, CachedInputUSD: 3, OutputUSD: 15}
	})
	f("global: {budget: {tokens_per_hour: 5}}\nendpoints: [{url: http://h:8000, price: {input_usd: 3, cached_input_usd: 0}, budget: {usd_per_day: 0.5}}]\n", func(c *Config) {
		c.Global.Budget = Budget{TokensPerHour: 5}
		c.Endpoints[0].Price = &Price{GPUs: 1, InputUSD: 3}
		c.Endpoints[0].Budget = Budget{USDPerDay: 0.5}
	})
	f("endpoints: [{url: http://h:8000, hardware: {}}]\n", func(c *Config) {
		c.Endpoints[0].Hardware = &Hardware{GPUs: 1}
	})
	f("endpoints: [{url: http://h:8000, hardware: }]\n", func(*Config) {})
	f("endpoints: [{url: http://h:8000, hardware: {weights: 16GB, gpus: 4}}]\n", func(c *Config) {
		c.Endpoints[0].Hardware = &Hardware{GPUs: 4, Weights: 16_000_000_000}
	})
	f("endpoints: [{url: http://h:8000, hardware: {gpu: H100 SXM, memory_bandwidth: 3.35TB, uuids: [GPU-a, MIG-b, MIG-GPU-c/7/0]}}]\n", func(c *Config) {
		c.Endpoints[0].Hardware = &Hardware{
			GPU: "H100 SXM", GPUs: 3, MemoryBandwidth: 3_350_000_000_000, UUIDs: []string{"GPU-a", "MIG-b", "MIG-GPU-c/7/0"},
		}
	})
	f("endpoints: [&a {url: http://h:8000, api: openai-completions, name: a}, {<<: *a, name: b}]\n", func(c *Config) {
		a := c.Endpoints[0]
		a.Name, a.API = "a", "openai-completions"
		b := *a
		b.Name = "b"
		c.Endpoints = append(c.Endpoints, &b)
	})
}

func TestEndpointName(t *testing.T) {
	f := func(url, want string) {
		t.Helper()
		c, err := FromURLs([]string{url})
		if err != nil {
			t.Error(err)
		} else if got := c.Endpoints[0].Name; got != want {
			t.Errorf("name of %s: got %q, want %q", url, got, want)
		}
	}
	f("http://h", "h")
	f("http://h:80/v1/", "h")
	f("http://h:443", "h:443")
	f("https://llm.example.com:443/v1", "llm.example.com")
	f("https://llm.example.com:8443/v1", "llm.example.com:8443")
	f("http://[::1]:8000", "[::1]:8000")
	f("http://[::1]", "[::1]")
	f("http://[::80]:80", "[::80]")
}

func TestFromURLs(t *testing.T) {
	got, err := FromURLs([]string{"http://h:8000"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(resolved(), got, compare()); diff != "" {
		t.Error(diff)
	}

	_, err = FromURLs([]string{"h:8000", "http://h", "http://h"})
	want := `--endpoint: endpoints[0].url: want a URL that begins with http:// or https://
--endpoint: endpoints[2].name: duplicate endpoint name "h", the first is endpoints[1]; give each a name of its own`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if _, err = FromURLs(nil); err == nil {
		t.Error("no URLs: no error")
	}
}

// TestLoadGood loads every good file and reads it back as it prints.
func TestLoadGood(t *testing.T) {
	setEnv(t)
	for _, name := range goodFiles(t) {
		c, err := Load(name, "")
		if err != nil {
			t.Error(err)
			continue
		}
		checkRoundTrip(t, c, name)
	}
}

func goodFiles(t testing.TB) []string {
	var names []string
	for _, pattern := range []string{"testdata/*.good.yml", "../examples/*.yml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("no files %s (%v)", pattern, err)
		}
		names = append(names, found...)
	}
	return names
}

// checkRoundTrip checks that what c prints is c, with its secrets gone.
func checkRoundTrip(t *testing.T, c *Config, name string) {
	t.Helper()
	text, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(text, name)
	if err != nil {
		t.Fatalf("%s does not read back: %v\n%s", name, err, text)
	}
	hide := cmp.Transformer("hide", func(s promconfig.Secret) string {
		if s == "" {
			return ""
		}
		return "<secret>"
	})
	hidden := cmp.FilterValues(func(a, b []string) bool { // of a header that carries credentials
		return slices.Contains(a, safetext.Placeholder) || slices.Contains(b, safetext.Placeholder)
	}, cmp.Comparer(func(a, b []string) bool { return len(a) == len(b) }))
	if diff := cmp.Diff(c, again, compare(), hide, hidden, cmpopts.EquateEmpty()); diff != "" && !strings.Contains(string(text), "xxxxx") {
		t.Errorf("%s reads back differently:\n%s\n%s", name, diff, text)
	}
	textAgain, err := again.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(text), string(textAgain)); diff != "" {
		t.Errorf("%s prints differently when read back:\n%s", name, diff)
	}
}

// TestErrors checks that all mistakes are found at once, in the order of the
// file, as values that a caller can take apart.
func TestErrors(t *testing.T) {
	text := "endpoints:\n  - url: http://h\n    http: x\n    modules: [y]\nglobal:\n  interval: z\n"
	_, err := Parse([]byte(text), "dir/f.yml")
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("got %v, want joined errors", err)
	}
	want := []Error{
		{File: "dir/f.yml", Line: 3, Path: "endpoints[0].http", Msg: "expected a mapping, got a plain value"},
		{File: "dir/f.yml", Line: 4, Path: "endpoints[0].modules[0]", Msg: `unknown module "y"; known: agent, batch, code-completion, embedding, interactive, long-context, rag, structured, tool-call`},
		{File: "dir/f.yml", Line: 6, Path: "global.interval", Msg: `expected a duration like 30s, got "z"`},
	}
	var got []Error
	for _, err := range joined.Unwrap() {
		if e, ok := errors.AsType[*Error](err); ok {
			got = append(got, *e)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestLoadMissing(t *testing.T) {
	_, err := Load("testdata/missing.yml", "")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want %v", err, fs.ErrNotExist)
	}
}

// TestBounds holds small files that expand to much.
func TestBounds(t *testing.T) {
	f := func(name, text, want string) {
		t.Helper()
		_, err := Parse([]byte(text), "f.yml")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %.300v, want %s", name, err, want)
		}
	}
	f("size", strings.Repeat("#", maxFileBytes+1), "f.yml: the file is larger than 16 MiB")
	many := "modules: &m [" + strings.Repeat("a,", 2000) + "]"
	f("lists of lists", "endpoints:\n- &e {url: http://h, "+many+"}\n"+strings.Repeat("- *e\n", 2000), "more than 1000000 values")
	f("merges", "endpoints:\n- &e {url: http://h, "+many+"}\n"+strings.Repeat("- <<: *e\n", 2000), "more than 1000000 values")
	var laughs strings.Builder
	laughs.WriteString("        a0: &a0 [" + strings.Repeat("x,", 9) + "]\n")
	for i := range 8 {
		fmt.Fprintf(&laughs, "        a%d: &a%d [%s]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d ,", i), 9))
	}
	f("billion laughs", "endpoints:\n- url: http://h\n  http:\n    oauth2:\n      claims:\n"+laughs.String(), "more than 1000000 values")
	f("deep", "endpoints: [{url: http://h, http: {oauth2: {claims: {a: "+strings.Repeat("[", 100)+strings.Repeat("]", 100)+"}}}}]", "nested more than 64 levels deep")
}

// TestRelativeFiles checks that names of files count from the configuration.
func TestRelativeFiles(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text := "endpoints: [{url: http://h, http: {authorization: {credentials_file: token}, http_headers: {X-A: {files: [token]}}}}]"
	c, err := Parse([]byte(text), filepath.Join(dir, "f.yml"))
	if err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(dir, "token")
	h := c.Endpoints[0].HTTP
	got := []string{h.Authorization.CredentialsFile, h.HTTPHeaders.Headers["X-A"].Files[0]}
	if !slices.Equal(got, []string{want, want}) {
		t.Errorf("got %s, want %s twice", got, want)
	}
}

func BenchmarkParse(b *testing.B) {
	var text bytes.Buffer
	text.WriteString("endpoints:\n")
	for i := range 10_000 {
		fmt.Fprintf(&text, "- {url: 'http://h%d:8000', model: m, labels: {team: search}, http: {enable_http2: true}}\n", i)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(text.Bytes(), "f.yml"); err != nil {
			b.Fatal(err)
		}
	}
}

func TestQuote(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		if got := quote(in); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	f("a\nb", `"a\nb"`)
	f(strings.Repeat("a", 160), `"`+strings.Repeat("a", 160)+`"`)
	f(strings.Repeat("é", 100), `"`+strings.Repeat("é", 78)+`..."`) // 157 bytes, less half a character
}

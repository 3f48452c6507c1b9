package config

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	promdiscovery "github.com/prometheus/prometheus/discovery"
	promhttp "github.com/prometheus/prometheus/discovery/http"
	"github.com/prometheus/prometheus/model/labels"
)

// discoveryOf is a discovery with these keys, and one static source.
func discoveryOf(t testing.TB, keys string) *Discovery {
	t.Helper()
	text := "global: {labels: {site: fra1}}\nmodules: {canary: {prompt: a}}\ndiscovery: [{static_configs: [{targets: [h]}], " + keys + "}]\n"
	c, err := Parse([]byte(text), "test.yml")
	if err != nil {
		t.Fatal(err)
	}
	return c.Discovery[0]
}

// TestDiscoveryTemplate holds a template to the defaults of an endpoint.
func TestDiscoveryTemplate(t *testing.T) {
	want := *resolved().Endpoints[0]
	want.Name, want.URL, want.Labels = "", URL{}, map[string]string{"site": "fra1"}
	if diff := cmp.Diff(want, discoveryOf(t, "").Template, compare()); diff != "" {
		t.Error(diff)
	}
}

func TestDiscoveryEndpoint(t *testing.T) {
	const keys = "model: m, api: anthropic, modules: [canary], labels: {team: search, own: template}, slo: {ttft: 1s}"
	f := func(target labels.Labels, want Endpoint) {
		t.Helper()
		d := discoveryOf(t, keys)
		got, err := d.Endpoint(target)
		if err != nil {
			t.Errorf("%s: %v", target, err)
			return
		}
		whole := d.Template
		whole.Name, whole.URL = want.Name, want.URL
		if want.Model != "" {
			whole.Model, whole.API, whole.Modules, whole.Servers.Engine = want.Model, want.API, want.Modules, want.Servers.Engine
		}
		whole.Labels = want.Labels
		if diff := cmp.Diff(whole, *got, compare()); diff != "" {
			t.Errorf("%s\n%s", target, diff)
		}
	}
	from := func(s string) URL {
		u, err := url.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		return URL{u}
	}
	shared := map[string]string{"site": "fra1", "team": "search", "own": "template"}

	f(labels.FromStrings("__address__", "h:8000"), Endpoint{Name: "h:8000", URL: from("http://h:8000"), Labels: shared})
	f(labels.FromStrings("__address__", "h", "__meta_x", "y"), Endpoint{Name: "h", URL: from("http://h"), Labels: shared})
	f(labels.FromStrings("__address__", "[::1]:80", "__scheme__", "https", "__path__", "/v1/"), Endpoint{Name: "[::1]:80", URL: from("https://[::1]:80/v1/"), Labels: shared})
	f(labels.FromStrings("__address__", "h:443", "__scheme__", "https", "__path__", "/llama/v1/"), Endpoint{Name: "h/llama/v1", URL: from("https://h:443/llama/v1/"), Labels: shared})
	f(labels.FromStrings("__url__", "https://g/v1", "__address__", "h", "__path__", "ignored"), Endpoint{Name: "g", URL: from("https://g/v1"), Labels: shared})
	f(labels.FromStrings("__url__", "http://h?api-version=1", "__endpoint__", "a b", "own", "target", "new", "x"), Endpoint{
		Name: "a b", URL: from("http://h?api-version=1"),
		Labels: map[string]string{"site": "fra1", "team": "search", "own": "target", "new": "x"},
	})
	f(labels.FromStrings("__address__", "h", "__model__", "n", "__api__", "ollama", "__engine__", "sglang", "__modules__", "rag, canary"), Endpoint{
		Name: "h", URL: from("http://h"), Labels: shared,
		Model: "n", API: "ollama", Modules: []string{"rag", "canary"}, Servers: Servers{Engine: "sglang"},
	})
}

// TestDiscoveryShares checks that what targets do not change is not copied.
func TestDiscoveryShares(t *testing.T) {
	d := discoveryOf(t, "slo: {ttft: 1s}")
	a, errA := d.Endpoint(labels.FromStrings("__address__", "a"))
	b, errB := d.Endpoint(labels.FromStrings("__address__", "b", "x", "y"))
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	if a.SLO != d.Template.SLO || b.SLO != a.SLO {
		t.Error("each endpoint has an SLO of its own")
	}
	if _, ok := d.Template.Labels["x"]; ok || len(a.Labels) != 1 {
		t.Errorf("the label of one target is on %v and %v", d.Template.Labels, a.Labels)
	}
}

func TestDiscoveryEndpointErrors(t *testing.T) {
	f := func(want string, target ...string) {
		t.Helper()
		_, err := discoveryOf(t, "").Endpoint(labels.FromStrings(target...))
		if err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", target, err, want)
		}
	}
	many := []string{"__address__", "h"}
	for i := range 65 {
		many = append(many, "l"+strconv.Itoa(i), "x")
	}
	const address = "__address__: want host:port; a URL belongs into __url__"
	f("__address__: missing, and so is __url__", "a", "b")
	f(address, "__address__", "http://ann:password@h")
	f(address, "__address__", "h/v1")
	f(address, "__address__", "ann@h")
	f("__path__: want a path like /custom, without query and fragment", "__address__", "h", "__path__", "@g")
	f("__path__: want a path like /custom, without query and fragment", "__address__", "h", "__path__", "/?key=password")
	f("__address__: a port that is not 1 to 65535", "__address__", "h:0")
	f("__address__: want a URL that begins with http:// or https://", "__address__", "h", "__scheme__", "ftp")
	f("__url__: a user or password in the URL; use http.basic_auth or a header", "__url__", "http://ann:password@h")
	f("__url__: URL of 2049 bytes, more than 2048", "__url__", "http://h/"+strings.Repeat("x", 2040))
	f("__endpoint__: must have at most 128 bytes, got 129", "__address__", strings.Repeat("h", 129))
	f(`__endpoint__: must have no control characters, got "a\nb"`, "__address__", "h", "__endpoint__", "a\nb")
	f(`__endpoint__: no page can have the endpoint name ".."; want another`, "__address__", "h", "__endpoint__", "..")
	f("__model__: must have at most 256 bytes, got 257", "__address__", "h", "__model__", strings.Repeat("m", 257))
	f("__engine__: must have at most 128 bytes, got 129", "__address__", "h", "__engine__", strings.Repeat("m", 129))
	f(`__modules__[1]: unknown module "fast"; known: agent, batch, canary, code-completion, embedding, interactive, long-context, rag, structured, tool-call`,
		"__address__", "h", "__modules__", "rag,fast")
	f(`__modules__[1]: module "rag" is listed twice`, "__address__", "h", "__modules__", "rag,rag")
	f(`labels.job: label name "job" is reserved; labels.model: label name "model" is reserved`, "__address__", "h", "job", "a", "model", "b")
	f(`labels["a.b"]: must be of the form [a-zA-Z_][a-zA-Z0-9_]*, got "a.b"`, "__address__", "h", "a.b", "c")
	f("labels: 65 labels, more than 64", many...)

	_, err := discoveryOf(t, "").Endpoint(labels.FromStrings("__address__", "h", "__api__", "soap"))
	if err == nil || !strings.HasPrefix(err.Error(), "__api__: must be openai-chat, ") {
		t.Errorf("got %v", err)
	}
	for _, s := range []string{"169.254.169.254", "[fe80::1]:8000"} {
		if _, err := discoveryOf(t, "").Endpoint(labels.FromStrings("__address__", s)); !errors.Is(err, ErrNotAllowed) {
			t.Errorf("%s: got %v, want %v", s, err, ErrNotAllowed)
		}
	}
}

func TestDiscoveryAllows(t *testing.T) {
	f := func(keys string, allowed, refused []string) {
		t.Helper()
		d := discoveryOf(t, keys)
		for _, s := range slices.Concat(allowed, refused) {
			u, err := url.Parse(s)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := d.Allows(u), slices.Contains(allowed, s); got != want {
				t.Errorf("%s allows %s: %t", keys, s, got)
			}
		}
	}
	f("", []string{
		"http://h", "http://10.0.0.1", "http://[fd00::1]:8000", "http://localhost", "http://169.253.0.1", "http://169.255.0.1",
		"http://metadata.internal", "http://a1", "http://1.b", "http://0xvllm", "http://[fec0::1]",
		"http://192.0.0.191", "http://[64:ff9b::a00:1]", "http://[64:ff9b:1::a00:1]", "http://[2002:a00:1::]", "http://[2001:db8:a9fe:a9fe::]", "http://[::1]",
		"http://[fd00:ec1::254]", "http://[fd20:ce::1]",
	}, []string{
		"http://169.254.169.254/latest", "http://169.254.0.1:8000", "http://[fe80::1]", "http://[fe80::1%25eth0]:8000", "http://[febf::1]",
		"http://[::ffff:169.254.169.254]", "http://[::ffff:a9fe:a9fe]", "http://metadata.google.internal", "http://METADATA.Google.Internal./",
		"http://metadata", "http://100.100.100.200", "http://168.63.129.16", "http://[fd00:ec2::254]", "http://[fd00:0ec2:0::0254]", "http://[fd20:ce::254]",
		"http://2852039166", "http://0xa9fea9fe", "http://0xA9.0xFE.0xA9.0xFE", "http://169.254.43518", "http://169.254.169.0376", "http://0x",
		"http://[fd00:ec2::23]", "http://[fd00:ec2::254%25eth0]", "http://[fd00:ec2:0:0::fd]", "http://192.0.0.192", "http://169.254.170.2",
		"http://[64:ff9b::a9fe:a9fe]", "http://[64:ff9b::169.254.169.254]:80", "http://[64:ff9b::100.100.100.200]", "http://[64:ff9b::192.0.0.192]",
		"http://[64:ff9b:1::a9fe:a9fe]", "http://[64:ff9b:1:a9fe:a9:fe00::]", "http://[64:ff9b:1:0:a9:fea9:fe00::]", "http://[64:ff9b:1:a9:fe:a9fe::]",
		"http://[2002:a9fe:a9fe::]", "http://[2002:a9fe:a9fe::1]:8000", "http://[2002:6464:64c8::1]", "http://[2002:a83f:8110::]",
		"http://[::a9fe:a9fe]", "http://[::ffff:0:a9fe:a9fe]", "http://[::ffff:100.100.100.200]", "http://[::ffff:192.0.0.192]",
		"http://metadata.google.internal.", "http://metadata.google.internal..", "http://metadata.", "http://169.254.169.254.", "http://169.254.169.254..",
		"http://0251.0376.0251.0376", "http://025177524776", "http://0XA9FEA9FE", "http://2852039166.", "http://169.16689662", "http://0xa9.254.0251.254",
		"http://169。254。169。254", "http://ｍetadata.google.internal", "http://metadata.google。internal:80", "http://１６９.254.169.254",
	})
	f("allow: [10.1.2.3/8, 'fd00::/8', h, '*.internal:8000']", []string{
		"http://10.255.0.1:1", "http://[::ffff:10.0.0.1]", "http://[fdff::1]", "http://h:1", "http://a.internal:8000",
	}, []string{
		"http://11.0.0.1", "http://[fe00::1]", "http://a.internal", "http://10.internal", "http://g", "http://167772161",
	})
	// Another host that asks a metadata service is named all the same.
	f("allow: ['*.internal']", []string{"http://metadata.google.internal"}, []string{"http://[64:ff9b::a9fe:a9fe]"})
	f("allow: [169.254.0.0/16]", []string{"http://169.254.169.254"}, []string{"http://h", "http://10.0.0.1"})
	f("allow: [0.0.0.0/0]", []string{"http://127.0.0.1"}, []string{"http://h", "http://[::1]"})
}

// TestDiscoveryPagePorts checks at which other ports of an endpoint's host a page
// may be looked for.
func TestDiscoveryPagePorts(t *testing.T) {
	f := func(keys, address string, want ...string) {
		t.Helper()
		e, err := discoveryOf(t, keys).Endpoint(labels.FromStrings("__address__", address))
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Servers.PagePorts; !slices.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%s, %s: got %q, want %q", keys, address, got, want)
		}
	}
	f("", "h:8000")
	f("allow: [h]", "h:8000")
	f("allow: ['h:8000', '*.internal']", "h:8000", "8000")
	f("allow: ['h:8000', 'h:8002', 'g:1']", "H.:8000", "8000", "8002")
	f("allow: ['h:8000', h]", "h:8000")
	f("allow: ['*.internal:8000', 'a.internal:8002', 'b.internal:1']", "a.internal:8000", "8000", "8002")
	f("allow: [10.0.0.0/8]", "10.0.0.1:8000")
	f("allow: ['10.0.0.1:8000', 10.0.1.0/24]", "10.0.0.1:8000", "8000")
	f("allow: ['[::1]:8000']", "[::1]:8000", "8000")
}

func TestMakesSame(t *testing.T) {
	f := func(a, b string, want bool) {
		t.Helper()
		if got := discoveryOf(t, a).MakesSame(discoveryOf(t, b)); got != want {
			t.Errorf("%s and %s: got %t", a, b, got)
		}
	}
	const keys = "modules: [rag], http: {authorization: {credentials: a}}, allow: [h], relabel_configs: [{target_label: a, regex: x}]"
	f(keys, keys, true)
	f("", "http_sd_configs: [{url: http://h}]", true) // only the source differs
	f(keys, strings.Replace(keys, "credentials: a", "credentials: b", 1), false)
	f(keys, strings.Replace(keys, "[rag]", "[agent]", 1), false)
	f(keys, strings.Replace(keys, "[h]", "[g]", 1), false)
	f(keys, strings.Replace(keys, "regex: x", "regex: y", 1), false)

	a, b := discoveryOf(t, ""), discoveryOf(t, "")
	delete(b.modules, "canary")
	if a.MakesSame(b) {
		t.Error("one of them knows a module that the other does not")
	}
}

// TestStaticGroups checks that all groups are one source, each with its own name.
func TestStaticGroups(t *testing.T) {
	c, err := Parse([]byte("discovery: [{static_configs: [{targets: [a]}, {targets: [b]}, {targets: [c]}]}]"), "f.yml")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%v", []Sources{c.Discovery[0].Sources()}); got != "[[[0 1 2]]]" {
		t.Errorf("got %s", got)
	}
}

func BenchmarkDiscoveryEndpoint(b *testing.B) {
	d := discoveryOf(b, "labels: {team: search}")
	target := labels.FromStrings("__address__", "h:8000", "__model__", "m", "__meta_a", "b", "zone", "a")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Endpoint(target); err != nil {
			b.Fatal(err)
		}
	}
}

// Credentials of a source do not go where its server redirects, unless the file
// says so.
func TestSourcesFollowRedirects(t *testing.T) {
	f := func(keys string, want bool) {
		t.Helper()
		c, err := Parse([]byte("discovery: [{http_sd_configs: [{url: 'http://h/x'"+keys+"}]}]"), "test.yml")
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Discovery[0].HTTP[0].(*promhttp.SDConfig).HTTPClientConfig.FollowRedirects; got != want {
			t.Errorf("%q: follows redirects: %t", keys, got)
		}
	}
	f("", true)
	f(", basic_auth: {username: u, password: p}", false)
	f(", authorization: {credentials: p}", false)
	f(", http_headers: {X-Key: {secrets: [p]}}", false)
	f(", basic_auth: {username: u, password: p}, follow_redirects: true", true)
	f(", follow_redirects: false", false)
}

// TestTaggedSources reads the sources that only some builds have; the others say
// so.
func TestTaggedSources(t *testing.T) {
	f := func(mechanism, item string) {
		t.Helper()
		text := "discovery:\n  - " + mechanism + "_sd_configs: [" + item + "]\n"
		c, err := Parse([]byte(text), "f.yml")
		if !slices.Contains(promdiscovery.RegisteredConfigNames(), mechanism) {
			want := "f.yml:2: discovery[0]." + mechanism + "_sd_configs: this build has no discovery by " + mechanism +
				"; the container image and the releases have it; build with -tags kubernetes_sd,consul_sd,clouds"
			if err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
			return
		}
		if err != nil {
			t.Error(err)
			return
		}
		if got := c.Discovery[0].Sources(); len(got) != 1 || got[0].Name() != mechanism {
			t.Errorf("got %v", got)
		}
		checkRoundTrip(t, c, "f.yml")
		_, err = Parse([]byte(strings.Replace(text, "[{", "[{rolle: x, ", 1)), "f.yml")
		want := "f.yml:2: discovery[0]." + mechanism + `_sd_configs[0]: unknown key` // which may be a secret
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	f("kubernetes", "{role: endpointslice, namespaces: {names: [llm]}, selectors: [{role: endpointslice, label: app=vllm}]}")
	f("kubernetes", "{role: pod, api_server: 'https://k8s:6443', authorization: {credentials: a}}")
	f("consul", "{server: 'consul:8500', services: [vllm], token: a}")
}

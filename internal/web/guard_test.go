package web

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/fleet"
)

// client is what sends a request, by the headers that it sends.
type client struct {
	name   string
	header []string // in pairs
}

// What browsers send over plain HTTP to a name, where no Sec-Fetch-Site says
// whose request it is, and to this machine, where it does.
const (
	chrome    = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"
	firefox   = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
	safari    = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.0 Safari/605.1.15"
	images    = "image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8"
	documents = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
)

func browsers() []client {
	return []client{
		{"chrome, picture", []string{"Accept", images, "Accept-Encoding", "gzip, deflate", "Accept-Language", "en-US,en;q=0.9", "Connection", "keep-alive", "Referer", "http://evil.example/", "User-Agent", chrome}},
		{"chrome, picture without referrer", []string{"Accept", images, "Accept-Encoding", "gzip, deflate", "Accept-Language", "en-US,en;q=0.9", "User-Agent", chrome}},
		{"chrome, link followed", []string{"Accept", documents, "Accept-Encoding", "gzip, deflate", "Accept-Language", "en-US,en;q=0.9", "Upgrade-Insecure-Requests", "1", "User-Agent", chrome}},
		{"chrome, video", []string{"Accept", "*/*", "Accept-Encoding", "identity;q=1, *;q=0", "Range", "bytes=0-", "User-Agent", chrome}},
		{"chrome, fetch no-cors that chooses what it may", []string{"Accept", "text/plain", "Accept-Encoding", "gzip, deflate", "Accept-Language", "", "User-Agent", chrome}},
		{"chrome without a head, script", []string{"Accept", "*/*", "Accept-Encoding", "gzip, deflate", "User-Agent", strings.Replace(chrome, "Chrome", "HeadlessChrome", 1)}},
		{"chrome, frame of this machine", []string{"Accept", documents, "Accept-Encoding", "gzip, deflate, br, zstd", "Sec-Fetch-Dest", "iframe", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Site", "cross-site", "Upgrade-Insecure-Requests", "1", "User-Agent", chrome}},
		{"chrome, link to this machine", []string{"Accept", documents, "Sec-Fetch-Dest", "document", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-User", "?1", "User-Agent", chrome}},
		{"chrome, typed, perhaps redirected", []string{"Accept", documents, "Sec-Fetch-Dest", "document", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Site", "none", "User-Agent", chrome}},
		{"chrome, same site", []string{"Accept", "*/*", "Sec-Fetch-Dest", "empty", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Site", "same-site", "User-Agent", chrome}},
		{"firefox, picture", []string{"Accept", "image/avif,image/webp,image/png,image/svg+xml,image/*;q=0.8,*/*;q=0.5", "Accept-Language", "en-US,en;q=0.5", "Priority", "u=5", "User-Agent", firefox}},
		{"firefox, fetch by a page whose name leads here", []string{"Accept", "*/*", "Accept-Encoding", "gzip, deflate", "Accept-Language", "", "User-Agent", "Prometheus/3.8.0"}},
		{"firefox, fetch with CORS", []string{"Accept", "*/*", "Origin", "http://evil.example", "User-Agent", firefox}},
		{"safari, frame", []string{"Accept", documents, "Accept-Encoding", "gzip, deflate", "Accept-Language", "en-US,en;q=0.9", "User-Agent", safari}},
		{"safari, style sheet", []string{"Accept", "text/css,*/*;q=0.1", "User-Agent", safari}},
		{"a browser with another name", []string{"Accept", documents, "User-Agent", "Lynx/2.9.2"}},
		{"a page with cookies of this machine", []string{"Accept", "*/*", "Cookie", "session=1"}},
	}
}

// scrapers are what may probe by GET.
func scrapers() []client {
	return []client{
		{"prometheus", []string{
			"Accept", "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=1.0.0;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
			"Accept-Encoding", "gzip", "User-Agent", "Prometheus/3.8.0", scrapeTimeoutHeader, "10",
		}},
		{"victoria metrics", []string{"Accept", "text/plain;version=0.0.4;q=1,*/*;q=0.1", "Accept-Encoding", "gzip", "User-Agent", "vm_promscrape"}},
		{"curl", []string{"Accept", "*/*", "User-Agent", "curl/8.14.1"}},
		{"wget", []string{"Accept", "*/*", "Accept-Encoding", "identity", "User-Agent", "Wget/1.25.0"}},
		{"python", []string{"Accept", "*/*", "Accept-Encoding", "gzip, deflate", "User-Agent", "python-requests/2.32.5"}},
		{"nothing", []string{"User-Agent", ""}},
	}
}

// countedSite is a server of all pages that counts the probes and reloads.
func countedSite(t *testing.T, hosts ...string) (base string, probes, reloads *atomic.Int64) {
	t.Helper()
	probes, reloads = &atomic.Int64{}, &atomic.Int64{}
	s := newSiteWith(t, everything, func(o *Options) {
		o.Hosts = hosts
		o.Reload = func(context.Context) error { reloads.Add(1); return nil }
		o.Probe = func(context.Context, fleet.ProbeRequest) (*fleet.ProbeAnswer, error) {
			probes.Add(1)
			return answer(), nil
		}
	})
	server := httptest.NewServer(s.Handler())
	t.Cleanup(server.Close)
	t.Cleanup(s.Close) // first, which ends the streams
	return server.URL, probes, reloads
}

// askAs sends a request with the Host header and the headers that are given and
// no others.
func askAs(t *testing.T, method, url, host string, header ...string) (status int, body string, h http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	for i := 0; i < len(header); i += 2 {
		r.Header[header[i]] = []string{header[i+1]}
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if strings.HasSuffix(r.URL.Path, "/events") && resp.StatusCode == http.StatusOK {
		return resp.StatusCode, "", resp.Header // it has no end
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

// No page can make a browser probe by GET, whatever it leaves out; who scrapes
// can, as before.
func TestBrowsersDoNotProbeByGET(t *testing.T) {
	const host = "exporter:10115"
	base, probes, _ := countedSite(t)
	for _, c := range browsers() {
		status, body, header := askAs(t, http.MethodGet, base+"/probe?target=%3Cb%3E", host, c.header...)
		if status != http.StatusForbidden || probes.Load() != 0 {
			t.Fatalf("%s: status %d, %d probes", c.name, status, probes.Load())
		}
		if !strings.Contains(body, `<form method="post">`) || !strings.Contains(body, "&lt;b&gt;") ||
			!strings.Contains(header.Get("Content-Security-Policy"), "form-action 'self'") || header.Get("Referrer-Policy") != "same-origin" {
			t.Errorf("%s: no way to probe nevertheless: %q, %q", c.name, body, header)
		}
	}
	for i, c := range scrapers() {
		status, body, _ := askAs(t, http.MethodGet, base+"/probe?target=a", host, c.header...)
		if status != http.StatusOK || !strings.HasPrefix(body, "metrics as") || probes.Load() != int64(i+1) {
			t.Errorf("%s: status %d, %q, %d probes", c.name, status, body, probes.Load())
		}
	}
}

// A POST probes where it comes from the exporter's own page, or from no browser.
func TestProbesByPOST(t *testing.T) {
	base, probes, _ := countedSite(t)
	host := strings.TrimPrefix(base, "http://")
	f := func(want int, header ...string) {
		t.Helper()
		before := probes.Load()
		status, _, _ := askAs(t, http.MethodPost, base+"/probe?target=a", host, header...)
		if probed := probes.Load() > before; status != want || probed != (want == http.StatusOK) {
			t.Errorf("%q: status %d, want %d; probed: %t", header, status, want, probed)
		}
	}
	f(http.StatusOK)
	f(http.StatusOK, "User-Agent", "curl/8.14.1")
	f(http.StatusOK, "User-Agent", chrome, "Origin", base)
	f(http.StatusOK, "User-Agent", chrome, "Origin", base, "Sec-Fetch-Site", "same-origin")
	f(http.StatusForbidden, "User-Agent", chrome, "Origin", "http://evil.example")
	f(http.StatusForbidden, "User-Agent", chrome, "Origin", "null")
	f(http.StatusForbidden, "User-Agent", chrome, "Origin", "http://127.0.0.1:1")
	f(http.StatusForbidden, "User-Agent", chrome, "Origin", "null", "Sec-Fetch-Site", "cross-site")
	f(http.StatusForbidden, "User-Agent", chrome, "Sec-Fetch-Site", "same-site")
}

// A name that somebody else let lead here reads nothing and starts nothing.
func TestNamesOfOthers(t *testing.T) {
	base, probes, reloads := countedSite(t, "metrics.example.org", ":10115", "")
	f := func(method, path, host string, header ...string) {
		t.Helper()
		status, body, _ := askAs(t, method, base+path+"?target=a", host, header...)
		if status != http.StatusForbidden || !strings.Contains(body, "--web.allowed-host") {
			t.Errorf("%s %s at %s as %q: status %d, %q", method, path, host, header, status, body)
		}
	}
	for _, host := range []string{
		"evil.example:10115", "EVIL.example.", "127.0.0.1.evil.example", "localhost.evil.example:80",
		"metrics.example.org.evil.example", "evil-metrics.example.org", "x.svc.evil.example", "evil.local", "[::1].evil.example", ".",
	} {
		f(http.MethodGet, "/api/v1/config", host)
		f(http.MethodGet, "/probe", host)
		f(http.MethodPost, reloadPath, host)
	}
	for _, path := range allPaths(t) {
		if path == healthyPath || path == readyPath {
			continue
		}
		f(http.MethodGet, path, "evil.example", "User-Agent", firefox, "Accept-Language", "en")
		f(http.MethodGet, path, "evil.example", "User-Agent", "Prometheus/3.8.0", "Accept", "*/*", "Accept-Language", "")
		f(http.MethodPost, path, "evil.example", "User-Agent", chrome, "Origin", "http://evil.example", "Sec-Fetch-Site", "same-origin")
	}
	if probes.Load()+reloads.Load() != 0 {
		t.Errorf("%d probes and %d reloads for the names of others", probes.Load(), reloads.Load())
	}
}

// Prometheus may know the exporter by any name, and whoever watches the process.
func TestScrapesByAnyName(t *testing.T) {
	base, _, _ := countedSite(t)
	for _, host := range []string{"exporter.monitoring:10115", "metrics.example.org", "exporter.monitoring.svc.prod.example:10115"} {
		for _, c := range scrapers() {
			if status, _, _ := askAs(t, http.MethodGet, base+"/metrics", host, c.header...); status != http.StatusOK {
				t.Errorf("%s at %s: status %d", c.name, host, status)
			}
		}
		if status, _, _ := askAs(t, http.MethodGet, base+"/-/healthy", host); status != http.StatusOK {
			t.Errorf("healthy at %s: status %d", host, status)
		}
	}
}

func TestOwnNames(t *testing.T) {
	base, _, _ := countedSite(t, "Metrics.example.org:10115", "fe80::1")
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{
		u.Host, "localhost:" + u.Port(), "localhost", "exporter.localhost", "127.0.0.1", "192.0.2.7:80", "[::1]:10115", "[2001:db8::1]",
		"exporter", "exporter:10115", "exporter.monitoring.svc:10115", "exporter.monitoring.svc.cluster.local",
		"metrics.example.org", "METRICS.example.org.:443",
	} {
		for _, path := range []string{"/", "/api/v1/config", "/metrics"} {
			status, body, _ := askAs(t, http.MethodGet, base+path, host, "User-Agent", chrome, "Accept-Language", "en")
			if status != http.StatusOK {
				t.Errorf("%s at %s: status %d, %q", path, host, status, body)
			}
		}
		if status, body, _ := askAs(t, http.MethodPost, base+"/-/reload", host); status != http.StatusOK {
			t.Errorf("a reload at %s: status %d, %q", host, status, body)
		}
	}
}

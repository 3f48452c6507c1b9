package web

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"go.uber.org/goleak"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/status"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// metricsFunc writes a page of metrics.
type metricsFunc func(w io.Writer, format expfmt.Format) error

func (f metricsFunc) Write(w io.Writer, format expfmt.Format) error { return f(w, format) }

// scrapes keeps the sizes that an observer got.
type scrapes struct {
	mu    sync.Mutex
	sizes []int64
}

func (s *scrapes) Scraped(_ time.Duration, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sizes = append(s.sizes, size)
}

// site is a server with what it reported to others.
type site struct {
	*Server
	t       testing.TB
	scrapes scrapes
	log     bytes.Buffer
}

func newSite(t *testing.T, metrics metricsFunc) *site {
	t.Helper()
	return newSiteWith(t, func(o *Options) { o.Metrics = metrics })
}

// options are those of a site that shows what a server without GPUs, probes and changes by
// HTTP does.
func options(metricsPath string) Options {
	return Options{
		MetricsPath: metricsPath, Hosts: []string{"example.com"}, Metrics: metricsFunc(writeLong), Scraped: new(scrapes).Scraped,
		Formats: []expfmt.Format{expfmt.FmtOpenMetrics_1_0_0, expfmt.FmtProtoDelim, expfmt.FmtText},
		Logger:  slog.New(slog.DiscardHandler), Hangs: func() bool { return false }, Status: newTable("a", "b"),
		Explain: func(name string) (*explain.Report, bool) {
			return &explain.Report{At: 1, Endpoint: name, State: "up", Findings: []explain.Finding{}}, name == "b"
		},
		Health:   func(string) *health.Status { return &health.Status{State: health.Up, Unmuted: health.Up} },
		Gateways: func() *status.GatewayPage { return &status.GatewayPage{} },
		Gatherer: prometheus.NewRegistry(),
		Info:     func() Info { return Info{Version: "1.2.3"} },
		Config:   func() ([]byte, error) { return []byte("endpoints: []\n"), nil },
	}
}

// newSiteWith is a site with the options that the functions change.
func newSiteWith(t testing.TB, changes ...func(*Options)) *site {
	t.Helper()
	s := &site{t: t}
	o := options("/metrics")
	o.Scraped, o.Logger = s.scrapes.Scraped, slog.New(slog.NewTextHandler(&s.log, nil))
	for _, change := range changes {
		change(&o)
	}
	var err error
	if s.Server, err = New(o); err != nil {
		t.Fatal(err)
	}
	return s
}

// ask returns the answer to one request. Headers come in pairs.
func (s *site) ask(method, path string, header ...string) *http.Response {
	s.t.Helper()
	r := httptest.NewRequestWithContext(s.t.Context(), method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w.Result()
}

func readAll(t testing.TB, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// long is a page that is worth compressing.
var long = strings.Repeat("inference_probe_success 1\n", 1000)

func writeLong(w io.Writer, _ expfmt.Format) error {
	_, err := io.WriteString(w, long)
	return err
}

func TestPages(t *testing.T) {
	s := newSite(t, writeLong)
	f := func(method, path string, status int, want string) {
		t.Helper()
		resp := s.ask(method, path)
		if body := readAll(t, resp.Body); resp.StatusCode != status || !strings.Contains(body, want) {
			t.Errorf("%s %s: status %d, want %d, with %q in %q", method, path, resp.StatusCode, status, want, body)
		}
	}
	f(http.MethodGet, "/-/healthy", http.StatusOK, "healthy\n")
	f(http.MethodHead, "/-/healthy", http.StatusOK, "")
	f(http.MethodGet, "/-/ready", http.StatusServiceUnavailable, "not ready\n")
	s.Ready(true)
	f(http.MethodGet, "/-/ready", http.StatusOK, "ready\n")
	s.Ready(false)
	f(http.MethodGet, "/-/ready", http.StatusServiceUnavailable, "not ready\n")

	s.Ready(true)
	s.hangs = func() bool { return true }
	f(http.MethodGet, "/-/healthy", http.StatusServiceUnavailable, "the scheduler hangs\n")
	f(http.MethodGet, "/-/ready", http.StatusServiceUnavailable, "not ready\n")

	f(http.MethodGet, "/", http.StatusOK, "inference_exporter")
	f(http.MethodGet, "/", http.StatusOK, `href="metrics"`)
	f(http.MethodGet, "/nowhere", http.StatusNotFound, "")
	f(http.MethodGet, "/metrics/", http.StatusNotFound, "")
	f(http.MethodGet, "/debug/pprof/", http.StatusNotFound, "")
	for _, path := range []string{"/", "/metrics", "/-/healthy", "/-/ready"} {
		f(http.MethodPost, path, http.StatusMethodNotAllowed, "")
	}
}

func TestMetricsPath(t *testing.T) {
	f := func(path string, good bool) {
		t.Helper()
		s, err := New(options(path))
		if (err == nil) != good {
			t.Errorf("path %q: error %v", path, err)
		}
		if err != nil {
			return
		}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusOK || w.Body.String() != long {
			t.Errorf("path %q: status %d", path, w.Code)
		}
		w = httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/nowhere", nil))
		if w.Code != http.StatusNotFound {
			t.Errorf("path %q takes others too: status %d", path, w.Code)
		}
	}
	f("/metrics", true)
	f("/", true)
	f("/a/b-c_d.e~1", true)
	f("", false)
	f("metrics", false)
	f("/metrics/", false)
	f("//metrics", false)
	f("/a/../b", false)
	f("/{name}", false)
	f("/a b", false)
	f("/a?b=c", false)
	f("/-/healthy", false)
	f("/-/", false)
	f("/-", false)
	f("/probe", false)
	f("/api/v1/metrics", false)
	f("/assets", false)
	f("/endpoint/metrics", false)
	f("/self", false)
	f("/config/metrics", true)
	f("/endpoints", true)
}

// everything are options with every page there is.
func everything(o *Options) {
	o.GPUs = func() *status.GPUPage { return &status.GPUPage{State: "ok"} }
	o.Reload = func(context.Context) error { return nil }
	o.Probe = func(context.Context, fleet.ProbeRequest) (*fleet.ProbeAnswer, error) { return answer(), nil }
}

// allPaths returns a path of every route of a server with everything.
func allPaths(t testing.TB) []string {
	t.Helper()
	o := options("/metrics")
	everything(&o)
	routes, err := (&Server{}).routes(&o)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, r := range routes {
		p := r.pattern[strings.Index(r.pattern, "/"):]
		paths = append(paths, strings.NewReplacer("{$}", "", "{name...}", "a").Replace(p))
	}
	slices.Sort(paths)
	return slices.Compact(paths)
}

// askOnce is ask with a request that is canceled, where it would be a stream.
func (s *site) askOnce(method, path string, header ...string) *http.Response {
	if path != "/api/v1/events" {
		return s.ask(method, path, header...)
	}
	ctx, cancel := context.WithCancel(s.t.Context())
	cancel()
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, path, nil))
	return w.Result()
}

// wantedHeaders are on every answer.
var wantedHeaders = map[string]string{
	"Content-Security-Policy":      "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
	"X-Content-Type-Options":       "nosniff",
	"Referrer-Policy":              "no-referrer",
	"Cross-Origin-Opener-Policy":   "same-origin",
	"Cross-Origin-Resource-Policy": "same-origin",
	"Permissions-Policy":           "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}

func missingHeader(h http.Header) string {
	for name, want := range wantedHeaders {
		if got := h.Values(name); len(got) != 1 || got[0] != want {
			return name
		}
	}
	return ""
}

func TestHeadersOnEveryAnswer(t *testing.T) {
	full := newSiteWith(t, everything)
	defer full.Close()
	bare := newSiteWith(t)
	others := []string{
		"/nowhere", "/api/v1/nothing", "/api/v1/endpoints/none", "/assets/", "/assets/page.html", "/assets/../x", "/endpoint//a",
		"/endpoint", "/%2F", "/-/", "/api/v1/events?since=x", "/api/v1/events?endpoint=none",
	}
	for _, path := range append(allPaths(t), others...) {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "X"} {
			for _, s := range []*site{full, bare} {
				resp := s.askOnce(method, path)
				if name := missingHeader(resp.Header); name != "" {
					t.Errorf("%s %s: status %d without the header %s", method, path, resp.StatusCode, name)
				}
				cache := "no-store"
				if strings.HasPrefix(path, "/assets/") && resp.StatusCode == http.StatusOK {
					cache = "no-cache"
				}
				if got := resp.Header.Get("Cache-Control"); got != cache {
					t.Errorf("%s %s: status %d, Cache-Control %q, want %q", method, path, resp.StatusCode, got, cache)
				}
			}
		}
	}
}

// Nothing but a reload and a mute changes anything.
func TestMethods(t *testing.T) {
	s := newSiteWith(t, everything)
	defer s.Close()
	paths := allPaths(t)
	if len(paths) < 15 {
		t.Fatalf("too few paths: %q", paths)
	}
	for _, path := range paths {
		good, allow := []string{"GET", "HEAD"}, "GET, HEAD"
		switch path {
		case "/-/reload":
			good, allow = []string{"POST", "PUT"}, "POST, PUT"
		case "/probe":
			good, allow = []string{"GET", "POST"}, "GET, POST"
		case mutePath: // a GET is answered as that of an endpoint of this name
			good = []string{"GET", "HEAD", "POST", "DELETE"}
		}
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "X"} {
			resp := s.askOnce(method, path)
			if refused := resp.StatusCode == http.StatusMethodNotAllowed; refused == slices.Contains(good, method) {
				t.Errorf("%s %s: status %d", method, path, resp.StatusCode)
			}
			// That HEAD is not for probes is for the probe's page to say.
			got := resp.Header.Get("Allow")
			if resp.StatusCode == http.StatusMethodNotAllowed && got != allow && path != "/probe" {
				t.Errorf("%s %s: allowed is %q, want %q", method, path, got, allow)
			}
		}
	}
}

func TestReload(t *testing.T) {
	calls := 0
	var refusal error
	s := newSiteWith(t, func(o *Options) {
		o.Reload = func(context.Context) error { calls++; return refusal }
	})
	f := func(method string, status int, want string, called int, header ...string) {
		t.Helper()
		before := calls
		resp := s.ask(method, "/-/reload", header...)
		body := readAll(t, resp.Body)
		if resp.StatusCode != status || !strings.Contains(body, want) || calls-before != called {
			t.Errorf("%s %q: status %d, %q, %d reloads; want %d, %q, %d", method, header, resp.StatusCode, body, calls-before, status, want, called)
		}
	}
	f("POST", http.StatusOK, "reloaded\n", 1)
	f("PUT", http.StatusOK, "reloaded\n", 1)
	f("GET", http.StatusMethodNotAllowed, "", 0)
	f("DELETE", http.StatusMethodNotAllowed, "", 0)
	f("POST", http.StatusOK, "", 1, "Sec-Fetch-Site", "same-origin")
	f("POST", http.StatusOK, "", 1, "Sec-Fetch-Site", "none") // typed by hand
	f("POST", http.StatusOK, "", 1, "Origin", "http://example.com")
	f("POST", http.StatusForbidden, "", 0, "Sec-Fetch-Site", "cross-site")
	f("PUT", http.StatusForbidden, "", 0, "Sec-Fetch-Site", "same-site")
	f("POST", http.StatusForbidden, "", 0, "Origin", "http://evil.example")
	f("POST", http.StatusForbidden, "", 0, "Origin", "null")
	refusal = errors.New("config.yml:3: unknown field")
	f("POST", http.StatusInternalServerError, "config.yml:3: unknown field\n", 1)

	s = newSiteWith(t)
	f("POST", http.StatusForbidden, "--web.enable-lifecycle", 0)
	f("GET", http.StatusMethodNotAllowed, "", 0)
}

var link = regexp.MustCompile(`(?:src|href)="([^"#][^"]*)"`)

// The links of a page lead to something, also where a proxy serves the site
// below a path.
func TestLinksOfPages(t *testing.T) {
	s := newSiteWith(t, everything)
	defer s.Close()
	for _, page := range []string{"/", "/gpus", "/self", "/config", "/endpoint/a", "/endpoint/a%2Fb", "/endpoint/a/b"} {
		resp := s.ask(http.MethodGet, page)
		body := readAll(t, resp.Body)
		if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != "text/html; charset=utf-8" {
			t.Errorf("%s: status %d, %s", page, resp.StatusCode, got)
		}
		base, err := url.Parse("http://proxy/some/where" + page)
		if err != nil {
			t.Fatal(err)
		}
		links := link.FindAllStringSubmatch(body, -1)
		if len(links) == 0 {
			t.Errorf("%s: no links in %s", page, body)
		}
		for _, l := range links {
			target, err := base.Parse(l[1])
			if err != nil {
				t.Fatal(err)
			}
			path, below := strings.CutPrefix(target.EscapedPath(), "/some/where")
			if !below {
				t.Errorf("%s: the link %q leaves the site", page, l[1])
			} else if resp := s.ask(http.MethodGet, path); resp.StatusCode != http.StatusOK {
				t.Errorf("%s: the link %q: status %d", page, l[1], resp.StatusCode)
			}
		}
	}
}

func TestNamesOfPages(t *testing.T) {
	s := newSiteWith(t, everything)
	defer s.Close()
	f := func(path, want string) {
		t.Helper()
		if body := readAll(t, s.ask(http.MethodGet, path).Body); !strings.Contains(body, want) {
			t.Errorf("%s: no %q in %s", path, want, body)
		}
	}
	f("/", `data-root="" data-page="fleet"`)
	f("/gpus", `data-root="" data-page="gpus"`)
	f("/self", `data-root="" data-page="self"`)
	f("/config", `data-root="" data-page="config"`)
	f("/endpoint/a", `data-root="../" data-page="endpoint"`)
	f("/endpoint/a%2Fb", `data-root="../" data-page="endpoint"`)
	f("/endpoint/a/b", `data-root="../../" data-page="endpoint"`) // a proxy took the %2F for a slash
}

// A page that is at the path of the metrics is not the status page.
func TestMetricsInPlaceOfThePage(t *testing.T) {
	s := newSiteWith(t, everything, func(o *Options) { o.MetricsPath = "/" })
	defer s.Close()
	if body := readAll(t, s.ask(http.MethodGet, "/").Body); body != long {
		t.Errorf("the metrics are not at /: %.100s", body)
	}
	resp := s.ask(http.MethodGet, "/endpoint/a")
	if body := readAll(t, resp.Body); resp.StatusCode != http.StatusOK || !strings.Contains(body, `href="../.">Metrics<`) {
		t.Errorf("status %d, no link to / in %s", resp.StatusCode, body)
	}
}

package web

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-exporter/inference_exporter/status"
)

// everything are options with every page there is.
func everything(o *Options) {
	o.Status = newTable("a", "b")
	o.GPUs = func() *status.GPUPage { return &status.GPUPage{State: "ok"} }
	o.Gatherer = prometheus.NewRegistry()
	o.Info = func() Info { return Info{Version: "1.2.3"} }
	o.Config = func() ([]byte, error) { return []byte("endpoints: []\n"), nil }
	o.Reload = func(context.Context) error { return nil }
	o.Prober = proberFunc(func(context.Context, ProbeRequest) (*ProbeAnswer, error) { return answer(), nil })
}

// allPaths returns a path of every route of a server with everything.
func allPaths(t testing.TB) []string {
	t.Helper()
	o := Options{MetricsPath: "/metrics"}
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

// Nothing but a reload changes anything.
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

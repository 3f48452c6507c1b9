package app

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/internal/web"
)

// FuzzProbeParameters checks that no parameter of /probe reaches a host that the
// configuration does not name, that what is not probed is refused in one line
// without control characters, and that nothing panics. In target, ALLOWED is
// replaced by host and port of the one server that may be probed, and OTHER by those of
// another one.
func FuzzProbeParameters(f *testing.F) {
	asked := make(chan string, 100)
	serve := func(h http.HandlerFunc) (hostPort string) {
		s := httptest.NewServer(h)
		f.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	allowed := serve(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) })
	other := serve(func(_ http.ResponseWriter, r *http.Request) { asked <- r.Host })
	pages := probePages(f, allowed)

	for _, target := range []string{
		"known", "KNOWN", "unknown", "", " ", "http://ALLOWED", "http://ALLOWED/", "http://allowed@ALLOWED/v1", "http://OTHER", "https://ALLOWED",
		"http://ALLOWED@OTHER", "http://OTHER@ALLOWED", "http://OTHER#@ALLOWED", "http://OTHER/@ALLOWED", "http://OTHER?ALLOWED", `http://OTHER\@ALLOWED`,
		"//ALLOWED", "HTTP://ALLOWED", "ftp://ALLOWED", "http://ALLOWED.", "http://ALLOWED:OTHER", "http://[::1]", "http://[::ffff:127.0.0.1]", "http://2130706433",
		"http://169.254.169.254/latest", "http:///v1", "http://\x00", "http://a\r\nHost: b", "http://%0d%0a", "\x1b[31m", "\u202e://x", "file:///etc/passwd", strings.Repeat("a", 1000),
		"http://ALLOWED/%2e%2e/?q=1#x", "unix:///run/x", "http://user:secret@ALLOWED",
	} {
		f.Add(target, "", "", "")
	}
	for _, odd := range []string{"t", "\x00", "a\nb", "\x1b[31m", "../..", strings.Repeat("m", 300), "openai-chat", "\xff", "\u2028"} {
		f.Add("known", odd, "", "")
		f.Add("known", "t", odd, "")
		f.Add("http://ALLOWED", "t", "openai-chat", odd)
	}
	f.Fuzz(func(t *testing.T, target, module, api, model string) {
		target = strings.NewReplacer("ALLOWED", allowed, "OTHER", other).Replace(target)
		query := url.Values{"target": {target}, "module": {module}, "api": {api}, "model": {model}}
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/probe?"+query.Encode(), nil))
		select {
		case host := <-asked:
			t.Errorf("target %q: a request to %q", target, host)
		default:
		}
		switch known := target == "known" && module == "" && api == "" && model == ""; {
		case known && w.Code != http.StatusOK:
			t.Errorf("a known endpoint: status %d: %s", w.Code, w.Body)
		case w.Code == http.StatusOK:
			if u, err := url.Parse(target); target != "known" && (err != nil || strings.TrimRight(u.Hostname(), ".") != hostOf(allowed) || u.Port() != portOf(allowed)) {
				t.Errorf("target %q was probed", target)
			}
		case w.Code != http.StatusBadRequest && w.Code != http.StatusForbidden:
			t.Errorf("target %q: status %d: %s", target, w.Code, w.Body)
		case strings.ContainsFunc(strings.TrimSuffix(w.Body.String(), "\n"), func(r rune) bool { return !unicode.IsPrint(r) }):
			t.Errorf("target %q: control characters in %q", target, w.Body)
		}
	})
}

func hostOf(hostPort string) string { host, _, _ := net.SplitHostPort(hostPort); return host }
func portOf(hostPort string) string { _, port, _ := net.SplitHostPort(hostPort); return port }

// probePages returns the pages of a daemon that may probe one host.
func probePages(f *testing.F, allowed string) http.Handler {
	f.Helper()
	cfg, err := config.Parse([]byte(`
modules: {interactive: {timeout: 2s}, t: {timeout: 2s}}
probe: {allow: ['`+allowed+`']}
endpoints: [{name: known, url: 'http://`+allowed+`', api: openai-chat, model: m}]
`), "test.yml")
	if err != nil {
		f.Fatal(err)
	}
	fl := fleet.New(fleet.Options{
		Probes: collector.NewProbes(time.Now), Self: collector.NewSelf(prometheus.NewRegistry()),
		Health: health.NewShared(time.Now, slog.New(slog.DiscardHandler)), Board: status.NewBoard(time.Now), Logger: slog.New(slog.DiscardHandler),
	})
	f.Cleanup(fl.Close)
	if err := fl.Apply(fleet.Plan{Config: cfg, All: cfg.Endpoints}); err != nil {
		f.Fatal(err)
	}
	s, err := web.New(web.Options{
		MetricsPath: "/metrics", Hosts: []string{"example.com"}, Formats: collector.Formats(), Probe: fl.Probe, Logger: slog.New(slog.DiscardHandler),
		Info: func() web.Info { return web.Info{} },
	})
	if err != nil {
		f.Fatal(err)
	}
	return s.Handler()
}

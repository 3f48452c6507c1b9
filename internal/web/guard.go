package web

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/fleet"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// guard answers only requests to a name of the exporter: a page that a browser loaded from another site could resolve
// its own name to the exporter's address (DNS rebinding), and then do what the exporter's own pages may do.
type guard struct {
	next    http.Handler
	metrics string // path of the metrics
	allowed []string
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !g.isOpen(r) && !g.isAllowed(r.Host) {
		plainText(w, http.StatusForbidden, fmt.Sprintf(
			"%.128q is not a name of this exporter: use its address, or allow the name with --web.allowed-host", r.Host))
		return
	}
	g.next.ServeHTTP(w, r)
}

// isOpen reports whether the request may use any name: the checks of the process,
// and scrapes of the metrics, for which Prometheus uses the name that it knows.
func (g *guard) isOpen(r *http.Request) bool {
	p := r.URL.Path
	return p == healthyPath || p == readyPath || p == g.metrics && !fromBrowser(r.Header)
}

// isAllowed reports whether a Host header names the exporter: by an address, by
// a name that was allowed, or by one that nobody can have in the public DNS.
func (g *guard) isAllowed(host string) bool {
	name := hostName(host)
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return slices.Contains(g.allowed, name) || isPrivate(name)
}

// isPrivate reports whether a name cannot be in the public DNS: of this machine, or of Kubernetes.
func isPrivate(name string) bool {
	if !strings.Contains(name, ".") {
		return name != ""
	}
	return slices.ContainsFunc([]string{".localhost", ".svc", ".svc.cluster.local"}, func(suffix string) bool {
		return strings.HasSuffix(name, suffix)
	})
}

// hostName returns the name in a Host header, without the port, as names compare.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// hostNames returns the names of several Host headers, as far as there is one.
func hostNames(hosts []string) []string {
	return slices.DeleteFunc(stats.Map(hosts, hostName), func(name string) bool { return name == "" })
}

// fromBrowser reports whether a browser may have sent the request. Over plain HTTP it does not say which site caused
// it, so that none is known to be the user's own. A page can remove some of these headers, but not all of them.
func fromBrowser(h http.Header) bool {
	own := []string{"Accept-Language", "Cookie", "Origin", "Referer", "Upgrade-Insecure-Requests"}
	for name := range h {
		if strings.HasPrefix(name, "Sec-") || slices.Contains(own, name) {
			return true
		}
	}
	accept := strings.ToLower(strings.Join(h["Accept"], ","))
	return strings.HasPrefix(h.Get("User-Agent"), "Mozilla/") ||
		strings.Contains(accept, "text/html") || strings.Contains(accept, "image/")
}

// withHeaders sets the headers of every answer. The pages bring all they need along, so a browser may load nothing from
// elsewhere and run nothing that is inside a page; and no page of another site may read or embed an answer. A handler that
// may be cached says so itself.
func withHeaders(h http.Handler) http.Handler {
	headers := map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; " +
			"img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		"X-Content-Type-Options":       "nosniff",
		"Referrer-Policy":              "no-referrer",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Permissions-Policy":           "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
		"Cache-Control":                "no-store",
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range headers {
			w.Header().Set(name, value)
		}
		h.ServeHTTP(w, r)
	})
}

// maxWait is how long a request waits for a slot.
const maxWait = 5 * time.Second

// slots lets a few requests run at once; a further one waits.
type slots chan struct{}

// acquire waits for a slot, which release gives back. The error is a fleet.Refusal.
func (s slots) acquire(ctx context.Context, limit time.Duration) error {
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case s <- struct{}{}:
		return nil
	case <-late.C:
		return &fleet.Refusal{Busy: true, Reason: fmt.Sprintf("%d such requests are running, and none ended within %s", cap(s), limit)}
	case <-ctx.Done():
		return canceled()
	}
}

func (s slots) release() { <-s }

// canceled refuses a request that ends early. Mostly its client is gone and sees nothing of it; at the end of the
// program it must not take an empty answer for a good one.
func canceled() *fleet.Refusal {
	return &fleet.Refusal{Busy: true, Reason: "the request was canceled, or the exporter is shutting down"}
}

const (
	// writeTimeout limits each write of a page, and maxWriting all of them together.
	writeTimeout = 5 * time.Second
	maxWriting   = time.Minute
)

// withDeadlines limits the writes of h to the connection. It belongs outside
// the compression, which writes when it likes.
func withDeadlines(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(&deadlineWriter{ResponseWriter: w}, r)
	})
}

// deadlineWriter sets a deadline before each write, until it is cut.
type deadlineWriter struct {
	http.ResponseWriter

	mu    sync.Mutex
	end   time.Time // of all writing; the zero time before the first write
	ended bool
}

func (d *deadlineWriter) Unwrap() http.ResponseWriter { return d.ResponseWriter }

func (d *deadlineWriter) Write(p []byte) (int, error) {
	if !d.extend() {
		return 0, http.ErrAbortHandler
	}
	return d.ResponseWriter.Write(p)
}

// extend gives the next write its time; false where there may be none.
func (d *deadlineWriter) extend() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return false
	}
	now := time.Now()
	if d.end.IsZero() {
		d.end = now.Add(maxWriting)
	}
	// Where deadlines are not supported, as in tests, the server's limit holds.
	_ = http.NewResponseController(d.ResponseWriter).SetWriteDeadline(now.Add(min(writeTimeout, d.end.Sub(now))))
	return true
}

// cut ends the write that is under way, and allows no more.
func (d *deadlineWriter) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	_ = http.NewResponseController(d.ResponseWriter).SetWriteDeadline(time.Unix(1, 0))
}

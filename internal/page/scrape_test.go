package page

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"github.com/inference-exporter/inference_exporter/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// labPage is a page of the engine "lab", which only these tests know.
const labPage = "# TYPE lab_running gauge\nlab_running 3\n# TYPE lab_steps_total counter\nlab_steps_total 7\n"

func labEngine(pages ...string) *config.Mapping {
	return &config.Mapping{
		Sentinels: []string{"lab_running"}, Pages: pages,
		Progress: []config.MappingSource{{Series: "lab_steps_total", Combine: "sum", Scale: 1}},
		Values:   map[config.Quantity][]config.MappingSource{config.RequestsRunning: {{Series: "lab_running", Combine: "sum", Scale: 1}}},
	}
}

// lab is an endpoint of which the servers are read, with a clock of its own.
type lab struct {
	*Endpoint
	t     *testing.T
	now   time.Time
	known Known
}

// newLab returns the endpoint http://endpoint.invalid with what set changes.
func newLab(t *testing.T, set func(*config.Endpoint, *Options)) *lab {
	t.Helper()
	l := &lab{t: t, now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	mappings := NewMappings(Servers, map[string]*config.Mapping{"lab": labEngine("/metrics")})
	cfg := &config.Endpoint{Name: "test", URL: urlOf(t, "http://endpoint.invalid")}
	cfg.Servers.Timeout = model.Duration(30 * time.Second)
	o := Options{Mappings: mappings, UserAgent: "test/1", Now: func() time.Time { return l.now }}
	set(cfg, &o)
	var err error
	if l.Endpoint, err = New(cfg, o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// labOf returns an endpoint with the given pages.
func labOf(t *testing.T, pages ...string) *lab {
	return newLab(t, func(c *config.Endpoint, _ *Options) { c.Servers.URLs = urlsOf(t, pages...) })
}

func (l *lab) scrape() []Status { return l.Scrape(l.t.Context(), l.known) }

// one returns the status of the only server.
func (l *lab) one() Status {
	l.t.Helper()
	got := l.scrape()
	if len(got) != 1 {
		l.t.Fatalf("%d servers, want 1: %+v", len(got), got)
	}
	return got[0]
}

func urlOf(t testing.TB, s string) config.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return config.URL{URL: u}
}

func urlsOf(t testing.TB, pages ...string) []config.PageURL {
	t.Helper()
	var urls []config.PageURL
	for _, p := range pages {
		urls = append(urls, config.PageURL(urlOf(t, p)))
	}
	return urls
}

// serve starts a server until the test ends.
func serve(t testing.TB, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

// serveAt is serve at a given address, on a given port or any for "0".
func serveAt(t *testing.T, host, port string, h http.HandlerFunc) (*httptest.Server, string) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		t.Skipf("more addresses than one on this machine: %v", err)
	}
	s := httptest.NewUnstartedServer(h)
	s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return s, port
}

func showLab(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	io.WriteString(w, labPage)
}

// requests counts the requests of a server by path.
type requests struct {
	mu sync.Mutex
	n  map[string]int
}

func (r *requests) add(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == nil {
		r.n = map[string]int{}
	}
	r.n[path]++
}

// since returns the paths that were asked for since the last call, sorted, one
// for each request.
func (r *requests) since() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var paths []string
	for _, p := range slices.Sorted(maps.Keys(r.n)) {
		paths = append(paths, slices.Repeat([]string{p}, r.n[p])...)
	}
	r.n = nil
	return paths
}

func serverNames(statuses []Status) []string {
	var n []string
	for _, s := range statuses {
		n = append(n, s.Server)
	}
	return n
}

func TestUp(t *testing.T) {
	header := make(chan http.Header, 1)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		header <- r.Header
		showLab(w, r)
	})
	l := labOf(t, s.URL+"/metrics")
	got := l.one()
	if got.State != Up || got.Reason != ReasonNone || got.Err != nil || got.Snapshot == nil {
		t.Fatalf("got %+v", got)
	}
	if got.Server != s.Listener.Addr().String() || got.URL != s.URL+"/metrics" {
		t.Errorf("server %q at %q", got.Server, got.URL)
	}
	if got.Snapshot.Engine != "lab" || got.Snapshot.Values[config.RequestsRunning] != 3 {
		t.Errorf("snapshot %+v", got.Snapshot)
	}
	if !got.At.Equal(l.now) || !got.Snapshot.At.Equal(l.now) || !got.LastProgress.Equal(l.now) || len(got.Failures) != 0 {
		t.Errorf("at %s, snapshot at %s, progress %s, failures %v", got.At, got.Snapshot.At, got.LastProgress, got.Failures)
	}
	want := http.Header{"Accept": {"text/plain;version=0.0.4,application/json;q=0.1"}, "Accept-Encoding": {"identity"}, "Connection": {"close"}, "User-Agent": {"test/1"}}
	if diff := cmp.Diff(want, <-header); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
}

// What is known of a server outlives its failures, and those are counted.
func TestDownAndUpAgain(t *testing.T) {
	var fails atomic.Bool
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if fails.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		showLab(w, r)
	})
	l := labOf(t, s.URL+"/metrics")
	read := l.now
	first := l.one()
	fails.Store(true)
	l.now = l.now.Add(time.Minute)
	l.one()
	l.now = l.now.Add(time.Minute)
	got := l.one()
	if got.State != Down || got.Reason != ReasonStatus || got.Snapshot != nil || !got.LastProgress.Equal(read) {
		t.Errorf("got %+v, want down and the progress of %s", got, read)
	}
	if diff := cmp.Diff(map[Reason]uint64{ReasonStatus: 2}, got.Failures); diff != "" {
		t.Errorf("failures (-want +got):\n%s", diff)
	}
	fails.Store(false)
	if got := l.one(); got.State != Up || got.Failures[ReasonStatus] != 2 {
		t.Errorf("got %+v, want up and the failures as they were", got)
	}
	if len(first.Failures) != 0 {
		t.Errorf("an earlier status changed: failures %v", first.Failures)
	}
}

func TestCanceledReadingDoesNotCount(t *testing.T) {
	var hangs atomic.Bool
	asked := make(chan struct{}, 1)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if hangs.Load() {
			asked <- struct{}{}
			<-r.Context().Done()
			return
		}
		showLab(w, r)
	})
	l := labOf(t, s.URL+"/metrics")
	hangs.Store(true)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if got := l.Scrape(ctx, Known{}); got != nil {
		t.Errorf("got %+v, want nothing", got)
	}
	hangs.Store(false)
	if got := l.one(); got.State != Up || len(got.Failures) != 0 {
		t.Errorf("got %+v, want up without a failure", got)
	}
}

func TestPanicIsAFailedReading(t *testing.T) {
	s := serve(t, showLab)
	l := labOf(t, s.URL+"/metrics")
	l.one()
	for _, s := range l.servers {
		s.reader.shown = nil
	}
	if got := l.one(); got.State != Unreadable || got.Reason != ReasonFormat || got.Failures[ReasonFormat] != 1 {
		t.Errorf("got %+v, want unreadable", got)
	}
	if got := l.one(); got.State != Up {
		t.Errorf("got %+v, want up again", got)
	}
}

// Eight pages at once, and never more.
func TestParallel(t *testing.T) {
	const pages = 3 * maxParallel
	var mu sync.Mutex
	running, most := 0, 0
	full := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		running++
		if most = max(most, running); running == maxParallel && most == maxParallel {
			select {
			case <-full:
			default:
				close(full)
			}
		}
		mu.Unlock()
		<-full
		mu.Lock()
		running--
		mu.Unlock()
		showLab(w, r)
	})
	var urls []string
	for i := range pages {
		urls = append(urls, fmt.Sprintf("%s/%02d", s.URL, i))
	}
	got := labOf(t, urls...).scrape()
	if len(got) != pages || most != maxParallel {
		t.Errorf("%d pages, %d at once; want %d and %d", len(got), most, pages, maxParallel)
	}
	for i, st := range got {
		if want := fmt.Sprintf("%s/%02d", s.Listener.Addr(), i); st.Server != want || st.State != Up {
			t.Errorf("server %q is %s, want %q up", st.Server, st.State, want)
		}
	}
}

func TestServerNames(t *testing.T) {
	s := serve(t, showLab)
	at := s.Listener.Addr().String()
	f := func(name string, pages, want []string) {
		t.Helper()
		l := newLab(t, func(c *config.Endpoint, o *Options) {
			o.Mappings = NewMappings(Servers, map[string]*config.Mapping{"lab": labEngine("/metrics", ":99/other")})
			for _, p := range pages {
				c.Servers.URLs = append(c.Servers.URLs, urlsOf(t, s.URL+p)...)
			}
		})
		if diff := cmp.Diff(want, serverNames(l.scrape())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	f("usual", []string{"/metrics"}, []string{at})
	f("no path", []string{""}, []string{at})
	f("no path but a slash", []string{"/"}, []string{at})
	f("own path", []string{"/a/metrics"}, []string{at + "/a/metrics"})
	f("path of a page with a port", []string{"/other"}, []string{at})
	f("two usual ones", []string{"/other", "/metrics"}, []string{at, at + "/metrics"})
	f("one page twice", []string{"/metrics", "/metrics"}, []string{at})
	f("with a query", []string{"/metrics?model=b", "?model=a%2Fa"}, []string{at + "/metrics?model=a%2Fa", at + "/metrics?model=b"})
}

func TestHostPort(t *testing.T) {
	f := func(u, want string) {
		t.Helper()
		if got := hostPort(urlOf(t, u).URL); got != want {
			t.Errorf("hostPort(%q) = %q, want %q", u, got, want)
		}
	}
	f("http://a", "a:80")
	f("https://a/x", "a:443")
	f("https://a:80", "a:80")
	f("http://[::1]:8000/metrics", "[::1]:8000")
	f("http://[::1]", "[::1]:80")
}

// A URL without a path gets the page of the engine: the configured one, else the
// one that probing identified.
func TestDefaultPath(t *testing.T) {
	f := func(configured, known, url, want string) {
		t.Helper()
		var asked requests
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			asked.add(r.URL.Path)
			showLab(w, r)
		})
		l := newLab(t, func(c *config.Endpoint, o *Options) {
			o.Mappings = NewMappings(Servers, map[string]*config.Mapping{"lab": labEngine("/lab"), "ported": labEngine(":99/ported", "/metrics")})
			c.Servers.URLs, c.Servers.Engine = urlsOf(t, s.URL+url), configured
		})
		l.known.Engine = known
		l.one()
		if diff := cmp.Diff([]string{want}, asked.since()); diff != "" {
			t.Errorf("engine %q, found %q, path %q (-want +got):\n%s", configured, known, url, diff)
		}
	}
	f("", "", "", "/metrics")
	f("", "no such engine", "", "/metrics")
	f("", "lab", "", "/lab")
	f("", "lab", "/", "/lab")
	f("", "lab", "/own", "/own")
	f("ported", "lab", "", "/ported")
}

// addresses is a name server for one name.
type addresses struct {
	now []string
	err error
}

func (a *addresses) resolve(_ context.Context, host string) ([]netip.Addr, error) {
	if host != "servers.test" {
		return nil, fmt.Errorf("host %q", host)
	}
	var found []netip.Addr
	for _, s := range a.now {
		found = append(found, netip.MustParseAddr(s))
	}
	return found, a.err
}

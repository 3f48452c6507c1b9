package page

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
)

// site shows other pages at other times.
type site struct {
	*httptest.Server
	asked requests

	mu    sync.Mutex
	pages map[string]http.HandlerFunc
}

func newSite(t *testing.T, pages map[string]http.HandlerFunc) *site {
	s := &site{pages: pages}
	s.Server = serve(t, func(w http.ResponseWriter, r *http.Request) {
		s.asked.add(r.URL.Path)
		s.mu.Lock()
		show := s.pages[r.URL.Path]
		s.mu.Unlock()
		if show == nil {
			show = http.NotFound
		}
		show(w, r)
	})
	return s
}

func (s *site) show(pages map[string]http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages = pages
}

// findLab returns an endpoint that names no page; its own engines are "lab",
// which shows it at /metrics, and "two", which may show it at /one or /two.
func findLab(t *testing.T, base string) *lab {
	return newLab(t, func(c *config.Endpoint, o *Options) {
		o.Mappings = NewMappings(Servers, map[string]*config.Mapping{"lab": labEngine("/metrics"), "two": labEngine("/one", "/two")})
		c.URL, c.Servers.Find = urlOf(t, base), true
	})
}

type pages = map[string]http.HandlerFunc

// expect scrapes and compares what was asked for and the states of the servers.
func (l *lab) expect(s *site, after string, asked []string, states ...State) []Status {
	l.t.Helper()
	got := l.scrape()
	if diff := cmp.Diff(asked, s.asked.since()); diff != "" {
		l.t.Errorf("%s: asked for (-want +got):\n%s", after, diff)
	}
	var gotStates []State
	for _, st := range got {
		gotStates = append(gotStates, st.State)
	}
	if diff := cmp.Diff(states, gotStates); diff != "" {
		l.t.Errorf("%s: states (-want +got):\n%s", after, diff)
	}
	return got
}

func TestFound(t *testing.T) {
	s := newSite(t, pages{"/metrics": showLab})
	l := findLab(t, s.URL+"/v1")
	// The page that identifies a server whose /metrics must not be read is first.
	got := l.expect(s, "at first", []string{"/metrics", "/prometheus/metrics"}, Up)
	if at := s.Listener.Addr().String(); len(got) == 1 && (got[0].Server != at || got[0].URL != s.URL+"/metrics") {
		t.Errorf("server %q at %q, want %q", got[0].Server, got[0].URL, at)
	}
	l.expect(s, "then", []string{"/metrics"}, Up)
	l.known.Engine = "two" // the page is read well as it is
	l.expect(s, "an engine is known", []string{"/metrics"}, Up)
	l.now = l.now.Add(time.Hour)
	l.expect(s, "later", []string{"/metrics"}, Up)
}

// Once a page is there, the candidates after it are not asked for.
func TestFirstPageThatIsThere(t *testing.T) {
	s := newSite(t, pages{"/prometheus/metrics": showLab, "/metrics": showLab})
	l := findLab(t, s.URL)
	l.expect(s, "at first", []string{"/prometheus/metrics"}, Up)
	l.expect(s, "then", []string{"/prometheus/metrics"}, Up)
}

func TestNotFound(t *testing.T) {
	s := newSite(t, pages{"/metrics": answer("<html>all is well</html>", "Content-Type", "text/html")})
	l := findLab(t, s.URL)
	l.known.Engine = "two"
	l.expect(s, "at first", []string{"/one", "/two"})
	l.expect(s, "at once", nil)
	l.now = l.now.Add(10*time.Minute - time.Second)
	l.expect(s, "too soon", nil)
	l.now = l.now.Add(time.Second)
	l.expect(s, "after 10 minutes", []string{"/one", "/two"})
	l.known.Engine = "lab"
	l.expect(s, "another engine is known", []string{"/metrics"})
	if len(l.servers) != 0 {
		t.Errorf("%d servers are kept without a page", len(l.servers))
	}
	l.known.Engine = "two"
	s.show(pages{"/two": showLab})
	l.expect(s, "the first one is known again", []string{"/one", "/two"}, Up)
	l.expect(s, "then", []string{"/two"}, Up)
}

// A server whose page was found is down while it fails, for as long as it
// takes, and its page is looked for again.
func TestFoundAndLost(t *testing.T) {
	s := newSite(t, pages{"/one": showLab})
	l := findLab(t, s.URL)
	l.known.Engine = "two"
	l.expect(s, "at first", []string{"/one"}, Up)
	s.show(nil)
	l.expect(s, "lost", []string{"/one"}, Down)
	l.now = l.now.Add(10*time.Minute - time.Second)
	l.expect(s, "for 10 minutes", []string{"/one"}, Down)
	l.now = l.now.Add(time.Second)
	got := l.expect(s, "then", []string{"/one", "/two"}, Down)
	if len(got) == 1 && (got[0].Failures[ReasonStatus] != 3 || got[0].LastProgress.IsZero()) {
		t.Errorf("failures %v, progress %s", got[0].Failures, got[0].LastProgress)
	}
	l.expect(s, "not again at once", []string{"/one"}, Down)
	s.show(pages{"/two": showLab})
	l.now = l.now.Add(10 * time.Minute)
	got = l.expect(s, "moved", []string{"/one", "/two"}, Up)
	if len(got) == 1 && (got[0].URL != s.URL+"/two" || len(got[0].Failures) != 0) {
		t.Errorf("at %s, failures %v", got[0].URL, got[0].Failures)
	}
	l.expect(s, "moved", []string{"/two"}, Up)
	if len(l.servers) != 1 {
		t.Errorf("%d servers are kept, want 1", len(l.servers))
	}
}

// A page that is down and that the engine would not show is not asked for
// again: of some engines the usual page does harm.
func TestFoundForAnotherEngine(t *testing.T) {
	s := newSite(t, pages{"/metrics": showLab})
	l := findLab(t, s.URL)
	l.expect(s, "at first", []string{"/metrics", "/prometheus/metrics"}, Up)
	s.show(nil)
	l.expect(s, "lost", []string{"/metrics"}, Down)
	l.known.Engine = "two"
	l.expect(s, "another engine is known", []string{"/one", "/two"})
	l.expect(s, "then", nil)
}

func TestUsualPageOfTRTLLMIsNeverRead(t *testing.T) {
	s := newSite(t, pages{"/metrics": answer(`[{"iter":1}]`, "Content-Type", "application/json")})
	l := findLab(t, s.URL)
	l.known.Engine = "trtllm"
	l.expect(s, "at first", []string{"/prometheus/metrics"})
	l.now = l.now.Add(10 * time.Minute)
	l.expect(s, "again", []string{"/prometheus/metrics"})
}

// A page that no mapping knows is there, and one that cannot be trusted too. What
// nobody configured, and was never understood, is no server.
func TestFoundUnmapped(t *testing.T) {
	s := newSite(t, pages{"/metrics": answer("# TYPE up gauge\nup 1\n")})
	l := findLab(t, s.URL)
	l.known.Engine = "lab"
	absent := func(after string, want bool, got []Status) {
		t.Helper()
		for _, st := range got {
			if st.Absent != want {
				t.Errorf("%s: absent is %t", after, st.Absent)
			}
		}
	}
	absent("at first", true, l.expect(s, "at first", []string{"/metrics"}, Unmapped))
	l.now = l.now.Add(time.Hour)
	absent("an hour later", true, l.expect(s, "an hour later", []string{"/metrics"}, Unmapped))
	absent("then", true, l.expect(s, "then", []string{"/metrics"}, Unmapped))
	s.show(pages{"/two": showLab})
	l.known.Engine = "two"
	l.expect(s, "another engine is known", []string{"/one", "/two"}, Up)
	s.show(pages{"/two": answer("# TYPE lab_running gauge\nlab_running 3\nlab_running 3\n")})
	l.expect(s, "twice", []string{"/two"}, Unreadable)
	s.show(pages{"/two": answer("# TYPE up gauge\nup 1\n")})
	absent("renamed", false, l.expect(s, "renamed", []string{"/two"}, Unmapped))
}

// Where the engine is configured, a page that is found and not understood is a
// loss.
func TestFoundUnmappedForAConfiguredEngine(t *testing.T) {
	s := newSite(t, pages{"/metrics": answer("# TYPE up gauge\nup 1\n")})
	l := findLab(t, s.URL)
	l.cfg.Servers.Engine = "lab"
	if got := l.expect(s, "at first", []string{"/metrics"}, Unmapped); len(got) == 1 && got[0].Absent {
		t.Error("it is absent")
	}
}

// Before a server answers at all nothing is known of its pages.
func TestLooksUntilThereIsAnAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	lab := findLab(t, "http://"+at)
	if got := lab.scrape(); len(got) != 0 {
		t.Errorf("got %+v, want no server", got)
	}
	_, port, _ := net.SplitHostPort(at)
	serveAt(t, "127.0.0.1", port, showLab)
	if got := lab.one(); got.State != Up {
		t.Errorf("got %+v, want up at once", got)
	}
}

// While nothing answers, the looks become rare: after 1, 2, 4 and more intervals,
// up to 10 minutes. Readings come a little early or late.
func TestLooksLessOftenWithoutAnAnswer(t *testing.T) {
	s := newSite(t, nil)
	dead := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	all := pages{"/one": dead, "/two": dead, "/metrics": dead}
	s.show(all)
	l := findLab(t, s.URL)
	l.cfg.Servers.Interval = model.Duration(15 * time.Second)
	l.known.Engine = "two"
	looks := func(readings int) (at []int) {
		for i := range readings {
			l.scrape()
			if asked := s.asked.since(); len(asked) > 0 {
				at = append(at, i)
			}
			l.now = l.now.Add(15*time.Second + time.Duration(i%3-1)*time.Second)
		}
		return at
	}
	// 1 + 2 + 4 + 8 + 16 + 32 intervals, then each 40 of them, which are 10 minutes.
	if diff := cmp.Diff([]int{0, 1, 3, 7, 15, 31, 63, 103, 143}, looks(150)); diff != "" {
		t.Errorf("looks (-want +got):\n%s", diff)
	}
	l.known.Engine = "lab"
	if diff := cmp.Diff([]int{0, 1, 3}, looks(5)); diff != "" {
		t.Errorf("looks for another engine (-want +got):\n%s", diff)
	}
	s.show(pages{"/metrics": showLab})
	l.now = l.now.Add(10 * time.Minute)
	l.expect(s, "answers", []string{"/metrics"}, Up)
}

// A host that gives no answer is not asked for another page.
func TestSilentHostIsAskedOnce(t *testing.T) {
	dead := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	s := newSite(t, pages{"/one": dead, "/two": showLab})
	l := findLab(t, s.URL)
	l.known.Engine = "two"
	l.expect(s, "at first", []string{"/one"})
	s.show(pages{"/two": showLab})
	l.expect(s, "one answers", []string{"/one", "/two"}, Up)
	// The page that was found is asked for at all events, and stays.
	s.show(pages{"/one": dead, "/two": dead})
	l.expect(s, "both silent", []string{"/two"}, Down)
	l.now = l.now.Add(10 * time.Minute)
	l.expect(s, "looks again", []string{"/two"}, Down)
}

// All pages of a look have the time of one reading. Where one host uses up its
// part, there is a part for the other.
func TestTimeOfALook(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	first, last := newSite(t, pages{"/a": hang}), newSite(t, pages{"/b": showLab})
	_, port, _ := net.SplitHostPort(first.Listener.Addr().String())
	l := newLab(t, func(c *config.Endpoint, o *Options) {
		o.Mappings = NewMappings(Servers, map[string]*config.Mapping{"lab": labEngine(":"+port+"/a", "/b")})
		c.URL, c.Servers.Find = urlOf(t, last.URL), true
		c.Servers.Timeout, o.Now = model.Duration(time.Second), time.Now
	})
	l.known.Engine = "lab"
	if got := l.one(); got.State != Up || got.URL != last.URL+"/b" {
		t.Errorf("got %+v, want the second page up", got)
	}
}

// Without time left, no further page is asked for.
func TestLookEndsInTime(t *testing.T) {
	var l *lab
	slow := func(w http.ResponseWriter, r *http.Request) {
		l.now = l.now.Add(30 * time.Second) // all of it
		http.NotFound(w, r)
	}
	s := newSite(t, pages{"/one": slow, "/two": showLab})
	l = findLab(t, s.URL)
	l.known.Engine = "two"
	l.expect(s, "slow", []string{"/one"})
}

// A look or a reading that is cut short changes nothing.
func TestCanceledLook(t *testing.T) {
	asked := make(chan struct{}, 1)
	hang := func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}
	s := newSite(t, pages{"/one": hang})
	l := findLab(t, s.URL)
	l.known.Engine = "two"
	cancelled := func() {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			<-asked
			cancel()
		}()
		if got := l.Scrape(ctx, l.known); got != nil {
			t.Errorf("got %+v, want nothing", got)
		}
		s.asked.since()
	}
	cancelled()
	s.show(nil)
	l.expect(s, "looks again", []string{"/one", "/two"})
	s.show(pages{"/one": showLab})
	l.now = l.now.Add(lookAgain)
	l.expect(s, "is there", []string{"/one"}, Up)
	s.show(pages{"/one": hang})
	cancelled()
	s.show(nil)
	got := l.expect(s, "is down", []string{"/one"}, Down)
	if len(got) == 1 && got[0].Failures[ReasonStatus] != 1 {
		t.Errorf("failures %v, want the one of now", got[0].Failures)
	}
	l.now = l.now.Add(lookAgain - time.Second)
	s.show(pages{"/one": hang})
	cancelled()
	s.show(nil)
	l.now = l.now.Add(time.Second)
	l.expect(s, "looks after 10 minutes", []string{"/one", "/two"}, Down)
}

func TestNotLookedFor(t *testing.T) {
	f := func(name string, set func(*config.Endpoint)) {
		t.Helper()
		s := newSite(t, pages{"/metrics": showLab})
		l := newLab(t, func(c *config.Endpoint, _ *Options) {
			c.URL, c.Servers.Find = urlOf(t, s.URL), true
			set(c)
		})
		l.expect(s, name, nil)
	}
	f("find is off", func(c *config.Endpoint) { c.Servers.Find = false })
	f("gemini", func(c *config.Endpoint) { c.API = "gemini" })
	f("bedrock", func(c *config.Endpoint) { c.API = "bedrock" })
	f("cohere", func(c *config.Endpoint) { c.API = "cohere" })
	f("cohere-embed", func(c *config.Endpoint) { c.API = "cohere-embed" })
	f("a hosted service", func(c *config.Endpoint) { c.URL = urlOf(t, "https://api.openai.com/v1") })
	f("sigv4", func(c *config.Endpoint) { c.SigV4 = &config.SigV4{Region: "eu-central-1"} })
}

// A gateway shows a server under a prefix, and itself elsewhere.
func TestCandidates(t *testing.T) {
	f := func(base, engine string, want ...string) {
		t.Helper()
		l := findLab(t, base)
		var got []string
		for _, u := range l.candidates(engine) {
			got = append(got, u.String())
		}
		if diff := cmp.Diff(want, got[:min(len(got), 2)]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", base, diff)
		}
	}
	f("http://a:8000", "two", "http://a:8000/one", "http://a:8000/two")
	f("http://a:8000/v1/chat/completions", "two", "http://a:8000/one", "http://a:8000/two")
	f("https://a/v1beta?api-version=1", "two", "https://a/one", "https://a/two")
	f("http://a/v2ray/v1", "two", "http://a/v2ray/one", "http://a/v2ray/two")
	f("http://a/some/model/v1", "two", "http://a/some/model/one", "http://a/some/model/two")
	f("http://a/api/chat", "lab", "http://a/metrics")
	f("http://[::1]:8000/v1", "triton", "http://[::1]:8002/metrics", "http://[::1]:8000/metrics")
	f("http://a", "", "http://a/prometheus/metrics", "http://a/metrics")
}

// A server of an unknown engine is asked for no page twice.
func TestPagesOfUnknownEngine(t *testing.T) {
	want := []string{"/prometheus/metrics", "/metrics", "/v1/metrics"}
	if diff := cmp.Diff(want, mappings(t, nil).Pages("")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"/metrics", "/metrics/"}, mappings(t, nil).Pages("litellm")); diff != "" {
		t.Errorf("litellm (-want +got):\n%s", diff)
	}
}

// The settings for a page that was found are those of the endpoint.
func TestFoundWithTLS(t *testing.T) {
	s := httptest.NewTLSServer(http.HandlerFunc(showLab))
	t.Cleanup(s.Close)
	for _, own := range []bool{true, false} {
		l := newLab(t, func(c *config.Endpoint, _ *Options) {
			c.URL, c.Servers.Find = urlOf(t, s.URL), true
			if c.HTTP = caOf(s); !own {
				trusted := c.HTTP
				c.HTTP, c.Servers.HTTP = config.HTTPClient{HTTPClientConfig: promconfig.HTTPClientConfig{}}, &trusted
			}
		})
		if got := l.one(); got.State != Up {
			t.Errorf("own settings %t: got %+v, want up", own, got)
		}
	}
}

package page

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
)

// A router of several models is asked for the page of each, and not to load it.
func TestQueryIsKept(t *testing.T) {
	asked := make(chan string, 4)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.RequestURI()
		showLab(w, r)
	})
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	l := newLab(t, func(c *config.Endpoint, o *Options) {
		c.Servers.URLs = urlsOf(t, s.URL+"/metrics?model=acme%2Fa", s.URL+"?model=b")
		c.Servers.DNS = urlsOf(t, "http://servers.test:"+port+"/metrics?model=c")
		o.Resolve = (&addresses{now: []string{"127.0.0.1"}}).resolve
	})
	if got := l.scrape(); len(got) != 3 || got[2].State != Up {
		t.Errorf("got %+v, want three servers up", got)
	}
	close(asked)
	want := []string{
		"/metrics?model=acme%2Fa&autoload=false", "/metrics?model=b&autoload=false", "/metrics?model=c&autoload=false",
	}
	if diff := cmp.Diff(want, slices.Sorted(channel(asked))); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
}

// A model that a router has not loaded has no server, whatever else fails there.
func TestModelThatIsNotLoaded(t *testing.T) {
	answers := map[string]http.HandlerFunc{
		"loaded":   showLab,
		"unloaded": answerStatusBody(400, `{"error":{"code":400,"message":"model is not loaded","type":"invalid_request_error"}}`),
		"unknown":  answerStatusBody(400, `{"error":{"code":400,"message":"model 'unknown' not found","type":"invalid_request_error"}}`),
		"endless":  answerStatusBody(400, `{"error":{"message":"`+strings.Repeat("x", 1<<16)),
	}
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("autoload") != "false" {
			t.Errorf("asked for %s, which loads the model", r.URL)
		}
		answers[r.URL.Query().Get("model")](w, r)
	})
	l := labOf(t, s.URL+"?model=loaded", s.URL+"?model=unloaded", s.URL+"?model=unknown", s.URL+"?model=endless")
	want := map[string]State{"loaded": Up, "unloaded": Down, "unknown": Down, "endless": Down}
	for range 2 {
		for _, st := range l.scrape() {
			_, model, _ := strings.Cut(st.Server, "?model=")
			if st.State != want[model] {
				t.Errorf("%s is %s (%v), want %s", st.Server, st.State, st.Err, want[model])
			}
			if unloaded := model == "unloaded"; st.Absent != unloaded || unloaded && len(st.Failures) != 0 {
				t.Errorf("%s: absent is %t, failures %v", model, st.Absent, st.Failures)
			}
		}
	}
	// A page without a model in its URL is a page that was configured.
	if got := labOf(t, serve(t, answers["unloaded"]).URL).one(); got.Absent {
		t.Error("without a model in the URL it is absent")
	}
}

// answerStatusBody answers with a status and a JSON body.
func answerStatusBody(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// channel gives what is left in a closed channel.
func channel(c <-chan string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for s := range c {
			if !yield(s) {
				return
			}
		}
	}
}

// dnsLab returns an endpoint whose servers are those of a name, on a port.
func dnsLab(t *testing.T, a *addresses, port string) *lab {
	return newLab(t, func(c *config.Endpoint, o *Options) {
		c.Servers.DNS = urlsOf(t, "http://servers.test:"+port+"/metrics")
		o.Resolve = a.resolve
	})
}

// The set of servers follows the name.
func TestAddressesComeAndGo(t *testing.T) {
	var hosts requests
	show := func(w http.ResponseWriter, r *http.Request) {
		hosts.add(r.Host)
		showLab(w, r)
	}
	_, port := serveAt(t, "127.0.0.1", "0", show)
	second, _ := serveAt(t, "127.0.0.2", port, show)
	serveAt(t, "127.0.0.3", port, show)
	a := &addresses{now: []string{"127.0.0.2", "127.0.0.1"}}
	l := dnsLab(t, a, port)

	f := func(state State, last ...string) []Status {
		t.Helper()
		var want []string
		for _, host := range last {
			want = append(want, host+":"+port)
		}
		got := l.scrape()
		if diff := cmp.Diff(want, serverNames(got)); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		if got[1].State != state {
			t.Errorf("%s is %s (%v), want %s", got[1].Server, got[1].State, got[1].Err, state)
		}
		return got
	}
	f(Up, "127.0.0.1", "127.0.0.2")
	if diff := cmp.Diff([]string{"servers.test:" + port, "servers.test:" + port}, hosts.since()); diff != "" {
		t.Errorf("Host headers (-want +got):\n%s", diff)
	}
	a.now = append(a.now, "127.0.0.3")
	f(Up, "127.0.0.1", "127.0.0.2", "127.0.0.3")
	second.Close()
	f(Down, "127.0.0.1", "127.0.0.2", "127.0.0.3")
	if got := f(Down, "127.0.0.1", "127.0.0.2", "127.0.0.3"); got[1].Failures[ReasonConnect] != 2 || got[0].Failures[ReasonConnect] != 0 {
		t.Errorf("failures %v and %v, want 2 of the second", got[0].Failures, got[1].Failures)
	}
	a.now = []string{"127.0.0.3", "127.0.0.1"}
	f(Up, "127.0.0.1", "127.0.0.3")
	if len(l.servers) != 2 {
		t.Errorf("%d servers are kept, want 2", len(l.servers))
	}
	// It comes back as a new one.
	a.now = append(a.now, "127.0.0.2")
	if got := f(Down, "127.0.0.1", "127.0.0.2", "127.0.0.3"); got[1].Failures[ReasonConnect] != 1 {
		t.Errorf("failures %v, want only that of now", got[1].Failures)
	}
}

func TestNameThatWasNeverResolved(t *testing.T) {
	a := &addresses{err: &net.DNSError{Err: "server misbehaving", Name: "servers.test"}}
	got := dnsLab(t, a, "8000").one()
	want := Status{
		Server: "servers.test:8000", URL: "http://servers.test:8000/metrics", State: Down, Reason: ReasonDNS,
		Failures: map[Reason]uint64{ReasonDNS: 1},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Status{}, "Err", "At")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.Err == nil || got.Err.Error() != `resolve "servers.test": server misbehaving` {
		t.Errorf("error %v", got.Err)
	}
}

// While the name server fails the addresses found before count.
func TestAddressesOutliveAFailure(t *testing.T) {
	_, port := serveAt(t, "127.0.0.1", "0", showLab)
	a := &addresses{now: []string{"127.0.0.1"}}
	l := dnsLab(t, a, port)
	l.one()
	a.now, a.err = nil, &net.DNSError{Err: "server misbehaving", IsTemporary: true}
	l.one()
	got := l.one()
	if got.Server != "127.0.0.1:"+port || got.State != Up || got.Failures[ReasonDNS] != 2 {
		t.Errorf("got %+v, want up with 2 failures of the name", got)
	}
	a.now, a.err = []string{"127.0.0.1"}, nil
	if got := l.one(); got.State != Up || got.Failures[ReasonDNS] != 2 {
		t.Errorf("got %+v, want up with no other failure", got)
	}
}

// A name without an address has no servers any more: another one may get
// their addresses.
func TestNameThatIsGone(t *testing.T) {
	_, port := serveAt(t, "127.0.0.1", "0", showLab)
	for _, err := range []error{nil, &net.DNSError{Err: "no such host", IsNotFound: true}} {
		a := &addresses{now: []string{"127.0.0.1"}}
		l := dnsLab(t, a, port)
		l.one()
		a.now, a.err = nil, err
		if got := l.one(); got.Server != "servers.test:"+port || got.State != Down || got.Reason != ReasonDNS || Asleep([]Status{got}) != "" {
			t.Errorf("after %v: got %+v, want the name down", err, got)
		}
		l.cfg.Servers.ScaleToZero = true
		if got := l.one(); !got.Absent || len(got.Failures) > 1 || Asleep([]Status{got}) != "no server is there" {
			t.Errorf("after %v: got %+v, want it scaled to zero", err, got)
		}
		a.err = &net.DNSError{Err: "server misbehaving", IsTemporary: true}
		if got := l.one(); got.Absent || Asleep([]Status{got}) != "" {
			t.Errorf("after %v: got %+v, want the name down while its server fails", err, got)
		}
	}
}

func TestResolvingEndsInTime(t *testing.T) {
	l := newLab(t, func(c *config.Endpoint, o *Options) {
		c.Servers.DNS = urlsOf(t, "http://servers.test")
		c.Servers.Timeout = model.Duration(50 * time.Millisecond)
		o.Resolve = func(ctx context.Context, _ string) ([]netip.Addr, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
	})
	if got := l.one(); got.Server != "servers.test:80" || got.Reason != ReasonDNS {
		t.Errorf("got %+v", got)
	}
}

// Pages that two entries name are read once.
func TestOneServerByTwoNames(t *testing.T) {
	var asked atomic.Int32
	_, port := serveAt(t, "127.0.0.1", "0", func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		showLab(w, r)
	})
	l := newLab(t, func(c *config.Endpoint, o *Options) {
		c.Servers.URLs = urlsOf(t, "http://127.0.0.1:"+port)
		c.Servers.DNS = urlsOf(t, "http://a.test:"+port, "http://b.test:"+port)
		o.Resolve = func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		}
	})
	if l.one(); asked.Load() != 1 {
		t.Errorf("asked %d times, want once", asked.Load())
	}
}

func TestDistinct(t *testing.T) {
	f := func(name string, found, want []string) {
		t.Helper()
		var in []netip.Addr
		for _, s := range found {
			in = append(in, netip.MustParseAddr(s))
		}
		var got []string
		for _, a := range distinct(in) {
			got = append(got, a.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	f("none", nil, nil)
	f("sorted, once", []string{"10.0.0.10", "10.0.0.2", "10.0.0.10"}, []string{"10.0.0.2", "10.0.0.10"})
	f("mapped", []string{"::ffff:10.0.0.2", "10.0.0.2"}, []string{"10.0.0.2"})
	f("only IPv6", []string{"fd00::2", "fd00::1"}, []string{"fd00::1", "fd00::2"})
	f("both", []string{"fd00::2", "10.0.0.2", "fd00::3", "10.0.0.3"}, []string{"10.0.0.2", "10.0.0.3"})
	var many, first []string
	for i := range 300 {
		many = append(many, fmt.Sprintf("10.0.%d.%d", i/200, i%200))
	}
	first = append(first, many[:256]...)
	f("too many", many, first)
}

package engine

import (
	"iter"
	"net"
	"net/http"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/config"
)

// A router of several models is asked for the page of each.
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
	want := []string{"/metrics?model=acme%2Fa", "/metrics?model=b", "/metrics?model=c"}
	if diff := cmp.Diff(want, slices.Sorted(channel(asked))); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
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

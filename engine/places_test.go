package engine

import (
	"io"
	"iter"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

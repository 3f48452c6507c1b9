package page

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	promconfig "github.com/prometheus/common/config"

	"github.com/inference-exporter/inference_exporter/config"
)

const key = "sk_abcdefgh"

// keyed returns HTTP settings with a key, in two headers.
func keyed(key promconfig.Secret) config.HTTPClient {
	return config.HTTPClient{HTTPClientConfig: promconfig.HTTPClientConfig{
		Authorization: &promconfig.Authorization{Type: "Bearer", Credentials: key},
		HTTPHeaders:   &promconfig.Headers{Headers: map[string]promconfig.Header{"X-Api-Key": {Secrets: []promconfig.Secret{key}}}},
	}}
}

// showKey answers with a page and notes the keys that it was sent.
func showKey(keys *requests) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		keys.add(r.Host + " " + r.Header.Get("Authorization") + " " + r.Header.Get("X-Api-Key"))
		showLab(w, r)
	}
}

// The key of the endpoint is for its own origin alone; a name that leads to
// the same machine is another origin.
func TestKeyGoesToItsOwnOriginAlone(t *testing.T) {
	var keys requests
	own, other := serve(t, showKey(&keys)), serve(t, showKey(&keys))
	at, elsewhere := own.Listener.Addr().String(), other.Listener.Addr().String()
	byName := "localhost" + strings.TrimPrefix(at, "127.0.0.1")
	f := func(servers *config.HTTPClient, want ...string) {
		t.Helper()
		l := newLab(t, func(c *config.Endpoint, _ *Options) {
			c.URL, c.HTTP, c.Servers.HTTP = urlOf(t, own.URL+"/v1"), keyed(key), servers
			c.Servers.URLs = urlsOf(t, own.URL, other.URL, "http://"+byName)
		})
		for _, s := range l.scrape() {
			if s.State != Up {
				t.Errorf("%s is %s: %v", s.Server, s.State, s.Err)
			}
		}
		got := map[string]bool{}
		for _, k := range keys.since() {
			got[strings.TrimSpace(k)] = true
		}
		wanted := map[string]bool{}
		for _, k := range want {
			wanted[k] = true
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	f(nil, at+" Bearer "+key+" "+key, elsewhere, byName)
	none, another := config.HTTPClient{}, keyed("other-key")
	f(&none, at, elsewhere, byName)
	f(&another, at+" Bearer other-key other-key", elsewhere+" Bearer other-key other-key", byName+" Bearer other-key other-key")
}

func TestSameOrigin(t *testing.T) {
	f := func(a, b string, want bool) {
		t.Helper()
		if got := sameOrigin(urlOf(t, a).URL, urlOf(t, b).URL); got != want {
			t.Errorf("%s and %s: %t, want %t", a, b, got, want)
		}
	}
	f("http://a/metrics", "http://A:80/v1", true)
	f("https://a:443", "https://a", true)
	f("http://a", "https://a", false)
	f("http://a:443", "https://a:443", false)
	f("http://a:8000", "http://a:8001", false)
	f("http://a", "http://a.b", false)
}

// A page that is found on another port of the endpoint's host gets no key at all:
// which engine there is, and so which port, may come from the endpoint.
func TestNoKeyForAPageOnAnotherPort(t *testing.T) {
	var keys requests
	s := serve(t, showKey(&keys))
	at := s.Listener.Addr().String()
	_, port, _ := net.SplitHostPort(at)
	own, servers := keyed(key), keyed("other-key")
	f := func(name string, set func(*config.Endpoint)) {
		t.Helper()
		var c *config.Endpoint
		l := newLab(t, func(cfg *config.Endpoint, o *Options) {
			c = cfg
			o.Mappings = NewMappings(Servers, map[string]*config.Mapping{"lab": labEngine(":" + port + "/metrics")})
			c.URL, c.HTTP, c.Servers.Find = urlOf(t, "http://127.0.0.1:1/v1"), own, true
			set(c)
		})
		l.known.Engine = "lab"
		if c.Servers.Engine != "" {
			l.known.Engine = ""
		}
		if got := l.one(); got.Server != at || got.State != Up {
			t.Errorf("%s: got %+v, want %s up", name, got, at)
		}
		if diff := cmp.Diff([]string{at + "  "}, keys.since()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	f("the engine that probing found", func(*config.Endpoint) {})
	f("a label names the engine", func(c *config.Endpoint) { c.Servers.Engine = "lab" })
	f("settings for pages", func(c *config.Endpoint) { c.Servers.HTTP = &servers })
	f("an allowed port", func(c *config.Endpoint) { c.Servers.PagePorts = []string{"8000", port} })
}

// The ports of a discovered endpoint's host that are not allowed are not asked.
func TestPortsThatAreNotAllowed(t *testing.T) {
	f := func(ports []string, want ...string) {
		t.Helper()
		l := findLab(t, "http://a:8000")
		l.cfg.Servers.PagePorts = ports
		var got []string
		for _, u := range l.candidates("triton") {
			got = append(got, u.String())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v (-want +got):\n%s", ports, diff)
		}
	}
	f(nil, "http://a:8002/metrics", "http://a:8000/metrics")
	f([]string{"8000", "8002"}, "http://a:8002/metrics", "http://a:8000/metrics")
	f([]string{"8000"}, "http://a:8000/metrics")
}

// A server may repeat the request, and so its key.
func TestSecretsAreNotRepeated(t *testing.T) {
	f := func(name string, want Reason, quote func(w http.ResponseWriter, r *http.Request)) {
		t.Run(name, func(t *testing.T) {
			s := serve(t, quote)
			l := newLab(t, func(c *config.Endpoint, _ *Options) {
				http := keyed(key)
				if strings.Contains(name, "password") {
					http = config.HTTPClient{HTTPClientConfig: promconfig.HTTPClientConfig{
						BasicAuth: &promconfig.BasicAuth{Username: "u", Password: key},
					}}
				}
				c.Servers.URLs, c.Servers.HTTP = urlsOf(t, s.URL), &http
			})
			got := l.one()
			if got.Reason != want || strings.Contains(got.Err.Error(), "abcdefgh") {
				t.Errorf("%q: %q, want %q without the key", got.Reason, got.Err, want)
			}
		})
	}
	f("body", ReasonFormat, func(w http.ResponseWriter, r *http.Request) { r.Header.Write(w) })
	f("name of a series", ReasonUnmapped, func(w http.ResponseWriter, r *http.Request) {
		name := r.Header.Get("X-Api-Key")
		answer("# TYPE "+name+" gauge\n"+name+" 1\n")(w, r)
	})
	f("password as a name", ReasonUnmapped, func(w http.ResponseWriter, r *http.Request) {
		_, name, _ := r.BasicAuth()
		answer("# TYPE "+name+" gauge\n"+name+" 1\n")(w, r)
	})
	f("reason", ReasonStatus, func(w http.ResponseWriter, r *http.Request) {
		hijacked("HTTP/1.1 403 not with "+r.Header.Get("X-Api-Key")+"\r\n\r\n")(w, r)
	})
	f("first line", ReasonConnect, func(w http.ResponseWriter, r *http.Request) {
		hijacked("not with "+r.Header.Get("X-Api-Key")+"\r\n\r\n")(w, r)
	})
	f("redirect", ReasonStatus, func(w http.ResponseWriter, r *http.Request) {
		answerStatus(307, "Location", "/?key="+r.Header.Get("X-Api-Key"))(w, r)
	})
}

// Headers of the settings take the place of ours.
func TestConfiguredHeader(t *testing.T) {
	agents := make(chan []string, 1)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		agents <- r.Header.Values("User-Agent")
		showLab(w, r)
	})
	l := newLab(t, func(c *config.Endpoint, _ *Options) {
		c.Servers.URLs = urlsOf(t, s.URL)
		c.Servers.HTTP = &config.HTTPClient{HTTPClientConfig: promconfig.HTTPClientConfig{HTTPHeaders: &promconfig.Headers{
			Headers: map[string]promconfig.Header{"User-Agent": {Values: []string{"own"}}},
		}}}
	})
	l.one()
	if diff := cmp.Diff([]string{"own"}, <-agents); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUnusableSettings(t *testing.T) {
	bad := config.HTTPClient{HTTPClientConfig: promconfig.HTTPClientConfig{TLSConfig: promconfig.TLSConfig{CA: "no certificate"}}}
	for name, set := range map[string]func(*config.Servers){
		"urls": func(s *config.Servers) { s.URLs = urlsOf(t, "https://a") },
		"dns":  func(s *config.Servers) { s.DNS = urlsOf(t, "https://a") },
		"find": func(s *config.Servers) { s.Find = true },
	} {
		cfg := &config.Endpoint{Name: "test", URL: urlOf(t, "http://a")}
		cfg.Servers.HTTP = &bad
		set(&cfg.Servers)
		if _, err := New(cfg, Options{}); err == nil || !strings.HasPrefix(err.Error(), `endpoint "test": servers: set up http: `) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

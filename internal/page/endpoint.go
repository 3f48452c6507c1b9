package page

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/foreign"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Options are what all endpoints share.
type Options struct {
	// Mappings say how to read the pages. Required.
	Mappings *Mappings
	// UserAgent is sent with every request.
	UserAgent string
	// Secrets are what no text repeats, beside those of the endpoint's own settings.
	Secrets *safetext.Secrets
	// Resolve returns the addresses of a host. Default: the system's resolver.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// Known is what probing identified at an endpoint; an empty text is unknown.
type Known struct {
	Engine, Model string
}

// Endpoint reads the pages of the servers behind one endpoint. Its methods
// are for one goroutine at a time.
type Endpoint struct {
	cfg     *config.Endpoint
	options Options
	finds   bool    // looks for the page itself
	own     *client // for a page that is found at the endpoint's own origin
	bare    *client // for one at another, without credentials
	urls    []*client
	dns     []*dnsName
	found   finder
	servers map[string]*server // by the id of their place
	clients []*client          // all of them
	secrets *safetext.Secrets  // of the options and the configuration
}

// New prepares the reading of the pages of an endpoint. An error means that
// its HTTP settings cannot be used.
func New(cfg *config.Endpoint, o Options) (*Endpoint, error) {
	if o.Resolve == nil {
		o.Resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	e := &Endpoint{
		cfg: cfg, options: o, servers: map[string]*server{}, secrets: o.Secrets.With(config.Secrets(cfg)...),
	}
	for _, u := range cfg.Servers.URLs {
		c, err := e.newClient(e.settings(u.URL), "")
		if err != nil {
			return nil, err
		}
		e.urls = append(e.urls, c)
	}
	for _, u := range cfg.Servers.DNS {
		c, err := e.newClient(e.settings(u.URL), u.Hostname())
		if err != nil {
			return nil, err
		}
		e.dns = append(e.dns, &dnsName{url: u.URL, client: c})
	}
	if e.finds = cfg.Servers.Find && len(e.clients) == 0 && !isHosted(cfg); e.finds {
		var err error
		if e.own, err = e.newClient(e.ownSettings(), ""); err != nil {
			return nil, err
		}
		e.bare = e.own
		if bare := e.ownSettings().WithoutCredentials(); !reflect.DeepEqual(bare, e.ownSettings()) {
			if e.bare, err = e.newClient(bare, ""); err != nil {
				return nil, err
			}
		}
	}
	return e, nil
}

// Close closes idle connections, as to a server that gives out tokens. No
// Scrape may run or follow.
func (e *Endpoint) Close() {
	for _, s := range e.servers {
		s.reader.drop()
	}
	for _, c := range e.clients {
		foreign.CloseIdle(c.transport)
	}
}

// isHosted reports whether the endpoint is a hosted API: none has a page.
func isHosted(cfg *config.Endpoint) bool {
	p, _ := api.Lookup(cfg.API)
	_, known := api.LookupHost(cfg.URL.Hostname())
	return cfg.SigV4 != nil || cfg.CloudIdentity != nil || p.Hosted || known
}

// settings returns how to connect to a page that is configured. The endpoint's
// own key goes to no other origin.
func (e *Endpoint) settings(u *url.URL) config.HTTPClient {
	if sameOrigin(u, e.cfg.URL.URL) {
		return e.ownSettings()
	}
	if e.cfg.Servers.HTTP != nil {
		return *e.cfg.Servers.HTTP
	}
	return config.HTTPClient{}
}

// ownSettings returns how to connect to a page at the endpoint's own origin.
func (e *Endpoint) ownSettings() config.HTTPClient {
	return *cmp.Or(e.cfg.Servers.HTTP, &e.cfg.HTTP)
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(hostPort(a), hostPort(b))
}

// hostPort is the host of a URL with its port, also where that is the
// scheme's own.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
		if u.Scheme == "https" {
			port = "443"
		}
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// client sends requests with one set of HTTP settings.
type client struct {
	transport http.RoundTripper
	header    http.Header // of every request
}

// newClient returns a client whose TLS servers must be called serverName, or
// as in the URL where that is "".
func (e *Endpoint) newClient(settings config.HTTPClient, serverName string) (*client, error) {
	settings.TLSConfig.ServerName = cmp.Or(settings.TLSConfig.ServerName, serverName)
	// A kept connection would rarely be used again: many servers close one that
	// is idle for 5 s. The time is that of the context, the bytes are those of body.
	rt, err := foreign.Limits{}.RoundTripper(&settings.HTTPClientConfig, "server")
	if err != nil {
		return nil, fmt.Errorf("endpoint %q: servers: set up http: %w", e.cfg.Name, err)
	}
	c := &client{transport: foreign.GuardFiles(rt, settings.Files(), settings.UseFiles), header: http.Header{
		"Accept": {"text/plain;version=0.0.4"},
		// Compressing a page of 300 kB holds up the event loop of a Python
		// server, and with it all streams, for several milliseconds.
		"Accept-Encoding": {"identity"},
		"User-Agent":      {e.options.UserAgent},
	}}
	if h := settings.HTTPHeaders; h != nil { // added on the way; must not be sent twice
		for name := range h.Headers {
			c.header.Del(name)
		}
	}
	e.clients = append(e.clients, c)
	return c, nil
}

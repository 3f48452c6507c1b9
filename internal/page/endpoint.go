package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/foreign"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/workload"
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

// Known is what probing identified at an endpoint, a fact of it; an empty text is unknown.
type Known struct {
	workload.NoFigures `json:"-"`

	Engine string `json:"-"`
	Model  string `json:"-"`
}

// Endpoint reads the pages of the servers behind one endpoint. Its methods are for one goroutine at a time.
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

// New prepares the reading of the pages of an endpoint. An error means that its HTTP settings cannot be used.
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
	var failed error // the first one
	connect := func(settings config.HTTPClient, serverName string) *client {
		c, err := e.newClient(settings, serverName)
		failed = cmp.Or(failed, err)
		return c
	}
	e.urls = stats.Map(cfg.Servers.URLs, func(u config.PageURL) *client { return connect(e.settings(u.URL), "") })
	e.dns = stats.Map(cfg.Servers.DNS, func(u config.PageURL) *dnsName {
		return &dnsName{url: u.URL, client: connect(e.settings(u.URL), u.Hostname())}
	})
	if e.finds = cfg.Servers.Find && len(e.urls)+len(e.dns) == 0 && !cfg.IsHosted(); e.finds {
		e.own = connect(e.ownSettings(), "")
		e.bare = e.own
		if bare := e.ownSettings().WithoutCredentials(); !reflect.DeepEqual(bare, e.ownSettings()) {
			e.bare = connect(bare, "")
		}
	}
	return e, failed
}

// Close closes idle connections, as to a server that gives out tokens. No Scrape may run or follow.
func (e *Endpoint) Close() {
	for _, s := range e.servers {
		s.reader.drop()
	}
	for _, c := range e.clients {
		foreign.CloseIdle(c.transport)
	}
}

// settings returns how to connect to a page that is configured. The endpoint's own key goes to no other origin.
func (e *Endpoint) settings(u *url.URL) config.HTTPClient {
	if sameOrigin(u, e.cfg.URL.URL) {
		return e.ownSettings()
	}
	return *cmp.Or(e.cfg.Servers.HTTP, new(config.HTTPClient))
}

// ownSettings returns how to connect to a page at the endpoint's own origin.
func (e *Endpoint) ownSettings() config.HTTPClient { return *cmp.Or(e.cfg.Servers.HTTP, &e.cfg.HTTP) }

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(hostPort(a), hostPort(b))
}

// hostPort is the host of a URL with its port, also where that is the scheme's own.
func hostPort(u *url.URL) string {
	usual := map[string]string{"http": "80", "https": "443"}[u.Scheme]
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), usual))
}

// client sends requests with one set of HTTP settings.
type client struct {
	transport http.RoundTripper
	header    http.Header // of every request
}

// newClient returns a client whose TLS servers must be called serverName, or as in the URL where that is "".
func (e *Endpoint) newClient(settings config.HTTPClient, serverName string) (*client, error) {
	settings.TLSConfig.ServerName = cmp.Or(settings.TLSConfig.ServerName, serverName)
	// A kept connection would rarely be used again: many servers close one that
	// is idle for 5 s. The time is that of the context, the bytes are those of body.
	rt, err := foreign.Limits{}.RoundTripper(&settings.HTTPClientConfig, "server")
	if err != nil {
		return nil, fmt.Errorf("endpoint %q: servers: set up http: %w", e.cfg.Name, err)
	}
	c := &client{transport: foreign.GuardFiles(rt, settings.Files(), settings.UseFiles), header: http.Header{
		"Accept": {"text/plain;version=0.0.4,application/json;q=0.1"},
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

// maxParallel bounds how many pages of an endpoint are read at once.
const maxParallel = 32

// reading is the status of a server before it has its name.
type reading struct {
	server *server
	place  *place
	status Status
}

// Scrape reads the pages of all servers and returns what became of each, sorted by Server; nothing for an endpoint
// without a page. When ctx ends before, nothing is returned and nothing counted.
func (e *Endpoint) Scrape(ctx context.Context, known Known) []Status {
	var readings []reading
	if e.finds {
		readings = e.find(ctx, known)
	} else {
		readings = stats.Map(e.configured(ctx, known), func(p *place) reading { return reading{server: e.server(p.id), place: p} })
		inParallel(len(readings), func(i int) {
			r := &readings[i]
			r.status = e.read(ctx, r.server, r.place, e.want(known))
		})
	}
	if ctx.Err() != nil {
		return nil
	}
	e.forgetOthers(readings)
	return e.named(readings, known)
}

// want says what the pages are read for.
func (e *Endpoint) want(known Known) Want {
	return Want{Engine: e.cfg.Servers.Engine, Found: known.Engine, Model: cmp.Or(e.cfg.Model, known.Model)}
}

// server returns what is kept of a server.
func (e *Endpoint) server(id string) *server {
	s := e.servers[id]
	if s == nil {
		s = &server{failures: map[Reason]uint64{}, reader: e.options.Mappings.NewReader()}
		e.servers[id] = s
	}
	return s
}

// forgetOthers drops the servers that are gone.
func (e *Endpoint) forgetOthers(readings []reading) {
	maps.DeleteFunc(e.servers, func(_ string, s *server) bool {
		gone := !slices.ContainsFunc(readings, func(r reading) bool { return r.server == s })
		if gone {
			s.reader.drop()
		}
		return gone
	})
}

// named gives each status the shortest name that no other one has: the first of two that differ only in path
// or scheme keeps the short one. A page with a query is one of several: its name always has the query.
func (e *Endpoint) named(readings []reading, known Known) []Status {
	taken := make(map[string]bool, len(readings))
	statuses := make([]Status, len(readings))
	for i, r := range readings {
		page := r.place.page
		short := hostPort(page)
		long := short + strings.TrimSuffix(page.RequestURI(), noAutoload)
		names := []string{short, long, page.Scheme + "://" + long}
		usual := e.options.Mappings.Pages(cmp.Or(r.server.engine, e.cfg.Servers.Engine, known.Engine))
		isUsual := slices.ContainsFunc(usual, func(usual string) bool {
			_, path := splitPage(usual)
			return path == page.EscapedPath()
		})
		if !isUsual || page.RawQuery != "" {
			names = names[1:]
		}
		for _, n := range names {
			if r.status.Server = n; !taken[n] {
				break
			}
		}
		taken[r.status.Server] = true
		statuses[i] = r.status
	}
	slices.SortFunc(statuses, func(a, b Status) int { return strings.Compare(a.Server, b.Server) })
	return statuses
}

// inParallel calls f with 0 to n-1, a bounded number at a time.
func inParallel(n int, f func(i int)) {
	var g errgroup.Group
	g.SetLimit(maxParallel)
	for i := range n {
		g.Go(func() error {
			f(i)
			return nil
		})
	}
	g.Wait()
}

// server is what is kept of one server from one reading to the next.
type server struct {
	reader   *Reader
	page     string // the URL that the reader reads
	engine   string // of the latest snapshot
	progress time.Time
	failures map[Reason]uint64
}

// read reads the page of a server once. When ctx ends before, the status means nothing, and nothing is kept of it.
func (e *Endpoint) read(ctx context.Context, s *server, p *place, w Want) Status {
	if page := p.page.String(); s.page != page {
		s.reader.drop()
		s.page = page
	}
	start := e.options.Now()
	a := &attempt{sent: safetext.NewSentHeaders(e.secrets, e.cfg.IsPublicHeader)}
	snapshot, failed := e.snapshot(ctx, a, s, p, w)
	if ctx.Err() != nil {
		return Status{}
	}
	st := Status{URL: s.page, At: start, Duration: e.options.Now().Sub(start), State: Up, Snapshot: snapshot}
	if failed != nil {
		st.State, st.Reason, st.Err = stateOf(failed.Reason), failed.Reason, presentable(failed.Err, a.sent.Secrets())
		_, own := errors.AsType[*foreign.FileError](failed)
		switch {
		case errors.Is(failed, errUnloaded):
			st.Sleeps = "the router has not loaded the model"
		case p.none && e.cfg.Servers.ScaleToZero:
			st.Sleeps = "no server is there"
		}
		if st.Absent = own || st.Sleeps != ""; !st.Absent {
			s.failures[failed.Reason]++
		}
	} else {
		s.engine, s.progress = snapshot.Engine, snapshot.LastProgress
	}
	if p.stale {
		s.failures[ReasonDNS]++
	}
	st.LastProgress, st.Failures = s.progress, maps.Clone(s.failures)
	return st
}

// snapshot gets the page and reads it, within the time that it may take. A panic is a page that cannot be read.
func (e *Endpoint) snapshot(ctx context.Context, a *attempt, s *server, p *place, w Want) (_ *Snapshot, failed *PageError) {
	if p.failed != nil {
		return nil, p.failed
	}
	defer func() {
		if r := recover(); r != nil {
			s.reader.drop()
			s.reader = e.options.Mappings.NewReader() // the old one may be half changed
			failed = pageErrorf(ReasonFormat, "panic while the page was read: %v", r)
		}
	}()
	timeout := cmp.Or(p.within, time.Duration(e.cfg.Servers.Timeout))
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no whole page within %s", timeout))
	defer cancel()
	buf := e.options.Mappings.memory.buffers.Get().(*[]byte)
	defer e.keepBuffer(buf)
	b := &body{memory: e.options.Mappings.memory}
	defer b.release()
	page, contentType, err := a.fetch(ctx, p, b, (*buf)[:0])
	*buf = page
	if err != nil {
		return nil, failureOf(ctx, a, err)
	}
	w.Host = hostOf(p.page)
	snapshot, err := s.reader.Read(page, contentType, e.options.Now(), w)
	if err != nil {
		failed = failureOf(ctx, a, err)
		if a.isQuotedIn(page) { // and so perhaps in the error
			failed.Err = errors.New("the page repeats a secret of the request; what is wrong with it is not shown")
		}
		return nil, failed
	}
	snapshot.clean(a.sent.Secrets())
	return snapshot, nil
}

// keepBuffer keeps a buffer for another page unless it is of a large page's length.
func (e *Endpoint) keepBuffer(buf *[]byte) {
	switch {
	case cap(*buf) <= smallPage:
		e.options.Mappings.memory.buffers.Put(buf)
	case cap(*buf) == maxPage+1:
		e.options.Mappings.memory.longest.Put(buf)
	}
}

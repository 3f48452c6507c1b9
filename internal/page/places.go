package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// place is a page to read.
type place struct {
	id     string   // of the server, the same as long as it exists
	page   *url.URL // what to connect to
	host   string   // the Host header; "" is that of the page
	client *client
	failed *PageError    // known before the page is asked for
	stale  bool          // the address may be an old one
	none   bool          // the name has no address: no server is there
	within time.Duration // for the whole page; 0 is servers.timeout
}

// configured returns the pages of `urls` and `dns`, each once.
func (e *Endpoint) configured(ctx context.Context, known Known) []*place {
	path := usualPage // of the URLs that have none
	name := cmp.Or(e.cfg.Servers.Engine, known.Engine)
	if m := e.options.Mappings; m.Mapping(name) != nil {
		_, path = splitPage(m.Pages(name)[0])
	}
	var all []*place
	for i, u := range e.cfg.Servers.URLs {
		all = append(all, &place{id: fmt.Sprintf("urls[%d]", i), page: pageOf(u.URL, path), client: e.urls[i]})
	}
	inParallel(len(e.dns), func(i int) { e.resolve(ctx, e.dns[i]) })
	for i, n := range e.dns {
		all = append(all, n.places(fmt.Sprintf("dns[%d]", i), path)...)
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(p *place) bool {
		page := p.page.String()
		again := seen[page]
		seen[page] = true
		return again
	})
}

// places returns the servers behind the name: itself, when it has no address.
func (n *dnsName) places(id, path string) []*place {
	page := pageOf(n.url, path)
	if len(n.addresses) == 0 {
		return []*place{{id: id, page: page, client: n.client, failed: n.failed, none: n.none}}
	}
	_, port, _ := net.SplitHostPort(hostPort(n.url)) // always of that form
	places := make([]*place, len(n.addresses))
	for i, a := range n.addresses {
		at := *page
		at.Host = net.JoinHostPort(a.String(), port)
		places[i] = &place{id: id + " " + a.String(), page: &at, host: n.url.Host, client: n.client, stale: n.failed != nil}
	}
	return places
}

// splitPage splits a page of a mapping into port, "" for the server's own, and path.
func splitPage(page string) (port, path string) {
	rest, ok := strings.CutPrefix(page, ":")
	if !ok {
		return "", page
	}
	port, path, _ = strings.Cut(rest, "/")
	return port, "/" + path
}

// noAutoload goes with the name of a model: else the router of llama.cpp would load the model for the
// reading, and unload another one to make room.
const noAutoload = "&autoload=false"

// pageOf returns the page at a URL, with the given path if it has none.
func pageOf(u *url.URL, path string) *url.URL {
	v := *u
	if v.Path == "" || v.Path == "/" {
		v.Path, v.RawPath = path, ""
	}
	if v.RawQuery != "" {
		v.RawQuery += noAutoload
	}
	return &v
}

// maxAddresses bounds the servers behind one name.
const maxAddresses = 256

// dnsName is a configured name of the servers at all its addresses.
type dnsName struct {
	url       *url.URL
	client    *client
	addresses []netip.Addr // the latest that are known
	failed    *PageError   // why they are not those of now
	none      bool         // the name has no address now
}

// resolve looks the name up. A name that does not exist has no address any more; after any other failure
// those found before still count.
func (e *Endpoint) resolve(ctx context.Context, n *dnsName) {
	timeout := time.Duration(e.cfg.Servers.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %s", timeout))
	defer cancel()
	found, err := e.options.Resolve(ctx, n.url.Hostname())
	notFound := false
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		notFound, err = e.IsNotFound, errors.New(e.Err) // its own text names the host again
	}
	n.failed, n.none = nil, notFound || err == nil && len(found) == 0
	switch {
	case err != nil:
		n.failed = pageErrorf(ReasonDNS, "resolve %q: %w", n.url.Hostname(), err)
	case len(found) == 0:
		n.failed = pageErrorf(ReasonDNS, "resolve %q: no address", n.url.Hostname())
	}
	if err == nil || notFound {
		n.addresses = distinct(found)
	}
}

// distinct returns the addresses in a fixed order, each once. Where there are some of both kinds, those of
// IPv6 are other ways to the same servers and do not count.
func distinct(found []netip.Addr) []netip.Addr {
	some := stats.Map(found, netip.Addr.Unmap)
	if slices.ContainsFunc(some, netip.Addr.Is4) {
		some = slices.DeleteFunc(some, netip.Addr.Is6)
	}
	slices.SortFunc(some, netip.Addr.Compare)
	some = slices.Compact(some)
	return some[:min(len(some), maxAddresses)]
}

// lookAgain is the time from one look for the page of an endpoint to the next where something answered. Where
// nothing did it is the longest: there it begins with the interval of readings and doubles with each look.
const lookAgain = 10 * time.Minute

// finder is what is known of the page of an endpoint that names none.
type finder struct {
	page   *url.URL      // where it was found; nil before
	latest Reason        // of its latest reading
	engine string        // for which it was looked for
	lookAt time.Time     // when to look for it again, unless it is there
	wait   time.Duration // until then, where nothing answered; 0 is that something did
	locked *Status       // of the first candidate that wants a key; nil is none
}

// Locked returns the status of a page that was looked for, and that the server refused for want of a key;
// nil where there is none.
func (e *Endpoint) Locked() *Status { return e.found.locked }

// find reads the page of an endpoint that names none, after looking for it where that is due. Without a page
// there is no reading.
func (e *Endpoint) find(ctx context.Context, known Known) []reading {
	f := &e.found
	name := cmp.Or(e.cfg.Servers.Engine, known.Engine)
	now := e.options.Now()
	there := f.page != nil && isThere(f.latest)
	up := there && f.latest == ReasonNone
	switch {
	case !there && !now.Before(f.lookAt), !up && name != f.engine:
		return e.look(ctx, known, name)
	case f.page == nil:
		return nil
	}
	r := e.readFound(ctx, f.page, known, 0)
	if ctx.Err() != nil {
		return nil
	}
	f.latest = r.status.Reason
	if there && !isThere(f.latest) {
		f.lookAt = now.Add(lookAgain)
	}
	return []reading{r}
}

// look asks for the candidates one after the other, since the later ones of an engine may do harm where an
// earlier one is there, and reads the first that is a page. All of them together have the time of one
// reading, each host the same part of it. One that was found before stays when there is no other.
func (e *Endpoint) look(ctx context.Context, known Known, name string) []reading {
	start := e.options.Now()
	found := finder{engine: name, lookAt: start.Add(lookAgain)}
	before := e.found.page
	answered := before != nil
	silent := map[string]bool{} // hosts that do not answer
	var kept []reading
	for pages := e.candidates(name); len(pages) > 0; pages = pages[1:] {
		page := pages[0]
		left := time.Duration(e.cfg.Servers.Timeout) - e.options.Now().Sub(start)
		if silent[page.Host] || left <= 0 {
			continue
		}
		r := e.readFound(ctx, page, known, left/time.Duration(countHosts(pages, silent)))
		if ctx.Err() != nil {
			return nil
		}
		there := isThere(r.status.Reason)
		if there || before != nil && *page == *before {
			found.page, found.latest, kept = page, r.status.Reason, []reading{r}
		}
		if there {
			break
		}
		if found.locked == nil && errors.Is(r.status.Err, errLocked) {
			found.locked = &r.status
		}
		silent[page.Host] = isSilent(r.status.Reason)
		answered = answered || !silent[page.Host]
	}
	if !answered && found.page == nil { // that all is down says nothing about the page
		interval := time.Duration(e.cfg.Servers.Interval)
		found.wait = interval
		if e.found.engine == name {
			found.wait = max(interval, min(2*e.found.wait, lookAgain))
		}
		found.lookAt = start.Add(found.wait - interval/2) // readings are not exactly on time
	}
	e.found = found
	return kept
}

// countHosts counts the hosts of pages without those that do not answer.
func countHosts(pages []*url.URL, silent map[string]bool) int {
	hosts := map[string]bool{}
	for _, page := range pages {
		if !silent[page.Host] {
			hosts[page.Host] = true
		}
	}
	return len(hosts)
}

// isSilent reports whether a failure is one of the server and not of a page.
func isSilent(r Reason) bool {
	return slices.Contains([]Reason{ReasonDNS, ReasonConnect, ReasonTLS, ReasonTimeout}, r)
}

// isThere reports whether a reading shows a page of metrics, even if not one that can be trusted.
func isThere(r Reason) bool {
	return slices.Contains([]Reason{ReasonNone, ReasonUnmapped, ReasonDuplicate, ReasonType, ReasonBuckets}, r)
}

// readFound reads a candidate; within is as in place. On another port than the endpoint's own there may be
// anything: it is asked without credentials.
func (e *Endpoint) readFound(ctx context.Context, page *url.URL, known Known, within time.Duration) reading {
	p := &place{id: page.String(), page: page, client: e.own, within: within}
	if !sameOrigin(page, e.cfg.URL.URL) {
		p.client = e.bare
	}
	r := reading{server: e.server(p.id), place: p, status: e.read(ctx, e.server(p.id), p, e.want(known))}
	if r.status.State == Unmapped && r.server.engine == "" && e.cfg.Servers.Engine == "" {
		r.status.Absent = true // of a gateway perhaps, which is not configured as a server
	}
	return r
}

// candidates returns where the page of the endpoint may be, for an engine. One that was found before is the
// first: it is read either way.
func (e *Endpoint) candidates(name string) []*url.URL {
	base := e.cfg.URL.URL
	var pages []*url.URL
	for _, page := range e.options.Mappings.Pages(name) {
		port, path := splitPage(page)
		u := &url.URL{Scheme: base.Scheme, Host: base.Host, Path: prefixOf(base) + path}
		if port != "" {
			u.Host = net.JoinHostPort(base.Hostname(), port)
		}
		if ports := e.cfg.Servers.PagePorts; ports != nil && !sameOrigin(u, base) && !slices.Contains(ports, port) {
			continue
		}
		if f := e.found.page; f != nil && *u == *f {
			pages = slices.Insert(pages, 0, u)
		} else {
			pages = append(pages, u)
		}
	}
	return pages
}

// prefixOf returns what is before the version segment of a path, "/a" of "/a/v1": there a gateway shows the
// server, and its own page elsewhere.
func prefixOf(base *url.URL) string {
	segments := strings.Split(base.Path, "/")
	return strings.Join(segments[:max(0, slices.IndexFunc(segments, api.IsVersion))], "/")
}

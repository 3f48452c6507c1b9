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
)

// place is a page to read.
type place struct {
	id     string   // of the server, the same as long as it exists
	page   *url.URL // what to connect to
	host   string   // the Host header; "" is that of the page
	client *client
	failed *PageError    // known before the page is asked for
	stale  bool          // the address may be an old one
	within time.Duration // for the whole page; 0 is servers.timeout
}

// configured returns the pages of `urls` and `dns`, each once.
func (e *Endpoint) configured(ctx context.Context, known Known) []*place {
	path := e.defaultPath(known)
	var all []*place
	for i, u := range e.cfg.Servers.URLs {
		all = append(all, &place{id: fmt.Sprintf("urls[%d]", i), page: pageOf(u.URL, path), client: e.urls[i]})
	}
	inParallel(len(e.dns), func(i int) { e.resolve(ctx, e.dns[i]) })
	for i, n := range e.dns {
		all = append(all, n.places(fmt.Sprintf("dns[%d]", i), path)...)
	}
	seen := map[string]bool{}
	places := all[:0]
	for _, p := range all {
		if page := p.page.String(); !seen[page] {
			seen[page] = true
			places = append(places, p)
		}
	}
	return places
}

// places returns the servers behind the name: itself, when it has
// no address.
func (n *dnsName) places(id, path string) []*place {
	page := pageOf(n.url, path)
	if len(n.addresses) == 0 {
		return []*place{{id: id, page: page, client: n.client, failed: n.failed}}
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

// defaultPath is for the URLs that have none.
func (e *Endpoint) defaultPath(known Known) string {
	name := cmp.Or(e.cfg.Servers.Engine, known.Engine)
	if m := e.options.Mappings; m.Mapping(name) != nil {
		_, path := splitPage(m.Pages(name)[0])
		return path
	}
	return usualPage
}

// splitPage splits a page of a mapping into port, "" for the server's own, and
// path.
func splitPage(page string) (port, path string) {
	rest, ok := strings.CutPrefix(page, ":")
	if !ok {
		return "", page
	}
	port, path, _ = strings.Cut(rest, "/")
	return port, "/" + path
}

// noAutoload goes with the name of a model: else the router of llama.cpp would load
// the model for the reading, and unload another one to make room.
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
}

// resolve looks the name up. A name that does not exist has no address any
// more; after any other failure those found before still count.
func (e *Endpoint) resolve(ctx context.Context, n *dnsName) {
	timeout := time.Duration(e.cfg.Servers.Timeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %s", timeout))
	defer cancel()
	found, err := e.options.Resolve(ctx, n.url.Hostname())
	notFound := false
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		notFound, err = e.IsNotFound, errors.New(e.Err) // its own text names the host again
	}
	n.failed = nil
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

// distinct returns the addresses in a fixed order, each once. Where there are
// some of both kinds, those of IPv6 are other ways to the same servers and do
// not count.
func distinct(found []netip.Addr) []netip.Addr {
	var v4, v6 []netip.Addr
	for _, a := range found {
		if a = a.Unmap(); a.Is4() {
			v4 = append(v4, a)
		} else {
			v6 = append(v6, a)
		}
	}
	some := v4
	if len(v4) == 0 {
		some = v6
	}
	slices.SortFunc(some, netip.Addr.Compare)
	some = slices.Compact(some)
	return some[:min(len(some), maxAddresses)]
}

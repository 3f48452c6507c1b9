package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"time"
)

// maxAddresses bounds how many servers one name stands for.
const maxAddresses = 256

// dnsName is a configured name that stands for the servers at all its addresses.
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

package engine

import (
	"cmp"
	"context"
	"net"
	"net/url"
	"strings"
	"time"
)

// lookAgain is the time from one look for the page of an endpoint to the next.
const lookAgain = 10 * time.Minute

// finder is what is known of the page of an endpoint that names none.
type finder struct {
	client *client
	page   *url.URL  // where it was found; nil before
	latest Reason    // of its latest reading
	engine string    // for which it was looked for
	lookAt time.Time // when to look for it again, unless it is there
}

// find reads the page of an endpoint that names none, after looking for it
// where that is due. Without a page there is no reading.
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
	r := e.readFound(ctx, f.page, known)
	if ctx.Err() != nil {
		return nil
	}
	f.latest = r.status.Reason
	if there && !isThere(f.latest) {
		f.lookAt = now.Add(lookAgain)
	}
	return []reading{r}
}

// look asks for the candidates one after the other, since the later ones of an
// engine may do harm where an earlier one is there, and reads the first that is
// a page. One that was found before stays when there is no other.
func (e *Endpoint) look(ctx context.Context, known Known, name string) []reading {
	found := finder{client: e.found.client, engine: name, lookAt: e.options.Now().Add(lookAgain)}
	before := e.found.page
	answered := before != nil
	var kept []reading
	for _, page := range e.candidates(name) {
		r := e.readFound(ctx, page, known)
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
		answered = answered || r.status.Reason == ReasonStatus || r.status.State == Unreadable
	}
	if !answered && found.page == nil { // it tells nothing about the page that all is down
		found.lookAt = time.Time{}
	}
	e.found = found
	return kept
}

// isThere tells whether a reading shows a page of metrics, even if not one
// that can be trusted.
func isThere(r Reason) bool {
	switch r {
	case ReasonNone, ReasonUnmapped, ReasonDuplicate, ReasonType:
		return true
	}
	return false
}

func (e *Endpoint) readFound(ctx context.Context, page *url.URL, known Known) reading {
	p := &place{id: page.String(), page: page, client: e.found.client}
	return reading{server: e.server(p.id), place: p, status: e.read(ctx, e.server(p.id), p, e.want(known))}
}

// candidates returns where the page of the endpoint may be, for an engine.
func (e *Endpoint) candidates(name string) []*url.URL {
	base := e.cfg.URL.URL
	var pages []*url.URL
	for _, page := range e.options.Mappings.Pages(name) {
		port, path := splitPage(page)
		u := &url.URL{Scheme: base.Scheme, Host: base.Host, Path: prefixOf(base) + path}
		if port != "" {
			u.Host = net.JoinHostPort(base.Hostname(), port)
		}
		pages = append(pages, u)
	}
	return pages
}

// prefixOf returns what stands before the version segment of a path, "/a" of
// "/a/v1": there a gateway shows the server, and its own page elsewhere.
func prefixOf(base *url.URL) string {
	segments := strings.Split(base.Path, "/")
	for i, s := range segments {
		if len(s) > 1 && s[0] == 'v' && '0' <= s[1] && s[1] <= '9' {
			return strings.Join(segments[:i], "/")
		}
	}
	return ""
}

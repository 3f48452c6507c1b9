package engine

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"

	"github.com/inference-exporter/inference_exporter/internal/headlimit"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// attempt is one request. The transport calls its hooks from its own
// goroutines, also after the request has failed.
type attempt struct {
	head headlimit.Limit // of the reply

	mu        sync.Mutex
	tlsFailed bool
	secrets   *safetext.Secrets               // of the configuration, and sent in headers
	public    func(header, value string) bool // no secret, though the settings add it
}

// context returns ctx with the hooks of the attempt.
func (a *attempt) context(ctx context.Context) context.Context {
	ctx = context.WithValue(ctx, attemptKey{}, a)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { a.head.Begin() },
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.tlsFailed = a.tlsFailed || err != nil
		},
		WroteHeaderField: a.sent,
	})
}

// sent remembers the parts of a header that may be secret: those of every
// header that the settings add.
func (a *attempt) sent(name string, values []string) {
	switch strings.ToLower(name) {
	case "host", "user-agent", "accept", "accept-encoding", "connection":
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, v := range values {
		if !a.public(name, v) {
			a.secrets = a.secrets.With(safetext.InHeader(v)...)
		}
	}
}

// known returns the secrets of the configuration and those sent so far.
func (a *attempt) known() *safetext.Secrets {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.secrets
}

// isQuotedIn reports whether a page repeats a secret, so that what is said of
// the page may hold a piece of it too short to be found there.
func (a *attempt) isQuotedIn(page []byte) bool {
	return slices.ContainsFunc(a.known().Values(), func(s string) bool { return bytes.Contains(page, []byte(s)) })
}

func (a *attempt) isTLSFailure() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tlsFailed
}

// fetch gets a page into buf and returns it with its content type; b is what it
// is read with. It follows no redirect. The error is for failureOf.
func (a *attempt) fetch(ctx context.Context, p *place, b *body, buf []byte) (page []byte, contentType string, err error) {
	req, err := http.NewRequestWithContext(a.context(ctx), http.MethodGet, p.page.String(), http.NoBody)
	if err != nil {
		return buf, "", fmt.Errorf("make the request: %w", err)
	}
	req.Header, req.Host = p.client.header.Clone(), p.host
	resp, err := p.client.transport.RoundTrip(req)
	a.head.End()
	if err != nil {
		return buf, "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return buf, "", statusFailure(resp)
	}
	if b.reader, b.size, err = decoded(resp); err == nil {
		buf, err = b.read(ctx, buf)
	}
	return buf, resp.Header.Get("Content-Type"), err
}

// decoded returns the body of a reply without its compression, and its length;
// < 0 is unknown.
func decoded(resp *http.Response) (r io.Reader, size int64, err error) {
	switch enc := resp.Header.Get("Content-Encoding"); strings.ToLower(enc) {
	case "", "identity":
		return resp.Body, resp.ContentLength, nil
	case "gzip":
		r, err = gzip.NewReader(resp.Body)
		return r, -1, err
	default:
		return nil, -1, pageErrorf(ReasonFormat, "content encoding %.32q, which was not asked for", enc)
	}
}

package page

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/oauth2"
	"golang.org/x/sync/semaphore"

	"github.com/inference-exporter/inference_exporter/internal/foreign"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// attempt is one request. The transport calls its hooks from its own goroutines, also after it has failed.
type attempt struct {
	sent *safetext.SentHeaders

	mu        sync.Mutex
	tlsFailed bool
	conn      net.Conn // the one it got, as the transport has it
}

// context returns ctx with the hooks of the attempt.
func (a *attempt) context(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.conn = i.Conn
		},
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.tlsFailed = a.tlsFailed || err != nil
		},
		WroteHeaderField: a.sent.Add,
	})
}

// isQuotedIn reports whether a page repeats a secret, so that what is said of the page may hold a piece of it
// too short to be found there.
func (a *attempt) isQuotedIn(page []byte) bool {
	return slices.ContainsFunc(a.sent.Secrets().Values(), func(s string) bool { return bytes.Contains(page, []byte(s)) })
}

// fetch gets a page into buf and returns it with its content type; b is what it is read with. It follows no
// redirect. The error is for failureOf.
func (a *attempt) fetch(ctx context.Context, p *place, b *body, buf []byte) (page []byte, contentType string, err error) {
	req, err := http.NewRequestWithContext(a.context(ctx), http.MethodGet, p.page.String(), http.NoBody)
	if err != nil {
		return buf, "", fmt.Errorf("make the request: %w", err)
	}
	req.Header, req.Host = p.client.header.Clone(), p.host
	resp, err := p.client.transport.RoundTrip(req)
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

// decoded returns the body of a reply without its compression, and its length; < 0 is unknown.
func decoded(resp *http.Response) (r io.Reader, size int64, err error) {
	switch enc := resp.Header.Get("Content-Encoding"); strings.ToLower(enc) {
	case "", "identity":
		return resp.Body, resp.ContentLength, nil
	case "gzip":
		r, err = foreign.Gunzip(resp.Body, maxPage)
		return r, -1, err
	default:
		return nil, -1, pageErrorf(ReasonFormat, "content encoding %.32q, which was not asked for", enc)
	}
}

// Bounds of the memory for pages.
const (
	// maxPage is the longest page that is read, in bytes, after decompression.
	maxPage = 8 << 20
	// smallPage is the largest buffer for a page that needs no leave, and that is kept for other pages.
	smallPage = 1 << 20
	// maxLargePages is how many bytes the larger buffers of all endpoints have together: room for two of the
	// longest pages.
	maxLargePages = 2 * (maxPage + 1)
	// firstRead is the first buffer for a page whose length is not known.
	firstRead = 32 << 10
)

// memory is for the large pages of all endpoints, and for what is kept of them.
type memory struct {
	free, kept *semaphore.Weighted
	longest    *sync.Pool // buffers for the longest page: each is much garbage
	buffers    *sync.Pool // of *[]byte, for other pages
}

func newMemory() memory {
	return memory{
		free: semaphore.NewWeighted(maxLargePages), kept: semaphore.NewWeighted(maxLargeStates),
		longest: new(sync.Pool), buffers: &sync.Pool{New: func() any { return new([]byte) }},
	}
}

// body is the body of a reply on its way into a buffer.
type body struct {
	reader io.Reader
	size   int64 // in bytes, as the server says; < 0 is unknown
	memory memory
	taken  int64 // of the memory
}

// read appends the whole body to buf. What it takes of the memory is taken until release. The error is for
// failureOf.
func (b *body) read(ctx context.Context, buf []byte) ([]byte, error) {
	for {
		if len(buf) > maxPage || b.size > maxPage {
			return buf, pageErrorf(ReasonTooLarge, "a page of more than %d MiB", maxPage>>20)
		}
		if len(buf) == cap(buf) {
			var err error
			if buf, err = b.grow(ctx, buf); err != nil {
				return buf, err
			}
		}
		n, err := b.reader.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err == io.EOF && len(buf) <= maxPage {
			return buf, nil
		}
		if err != nil && err != io.EOF {
			return buf, err
		}
	}
}

// grow moves a buffer that is full to a larger one: at once to one for the whole page where its length is
// known or where it is large, so that a page never waits for memory that is taken by pages that wait too.
func (b *body) grow(ctx context.Context, buf []byte) ([]byte, error) {
	n := max(2*len(buf), firstRead)
	switch {
	case b.size >= int64(len(buf)):
		n = int(b.size) + 1 // the last one shows that the page has ended
	case len(buf) >= smallPage:
		n = maxPage + 1
	case n > smallPage:
		n = smallPage
	}
	if n > smallPage {
		if err := b.memory.free.Acquire(ctx, int64(n)); err != nil {
			return buf, pageErrorf(ReasonTooLarge, "a page of more than %d MiB, and other pages hold the memory for such pages", smallPage>>20)
		}
		b.taken += int64(n)
	}
	if n == maxPage+1 {
		if spare, ok := b.memory.longest.Get().(*[]byte); ok {
			return append((*spare)[:0], buf...), nil
		}
	}
	return append(make([]byte, 0, n), buf...), nil
}

// release gives back what was taken of the memory.
func (b *body) release() {
	b.memory.free.Release(b.taken)
	b.taken = 0
}

// stateOf returns the state of a server after a reading.
func stateOf(r Reason) State {
	switch r {
	case ReasonNone:
		return Up
	case ReasonUnmapped:
		return Unmapped
	case ReasonTooLarge, ReasonFormat, ReasonDuplicate, ReasonType, ReasonBuckets:
		return Unreadable
	}
	return Down
}

// failureOf classifies an error of fetch. The text of a reply does not get into the error, as it may repeat
// the request.
func failureOf(ctx context.Context, a *attempt, err error) *PageError {
	if p, ok := errors.AsType[*PageError](err); ok {
		return p
	}
	if errors.Is(err, foreign.ErrTooLarge) {
		return pageErrorf(ReasonTooLarge, "%w", err)
	}
	if e, ok := errors.AsType[*foreign.FileError](err); ok { // also where the time was up meanwhile
		return pageErrorf(ReasonConnect, "%w", e)
	}
	if ctx.Err() != nil {
		return pageErrorf(ReasonTimeout, "%w", context.Cause(ctx))
	}
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return pageErrorf(ReasonStatus, "no OAuth2 token: the token server answered with status %d", e.Response.StatusCode)
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return pageErrorf(ReasonDNS, "%w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	err = foreign.Cause(a.conn, err)
	// An alert after the handshake is how TLS 1.3 refuses a client's certificate.
	ofNet, isOfNet := errors.AsType[*net.OpError](err)
	if isOfNet && ofNet.Op == "remote error" || a.tlsFailed {
		return pageErrorf(ReasonTLS, "set up TLS: %w", err)
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return pageErrorf(ReasonTimeout, "%w", err)
	}
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	_, isOfSocket := errors.AsType[syscall.Errno](err)
	switch {
	case corrupt, errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum):
		return pageErrorf(ReasonFormat, "decompress the page: %w", err)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return pageErrorf(ReasonConnect, "the connection ended before the page did")
	case isOfSocket, isOfNet:
		return pageErrorf(ReasonConnect, "%w", err)
	}
	return pageErrorf(ReasonConnect, "no HTTP reply")
}

// statusFailure is the failure of a reply with another status than 200.
func statusFailure(resp *http.Response) *PageError {
	switch code := resp.StatusCode; {
	case isUnloaded(resp):
		return pageErrorf(ReasonStatus, "%w", errUnloaded)
	case code/100 == 3 && resp.Header.Get("Location") != "":
		return pageErrorf(ReasonStatus, "status %d: a redirect, and redirects are not followed", code)
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return pageErrorf(ReasonStatus, "status %d: %w", code, errLocked)
	default:
		return pageErrorf(ReasonStatus, "status %d", code)
	}
}

// errLocked is that of a page which is there for those who have its key.
var errLocked = errors.New("the page needs a key, or another one; see servers.http")

// errUnloaded is that of a model which a router has not loaded: no failure.
var errUnloaded = errors.New("the router has not loaded the model, and a reading does not load it")

// isUnloaded reports whether a reply is that of a llama.cpp router which was asked for the page of a model
// that it has not loaded, and not to load it.
func isUnloaded(resp *http.Response) bool {
	if resp.StatusCode != http.StatusBadRequest || !strings.HasSuffix(resp.Request.URL.RawQuery, noAutoload) {
		return false
	}
	var reply struct {
		Error struct{ Message string }
	}
	const longest = 4 << 10
	body, _ := foreign.Start(resp.Body, longest)
	return json.Unmarshal(body, &reply) == nil && reply.Error.Message == "model is not loaded"
}

// maxErrorBytes bounds the text of an error in a Status.
const maxErrorBytes = 512

// presentable returns err as one bounded line of printable characters, without the secrets.
func presentable(err error, secrets *safetext.Secrets) error {
	text := err.Error()
	clean := secrets.Line(text, maxErrorBytes)
	if clean == text {
		return err
	}
	return errors.New(clean)
}

package page

import (
	"compress/flate"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"

	"golang.org/x/oauth2"

	"github.com/inference-exporter/inference_exporter/internal/foreign"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

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

// failureOf classifies an error of fetch. The text of a reply does not get
// into the error, as it may repeat the request.
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
	// An alert after the handshake is how TLS 1.3 refuses a client's certificate.
	if e, ok := errors.AsType[*net.OpError](err); ok && e.Op == "remote error" || a.isTLSFailure() {
		return pageErrorf(ReasonTLS, "set up TLS: %w", err)
	}
	if e, ok := errors.AsType[net.Error](err); ok && e.Timeout() {
		return pageErrorf(ReasonTimeout, "%w", err)
	}
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	if corrupt || errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) {
		return pageErrorf(ReasonFormat, "decompress the page: %w", err)
	}
	return connectFailure(err)
}

// connectFailure is for a connection that was not made or did not last.
func connectFailure(err error) *PageError {
	_, ofSocket := errors.AsType[syscall.Errno](err)
	_, ofNet := errors.AsType[*net.OpError](err)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return pageErrorf(ReasonConnect, "the connection ended before the page did")
	case ofSocket, ofNet:
		return pageErrorf(ReasonConnect, "%w", err)
	}
	return pageErrorf(ReasonConnect, "no HTTP reply")
}

// statusFailure is the failure of a reply with another status than 200.
func statusFailure(resp *http.Response) *PageError {
	text := fmt.Sprintf("status %d", resp.StatusCode)
	switch to := resp.Header.Get("Location"); {
	case isUnloaded(resp):
		return &PageError{Reason: ReasonStatus, Err: errUnloaded}
	case resp.StatusCode/100 == 3 && to != "":
		text += ": a redirect, and redirects are not followed"
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return pageErrorf(ReasonStatus, "%s: %w", text, errLocked)
	}
	return pageErrorf(ReasonStatus, "%s", text)
}

// errLocked is that of a page which is there for those who have its key.
var errLocked = errors.New("the page needs a key, or another one; see servers.http")

// errUnloaded is that of a model which a router has not loaded: no failure.
var errUnloaded = errors.New("the router has not loaded the model, and a reading does not load it")

// isUnloaded reports whether a reply is that of a llama.cpp router which was asked
// for the page of a model that it has not loaded, and not to load it.
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

// presentable returns err as one bounded line of printable characters, without
// the secrets.
func presentable(err error, secrets *safetext.Secrets) error {
	text := err.Error()
	clean := secrets.Line(text, maxErrorBytes)
	if clean == text {
		return err
	}
	return errors.New(clean)
}

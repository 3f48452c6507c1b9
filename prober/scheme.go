package prober

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// handshakeTimeout limits the one connection that finds out whether a port
// speaks TLS.
const handshakeTimeout = 5 * time.Second

// explain returns a failure with its reason where that is a URL with http:// for
// a port that speaks TLS, as a TLSError whatever such a server answers to plain HTTP. It
// asks the port at most once a minute.
func (e *Endpoint) explain(ctx context.Context, err error) error {
	if e.cfg.URL.Scheme != "http" || e.cfg.HTTP.ProxyURL.URL != nil || e.cfg.HTTP.ProxyFromEnvironment || !suggestsTLS(err) {
		return err
	}
	if e.speaksTLS(ctx) {
		return &failure{outcome: result.TLSError, cause: &result.SchemeError{Err: err}}
	}
	return err
}

// suggestsTLS reports whether a failure is one by which a server of TLS answers
// plain HTTP: status 400, a closed connection, or bytes that are no HTTP.
func suggestsTLS(err error) bool {
	if s, ok := errors.AsType[*statusError](err); ok {
		return s.status == http.StatusBadRequest
	}
	f, ok := errors.AsType[*failure](err)
	return ok && f.noReply && (f.outcome == result.Truncated || f.outcome == result.ProtocolError)
}

// port is what a TLS handshake has shown of an endpoint's port.
type port struct {
	mu  sync.Mutex
	at  time.Time // of the handshake; the zero time before the first
	tls bool
}

// speaksTLS reports whether the port answered a TLS handshake, now or within the
// last minute. Nothing of the settings is sent.
func (e *Endpoint) speaksTLS(ctx context.Context) bool {
	p := &e.port
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at.IsZero() || time.Since(p.at) >= lookupInterval {
		p.tls = e.handshake(ctx)
		p.at = time.Now()
	}
	return p.tls
}

func (e *Endpoint) handshake(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	u := e.cfg.URL.URL
	c, err := e.options.Dialer.net.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "80")))
	if err != nil {
		return false
	}
	defer c.Close()
	// Whoever answers is not trusted with anything.
	client := tls.Client(c, &tls.Config{ServerName: u.Hostname(), InsecureSkipVerify: true}) //nolint:gosec // see above
	err = client.HandshakeContext(ctx)
	_, alert := errors.AsType[tls.AlertError](err)
	return err == nil || alert
}

package prober

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	promconfig "github.com/prometheus/common/config"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/foreign"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Options are what all endpoints share.
type Options struct {
	// Dialer opens the connections.
	Dialer    *Dialer
	UserAgent string            // sent with every request
	Secrets   *safetext.Secrets // what no text repeats, beside those of the endpoint's own settings
}

// Endpoint is what the probes of one endpoint share: its transport and what it serves. It is safe for concurrent use.
type Endpoint struct {
	cfg       *config.Endpoint
	options   Options
	secrets   *safetext.Secrets // of the options and the configuration
	names     *safetext.Names   // of what the server serves
	transport http.RoundTripper // a new connection for each request; nil with HTTP/2

	port port

	mu    sync.Mutex
	spare []http.RoundTripper // with HTTP/2: transports that no request uses
	identity
}

// NewEndpoint prepares the probes of an endpoint. An error means that its HTTP settings cannot be used.
func NewEndpoint(cfg *config.Endpoint, o Options) (*Endpoint, error) {
	e := &Endpoint{cfg: cfg, options: o, secrets: o.Secrets.With(config.Secrets(cfg)...)}
	e.names = safetext.NewNames(e.secrets, maxName)
	if cfg.API != "" {
		p, ok := api.Lookup(cfg.API)
		if !ok {
			return nil, fmt.Errorf("endpoint %q: unknown api %q", cfg.Name, cfg.API)
		}
		var err error
		if e.target, err = newTarget(cfg, p); err != nil {
			return nil, err
		}
	}
	rt, err := e.newOneWayTransport()
	if err != nil {
		return nil, err
	}
	if cfg.HTTP.EnableHTTP2 {
		e.spare = append(e.spare, rt)
	} else {
		e.transport = rt
	}
	return e, nil
}

// borrow returns a transport that makes a new connection for the request, and what to call after that. With
// HTTP/2 no two requests of the same time have the same one, as it would put them on one connection.
func (e *Endpoint) borrow() (rt http.RoundTripper, giveBack func(), err error) {
	if e.transport != nil {
		return e.transport, func() {}, nil
	}
	e.mu.Lock()
	if last := len(e.spare) - 1; last >= 0 {
		rt, e.spare = e.spare[last], e.spare[:last]
	}
	e.mu.Unlock()
	if rt == nil {
		if rt, err = e.newOneWayTransport(); err != nil {
			return nil, nil, err
		}
	}
	return rt, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.spare = append(e.spare, rt)
	}, nil
}

// newOneWayTransport returns a transport that keeps no connection: that of other endpoints
// with the same settings, where it holds no state of its own.
func (e *Endpoint) newOneWayTransport() (http.RoundTripper, error) {
	return e.signed(e.options.Dialer.shared.transport(&e.cfg.HTTP, func() (http.RoundTripper, error) {
		return e.newUnsigned(promconfig.WithKeepAlivesDisabled())
	}))
}

// newTransport returns a transport that keeps its connection.
func (e *Endpoint) newTransport() (http.RoundTripper, error) { return e.signed(e.newUnsigned()) }

// newUnsigned returns a transport with the endpoint's HTTP settings.
func (e *Endpoint) newUnsigned(opts ...promconfig.HTTPClientOption) (http.RoundTripper, error) {
	rt, err := foreign.RoundTripper(&e.cfg.HTTP.HTTPClientConfig, "probe", e.options.Dialer.DialContext, opts...)
	if err != nil {
		return nil, fmt.Errorf("endpoint %q: set up http: %w", e.cfg.Name, err)
	}
	return foreign.GuardFiles(rt, e.cfg.HTTP.Files(), e.cfg.HTTP.UseFiles), nil
}

// signed returns a transport that authenticates by the credentials of a cloud, where the endpoint is to be asked so.
func (e *Endpoint) signed(rt http.RoundTripper, err error) (http.RoundTripper, error) {
	if err != nil {
		return nil, err
	}
	clouds := &e.options.Dialer.clouds
	if s := e.cfg.SigV4; s != nil {
		rt = clouds.Sign(rt, *s)
	}
	if i := e.cfg.CloudIdentity; i != nil {
		rt = clouds.Bearer(rt, *i)
	}
	return rt, nil
}

// ownHeader sets what all requests have and leaves out what the configuration
// sets, since that is added on the way and must not be sent twice.
func (e *Endpoint) ownHeader(h http.Header) {
	h.Set("User-Agent", e.options.UserAgent)
	if own := e.cfg.HTTP.HTTPHeaders; own != nil {
		for name := range own.Headers {
			h.Del(name)
		}
	}
}

// shared is what the endpoints of one Dialer have in common, so that thousands of them
// take little room. The zero value is ready, and safe for concurrent use.
type shared struct {
	mu         sync.Mutex
	transports []*sharedTransport // the latest last
}

// sharedTransport is a transport that keeps no connections, with its settings.
type sharedTransport struct {
	settings promconfig.HTTPClientConfig
	rt       http.RoundTripper
}

// maxTransports bounds the settings that are remembered. What is forgotten stays in use where it is.
const maxTransports = 16

// transport returns the transport of equal settings, or the one that make returns. One with a state of its own,
// a token or an HTTP/2 connection, is not shared.
func (s *shared) transport(h *config.HTTPClient, make func() (http.RoundTripper, error)) (http.RoundTripper, error) {
	if h.OAuth2 != nil || h.EnableHTTP2 {
		return make()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.transports, func(t *sharedTransport) bool { return reflect.DeepEqual(&t.settings, &h.HTTPClientConfig) })
	if i >= 0 {
		return s.transports[i].rt, nil
	}
	rt, err := make()
	if err != nil {
		return nil, err
	}
	if len(s.transports) == maxTransports {
		s.transports = slices.Delete(s.transports, 0, 1)
	}
	s.transports = append(s.transports, &sharedTransport{h.HTTPClientConfig, rt})
	return rt, nil
}

// handshakeTimeout limits the one connection that finds out whether a port speaks TLS.
const handshakeTimeout = 5 * time.Second

// explain returns a failure as a TLSError where the URL has http:// and the port speaks TLS, whatever such a
// server answers to plain HTTP. It asks the port at most once a minute.
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
	c, err := foreign.Dial(ctx, e.options.Dialer.net, "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "80")))
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

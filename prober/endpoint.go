package prober

import (
	"fmt"
	"net/http"
	"sync"

	promconfig "github.com/prometheus/common/config"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/foreign"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/prober/cloudauth"
)

// Options are what all endpoints share.
type Options struct {
	// Dialer opens the connections.
	Dialer *Dialer
	// UserAgent is sent with every request.
	UserAgent string
	// Secrets are what no text repeats, beside those of the endpoint's own settings.
	Secrets *safetext.Secrets
}

// Endpoint is what the probes of one endpoint share: its transport and what
// it serves. It is safe for concurrent use.
type Endpoint struct {
	cfg       *config.Endpoint
	options   Options
	secrets   *safetext.Secrets // of the options and the configuration
	names     *safetext.Names   // of what the server serves
	capacity  *Capacity         // shared by all endpoints
	transport http.RoundTripper // a new connection for each request; nil with HTTP/2

	port port

	mu    sync.Mutex
	spare []http.RoundTripper // with HTTP/2: transports that no request uses
	identity
}

// NewEndpoint prepares the probes of an endpoint. An error means that its
// HTTP settings cannot be used.
func NewEndpoint(cfg *config.Endpoint, o Options) (*Endpoint, error) {
	e := &Endpoint{cfg: cfg, options: o, secrets: o.Secrets.With(config.Secrets(cfg)...)}
	e.names = safetext.NewNames(e.secrets, maxName)
	if e.capacity = o.Dialer.capacity; e.capacity == nil {
		e.capacity = NewCapacity()
	}
	var err error
	if cfg.API != "" {
		p, ok := o.Dialer.shared.protocol(cfg.API)
		if !ok {
			return nil, fmt.Errorf("endpoint %q: unknown api %q", cfg.Name, cfg.API)
		}
		if e.target, err = newTarget(cfg, p); err != nil {
			return nil, err
		}
	}
	var rt http.RoundTripper
	if rt, err = e.newOneWayTransport(); err != nil {
		return nil, err
	}
	if cfg.HTTP.EnableHTTP2 {
		e.spare = append(e.spare, rt)
	} else {
		e.transport = rt
	}
	return e, nil
}

// borrow returns a transport that makes a new connection for the request, and
// what to call after that. With HTTP/2 a transport would put requests of the
// same time on one connection: no two have the same one then.
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
	rt, err := e.options.Dialer.shared.transport(&e.cfg.HTTP, func() (http.RoundTripper, error) {
		return e.newUnsigned(promconfig.WithKeepAlivesDisabled())
	})
	if err != nil {
		return nil, err
	}
	return e.signed(rt), nil
}

// newTransport returns a transport that keeps its connection.
func (e *Endpoint) newTransport() (http.RoundTripper, error) {
	rt, err := e.newUnsigned()
	if err != nil {
		return nil, err
	}
	return e.signed(rt), nil
}

// newUnsigned returns a transport with the endpoint's HTTP settings.
func (e *Endpoint) newUnsigned(opts ...promconfig.HTTPClientOption) (http.RoundTripper, error) {
	rt, err := foreign.RoundTripper(&e.cfg.HTTP.HTTPClientConfig, "probe", e.options.Dialer.DialContext, opts...)
	if err != nil {
		return nil, fmt.Errorf("endpoint %q: set up http: %w", e.cfg.Name, err)
	}
	return foreign.GuardFiles(rt, e.cfg.HTTP.Files(), e.cfg.HTTP.UseFiles), nil
}

// signed returns a transport that authenticates by the credentials of a cloud, where the
// endpoint is to be asked so.
func (e *Endpoint) signed(rt http.RoundTripper) http.RoundTripper {
	if s := e.cfg.SigV4; s != nil {
		rt = cloudauth.Sign(rt, cloudauth.Signature{Region: s.Region, Service: s.Service, Credentials: e.options.Dialer.clouds.AWS(cloudauth.AWS{
			Region: s.Region, AccessKeyID: s.AccessKeyID, SecretAccessKey: string(s.SecretAccessKey),
			SessionToken: string(s.SessionToken), RoleARN: s.RoleARN,
		})})
	}
	if i := e.cfg.CloudIdentity; i != nil {
		rt = e.options.Dialer.clouds.Bearer(rt, cloudauth.Token{
			Azure: i.Provider == config.CloudAzure, Scope: i.Scope, ClientID: i.ClientID, CredentialsFile: i.CredentialsFile,
		})
	}
	return rt
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

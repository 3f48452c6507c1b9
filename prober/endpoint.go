package prober

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	promconfig "github.com/prometheus/common/config"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/prober/sigv4"
)

// Options are what all endpoints share.
type Options struct {
	// Dialer opens the connections.
	Dialer *Dialer
	// UserAgent is sent with every request.
	UserAgent string
}

// Endpoint is what the probes of one endpoint share: its transport and what
// it serves. It is safe for concurrent use.
type Endpoint struct {
	cfg       *config.Endpoint
	options   Options
	transport http.RoundTripper // a new connection for each request
	secrets   []string          // that the configuration holds

	asking sync.Mutex // held while the server is asked

	mu       sync.Mutex
	target   target
	answered bool      // a probe succeeded
	stale    bool      // a probe failed since the server was asked
	askedAt  time.Time // the zero time before the first question
}

// NewEndpoint prepares the probes of an endpoint. An error means that its
// HTTP settings cannot be used.
func NewEndpoint(cfg *config.Endpoint, o Options) (*Endpoint, error) {
	e := &Endpoint{cfg: cfg, options: o, secrets: secretsOf(cfg)}
	var err error
	if cfg.API != "" {
		p, ok := api.Lookup(cfg.API)
		if !ok {
			return nil, fmt.Errorf("endpoint %q: unknown api %q", cfg.Name, cfg.API)
		}
		if e.target, err = newTarget(cfg, p); err != nil {
			return nil, err
		}
	}
	e.transport, err = e.newTransport(promconfig.WithKeepAlivesDisabled())
	return e, err
}

// newTransport returns a transport with the endpoint's HTTP settings.
func (e *Endpoint) newTransport(opts ...promconfig.HTTPClientOption) (http.RoundTripper, error) {
	opts = append(opts, promconfig.WithDialContextFunc(e.options.Dialer.DialContext))
	rt, err := promconfig.NewRoundTripperFromConfig(e.cfg.HTTP.HTTPClientConfig, "probe", opts...)
	if err != nil {
		return nil, fmt.Errorf("endpoint %q: set up http: %w", e.cfg.Name, err)
	}
	if s := e.cfg.SigV4; s != nil {
		rt = sigv4.New(rt, sigv4.Options{
			Region: s.Region, Service: s.Service, AccessKeyID: s.AccessKeyID,
			SecretAccessKey: string(s.SecretAccessKey), SessionToken: string(s.SessionToken),
		})
	}
	return rt, nil
}

// ownHeader sets what all requests have and leaves out what the configuration
// sets, since that is added on the way and must not stand there twice.
func (e *Endpoint) ownHeader(h http.Header) {
	h.Set("User-Agent", e.options.UserAgent)
	if own := e.cfg.HTTP.HTTPHeaders; own != nil {
		for name := range own.Headers {
			h.Del(name)
		}
	}
}

// learn takes from a result what it tells of the endpoint: after a failure
// another model, or another server, may stand there.
func (e *Endpoint) learn(r *Result) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch r.Outcome {
	case Success:
		e.answered = true
	case RateLimited, Overloaded, Canceled: // busy, and no other than before
	default:
		e.stale = true
	}
}

// identify returns what the endpoint serves, asking the server where needed.
// When that is known an unanswered question changes nothing, as the probe
// itself will tell more.
func (e *Endpoint) identify(ctx context.Context, timeout time.Duration) (target, error) {
	if served, must := e.served(); !must {
		return served, nil
	}
	e.asking.Lock()
	defer e.asking.Unlock()
	served, must := e.served() // another probe may have asked meanwhile
	if !must {
		return served, nil
	}
	limit := min(questionTimeout, timeout/2)
	ctx, cancel := context.WithTimeoutCause(ctx, limit,
		&limitError{TimeoutFirstToken, fmt.Sprintf("no answer to what the server is within %s", limit)})
	defer cancel()
	found, err := e.ask(ctx, served)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.askedAt, e.stale = time.Now(), false
	if err == nil {
		e.target = found
	} else if served.protocol.Name == "" || served.model == "" {
		return served, err
	}
	return e.target, nil
}

// served returns what is known of the server, and whether to ask first.
func (e *Endpoint) served() (target, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.target, e.mustAsk()
}

// mustAsk tells whether to ask before the next probe. With a configured model
// only the server's name is of interest, which can wait until the endpoint is
// known to answer.
func (e *Endpoint) mustAsk() bool {
	switch {
	case e.target.protocol.Name == "":
		return true
	case e.target.model == "" && !(e.target.protocol.ModelOptional && !e.askedAt.IsZero()):
		return true
	case e.askedAt.IsZero():
		return e.answered
	}
	return e.stale && time.Since(e.askedAt) >= askAgain
}

// ask asks the server what it serves.
func (e *Endpoint) ask(ctx context.Context, found target) (target, error) {
	if e.cfg.API == "" {
		return e.detect(ctx)
	}
	var models []api.ModelInfo
	if found.protocol.Models != nil {
		var err error
		if models, err = e.models(ctx, &found.protocol); err != nil && !found.protocol.ModelOptional {
			return target{}, err
		}
	}
	found.engine = cmp.Or(engineOf(models), found.engine)
	var err error
	found.model, err = choose(e.cfg.Model, models, &found.protocol)
	return found, err
}

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
	"github.com/inference-exporter/inference_exporter/internal/files"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
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
	secrets   *safetext.Secrets // that the configuration holds
	names     *safetext.Names   // of what the server serves
	transport http.RoundTripper // a new connection for each request; nil with HTTP/2

	asking sync.Mutex // held while the server is asked

	mu       sync.Mutex
	spare    []http.RoundTripper // with HTTP/2: transports that no request uses
	target   target
	answered bool      // a probe succeeded
	stale    bool      // a probe failed since the server was asked
	askedAt  time.Time // the zero time before the first question
}

// NewEndpoint prepares the probes of an endpoint. An error means that its
// HTTP settings cannot be used.
func NewEndpoint(cfg *config.Endpoint, o Options) (*Endpoint, error) {
	e := &Endpoint{cfg: cfg, options: o, secrets: safetext.NewSecrets(config.Secrets(cfg)...)}
	e.names = safetext.NewNames(e.secrets, maxName)
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
	var rt http.RoundTripper
	if rt, err = e.newTransport(promconfig.WithKeepAlivesDisabled()); err != nil {
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
		if rt, err = e.newTransport(promconfig.WithKeepAlivesDisabled()); err != nil {
			return nil, nil, err
		}
	}
	return rt, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.spare = append(e.spare, rt)
	}, nil
}

// newTransport returns a transport with the endpoint's HTTP settings.
func (e *Endpoint) newTransport(opts ...promconfig.HTTPClientOption) (http.RoundTripper, error) {
	opts = append(opts, promconfig.WithDialContextFunc(e.options.Dialer.DialContext))
	rt, err := promconfig.NewRoundTripperFromConfig(e.cfg.HTTP.HTTPClientConfig, "probe", opts...)
	if err != nil {
		return nil, fmt.Errorf("endpoint %q: set up http: %w", e.cfg.Name, err)
	}
	rt = files.Guard(rt, e.cfg.HTTP.Files())
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

// ContextLength returns how many tokens the endpoint's model has room for, prompt
// and answer together, as the server told; 0 is not known.
func (e *Endpoint) ContextLength() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.target.context
}

// identify returns what the endpoint serves, asking the server where needed.
// When that is known an unanswered question changes nothing, as the probe
// itself will tell more.
// longest is how many tokens the request may need.
func (e *Endpoint) identify(ctx context.Context, timeout time.Duration, longest int) (target, error) {
	if served, must := e.served(longest); !must {
		return served, nil
	}
	e.asking.Lock()
	defer e.asking.Unlock()
	served, must := e.served(longest) // another probe may have asked meanwhile
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

// outgrown tells that the model has no room for what is asked, so that the server
// is asked again after a while: another model may stand there.
func (e *Endpoint) outgrown() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stale = true
}

// served returns what is known of the server, and whether to ask first.
func (e *Endpoint) served(longest int) (target, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.target, e.mustAsk(longest)
}

// usualContext is what nearly every model has room for: who asks for more wants
// to know first how much it is.
const usualContext = 4096

// mustAsk tells whether to ask before the next probe. With a configured model
// only the server's name and the room of the model are of interest, and the
// name can wait until the endpoint is known to answer.
func (e *Endpoint) mustAsk(longest int) bool {
	switch {
	case e.target.protocol.Name == "":
		return true
	case e.target.model == "" && !(e.target.protocol.ModelOptional && !e.askedAt.IsZero()):
		return true
	case e.askedAt.IsZero():
		return e.answered || longest > usualContext
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
	found.context = contextOf(found.model, models)
	return found, err
}

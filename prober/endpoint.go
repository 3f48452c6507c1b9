package prober

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	promconfig "github.com/prometheus/common/config"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

const (
	// modelsBody bounds the list of models; modelsTimeout its request.
	modelsBody    = 1 << 20
	modelsTimeout = 5 * time.Second
	// askAgain is the least time between two questions for the model of an
	// endpoint that refuses the model it had.
	askAgain = time.Minute
)

// continuousUsageEngines are the engines, as their lists of models name them,
// that count tokens in every event when asked to. Others may reject the
// request for it as an unknown parameter.
var continuousUsageEngines = []string{"vllm", "sglang", "tensorrt_llm"}

// Options are what all endpoints share.
type Options struct {
	// Dialer opens the connections.
	Dialer *Dialer
	// UserAgent is sent with every request.
	UserAgent string
}

// Endpoint is what the probes of one endpoint share: its protocol, its
// transport and the model that it serves. It is safe for concurrent use.
type Endpoint struct {
	cfg       *config.Endpoint
	options   Options
	protocol  api.Protocol
	transport http.RoundTripper // a new connection for each request

	mu       sync.Mutex
	target   target
	answered bool      // a probe succeeded
	stale    bool      // a probe was refused since the models were asked
	askedAt  time.Time // the zero time before the first question
}

// target is what the endpoint serves.
type target struct {
	model string
	// continuousUsage tells that the server counts tokens in every event when
	// asked to.
	continuousUsage bool
}

// NewEndpoint prepares the probes of an endpoint. An error means that its
// HTTP settings cannot be used.
func NewEndpoint(cfg *config.Endpoint, o Options) (*Endpoint, error) {
	p, ok := api.Lookup(cfg.API)
	if !ok {
		return nil, fmt.Errorf("endpoint %q: unknown api %q", cfg.Name, cfg.API)
	}
	e := &Endpoint{
		cfg: cfg, options: o, protocol: p,
	}
	e.target.model = cfg.Model
	var err error
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
	return rt, nil
}

// learn takes from a result what it tells of the endpoint: a refused request
// may mean that the model was swapped.
func (e *Endpoint) learn(r *Result) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answered = e.answered || r.Outcome == Success
	e.stale = e.stale || r.Outcome == HTTPError
}

// identify returns what the endpoint serves, asking the server where needed.
// When the model is known an unanswered question changes nothing, as the
// probe itself will tell more.
func (e *Endpoint) identify(ctx context.Context) (target, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.mustAsk() {
		return e.target, nil
	}
	e.askedAt, e.stale = time.Now(), false
	models, err := e.models(ctx)
	if err == nil {
		err = e.choose(models)
	}
	if err != nil && e.target.model == "" {
		return target{}, err
	}
	return e.target, nil
}

// mustAsk tells whether to ask for the models before the next probe. With a
// configured model only the server's name is of interest, which can wait
// until the endpoint is known to answer.
func (e *Endpoint) mustAsk() bool {
	switch {
	case e.target.model == "":
		return true
	case e.askedAt.IsZero():
		return e.answered
	}
	return e.stale && time.Since(e.askedAt) >= askAgain
}

// choose takes the model to ask from the server's list.
func (e *Endpoint) choose(models []api.ModelInfo) error {
	model := e.cfg.Model
	if model == "" {
		switch len(models) {
		case 0:
			return fail(ProtocolError, "the server lists no model: set model")
		case 1:
			model = models[0].ID
		default:
			return fail(ProtocolError, "the server lists %d models, such as %q and %q: set model", len(models), models[0].ID, models[1].ID)
		}
	}
	e.target.model = model
	e.target.continuousUsage = slices.ContainsFunc(models, func(m api.ModelInfo) bool {
		return slices.Contains(continuousUsageEngines, m.OwnedBy)
	})
	return nil
}

// models asks the server for its list of models.
func (e *Endpoint) models(ctx context.Context) ([]api.ModelInfo, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, modelsTimeout,
		&limitError{TimeoutFirstToken, fmt.Sprintf("no list of models within %s", modelsTimeout)})
	defer cancel()
	a := newAttempt(nil, func() {})
	req, err := http.NewRequestWithContext(a.context(ctx), http.MethodGet, e.protocol.Models.URL(e.cfg.URL.URL).String(), nil)
	if err != nil {
		return nil, fmt.Errorf("ask for the models: %w", err)
	}
	req.Header.Set("User-Agent", e.options.UserAgent)
	models, err := e.readModels(req, a)
	return models, a.censor(err)
}

func (e *Endpoint) readModels(req *http.Request, a *attempt) ([]api.ModelInfo, error) {
	ctx := req.Context()
	resp, err := e.transport.RoundTrip(req)
	if err != nil {
		return nil, roundTripFailure(ctx, a, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, modelsBody))
	c, _, _ := a.snapshot()
	switch {
	case err != nil:
		return nil, bodyFailure(ctx, c, err)
	case resp.StatusCode != http.StatusOK:
		return nil, statusFailure(resp, body)
	}
	models, err := e.protocol.Models.Parse(body)
	if err != nil {
		return nil, fail(ProtocolError, "%w", err)
	}
	return models, nil
}

package prober

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/prober/detect"
)

const (
	// answerBody bounds what is read of an answer to a question about the
	// server; questionTimeout limits all questions together, which get at most
	// half of what a probe may take.
	answerBody      = detect.MaxBody + 1
	questionTimeout = 10 * time.Second
	// askAgain is the least time between two rounds of questions to an
	// endpoint that refuses what was found out before.
	askAgain = time.Minute
)

// target is what an endpoint serves, and how to ask for it.
type target struct {
	protocol api.Protocol // without a name until it is known
	engine   string       // "" is not known
	model    string
	context  int // tokens that the model has room for, prompt and answer together; 0 is not known
	quirks   *api.Adjuster
}

// newTarget prepares the requests of a protocol with the endpoint's own
// changes to them.
func newTarget(cfg *config.Endpoint, p api.Protocol) (target, error) {
	quirks, err := api.NewAdjuster(api.Adjustment{
		MaxTokensField: cfg.Request.MaxTokensField, Omit: cfg.Request.Omit, Extra: cfg.Request.Extra,
	}, p.MaxTokens)
	if err != nil {
		return target{}, fmt.Errorf("endpoint %q: request: %w", cfg.Name, err)
	}
	return target{protocol: p, engine: engineByAPI(p.Name), model: cfg.Model, quirks: quirks}, nil
}

// engineByAPI returns the engine that alone speaks a protocol; "" for those
// that several speak.
func engineByAPI(name string) string {
	switch name {
	case "ollama", "ollama-generate", "ollama-embed":
		return detect.Ollama
	case "tgi":
		return detect.TGI
	case "tei":
		return detect.TEI
	case "sglang":
		return detect.SGLang
	case "llamacpp":
		return detect.LlamaCPP
	case "triton":
		return detect.Triton
	}
	return ""
}

// url returns where to send the requests.
func (t *target) url(cfg *config.Endpoint) *url.URL {
	u := t.protocol.URL(cfg.URL.URL, t.model)
	if cfg.Request.Path == "" || t.protocol.Kind == api.Scoring {
		return u
	}
	custom := *u
	custom.RawPath = cfg.Request.Path
	custom.Path, _ = url.PathUnescape(custom.RawPath) // checked with the configuration
	return &custom
}

// body builds the body of a request.
func (t *target) body(p api.Params) ([]byte, error) {
	body, err := t.protocol.Body(p)
	if err == nil {
		body, err = t.quirks.Apply(body)
	}
	if err != nil {
		return nil, fmt.Errorf("build the request: %w", err)
	}
	return body, nil
}

// continuousUsage tells that the server counts tokens in every event when
// asked to. Others may reject the request for it as an unknown parameter.
func (t *target) continuousUsage() bool {
	return slices.Contains([]string{detect.VLLM, detect.SGLang, detect.TRTLLM}, t.engine)
}

// exactLength tells that the server can be made to write on until the cap.
func (t *target) exactLength() bool {
	return slices.Contains([]string{detect.VLLM, detect.SGLang, detect.TRTLLM, detect.LlamaCPP, detect.Triton}, t.engine)
}

// reserve is the share of a prompt's length by which it may be longer than
// wanted: prompts are made to length by what the server counts of earlier ones.
const reserve = 0.02

// hasRoom tells whether the model has room for a question, as far as both are
// known.
func (t *target) hasRoom(q *question) bool {
	if t.context == 0 || q.wanted == 0 {
		return true
	}
	need := int((1 + reserve) * float64(q.wanted))
	if t.protocol.Kind == api.Generation {
		need += q.output
	}
	return need <= t.context
}

// describe tells a result who was asked.
func (t *target) describe(r *Result, names *safetext.Names) {
	r.API, r.Kind, r.Engine, r.Model = t.protocol.Name, t.protocol.Kind, t.engine, names.Clean(t.model)
}

// contextOf returns the room of a model as the server lists it; 0 where it does
// not tell.
func contextOf(model string, models []api.ModelInfo) int {
	i := slices.IndexFunc(models, func(m api.ModelInfo) bool { return m.ID == model })
	if i < 0 {
		return 0
	}
	return max(0, models[i].MaxModelLen)
}

// engineOf returns the engine as a list of models names its owner; "" for
// owners that are no engine.
func engineOf(models []api.ModelInfo) string {
	for _, m := range models {
		switch m.OwnedBy {
		case detect.VLLM, detect.SGLang, detect.LlamaCPP:
			return m.OwnedBy
		case "tensorrt_llm":
			return detect.TRTLLM
		case "library": // models that Ollama pulled
			return detect.Ollama
		}
	}
	return ""
}

// choose takes the model to ask: the configured one, else the only one that
// the server lists.
func choose(configured string, models []api.ModelInfo, p *api.Protocol) (string, error) {
	switch {
	case configured != "":
		return configured, nil
	case len(models) == 1:
		return models[0].ID, nil
	case len(models) > 1:
		return "", fail(ProtocolError, "the server lists %d models, such as %q and %q: set model", len(models), models[0].ID, models[1].ID)
	case p.ModelOptional:
		return "", nil
	}
	return "", fail(ProtocolError, "the server lists no model: set model")
}

// answer is the reply to one question about the server.
type answer struct {
	resp    *http.Response
	body    []byte
	attempt *attempt // knows the secrets that were sent
}

// get asks one question, with the given header, over a connection of its own.
func (e *Endpoint) get(ctx context.Context, at string, header http.Header) (*answer, error) {
	rt, giveBack, err := e.borrow()
	if err != nil {
		return nil, err
	}
	defer giveBack()
	a := e.newAttempt(nil)
	req, err := http.NewRequestWithContext(a.context(ctx), http.MethodGet, at, nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", at, err)
	}
	maps.Copy(req.Header, header)
	e.ownHeader(req.Header)
	resp, err := rt.RoundTrip(req)
	if err != nil {
		err = roundTripFailure(ctx, a, err)
		if _, _, ready := a.snapshot(); !ready && outcomeOf(err) == TimeoutFirstToken {
			err = fail(TimeoutConnect, "no connection: %w", err)
		}
		return nil, a.censor(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerBody))
	if err != nil {
		return nil, a.censor(bodyFailure(ctx, a, err))
	}
	return &answer{resp: resp, body: body, attempt: a}, nil
}

// models asks the server for its list of models.
func (e *Endpoint) models(ctx context.Context, p *api.Protocol) ([]api.ModelInfo, error) {
	header := p.Header.Clone() // some want their version named
	header.Set("Accept", "application/json")
	header.Del("Content-Type")
	got, err := e.get(ctx, p.Models.URL(e.cfg.URL.URL).String(), header)
	if err != nil {
		return nil, err
	}
	if got.resp.StatusCode != http.StatusOK {
		return nil, got.attempt.censor(fmt.Errorf("list the models: %w", statusFailure(got.resp, got.body, got.attempt.known())))
	}
	models, err := p.Models.Parse(got.body)
	if err != nil {
		return nil, got.attempt.censor(fail(ProtocolError, "%w", err))
	}
	return models, nil
}

// detect finds out what an endpoint without a configured protocol speaks.
func (e *Endpoint) detect(ctx context.Context) (target, error) {
	censor := func(err error) error { return err }
	refused := 0
	found, err := detect.Detect(ctx, e.cfg.URL.URL, func(ctx context.Context, at string) (*detect.Reply, error) {
		got, err := e.get(ctx, at, nil)
		if err != nil {
			return nil, err
		}
		censor = got.attempt.censor
		if s := got.resp.StatusCode; s == http.StatusUnauthorized || s == http.StatusForbidden {
			refused = s
		}
		return &detect.Reply{Status: got.resp.StatusCode, Header: got.resp.Header, Body: got.body}, nil
	})
	if err != nil {
		if _, told := errors.AsType[*failure](err); !told {
			if f := interrupted(ctx); f != nil {
				return target{}, f
			}
		}
		return target{}, censor(fmt.Errorf("find out the api: %w", err))
	}
	p, ok := api.Lookup(found.API)
	if !ok {
		return target{}, fmt.Errorf("find out the api: %q is not known", found.API)
	}
	t, err := newTarget(e.cfg, p)
	if err != nil {
		return target{}, err
	}
	t.engine = cmp.Or(found.Engine, t.engine)
	if t.model, err = choose(e.cfg.Model, found.Models, &p); err != nil && len(found.Models) == 0 && refused != 0 {
		err = fail(Unauthorized, "status %d when asked for the models: set a key under http", refused)
	}
	t.context = contextOf(t.model, found.Models)
	return t, censor(err)
}

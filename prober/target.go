package prober

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// target is what an endpoint serves, and how to ask for it.
type target struct {
	protocol *api.Protocol // shared; nil until it is known
	engine   string        // "" is not known
	model    string
	context  int   // tokens that the model has room for, prompt and answer together; 0 is not known
	retires  int64 // when the model is said to end, in Unix seconds; 0 is not known
	quirks   *api.Adjustment
	capped   bool // requests cap the answer as the module says
}

// newTarget prepares the requests of a protocol with the endpoint's own changes to them.
func newTarget(cfg *config.Endpoint, p *api.Protocol) (target, error) {
	quirks := &api.Adjustment{MaxTokensField: cfg.Request.MaxTokensField, Omit: cfg.Request.Omit, Extra: cfg.Request.Extra}
	if err := quirks.Check(p); err != nil {
		return target{}, fmt.Errorf("endpoint %q: request: %w", cfg.Name, err)
	}
	return target{protocol: p, engine: p.Engine, model: cfg.Model, quirks: quirks, capped: isCapped(&cfg.Request, p)}, nil
}

// isCapped reports whether the cap of the answer is sent as the protocol builds it: neither left out nor replaced.
func isCapped(r *config.Request, p *api.Protocol) bool {
	key := cmp.Or(r.MaxTokensField, p.MaxTokens)
	first, _, _ := strings.Cut(key, ".")
	_, replaced := r.Extra[first]
	return p.MaxTokens != "" && !replaced && !slices.Contains(r.Omit, key) && !slices.Contains(r.Omit, first)
}

func (t *target) url(cfg *config.Endpoint) *url.URL {
	u := t.protocol.URL(cfg.URL.URL, t.model)
	if cfg.Request.Path == "" || t.protocol.Kind == api.Scoring {
		return u
	}
	return api.WithPath(u, cfg.Request.Path) // checked with the configuration
}

// reserve is the share of a prompt's length by which it may be longer than
// wanted: prompts are made to length by what the server counts of earlier ones.
const reserve = 0.02

// hasRoom reports whether the model has room for a question, as far as both are known.
func (t *target) hasRoom(q *workload.Question) bool {
	if t.context == 0 || q.Wanted == 0 {
		return true
	}
	need := int((1+reserve)*float64(q.Wanted)) + q.Later
	if t.protocol.Kind == api.Generation {
		need += q.Output
	}
	return need <= t.context
}

// describe writes into a result what was probed.
func (t *target) describe(r *result.Result, names *safetext.Names) {
	r.Engine, r.Model = t.engine, names.Clean(t.model)
	r.Retirement.Listed = t.retires
	if t.protocol != nil {
		r.API, r.Kind = t.protocol.Name, t.protocol.Kind
	}
}

// listed takes what the server lists of the model: its context length, and when it ends.
func (t *target) listed(models []api.ModelInfo) {
	t.context, t.retires = 0, 0
	if i := slices.IndexFunc(models, func(m api.ModelInfo) bool { return m.ID == t.model }); i >= 0 {
		t.context, t.retires = max(0, models[i].MaxModelLen), api.Believed(models[i].Retires, time.Now())
	}
}

// choose takes the model to ask: the configured one, else the only one that
// the server lists beside its adapters. A Skip says that there are several.
func choose(configured string, models []api.ModelInfo, p *api.Protocol) (string, error) {
	base := api.BaseModels(models)
	switch {
	case configured != "":
		return configured, nil
	case len(base) == 1:
		return base[0].ID, nil
	case len(base) > 1:
		return "", severalModels(base)
	case p.ModelOptional:
		return "", nil
	}
	return "", fail(result.ProtocolError, "the server lists no model: set model")
}

// maxModelsListed is how many models the text of a Skip lists.
const maxModelsListed = 20

// severalModels says what to set, and to which values.
func severalModels(models []api.ModelInfo) *result.Skip {
	names := stats.Map(models[:min(len(models), maxModelsListed)], func(m api.ModelInfo) string { return strconv.Quote(m.ID) })
	more := ""
	if n := len(models) - len(names); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return skip(result.SkipModel, "set model of the endpoint (or --model, with a URL on the command line): the server lists %d models: %s%s",
		len(models), strings.Join(names, ", "), more)
}

// forModule returns the target for the questions of a module, of a kind. An error says that
// it cannot answer them, and what to change.
func (t *target) forModule(m *config.Module, kind *workload.Kind) (target, error) {
	own, p := *t, t.protocol
	refuse := func(format string, args ...any) (target, error) {
		return own, fail(result.ProtocolError, "the api %s "+format, append([]any{p.Name}, args...)...)
	}
	const meaningless = "%s has no meaning there; leave it out"
	if p.Kind == api.Generation {
		switch {
		case !kind.Answers:
			return refuse("generates and neither embeds nor ranks: "+meaningless, kind.Key)
		case kind.Scores:
			var ok bool
			if own.protocol, ok = p.Scored(); !ok {
				return refuse("cannot score a text: use openai-completions where the server has it, or leave %s out", kind.Key)
			}
		case kind.Has != nil && !kind.Has(*p):
			return refuse("has no %s: use one of %s, or leave %s out", kind.What, strings.Join(api.NamesOf(kind.Has), ", "), kind.Key)
		}
		return own, nil
	}
	const noText = "embeds or ranks and does not generate: " + meaningless
	switch {
	case !kind.Texts:
		return refuse(noText, kind.Key)
	case m.Prefix.IsRelated():
		return refuse(noText, "prefix: "+string(m.Prefix))
	case m.Interference > 0:
		return refuse(noText, "interference")
	}
	return own, nil
}

// Suits returns why a wire protocol cannot be asked what a module asks, and what
// to change; nil where it can, and for a name that is not known.
func Suits(apiName string, m *config.Module) error {
	p, ok := api.Lookup(apiName)
	if !ok {
		return nil
	}
	_, err := (&target{protocol: p}).forModule(m, KindOf(m))
	return err
}

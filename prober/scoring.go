package prober

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// askedFor returns how the target is asked for what a module wants. An error
// says that it cannot be, and what to change.
func (t *target) askedFor(m *config.Module) (target, error) {
	own := *t
	if t.protocol.Kind == api.Generation {
		if m.ReferenceLogprob {
			return own.scoring()
		}
		return own, nil
	}
	const instead = "the api %s embeds or ranks and does not generate: %s has no meaning there; leave it out"
	for _, wrong := range []struct {
		key string
		set bool
	}{
		{"prompt", m.Prompt != ""},
		{"prompts_file", m.PromptsFile != ""},
		{"questions", m.Questions},
		{"reference_logprob", m.ReferenceLogprob},
		{"prefix: paired", m.Prefix == config.PrefixPaired},
	} {
		if wrong.set {
			return own, fail(result.ProtocolError, instead, t.protocol.Name, wrong.key)
		}
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
	_, err := (&target{protocol: p}).askedFor(m)
	return err
}

// scoring makes the target one that scores a text: the protocol's other
// request, in one piece.
func (t target) scoring() (target, error) {
	how := t.protocol.Scoring
	t.protocol.Kind = api.Scoring
	if how == nil {
		return t, fail(result.ProtocolError, "the api %s cannot score a text: use openai-completions where the server has it, or leave reference_logprob out", t.protocol.Name)
	}
	p := &t.protocol
	p.Framing, p.MediaTypes = stream.Whole, []string{"application/json"}
	p.URL = func(base *url.URL, _ string) *url.URL { return how.URL(base) }
	p.Header = p.Header.Clone()
	if p.Header == nil {
		p.Header = http.Header{}
	}
	p.Header.Set("Accept", "application/json")
	p.Body = func(asked api.Params) ([]byte, error) { return how.Body(asked.Model, asked.Prompt) }
	p.NewDecoder = func() api.Decoder { return &scoring{parse: how.Parse} }
	return t, nil
}

// scoring decodes the reply that scores a text.
type scoring struct {
	parse func(body []byte) ([]float64, error)
	score result.Logprob
}

// Decode reads the reply, which is one frame.
func (s *scoring) Decode(_ string, data []byte, d *api.Delta) error {
	*d = api.Delta{Tokens: api.Unknown}
	logprobs, err := s.parse(data)
	if e, ok := errors.AsType[*api.ServerError](err); ok {
		d.Err = e
		return nil
	}
	if err != nil {
		return err
	}
	sum := 0.0
	for _, v := range logprobs {
		sum += v
	}
	if n := len(logprobs); n > 0 {
		s.score = result.Logprob{Tokens: n, Mean: sum / float64(n)}
	}
	d.Done = true
	return nil
}

// scoreVerdict checks that there is a score.
func (r *reply) scoreVerdict() error {
	switch {
	case !r.done:
		return r.incomplete()
	case r.result.Logprob.Tokens == 0:
		return fail(result.Empty, "complete reply without a score")
	}
	return nil
}

package prober

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/prober/api"
)

const (
	// answerBody bounds what is read of an answer to a question about the
	// server; questionTimeout limits all questions together.
	answerBody      = 1 << 20
	questionTimeout = 5 * time.Second
	// askAgain is the least time between two rounds of questions to an
	// endpoint that refuses what was found out before.
	askAgain = time.Minute
)

// target is what an endpoint serves.
type target struct {
	protocol api.Protocol
	engine   string // "" is not known
	model    string
}

// continuousUsage tells that the server counts tokens in every event when
// asked to. Others may reject the request for it as an unknown parameter.
func (t *target) continuousUsage() bool {
	return slices.Contains([]string{"vllm", "sglang", "trtllm"}, t.engine)
}

// exactLength tells that the server can be made to write on until the cap.
func (t *target) exactLength() bool {
	return slices.Contains([]string{"vllm", "sglang", "trtllm", "llamacpp"}, t.engine)
}

// engineOf returns the engine as a list of models names its owner; "" for
// owners that are no engine.
func engineOf(models []api.ModelInfo) string {
	for _, m := range models {
		switch m.OwnedBy {
		case "vllm", "sglang", "llamacpp":
			return m.OwnedBy
		case "tensorrt_llm":
			return "trtllm"
		case "library": // models pulled by Ollama
			return "ollama"
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

// get asks one question, over a connection of its own.
func (e *Endpoint) get(ctx context.Context, url string) (*http.Response, []byte, error) {
	a := newAttempt(nil, func() {})
	req, err := http.NewRequestWithContext(a.context(ctx), http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("ask %s: %w", url, err)
	}
	req.Header.Set("User-Agent", e.options.UserAgent)
	resp, err := e.transport.RoundTrip(req)
	if err != nil {
		return nil, nil, a.censor(roundTripFailure(ctx, a, err))
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, answerBody))
	if err != nil {
		c, _, _ := a.snapshot()
		return nil, nil, a.censor(bodyFailure(ctx, c, err))
	}
	return resp, body, nil
}

// models asks the server for its list of models.
func (e *Endpoint) models(ctx context.Context, list *api.ModelList) ([]api.ModelInfo, error) {
	resp, body, err := e.get(ctx, list.URL(e.cfg.URL.URL).String())
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("list the models: %w", statusFailure(resp, body))
	}
	models, err := list.Parse(body)
	if err != nil {
		return nil, fail(ProtocolError, "%w", err)
	}
	return models, nil
}

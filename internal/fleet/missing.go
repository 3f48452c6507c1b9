package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// runners returns what makes the runner of each module of an endpoint.
func (f *Fleet) runners(e *config.Endpoint) (func(*config.Module) (Runner, error), error) {
	if e.MissingSecret != "" {
		return func(*config.Module) (Runner, error) { return secretless{e}, nil }, nil
	}
	return f.Network.Runners(e)
}

// secretless leaves out every probe of an endpoint whose secret is missing, so that
// nothing is sent without it.
type secretless struct{ endpoint *config.Endpoint }

// Run implements Runner.
func (s secretless) Run(context.Context, time.Time) ([]*result.Result, *result.Skip) {
	return nil, &result.Skip{Reason: result.SkipSecret, Text: missingSecret(s.endpoint)}
}

// Close implements Runner.
func (secretless) Close() {}

// missingSecret says what is missing, and what to do.
func missingSecret(e *config.Endpoint) string {
	return fmt.Sprintf("a secret is missing (%s); set it and reload", e.MissingSecret)
}

package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/prober"
)

// Network makes what asks endpoints and their servers. A simulation of hours has one that sends nothing.
type Network interface {
	// Runners returns what makes the runner of each module of an endpoint.
	Runners(e *config.Endpoint) (func(*config.Module) (Runner, error), error)
	// Reader returns the reader of the pages of an endpoint's servers.
	Reader(e *config.Endpoint, m *page.Mappings) (Reader, error)
}

// Runner probes an endpoint with a module, as prober.Prober does.
type Runner interface {
	Run(ctx context.Context, due time.Time) ([]*result.Result, *result.Skip)
	Close()
}

// Reader reads the pages of the servers of an endpoint, as page.Endpoint does.
type Reader interface {
	Scrape(ctx context.Context, known page.Known) []page.Status
	Close()
}

// network is the real one.
type network struct {
	dialer  *prober.Dialer
	secrets *safetext.Secrets
}

func (n network) Runners(e *config.Endpoint) (func(*config.Module) (Runner, error), error) {
	endpoint, err := prober.NewEndpoint(e, prober.Options{Dialer: n.dialer, UserAgent: UserAgent(), Secrets: n.secrets})
	if err != nil {
		return nil, err
	}
	return func(m *config.Module) (Runner, error) { return endpoint.NewProber(m) }, nil
}

func (n network) Reader(e *config.Endpoint, m *page.Mappings) (Reader, error) {
	return page.New(e, page.Options{Mappings: m, UserAgent: UserAgent(), Secrets: n.secrets})
}

// readerWith returns a reader of the pages of an endpoint by the built-in mappings and by engines of a configuration.
func (n network) readerWith(engines map[string]*config.Mapping, e *config.Endpoint) (Reader, error) {
	return n.Reader(e, page.NewMappings(page.Servers, engines))
}

func (f *Fleet) runners(e *config.Endpoint) (func(*config.Module) (Runner, error), error) {
	if e.MissingSecret != "" {
		return func(*config.Module) (Runner, error) { return secretless{e}, nil }, nil
	}
	return f.Network.Runners(e)
}

// secretless leaves out every probe of an endpoint whose secret is missing: nothing is sent without it.
type secretless struct{ endpoint *config.Endpoint }

func (s secretless) Run(context.Context, time.Time) ([]*result.Result, *result.Skip) {
	return nil, &result.Skip{Reason: result.SkipSecret, Text: missingSecret(s.endpoint)}
}

func (secretless) Close() {}

func missingSecret(e *config.Endpoint) string {
	return fmt.Sprintf("a secret is missing (%s); set it and reload", e.MissingSecret)
}

package fleet

import (
	"context"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/prober"
)

// Network makes what asks endpoints and their servers. A simulation of hours has one
// that sends nothing.
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

// Runners implements Network.
func (n network) Runners(e *config.Endpoint) (func(*config.Module) (Runner, error), error) {
	endpoint, err := prober.NewEndpoint(e, prober.Options{Dialer: n.dialer, UserAgent: UserAgent(), Secrets: n.secrets})
	if err != nil {
		return nil, err
	}
	return func(m *config.Module) (Runner, error) { return endpoint.NewProber(m) }, nil
}

// Reader implements Network.
func (n network) Reader(e *config.Endpoint, m *page.Mappings) (Reader, error) {
	return page.New(e, page.Options{Mappings: m, UserAgent: UserAgent(), Secrets: n.secrets})
}

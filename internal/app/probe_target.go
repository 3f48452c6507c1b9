package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/prober"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// maxModelName bounds the name of a model that a request names, as the
// configuration does.
const maxModelName = 256

// probeTarget is an endpoint and a module to probe on request.
type probeTarget struct {
	endpoint *config.Endpoint
	module   *config.Module
	name     string // of the module
}

// newProbeTarget puts a target together; "" leaves api and model as they are.
func newProbeTarget(e *config.Endpoint, modules map[string]*config.Module, module, apiName, model string) (*probeTarget, error) {
	m, ok := modules[module]
	if !ok {
		return nil, fmt.Errorf("unknown module %.64q; known: %s", module, strings.Join(slices.Sorted(maps.Keys(modules)), ", "))
	}
	own := *e
	if apiName != "" {
		if _, ok := api.Lookup(apiName); !ok {
			return nil, fmt.Errorf("unknown api %.64q; known: %s", apiName, strings.Join(api.Names(), ", "))
		}
		own.API = apiName
	}
	if err := setModel(&own, model); err != nil {
		return nil, err
	}
	return &probeTarget{endpoint: &own, module: m, name: module}, nil
}

// setModel sets the model to ask an endpoint for; "" leaves it as it is.
func setModel(e *config.Endpoint, model string) error {
	if model == "" {
		return nil
	}
	if len(model) > maxModelName || strings.ContainsFunc(model, unicode.IsControl) {
		return fmt.Errorf("model %.64q: want at most %d bytes without control characters", model, maxModelName)
	}
	e.Model = model
	return nil
}

// named is the target in the words of a report.
func (t *probeTarget) named() result.Target {
	return result.Target{Endpoint: t.endpoint.Name, URL: t.endpoint.URL.String(), Module: t.name, Price: t.endpoint.Price}
}

// targetProber asks a target all that its module asks.
type targetProber struct{ rungs []rungProber }

type rungProber struct {
	config.Rung
	prober *prober.Prober
}

// rungResults are the results of one rung of a module.
type rungResults struct {
	config.Rung
	results []*result.Result
	skip    *result.Skip // why there are none; nil where there are
}

// newProber returns a prober of the target, which must be closed.
func (t *probeTarget) newProber(d *prober.Dialer) (*targetProber, error) {
	e, err := prober.NewEndpoint(t.endpoint, prober.Options{Dialer: d, UserAgent: userAgent()})
	if err != nil {
		return nil, err
	}
	all := &targetProber{}
	for _, rung := range t.module.Rungs() {
		p, err := e.NewProber(rung.Module)
		if err != nil {
			all.close()
			return nil, err
		}
		all.rungs = append(all.rungs, rungProber{rung, p})
	}
	return all, nil
}

func (p *targetProber) close() {
	for _, r := range p.rungs {
		r.prober.Close()
	}
}

// run asks once, under a limit beside those of the module; 0 is none. The limit
// makes a timeout of what it ends, unlike the end of ctx. A length that the
// model has no room for is left out.
func (p *targetProber) run(ctx context.Context, limit time.Duration) []rungResults {
	limited, stop := ctx, context.CancelFunc(func() {})
	if limit > 0 {
		limited, stop = context.WithTimeoutCause(ctx, limit, fmt.Errorf("not finished within %s, the limit of the scraper", limit))
	}
	defer stop()
	var all []rungResults
	for _, r := range p.rungs {
		results, skip := r.prober.Run(limited, time.Time{})
		all = append(all, rungResults{r.Rung, results, skip})
	}
	return all
}

// flat returns the results of all rungs.
func flat(all []rungResults) []*result.Result {
	var results []*result.Result
	for _, r := range all {
		results = append(results, r.results...)
	}
	return results
}

// firstSkip returns why the first rung that was skipped measured nothing; nil where
// every rung measured.
func firstSkip(all []rungResults) *result.Skip {
	for _, r := range all {
		if r.skip != nil {
			return r.skip
		}
	}
	return nil
}

// findEndpoint returns the endpoint of that name or, if there is none, the
// first of that URL; nil if there is none either.
func findEndpoint(endpoints []*config.Endpoint, target string) *config.Endpoint {
	is := func(same func(*config.Endpoint) bool) *config.Endpoint {
		if i := slices.IndexFunc(endpoints, same); i >= 0 {
			return endpoints[i]
		}
		return nil
	}
	if e := is(func(e *config.Endpoint) bool { return e.Name == target }); e != nil {
		return e
	}
	return is(func(e *config.Endpoint) bool {
		return strings.TrimSuffix(e.URL.String(), "/") == strings.TrimSuffix(target, "/")
	})
}

// endpointAt returns an endpoint at a URL with defaults for all else.
func endpointAt(target string) (*config.Endpoint, error) {
	cfg, err := config.FromURLs([]string{target})
	if e, ok := errors.AsType[*config.Error](err); ok {
		return nil, errors.New(e.Msg) // without the place in a file that there is not
	}
	if err != nil {
		return nil, err
	}
	return cfg.Endpoints[0], nil
}

// isURL tells a URL from a name.
func isURL(target string) bool { return strings.Contains(target, "://") }

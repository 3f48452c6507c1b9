package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	probereport "github.com/inference-exporter/inference_exporter/internal/report"
	"github.com/inference-exporter/inference_exporter/prober"
	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/web"
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
	if model != "" {
		if len(model) > maxModelName || strings.ContainsFunc(model, unicode.IsControl) {
			return nil, fmt.Errorf("model %.64q: want at most %d bytes without control characters", model, maxModelName)
		}
		own.Model = model
	}
	return &probeTarget{endpoint: &own, module: m, name: module}, nil
}

// named is the target in the words of a report.
func (t *probeTarget) named() probereport.Target {
	return probereport.Target{Endpoint: t.endpoint.Name, URL: t.endpoint.URL.String(), Module: t.name}
}

// newProber returns a prober of the target, which must be closed.
func (t *probeTarget) newProber(d *prober.Dialer) (*prober.Prober, error) {
	e, err := prober.NewEndpoint(t.endpoint, prober.Options{Dialer: d, UserAgent: userAgent()})
	if err != nil {
		return nil, err
	}
	return e.New(t.module)
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

// onDemand probes once on request, for the page /probe.
type onDemand struct {
	endpoints []*config.Endpoint
	modules   map[string]*config.Module
	labels    map[string]string // of targets that are no configured endpoint
	allows    func(*url.URL) bool
	dialer    *prober.Dialer
	kept      *keptProbers
}

func newOnDemand(cfg *config.Config, d *prober.Dialer) *onDemand {
	return &onDemand{
		endpoints: cfg.Endpoints, modules: cfg.Modules, labels: cfg.Global.Labels,
		allows: cfg.Probe.Allows, dialer: d, kept: newKeptProbers(d),
	}
}

// Probe probes a configured endpoint, or a URL at a host that the
// configuration allows.
func (d *onDemand) Probe(ctx context.Context, r web.ProbeRequest) (*web.ProbeAnswer, error) {
	e, err := d.endpoint(r.Target)
	if err != nil {
		return nil, err
	}
	module := r.Module
	if module == "" {
		module = config.Interactive
	}
	t, err := newProbeTarget(e, d.modules, module, r.API, r.Model)
	if err != nil {
		return nil, &web.Refusal{Reason: err.Error()}
	}
	result, err := d.probe(ctx, e, t, &r)
	if err != nil {
		return nil, err
	}
	return &web.ProbeAnswer{
		Metrics: metricsOf(t, result),
		Report: func(w io.Writer) error {
			return probereport.Text(w, t.named(), result, probereport.Options{Width: reportWidth})
		},
	}, nil
}

// probe probes t at e. A target other than the file says has a prober of its
// own, for this once.
func (d *onDemand) probe(ctx context.Context, e *config.Endpoint, t *probeTarget, r *web.ProbeRequest) (*prober.Result, error) {
	if r.API == "" && r.Model == "" && slices.Contains(d.endpoints, e) {
		return d.kept.probe(ctx, e, t, r.Limit)
	}
	p, err := t.newProber(d.dialer)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return probeWithin(ctx, p, r.Limit), nil
}

// close drops what the probers keep. No probe may run with a context that
// goes on.
func (d *onDemand) close() { d.kept.close() }

// endpoint returns what a target names. The page must be no way to reach what
// only this machine can: other hosts are refused before anything is sent.
func (d *onDemand) endpoint(target string) (*config.Endpoint, error) {
	if e := findEndpoint(d.endpoints, target); e != nil {
		return e, nil
	}
	if !isURL(target) {
		return nil, &web.Refusal{Reason: fmt.Sprintf("target %.64q is the name of no endpoint, and no URL", target)}
	}
	e, err := endpointAt(target)
	if err != nil {
		return nil, &web.Refusal{Reason: "parameter target: " + err.Error()}
	}
	if !d.allows(e.URL.URL) {
		return nil, &web.Refusal{Forbidden: true, Reason: fmt.Sprintf(
			"host %.64q is neither that of an endpoint's URL as configured nor listed under probe.allow", e.URL.Host)}
	}
	e.Labels = d.labels
	return e, nil
}

// probeWithin probes under a limit beside the module's; 0 is none. The limit
// makes a timeout of what it ends, unlike the end of ctx.
func probeWithin(ctx context.Context, p *prober.Prober, limit time.Duration) *prober.Result {
	if limit == 0 {
		return p.Probe(ctx, time.Time{})
	}
	limited, stop := context.WithTimeout(ctx, limit)
	defer stop()
	r := p.Probe(limited, time.Time{})
	if limited.Err() == nil || ctx.Err() != nil || r.Outcome == prober.Success {
		return r
	}
	ended := *r
	ended.Outcome, ended.Err = prober.TimeoutTotal, fmt.Errorf("not finished within %s, the limit of the scraper", limit)
	return &ended
}

// metricsOf is the page of one result: the families of the daemon, with one
// series.
func metricsOf(t *probeTarget, r *prober.Result) web.Exposition {
	probes := collector.NewProbes(time.Now)
	e := t.endpoint
	probes.SetEndpoint(collector.EndpointInfo{
		Endpoint: e.Name, Model: r.Model, API: r.API, Engine: r.Engine, URL: e.URL.String(), Labels: e.Labels,
		Hardware: e.Hardware,
	})
	s := probes.Series(collector.ID{
		Endpoint: e.Name, Module: t.name, Prefix: string(t.module.Prefix), Labels: e.Labels,
	})
	s.SetSLO(e.SLOWith(t.module))
	s.SetPace(time.Duration(t.module.Interval), time.Duration(t.module.Timeout))
	s.Observe(r)
	s.Judge(r)
	return collector.NewExposition(prometheus.NewRegistry(), probes)
}

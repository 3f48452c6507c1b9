package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	probereport "github.com/inference-exporter/inference_exporter/internal/report"
	"github.com/inference-exporter/inference_exporter/prober"
	"github.com/inference-exporter/inference_exporter/web"
)

// onDemand probes once on request, for the page /probe.
type onDemand struct {
	dialer  *prober.Dialer
	kept    *keptProbers
	budgets *budgets
	targets atomic.Pointer[targets] // of the configuration in force
}

// targets are what may be probed on request.
type targets struct {
	endpoints []*config.Endpoint
	modules   map[string]*config.Module
	labels    map[string]string // of targets that are no known endpoint
	allows    func(*url.URL) bool
}

func newOnDemand(d *prober.Dialer, b *budgets) *onDemand {
	o := &onDemand{dialer: d, kept: newKeptProbers(d), budgets: b}
	o.targets.Store(&targets{allows: func(*url.URL) bool { return false }})
	return o
}

// use makes these endpoints and modules, and the hosts that cfg allows, what may be
// probed.
func (d *onDemand) use(cfg *config.Config, modules map[string]*config.Module, endpoints []*config.Endpoint) {
	d.targets.Store(&targets{
		endpoints: endpoints, modules: modules, labels: cfg.Global.Labels, allows: cfg.Probe.Allows,
	})
	known := make(map[*config.Endpoint]bool, len(endpoints))
	for _, e := range endpoints {
		known[e] = true
	}
	d.kept.keep(func(k keptKey) bool { return known[k.endpoint] && modules[k.name] == k.module })
}

// Probe probes a configured endpoint, or a URL at a host that the
// configuration allows.
func (d *onDemand) Probe(ctx context.Context, r web.ProbeRequest) (*web.ProbeAnswer, error) {
	all := d.targets.Load()
	e, err := all.endpoint(r.Target)
	if err != nil {
		return nil, err
	}
	module := r.Module
	if module == "" {
		module = config.Interactive
	}
	t, err := newProbeTarget(e, all.modules, module, r.API, r.Model)
	if err != nil {
		return nil, &web.Refusal{Reason: err.Error()}
	}
	results, err := d.probe(ctx, e, t, &r, slices.Contains(all.endpoints, e))
	if err != nil {
		return nil, err
	}
	return &web.ProbeAnswer{
		Metrics: metricsOf(t, results),
		Report: func(w io.Writer) error {
			return probereport.Text(w, t.named(), flat(results), firstSkip(results), probereport.Options{Width: reportWidth})
		},
		TimedOut: slices.ContainsFunc(flat(results), func(r *result.Result) bool { return r.Outcome.IsTimeout() }),
	}, nil
}

// probe probes t at e. A target other than the file says has a prober of its
// own, for this once.
func (d *onDemand) probe(ctx context.Context, e *config.Endpoint, t *probeTarget, r *web.ProbeRequest, configured bool) (results []rungResults, err error) {
	allowed := allowanceOf(t, configured, d.budgets)
	if !allowed.reserve() {
		return nil, &web.Refusal{Busy: true, Reason: "the budget has no room for a probe"}
	}
	defer func() { allowed.settle(results) }()
	if r.API == "" && r.Model == "" && configured {
		return d.kept.probe(ctx, e, t, r.Limit)
	}
	p, err := t.newProber(d.dialer)
	if err != nil {
		return nil, err
	}
	defer p.close()
	return p.run(ctx, r.Limit), nil
}

// close drops what the probers keep. No probe may run with a context that
// goes on.
func (d *onDemand) close() { d.kept.close() }

// endpoint returns what a target names. The page must be no way to reach what
// only this machine can: other hosts are refused before anything is sent.
func (t *targets) endpoint(target string) (*config.Endpoint, error) {
	if e := findEndpoint(t.endpoints, target); e != nil {
		return e, nil
	}
	if !isURL(target) {
		return nil, &web.Refusal{Reason: fmt.Sprintf("target %.64q is the name of no endpoint, and no URL", target)}
	}
	e, err := endpointAt(target)
	if err != nil {
		return nil, &web.Refusal{Reason: "parameter target: " + err.Error()}
	}
	if !t.allows(e.URL.URL) {
		return nil, &web.Refusal{Forbidden: true, Reason: fmt.Sprintf(
			"host %.64q is neither that of an endpoint's URL as configured nor listed under probe.allow", e.URL.Host)}
	}
	e.Labels = t.labels
	return e, nil
}

// metricsOf is the page of what one request asked: the families of the daemon,
// with the series of one module.
func metricsOf(t *probeTarget, all []rungResults) web.Exposition {
	probes := collector.NewProbes(time.Now)
	e := t.endpoint
	info := collector.EndpointInfo{
		Endpoint: e.Name, Model: e.Model, API: e.API, URL: e.URL.String(), Labels: e.Labels, Hardware: e.Hardware, Price: e.Price,
	}
	shared := newAsking(e, t.name, t.module, slog.New(slog.DiscardHandler))
	shared.series = probes.Findings(shared.id)
	for _, rung := range all {
		series := openSeries(probes, e, rung.Module, rungID(e, t.name, rung.Rung))
		if rung.skip != nil {
			series[0].Skip(rung.skip.Reason)
			for _, r := range rung.skip.Spent {
				info.Model, info.API, info.Engine = r.Model, r.API, r.Engine
				series.of(r).Spend(r)
			}
		}
		for _, r := range rung.results {
			info.Model, info.API, info.Engine = r.Model, r.API, r.Engine
			s := series.of(r)
			s.Observe(r)
			s.Judge(r)
		}
		shared.observe(rung.results)
	}
	probes.SetEndpoint(info)
	return collector.NewExposition(prometheus.NewRegistry(), probes)
}

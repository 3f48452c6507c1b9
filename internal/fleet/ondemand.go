package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/report"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober"
)

// ProbeRequest is what to probe, as the client asks; "" is not given.
type ProbeRequest struct {
	// Target is the name or the URL of an endpoint.
	Target string
	// Module, API and Model replace the defaults.
	Module, API, Model string
	// Limit is how long the probe may take at most; 0 is as long as the module allows.
	Limit time.Duration
}

// ProbeAnswer is the result of one probe.
type ProbeAnswer struct {
	// Metrics are the metrics of this probe alone.
	Metrics interface {
		Write(w io.Writer, format expfmt.Format) error
	}
	// Report writes the result for people.
	Report func(io.Writer) error
	// TimedOut reports that the target did not answer in time.
	TimedOut bool
}

// Refusal is a probe that is not run, and why.
type Refusal struct {
	// Forbidden is a target that is not allowed, Busy a probe without a slot, and anything else a bad request.
	Forbidden, Busy bool
	// Reason is for the client: one line without secrets.
	Reason string
}

// Error returns the reason.
func (r *Refusal) Error() string { return r.Reason }

// targets are what may be probed on request. They are never changed once they are in use.
type targets struct {
	endpoints []*config.Endpoint
	modules   map[string]*config.Module
	labels    map[string]string // of targets that are no known endpoint
	allows    func(*url.URL) bool
}

// Probe probes a configured endpoint, or a URL at a host that the configuration allows. An error means that it did not
// probe; a *Refusal says what is wrong with the request. It is safe for concurrent use.
func (f *Fleet) Probe(ctx context.Context, r ProbeRequest) (*ProbeAnswer, error) {
	all := f.active.Load().onRequest
	e, err := all.endpoint(r.Target)
	if err != nil {
		return nil, err
	}
	t, err := NewTarget(e, all.modules, cmp.Or(r.Module, config.Interactive), r.API, r.Model)
	if err != nil {
		return nil, &Refusal{Reason: err.Error()}
	}
	results, err := f.probeOnce(ctx, e, t, &r, slices.Contains(all.endpoints, e))
	if err != nil {
		return nil, err
	}
	return &ProbeAnswer{
		Metrics: metricsOf(t, results),
		Report: func(w io.Writer) error {
			return report.Text(w, t.Report(), results.All(), results.Skip(), report.Options{})
		},
		TimedOut: slices.ContainsFunc(results.All(), func(r *result.Result) bool { return r.Outcome.IsTimeout() }),
	}, nil
}

// probeOnce probes t at e. A target other than the file says has a prober of its own.
func (f *Fleet) probeOnce(ctx context.Context, e *config.Endpoint, t Target, r *ProbeRequest, configured bool) (results Results, err error) {
	allowed := allowanceOf(t, configured, f.budgets)
	if !allowed.reserve() {
		return nil, &Refusal{Busy: true, Reason: "the budget has no room for a probe"}
	}
	defer func() { allowed.settle(results) }()
	if r.API == "" && r.Model == "" && configured {
		return f.probers.probe(ctx, e, t, r.Limit)
	}
	p, err := t.NewProber(f.dialer)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return p.Run(ctx, r.Limit), nil
}

// endpoint returns what a target names. The page must not reach what only this machine can: other hosts are refused.
func (t targets) endpoint(target string) (*config.Endpoint, error) {
	if e := FindEndpoint(t.endpoints, target); e != nil {
		return e, nil
	}
	if !IsURL(target) {
		return nil, &Refusal{Reason: fmt.Sprintf("no endpoint named %.64q, and it is not a URL", target)}
	}
	e, err := EndpointAt(target)
	if err != nil {
		return nil, &Refusal{Reason: "parameter target: " + err.Error()}
	}
	if t.allows == nil || !t.allows(e.URL.URL) {
		return nil, &Refusal{Forbidden: true, Reason: fmt.Sprintf(
			"host %.64q is neither that of an endpoint's URL as configured nor listed under probe.allow", e.URL.Host)}
	}
	e.Labels = t.labels
	return e, nil
}

// metricsOf is the page of one request: the families of the daemon, with the series of one module.
func metricsOf(t Target, all Results) *collector.Exposition {
	probes := collector.NewProbes(time.Now)
	e := t.Endpoint
	shown := probes.OpenEndpoint(collector.EndpointInfo{
		Endpoint: e.Name, Model: e.Model, API: e.API, URL: e.URL.String(), Labels: e.Labels, Hardware: e.Hardware, Price: e.Price,
	})
	together, tracker := shown.OpenFindings(t.Name), t.Tracker(nil)
	for _, rung := range all {
		series := openSeries(shown, rung.Target)
		if rung.Skip != nil {
			series[0].metrics.Skip(rung.Skip.Reason)
			for _, r := range result.Spent(nil, rung.Skip) {
				shown.SetServed(r)
				series.of(r).metrics.Spend(r)
			}
		}
		for _, r := range rung.Results {
			for _, b := range r.Beside {
				series.of(b).metrics.Spend(b)
			}
			shown.SetServed(r)
			series.of(r).observe(&observe(rung.Target, r, false, false).Observation)
		}
		together.Set(tracker.Observe(rung.Results))
	}
	return collector.NewExposition(prometheus.NewRegistry(), probes)
}

// keptProbers are the probers of configured endpoints. They stay from one request to the next, because they learn: what
// the endpoint serves, and how many tokens a prompt has there. It is safe for concurrent use.
type keptProbers struct {
	dialer *prober.Dialer

	mu      sync.Mutex
	probers map[keptKey]*keptProber
	closed  bool
}

type keptKey struct {
	endpoint *config.Endpoint
	module   *config.Module
	name     string // of the module
}

// keptProber is a prober and the right to use it, which one request has at a time.
type keptProber struct {
	slot   chan struct{}
	prober *Prober
}

// probe probes t, a target at the configured endpoint e. The limit, 0 for the module's, includes the wait for other probes.
func (k *keptProbers) probe(ctx context.Context, e *config.Endpoint, t Target, limit time.Duration) (Results, error) {
	kept, err := k.get(e, t)
	if err != nil {
		return nil, err
	}
	start, wait := time.Now(), cmp.Or(limit, time.Duration(t.Timeout))
	waiting, stop := context.WithTimeoutCause(ctx, wait, &Refusal{
		Busy: true, Reason: fmt.Sprintf("another probe of this endpoint and module did not end within %s", wait),
	})
	defer stop()
	select {
	case kept.slot <- struct{}{}:
	case <-waiting.Done():
		return nil, context.Cause(waiting)
	}
	defer func() { <-kept.slot }()
	if limit > 0 {
		limit = max(1, limit-time.Since(start))
	}
	return kept.prober.Run(ctx, limit), nil
}

func (k *keptProbers) get(e *config.Endpoint, t Target) (*keptProber, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, errors.New("probe on request: the exporter stops")
	}
	key := keptKey{e, t.Module, t.Name}
	if kept := k.probers[key]; kept != nil {
		return kept, nil
	}
	p, err := t.NewProber(k.dialer)
	if err != nil {
		return nil, err
	}
	kept := &keptProber{slot: make(chan struct{}, 1), prober: p}
	k.probers[key] = kept
	return kept, nil
}

// keep closes the probers of what may no longer be probed. One in use stays until the next time.
func (k *keptProbers) keep(all targets) {
	known := make(map[*config.Endpoint]bool, len(all.endpoints))
	for _, e := range all.endpoints {
		known[e] = true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.probers, func(key keptKey, kept *keptProber) bool {
		if known[key.endpoint] && all.modules[key.name] == key.module {
			return false
		}
		select {
		case kept.slot <- struct{}{}: // for good: a request that waits gives up
			kept.prober.Close()
			return true
		default:
			return false
		}
	})
}

// close waits for the probes that run, whose contexts must have ended, and closes the probers, so that none is used again.
func (k *keptProbers) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	for _, kept := range k.probers {
		kept.slot <- struct{}{}
		kept.prober.Close()
	}
}

package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/load"
	"github.com/inference-exporter/inference_exporter/prober"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// maxModelName bounds the name of a model that a request names, as the configuration does.
const maxModelName = 256

// Target is an endpoint and a module to probe it with, or one rung of the module.
type Target struct {
	Endpoint *config.Endpoint
	Name     string // of the module
	config.Rung
	// promised is what a probe is held against, also of bursts, which are compared with its TTFT alone.
	promised *series.Objectives
}

func newTarget(e *config.Endpoint, name string, m *config.Module) Target {
	return Target{e, name, config.Rung{Module: m}, series.NewObjectives(e.SLOWith(m))}
}

// objectives are those by which the probes of the target are judged; nil is none.
func (t Target) objectives() *series.Objectives {
	if !t.Judged() {
		return nil
	}
	return t.promised
}

func targetsOf(e *config.Endpoint, modules map[string]*config.Module) []Target {
	return stats.Map(e.Modules, func(name string) Target { return newTarget(e, name, modules[name]) })
}

func (t Target) rungs() []Target {
	return stats.Map(t.Rungs(), func(rung config.Rung) Target { return Target{t.Endpoint, t.Name, rung, t.promised} })
}

func (t Target) id() result.SeriesID {
	return result.SeriesID{Endpoint: t.Endpoint.Name, Module: t.Name, InputTokens: t.InputLabel, OutputTokens: t.OutputLabel}
}

// key places the runs of the target on their grid: the rungs of a ladder at different times.
func (t Target) key() string {
	key := t.Endpoint.Name + "\x00" + t.Name
	if t.InputLabel != "" || t.OutputLabel != "" {
		key += "\x00" + t.InputLabel + "\x00" + t.OutputLabel
	}
	return key
}

// countsWaiting reports whether users who wait while a probe does count for the TTFT.
func (t Target) countsWaiting() bool { return t.Judged() && t.promised.CorrectCoordinatedOmission }

// Tracker returns a tracker of what the results of the target show together; users are the endpoint's, nil is not known.
func (t Target) Tracker(users *load.Traffic) *workload.Tracker {
	return workload.NewTracker(time.Now, func() []workload.Estimate {
		all := prober.Estimates(t.Endpoint, t.Module)
		if t.Traffic != nil {
			load.Follow(all, users)
		}
		return all
	})
}

// NewTarget puts a target together; "" leaves api and model as they are.
func NewTarget(e *config.Endpoint, modules map[string]*config.Module, module, apiName, model string) (Target, error) {
	m, ok := modules[module]
	if !ok {
		return Target{}, fmt.Errorf("unknown module %.64q%s", module, config.Hint(module, "known", slices.Sorted(maps.Keys(modules))))
	}
	own := *e
	if apiName != "" {
		if _, ok := api.Lookup(apiName); !ok {
			return Target{}, fmt.Errorf("unknown api %.64q%s", apiName, config.Hint(apiName, "known", api.Names()))
		}
		own.API = apiName
	}
	if err := SetModel(&own, model); err != nil {
		return Target{}, err
	}
	return newTarget(&own, module, m), nil
}

// With returns the target with another module under the name of its own.
func (t Target) With(m *config.Module) Target { return newTarget(t.Endpoint, t.Name, m) }

// SetModel sets the model that an endpoint is asked for; "" leaves it as it is.
func SetModel(e *config.Endpoint, model string) error {
	if model == "" {
		return nil
	}
	if len(model) > maxModelName || strings.ContainsFunc(model, unicode.IsControl) {
		return fmt.Errorf("model %.64q: want at most %d bytes without control characters", model, maxModelName)
	}
	e.Model = model
	return nil
}

// Report is the target in the words of a report.
func (t Target) Report() result.Target {
	return result.Target{Endpoint: t.Endpoint.Name, URL: t.Endpoint.URL.String(), Module: t.Name, Price: t.Endpoint.Price}
}

// Prober probes a target with all rungs of its module.
type Prober struct{ rungs []rungProber }

type rungProber struct {
	Target
	prober *prober.Prober
}

// NewProber returns a prober of the target, which must be closed.
func (t Target) NewProber(d *prober.Dialer) (*Prober, error) {
	all, err := t.NewProbers(d, 1)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// NewProbers returns n probers of the target that may probe at once. Each must be closed; they identify it once together.
func (t Target) NewProbers(d *prober.Dialer, n int) ([]*Prober, error) {
	if t.Load != nil {
		return nil, &Refusal{Reason: fmt.Sprintf("module %q is a load test, and no probe; the command load runs it", t.Name)}
	}
	if t.Endpoint.MissingSecret != "" {
		return nil, errors.New(missingSecret(t.Endpoint))
	}
	e, err := prober.NewEndpoint(t.Endpoint, prober.Options{Dialer: d, UserAgent: UserAgent()})
	if err != nil {
		return nil, err
	}
	all := make([]*Prober, n)
	for i := range all {
		all[i] = new(Prober)
		for _, rung := range t.rungs() {
			p, err := e.NewProber(rung.Module)
			if err != nil {
				return nil, err // the others have kept no connection
			}
			all[i].rungs = append(all[i].rungs, rungProber{rung, p})
		}
	}
	return all, nil
}

// Close closes the connections that are kept.
func (p *Prober) Close() {
	for _, r := range p.rungs {
		r.prober.Close()
	}
}

// Run probes once, under a limit beside those of the module; 0 is none. The limit makes a timeout of what it ends,
// unlike the end of ctx. A length that the model has no room for is left out.
func (p *Prober) Run(ctx context.Context, limit time.Duration) Results {
	limited, stop := ctx, context.CancelFunc(func() {})
	if limit > 0 {
		limited, stop = context.WithTimeoutCause(ctx, limit, fmt.Errorf("timed out after %s, the limit of the scraper", limit))
	}
	defer stop()
	var all Results
	for _, r := range p.rungs {
		results, skip := r.prober.Run(limited, time.Time{})
		all = append(all, RungResults{r.Target, results, skip})
	}
	return all
}

// Results are those of a run of all rungs of a module.
type Results []RungResults

// RungResults are the results of one rung of a module.
type RungResults struct {
	Target
	Results []*result.Result
	Skip    *result.Skip // why there are none; nil where there are
}

// All returns the results of all rungs.
func (r Results) All() []*result.Result {
	return slices.Concat(stats.Map(r, func(rung RungResults) []*result.Result { return rung.Results })...)
}

// Skip returns why the first rung that was skipped measured nothing; nil where every rung measured.
func (r Results) Skip() *result.Skip {
	for _, rung := range r {
		if rung.Skip != nil {
			return rung.Skip
		}
	}
	return nil
}

// FindEndpoint returns the endpoint of that name, else the first of that URL, else nil.
func FindEndpoint(endpoints []*config.Endpoint, target string) *config.Endpoint {
	var found *config.Endpoint
	for _, e := range endpoints {
		if e.Name == target {
			return e
		}
		if found == nil && strings.TrimSuffix(e.URL.String(), "/") == strings.TrimSuffix(target, "/") {
			found = e
		}
	}
	return found
}

// EndpointAt returns an endpoint at a URL with defaults for all else.
func EndpointAt(target string) (*config.Endpoint, error) {
	cfg, err := config.FromURLs([]string{target})
	if e, ok := errors.AsType[*config.Error](err); ok {
		return nil, errors.New(e.Msg) // without the place in a file that there is not
	}
	if err != nil {
		return nil, err
	}
	return cfg.Endpoints[0], nil
}

// IsURL reports whether a target is a URL, not a name.
func IsURL(target string) bool { return strings.Contains(target, "://") }

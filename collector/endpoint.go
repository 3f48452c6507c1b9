package collector

import (
	"cmp"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
)

// EndpointInfo describes an endpoint.
type EndpointInfo struct {
	// Endpoint is the unique name.
	Endpoint string
	// Model, API, Engine and URL are what the endpoint serves, the wire
	// protocol it speaks, its software and where it is. Unknown is empty; the
	// URL has no credentials.
	Model, API, Engine, URL string
	// Labels are the configured labels, as in SeriesOptions.
	Labels map[string]string
	// Hardware is what the endpoint runs on, nil when that is not configured. It
	// must not be changed afterwards.
	Hardware *config.Hardware
	// Price is what the endpoint costs, nil when that is not configured. It must
	// not be changed afterwards.
	Price *config.Price
	// Budget returns the used shares of the endpoint's budgets, 1 for all of it;
	// negative for a budget that there is not. It is called for each page and
	// must return at once; nil is no budget.
	Budget func() (tokens, usd float64)
}

// endpointInfoFamily describes the family of the endpoints' descriptions.
func endpointInfoFamily() *family {
	return newFamily(Family{
		Name: "endpoint_info", Group: GroupEndpoint, Type: Gauge,
		Help: "Always 1. What is known of an endpoint: the model it serves, the API it speaks, its engine and its URL.",
	}, []string{"endpoint", "model", "api", "engine", "url"}, nil)
}

// WatchGPUs makes the GPUs of this machine known, for endpoints whose hardware
// names them by UUID only. It must be called before the first page; snapshot is
// as for NewGPU.
func (p *Probes) WatchGPUs(snapshot func() *gpu.Snapshot) { p.gpus = snapshot }

// SetEndpoint adds an endpoint, or changes what is known of it.
func (p *Probes) SetEndpoint(info EndpointInfo) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setEndpoint(info)
}

// SetServed takes from a result what an endpoint that was added serves. It
// changes nothing for one that was removed, as a probe may end after its
// endpoint went.
func (p *Probes) SetServed(name string, r *result.Result) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e, ok := p.endpoints[name]
	if !ok {
		return
	}
	info := e.info
	info.Model, info.API, info.Engine = cmp.Or(r.Model, info.Model), cmp.Or(r.API, info.API), cmp.Or(r.Engine, info.Engine)
	if info.Model != e.info.Model || info.API != e.info.API || info.Engine != e.info.Engine {
		p.setEndpoint(info)
	}
}

func (p *Probes) setEndpoint(info EndpointInfo) {
	e := &endpoint{info: info, block: newLabelBlock([]pair{
		{"endpoint", info.Endpoint}, {"model", boundModel(info.Model)}, {"api", info.API}, {"engine", info.Engine}, {"url", info.URL},
	}, info.Labels, p.reserved)}
	if info.Hardware != nil {
		e.hardware = newHardware(info, p.reserved)
	}
	if info.Price != nil || info.Budget != nil {
		e.spending = newSpending(info, p.reserved)
	}
	p.endpoints[info.Endpoint] = e
	p.stale.Store(true)
}

// endpoint is a description with its labels rendered.
type endpoint struct {
	info     EndpointInfo
	block    *labelBlock
	hardware labelled[hardwareValues] // of info.Hardware
	spending *labelled[spending]      // nil with neither a price nor a budget
}

// RemoveEndpoint takes an endpoint's description off the page. Its series stay
// until Remove.
func (p *Probes) RemoveEndpoint(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.endpoints, name)
	p.stale.Store(true)
}

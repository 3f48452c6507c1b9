package collector

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// EndpointInfo describes an endpoint.
type EndpointInfo struct {
	// Endpoint is the unique name.
	Endpoint string
	// Model, API, Engine and URL are what the endpoint serves, the wire protocol it speaks, its software and where it
	// is. Unknown is empty; the URL has no credentials.
	Model, API, Engine, URL string
	// Labels are the configured labels of all its series. Names in ReservedLabels are ignored, as are empty values. They
	// must not be changed afterwards.
	Labels map[string]string
	// ServerEngine is the engine of its servers until a page of theirs is read; "" is not known.
	ServerEngine string
	// Hardware is what the endpoint runs on, nil when that is not configured. It must not be changed afterwards.
	Hardware *config.Hardware
	// Precision is the number format of the weights by the pages of its servers, for Hardware that has none; "" for unknown.
	Precision string
	// Price is what the endpoint costs, nil when that is not configured. It must not be changed afterwards.
	Price *config.Price
	// Budget returns the used shares of the endpoint's budgets, 1 for all of it; negative for a budget that there is
	// not. It is called for each page and must return at once; nil is no budget.
	Budget func() (tokens, usd float64)
	// State returns the state of the endpoint. It is called for each page and must
	// return at once; nil is an endpoint that nobody watches.
	State func() *health.Status
	// Facts are what else is known of an endpoint that has a State; nil is nothing.
	Facts *workload.Facts
	// Cause returns the likeliest cause while the endpoint is not up, "" otherwise, as State does; nil where State is.
	Cause func() explain.Cause
}

// WatchGPUs makes the GPUs of this machine known, for endpoints whose hardware names them by UUID only. It must be
// called before the first page; snapshot is as for NewGPU.
func (p *Probes) WatchGPUs(snapshots func() gpu.Snapshots) { p.gpus = snapshots }

// Endpoint is an endpoint on the page: its description with the labels rendered, the series of its probes and
// findings, and its servers. It is safe for concurrent use.
type Endpoint struct {
	store *Probes // whose lock guards the rest
	description
	series   []*Series
	findings []*FindingsSeries
	servers  servers
}

// description is an endpoint's description and its labels, rendered.
type description struct {
	info     EndpointInfo
	block    *labelBlock
	hardware labelled[hardwareValues] // of info.Hardware
	spending *labelled[spending]      // nil with neither a price nor a budget
	state    *labelBlock              // nil where info.State is
}

// OpenEndpoint puts an endpoint on the page.
func (p *Probes) OpenEndpoint(info EndpointInfo) *Endpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := &Endpoint{store: p, servers: servers{model: boundModel(info.Model), overhead: newOverhead()}}
	e.describe(info)
	p.endpoints[e] = struct{}{}
	return e
}

// SetServed takes from a result what the endpoint serves.
func (e *Endpoint) SetServed(r *result.Result) {
	e.store.mu.Lock()
	defer e.store.mu.Unlock()
	info := e.info
	info.Model, info.API, info.Engine = cmp.Or(r.Model, info.Model), cmp.Or(r.API, info.API), cmp.Or(r.Engine, info.Engine)
	if info.Model != e.info.Model || info.API != e.info.API || info.Engine != e.info.Engine {
		e.describe(info)
	}
}

// SetPrecision takes the number format of the weights from the pages of the endpoint's servers.
func (e *Endpoint) SetPrecision(precision string) {
	e.store.mu.Lock()
	defer e.store.mu.Unlock()
	if info := e.info; info.Hardware != nil && info.Precision != precision {
		info.Precision = precision
		e.describe(info)
	}
}

// Served returns what the endpoint serves by now, as SetServed takes it.
func (e *Endpoint) Served() *result.Result {
	e.store.mu.Lock()
	defer e.store.mu.Unlock()
	return &result.Result{Model: e.info.Model, API: e.info.API, Engine: e.info.Engine}
}

// describe renders the labels; the lock of the store is held.
func (e *Endpoint) describe(info EndpointInfo) {
	labels := e.store.labels
	e.description = description{info: info, block: labels.block([]pair{
		{"endpoint", info.Endpoint}, {"model", boundModel(info.Model)}, {"api", info.API}, {"engine", info.Engine}, {"url", info.URL},
	}, info.Labels)}
	if info.Hardware != nil {
		e.hardware = newHardware(info, labels)
	}
	if info.Price != nil || info.Budget != nil {
		e.spending = newSpending(info, labels, e.store.now)
	}
	if info.State != nil {
		e.state = labels.block([]pair{{"endpoint", info.Endpoint}}, info.Labels)
	}
	e.store.stale.Store(true)
}

// Close takes the endpoint off the page. What is observed into its series later is lost.
func (e *Endpoint) Close() {
	p := e.store
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.endpoints, e)
	p.ordered = probesPage{} // which has the endpoint
	p.stale.Store(true)
}

// hardwareValues is the state behind the samples of what an endpoint runs on.
type hardwareValues struct {
	*config.Hardware
	gpus      []*labelBlock // one for each of UUIDs
	precision []*labelBlock // one where any is configured
	bandwidth float64       // of all GPUs together, in bytes per second; 0 and NaN are not known
	arithmetic
}

// arithmetic is how fast the GPUs of an endpoint multiply: NaN is not known.
type arithmetic struct {
	peak   float64    // operations per second of all GPUs together
	native [2]float64 // of weights and of arithmetic
}

// hardwareFamilies returns the families of what endpoints run on, in the order of the documentation.
func hardwareFamilies() []*familyOf[hardwareValues] {
	return []*familyOf[hardwareValues]{
		newOf("endpoint_decode_ceiling_tokens_per_second", emitOne(func(v hardwareValues) float64 {
			return workload.Positive(v.bandwidth / workload.Positive(float64(v.ReadBytes())))
		})),
		newOf("endpoint_prefill_ceiling_tokens_per_second", emitOne(func(v hardwareValues) float64 {
			return v.peak / workload.Positive(operationsPerWeight*v.ReadParameters())
		})),
		newOf("endpoint_gpu_peak_flops", emitOne(func(v hardwareValues) float64 { return v.peak / float64(v.GPUs) })),
		newOf("endpoint_precision_native", emitEach(func(v hardwareValues, i int) float64 { return v.native[i] })),
		newOf("endpoint_gpus", emitOne(func(v hardwareValues) float64 { return float64(v.GPUs) })),
		newOf("endpoint_weights_bytes", emitOne(func(v hardwareValues) float64 { return workload.Positive(float64(v.ReadBytes())) })),
		newOf("endpoint_total_weights_bytes", emitOne(func(v hardwareValues) float64 { return workload.Positive(float64(v.TotalWeights)) })),
		newOf("endpoint_kv_cache_bytes_per_token", emitOne(func(v hardwareValues) float64 { return workload.Positive(float64(v.KVCachePerToken)) })),
		newOf("endpoint_gpu_memory_bandwidth_bytes_per_second", emitOne(func(v hardwareValues) float64 { return workload.Positive(v.bandwidth / float64(v.GPUs)) })),
		newInfo("endpoint_precision_info", func(v hardwareValues) []*labelBlock { return v.precision }),
		newInfo("endpoint_gpu_info", func(v hardwareValues) []*labelBlock { return v.gpus }),
	}
}

// operationsPerWeight are the operations of prefill for a token and a weight, a multiplication and an addition: Kaplan et
// al., Scaling Laws for Neural Language Models (arXiv:2001.08361), section 2.1. Attention, which grows with the prompt, is
// not counted.
const operationsPerWeight = 2

// arithmeticOf returns how fast GPUs of some products multiply in the precisions of an endpoint. They work on the same
// tokens, so that the slowest counts. A MIG device has a share that is not known.
func arithmeticOf(h *config.Hardware, products ...string) arithmetic {
	a := arithmetic{peak: math.NaN()}
	var slowest float64
	for use, precision := range []string{h.WeightsPrecision, h.Arithmetic()} {
		slowest = workload.If(len(products) > 0, math.Inf(1))
		for _, name := range products {
			one, known := gpu.ProductPeak(name, precision)
			slowest = min(slowest, workload.If(known, one)) // NaN for one is NaN for all
		}
		a.native[use] = workload.If(!math.IsNaN(slowest), workload.Number(slowest > 0))
	}
	if !slices.ContainsFunc(h.UUIDs, isMIG) {
		a.peak = workload.Positive(float64(h.GPUs) * slowest) // of the last use, the arithmetic
	}
	return a
}

// newHardware renders the labels of what an endpoint runs on and finds its bandwidth, as far as it is configured.
func newHardware(info EndpointInfo, labels *labeller) labelled[hardwareValues] {
	base := []pair{{"endpoint", info.Endpoint}, {"model", boundModel(info.Model)}}
	if info.Hardware.WeightsPrecision == "" && info.Precision != "" {
		shown := *info.Hardware
		shown.WeightsPrecision = info.Precision
		info.Hardware = &shown
	}
	v := hardwareValues{Hardware: info.Hardware, bandwidth: configuredBandwidth(info.Hardware), arithmetic: arithmeticOf(info.Hardware, info.Hardware.GPU)}
	for _, uuid := range info.Hardware.UUIDs {
		label := "uuid"
		if isMIG(uuid) {
			label = "mig_uuid"
		}
		v.gpus = append(v.gpus, labels.block(append(base, pair{label, uuid}), info.Labels))
	}
	if h := info.Hardware; h.WeightsPrecision != "" || h.ComputePrecision != "" {
		all := append(base, pair{"weights_precision", string(h.WeightsPrecision)}, pair{"compute_precision", string(h.ComputePrecision)})
		v.precision = []*labelBlock{labels.block(all, info.Labels)}
	}
	slices.SortFunc(v.gpus, compareLabels)
	return labelled[hardwareValues]{labels.block(base, info.Labels), v}
}

func isMIG(uuid string) bool { return strings.HasPrefix(uuid, "MIG-") }

// configuredBandwidth returns the memory bandwidth of all GPUs together, 0 when the configuration does not have it. A
// MIG device has a share of the product's that is not known.
func configuredBandwidth(h *config.Hardware) float64 {
	one := float64(h.MemoryBandwidth)
	if one == 0 && !slices.ContainsFunc(h.UUIDs, isMIG) {
		one, _ = gpu.ProductBandwidth(h.GPU) // 0 for none that is known
	}
	return float64(h.GPUs) * one
}

// addLocal adds what is known of GPUs of this machine to what the configuration leaves open.
func (p *Probes) addLocal(runsOn []labelled[hardwareValues]) []labelled[hardwareValues] {
	if p.gpus == nil || len(runsOn) == 0 {
		return runsOn
	}
	local := localGPUs(p.gpus())
	out := slices.Clone(runsOn)
	for i := range out {
		v := &out[i].value
		bandwidth, products := localOf(local, v.UUIDs)
		if v.bandwidth == 0 {
			v.bandwidth = bandwidth
		}
		if _, known := gpu.ProductBandwidth(v.GPU); !known {
			v.arithmetic = arithmeticOf(v.Hardware, products...)
		}
	}
	return out
}

// localGPU is what is known of a GPU or a MIG device of this machine: its memory bandwidth, 0 for unknown, and the name of
// its product.
type localGPU struct {
	bandwidth float64
	product   string
}

// localGPUs returns what is known of each GPU and MIG device of this machine.
func localGPUs(all gpu.Snapshots) map[string]localGPU {
	out := make(map[string]localGPU)
	add := func(uuid, product string, readings []gpu.Reading) {
		g := localGPU{product: product}
		for _, r := range readings {
			if r.Kind == gpu.MemoryBandwidth {
				g.bandwidth = r.Value
			}
		}
		out[uuid] = g
	}
	for _, d := range all.Devices() {
		add(d.UUID, d.Name, d.Readings)
		for _, m := range d.MIG {
			add(m.UUID, d.Name, m.Readings)
		}
	}
	return out
}

// localOf returns the bandwidth of the GPUs of an endpoint together and the names of their products, NaN and nil unless
// each of them is known.
func localOf(local map[string]localGPU, uuids []string) (bandwidth float64, products []string) {
	for _, uuid := range uuids {
		g, ok := local[uuid]
		if !ok {
			return math.NaN(), nil
		}
		bandwidth += workload.Positive(g.bandwidth)
		products = append(products, g.product)
	}
	return bandwidth, products
}

// spending is the state behind the samples of what an endpoint costs and what its probes may spend.
type spending struct {
	price  *config.Price
	now    func() time.Time
	budget func() (tokens, usd float64) // nil without a budget
	// currency has the label of another currency than US dollars; nil without.
	currency *labelBlock
	// plans are the labels of the currency and of each plan, one block for each; nil where neither is configured.
	plans map[string][]*labelBlock
}

// budgetResources lists what budgets limit, in the order of their results.
func budgetResources() []string { return []string{"tokens", "usd"} }

// spendingFamilies returns the families of prices and budgets, in the order of the documentation.
func spendingFamilies() []*familyOf[spending] {
	return []*familyOf[spending]{
		newOf("endpoint_price_usd_per_hour", emitOne(func(v spending) float64 { return workload.Positive(v.price.At(v.now()).InUSD().PerHour) })),
		newOf("endpoint_price_usd_per_token", func(e encoder, f *family, v spending) { emitPrices(e, f, v.price.At(v.now()).InUSD()) }),
		newOf("endpoint_budget_used_ratio", emitEach(func(v spending, i int) float64 {
			if v.budget == nil {
				return math.NaN()
			}
			return budgetUse(v.budget)[i]
		})),
		inCurrency("endpoint_price_per_hour", emitOne(func(p *config.Price) float64 { return workload.Positive(p.InCurrency().PerHour) })),
		inCurrency("endpoint_price_per_token", func(e encoder, f *family, p *config.Price) { emitPrices(e, f, p.InCurrency()) }),
		newInfo("endpoint_price_info", func(v spending) []*labelBlock {
			if v.plans == nil {
				return nil
			}
			return v.plans[v.price.At(v.now()).Plan]
		}),
	}
}

// inCurrency returns a family of prices in another currency than US dollars.
func inCurrency(name string, emit func(e encoder, f *family, p *config.Price)) *familyOf[spending] {
	return newOf(name, func(e encoder, f *family, v spending) {
		if v.currency != nil {
			e.labels(v.currency, time.Time{})
			emit(e, f, v.price.At(v.now()))
		}
	})
}

// priceKinds lists the kinds of tokens that have a price: those of costs, and those that probes never have.
func priceKinds() []string { return append(costKinds(), "cache_write") }

// emitPrices shows the prices of one token of each kind that has one.
func emitPrices(e encoder, f *family, p config.Prices) {
	known := tokenPrices(p)
	all := append(known[:], workload.Positive(p.CacheWrite))
	for _, i := range f.order {
		emitValue(e, Gauge, i, all[i]/pricedTokens)
	}
}

// newSpending renders the labels of what an endpoint costs and may spend.
func newSpending(info EndpointInfo, labels *labeller, now func() time.Time) *labelled[spending] {
	base := []pair{{"endpoint", info.Endpoint}, {"model", boundModel(info.Model)}}
	block := func(more ...pair) *labelBlock { return labels.block(slices.Concat(base, more), info.Labels) }
	v := spending{price: info.Price, now: now, budget: info.Budget}
	if p := info.Price; p != nil {
		if p.Currency != "" {
			v.currency = block(pair{"currency", p.Currency})
		}
		if plans := p.Plans(); p.Currency != "" || len(plans) > 1 || plans[0] != "" {
			v.plans = make(map[string][]*labelBlock, len(plans))
			for _, plan := range plans {
				v.plans[plan] = []*labelBlock{block(pair{"currency", cmp.Or(p.Currency, "USD")}, pair{"plan", plan})}
			}
		}
	}
	return &labelled[spending]{block(), v}
}

// budgetUse returns the used shares by index in budgetResources, NaN for no such budget.
func budgetUse(budget func() (tokens, usd float64)) [2]float64 {
	tokens, usd := budget()
	return [2]float64{orAbsent(tokens), orAbsent(usd)}
}

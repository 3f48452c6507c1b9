package config

// maxUSD is more than a GPU for an hour or a million tokens cost.
const maxUSD = 1_000_000

// Price is what an endpoint costs: by the hour where one rents GPUs, by the
// token where one pays for requests. At least one price is required; none may be
// negative or exceed 1,000,000.
type Price struct {
	// GPUHourUSD is the price of one GPU for an hour, in US dollars.
	GPUHourUSD float64 `yaml:"gpu_hour_usd,omitempty"`
	// GPUs is how many GPUs are paid for by the hour, 1 to 1,024.
	GPUs int `yaml:"gpus"`
	// InputUSD is the price of a million prompt tokens, in US dollars.
	InputUSD float64 `yaml:"input_usd,omitempty"`
	// CachedInputUSD is the price of a million prompt tokens that come from the
	// server's prefix cache, in US dollars; it may be 0. Default: `input_usd`.
	CachedInputUSD float64 `yaml:"cached_input_usd"`
	// OutputUSD is the price of a million output tokens, in US dollars.
	OutputUSD float64 `yaml:"output_usd,omitempty"`
}

// PerHour returns the price of an hour in US dollars; 0 without one.
func (c *Price) PerHour() float64 {
	if c == nil {
		return 0
	}
	return c.GPUHourUSD * float64(c.GPUs)
}

// PerToken reports whether tokens have a price.
func (c *Price) PerToken() bool {
	return c != nil && (c.InputUSD > 0 || c.CachedInputUSD > 0 || c.OutputUSD > 0)
}

// USD returns what tokens cost in US dollars, where cached of the prompt's come
// from the cache; 0 where tokens have no price.
func (c *Price) USD(prompt, cached, output int) float64 {
	if !c.PerToken() {
		return 0
	}
	cached = min(max(0, cached), prompt)
	return (float64(prompt-cached)*c.InputUSD + float64(cached)*c.CachedInputUSD + float64(output)*c.OutputUSD) / 1e6
}

func (c *Price) validate(r *report, p path) {
	if r.failed[p] {
		return // no price at all
	}
	validateUSD(r, p.key("gpu_hour_usd"), c.GPUHourUSD)
	validateRange(r, p.key("gpus"), c.GPUs, 1, maxGPUs)
	validateUSD(r, p.key("input_usd"), c.InputUSD)
	validateUSD(r, p.key("cached_input_usd"), c.CachedInputUSD)
	validateUSD(r, p.key("output_usd"), c.OutputUSD)
	switch {
	case priceFailed(r, p):
	case c.GPUHourUSD == 0 && !c.PerToken():
		r.errorf(p, "no price above 0; want at least one of gpu_hour_usd, input_usd and output_usd")
	case c.InputUSD == 0 && c.CachedInputUSD > 0:
		r.errorf(p.key("input_usd"), "missing, but required by cached_input_usd")
	}
}

// priceFailed reports whether a price, or one of its prices, is written wrongly.
func priceFailed(r *report, p path) bool {
	failed := r.failed[p]
	for _, key := range []string{"gpu_hour_usd", "input_usd", "cached_input_usd", "output_usd"} {
		failed = failed || r.failed[p.key(key)]
	}
	return failed
}

func validateUSD(r *report, p path, v float64) {
	if v < 0 || v > maxUSD {
		r.errorf(p, "want 0 to %d US dollars, got %v", maxUSD, v)
	}
}

// Budget limits what probes may spend. Probing stops before a limit would be
// exceeded, and goes on when enough of the window has passed. What was spent is
// kept over a restart where the exporter keeps its state.
type Budget struct {
	// TokensPerHour is how many tokens, prompt and answer together, probes may
	// spend in any hour. Default: no limit.
	TokensPerHour int `yaml:"tokens_per_hour,omitempty"`
	// USDPerDay is how many US dollars probes may spend in any 24 hours, on
	// endpoints whose tokens have a price. Default: no limit.
	USDPerDay float64 `yaml:"usd_per_day,omitempty"`
}

func (b *Budget) validate(r *report, p path) {
	if tokens := p.key("tokens_per_hour"); r.written(tokens) && b.TokensPerHour < 1 {
		r.errorf(tokens, "want a number of tokens above 0, got %d; for no limit leave the key out", b.TokensPerHour)
	}
	if usd := p.key("usd_per_day"); r.written(usd) && b.USDPerDay <= 0 {
		r.errorf(usd, "want a number of US dollars above 0, got %v; for no limit leave the key out", b.USDPerDay)
	}
}

// validateBudget checks the budget of an endpoint, which needs prices to count
// money.
func (e *Endpoint) validateBudget(r *report, p path) {
	budget := p.key("budget")
	e.Budget.validate(r, budget)
	if e.Budget.USDPerDay > 0 && !e.Price.PerToken() && !priceFailed(r, p.key("price")) {
		r.errorf(budget.key("usd_per_day"), "has no effect without a price of tokens; set price.input_usd and price.output_usd")
	}
}

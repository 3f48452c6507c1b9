package config

// Price is what an endpoint costs: by the hour where one rents GPUs, by the
// token where one pays for requests.
type Price struct {
	// GPUHourUSD is the price of one GPU for an hour, in US dollars.
	GPUHourUSD float64 `yaml:"gpu_hour_usd,omitempty"`
	// GPUs is how many GPUs are paid for. Default: 1.
	GPUs int `yaml:"gpus,omitempty"`
	// InputUSD is the price of a million prompt tokens, in US dollars.
	InputUSD float64 `yaml:"input_usd,omitempty"`
	// CachedInputUSD is the price of a million prompt tokens that come from the
	// server's prefix cache, in US dollars. Default: `input_usd`.
	CachedInputUSD float64 `yaml:"cached_input_usd,omitempty"`
	// OutputUSD is the price of a million output tokens, in US dollars.
	OutputUSD float64 `yaml:"output_usd,omitempty"`
}

// PerHour returns the price of an hour in US dollars; 0 without one.
func (p *Price) PerHour() float64 {
	if p == nil {
		return 0
	}
	return p.GPUHourUSD * float64(p.GPUs)
}

// PerToken tells whether tokens have a price.
func (p *Price) PerToken() bool {
	return p != nil && (p.InputUSD > 0 || p.CachedInputUSD > 0 || p.OutputUSD > 0)
}

// Budget limits what probes may spend. Probing stops before a limit would be
// exceeded, and goes on when enough of the window has passed. What was spent is
// not kept over a restart.
type Budget struct {
	// TokensPerHour is how many tokens, prompt and answer together, probes may
	// spend in any hour. Default: no limit.
	TokensPerHour int `yaml:"tokens_per_hour,omitempty"`
	// USDPerDay is how many US dollars probes may spend in any 24 hours, on
	// endpoints whose tokens have a price. Default: no limit.
	USDPerDay float64 `yaml:"usd_per_day,omitempty"`
}

package config

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"
)

// maxMoney is more than a GPU for an hour or a million tokens cost, in any currency.
const maxMoney = 1_000_000

// Price is what an endpoint costs: by the hour where one rents GPUs, by the
// token where one pays for requests. At least one price is required; none may be
// negative or exceed 1,000,000. Prices are in US dollars, by the keys with `_usd`, or in
// `currency`, by those without.
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
	// CacheWriteUSD is the price of a million prompt tokens that a request asks to keep in
	// the cache, in US dollars. Probes ask for none, so that it is published only.
	CacheWriteUSD float64 `yaml:"cache_write_usd,omitempty"`
	// OutputUSD is the price of a million output tokens, in US dollars.
	OutputUSD float64 `yaml:"output_usd,omitempty"`
	// Currency is the currency of the keys without `_usd`, by its ISO 4217 code, such as `EUR`;
	// `USD` has keys of its own.
	Currency string `yaml:"currency,omitempty"`
	// USDRate is how many US dollars one unit of `currency` is. With it, prices and costs are
	// published in US dollars too, and `budget.usd_per_day` applies. Default: not
	// converted.
	USDRate float64 `yaml:"usd_rate,omitempty"`
	// GPUHour is the price of one GPU for an hour, in `currency`.
	GPUHour float64 `yaml:"gpu_hour,omitempty"`
	// Input is the price of a million prompt tokens, in `currency`.
	Input float64 `yaml:"input,omitempty"`
	// CachedInput is that of those that come from the server's prefix cache, in `currency`;
	// it may be 0. Default: `input`.
	CachedInput float64 `yaml:"cached_input"`
	// CacheWrite is that of those that a request asks to keep in the cache, in `currency`.
	CacheWrite float64 `yaml:"cache_write,omitempty"`
	// Output is the price of a million output tokens, in `currency`.
	Output float64 `yaml:"output,omitempty"`
	// Plan is how the endpoint is paid for: `reserved`, `on_demand` or `spot`.
	Plan string `yaml:"plan,omitempty"`
	// Schedule lists prices for parts of the time, the first of which that applies counts.
	Schedule []PricePart `yaml:"schedule,omitempty"`
}

// PricePart is what a price is in a part of the time: in `hours` of the day, in the days from
// `from` until `until`, or both. What it leaves out is as at any other time. Prices are in
// the currency of the price that it belongs to.
type PricePart struct {
	// Hours is a part of the day in UTC, such as `22:00-06:00`, without its last minute.
	Hours string `yaml:"hours,omitempty"`
	// From is the first day in UTC, such as `2026-01-31`.
	From string `yaml:"from,omitempty"`
	// Until is the day after the last in UTC.
	Until string `yaml:"until,omitempty"`
	// GPUHour is the price of one GPU for an hour.
	GPUHour float64 `yaml:"gpu_hour,omitempty"`
	// GPUs is how many GPUs are paid for by the hour, 1 to 1,024.
	GPUs int `yaml:"gpus,omitempty"`
	// Input is the price of a million prompt tokens.
	Input float64 `yaml:"input,omitempty"`
	// CachedInput is that of those that come from the server's prefix cache.
	CachedInput float64 `yaml:"cached_input,omitempty"`
	// CacheWrite is that of those that a request asks to keep in the cache.
	CacheWrite float64 `yaml:"cache_write,omitempty"`
	// Output is the price of a million output tokens.
	Output float64 `yaml:"output,omitempty"`
	// Plan is how the endpoint is paid for: `reserved`, `on_demand` or `spot`.
	Plan string `yaml:"plan,omitempty"`
}

// PlanReserved and the others are the ways to pay for an endpoint.
const (
	PlanReserved = "reserved"
	PlanOnDemand = "on_demand"
	PlanSpot     = "spot"
)

// At returns the price at an instant, by the first part of the schedule that applies then. It is
// nil where c is, and must not be changed.
func (c *Price) At(t time.Time) *Price {
	if c == nil {
		return nil
	}
	t = t.UTC()
	for i := range c.Schedule {
		if part := &c.Schedule[i]; part.applies(t) {
			return c.with(part)
		}
	}
	return c
}

// Plans returns the plan of the price, "" without one, and then those of its schedule.
func (c *Price) Plans() []string {
	all := []string{c.Plan}
	for _, part := range c.Schedule {
		if part.Plan != "" && !slices.Contains(all, part.Plan) {
			all = append(all, part.Plan)
		}
	}
	return all
}

// with returns the price with what a part of its schedule says.
func (c *Price) with(part *PricePart) *Price {
	p := *c
	gpuHour, input, cached, write, output := &p.GPUHour, &p.Input, &p.CachedInput, &p.CacheWrite, &p.Output
	if c.Currency == "" {
		gpuHour, input, cached, write, output = &p.GPUHourUSD, &p.InputUSD, &p.CachedInputUSD, &p.CacheWriteUSD, &p.OutputUSD
	}
	for to, v := range map[*float64]float64{gpuHour: part.GPUHour, input: part.Input, cached: part.CachedInput, write: part.CacheWrite, output: part.Output} {
		if v > 0 {
			*to = v
		}
	}
	p.GPUs, p.Plan = cmp.Or(part.GPUs, c.GPUs), cmp.Or(part.Plan, c.Plan)
	return &p
}

// applies reports whether t is in the days and hours.
func (c *PricePart) applies(t time.Time) bool {
	day, minute := t.Format(time.DateOnly), t.Format("15:04")
	if day < c.From || c.Until != "" && day >= c.Until {
		return false
	}
	if c.Hours == "" {
		return true
	}
	first, end, _ := strings.Cut(c.Hours, "-")
	if first < end {
		return first <= minute && minute < end
	}
	return minute >= first || minute < end // over midnight
}

// PerHour returns the price of an hour in US dollars; 0 without one.
func (c *Price) PerHour() float64 {
	if c == nil {
		return 0
	}
	return (c.GPUHourUSD + c.GPUHour*c.USDRate) * float64(c.GPUs)
}

// PerHourInCurrency returns the price of an hour in Currency; 0 without one.
func (c *Price) PerHourInCurrency() float64 { return c.GPUHour * float64(c.GPUs) }

// TokenPrices are prices of a million tokens.
type TokenPrices struct{ Input, CachedInput, CacheWrite, Output float64 }

// InUSD returns the prices of tokens in US dollars; 0 is none.
func (c *Price) InUSD() TokenPrices {
	if c == nil {
		return TokenPrices{}
	}
	return TokenPrices{
		c.InputUSD + c.Input*c.USDRate, c.CachedInputUSD + c.CachedInput*c.USDRate,
		c.CacheWriteUSD + c.CacheWrite*c.USDRate, c.OutputUSD + c.Output*c.USDRate,
	}
}

// InCurrency returns the prices of tokens in Currency; 0 is none.
func (c *Price) InCurrency() TokenPrices {
	return TokenPrices{c.Input, c.CachedInput, c.CacheWrite, c.Output}
}

// PerToken reports whether tokens have a price in US dollars.
func (c *Price) PerToken() bool {
	p := c.InUSD()
	return p.Input > 0 || p.CachedInput > 0 || p.Output > 0
}

// USD returns what tokens cost in US dollars, where cached of the prompt's come
// from the cache; 0 where tokens have no price.
func (c *Price) USD(prompt, cached, output int) float64 {
	p := c.InUSD()
	cached = min(max(0, cached), prompt)
	return (float64(prompt-cached)*p.Input + float64(cached)*p.CachedInput + float64(output)*p.Output) / 1e6
}

// prices returns the prices by their keys.
func (c *Price) prices() map[string]float64 {
	return map[string]float64{
		"gpu_hour_usd": c.GPUHourUSD, "input_usd": c.InputUSD, "cached_input_usd": c.CachedInputUSD, "cache_write_usd": c.CacheWriteUSD, "output_usd": c.OutputUSD,
		"gpu_hour": c.GPUHour, "input": c.Input, "cached_input": c.CachedInput, "cache_write": c.CacheWrite, "output": c.Output,
	}
}

var (
	currencyCode = regexp.MustCompile(`^[A-Z]{3}$`)
	dayHours     = regexp.MustCompile(`^([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]$`)
)

func (c *Price) validate(r *report, p path) {
	if r.failed[p] {
		return // no price at all
	}
	validatePrices(r, p, c.prices())
	validateRange(r, p.key("gpus"), c.GPUs, 1, maxGPUs)
	validatePlan(r, p.key("plan"), c.Plan)
	c.validateCurrency(r, p)
	for i := range c.Schedule {
		c.Schedule[i].validate(r, p.key("schedule").index(i), c)
	}
	switch {
	case priceFailed(r, p):
	case c.GPUHourUSD == 0 && c.GPUHour == 0 && !c.PerToken() && c.Input == 0 && c.Output == 0:
		r.errorf(p, "no price above 0; want at least one of gpu_hour_usd, input_usd and output_usd")
	case c.InputUSD == 0 && c.CachedInputUSD > 0:
		r.errorf(p.key("input_usd"), "missing, but required by cached_input_usd")
	case c.Input == 0 && c.CachedInput > 0:
		r.errorf(p.key("input"), "missing, but required by cached_input")
	}
}

// validatePrices checks prices by their keys.
func validatePrices(r *report, p path, prices map[string]float64) {
	for _, key := range priceKeys() {
		if v := prices[key]; v < 0 || v > maxMoney {
			unit := ""
			if strings.HasSuffix(key, "_usd") {
				unit = " US dollars"
			}
			r.errorf(p.key(key), "want 0 to %d%s, got %v", maxMoney, unit, v)
		}
	}
}

func validatePlan(r *report, p path, plan string) {
	if r.written(p) {
		validateOneOf(r, p, plan, PlanReserved, PlanOnDemand, PlanSpot)
	}
}

// validateCurrency rejects prices in two currencies, and in none.
func (c *Price) validateCurrency(r *report, p path) {
	currency := p.key("currency")
	switch {
	case !r.written(currency):
		for _, key := range append(priceKeys(), "usd_rate") {
			if !strings.HasSuffix(key, "_usd") && r.written(p.key(key)) && (c.prices()[key] != 0 || key == "usd_rate") {
				r.errorf(p.key(key), "has no effect without currency; for US dollars use the keys that end in _usd")
			}
		}
		return
	case !currencyCode.MatchString(c.Currency):
		r.errorf(currency, "want an ISO 4217 code of three capital letters, got %s", quote(c.Currency))
	case c.Currency == "USD":
		r.errorf(currency, "leave it out for US dollars, and use the keys that end in _usd")
	}
	for _, key := range priceKeys() {
		if strings.HasSuffix(key, "_usd") && r.written(p.key(key)) && c.prices()[key] != 0 {
			r.errorf(p.key(key), "excludes currency; use %s", strings.TrimSuffix(key, "_usd"))
		}
	}
	if r.written(p.key("usd_rate")) && (c.USDRate <= 0 || c.USDRate > maxMoney) {
		r.errorf(p.key("usd_rate"), "want a number above 0, up to %d, got %v", maxMoney, c.USDRate)
	}
}

// validate checks a part of the schedule of a price. What has a price has one at any
// time.
func (c *PricePart) validate(r *report, p path, of *Price) {
	if r.failed[p] {
		return
	}
	prices := map[string]float64{"gpu_hour": c.GPUHour, "input": c.Input, "cached_input": c.CachedInput, "cache_write": c.CacheWrite, "output": c.Output}
	validatePrices(r, p, prices)
	if r.written(p.key("gpus")) {
		validateRange(r, p.key("gpus"), c.GPUs, 1, maxGPUs)
	}
	validatePlan(r, p.key("plan"), c.Plan)
	for _, key := range priceKeys() {
		outside := key
		if of.Currency == "" {
			outside += "_usd"
		}
		if prices[key] > 0 && of.prices()[outside] == 0 {
			r.errorf(p.key(key), "has no price at other times; set %s of the price itself", outside)
		}
	}
	c.validateTimes(r, p)
}

func (c *PricePart) validateTimes(r *report, p path) {
	if c.Hours == "" && c.From == "" && c.Until == "" && !r.failedUnder(p) {
		r.errorf(p, "want hours, from or until")
	}
	if first, end, _ := strings.Cut(c.Hours, "-"); c.Hours != "" && (!dayHours.MatchString(c.Hours) || first == end) {
		r.errorf(p.key("hours"), "want a part of the day in UTC such as 22:00-06:00, got %s", quote(c.Hours))
	}
	valid := true
	for _, d := range []struct{ key, day string }{{"from", c.From}, {"until", c.Until}} {
		if _, err := time.Parse(time.DateOnly, d.day); d.day != "" && err != nil {
			r.errorf(p.key(d.key), "want a day such as 2026-01-31, got %s", quote(d.day))
			valid = false
		}
	}
	if valid && c.Until != "" && c.From >= c.Until {
		r.errorf(p.key("until"), "want a day after from, which is %s, got %s", c.From, c.Until)
	}
}

// priceKeys lists the keys of prices, in the order of their errors.
func priceKeys() []string {
	return []string{
		"gpu_hour_usd", "input_usd", "cached_input_usd", "cache_write_usd", "output_usd",
		"gpu_hour", "input", "cached_input", "cache_write", "output",
	}
}

// priceFailed reports whether a price, or one of its prices, is written wrongly.
func priceFailed(r *report, p path) bool {
	failed := r.failed[p]
	for _, key := range append(priceKeys(), "currency", "usd_rate") {
		failed = failed || r.failed[p.key(key)]
	}
	return failed
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
		r.errorf(budget.key("usd_per_day"), "has no effect without a price of tokens; set price.input_usd and price.output_usd, or price.usd_rate for another currency")
	}
}

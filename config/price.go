package config

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Price is what an endpoint costs: by the hour where one rents GPUs, by the token where one pays for requests. At least
// one price is required. Prices are in US dollars, by the keys with `_usd`, or in `currency`, by those without.
type Price struct {
	// GPUHourUSD is the price of one GPU for an hour, in US dollars.
	GPUHourUSD float64 `yaml:"gpu_hour_usd,omitempty" range:"[0,1000000]" excludes:"currency"`
	// GPUs is how many GPUs are paid for by the hour.
	GPUs int `yaml:"gpus" default:"1" range:"[1,1024]"`
	// InputUSD is the price of a million prompt tokens, in US dollars.
	InputUSD float64 `yaml:"input_usd,omitempty" range:"[0,1000000]" excludes:"currency"`
	// CachedInputUSD is the price of a million prompt tokens that come from the
	// server's prefix cache, in US dollars; it may be 0. Default: `input_usd`.
	CachedInputUSD float64 `yaml:"cached_input_usd" range:"[0,1000000]" requires:"input_usd"`
	// CacheWriteUSD is the price of a million prompt tokens that a request asks to keep in
	// the cache, in US dollars. Probes ask for none, so that it is published only.
	CacheWriteUSD float64 `yaml:"cache_write_usd,omitempty" range:"[0,1000000]" excludes:"currency"`
	// OutputUSD is the price of a million output tokens, in US dollars.
	OutputUSD float64 `yaml:"output_usd,omitempty" range:"[0,1000000]" excludes:"currency"`
	// Currency is the currency of the keys without `_usd`, by its ISO 4217 code, such as `EUR`;
	// `USD` has keys of its own.
	Currency string `yaml:"currency,omitempty" form:"currency"`
	// USDRate is how many US dollars one unit of `currency` is. With it, prices and costs are published in US dollars
	// too, and `budget.usd_per_day` applies. Default: not converted.
	USDRate float64 `yaml:"usd_rate,omitempty" range:"(0,1000000]" requires:"currency"`
	// GPUHour is the price of one GPU for an hour, in `currency`.
	GPUHour float64 `yaml:"gpu_hour,omitempty" range:"[0,1000000]" requires:"currency"`
	// Input is the price of a million prompt tokens, in `currency`.
	Input float64 `yaml:"input,omitempty" range:"[0,1000000]" requires:"currency"`
	// CachedInput is that of those that come from the server's prefix cache, in `currency`;
	// it may be 0. Default: `input`.
	CachedInput float64 `yaml:"cached_input" range:"[0,1000000]" requires:"input"`
	// CacheWrite is that of those that a request asks to keep in the cache, in `currency`.
	CacheWrite float64 `yaml:"cache_write,omitempty" range:"[0,1000000]" requires:"currency"`
	// Output is the price of a million output tokens, in `currency`.
	Output float64 `yaml:"output,omitempty" range:"[0,1000000]" requires:"currency"`
	// Plan is how the endpoint is paid for.
	Plan string `yaml:"plan,omitempty" oneof:"reserved,on_demand,spot"`
	// Schedule lists prices for parts of the time, the first of which that applies counts.
	Schedule []PricePart `yaml:"schedule,omitempty"`
}

// PricePart is what a price is in a part of the time: in `hours` of the day, in the days from `from` until `until`, or
// both. What it leaves out is as at any other time. Prices are in the currency of the price that it belongs to.
type PricePart struct {
	// Hours is a part of the day in UTC, such as `22:00-06:00`, without its last minute.
	Hours string `yaml:"hours,omitempty" form:"hours"`
	// From is the first day in UTC, such as `2026-01-31`.
	From string `yaml:"from,omitempty" form:"day"`
	// Until is the day after the last in UTC.
	Until string `yaml:"until,omitempty" form:"day"`
	// GPUHour is the price of one GPU for an hour.
	GPUHour float64 `yaml:"gpu_hour,omitempty" range:"[0,1000000]"`
	// GPUs is how many GPUs are paid for by the hour.
	GPUs int `yaml:"gpus,omitempty" range:"[1,1024]"`
	// Input is the price of a million prompt tokens.
	Input float64 `yaml:"input,omitempty" range:"[0,1000000]"`
	// CachedInput is that of those that come from the server's prefix cache.
	CachedInput float64 `yaml:"cached_input,omitempty" range:"[0,1000000]"`
	// CacheWrite is that of those that a request asks to keep in the cache.
	CacheWrite float64 `yaml:"cache_write,omitempty" range:"[0,1000000]"`
	// Output is the price of a million output tokens.
	Output float64 `yaml:"output,omitempty" range:"[0,1000000]"`
	// Plan is how the endpoint is paid for.
	Plan string `yaml:"plan,omitempty" oneof:"reserved,on_demand,spot"`
}

// At returns the price at an instant; nil where c is. It must not be changed.
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

// amountKeys are the keys of the prices that a part of a schedule may have otherwise.
var amountKeys = [...]string{"gpu_hour", "input", "cached_input", "cache_write", "output"}

// amounts returns the prices of amountKeys.
func (c *Price) amounts() [len(amountKeys)]*float64 {
	if c.Currency == "" {
		return [...]*float64{&c.GPUHourUSD, &c.InputUSD, &c.CachedInputUSD, &c.CacheWriteUSD, &c.OutputUSD}
	}
	return [...]*float64{&c.GPUHour, &c.Input, &c.CachedInput, &c.CacheWrite, &c.Output}
}

func (c *PricePart) amounts() [len(amountKeys)]float64 {
	return [...]float64{c.GPUHour, c.Input, c.CachedInput, c.CacheWrite, c.Output}
}

// with returns the price with what a part of its schedule says.
func (c *Price) with(part *PricePart) *Price {
	p := *c
	amounts := p.amounts()
	for i, v := range part.amounts() {
		if v > 0 {
			*amounts[i] = v
		}
	}
	p.GPUs, p.Plan = cmp.Or(part.GPUs, c.GPUs), cmp.Or(part.Plan, c.Plan)
	return &p
}

// applies reports whether t is in the days and hours.
func (c *PricePart) applies(t time.Time) bool {
	date := t.Format(time.DateOnly)
	if date < c.From || c.Until != "" && date >= c.Until {
		return false
	}
	if c.Hours == "" {
		return true
	}
	begin, length := spanOf(c.Hours)
	return (t.Sub(t.Truncate(day))-begin+day)%day < length
}

// Prices are those of all GPUs for an hour and of a million tokens, in one currency; 0 is none.
type Prices struct{ PerHour, Input, CachedInput, CacheWrite, Output float64 }

// InUSD returns the prices in US dollars.
func (c *Price) InUSD() Prices {
	if c == nil {
		return Prices{}
	}
	return Prices{
		(c.GPUHourUSD + c.GPUHour*c.USDRate) * float64(c.GPUs),
		c.InputUSD + c.Input*c.USDRate, c.CachedInputUSD + c.CachedInput*c.USDRate,
		c.CacheWriteUSD + c.CacheWrite*c.USDRate, c.OutputUSD + c.Output*c.USDRate,
	}
}

// InCurrency returns the prices in Currency.
func (c *Price) InCurrency() Prices {
	return Prices{c.GPUHour * float64(c.GPUs), c.Input, c.CachedInput, c.CacheWrite, c.Output}
}

// PerToken reports whether tokens have a price in US dollars.
func (c *Price) PerToken() bool {
	p := c.InUSD()
	return p.Input > 0 || p.CachedInput > 0 || p.Output > 0
}

// USD returns what tokens cost in US dollars, with cached of the prompt's; 0 where tokens have no price.
func (c *Price) USD(prompt, cached, output int) float64 {
	p := c.InUSD()
	cached = min(max(0, cached), prompt)
	return (float64(prompt-cached)*p.Input + float64(cached)*p.CachedInput + float64(output)*p.Output) / 1e6
}

var (
	currencyCode = regexp.MustCompile(`^[A-Z]{3}$`)
	dayHours     = regexp.MustCompile(`^([01][0-9]|2[0-3]):[0-5][0-9]-([01][0-9]|2[0-3]):[0-5][0-9]$`)
)

func isHours(s string) bool {
	first, end, _ := strings.Cut(s, "-")
	return dayHours.MatchString(s) && first != end
}

func isDay(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil
}

func (c *Price) complete(r *report, p path) {
	orDefault(r, p.key("cached_input_usd"), &c.CachedInputUSD, c.InputUSD)
	orDefault(r, p.key("cached_input"), &c.CachedInput, c.Input)
}

func (c *Price) check(r *report, p path) {
	switch {
	case c.Currency == "USD":
		r.errorf(p.key("currency"), "leave it out for US dollars, and use the keys that end in _usd")
	case c.InUSD() == (Prices{}) && c.InCurrency() == (Prices{}) && !r.failedUnder(p):
		r.errorf(p, "no price above 0; want at least one of gpu_hour_usd, input_usd and output_usd")
	}
	// What has a price has one at any time.
	suffix := ""
	if c.Currency == "" {
		suffix = "_usd"
	}
	amounts := c.amounts()
	for i := range c.Schedule {
		for k, v := range c.Schedule[i].amounts() {
			if v > 0 && *amounts[k] == 0 {
				r.errorf(p.key("schedule").index(i).key(amountKeys[k]), "has no price at other times; set %s of the price itself", amountKeys[k]+suffix)
			}
		}
	}
}

func (c *PricePart) check(r *report, p path) {
	if c.Hours == "" && c.From == "" && c.Until == "" && !r.failedUnder(p) {
		r.errorf(p, "want hours, from or until")
	}
	if c.Until != "" && c.From >= c.Until && !r.failed[p.key("from")] && !r.failed[p.key("until")] {
		r.errorf(p.key("until"), "expected a day after from, which is %s, got %s", c.From, c.Until)
	}
}

// Budget limits what probes may spend. Probing stops before a limit would be exceeded, and goes on when enough of the
// window has passed. What was spent is kept over a restart where the exporter keeps its state.
type Budget struct {
	// TokensPerHour is how many tokens, prompt and answer together, probes may spend in any hour. Default: no limit.
	TokensPerHour int `yaml:"tokens_per_hour,omitempty" range:"[1,)"`
	// USDPerDay is how many US dollars probes may spend in any 24 hours, on
	// endpoints whose tokens have a price. Default: no limit.
	USDPerDay float64 `yaml:"usd_per_day,omitempty" range:"(0,)"`
}

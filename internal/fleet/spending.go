package fleet

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/load"
	"github.com/inference-exporter/inference_exporter/prober"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

const (
	// bytesPerToken is fewer than tokenizers need for prose: a text has fewer tokens than we think.
	bytesPerToken = 2
	// usualBytesPerToken is what they need of English prose.
	usualBytesPerToken = 4
)

// spending guards what the runs of one task may spend. It is used by one run at a time.
type spending struct {
	module  *config.Module
	price   *config.Price
	limits  []limit
	kind    api.Kind              // of the endpoint; "" until it is known, and taken for generation
	counted bool                  // the server has counted the tokens of a prompt
	likely  bool                  // what a run takes as a rule, instead of the most
	lengths *config.TracedRequest // of a recorded request, instead of those of the module; nil is none

	reserved schedule.Cost // of the run in flight
}

// newSpending is that of the runs of a module, or of a rung of it, at an endpoint.
func newSpending(e *config.Endpoint, m *config.Module, limits []limit) *spending {
	return &spending{module: m, price: e.Price, limits: limits, kind: KindOf(e, m)}
}

// isOfTexts reports whether a request has a batch of texts, and no answer in tokens.
func isOfTexts(k api.Kind) bool { return k == api.Embedding || k == api.Rerank }

// reserve sets aside what the next run may cost at most, until settle; false where that could exceed a limit.
func (s *spending) reserve() bool {
	s.reserved = s.most()
	for i, l := range s.limits {
		if !l.Reserve(s.reserved) {
			for _, before := range s.limits[:i] {
				before.Settle(s.reserved, schedule.Cost{})
			}
			return false
		}
	}
	return true
}

func (s *spending) settle(results []*result.Result) {
	var spent schedule.Cost
	for _, r := range results {
		if r.Kind != "" {
			s.kind = r.Kind
		}
		s.counted = s.counted || r.Tokens.Prompt > 0
		number := r.Turn.Index()
		if s.module.Interference > 0 && r.Length > s.module.MaxInput() {
			number = longRequest
		}
		cost := spentBy(r, s.price, s.request(number))
		spent.Tokens += cost.Tokens
		spent.USD += cost.USD
	}
	for _, l := range s.limits {
		l.Settle(s.reserved, spent)
	}
}

// spentBy is what one request has cost. Where the server does not count the tokens of a request that was sent, it is
// taken for the most it can be; where it counts fewer than any tokenizer makes of the prompt, for as many as that.
func spentBy(r *result.Result, price *config.Price, most tokens) schedule.Cost {
	if r.Sent.IsZero() || r.Status != 0 && r.Status != http.StatusOK {
		return schedule.Cost{} // nothing was computed
	}
	t := tokens{input: r.Tokens.Prompt, output: max(r.Tokens.Output, len(r.Events))}
	if t.input < 0 {
		t = most
	}
	t.input = max(t.input, r.PromptBytes/load.MaxBytesPerToken)
	return t.cost(price.At(r.Start), r.Tokens.Cached)
}

type tokens struct{ input, output int }

// cost is what the tokens cost, so many of the prompt from the cache.
func (t tokens) cost(price *config.Price, cached int) schedule.Cost {
	return schedule.Cost{Tokens: t.input + t.output, USD: price.USD(t.input, cached, t.output)}
}

// most is what the next run may cost at most, as far as that can be known before.
func (s *spending) most() schedule.Cost { return s.run().cost(s.price.At(time.Now()), 0) }

func (s *spending) run() tokens {
	var all tokens
	for turn := range s.module.Requests() {
		t := s.request(turn + 1)
		all.input, all.output = all.input+t.input, all.output+t.output
	}
	return all
}

// longRequest is which request of a run with interference has the long prompt.
const longRequest = 2

// request is what one request may have at most; of a conversation in that turn.
func (s *spending) request(turn int) tokens {
	m := s.module
	if m.Interference > 0 && turn == longRequest {
		if s.likely {
			return tokens{m.Interference, 1}
		}
		return tokens{s.promptOf(m.Interference), 1}
	}
	t := tokens{s.promptOf(m.MaxInput()), m.MaxOutput()}
	switch {
	case s.lengths != nil:
		t = tokens{s.promptOf(s.lengths.Input), s.lengths.Output}
	case s.likely && m.Traffic == nil:
		t = tokens{m.MeanLengths().Input, m.MeanLengths().Output}
	}
	if count := prober.KindOf(m).Tokens; count != nil {
		t.input = count(m, s.text)
	} else {
		if m.Prefix == config.PrefixConversation {
			t.input += m.TurnsBefore(turn)
		}
		if isOfTexts(s.kind) {
			t.input *= m.BatchSize
		}
	}
	if isOfTexts(s.kind) || m.Ask().NoAnswer {
		t.output = 0
	}
	return t
}

func (s *spending) text(text string) int {
	if s.likely {
		return len(text) / usualBytesPerToken
	}
	return len(text)/bytesPerToken + workload.TemplateTokens
}

// promptOf is how long a prompt made to a length may become: a tenth longer, and half before the server has counted one.
func (s *spending) promptOf(length int) int {
	if s.counted {
		return length + length/10 + workload.TemplateTokens
	}
	return length + length/2 + workload.TemplateTokens
}

// allowance guards what one request for probes may spend: by rung.
type allowance []*spending

// allowanceOf is that of a target: under the endpoint's budget, if it is one of the configuration, and under that of
// all. Others have no budget of their own, though one of the configuration may have their name.
func allowanceOf(t Target, configured bool, b *budgets) (a allowance) {
	for _, rung := range t.Rungs() {
		limits := []limit{b.all, b.rest}
		if configured {
			limits = b.of(t.Endpoint)
		}
		a = append(a, newSpending(t.Endpoint, rung.Module, limits))
	}
	return a
}

func (a allowance) reserve() bool {
	for i, s := range a {
		if !s.reserve() {
			a[:i].settle(nil)
			return false
		}
	}
	return true
}

func (a allowance) settle(all Results) {
	for i, s := range a {
		var results []*result.Result
		if i < len(all) {
			results = result.Spent(all[i].Results, all[i].Skip)
		}
		s.settle(results)
	}
}

// Costs is what the probes of an endpoint, or of several, take in a day: prompts of the
// wanted lengths, and answers as long as they may be.
type Costs struct {
	// Whose is the name of the endpoint.
	Whose string
	// Tokens are those of prompts and answers.
	Tokens float64
	// Money is the price of the tokens by currency: USD where it is known in that. Empty without a price.
	Money map[string]float64
	// Open is an endpoint with a load test that is not counted: it takes as many tokens as the endpoint answers.
	Open bool
}

// USD is the code of the US dollar.
const USD = "USD"

// CostsOf returns what the probes of each endpoint take, the dearest first, and of all together, but for discovered ones.
func CostsOf(cfg *config.Config) (each []Costs, all Costs) {
	each, all = costsIn(cfg, true)
	slices.SortStableFunc(each, func(a, b Costs) int {
		return cmp.Or(cmp.Compare(b.Money[USD], a.Money[USD]), cmp.Compare(b.Tokens, a.Tokens))
	})
	return each, all
}

// costsIn returns the costs as a rule, or at most, in the order of the endpoints.
func costsIn(cfg *config.Config, likely bool) (each []Costs, all Costs) {
	all = Costs{Whose: "all", Money: map[string]float64{}}
	for _, e := range cfg.Endpoints {
		c := costsOf(e, cfg.Modules, likely)
		each = append(each, c)
		all.Tokens += c.Tokens
		for currency, amount := range c.Money {
			all.Money[currency] += amount
		}
	}
	return each, all
}

// costsOf is what the probes of an endpoint take in a day, as a rule or at most.
func costsOf(e *config.Endpoint, modules map[string]*config.Module, likely bool) Costs {
	c := Costs{Whose: e.Name, Money: map[string]float64{}}
	currency, prices := meanPrices(e.Price)
	for _, name := range e.Modules {
		for _, rung := range modules[name].Rungs() {
			s := newSpending(e, rung.Module, nil)
			s.counted, s.likely = true, likely
			t := s.run()
			runs := 24 * time.Hour.Seconds() / time.Duration(rung.Interval).Seconds()
			if rung.Load != nil {
				n := requestsOf(rung.Load, t.cost(e.Price.At(time.Now()), 0))
				c.Open = c.Open || n == 0
				runs *= n
			}
			c.Tokens += runs * float64(t.input+t.output)
			if currency != "" {
				c.Money[currency] += runs * (float64(t.input)*prices.Input + float64(t.output)*prices.Output) / 1e6
			}
		}
	}
	return c
}

// requestsOf returns how many requests a run of a load test makes at most, of which each costs so much; 0 is not known.
func requestsOf(l *config.LoadTest, one schedule.Cost) float64 {
	n := l.Requests()
	if l.MaxTokens > 0 {
		n = min(n, float64(l.MaxTokens)/float64(one.Tokens))
	}
	if l.MaxUSD > 0 {
		n = min(n, l.MaxUSD/one.USD)
	}
	if math.IsInf(n, 0) {
		return 0
	}
	return n
}

// meanPrices returns the mean prices of tokens over a day, and their currency: US dollars if known in that; "" is no price.
func meanPrices(p *config.Price) (currency string, mean config.Prices) {
	var in func(*config.Price) config.Prices
	switch {
	case p == nil:
		return "", mean
	case p.PerToken():
		currency, in = USD, (*config.Price).InUSD
	case p.Input > 0 || p.Output > 0:
		currency, in = p.Currency, (*config.Price).InCurrency
	default:
		return "", mean
	}
	const parts = 24 * 4
	now := time.Now()
	for i := range parts {
		at := in(p.At(now.Add(time.Duration(i) * 24 * time.Hour / parts)))
		mean.Input += at.Input / parts
		mean.Output += at.Output / parts
	}
	return currency, mean
}

// TightBudgets returns a note for each budget that is smaller than what the probes may take.
func TightBudgets(cfg *config.Config) []string {
	var notes []string
	usual, usualOfAll := costsIn(cfg, true)
	most, mostOfAll := costsIn(cfg, false)
	for i, e := range cfg.Endpoints {
		notes = append(notes, tightBudgets("the budget of "+e.Name, e.Budget, usual[i], most[i])...)
	}
	return append(notes, tightBudgets("global.budget", cfg.Global.Budget, usualOfAll, mostOfAll)...)
}

// tightBudgets are the notes on one budget, for probes that take so much as a rule and at most.
func tightBudgets(whose string, b config.Budget, usual, most Costs) []string {
	var notes []string
	note := func(limit, usual, most float64, window time.Duration, in func(float64) string) {
		switch {
		case limit == 0 || most <= limit:
		case usual <= limit:
			notes = append(notes, fmt.Sprintf("%s allows %s, and its probes may take %s: they pause when it is used up", whose, in(limit), in(most)))
		default:
			lasts := time.Duration(limit / usual * float64(window)).Round(time.Minute)
			notes = append(notes, fmt.Sprintf("%s allows %s, and its probes take %s: they pause when it is used up, after about %s",
				whose, in(limit), in(usual), model.Duration(max(lasts, time.Minute))))
		}
	}
	const hours = 24
	note(float64(b.TokensPerHour), usual.Tokens/hours, most.Tokens/hours, time.Hour,
		func(n float64) string { return fmt.Sprintf("%.0f tokens an hour", n) })
	note(b.USDPerDay, usual.Money[USD], most.Money[USD], hours*time.Hour,
		func(usd float64) string { return "$" + Amount(usd) + " a day" })
	return notes
}

// Amount is an amount of money in decimals, of which those of small ones are significant.
func Amount(v float64) string {
	if v > 0 && v < 1 {
		return fmt.Sprintf("%.2g", v)
	}
	return fmt.Sprintf("%.2f", v)
}

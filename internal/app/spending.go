package app

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/prober"
	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/schedule"
)

const (
	// templateTokens is what a chat template adds to a prompt at most.
	templateTokens = 64
	// bytesPerToken is fewer than the tokenizers in use need for prose, so that
	// a text has fewer tokens than we think.
	bytesPerToken = 2
	// shortPrompt bounds the built-in questions and the reference passage, in
	// tokens.
	shortPrompt = 600
)

// spending guards what the runs of one task may spend. It is used by one run at
// a time.
type spending struct {
	module  *config.Module
	price   *config.Price
	budgets []*schedule.Budget // the endpoint's own and that of all
	kind    api.Kind           // of the endpoint; "" until it is known, and taken for generation
	counted bool               // the server has told how long a prompt was
}

// newSpending is that of the runs of a module, or of a rung of it, at an
// endpoint.
func newSpending(e *config.Endpoint, m *config.Module, budgets []*schedule.Budget) *spending {
	return &spending{module: m, price: e.Price, budgets: budgets, kind: kindOf(e, m)}
}

// isOfTexts tells whether a request has a batch of texts, and no answer in
// tokens.
func isOfTexts(k api.Kind) bool { return k == api.Embedding || k == api.Rerank }

// reserve sets aside what the next run may cost at most. It returns false where
// that could exceed a budget.
func (s *spending) reserve() (most schedule.Cost, ok bool) {
	most = s.most()
	for i, b := range s.budgets {
		if !b.Reserve(most) {
			for _, before := range s.budgets[:i] {
				before.Settle(most, schedule.Cost{})
			}
			return most, false
		}
	}
	return most, true
}

// settle counts what the run has spent.
func (s *spending) settle(reserved schedule.Cost, results []*prober.Result) {
	var spent schedule.Cost
	each := s.request()
	for _, r := range results {
		if r.Kind != "" {
			s.kind = r.Kind
		}
		s.counted = s.counted || r.Tokens.Prompt > 0
		cost := spentBy(r, s.price, each)
		spent.Tokens += cost.Tokens
		spent.USD += cost.USD
	}
	for _, b := range s.budgets {
		b.Settle(reserved, spent)
	}
}

// spentBy is what one request has cost. Where the server does not count the
// tokens of a request that was sent, it is taken for the most it can be.
func spentBy(r *prober.Result, price *config.Price, most tokens) schedule.Cost {
	if r.Sent.IsZero() || r.Status != 0 && r.Status != http.StatusOK {
		return schedule.Cost{} // nothing was computed
	}
	t := tokens{input: r.Tokens.Prompt, output: max(r.Tokens.Output, len(r.Events))}
	if t.input < 0 {
		t = most
	}
	return t.cost(price, r.Tokens.Cached)
}

// tokens are those of one request, or of several.
type tokens struct{ input, output int }

// cost is what the tokens cost, so many of the prompt from the cache.
func (t tokens) cost(price *config.Price, cached int) schedule.Cost {
	return schedule.Cost{Tokens: t.input + t.output, USD: price.USD(t.input, cached, t.output)}
}

// most is what the next run may cost at most, as far as that can be known before.
func (s *spending) most() schedule.Cost {
	n := 1
	if s.module.Prefix == config.PrefixPaired {
		n = 2
	}
	if len(s.module.Concurrency) > 0 {
		n = 0
		for _, level := range s.module.Concurrency {
			n += level
		}
	}
	t := s.request()
	return tokens{n * t.input, n * t.output}.cost(s.price, 0)
}

// request is what one request may have at most.
func (s *spending) request() tokens {
	m := s.module
	t := tokens{output: m.OutputTokens.Max()}
	switch {
	case m.Prompt != "":
		t.input = len(m.Prompt)/bytesPerToken + templateTokens
	case m.PromptsFile != "":
		for _, p := range m.Prompts {
			n := templateTokens
			for _, message := range p.Messages {
				n += len(message.Content)/bytesPerToken + templateTokens
			}
			t.input = max(t.input, n)
		}
	case m.Questions, m.ReferenceLogprob:
		t.input = shortPrompt
	default:
		t.input = s.promptToLength()
		if isOfTexts(s.kind) {
			t.input *= m.BatchSize
		}
	}
	if isOfTexts(s.kind) || m.ReferenceLogprob {
		t.output = 0
	}
	return t
}

// promptToLength is how long a prompt may become that is made to length: a tenth
// longer than it should be, and half before the server has counted one.
func (s *spending) promptToLength() int {
	n := s.module.InputTokens.Max()
	if !s.counted {
		return n + n/2 + templateTokens
	}
	return n + n/10 + templateTokens
}

// checkBudgets finds modules whose single run may exceed a budget, so that they
// would never run.
func checkBudgets(cfg *config.Config) error {
	for i, e := range cfg.Endpoints {
		for j, name := range e.Modules {
			for _, b := range []struct {
				name string
				config.Budget
			}{{"the endpoint's budget", e.Budget}, {"global.budget", cfg.Global.Budget}} {
				if err := checkBudget(e, cfg.Modules[name], b.Budget); err != nil {
					return &config.Error{
						Path: fmt.Sprintf("endpoints[%d].modules[%d]", i, j),
						Msg:  fmt.Sprintf("module %q: %v that %s allows", name, err, b.name),
					}
				}
			}
		}
	}
	return nil
}

func checkBudget(e *config.Endpoint, m *config.Module, b config.Budget) error {
	for _, rung := range m.Rungs() {
		most := newSpending(e, rung.Module, nil).most()
		if b.TokensPerHour > 0 && most.Tokens > b.TokensPerHour {
			return fmt.Errorf("one run may take %d tokens, more than the %d per hour", most.Tokens, b.TokensPerHour)
		}
		if b.USDPerDay > 0 && most.USD > b.USDPerDay {
			return fmt.Errorf("one run may cost $%.4f, more than the $%g per day", most.USD, b.USDPerDay)
		}
	}
	return nil
}

// tightBudgets tells of budgets of tokens that are smaller than what the modules
// ask for in an hour, so that probing pauses.
func tightBudgets(cfg *config.Config) []string {
	var notes []string
	note := func(whose string, wanted float64, b config.Budget) {
		if b.TokensPerHour > 0 && wanted > float64(b.TokensPerHour) {
			notes = append(notes, fmt.Sprintf("%s allows %d tokens an hour, and its probes may take %.0f: they will pause when it is used up", whose, b.TokensPerHour, wanted))
		}
	}
	var all float64
	for _, e := range cfg.Endpoints {
		var own float64
		for _, name := range e.Modules {
			for _, rung := range cfg.Modules[name].Rungs() {
				s := newSpending(e, rung.Module, nil)
				s.counted = true
				own += float64(s.most().Tokens) * time.Hour.Seconds() / time.Duration(rung.Interval).Seconds()
			}
		}
		note("the budget of "+e.Name, own, e.Budget)
		all += own
	}
	note("global.budget", all, cfg.Global.Budget)
	return notes
}

// budgets are those of a configuration, by the endpoint's name. They outlive
// the endpoint's other settings, so that changing those gives no new allowance.
// It is safe for concurrent use.
type budgets struct {
	all *schedule.Budget

	mu   sync.Mutex
	each map[string]*schedule.Budget
}

func newBudgets(common config.Budget) *budgets {
	return &budgets{all: newBudget(common), each: map[string]*schedule.Budget{}}
}

func newBudget(b config.Budget) *schedule.Budget {
	return schedule.NewBudget(b.TokensPerHour, b.USDPerDay, time.Now)
}

// own returns the budget of an endpoint; nil where it never had one, as few have.
func (b *budgets) own(e *config.Endpoint) *schedule.Budget {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.each[e.Name]
	if own == nil {
		if e.Budget == (config.Budget{}) {
			return nil
		}
		own = newBudget(e.Budget)
		b.each[e.Name] = own
	}
	own.Limit(e.Budget.TokensPerHour, e.Budget.USDPerDay)
	return own
}

// used tells what is used of the budget of an endpoint; nil where it has none.
func (b *budgets) used(e *config.Endpoint) func() (tokens, usd float64) {
	if own := b.own(e); own != nil {
		return own.Used
	}
	return nil
}

// of returns the budgets that stand in front of the runs of an endpoint.
func (b *budgets) of(e *config.Endpoint) []*schedule.Budget {
	if own := b.own(e); own != nil {
		return []*schedule.Budget{own, b.all}
	}
	return []*schedule.Budget{b.all}
}

// allowance guards what one request for probes may spend.
type allowance struct {
	rungs    []*spending
	reserved []schedule.Cost
}

// allowanceOf is that of a target: under the endpoint's budget, if it is one of
// the configuration, and under that of all. Others have no budget of their own,
// though one of the configuration may have their name.
func allowanceOf(t *probeTarget, configured bool, b *budgets) *allowance {
	a := &allowance{}
	limits := []*schedule.Budget{b.all}
	if configured {
		limits = b.of(t.endpoint)
	}
	for _, rung := range t.module.Rungs() {
		a.rungs = append(a.rungs, newSpending(t.endpoint, rung.Module, limits))
	}
	return a
}

func (a *allowance) reserve() bool {
	for _, s := range a.rungs {
		most, ok := s.reserve()
		if !ok {
			a.settle(nil)
			return false
		}
		a.reserved = append(a.reserved, most)
	}
	return true
}

// settle counts what was spent; rungs without results spent nothing.
func (a *allowance) settle(all []rungResults) {
	for i, most := range a.reserved {
		var results []*prober.Result
		if i < len(all) {
			results = all[i].results
		}
		a.rungs[i].settle(most, results)
	}
}

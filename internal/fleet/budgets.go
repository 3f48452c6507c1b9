package fleet

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
)

// budgets are those of a configuration. They outlive the endpoint's other settings, so that
// changing those gives no new allowance. It is safe for concurrent use.
type budgets struct {
	all  *schedule.Budget
	rest *schedule.Budget // the part of all that is no endpoint's share

	mu   sync.Mutex
	each map[budgetKey]*schedule.Budget // every one, all and rest among them
}

type budgetKey struct {
	Of       budgetKind `json:"of"`
	Endpoint string     `json:"endpoint,omitempty"` // "" of all and of the rest
}

type budgetKind string

const (
	budgetOfAll      budgetKind = "all"
	budgetOfRest     budgetKind = "rest"
	budgetOfEndpoint budgetKind = "endpoint" // its own
	budgetOfShare    budgetKind = "share"    // an endpoint's part of all; none where all has no limit
)

func newBudgets(common config.Budget) *budgets {
	b := &budgets{all: newBudget(common), rest: newBudget(common)}
	b.each = map[budgetKey]*schedule.Budget{{Of: budgetOfAll}: b.all, {Of: budgetOfRest}: b.rest}
	return b
}

func newBudget(b config.Budget) *schedule.Budget {
	return schedule.NewBudget(b.TokensPerHour, b.USDPerDay, time.Now)
}

func setLimits(b *schedule.Budget, to config.Budget) { b.Limit(to.TokensPerHour, to.USDPerDay) }

func (b *budgets) get(of budgetKind, endpoint string) *schedule.Budget {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.each[budgetKey{of, endpoint}]
}

// keep forgets the budgets of endpoints that are gone, once nothing is spent of them.
func (b *budgets) keep(known func(endpoint string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.each, func(of budgetKey, own *schedule.Budget) bool {
		return of.Endpoint != "" && !known(of.Endpoint) && own.Idle()
	})
}

// limit has the budgets of the endpoints go by their settings. It is for those in force alone: neither a configuration
// that may yet be refused nor a request that began before a reload changes a limit.
func (b *budgets) limit(inForce []*config.Endpoint) {
	for _, e := range inForce {
		if own := b.get(budgetOfEndpoint, e.Name); own != nil {
			setLimits(own, e.Budget)
		}
	}
}

// share divides the budget of all among the endpoints that are probed. What is spent stays spent.
func (b *budgets) share(all config.Budget, endpoints []*config.Endpoint, modules map[string]*config.Module) {
	b.mu.Lock()
	defer b.mu.Unlock()
	setLimits(b.all, all)
	if all == (config.Budget{}) {
		maps.DeleteFunc(b.each, func(of budgetKey, _ *schedule.Budget) bool { return of.Of == budgetOfShare })
		setLimits(b.rest, all)
		return
	}
	each, rest := shares(all, endpoints, modules)
	setLimits(b.rest, rest)
	for i, e := range endpoints {
		of := budgetKey{budgetOfShare, e.Name}
		if b.each[of] == nil {
			b.each[of] = newBudget(each[i])
		}
		setLimits(b.each[of], each[i])
	}
}

// own returns the budget of an endpoint; nil where it never had one, as few have.
func (b *budgets) own(e *config.Endpoint) *schedule.Budget {
	b.mu.Lock()
	defer b.mu.Unlock()
	of := budgetKey{budgetOfEndpoint, e.Name}
	if b.each[of] == nil && e.Budget != (config.Budget{}) {
		b.each[of] = newBudget(e.Budget)
	}
	return b.each[of]
}

func (b *budgets) used(e *config.Endpoint) func() (tokens, usd float64) {
	if own := b.own(e); own != nil {
		return own.Used
	}
	return nil
}

func (b *budgets) of(e *config.Endpoint) []limit {
	limits := []limit{b.all, &shareOrRest{budgets: b, endpoint: e.Name}}
	if own := b.own(e); own != nil {
		limits = append(limits, own)
	}
	return limits
}

// limit is what a run needs room in: a budget, or one of several.
type limit interface {
	// Reserve and Settle are as those of schedule.Budget.
	Reserve(most schedule.Cost) bool
	Settle(reserved, spent schedule.Cost)
}

// shareOrRest takes what a run costs from the share of its endpoint or, where that has
// no room, from the rest. It is used by one run at a time.
type shareOrRest struct {
	budgets  *budgets
	endpoint string
	from     *schedule.Budget // of the run in flight
}

func (s *shareOrRest) Reserve(most schedule.Cost) bool {
	if s.from = s.budgets.get(budgetOfShare, s.endpoint); s.from != nil && s.from.Reserve(most) {
		return true
	}
	s.from = s.budgets.rest
	return s.from.Reserve(most)
}

func (s *shareOrRest) Settle(reserved, spent schedule.Cost) { s.from.Settle(reserved, spent) }

// shares are the parts of the budget of all that endpoints have to themselves, in their order, and what is left for who
// needs more. Nobody can spend what is another's: all that the shares and the rest allow together is the budget.
func shares(all config.Budget, endpoints []*config.Endpoint, modules map[string]*config.Module) (each []config.Budget, rest config.Budget) {
	tokens, usd := make([]float64, len(endpoints)), make([]float64, len(endpoints))
	for i, e := range endpoints {
		tokens[i], usd[i] = wants(e, modules)
	}
	tokensLeft := divide(float64(all.TokensPerHour), tokens)
	usdLeft := divide(all.USDPerDay, usd)
	each = make([]config.Budget, len(endpoints))
	for i := range each {
		each[i] = part(all, tokens[i], usd[i])
	}
	return each, part(all, tokensLeft, usdLeft)
}

// part is a part of a budget, with a limit where the whole has one: next to nothing where 0 would be none.
func part(all config.Budget, tokens, usd float64) config.Budget {
	var b config.Budget
	if all.TokensPerHour > 0 {
		b.TokensPerHour = max(1, int(min(tokens, math.MaxInt64/2))) // that fits, though rounded up
	}
	if all.USDPerDay > 0 {
		b.USDPerDay = max(math.SmallestNonzeroFloat64, usd)
	}
	return b
}

// wants is the most that the modules of an endpoint ask for in an hour and in a day, within its own budget.
func wants(e *config.Endpoint, modules map[string]*config.Module) (tokens, usd float64) {
	for _, name := range e.Modules {
		m := modules[name]
		switch {
		case m == nil:
			continue
		case m.Load != nil: // what it may spend at most, 0 where nothing says so: it then has what is left of all
			tokens, usd = tokens+float64(m.Load.MaxTokens), usd+m.Load.MaxUSD
			continue
		}
		for _, rung := range m.Rungs() {
			most := newSpending(e, rung.Module, nil).most()
			// As many runs as begin in a window, and the one in flight.
			runs := func(window time.Duration) float64 {
				return math.Ceil(window.Seconds()/time.Duration(rung.Interval).Seconds()) + 1
			}
			tokens += float64(most.Tokens) * runs(schedule.TokenWindow)
			usd += most.USD * runs(schedule.USDWindow)
		}
	}
	if own := float64(e.Budget.TokensPerHour); own > 0 {
		tokens = min(tokens, own)
	}
	if own := e.Budget.USDPerDay; own > 0 {
		usd = min(usd, own)
	}
	return tokens, usd
}

// divide replaces what each wants by what it gets, and returns what is left. Nobody
// gets more than wanted, nor less than an equal part of the whole (max-min fairness).
func divide(whole float64, wants []float64) (left float64) {
	order := make([]int, len(wants))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(wants[a], wants[b]) })
	left = whole
	for n, i := range order {
		wants[i] = min(wants[i], left/float64(len(order)-n))
		left -= wants[i]
	}
	return max(0, left)
}

type savedBudget struct {
	budgetKey
	schedule.SavedBudget
}

// save puts what is spent as records, from which restore makes it again. It returns the first error of put.
func (b *budgets) save(put func(record any) error) error {
	b.mu.Lock()
	each := maps.Clone(b.each)
	b.mu.Unlock()
	for of, budget := range each {
		s := savedBudget{of, budget.Save()}
		if len(s.Tokens) == 0 && len(s.USD) == 0 || of.Endpoint == "" && !budget.Limited() {
			continue
		}
		if err := put(s); err != nil {
			return err
		}
	}
	return nil
}

// restore adds what an earlier process has spent. Budgets of endpoints get their limits later.
func (b *budgets) restore(record []byte) error {
	var s savedBudget
	if err := json.Unmarshal(record, &s); err != nil {
		return err
	}
	ofEndpoint := s.Of == budgetOfEndpoint || s.Of == budgetOfShare
	if ofEndpoint != (s.Endpoint != "") || !ofEndpoint && s.Of != budgetOfAll && s.Of != budgetOfRest {
		return errors.New("not a record of a budget")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.each[s.budgetKey] == nil {
		b.each[s.budgetKey] = newBudget(config.Budget{})
	}
	b.each[s.budgetKey].Restore(s.SavedBudget)
	return nil
}

// revision returns a number that differs when there is something new to save.
func (b *budgets) revision() (sum uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, budget := range b.each {
		if budget.Limited() {
			sum += budget.Revision()
		}
	}
	return sum
}

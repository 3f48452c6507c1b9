package fleet

import (
	"math"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
)

// Only the active configuration sets a limit, not the latest caller.
func TestBudgetsInForce(t *testing.T) {
	b := newBudgets(config.Budget{})
	before := &config.Endpoint{Name: "a", Budget: config.Budget{TokensPerHour: 100}}
	after := &config.Endpoint{Name: "a", Budget: config.Budget{TokensPerHour: 200}}
	share := func(when string, want float64) {
		t.Helper()
		if got, _ := b.own(before).Used(); got != want {
			t.Errorf("%s: %v of the budget is used, want %v", when, got, want)
		}
	}
	b.limit([]*config.Endpoint{before})
	b.own(before).Reserve(schedule.Cost{Tokens: 50})
	b.of(after) // of a configuration that may be refused
	share("before the reload", 0.5)
	b.limit([]*config.Endpoint{after})
	b.of(before) // of a request that began before the reload
	share("after the reload", 0.25)
	b.limit([]*config.Endpoint{{Name: "a"}})
	share("without a limit", -1)
}

// What is there is divided so that nobody gets less than an equal part who wants it.
func TestDivide(t *testing.T) {
	f := func(whole float64, wants []float64, want []float64, left float64) {
		t.Helper()
		got := slices.Clone(wants)
		if l := divide(whole, got); !near(got, want) || math.Abs(l-left) > 1e-9 {
			t.Errorf("%v among %v: %v and %v left, want %v and %v", whole, wants, got, l, want, left)
		}
	}
	f(100, []float64{10, 20, 30}, []float64{10, 20, 30}, 40)
	f(100, []float64{10, 200, 300}, []float64{10, 45, 45}, 0)
	f(100, []float64{300, 10, 40}, []float64{50, 10, 40}, 0)
	f(100, []float64{300, 300, 300, 300}, []float64{25, 25, 25, 25}, 0)
	f(100, []float64{0, 300}, []float64{0, 100}, 0)
	f(100, nil, nil, 100)
	f(0, []float64{5}, []float64{0}, 0)
}

// sharing divides a budget among endpoints that ask for 1000 tokens and answers of 100
// at an interval.
func sharing(common config.Budget, interval time.Duration, names ...string) (*budgets, []*config.Endpoint, *config.Module) {
	m := &config.Module{InputTokens: config.Tokens(1000), OutputTokens: config.Tokens(100), Interval: model.Duration(interval)}
	var endpoints []*config.Endpoint
	for _, name := range names {
		endpoints = append(endpoints, &config.Endpoint{Name: name, Modules: []string{"m"}, Price: &config.Price{InputUSD: 1, OutputUSD: 1}})
	}
	b := newBudgets(common)
	b.share(common, endpoints, map[string]*config.Module{"m": m})
	return b, endpoints, m
}

// drain runs a module until it is refused, and returns the tokens that it spent, each
// time so many by the server's count.
func drain(t *testing.T, s *spending, each int) (total int) {
	t.Helper()
	for total < 100_000_000 {
		if !s.reserve() {
			return total
		}
		s.settle([]*result.Result{{Sent: time.Now(), Status: http.StatusOK, Tokens: result.Tokens{Prompt: each - 100, Cached: -1, Output: 100}}})
		total += each
	}
	t.Fatal("it is never refused")
	return 0
}

// However much one endpoint spends, and whatever its server counts, the others have
// their shares of the budget of all, which is not exceeded.
func TestNobodySpendsTheShareOfOthers(t *testing.T) {
	const each, most = 1100, 1664 // of one run: half again of 1000, 64 for a template, 100
	for name, tc := range map[string]struct {
		budget config.Budget
		greedy int // tokens of one run of the first endpoint
	}{
		"tokens":              {config.Budget{TokensPerHour: 90_000}, each},
		"tokens, a liar":      {config.Budget{TokensPerHour: 90_000}, 8000}, // more than its runs reserve
		"money":               {config.Budget{USDPerDay: 0.09}, each},       // a token costs 1e-6
		"tokens and money":    {config.Budget{TokensPerHour: 1_000_000, USDPerDay: 0.09}, each},
		"tokens before money": {config.Budget{TokensPerHour: 90_000, USDPerDay: 100}, each},
	} {
		b, endpoints, m := sharing(tc.budget, 10*time.Second, "greedy", "healthy", "other")
		total := drain(t, newSpending(endpoints[0], m, b.of(endpoints[0])), tc.greedy)
		if total > 30_000+tc.greedy {
			t.Errorf("%s: the greedy one spent %d of 90000, want a third", name, total)
		}
		for _, e := range endpoints[1:] {
			got := drain(t, newSpending(e, m, b.of(e)), each)
			if got < 30_000-most-(tc.greedy-each) || got > 30_000 {
				t.Errorf("%s: %s spent %d of 90000, want a third", name, e.Name, got)
			}
			total += got
		}
		if total > 90_000 {
			t.Errorf("%s: %d of 90000 are spent", name, total)
		}
	}
}

// Where there is enough for all, who needs more than expected takes it from the rest,
// and strangers have nothing else.
func TestRestOfTheBudget(t *testing.T) {
	// Within an hour, and the minute that is forgotten late, 62 runs of 1664 tokens.
	const share, rest = 62 * 1664, 50_000
	b, endpoints, m := sharing(config.Budget{TokensPerHour: 2*share + rest}, time.Minute, "a", "b")
	stranger := &config.Endpoint{Name: "a"}
	if got := drain(t, newSpending(stranger, m, []limit{b.all, b.rest}), 1100); got < rest-1664 || got > rest {
		t.Errorf("a stranger spent %d, want %d", got, rest)
	}
	for _, e := range endpoints {
		if got := drain(t, newSpending(e, m, b.of(e)), 1100); got < share-1664 || got > share+1664 {
			t.Errorf("%s spent %d, want %d", e.Name, got, share)
		}
	}
	b, endpoints, m = sharing(config.Budget{TokensPerHour: 2*share + rest}, time.Minute, "a", "b")
	if got := drain(t, newSpending(endpoints[1], m, b.of(endpoints[1])), 1100); got < share+rest-2*1664 || got > share+rest {
		t.Errorf("b spent %d, want its share and the rest, %d", got, share+rest)
	}
}

// A reload changes the shares, and what is spent stays spent.
func TestSharesAfterAReload(t *testing.T) {
	common := config.Budget{TokensPerHour: 60_000}
	b, endpoints, m := sharing(common, 10*time.Second, "a")
	modules := map[string]*config.Module{"m": m}
	if got := drain(t, newSpending(endpoints[0], m, b.of(endpoints[0])), 1100); got < 60_000-1664 {
		t.Errorf("the only endpoint spent %d, want all 60000", got)
	}
	more := append(slices.Clone(endpoints), &config.Endpoint{Name: "b", Modules: []string{"m"}})
	b.share(common, more, modules)
	if got := drain(t, newSpending(more[1], m, b.of(more[1])), 1100); got > 1664 {
		t.Errorf("%d tokens are spent beyond the budget", got)
	}
	common.TokensPerHour = 200_000
	b.share(common, more, modules)
	if got := drain(t, newSpending(more[1], m, b.of(more[1])), 1100); got < 100_000-2*1664 || got > 100_000 {
		t.Errorf("the new endpoint spent %d, want its half, 100000", got)
	}
	b.share(config.Budget{}, more, modules)
	if !newSpending(more[1], m, b.of(more[1])).reserve() {
		t.Error("refused without a budget")
	}
}

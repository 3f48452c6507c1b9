package fleet

import (
	"net/http"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/load"
	"github.com/inference-exporter/inference_exporter/prober"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

const (
	// bytesPerToken is fewer than the tokenizers in use need for prose, so that
	// a text has fewer tokens than we think.
	bytesPerToken = 2
	// usualBytesPerToken is what they need of English prose.
	usualBytesPerToken = 4
)

// spending guards what the runs of one task may spend. It is used by one run at
// a time.
type spending struct {
	module  *config.Module
	price   *config.Price
	limits  []limit
	kind    api.Kind // of the endpoint; "" until it is known, and taken for generation
	counted bool     // the server has counted the tokens of a prompt
	likely  bool     // what a run takes as a rule, instead of the most
}

// newSpending is that of the runs of a module, or of a rung of it, at an
// endpoint.
func newSpending(e *config.Endpoint, m *config.Module, limits []limit) *spending {
	return &spending{module: m, price: e.Price, limits: limits, kind: KindOf(e, m)}
}

// isOfTexts reports whether a request has a batch of texts, and no answer in
// tokens.
func isOfTexts(k api.Kind) bool { return k == api.Embedding || k == api.Rerank }

// reserve sets aside what the next run may cost at most. It returns false where
// that could exceed a limit.
func (s *spending) reserve() (most schedule.Cost, ok bool) {
	most = s.most()
	for i, l := range s.limits {
		if !l.Reserve(most) {
			for _, before := range s.limits[:i] {
				before.Settle(most, schedule.Cost{})
			}
			return most, false
		}
	}
	return most, true
}

// settle counts what the run has spent.
func (s *spending) settle(reserved schedule.Cost, results []*result.Result) {
	var spent schedule.Cost
	for _, r := range results {
		if r.Kind != "" {
			s.kind = r.Kind
		}
		s.counted = s.counted || r.Tokens.Prompt > 0
		cost := spentBy(r, s.price, s.request(r.Turn.Index()))
		spent.Tokens += cost.Tokens
		spent.USD += cost.USD
	}
	for _, l := range s.limits {
		l.Settle(reserved, spent)
	}
}

// spentBy is what one request has cost. Where the server does not count the
// tokens of a request that was sent, it is taken for the most it can be; where it
// counts fewer than any tokenizer makes of the prompt, for as many as that.
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

// tokens are those of one request, or of several.
type tokens struct{ input, output int }

// cost is what the tokens cost, so many of the prompt from the cache.
func (t tokens) cost(price *config.Price, cached int) schedule.Cost {
	return schedule.Cost{Tokens: t.input + t.output, USD: price.USD(t.input, cached, t.output)}
}

// most is what the next run may cost at most, as far as that can be known before.
func (s *spending) most() schedule.Cost { return s.run().cost(s.price.At(time.Now()), 0) }

// run is what the requests of one run may have at most.
func (s *spending) run() tokens {
	var all tokens
	for turn := range s.module.Requests() {
		t := s.request(turn + 1)
		all.input, all.output = all.input+t.input, all.output+t.output
	}
	return all
}

// request is what one request may have at most; of a conversation in that turn.
func (s *spending) request(turn int) tokens {
	m := s.module
	t := tokens{output: s.answerToLength()}
	if tokens := prober.KindOf(m).Tokens; tokens != nil {
		t.input = tokens(m, s.text)
	} else {
		t.input = s.promptToLength()
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

// text is how many tokens a text of a prompt may be.
func (s *spending) text(text string) int {
	if s.likely {
		return len(text) / usualBytesPerToken
	}
	return len(text)/bytesPerToken + workload.TemplateTokens
}

// answerToLength is how long an answer may become.
func (s *spending) answerToLength() int {
	if s.likely && s.module.Traffic == nil {
		return s.module.OutputTokens.Mean()
	}
	return s.module.MaxOutput()
}

// promptToLength is how long a prompt may become that is made to length: a tenth
// longer than it should be, and half before the server has counted one.
func (s *spending) promptToLength() int {
	n := s.module.MaxInput()
	switch {
	case s.likely && s.module.Traffic == nil:
		return s.module.InputTokens.Mean()
	case s.counted:
		return n + n/10 + workload.TemplateTokens
	}
	return n + n/2 + workload.TemplateTokens
}

// allowance guards what one request for probes may spend.
type allowance struct {
	rungs    []*spending
	reserved []schedule.Cost
}

// allowanceOf is that of a target: under the endpoint's budget, if it is one of
// the configuration, and under that of all. Others have no budget of their own,
// though one of the configuration may have their name.
func allowanceOf(t Target, configured bool, b *budgets) *allowance {
	a := &allowance{}
	for _, rung := range t.Rungs() {
		limits := b.ofStrangers()
		if configured {
			limits = b.of(t.Endpoint)
		}
		a.rungs = append(a.rungs, newSpending(t.Endpoint, rung.Module, limits))
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
func (a *allowance) settle(all Results) {
	for i, most := range a.reserved {
		var results []*result.Result
		if i < len(all) {
			results = result.Spent(all[i].Results, all[i].Skip)
		}
		a.rungs[i].settle(most, results)
	}
}

package fleet

import (
	"fmt"
	"math"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

const (
	hitRatioFamily = "inference_probe_prefix_cache_hit_ratio"
	benefitFamily  = "inference_probe_prefix_benefit_seconds"
)

// pairLab is a fleet that asks a server pairs of 2000 tokens.
func pairLab(t *testing.T, w *testlab.Witness, endpoint string) *lab {
	t.Helper()
	return workLab(t, fmt.Sprintf(`
modules: {pairs: {input_tokens: 2000, output_tokens: 2, prefix: paired}}
endpoints: [{name: e, url: %s, modules: [pairs]%s}]`, w.URL, endpoint))
}

// pairsOf puts the requests of a run of pairs together.
func pairsOf(t *testing.T, all []simulator.Record) (pairs [][2]simulator.Record) {
	t.Helper()
	if len(all)%2 != 0 {
		t.Fatalf("%d requests make no pairs", len(all))
	}
	for i := 0; i < len(all); i += 2 {
		if all[i].PromptTokens != all[i+1].PromptTokens {
			t.Fatalf("a pair of %d and %d tokens", all[i].PromptTokens, all[i+1].PromptTokens)
		}
		pairs = append(pairs, [2]simulator.Record{all[i], all[i+1]})
	}
	return pairs
}

// trueHits is the share of the second halves that came from the cache, and by how
// many seconds they had their first token earlier, in the median.
func trueHits(pairs [][2]simulator.Record) (ratio, benefit float64) {
	prompt, cached, benefits := 0, 0, []float64{}
	for _, p := range pairs {
		prompt += p[1].PromptTokens
		cached += p[1].CachedTokens
		benefits = append(benefits, firstToken(&p[0])-firstToken(&p[1]))
	}
	return float64(cached) / float64(prompt), medianOf(benefits)
}

func TestPairsAgainstTheSimulator(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		o := testlab.Brisk()
		o.PrefillNoise = 0.1
		w := testlab.NewWitness(t, o)
		l := pairLab(t, w, "")
		p := l.times(20, "e")

		pairs := pairsOf(t, w.Records())
		ratio, benefit := trueHits(pairs)
		if ratio < 0.95 {
			t.Errorf("only %v of the warm halves was in the server's cache", ratio)
		}
		testlab.WantSum(t, p, hitRatioFamily, ratio)
		logRelative(t, "hit ratio", p.Sum(hitRatioFamily), ratio)

		got := intervalOf(t, p, benefitFamily)
		last := pairs[len(pairs)-1][1]
		expected := float64(last.CachedTokens) / o.PrefillTokensPerSecond // less work, at the server's speed
		for what, want := range map[string]float64{"by the records": benefit, "by the options": expected} {
			logRelative(t, "benefit "+what, got.value, want)
			if !got.encloses(want, 2) {
				t.Errorf("benefit %s is %v s, not within %+v", what, want, got)
			}
		}
		for half, records := range map[string]int{"cold": 0, "warm": 1} {
			cached := 0
			for _, pair := range pairs {
				cached += pair[records].CachedTokens
			}
			if n := p.Sum("inference_probe_cached_prompt_tokens_total", "prefix", half); n != float64(cached) {
				t.Errorf("%v cached tokens of the %s halves, the server had %d", n, half, cached)
			}
			if n := p.Sum("inference_probe_results_total", "prefix", half, "outcome", "success"); n != float64(len(pairs)) {
				t.Errorf("%v %s halves, want %d", n, half, len(pairs))
			}
		}
		if n := p.Sum("inference_probe_cold_cached_total"); n != 0 || !p.Has("inference_probe_cold_cached_total") {
			t.Errorf("%v cold halves were cached", n)
		}
	})
}

// Behind a balancer that takes turns the second half meets a server that has
// never seen the prompt: the cache is worth nothing to such users.
func TestPairsOverReplicasThatTakeTurns(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		o := testlab.Brisk()
		o.Replicas, o.Routing = 2, simulator.RoundRobin
		w := testlab.NewWitness(t, o)
		l := pairLab(t, w, ", request: {sticky_header: X-Session-Id}")
		p := l.times(20, "e")

		pairs := pairsOf(t, w.Records())
		for _, pair := range pairs {
			if pair[0].Replica == pair[1].Replica {
				t.Fatal("a pair met at one replica")
			}
		}
		ratio, benefit := trueHits(pairs)
		if got := p.Sum(hitRatioFamily); !p.Has(hitRatioFamily) || got != ratio || got > 0.01 {
			t.Errorf("hit ratio %v, true %v, want none", got, ratio)
		}
		got := intervalOf(t, p, benefitFamily)
		if cold := firstToken(&pairs[0][0]); math.Abs(got.value) > cold/4 {
			t.Errorf("benefit of %v s, true %v s, of a first token after %v s; want about none", got.value, benefit, cold)
		}
	})
}

// With a header that the balancer looks at, both halves meet, at one replica or
// the other.
func TestPairsThatStickTogether(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		o := testlab.Brisk()
		o.Replicas, o.Routing, o.StickyHeader = 2, simulator.Sticky, "X-Balance-By"
		w := testlab.NewWitness(t, o)
		l := pairLab(t, w, ", request: {sticky_header: x-balance-by}")
		used := map[int]bool{}
		p := l.until(60, "e", "pair at each replica", func(metricsPage) bool {
			for _, pair := range pairsOf(t, w.Records()) {
				if pair[0].Replica != pair[1].Replica {
					t.Fatal("a pair was parted")
				}
				used[pair[0].Replica] = true
			}
			return len(used) == 2
		})
		ratio, _ := trueHits(pairsOf(t, w.Records()))
		if ratio < 0.95 {
			t.Errorf("only %v of the warm halves was in the server's cache", ratio)
		}
		testlab.WantSum(t, p, hitRatioFamily, ratio)
	})
}

package fleet

import (
	"fmt"
	"math"
	"strconv"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

const (
	turnHitFamily  = "inference_probe_turn_prefix_cache_hit_ratio"
	turnTTFTFamily = "inference_probe_turn_ttft_seconds"
	turnSameFamily = "inference_probe_turn_same_replica_ratio"
)

const talkTurns = 5

// talkPage returns the page after 60 conversations with, and as many without, a session
// header over four replicas, and the requests as the server saw them.
func talkPage(t *testing.T, routing string) (metricsPage, []simulator.Record) {
	t.Helper()
	o := testlab.Swift()
	o.Replicas, o.Routing = 4, routing
	w := testlab.NewWitness(t, o)
	p := workLab(t, fmt.Sprintf(`
modules: {talk: {input_tokens: 600, output_tokens: 8, prefix: conversation, turns: %d}}
endpoints: [{name: e, url: %s, modules: [talk], request: {sticky_header: X-Session-Id, replica_header: X-Served-By}}]`,
		talkTurns, w.URL)).times(120, "e")
	return p, w.Records()
}

// trueTurns is by turn, from 0, the share of the prompts that was cached, and of the
// turns at the replica of the turn before, in every second conversation from the given
// one on. The first has the session header.
func trueTurns(t *testing.T, all []simulator.Record, from int) (hits, same [talkTurns]float64) {
	t.Helper()
	if len(all) != 120*talkTurns {
		t.Fatalf("%d requests", len(all))
	}
	for turn := range talkTurns {
		prompt, cached, stayed := 0, 0, 0
		for talk := from; talk < 120; talk += 2 {
			r := all[talk*talkTurns+turn]
			prompt, cached = prompt+r.PromptTokens, cached+r.CachedTokens
			if turn > 0 && r.Replica == all[talk*talkTurns+turn-1].Replica {
				stayed++
			}
			if before := all[max(0, talk*talkTurns+turn-1)]; turn > 0 && r.PromptTokens <= before.PromptTokens {
				t.Fatalf("turn %d of %d tokens after one of %d", turn+1, r.PromptTokens, before.PromptTokens)
			}
		}
		hits[turn], same[turn] = float64(cached)/float64(prompt), float64(stayed)/60
	}
	return hits, same
}

// expectedHits is the hit ratio over all turns but the first where each turn goes to any
// of four replicas: with probability 1/4, it is that of the turn before and has all but
// what that turn did not have yet; else it looks for the turn before that.
func expectedHits(all []simulator.Record) float64 {
	var prompt, cached float64
	for talk := range 120 {
		for turn := 1; turn < talkTurns; turn++ {
			prompt += float64(all[talk*talkTurns+turn].PromptTokens)
			elsewhere := 1.0
			for before := turn - 1; before >= 0; before-- {
				cached += elsewhere * 0.25 * float64(all[talk*talkTurns+before].PromptTokens)
				elsewhere *= 0.75
			}
		}
	}
	return cached / prompt
}

func TestConversationsAgainstTheSimulator(t *testing.T) {
	t.Parallel()
	for routing, expected := range map[string]map[string][2]float64{ // by affinity, the bounds of the hit ratio after the first turn
		simulator.Random:      {"session": {0.3, 0.7}, "none": {0.3, 0.7}},
		simulator.RoundRobin:  {"session": {0, 0.25}, "none": {0, 0.25}}, // the fifth turn is at the replica of the first
		simulator.Sticky:      {"session": {0.9, 1}, "none": {0, 0.25}},  // without the header in turn
		simulator.PrefixAware: {"session": {0.9, 1}, "none": {0.9, 1}},
	} {
		t.Run(routing, func(t *testing.T) {
			t.Parallel()
			testlab.Virtual(t, func(t *testing.T) {
				if testing.Short() && (routing == simulator.RoundRobin || routing == simulator.PrefixAware) {
					t.Skip("make simulations has every routing")
				}
				p, all := talkPage(t, routing)
				whole, weight := 0.0, 0.0
				for from, affinity := range []string{"session", "none"} {
					hits, same := trueTurns(t, all, from)
					for turn := range talkTurns {
						labels := []string{"affinity", affinity, "turn", strconv.Itoa(turn + 1)}
						got := p.Sum(turnHitFamily, labels...)
						if !p.Has(turnHitFamily, labels...) || math.Abs(got-hits[turn]) > 0.05 {
							t.Errorf("%s: hit ratio %v, true %v", labels, got, hits[turn])
						}
						if p.Has(turnSameFamily, labels...) != (turn > 0) || math.Abs(p.Sum(turnSameFamily, labels...)-same[turn]) > 1e-9 {
							t.Errorf("%s: same replica in %v, true %v", labels, p.Sum(turnSameFamily, labels...), same[turn])
						}
						if turn == 0 && got > 0.02 {
							t.Errorf("%s: %v of a first turn was cached", labels, got)
						}
						if b := expected[affinity]; turn > 0 && turn < talkTurns-1 && routing != simulator.Random && (got < b[0] || got > b[1]) {
							t.Errorf("%s: hit ratio %v, want %v", labels, got, b)
						}
						if turn > 0 {
							whole, weight = whole+got, weight+1
						}
					}
					t.Logf("%s, %s: hit ratio by turn %.3f", routing, affinity, hits)
				}
				if want := expectedHits(all); routing == simulator.Random && math.Abs(whole/weight-want) > 0.05 {
					t.Errorf("hit ratio of all turns %v, expected %v", whole/weight, want)
				}
			})
		})
	}
}

// Without a session header and a header that names replicas, TTFT is known still.
func TestConversationTTFT(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		w := testlab.NewWitness(t, testlab.Brisk())
		l := workLab(t, fmt.Sprintf(`
modules: {talk: {input_tokens: 2000, output_tokens: 2, prefix: conversation, turns: 2}}
endpoints: [{name: e, url: %s, modules: [talk]}]`, w.URL))
		p := l.times(6, "e")
		all := w.Records()
		for turn := range 2 {
			var truth []float64
			for i := turn; i < len(all); i += 2 {
				truth = append(truth, firstToken(&all[i]))
			}
			got, want := p.Sum(turnTTFTFamily, "affinity", "none", "turn", strconv.Itoa(turn+1)), medianOf(truth)
			logRelative(t, fmt.Sprintf("TTFT of turn %d", turn+1), got, want)
			if math.Abs(got-want) > 0.001*want {
				t.Errorf("TTFT of turn %d is %v s, true %v s", turn+1, got, want)
			}
		}
		if p.Has(turnSameFamily) || p.Has(turnTTFTFamily, "affinity", "session") {
			t.Error("a replica or a session that nothing names")
		}
	})
}

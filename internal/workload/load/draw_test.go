package load

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// 100 draws have the shares of the lengths, which are cut to the bounds; before and
// after they are known the module asks its own.
func TestTrafficDraw(t *testing.T) {
	m := &config.Module{InputTokens: config.Tokens(64), OutputTokens: config.Tokens(16), Prefix: config.PrefixCold}
	m.Traffic = &config.Traffic{MaxInputTokens: 500, MaxOutputTokens: 40}
	rng := rand.New(rand.NewPCG(1, 1))
	s := newSource(m)
	s.traffic = &trafficDraw{module: m, u: rng.Float64(), v: rng.Float64()}
	own := func() {
		t.Helper()
		if q := s.Next(1, 0); q.Length != 64 || q.Output != 16 {
			t.Errorf("%d and %d tokens, want those of the module", q.Length, q.Output)
		}
	}
	own()
	s.SetMix(&Mix{
		Inputs:  []workload.Length{{Tokens: 100, Weight: 30}, {Tokens: 200, Weight: 50}, {Tokens: 600, Weight: 10}, {Tokens: 900, Weight: 10}},
		Outputs: []workload.Length{{Tokens: 5, Weight: 1}, {Tokens: 70, Weight: 1}},
	})
	inputs, outputs, both := map[int]int{}, map[int]int{}, map[[2]int]int{}
	for range 100 {
		q := s.Next(1, 0)
		inputs[q.Length]++
		outputs[q.Output]++
		both[[2]int{q.Length, q.Output}]++
	}
	for what, c := range map[string]struct {
		got  map[int]int
		n    int
		want float64
	}{
		"short prompts": {inputs, 100, 30}, "prompts": {inputs, 200, 50}, "prompts at the bound": {inputs, 500, 20},
		"short answers": {outputs, 5, 50}, "answers at the bound": {outputs, 40, 50},
	} {
		if math.Abs(float64(c.got[c.n])-c.want) > 4 {
			t.Errorf("%s: %d of 100, want %v", what, c.got[c.n], c.want)
		}
	}
	if n := both[[2]int{200, 5}]; math.Abs(float64(n)-25) > 6 {
		t.Errorf("%d pairs of 200 and 5 tokens, want 25: one length decides the other", n)
	}
	s.SetMix(nil)
	own()
}

package prober

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/prober/prompt"
)

// 100 draws have the shares of the lengths, which are cut to the bounds; before and
// after they are known the module asks its own.
func TestTrafficDraw(t *testing.T) {
	m := newModule()
	m.Traffic = &config.Traffic{MaxInputTokens: 500, MaxOutputTokens: 40}
	rng := rand.New(rand.NewPCG(1, 1))
	s := newLengthSource(m)
	s.traffic = newTrafficDraw(m, rng)
	p := &Prober{module: m, questions: s}
	own := func() {
		t.Helper()
		if q := s.next(1, 0); q.length != 64 || q.output != 16 {
			t.Errorf("%d and %d tokens, want those of the module", q.length, q.output)
		}
	}
	own()
	p.SetLengths(&Lengths{
		Inputs:  []prompt.Length{{Tokens: 100, Weight: 30}, {Tokens: 200, Weight: 50}, {Tokens: 600, Weight: 10}, {Tokens: 900, Weight: 10}},
		Outputs: []prompt.Length{{Tokens: 5, Weight: 1}, {Tokens: 70, Weight: 1}},
	})
	inputs, outputs, both := map[int]int{}, map[int]int{}, map[[2]int]int{}
	for range 100 {
		q := s.next(1, 0)
		inputs[q.length]++
		outputs[q.output]++
		both[[2]int{q.length, q.output}]++
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
	p.SetLengths(nil)
	own()
}

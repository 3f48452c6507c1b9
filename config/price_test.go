package config

import "testing"

func TestPrice(t *testing.T) {
	f := func(p *Price, perHour float64, perToken bool) {
		t.Helper()
		if p.PerHour() != perHour || p.PerToken() != perToken {
			t.Errorf("%+v: got %v an hour and per token %t, want %v and %t", p, p.PerHour(), p.PerToken(), perHour, perToken)
		}
	}
	f(nil, 0, false)
	f(&Price{GPUs: 1}, 0, false)
	f(&Price{GPUHourUSD: 3.25, GPUs: 2}, 6.5, false)
	f(&Price{GPUs: 1, InputUSD: 3}, 0, true)
	f(&Price{GPUs: 1, OutputUSD: 3}, 0, true)
}

package collector

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/inference-exporter/inference_exporter/config"
)

// spendingOf returns the samples of prices and budgets.
func spendingOf(t *testing.T, p *Probes) map[string]string {
	t.Helper()
	out := map[string]string{}
	for name, v := range samples(t, p) {
		for _, family := range []string{"price", "budget"} {
			if strings.HasPrefix(name, "inference_endpoint_"+family+"_") {
				out[strings.TrimPrefix(name, "inference_endpoint_")] = v
			}
		}
	}
	return out
}

// used returns a budget of which so much is used.
func used(tokens, usd float64) func() (float64, float64) {
	return func() (float64, float64) { return tokens, usd }
}

func TestSpending(t *testing.T) {
	tests := []struct {
		name string
		info EndpointInfo
		want map[string]string
	}{
		{"nothing", EndpointInfo{}, nil},
		{"by the hour", EndpointInfo{Price: &config.Price{GPUHourUSD: 3.25, GPUs: 2}}, map[string]string{
			`price_usd_per_hour{endpoint="e"}`: "6.5",
		}},
		{"by the token", EndpointInfo{Price: &config.Price{GPUs: 1, InputUSD: 4, CachedInputUSD: 2, OutputUSD: 16}}, map[string]string{
			`price_usd_per_token{endpoint="e",kind="input"}`:        "4e-06",
			`price_usd_per_token{endpoint="e",kind="cached_input"}`: "2e-06",
			`price_usd_per_token{endpoint="e",kind="output"}`:       "1.6e-05",
		}},
		{"the cache is free", EndpointInfo{Price: &config.Price{GPUs: 1, InputUSD: 4}}, map[string]string{
			`price_usd_per_token{endpoint="e",kind="input"}`:        "4e-06",
			`price_usd_per_token{endpoint="e",kind="cached_input"}`: "0",
		}},
		{"only output", EndpointInfo{Price: &config.Price{GPUs: 1, OutputUSD: 16}}, map[string]string{
			`price_usd_per_token{endpoint="e",kind="output"}`: "1.6e-05",
		}},
		{"both budgets", EndpointInfo{Budget: used(0.25, 1)}, map[string]string{
			`budget_used_ratio{endpoint="e",resource="tokens"}`: "0.25",
			`budget_used_ratio{endpoint="e",resource="usd"}`:    "1",
		}},
		{"one budget, not begun", EndpointInfo{Budget: used(0, -1)}, map[string]string{
			`budget_used_ratio{endpoint="e",resource="tokens"}`: "0",
		}},
		{"no budget", EndpointInfo{Budget: used(-1, -1)}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, _ := newStore()
			tt.info.Endpoint = "e"
			p.SetEndpoint(tt.info)
			wantSamples(t, spendingOf(t, p), tt.want)
		})
	}
}

// The series carry the labels of the endpoint's other series, the model as soon
// as it is known, and go with the endpoint.
func TestSpendingLabels(t *testing.T) {
	p, _ := newStore()
	p.SetEndpoint(EndpointInfo{
		Endpoint: "e", Labels: map[string]string{"team": "search", "kind": "reserved"},
		Price: &config.Price{GPUHourUSD: 2, GPUs: 1}, Budget: used(0.5, -1),
	})
	p.SetServed("e", &result.Result{Model: "m"})
	wantSamples(t, spendingOf(t, p), map[string]string{
		`price_usd_per_hour{endpoint="e",model="m",team="search"}`:                  "2",
		`budget_used_ratio{endpoint="e",model="m",resource="tokens",team="search"}`: "0.5",
	})
	p.RemoveEndpoint("e")
	wantSamples(t, spendingOf(t, p), nil)
}

// spendingOnly shows the families of prices and budgets of a store alone.
type spendingOnly struct{ *Probes }

func (s spendingOnly) write(w io.Writer, e encoder) error {
	return writeSeries(w, e, s.spending, s.page().spending)
}

func TestSpendingEqualsClientGolang(t *testing.T) {
	p, reg := NewProbes(time.Now), prometheus.NewRegistry()
	vec := func(name string, own ...string) *prometheus.GaugeVec {
		return describedGauge(reg, name, append([]string{"endpoint", "model", "a_zone", "team"}, own...)...)
	}
	hour, token, budget := vec("endpoint_price_usd_per_hour"), vec("endpoint_price_usd_per_token", "kind"), vec("endpoint_budget_used_ratio", "resource")
	for i, target := range targets(false) {
		info := target.info()
		info.Price, info.Budget = &config.Price{GPUHourUSD: 1.1, GPUs: 1, InputUSD: float64(i + 1), CachedInputUSD: 0.5, OutputUSD: 7}, used(0.125, float64(i))
		p.SetEndpoint(info)
		with := func(own ...string) []string {
			return append([]string{target.Endpoint, target.model, target.Labels["a_zone"], target.Labels["team"]}, own...)
		}
		hour.WithLabelValues(with()...).Set(1.1)
		token.WithLabelValues(with("input")...).Set(float64(i+1) / 1e6)
		token.WithLabelValues(with("cached_input")...).Set(0.5 / 1e6)
		token.WithLabelValues(with("output")...).Set(7 / 1e6)
		budget.WithLabelValues(with("tokens")...).Set(0.125)
		budget.WithLabelValues(with("usd")...).Set(float64(i))
	}
	compare(t, spendingOnly{p}, reg)
}

// describedGauge registers a gauge with the description of the catalogue.
func describedGauge(reg prometheus.Registerer, name string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts(describedOpts(name)), labels)
	reg.MustRegister(v)
	return v
}

// describedOpts returns the description of the catalogue.
func describedOpts(name string) prometheus.Opts {
	for _, f := range Catalogue() {
		if f.Name == namePrefix+name {
			return f.opts()
		}
	}
	panic("no family " + name)
}

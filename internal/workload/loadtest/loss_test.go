package loadtest

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
)

// lossCurve is that of four servers: 10, 20 and 40 users each, with 500, 800 and 1,000 tokens/s. The last misses the objective.
func lossCurve(at time.Time) *Finding {
	f := &Finding{At: at, Kind: config.LoadUsers}
	for i, users := range []float64{40, 80, 160} {
		f.Levels = append(f.Levels, Level{
			Level: users, At: at, Complete: true, InFlight: users, Replicas: 4,
			OutputTokensPerSecond: []float64{2000, 3200, 4000}[i], Verdict: []Verdict{Met, Met, Missed}[i],
		})
	}
	f.conclude()
	return f
}

func TestLoss(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	f := lossCurve(now.Add(-24 * time.Hour))
	// Of 60 requests each of 4 servers has 15, and does 650 tokens/s: 2,600. Three do 2,400 within the objective, and 3,000
	// outside of it. Each of 8 servers with 80 requests does 500, 4,000 together, of which seven carry 5,600 and 7,000.
	h := func(lower, upper float64) *Headroom { return &Headroom{lower, &upper} }
	load := &Carried{60, 4}
	days := []Carried{{80, 8}, {60, 4}, {160, 4}, {0.4, 4}}
	same := func(name string, got, want *Headroom) {
		t.Helper()
		if (got == nil) != (want == nil) || got != nil && (!near(got.Lower, want.Lower) || !near(*got.Upper, *want.Upper)) {
			text, _ := json.Marshal([]*Headroom{got, want})
			t.Errorf("%s: got and want %s", name, text)
		}
	}
	l := Forecast(f, load, days, now)
	same("now", l.Now, h(2400.0/2600, 3000.0/2600))
	same("peak", l.Peak, h(2400.0/2600, 3000.0/2600)) // the median of 0.6, 0.92 and 1.4
	same("worst", l.Worst, h(2400.0/4000, 3000.0/4000))
	if got := l.Figures()[0]; got.Value != "not certain" || !got.Bad || got.Note != "the others carry 0.92 to 1.15 times the load in the busiest hour of a day within the objectives" {
		t.Errorf("%+v", got)
	}
	if l := Forecast(f, load, days[2:3], now); l.Figures()[0].Value != "does not survive" || !maps.Equal(l.Verdicts(), map[string]Verdict{"now": Undecided, "peak": Missed}) {
		t.Errorf("%+v, %v", l.Figures(), l.Verdicts())
	}
	if l := Forecast(f, &Carried{0, 4}, days[:1], now); l.Figures()[0].Value != "survives" || l.Figures()[0].Bad || !maps.Equal(l.Verdicts(), map[string]Verdict{"peak": Met}) {
		t.Errorf("%+v, %v", l.Figures(), l.Verdicts())
	}
	same("more than was ever tried", Forecast(f, &Carried{4000, 4}, nil, now).Now, h(2400.0/4000, 3000.0/4000))
	same("one server is left of none", Forecast(f, load, []Carried{{10, 1}}, now).Peak, h(0, 0))

	f.Levels = f.Levels[:2]
	f.conclude()
	if l := Forecast(f, load, nil, now); !near(l.Now.Lower, 2400.0/2600) || l.Now.Upper != nil || l.Figures()[0].Value != "not certain" || !l.Figures()[0].Bad {
		t.Errorf("without a knee %+v", l.Now)
	}
}

func TestNoForecast(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	young, load := lossCurve(now), &Carried{60, 4}
	unknown, bad := lossCurve(now), lossCurve(now)
	unknown.Levels[1].Replicas = 0
	bad.Levels[0].Verdict = Missed
	bad.conclude()
	for name, l := range map[string]*Loss{
		"no load test":        Forecast(nil, load, nil, now),
		"an old one":          Forecast(lossCurve(now.Add(-15*24*time.Hour)), load, nil, now),
		"no good level":       Forecast(bad, load, nil, now),
		"unknown servers":     Forecast(unknown, load, nil, now),
		"one server":          Forecast(young, &Carried{60, 1}, []Carried{{60, 4}}, now),
		"no load":             Forecast(young, &Carried{0.5, 4}, nil, now),
		"a load that is none": Forecast(young, nil, []Carried{{60, 4}}, now),
	} {
		if l != nil {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

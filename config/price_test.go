package config

import (
	"testing"
	"time"
)

// The first part of the schedule that applies counts; hours may go over midnight, and days end
// before until.
func TestPriceSchedule(t *testing.T) {
	p := &Price{GPUHourUSD: 3, GPUs: 2, Plan: PlanOnDemand, InputUSD: 4, CachedInputUSD: 1, OutputUSD: 16, Schedule: []PricePart{
		{Hours: "22:00-06:00", GPUHour: 1, Plan: PlanSpot},
		{Hours: "12:00-13:00", Output: 8},
		{From: "2026-03-01", Until: "2026-04-01", GPUHour: 2, GPUs: 4, Plan: PlanReserved},
	}}
	f := func(at string, perHour, output float64, plan string) {
		t.Helper()
		when, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		got := p.At(when)
		if got.PerHour() != perHour || got.InUSD().Output != output || got.Plan != plan || got.InUSD().Input != 4 {
			t.Errorf("%s: %+v; want %v an hour, output for %v, %s", at, got, perHour, output, plan)
		}
	}
	f("2026-02-28T21:59:59Z", 6, 16, PlanOnDemand)
	f("2026-02-28T22:00:00Z", 2, 16, PlanSpot)
	f("2026-03-01T05:59:59Z", 2, 16, PlanSpot) // before the days, which apply too
	f("2026-03-01T06:00:00Z", 8, 16, PlanReserved)
	f("2026-03-31T12:30:00Z", 6, 8, PlanOnDemand) // the second part leaves the rest as it is
	f("2026-04-01T06:00:00Z", 6, 16, PlanOnDemand)
	f("2026-02-28T12:59:00Z", 6, 8, PlanOnDemand)
	f("2026-02-28T13:00:00Z", 6, 16, PlanOnDemand)
	f("2026-02-28T23:30:00+02:00", 6, 16, PlanOnDemand) // 21:30 in UTC
	if (*Price)(nil).At(time.Time{}) != nil {
		t.Error("no price has one")
	}
}

// A rate of 0.0125 makes 80 rupees one dollar.
func TestPriceInUSD(t *testing.T) {
	p := &Price{
		Currency: "INR", GPUHour: 240, GPUs: 2, Input: 80, CachedInput: 40, Output: 160, CacheWrite: 120,
		Schedule: []PricePart{{Hours: "00:00-12:00", Output: 80}},
	}
	if p.PerToken() || p.PerHour() != 0 || p.USD(1e6, 0, 1e6) != 0 {
		t.Errorf("without a rate: %v an hour, %+v; want none", p.PerHour(), p.InUSD())
	}
	if p.PerHourInCurrency() != 480 || p.InCurrency() != (TokenPrices{80, 40, 120, 160}) {
		t.Errorf("%v an hour, %+v", p.PerHourInCurrency(), p.InCurrency())
	}
	p.USDRate = 0.0125
	if !p.PerToken() || p.PerHour() != 6 || p.InUSD() != (TokenPrices{1, 0.5, 1.5, 2}) {
		t.Errorf("%v an hour, %+v; want 6, and 1, 0.5, 1.5, 2", p.PerHour(), p.InUSD())
	}
	// 600,000 at 1 $, 400,000 cached ones at 0.50, and 500,000 at 2; at night at 1
	if got := p.USD(1e6, 4e5, 5e5); got != 1.8 {
		t.Errorf("%v $, want 1.80", got)
	}
	night := time.Date(2026, 1, 1, 3, 0, 0, 0, time.UTC)
	if got := p.At(night).USD(1e6, 4e5, 5e5); got != 1.3 {
		t.Errorf("at night: %v $, want 1.30", got)
	}
}

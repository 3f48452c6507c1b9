package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// Each result is its start and end in seconds, with a c where it is a
// confirmation, ! where it failed and x where it was canceled.
func TestSchedule(t *testing.T) {
	t.Parallel()
	well := behavior{}
	refused := behavior{outage: outageRefused}
	hung := behavior{outage: outageHung}
	always := func(b behavior) func(int64) behavior { return func(int64) behavior { return b } }
	tests := []struct {
		name       string
		interval   time.Duration
		to         int64 // seconds
		behaviorAt func(start int64) behavior
		want       string
	}{
		{"well", 15 * time.Second, 40, always(well), "3-5 18-20 33-35"},
		{"a first failure is confirmed twice", 30 * time.Second, 70, always(refused), "3-3! 8-8c! 13-13c! 33-33! 63-63!"},
		{"confirmed after a third of a short interval", 6 * time.Second, 10, always(refused), "3-3! 5-5c! 7-7c! 9-9!"},
		{
			"a blip is confirmed away", 15 * time.Second, 20,
			func(start int64) behavior {
				if start < 5000 {
					return refused
				}
				return well
			},
			"3-3! 8-10c 18-20",
		},
		{"probes that hang leave others out", 15 * time.Second, 70, always(hung), "3-33! 48-78!"},
		{"a pause after the second timeout", 15 * time.Second, 200, always(hung), "3-33! 48-78! 123-153! 198-228!"},
		{"a confirmation needs room", 5 * time.Second, 5, func(int64) behavior {
			return behavior{shares: shares{failed: 1}}
		}, "3-4! 5-6c!"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			source := &target{interval: tt.interval, random: rand.New(rand.NewPCG(1, 2))}
			var got []string
			for _, r := range schedule(source, 0, tt.to*1000, 3000, tt.behaviorAt) {
				got = append(got, show(r))
			}
			if have := strings.Join(got, " "); have != tt.want {
				t.Errorf("results %s, want %s", have, tt.want)
			}
		})
	}
}

func show(r result) string {
	s := fmt.Sprintf("%d-%d", r.start/1000, r.end/1000)
	if r.confirm {
		s += "c"
	}
	switch {
	case r.verdict.outcome == outcomeCanceled:
		s += "x"
	case r.verdict.failed():
		s += "!"
	}
	return s
}

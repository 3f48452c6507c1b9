package prober

import (
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// TestSide judges silences that are made by hand. TestStallSides of internal/hostile judges those of real connections.
func TestSide(t *testing.T) {
	began := time.Unix(1_000_000, 0)
	// looked returns a silence of 6 s in which the kernel was asked from the first second on, each second: answered says
	// of each keepalive whether it was acknowledged by the next look.
	looked := func(came bool, answered ...bool) silence {
		s := silence{conn: new(conn), began: began, took: 6 * time.Second, came: came}
		g := glance{at: began.Add(time.Second), out: 10, acks: 5, heard: time.Second, rto: 200 * time.Millisecond, rtt: time.Millisecond}
		s.looks = []glance{g}
		for _, yes := range answered {
			g.at, g.out, g.heard, g.unanswered = g.at.Add(time.Second), g.out+1, g.heard+time.Second, g.unanswered+1
			if yes {
				g.acks, g.heard, g.unanswered = g.acks+1, time.Second-time.Millisecond, 0
			}
			s.looks = append(s.looks, g)
		}
		s.during = len(s.looks)
		return s
	}
	changed := func(s silence, change func(s *silence)) silence {
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		silence
		want result.Side
	}{
		"the host opens no connection":               {silence{began: began, took: 5 * time.Second}, result.SideHost},
		"a connection opens late":                    {silence{began: began, took: 3 * time.Second, came: true}, result.SideNetwork},
		"the kernel shows nothing":                   {silence{conn: new(conn), began: began, took: 5 * time.Second}, result.SideUnknown},
		"data waits for the exporter for a third":    {changed(looked(true, true, true), func(s *silence) { s.unread = 2 * time.Second }), result.SideExporter},
		"and for less than that":                     {changed(looked(true, true, true), func(s *silence) { s.unread = time.Second }), result.SideServer},
		"data was received and could not be read":    {changed(looked(true, true, true), func(s *silence) { s.stale = true }), result.SideNetwork},
		"data waits for a segment that is missing":   {changed(looked(false, true, true), func(s *silence) { s.looks[1].held = true }), result.SideNetwork},
		"the request was not acknowledged at all":    {changed(looked(false, false), func(s *silence) { s.looks[0].unacked, s.looks[1].unacked = 1, 1 }), result.SideHost},
		"the request was acknowledged late":          {changed(looked(true, true), func(s *silence) { s.looks[0].unacked = 1 }), result.SideNetwork},
		"the request was sent again for seconds":     {changed(looked(true, true), func(s *silence) { s.first, s.looks[1].retransmits = true, 4 }), result.SideNetwork},
		"all keepalives answered, nothing came":      {looked(false, true, true, true, true, true), result.SideServer},
		"all keepalives answered, the reply went on": {looked(true, true, true, true, true, true), result.SideServer},
		"no keepalive answered, nothing came":        {looked(false, false, false, false, false, false), result.SideHost},
		"no keepalive answered, the reply went on":   {looked(true, false, false, false, false, false), result.SideNetwork},
		"no more answers from the second on":         {looked(false, true, false, false, false, false), result.SideHost},
		// A segment that was lost is sent again after 0.2, 0.4, 0.8 and 1.6 s: four times in 6 s.
		"one of five lost, 0.2^4 is below 1 %":   {looked(false, true, true, false, true, true), result.SideServer},
		"two of five lost, 0.4^4 is 2.6 %":       {looked(false, true, false, true, false, true), result.SideUnknown},
		"three of five lost, 0.6^4 is above 5 %": {looked(false, true, false, false, true, false), result.SideNetwork},
	} {
		if got := c.judge(); got.Side != c.want {
			t.Errorf("%s: side %s (%s), want %s", name, got.Side, got.Evidence, c.want)
		}
	}
}

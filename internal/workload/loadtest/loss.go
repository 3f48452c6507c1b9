package loadtest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// Carried is what the servers of an endpoint carry at a time.
type Carried struct {
	Requests float64 // running and waiting
	Servers  int     // that answer
}

// Headroom is how many times the load the servers carry within the objectives that are left after the loss of one: Lower
// by the largest level that meets the objectives, Upper by the smallest that misses them; nil is not known.
type Headroom struct {
	Lower float64  `json:"lower"`
	Upper *float64 `json:"upper,omitempty"`
}

// Loss is what the loss of a server would mean. It is never changed once made.
type Loss struct {
	// Now is under the load of now, Peak at the busiest hour of a day: the median of the latest days. Worst is that of the
	// day with the least. nil is not known.
	Now   *Headroom `json:"now,omitempty"`
	Peak  *Headroom `json:"peak,omitempty"`
	Worst *Headroom `json:"worst_day,omitempty"`
	// Measured is when the level ended by which it is known.
	Measured time.Time `json:"load_test_at"`
}

// Forecast returns what the loss of a server would mean under the load of now and of the busiest hours of days, by what
// load tests came to; nil where that is not known. The load of users is the tokens per second that the curve has at as many
// requests in flight for each server: with fewer servers the same users have more requests in flight, as each of
// them takes longer. It is assumed that a balancer spreads requests evenly, and that users ask about what the load test asks.
func Forecast(f *Finding, load *Carried, days []Carried, now time.Time) *Loss {
	if f == nil || f.MaxGood == nil || load == nil || load.Servers < 2 {
		return nil
	}
	good := f.level(f.MaxGood.Level)
	if good.Replicas == 0 || now.Sub(good.At) > curveFor {
		return nil
	}
	loss := &Loss{Now: f.headroom(good, *load), Measured: good.At}
	var all []*Headroom
	for _, day := range days {
		if h := f.headroom(good, day); h != nil {
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b *Headroom) int { return cmp.Compare(a.Lower, b.Lower) })
	if n := len(all); n > 0 {
		loss.Worst, loss.Peak = all[0], all[(n-1)/2]
	} else if loss.Now == nil {
		return nil
	}
	return loss
}

// headroom returns that under a load; nil where there is next to none.
func (f *Finding) headroom(good *Level, c Carried) *Headroom {
	load := f.speed(c.Requests/float64(c.Servers)) * float64(c.Servers)
	if c.Requests < 1 || load <= 0 {
		return nil
	}
	left := float64(c.Servers-1) / load
	h := &Headroom{Lower: good.speed() * left}
	if f.Knee != nil {
		if knee := f.level(f.Knee.Level); knee.Replicas > 0 {
			h.Upper = new(max(h.Lower, knee.speed()*left))
		}
	}
	return h
}

// speed returns the output tokens per second of one server.
func (l *Level) speed() float64 { return l.OutputTokensPerSecond / float64(l.Replicas) }

// speed returns the output tokens per second of one server with so many requests in flight: on the line between the levels,
// and above the highest as much as that has at the least.
func (f *Finding) speed(inFlight float64) float64 {
	below, speed := 0.0, 0.0 // of the level before
	for _, l := range f.Levels {
		if !l.Complete || l.Replicas == 0 || l.OutputTokensPerSecond <= 0 {
			continue
		}
		at, now := l.InFlight/float64(l.Replicas), max(speed, l.speed())
		if inFlight <= at && at > below {
			return speed + (now-speed)*(inFlight-below)/(at-below)
		}
		below, speed = at, now
	}
	return speed
}

// MarshalJSON implements json.Marshaler.
func (l *Loss) MarshalJSON() ([]byte, error) {
	type plain Loss
	return json.Marshal(map[string]*plain{"loss_of_a_server": (*plain)(l)})
}

// Figures implements workload.Finding.
func (l *Loss) Figures() []workload.Figure {
	h, when := l.Peak, "in the busiest hour of a day"
	if h == nil {
		h, when = l.Now, "now"
	}
	value := map[Verdict]string{Met: "survives", Undecided: "not certain", Missed: "does not survive"}[h.verdict()]
	return []workload.Figure{{
		Label: "loss of a server", Value: value, Bad: h.Lower < 1,
		Note: "the others carry " + h.String() + " times the load " + when + " within the objectives",
	}}
}

// String returns the bounds.
func (h *Headroom) String() string {
	text := result.ThreeDigits(h.Lower)
	if h.Upper != nil {
		text += " to " + result.ThreeDigits(*h.Upper)
	}
	return text
}

// verdict returns whether the others would meet the objectives; "" is not known.
func (h *Headroom) verdict() Verdict {
	switch {
	case h == nil:
		return ""
	case h.Lower >= 1:
		return Met
	case h.Upper != nil && *h.Upper < 1:
		return Missed
	}
	return Undecided
}

// Verdicts returns whether the others would meet the objectives now and at the peak, as far as it is known.
func (l *Loss) Verdicts() map[string]Verdict {
	all := map[string]Verdict{"now": l.Now.verdict(), "peak": l.Peak.verdict()}
	maps.DeleteFunc(all, func(_ string, v Verdict) bool { return v == "" })
	return all
}

// Words says the same in a line, as evidence.
func (l *Loss) Words() string {
	var all []string
	for i, h := range []*Headroom{l.Now, l.Peak} {
		if h != nil {
			at := []string{"the load of now", "the daily peak"}[i]
			all = append(all, fmt.Sprintf("objectives %s at %s (the others carry %s times it)", h.verdict(), at, h))
		}
	}
	return "with one server fewer: " + strings.Join(all, ", ")
}

// LossFact is what the loss of a server would mean, with its metric.
func LossFact() workload.Fact {
	return workload.FactOf[*Loss](workload.Metric{
		Name: "endpoint_loss_headroom_ratio", Values: []string{"now", "peak"},
		Value: workload.Of(func(l *Loss, i int) float64 {
			return workload.Part([...]*Headroom{l.Now, l.Peak}[i], func(h *Headroom) float64 { return h.Lower })
		}),
	})
}

package estimate

import (
	"time"

	"github.com/inference-exporter/inference_exporter/internal/stats"
)

const (
	// partsOfDay is into how many parts a day is divided. They begin with the hour
	// and the half hour, as jobs do that run every day.
	partsOfDay = 48
	// maxDays is over how many days the cycle is averaged.
	maxDays = 7
	// fewInPart is how many latencies in a part of a day count half: fewer are more
	// noise than cycle.
	fewInPart = 2
)

// dayParts has a logarithm for each part of a day, in units of logUnit.
type dayParts [partsOfDay]int16

// partOf returns the part of the day, in UTC.
func partOf(at time.Time) int {
	const day = 24 * 60 * 60
	return int((at.Unix()%day + day) % day * partsOfDay / day)
}

// dailyCycle is by how much the logarithm of a latency usually is above or below that
// of the whole day, for each part of the day. It learns from whole days, so that what
// is known of one part is known of all.
type dailyCycle struct {
	days  uint8 // that it was learnt from, at most maxDays
	began time.Time
	// parts are those of the day, from the part first on, as far as they have had a
	// latency: there is a cycle for each latency of each series.
	first uint8
	parts []dayPart
}

// dayPart is a part of the day: what is known of it, in units of logUnit, and the
// logarithms of the day that began.
type dayPart struct {
	sum   float32
	count uint16
	known int16
}

// place returns the index of a part of the day, which may be one beyond parts.
func (c *dailyCycle) place(part int) int { return (part - int(c.first) + partsOfDay) % partsOfDay }

// part returns a part of the day to change it.
func (c *dailyCycle) part(part int) *dayPart {
	if len(c.parts) == 0 {
		c.first = uint8(part)
	}
	i := c.place(part)
	for len(c.parts) <= i {
		c.parts = stats.AppendLatest(c.parts, dayPart{}, partsOfDay)
	}
	return &c.parts[i]
}

// at returns the cycle in a part of the day.
func (c *dailyCycle) at(part int) float64 {
	if i := c.place(part); i < len(c.parts) {
		return float64(c.parts[i].known) * logUnit
	}
	return 0
}

// known returns the cycle in all parts of the day.
func (c *dailyCycle) known() (all dayParts) {
	for i, p := range c.parts {
		all[(int(c.first)+i)%partsOfDay] = p.known
	}
	return all
}

// isOver reports whether a day has passed.
func (c *dailyCycle) isOver(at time.Time) bool {
	return !c.began.IsZero() && at.Sub(c.began) >= 24*time.Hour
}

// add adds a logarithm.
func (c *dailyCycle) add(part int, v float64, at time.Time) {
	if c.began.IsZero() {
		c.began = at
	}
	if p := c.part(part); p.count+1 > 0 {
		p.sum += float32(v)
		p.count++
	}
}

// shift adds a step to what the day had before it.
func (c *dailyCycle) shift(size float64) {
	for i := range c.parts {
		c.parts[i].sum += float32(size) * float32(c.parts[i].count)
	}
}

// learn takes in the day that is over, and begins another.
func (c *dailyCycle) learn(at time.Time) {
	level, parts := 0.0, 0
	for _, p := range c.parts {
		if p.count > 0 {
			level += p.mean() - float64(p.known)*logUnit
			parts++
		}
	}
	level /= float64(max(1, parts))
	c.days = min(c.days+1, maxDays)
	for i := range c.parts {
		p := &c.parts[i]
		if p.count > 0 {
			known := float64(p.known) * logUnit
			trust := float64(p.count) / float64(p.count+fewInPart) / float64(c.days)
			p.known = inUnits(known + trust*(p.mean()-level-known))
		}
		p.sum, p.count = 0, 0
	}
	c.began = at
}

// mean returns the mean logarithm of the day that began.
func (p *dayPart) mean() float64 { return float64(p.sum) / float64(p.count) }

package estimate

import "time"

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
	known dayParts
	days  uint8 // that it was learnt from, at most maxDays
	began time.Time
	// of the day that began
	sum   [partsOfDay]float32
	count [partsOfDay]uint16
}

// at returns the cycle in a part of the day.
func (c *dailyCycle) at(part int) float64 { return float64(c.known[part]) * logUnit }

// isOver reports whether a day has passed.
func (c *dailyCycle) isOver(at time.Time) bool {
	return !c.began.IsZero() && at.Sub(c.began) >= 24*time.Hour
}

// add adds a logarithm.
func (c *dailyCycle) add(part int, v float64, at time.Time) {
	if c.began.IsZero() {
		c.began = at
	}
	if c.count[part]+1 > 0 {
		c.sum[part] += float32(v)
		c.count[part]++
	}
}

// shift adds a step to what the day had before it.
func (c *dailyCycle) shift(size float64) {
	for i := range c.sum {
		c.sum[i] += float32(size) * float32(c.count[i])
	}
}

// learn takes in the day that is over, and begins another.
func (c *dailyCycle) learn(at time.Time) {
	level, parts := 0.0, 0
	for i, n := range c.count {
		if n > 0 {
			level += float64(c.sum[i])/float64(n) - c.at(i)
			parts++
		}
	}
	level /= float64(max(1, parts))
	c.days = min(c.days+1, maxDays)
	for i, n := range c.count {
		if n > 0 {
			found := float64(c.sum[i])/float64(n) - level
			trust := float64(n) / float64(n+fewInPart) / float64(c.days)
			c.known[i] = inUnits(c.at(i) + trust*(found-c.at(i)))
		}
	}
	c.sum, c.count, c.began = [partsOfDay]float32{}, [partsOfDay]uint16{}, at
}

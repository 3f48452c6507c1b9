package schedule

import (
	"time"

	"github.com/cespare/xxhash/v2"
)

// maxDrift is how far the wall clock may move against the monotonic one
// between two looks before it counts as a step. Less is slewing, which the
// grid follows without harm.
const maxDrift = time.Second

// clock is the wall clock, in nanoseconds since 1970, that separates its
// steps (set by hand, by NTP, by a suspended machine) from the passing of time.
type clock struct {
	// read returns the wall clock and the monotonic one.
	read func() (wall int64, mono time.Duration)

	wall int64
	mono time.Duration
}

func newClock() clock {
	start := time.Now()
	return clock{
		read: func() (int64, time.Duration) {
			now := time.Now()
			return now.UnixNano(), now.Sub(start)
		},
		wall: start.UnixNano(),
	}
}

// now returns the wall clock and by how much it stepped since the call before.
func (c *clock) now() (now int64, step time.Duration) {
	wall, mono := c.read()
	drift := time.Duration(wall-c.wall) - (mono - c.mono)
	c.wall, c.mono = wall, mono
	if drift.Abs() < maxDrift {
		return wall, 0
	}
	return wall, drift
}

// gridOf returns what places the grid of a key.
func gridOf(salt, key string) uint64 { return xxhash.Sum64String(salt + key) }

// gridAfter returns the first point after now of a grid: all times t since 1970
// with t mod interval = grid mod interval.
func gridAfter(grid uint64, interval time.Duration, now int64) int64 {
	offset := int64(grid % uint64(interval))
	into := (now - offset) % int64(interval)
	if into < 0 { // only before 1970
		into += int64(interval)
	}
	return now - into + int64(interval)
}

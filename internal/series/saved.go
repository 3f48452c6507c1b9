package series

import (
	"errors"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// Saved is the JSON of a Log: its probes as columns, and its counts.
type Saved struct {
	// At are tenths of a second since 1970, each but the first as the difference to
	// the one before. TTFT and TPOT are microseconds, -1 where not measured.
	At   []int64 `json:"at"`
	TTFT []int64 `json:"ttft"`
	TPOT []int64 `json:"tpot"`
	// Outcomes are as many as probes, those in a row as one.
	Outcomes []savedRun `json:"outcomes"`
	Uptime   uptime     `json:"uptime"`
}

// savedRun is an outcome of so many probes in a row.
type savedRun struct {
	Outcome result.Outcome `json:"outcome"`
	// Late are successes that exceeded an objective.
	Late bool `json:"late,omitempty"`
	N    int  `json:"n"`
}

// Save sets s, whose columns it uses again, to what the log holds.
func (l *Log) Save(s *Saved) {
	points := l.Points(maxPoints)
	l.mu.Lock()
	l.uptime.copyTo(&s.Uptime)
	l.mu.Unlock()
	s.At, s.TTFT, s.TPOT, s.Outcomes = s.At[:0], s.TTFT[:0], s.TPOT[:0], s.Outcomes[:0]
	var before int64
	for _, p := range points {
		at := tenths(p.At)
		s.At, before = append(s.At, at-before), at
		s.TTFT, s.TPOT = append(s.TTFT, savedMicros(p.TTFT)), append(s.TPOT, savedMicros(p.TPOT))
		if n := len(s.Outcomes); n > 0 && s.Outcomes[n-1].Outcome == p.Outcome && s.Outcomes[n-1].Late == p.Late {
			s.Outcomes[n-1].N++
		} else {
			s.Outcomes = append(s.Outcomes, savedRun{p.Outcome, p.Late, 1})
		}
	}
}

func savedMicros(d time.Duration) int64 {
	if d < 0 {
		return -1
	}
	return int64(d / time.Microsecond)
}

// errNotSaved is of what Save does not write.
var errNotSaved = errors.New("not the log of a series")

// Restore returns the log that was saved, without what is of the future by the clock.
func (s *Saved) Restore(now time.Time) (*Log, error) {
	n := len(s.At)
	if n > maxPoints || len(s.TTFT) != n || len(s.TPOT) != n {
		return nil, errNotSaved
	}
	l := &Log{uptime: s.Uptime.valid(now)}
	known := map[result.Outcome]uint8{}
	for i, o := range result.Outcomes() {
		known[o] = uint8(i)
	}
	var at int64
	i := 0
	for _, run := range s.Outcomes {
		outcome, ok := known[run.Outcome]
		for range run.N {
			if i == n {
				return nil, errNotSaved
			}
			if at += s.At[i]; ok && at <= tenths(now) {
				r := record{ttft: restoredMicros(s.TTFT[i]), tpot: restoredMicros(s.TPOT[i]), outcome: outcome, marks: timed}
				if run.Late {
					r.marks |= late
				}
				l.add(time.UnixMilli(at*100), r)
			}
			i++
		}
	}
	if i != n {
		return nil, errNotSaved
	}
	l.BeginWindow()
	return l, nil
}

func restoredMicros(us int64) micros {
	if us < 0 || us > int64(time.Hour/time.Microsecond) {
		return absent
	}
	return microsOf(time.Duration(us) * time.Microsecond)
}

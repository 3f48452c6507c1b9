package series

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
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
	// Late are successes that exceeded an objective, Aside probes that are no samples.
	Late  bool `json:"late,omitempty"`
	Aside bool `json:"aside,omitempty"`
	N     int  `json:"n"`
}

// Save sets s, whose columns it uses again, to what the log holds.
func (l *Log) Save(s *Saved) {
	points := l.Points(MaxPoints)
	l.mu.Lock()
	l.uptime.copyTo(&s.Uptime)
	l.mu.Unlock()
	s.At, s.TTFT, s.TPOT, s.Outcomes = s.At[:0], s.TTFT[:0], s.TPOT[:0], s.Outcomes[:0]
	var before int64
	for _, p := range points {
		at := tenths(p.At)
		s.At, before = append(s.At, at-before), at
		s.TTFT, s.TPOT = append(s.TTFT, savedMicros(p.TTFT)), append(s.TPOT, savedMicros(p.TPOT))
		run := savedRun{p.Outcome, p.Late, p.Aside, 1}
		if n := len(s.Outcomes); n > 0 {
			if run.N = s.Outcomes[n-1].N; s.Outcomes[n-1] == run {
				s.Outcomes[n-1].N++
				continue
			}
			run.N = 1
		}
		s.Outcomes = append(s.Outcomes, run)
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
	if n > MaxPoints || len(s.TTFT) != n || len(s.TPOT) != n {
		return nil, errNotSaved
	}
	l := &Log{uptime: s.Uptime.valid(now)}
	outcomes := result.Outcomes()
	var at int64
	i := 0
	for _, run := range s.Outcomes {
		outcome := slices.Index(outcomes, run.Outcome)
		for range run.N {
			if i == n {
				return nil, errNotSaved
			}
			if at += s.At[i]; outcome >= 0 && at <= tenths(now) {
				r := record{at: at, ttft: restoredMicros(s.TTFT[i]), tpot: restoredMicros(s.TPOT[i]), what: what(outcome)}
				switch {
				case run.Late:
					r.what |= late
				case !run.Aside:
					r.what |= timed
				}
				l.add(r)
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

// restoredMicros is for any number: one that is no time, or too long, is absent.
func restoredMicros(us int64) micros {
	return microsOf(time.Duration(min(max(us, -1), int64(time.Hour))) * time.Microsecond)
}

// stepsVersion is that of the JSON of Steps. It changes where an older program would
// misread it, or where what was learned means something else.
const stepsVersion = 2

// LastProbe returns when the latest probe started; the zero time before the first.
func (s *Steps) LastProbe() time.Time {
	if s.Last == 0 {
		return time.Time{}
	}
	return timeOfTenths(s.Last)
}

// Clone returns a copy that shares nothing with s.
func (s *Steps) Clone() *Steps {
	c := *s
	c.Latest = slices.Clone(s.Latest)
	for i := range c.Latencies {
		l := &c.Latencies[i]
		l.Cycle.Parts, l.Past = slices.Clone(l.Cycle.Parts), slices.Clone(l.Past)
	}
	return &c
}

// plainSteps are Steps with the JSON of their fields.
type plainSteps Steps

// savedSteps is the JSON of Steps.
type savedSteps struct {
	Version int `json:"version"`
	plainSteps
}

// MarshalJSON returns all that was learned, at most some 6 kB.
func (s *Steps) MarshalJSON() ([]byte, error) {
	return json.Marshal(savedSteps{stepsVersion, plainSteps(*s)})
}

// UnmarshalJSON takes up what MarshalJSON returned. After an error s is as it was.
func (s *Steps) UnmarshalJSON(data []byte) error {
	var j savedSteps
	if err := json.Unmarshal(data, &j); err != nil {
		return fmt.Errorf("decode steps: %w", err)
	}
	if j.Version != stepsVersion {
		return fmt.Errorf("steps of version %d, and this program reads version %d", j.Version, stepsVersion)
	}
	next := Steps(j.plainSteps)
	if !next.isSane() {
		return errors.New("steps that no probes lead to")
	}
	*s = next
	return nil
}

// isSane reports whether probes may have led to this.
func (s *Steps) isSane() bool {
	f := &s.Failures
	return 0 <= f.Since && f.Since <= maxProbes && 0 <= f.Failed && f.Failed <= f.Weight && f.Weight <= maxOlder &&
		len(s.Latest) <= len(Metrics()) && !slices.ContainsFunc(s.Latest, func(s Step) bool { return !s.isSane() }) &&
		s.Latencies[0].isSane() && s.Latencies[1].isSane()
}

// isSane reports whether there may be such a step.
func (s *Step) isSane() bool {
	return slices.Contains(Metrics(), s.Metric) && s.Before >= 0 && s.After >= 0 && s.Lower >= 0 && s.Lower <= s.Upper
}

// maxLog bounds the logarithms of seconds that can be true.
const maxLog = (math.MaxInt16 + 1) * logUnit

// isSane reports whether probes may have led to this.
func (l *levels) isSane() bool {
	c := &l.Cycle
	return 0 <= l.Since && l.Since <= maxProbes &&
		math.Abs(l.Older) <= maxLog && 0 <= l.Weight && l.Weight <= maxOlder && math.Abs(l.Centre) <= maxLog &&
		(l.Noise == 0 || l.Noise >= minNoise && l.Noise <= maxLog) && 0 <= l.Waited &&
		0 <= l.Alike && l.Alike <= noiseBlock*maxProbes && l.Compared <= maxCompared && len(l.Past) <= maxPast &&
		c.Days <= maxDays && c.First < partsOfDay && len(c.Parts) <= partsOfDay &&
		!slices.ContainsFunc(c.Parts, func(p dayPart) bool { return math.Abs(float64(p.Sum)) > 2*maxLog*float64(p.Count) })
}

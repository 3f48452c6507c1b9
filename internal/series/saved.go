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
				r := record{ttft: restoredMicros(s.TTFT[i]), tpot: restoredMicros(s.TPOT[i]), what: what(outcome) | timed}
				if run.Late {
					r.what |= late
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

// stepsVersion is that of the JSON of Steps. It changes where an older program would
// misread it, or where what was learned means something else.
const stepsVersion = 1

// savedSteps is the JSON of Steps. Logarithms are in units of logUnit.
type savedSteps struct {
	Version int       `json:"version"`
	Last    time.Time `json:"last"`
	// Pauses are the seconds before each of the kept probes, the oldest first.
	Pauses []uint16 `json:"pauses"`
	// TTFT and TPOT are what is known of the latencies.
	TTFT savedLevels `json:"ttft"`
	TPOT savedLevels `json:"tpot"`
	// FailuresSince is how many of the kept probes are since the latest step of failures;
	// OlderFailed of OlderProbes failed that are no longer kept.
	FailuresSince int     `json:"failures_since"`
	OlderFailed   float64 `json:"older_failed"`
	OlderProbes   float64 `json:"older_probes"`
	Latest        []Step  `json:"latest,omitempty"`
}

// savedLevels is the JSON of levels, with the logarithms of the kept probes.
type savedLevels struct {
	Logs     []int16     `json:"logs"`
	Since    int         `json:"since"` // how many of the kept probes are since the latest step
	Older    float64     `json:"older"`
	Weight   float64     `json:"weight"`
	Centre   float64     `json:"centre"`
	Noise    float64     `json:"noise"`
	Waited   int         `json:"waited"`
	Alike    float64     `json:"alike"`
	Compared uint8       `json:"compared"`
	Past     []savedPast `json:"past,omitempty"`
	Cycle    savedCycle  `json:"cycle"`
}

// savedPast is the JSON of a pastStep.
type savedPast struct {
	At     int64   `json:"at"`
	Before float32 `json:"before"`
	Size   float32 `json:"size"`
}

// savedCycle is the JSON of a dailyCycle.
type savedCycle struct {
	Days  uint8     `json:"days"`
	Known []int16   `json:"known,omitempty"`
	Began time.Time `json:"began,omitzero"`
	Sum   []float32 `json:"sum,omitempty"`
	Count []uint16  `json:"count,omitempty"`
}

// LastProbe returns when the latest probe started; the zero time before the first.
func (s *Steps) LastProbe() time.Time { return s.last }

// Latest returns the latest step of each metric that had one. It must not be changed.
func (s *Steps) Latest() []Step { return s.latest }

// Clone returns a copy that shares nothing with s.
func (s *Steps) Clone() *Steps {
	c := *s
	c.probes, c.latest = slices.Clone(s.probes), slices.Clone(s.latest)
	for i := range c.latencies {
		l := &c.latencies[i]
		l.cycle.parts, l.past = slices.Clone(l.cycle.parts), slices.Clone(l.past)
	}
	return &c
}

// keep makes steps the latest of their metrics.
func (s *Steps) keep(found []Step) {
	for _, step := range found {
		s.latest = slices.DeleteFunc(s.latest, func(other Step) bool { return other.Metric == step.Metric })
		s.latest = append(s.latest, step)
	}
}

// MarshalJSON returns all that was learned, at most some 8 kB.
func (s *Steps) MarshalJSON() ([]byte, error) {
	j := savedSteps{
		Version: stepsVersion, Last: s.last, Latest: s.latest,
		FailuresSince: s.failures.n, OlderFailed: s.failures.failed, OlderProbes: s.failures.weight,
	}
	of := [numLatencies]*savedLevels{&j.TTFT, &j.TPOT}
	for i := range s.latencies {
		*of[i] = s.latencies[i].saved()
	}
	for i := len(s.probes) - 1; i >= 0; i-- {
		p := s.back(i)
		j.Pauses = append(j.Pauses, p.pause)
		for k := range of {
			of[k].Logs = append(of[k].Logs, p.logs[k])
		}
	}
	return json.Marshal(j)
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
	of := [numLatencies]*savedLevels{&j.TTFT, &j.TPOT}
	if !j.isSane() || !of[0].isSane(len(j.Pauses)) || !of[1].isSane(len(j.Pauses)) {
		return errors.New("steps that no probes lead to")
	}
	next := Steps{last: j.Last, latest: j.Latest}
	for i, pause := range j.Pauses {
		next.probes = append(next.probes, stepProbe{pause, [numLatencies]int16{j.TTFT.Logs[i], j.TPOT.Logs[i]}})
	}
	next.failures = failureLevels{n: j.FailuresSince, failed: j.OlderFailed, weight: j.OlderProbes}
	for i := range j.FailuresSince {
		if next.back(i).failed() {
			next.failures.kept++
		}
	}
	for i := range next.latencies {
		next.latencies[i] = of[i].levels()
	}
	*s = next
	return nil
}

// isSane reports whether probes may have led to this, but for the latencies.
func (j *savedSteps) isSane() bool {
	return len(j.Pauses) <= maxProbes && 0 <= j.FailuresSince && j.FailuresSince <= len(j.Pauses) &&
		0 <= j.OlderFailed && j.OlderFailed <= j.OlderProbes && j.OlderProbes <= maxOlder &&
		len(j.Latest) <= len(Metrics()) && !slices.ContainsFunc(j.Latest, func(s Step) bool { return !s.isSane() })
}

// isSane reports whether there may be such a step.
func (s *Step) isSane() bool {
	return slices.Contains(Metrics(), s.Metric) && s.Before >= 0 && s.After >= 0 && s.Lower >= 0 && s.Lower <= s.Upper
}

// saved returns the JSON of the levels, without the logarithms of the kept probes.
func (l *levels) saved() savedLevels {
	j := savedLevels{
		Since: l.n, Older: l.older, Weight: l.weight, Centre: l.centre, Noise: l.noise, Waited: l.waited,
		Alike: l.alike, Compared: l.compared, Cycle: l.cycle.saved(),
	}
	for _, p := range l.past {
		j.Past = append(j.Past, savedPast{p.at, p.before, p.size})
	}
	return j
}

// maxLog bounds the logarithms of seconds that can be true.
const maxLog = (math.MaxInt16 + 1) * logUnit

// isSane reports whether so many probes may have led to this.
func (j *savedLevels) isSane(probes int) bool {
	return len(j.Logs) == probes && 0 <= j.Since && j.Since <= probes &&
		math.Abs(j.Older) <= maxLog && 0 <= j.Weight && j.Weight <= maxOlder && math.Abs(j.Centre) <= maxLog &&
		(j.Noise == 0 || j.Noise >= minNoise && j.Noise <= maxLog) && 0 <= j.Waited &&
		0 <= j.Alike && j.Alike <= noiseBlock*maxProbes && j.Compared <= maxCompared &&
		len(j.Past) <= maxPast && j.Cycle.isSane()
}

// levels returns what the JSON is of.
func (j *savedLevels) levels() levels {
	l := levels{
		n: j.Since, older: j.Older, weight: j.Weight, centre: j.Centre, noise: j.Noise, waited: j.Waited,
		alike: j.Alike, compared: j.Compared, cycle: j.Cycle.cycle(),
	}
	for _, p := range j.Past {
		l.past = append(l.past, pastStep{p.At, p.Before, p.Size})
	}
	return l
}

func (c *dailyCycle) saved() savedCycle {
	j := savedCycle{Days: c.days, Began: c.began}
	if c.days > 0 {
		known := c.known()
		j.Known = known[:]
	}
	if !c.began.IsZero() {
		j.Sum, j.Count = make([]float32, partsOfDay), make([]uint16, partsOfDay)
		for i, p := range c.parts {
			at := (int(c.first) + i) % partsOfDay
			j.Sum[at], j.Count[at] = p.sum, p.count
		}
	}
	return j
}

func (j *savedCycle) isSane() bool {
	whole := func(n int) bool { return n == 0 || n == partsOfDay }
	for i, sum := range j.Sum {
		if i < len(j.Count) && math.Abs(float64(sum)) > 2*maxLog*float64(j.Count[i]) {
			return false
		}
	}
	return j.Days <= maxDays && whole(len(j.Known)) && whole(len(j.Sum)) && len(j.Sum) == len(j.Count)
}

func (j *savedCycle) cycle() dailyCycle {
	c := dailyCycle{days: j.Days, began: j.Began}
	first := partOf(j.Began)
	for i := range partsOfDay {
		var p dayPart
		at := (first + i) % partsOfDay
		if j.Known != nil {
			p.known = j.Known[at]
		}
		if j.Sum != nil {
			p.sum, p.count = j.Sum[at], j.Count[at]
		}
		if i == 0 || p != (dayPart{}) {
			*c.part(at) = p
		}
	}
	return c
}

package series

import (
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// The constants of steps of latencies come from simulation (BenchmarkSteps).
const (
	// minPart is how many latencies are needed on each side of a step.
	minPart = 10
	// minStep is the least step, as a logarithm: 10 %.
	minStep = 0.095
	// minLearnt is how many latencies are needed to know their noise, and relearn
	// after how many more it is computed again.
	minLearnt, relearn = 20, 16
	// minNoise is the least standard deviation that is assumed of a logarithm.
	minNoise = 0.02
	// maxOff is by how many standard deviations a latency is off at most: one slow answer is no step.
	maxOff = 3
	// noiseBlock is over how many latencies neighbours may be alike: that is measured by the means of blocks of so
	// many, of which minBlocks are needed, and averaged over maxCompared measurements.
	noiseBlock, minBlocks, maxCompared = 64, 3, 128
	// dated is within how many probes of the true place a step should be dated.
	dated = 10
	// While the daily cycle is not known the search goes back for firstDaySpan, and a step must explain the latencies
	// better than a steady slope by firstDayMargin, in squared standard errors.
	firstDaySpan, firstDayMargin = 4 * time.Hour, 30
)

// levels is what is known of one latency since its latest step. All are logarithms of seconds, less the daily cycle.
type levels struct {
	Cycle dailyCycle `json:"cycle"`
	Since int        `json:"since"` // how many of the latest maxProbes are since then
	// Older is the mean of those before them, and Weight how many they count as.
	Older  float64 `json:"older"`
	Weight float64 `json:"weight"`
	// Centre is the median and Noise the standard deviation; 0 is not known. Waited is
	// how many latencies came since they were computed.
	Centre float64 `json:"centre"`
	Noise  float64 `json:"noise"`
	Waited int     `json:"waited"`
	// Alike is how many times as large the variance of a mean is as that of independent
	// latencies, as neighbours are alike, by so many comparisons.
	Alike    float64    `json:"alike"`
	Compared uint8      `json:"compared"`
	Past     []pastStep `json:"past,omitempty"` // the latest maxPast, in the order of time
}

// restart makes the latest n probes the only ones since the latest step.
func (l *levels) restart(n int) { l.Since, l.Older, l.Weight, l.Waited = n, 0, 0, relearn }

// clip returns a logarithm, or how far it may be off.
func (l *levels) clip(v float64) float64 {
	if l.Noise == 0 {
		return v
	}
	return clamp(v, l.Centre, maxOff*l.Noise)
}

// clamp returns v, or what is nearest to it within a distance of a centre.
func clamp(v, centre, distance float64) float64 {
	return min(centre+distance, max(centre-distance, v))
}

// age takes in a latency that is no longer kept. Without the daily cycle it says nothing of later ones.
func (l *levels) age(v float64) {
	if l.Cycle.Days == 0 {
		return
	}
	l.Weight = min(l.Weight+1, maxOlder)
	l.Older += (l.clip(v) - l.Older) / l.Weight
}

// recent are the latencies since the latest step, the latest first, and how many probes have followed each.
type recent struct {
	logs   []float64
	places []int
}

// latencyStep looks for a step in one latency.
func (s *Steps) latencyStep(i int, probes []stepProbe) (Step, bool) {
	var logs [maxProbes]float64
	var places [maxProbes]int
	l := &s.Latencies[i]
	v := l.collect(i, probes, logs[:0], places[:0])
	l.learn(v.logs)
	after, found := l.split(v.logs)
	if !found {
		return Step{}, false
	}
	c, found := l.test(v.logs, after)
	if !found {
		return Step{}, false
	}
	n := v.places[after-1] + 1
	at := probes[n-1].at
	before := c.before + l.Cycle.at(partOf(at))
	if l.accept(at, before, c.size) {
		l.Cycle.correctDay(i, probes[:n], c.size)
	} else {
		found = false
	}
	l.restart(n)
	level := math.Exp(before)
	return Step{
		At: timeOfTenths(at), Metric: Metrics()[i], Before: level, After: level * math.Exp(c.size),
		Lower: math.Exp(c.size - z95*c.err), Upper: math.Exp(c.size + z95*c.err),
	}, found
}

// z95 is how many standard errors the bounds with 95 % confidence are away.
const z95 = 1.96

// maxPast bounds the steps that are kept to know those of the daily cycle.
const maxPast = 4

// pastStep is a step of the last days. Before is its level before, with the daily cycle.
type pastStep struct {
	At     int64   `json:"at"` // in tenths of a second since 1970
	Before float32 `json:"before"`
	Size   float32 `json:"size"`
}

// accept keeps a step, and reports whether it is none of the daily cycle: one from the same level as a day ago.
func (l *levels) accept(at int64, before, size float64) bool {
	again := slices.ContainsFunc(l.Past, func(p pastStep) bool {
		off := time.Duration(at-p.At)*(time.Second/10) - 24*time.Hour
		return off.Abs() <= time.Hour && float64(p.Size)*size > 0 && math.Abs(before-float64(p.Before)) < math.Abs(size)/2
	})
	l.Past = stats.AppendLatest(l.Past, pastStep{at, float32(before), float32(size)}, maxPast)
	if again {
		l.Cycle.Days = min(l.Cycle.Days, 1)
	}
	return !again
}

// correctDay makes the day as if it had always been as it was in the latest probes, after a step.
func (c *dailyCycle) correctDay(i int, latest []stepProbe, size float64) {
	c.shift(size)
	for j := range latest {
		if p := &latest[j]; p.at >= c.Began && p.has(i) {
			c.part(partOf(p.at)).Sum -= float32(size)
		}
	}
}

// collect returns the latencies since the latest step.
func (l *levels) collect(i int, probes []stepProbe, logs []float64, places []int) recent {
	known := l.Cycle.known()
	for j := range probes[:l.Since] {
		p := &probes[j]
		if l.Cycle.Days == 0 && probes[0].at-p.at > inTenths(firstDaySpan) {
			break
		}
		if p.has(i) {
			logs, places = append(logs, p.log(i)-known[partOf(p.at)]), append(places, j)
		}
	}
	return recent{logs, places}
}

// learn computes centre and noise now and then. Few latencies do not make the noise less than it was.
func (l *levels) learn(logs []float64) {
	l.Waited++
	if len(logs) < minLearnt || l.Noise > 0 && l.Waited < relearn {
		return
	}
	l.Waited = 0
	var scratch [maxProbes]float64
	sorted := append(scratch[:0], logs...)
	slices.Sort(sorted)
	l.Centre = stats.Median(sorted)
	for i := range sorted {
		sorted[i] -= l.Centre
	}
	noise := max(minNoise, stats.Deviation(sorted, sorted))
	if len(logs) < 4*minLearnt {
		noise = max(noise, l.Noise)
	}
	l.Noise = noise
	l.learnMemory(logs)
}

// learnMemory compares how much the means of blocks vary with what independent latencies would make of them.
func (l *levels) learnMemory(logs []float64) {
	n := len(logs) / noiseBlock
	if n < minBlocks {
		return
	}
	logs = logs[:n*noiseBlock]
	level, sum, single, blocks := l.level(logs), 0.0, 0.0, 0.0
	for i, v := range logs {
		off := l.clip(v) - level
		single += off * off
		if sum += off; (i+1)%noiseBlock == 0 {
			blocks += sum * sum
			sum = 0
		}
	}
	found := blocks / float64(n-1) / max(single, minNoise*minNoise) * float64(n)
	l.Compared = min(l.Compared+1, maxCompared)
	l.Alike += (found - l.Alike) / float64(l.Compared)
}

// split returns how many of the latencies, the latest first, are after the step that is
// most likely, if it is likely and old enough to be tested.
func (l *levels) split(logs []float64) (after int, found bool) {
	n := len(logs)
	if l.Alike == 0 || n < 2*minPart {
		return 0, false
	}
	total := l.Weight * (l.Older - l.Centre)
	var clipped [maxProbes]float64
	for i, v := range logs {
		clipped[i] = l.clip(v) - l.Centre
		total += clipped[i]
	}
	var likelihood [maxProbes]float64 // of a step after so many and one, as a logarithm
	most, sum := 0.0, 0.0
	all := float64(n) + l.Weight
	for i, v := range clipped[:n-minPart] {
		sum += v
		// (sum/a - (total-sum)/b)² / (1/a + 1/b) / 2 noise², in one division
		a := float64(i + 1)
		off := sum*all - total*a
		likelihood[i] = off * off / (a * (all - a) * all * 2 * l.Noise * l.Noise)
		most = max(most, likelihood[i])
	}
	if 2*most < stepThreshold*stepThreshold {
		return 0, false
	}
	after = likelyPlace(likelihood[:n-minPart], most) + 1
	return after, after >= minPart
}

// likelyPlace returns the place around which most of the likelihood is within dated
// places; of those that are nearly alike, the one nearest to the most likely place.
func likelyPlace(likelihood []float64, most float64) int {
	const nearly = 1e-3
	mass := func(i int) float64 {
		if i < 0 || i >= len(likelihood) {
			return 0
		}
		return math.Exp(likelihood[i] - most)
	}
	peak, total, sum := 0, 0.0, 0.0
	for i, v := range likelihood {
		total += mass(i)
		if v > likelihood[peak] {
			peak = i
		}
	}
	for i := range dated {
		sum += mass(i)
	}
	best, place := math.Inf(-1), 0
	for i := range likelihood {
		sum += mass(i+dated) - mass(i-dated-1)
		if v := sum - nearly*total*math.Abs(float64(i-peak)); v > best {
			best, place = v, i
		}
	}
	return place
}

// change is a difference between two levels, and its standard error.
type change struct{ before, size, err float64 }

// test reports whether the latest latencies, so many, are at another level than those
// before them: clearly more than noise explains, abruptly, and up to now.
func (l *levels) test(logs []float64, after int) (change, bool) {
	a, b := logs[:after], logs[after:]
	levelA, levelB := l.level(a), l.level(b)
	variance := l.variance(a, levelA, b, levelB)
	if !l.isAbrupt(logs, after, levelA, levelB, variance) {
		return change{}, false
	}
	older := float64(len(b)) + l.Weight
	before := levelB + (l.Older-levelB)*l.Weight/older
	c := change{before, levelA - before, math.Sqrt(variance * (1/float64(after) + 1/older))}
	lasts := (l.level(logs[:minPart])-before)/c.size > 0.5
	return c, lasts && math.Abs(c.size) >= max(minStep, stepThreshold*c.err)
}

// level returns the mean of latencies of which none counts as far off.
func (l *levels) level(logs []float64) float64 {
	var scratch [maxProbes]float64
	sorted := append(scratch[:0], logs...)
	slices.Sort(sorted)
	middle, sum := stats.Median(sorted), 0.0
	for _, v := range sorted {
		sum += clamp(v, middle, maxOff*l.Noise)
	}
	return sum / float64(len(sorted))
}

// variance returns the variance of a latency for the error of a mean of many.
func (l *levels) variance(a []float64, levelA float64, b []float64, levelB float64) float64 {
	sum := 0.0
	for _, v := range a {
		off := clamp(v, levelA, maxOff*l.Noise) - levelA
		sum += off * off
	}
	for _, v := range b {
		off := clamp(v, levelB, maxOff*l.Noise) - levelB
		sum += off * off
	}
	return max(1, l.Alike) * max(minNoise*minNoise, sum/float64(len(a)+len(b)-2))
}

// isAbrupt reports whether a step explains latencies better than a steady slope.
func (l *levels) isAbrupt(logs []float64, after int, levelA, levelB, variance float64) bool {
	n := float64(len(logs))
	lower, upper := min(levelA, levelB)-maxOff*l.Noise, max(levelA, levelB)+maxOff*l.Noise
	var sumA, sum, moment float64
	for i, v := range logs {
		v = min(upper, max(lower, v)) - levelB
		sum += v
		moment += v * (float64(i) - (n-1)/2)
		if i < after {
			sumA += v
		}
	}
	na, nb := float64(after), n-float64(after)
	difference := sumA/na - (sum-sumA)/nb
	byStep := difference * difference * na * nb / n
	bySlope := moment * moment / (n * (n*n - 1) / 12)
	margin := 0.0
	if l.Cycle.Days == 0 {
		margin = firstDayMargin
	}
	return byStep-bySlope > margin*variance
}

const (
	// minFailuresPart is how many probes are needed on each side of a step of failures,
	// and minFailuresStep the least one, as a share.
	minFailuresPart, minFailuresStep = 20, 0.05
)

// failureLevels is what is known of failures since their latest step.
type failureLevels struct {
	Since int `json:"since"` // how many of the latest maxProbes are since then
	// Failed is how many of the probes before them failed, and Weight how many there were;
	// both are scaled down together.
	Failed float64 `json:"failed"`
	Weight float64 `json:"weight"`
}

// age takes in a probe that is no longer looked at.
func (f *failureLevels) age(failed bool) {
	if f.Weight >= maxOlder {
		f.Failed -= f.Failed / f.Weight
		f.Weight--
	}
	f.Weight++
	if failed {
		f.Failed++
	}
}

// step looks for a step in the share of failed probes. Between two probes that ended alike
// no split is the most likely one.
func (f *failureLevels) step(probes []stepProbe) (Step, bool) {
	probes = probes[:f.Since]
	kept := failedOf(probes)
	allFailed, all := f.Failed+kept, f.Weight+float64(len(probes))
	if allFailed == 0 || allFailed == all {
		return Step{}, false
	}
	most, after, failedAfter, so := 0.0, 0, 0.0, 0.0
	none := likelihood(allFailed, all)
	for i := range len(probes) - minFailuresPart {
		if probes[i].failed {
			so++
		}
		n := float64(i + 1)
		if i+1 < minFailuresPart || probes[i].failed == probes[i+1].failed {
			continue
		}
		if v := 2 * (likelihood(so, n) + likelihood(allFailed-so, all-n) - none); v > most {
			most, after, failedAfter = v, i+1, so
		}
	}
	if most < stepThreshold*stepThreshold {
		return Step{}, false
	}
	n := float64(after)
	share, before := failedAfter/n, (allFailed-failedAfter)/(all-n)
	latest := failedOf(probes[:minFailuresPart])
	lasts := (latest/minFailuresPart-before)/(share-before) > 0.5
	if !lasts || math.Abs(share-before) < minFailuresStep {
		return Step{}, false
	}
	*f = failureLevels{Since: after}
	return Step{At: timeOfTenths(probes[after-1].at), Metric: MetricFailures, Before: before, After: share}, true
}

// failedOf returns how many of the probes failed.
func failedOf(probes []stepProbe) (n float64) {
	for i := range probes {
		if probes[i].failed {
			n++
		}
	}
	return n
}

// likelihood returns the logarithm of the greatest likelihood of so many failures among n probes.
func likelihood(failed, n float64) float64 {
	term := func(k float64) float64 {
		if k <= 0 {
			return 0
		}
		return k * math.Log(k/n)
	}
	return term(failed) + term(n-failed)
}

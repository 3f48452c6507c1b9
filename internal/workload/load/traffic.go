package load

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

const (
	// trafficSlot is how finely the past of the traffic is kept, and trafficReach how far.
	trafficSlot  = 10 * time.Minute
	trafficReach = 24 * time.Hour
	// minTraffic is the fewest requests of users that make a mix, and minTrafficTime the least time of theirs.
	minTraffic     = 200
	minTrafficTime = 30 * time.Minute
	// drawnEvery is how often what a module draws from is kept for comparison, and drawnReach how long.
	drawnEvery = 5 * time.Minute
	drawnReach = time.Hour
	pointRatio = 1.1 // the ratio between lengths that stand for the same bucket
)

// maxTrafficBounds and maxTrafficLength are the most bounds that a server may count up to,
// and the highest one: what says otherwise is not counted.
const maxTrafficBounds, maxTrafficLength = 100, 1e9

// Cumulative counts the ended requests of a server up to each length in tokens since some time. Bounds increase.
type Cumulative struct {
	Bounds []float64
	Counts []uint64
	Count  uint64
}

// Mix is what users ask: the lengths of prompts and of answers in tokens, short ones first, with the number of requests
// as their weights. Which prompt had which answer is not known. It is never changed once made.
type Mix struct {
	Inputs, Outputs []workload.Length
	// Requests is how many requests of users it is from, and Span from how long ago on.
	Requests float64
	Span     time.Duration
}

// Traffic knows what users ask of the servers of one endpoint: what the servers count, less the probes of this
// exporter. Servers with other bounds than the first are left out, until all have them: then what was known is
// forgotten. Read and Keep are for one goroutine at a time, all else for several, which wait for no reading.
type Traffic struct {
	now   func() time.Time
	last  map[string]*reading // by server
	slots []trafficCounts     // oldest first
	mix   atomic.Pointer[Mix] // of the latest reading; nil is not known

	mu     sync.Mutex // never held for longer than a search in bounds
	bounds [2][]float64
	ours   lengthCounts // probes that the servers count by the next reading; nil without a server
}

// reading is the latest one of a server: of prompts and of answers.
type reading [2]Cumulative

// lengthCounts are how many requests had a length up to each bound and above the one before, and the last how
// many above all: of prompts and of answers. Without our own probes some may be negative.
type lengthCounts [2][]float64

// trafficCounts is what was counted from a time on.
type trafficCounts struct {
	start  time.Time
	counts lengthCounts
}

// NewTraffic returns what knows nothing yet.
func NewTraffic(now func() time.Time) *Traffic {
	return &Traffic{now: now, last: map[string]*reading{}}
}

// Read takes in what a server counts. The first reading of a server is where its count begins.
func (t *Traffic) Read(server string, inputs, outputs Cumulative) {
	now := t.now()
	next := &reading{inputs, outputs}
	before := t.last[server]
	delete(t.last, server)
	if t.follows(next) {
		t.last[server] = next
		if before != nil {
			counts := &t.slot(now).counts
			counts.add(next.since(before))
			counts.add(t.takeOurs())
		}
	}
	t.mix.Store(t.mixOf(now))
}

// follows reports whether a reading of a server can be added to the others. The first one sets the bounds of all.
func (t *Traffic) follows(r *reading) bool {
	if !r.isValid() {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	same := slices.Equal(t.bounds[0], r[0].Bounds) && slices.Equal(t.bounds[1], r[1].Bounds)
	if len(t.last) > 0 {
		return same
	}
	if !same {
		t.slots = nil
		t.bounds = [2][]float64{r[0].Bounds, r[1].Bounds}
	}
	if t.ours[0] == nil || !same {
		t.ours = newLengthCounts(t.bounds)
	}
	return true
}

// isValid reports whether what a server counts has few bounds that increase.
func (r *reading) isValid() bool {
	for _, c := range r {
		n := len(c.Bounds)
		if n == 0 || n > maxTrafficBounds || len(c.Counts) != n || !(c.Bounds[0] >= 0) || !(c.Bounds[n-1] <= maxTrafficLength) || !slices.IsSorted(c.Bounds) {
			return false
		}
	}
	return true
}

func newLengthCounts(bounds [2][]float64) (c lengthCounts) {
	for i := range c {
		c[i] = make([]float64, len(bounds[i])+1)
	}
	return c
}

// takeOurs returns the probes since the last call.
func (t *Traffic) takeOurs() lengthCounts {
	none := newLengthCounts(t.bounds)
	t.mu.Lock()
	defer t.mu.Unlock()
	ours := t.ours
	t.ours = none
	return ours
}

// Keep forgets the counts of servers that are not there any more.
func (t *Traffic) Keep(there func(server string) bool) {
	for server := range t.last {
		if !there(server) {
			delete(t.last, server)
		}
	}
	if len(t.last) == 0 {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.ours = lengthCounts{}
	}
}

// Probed takes a probe of this exporter off the counts, which the server counted among
// the requests of users; it must have the server's own counts of tokens.
func (t *Traffic) Probed(r *result.Result) {
	if r.Tokens.Source != result.TokensFromUsage || r.Tokens.Prompt <= 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ours[0] == nil {
		return
	}
	for i, n := range [2]int{r.Tokens.Prompt, r.Tokens.Output} {
		at, _ := slices.BinarySearch(t.bounds[i], float64(n))
		t.ours[i][at]--
	}
}

// Mix returns what users ask, by the latest reading; nil is not known.
func (t *Traffic) Mix() *Mix { return t.mix.Load() }

// slot returns that of a time, and forgets those that are too old.
func (t *Traffic) slot(now time.Time) *trafficCounts {
	t.slots = stats.DropOld(t.slots, func(s trafficCounts) bool { return now.Sub(s.start) >= trafficReach+trafficSlot })
	start := now.Truncate(trafficSlot)
	if n := len(t.slots); n == 0 || t.slots[n-1].start.Before(start) {
		t.slots = append(t.slots, trafficCounts{start, newLengthCounts(t.bounds)})
	}
	return &t.slots[len(t.slots)-1]
}

func (c *lengthCounts) add(more lengthCounts) {
	for i := range more {
		for j, n := range more[i] {
			c[i][j] += n
		}
	}
}

// mixOf returns the mix of the latest slots: as many as have enough requests and time.
func (t *Traffic) mixOf(now time.Time) *Mix {
	all := newLengthCounts(t.bounds)
	for _, s := range slices.Backward(t.slots) {
		span := now.Sub(s.start)
		if span > trafficReach {
			break
		}
		all.add(s.counts)
		n := requests(all[0])
		if n >= minTraffic && requests(all[1]) >= minTraffic && span >= minTrafficTime {
			return &Mix{Inputs: pointsOf(t.bounds[0], all[0]), Outputs: pointsOf(t.bounds[1], all[1]), Requests: n, Span: span}
		}
	}
	return nil
}

func requests(counts []float64) float64 {
	return stats.Sum(counts, func(n float64) float64 { return max(0, n) })
}

// since returns what was counted since an earlier reading with the same bounds: all where the server began again.
func (r *reading) since(before *reading) (counts lengthCounts) {
	for i := range r {
		now, then := &r[i], &before[i]
		if now.Count < then.Count {
			then = &Cumulative{Counts: make([]uint64, len(now.Counts))}
		}
		counts[i] = make([]float64, len(now.Counts)+1)
		upTo, upToThen := uint64(0), uint64(0) // the bound before
		for j := range counts[i] {
			n, nThen := now.Count, then.Count
			if j < len(now.Counts) {
				n, nThen = now.Counts[j], then.Counts[j]
			}
			counts[i][j] = max(0, float64(n)-float64(upTo)-float64(nThen)+float64(upToThen))
			upTo, upToThen = n, nThen
		}
	}
	return counts
}

// pointsOf returns lengths that stand for the requests that were counted up to bounds. Between two bounds as many
// requests are assumed in each ratio of lengths, as lengths spread over orders of magnitude.
func pointsOf(bounds, counts []float64) []workload.Length {
	var all []workload.Length
	above := 0.0 // the bound before
	for i, requests := range counts {
		low, high := max(1, above), max(1, above) // of the last count, which has no bound
		if i < len(bounds) {
			high = max(1, bounds[i])
			if above == 0 {
				low = high / 2
			} else {
				low = above
			}
			above = bounds[i]
		}
		if requests <= 0 {
			continue
		}
		n := max(1, int(math.Ceil(math.Log(high/low)/math.Log(pointRatio))))
		for i := range n {
			tokens := low * math.Pow(high/low, (float64(i)+0.5)/float64(n))
			all = append(all, workload.Length{Tokens: max(1, int(math.Round(tokens))), Weight: requests / float64(n)})
		}
	}
	slices.SortFunc(all, func(a, b workload.Length) int { return cmp.Compare(a.Tokens, b.Tokens) })
	return merged(all)
}

// Likeness compares what a module asks with what users ask.
type Likeness struct {
	// Input and Output are Wasserstein distances between the lengths that the module drew from in the last hour
	// and those of users, as a share of the mean of users.
	Input  float64 `json:"input_distance_ratio"`
	Output float64 `json:"output_distance_ratio"`
	// Requests are those of the mix, and Seconds its span.
	Requests float64 `json:"requests"`
	Seconds  float64 `json:"window_seconds"`
}

// follower is a module that asks what users ask, within bounds.
type follower struct {
	users               *Traffic
	maxInput, maxOutput int
	drawn               []draw // in the order of time, drawnEvery apart
}

// draw is what a probe drew its lengths from, with the sum of the weights 1.
type draw struct {
	at              time.Time
	inputs, outputs []workload.Length
}

// observe adds the probes of a run, which drew from the mix of users or, without one, have the lengths of the module.
func (f *follower) observe(results []*result.Result, now time.Time) {
	if n := len(f.drawn); len(results) == 0 || n > 0 && now.Sub(f.drawn[n-1].at) < drawnEvery {
		return
	}
	d := draw{at: now}
	r := results[0]
	switch m := f.users.Mix(); {
	case m != nil:
		d.inputs, d.outputs = within(m.Inputs, f.maxInput), within(m.Outputs, f.maxOutput)
	case r.Length > 0 && r.Tokens.Output > 0:
		d.inputs, d.outputs = []workload.Length{{Tokens: r.Length, Weight: 1}}, []workload.Length{{Tokens: r.Tokens.Output, Weight: 1}}
	default:
		return
	}
	f.drawn = append(f.drawn, d)
}

// within returns lengths cut to a bound, with the sum of the weights 1.
func within(lengths []workload.Length, most int) []workload.Length {
	out := cut(lengths, most)
	total := config.TotalWeight(out)
	for i := range out {
		out[i].Weight /= total
	}
	return out
}

// likeness compares the latest probes with what users ask; nil while that is not known.
func (f *follower) likeness(now time.Time) *Likeness {
	f.drawn = stats.DropOld(f.drawn, func(d draw) bool { return now.Sub(d.at) >= drawnReach })
	m := f.users.Mix()
	if m == nil || len(f.drawn) == 0 {
		return nil
	}
	var inputs, outputs []workload.Length
	for _, d := range f.drawn {
		inputs, outputs = append(inputs, d.inputs...), append(outputs, d.outputs...)
	}
	return &Likeness{Input: wasserstein(m.Inputs, inputs), Output: wasserstein(m.Outputs, outputs), Requests: m.Requests, Seconds: m.Span.Seconds()}
}

// wasserstein returns the Wasserstein distance between the lengths of users and others, as a share of the mean
// of users: the integral of the difference between the two distribution functions.
func wasserstein(users, others []workload.Length) float64 {
	steps := make([]workload.Length, 0, len(users)+len(others)) // of the difference
	add := func(lengths []workload.Length, sign float64) (mean float64) {
		total := config.TotalWeight(lengths)
		for _, l := range lengths {
			steps = append(steps, workload.Length{Tokens: l.Tokens, Weight: sign * l.Weight / total})
			mean += l.Weight * float64(l.Tokens)
		}
		return mean / total
	}
	mean := add(users, 1)
	add(others, -1)
	slices.SortFunc(steps, func(a, b workload.Length) int { return cmp.Compare(a.Tokens, b.Tokens) })
	sum, difference := 0.0, 0.0
	for i, step := range steps[:len(steps)-1] {
		difference += step.Weight
		sum += math.Abs(difference) * float64(steps[i+1].Tokens-step.Tokens)
	}
	return sum / mean
}

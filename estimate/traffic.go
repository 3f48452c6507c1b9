package estimate

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/prober/prompt"
)

const (
	// trafficSlot is how finely the past of the traffic is kept, and trafficReach how
	// far.
	trafficSlot  = 10 * time.Minute
	trafficReach = 24 * time.Hour
	// minTraffic is the fewest requests of users that make a mix, and
	// minTrafficTime the least time that they come from.
	minTraffic     = 200
	minTrafficTime = 30 * time.Minute
	// drawnEvery and drawnReach are how often what a module draws from is kept to be
	// compared with the traffic, and how long.
	drawnEvery = 5 * time.Minute
	drawnReach = time.Hour
	// pointRatio is the ratio between lengths that stand for the same bucket.
	pointRatio = 1.1
)

// Cumulative is how many ended requests a server counts up to each length in tokens,
// since some time in the past. Bounds increase.
type Cumulative struct {
	Bounds []float64
	Counts []uint64
	Count  uint64
}

// Mix is what users ask: the lengths of prompts and of answers in tokens, short ones
// first, with the number of requests as their weights. Which prompt had which answer is
// not known. It is never changed once made.
type Mix struct {
	Inputs, Outputs []prompt.Length
	// Requests is how many requests of users it is from, and Span from how long ago on.
	Requests float64
	Span     time.Duration
}

// Traffic knows what users ask of the servers of one endpoint: what the servers count,
// less the probes of this exporter. It is safe for concurrent use.
type Traffic struct {
	now func() time.Time

	mu    sync.Mutex
	last  map[string]*reading // by server
	slots []trafficCounts     // oldest first
	ours  [2][]cell           // probes that the servers count by the next reading
	mix   *Mix                // of the latest reading; nil is not known
}

// reading is the latest one of a server: of prompts and of answers.
type reading [2]Cumulative

// trafficCounts is what was counted of prompts and of answers from a time on.
type trafficCounts struct {
	start time.Time
	cells [2][]cell
}

// cell is how many requests had a length above one bound, up to another. After
// probes of ours were taken off it may be negative.
type cell struct{ above, upTo, n float64 }

// NewTraffic returns what knows nothing yet.
func NewTraffic(now func() time.Time) *Traffic {
	return &Traffic{now: now, last: map[string]*reading{}}
}

// Read takes in what a server counts. The first reading of a server is where its count
// begins.
func (t *Traffic) Read(server string, inputs, outputs Cumulative) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	next := &reading{inputs, outputs}
	if before := t.last[server]; before != nil {
		s := t.slot(now)
		for i := range next {
			for _, c := range slices.Concat(next[i].since(&before[i]), t.ours[i]) {
				addCell(&s.cells[i], c)
			}
			t.ours[i] = nil
		}
	}
	t.last[server] = next
	t.mix = t.mixOf(now)
}

// Keep forgets the counts of servers that are not there any more.
func (t *Traffic) Keep(there func(server string) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for server := range t.last {
		if !there(server) {
			delete(t.last, server)
		}
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
	for _, last := range t.last {
		for i, n := range [2]int{r.Tokens.Prompt, r.Tokens.Output} {
			c := last[i].cellOf(float64(n))
			c.n = -1
			addCell(&t.ours[i], c)
		}
		return // the servers of an endpoint have the same bounds
	}
}

// Mix returns what users ask, by the latest reading; nil is not known.
func (t *Traffic) Mix() *Mix {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mix
}

// slot returns that of a time, and forgets those that are too old.
func (t *Traffic) slot(now time.Time) *trafficCounts {
	t.slots = stats.DropOld(t.slots, func(s trafficCounts) bool { return now.Sub(s.start) >= trafficReach+trafficSlot })
	start := now.Truncate(trafficSlot)
	if n := len(t.slots); n == 0 || t.slots[n-1].start.Before(start) {
		t.slots = append(t.slots, trafficCounts{start: start})
	}
	return &t.slots[len(t.slots)-1]
}

// mixOf returns the mix of the latest slots: as many as have enough requests and time.
func (t *Traffic) mixOf(now time.Time) *Mix {
	var cells [2][]cell
	for _, s := range slices.Backward(t.slots) {
		span := now.Sub(s.start)
		if span > trafficReach {
			break
		}
		for i := range cells {
			for _, c := range s.cells[i] {
				addCell(&cells[i], c)
			}
		}
		if n := requests(cells[0]); n >= minTraffic && requests(cells[1]) >= minTraffic && span >= minTrafficTime {
			return &Mix{Inputs: pointsOf(cells[0]), Outputs: pointsOf(cells[1]), Requests: n, Span: span}
		}
	}
	return nil
}

// requests is how many requests cells hold.
func requests(cells []cell) float64 {
	n := 0.0
	for _, c := range cells {
		n += max(0, c.n)
	}
	return n
}

// addCell adds a cell to that of the same bounds.
func addCell(cells *[]cell, c cell) {
	i := slices.IndexFunc(*cells, func(o cell) bool { return o.above == c.above && o.upTo == c.upTo })
	if i < 0 {
		*cells = append(*cells, c)
		return
	}
	(*cells)[i].n += c.n
}

// since returns what was counted since an earlier reading: everything where the server
// began again or counts up to other bounds.
func (c *Cumulative) since(before *Cumulative) []cell {
	fresh := !slices.Equal(c.Bounds, before.Bounds) || c.Count < before.Count
	var cells []cell
	above, now, then := 0.0, uint64(0), uint64(0)
	add := func(upTo float64, count, earlier uint64) {
		if fresh {
			earlier = 0
		}
		if n := float64(count-now) - float64(earlier-then); n > 0 {
			cells = append(cells, cell{above, upTo, n})
		}
		above, now, then = upTo, count, earlier
	}
	for i, bound := range c.Bounds {
		earlier := uint64(0)
		if !fresh {
			earlier = before.Counts[i]
		}
		add(bound, c.Counts[i], earlier)
	}
	add(math.Inf(1), c.Count, before.Count)
	return cells
}

// cellOf returns the empty cell of a length.
func (c *Cumulative) cellOf(length float64) cell {
	above := 0.0
	for _, bound := range c.Bounds {
		if length <= bound {
			return cell{above: above, upTo: bound}
		}
		above = bound
	}
	return cell{above: above, upTo: math.Inf(1)}
}

// pointsOf returns lengths that stand for the requests of cells. Within a cell as many
// requests are assumed in each ratio of lengths, as lengths spread over orders of
// magnitude.
func pointsOf(cells []cell) []prompt.Length {
	var all []prompt.Length
	for _, c := range cells {
		if c.n <= 0 {
			continue
		}
		low, high := max(c.above, c.upTo/2), c.upTo
		if c.above > 0 {
			low = c.above
		}
		if math.IsInf(high, 1) {
			low, high = c.above, c.above
		}
		n := max(1, int(math.Ceil(math.Log(high/low)/math.Log(pointRatio))))
		for i := range n {
			tokens := low * math.Pow(high/low, (float64(i)+0.5)/float64(n))
			all = append(all, prompt.Length{Tokens: max(1, int(math.Round(tokens))), Weight: c.n / float64(n)})
		}
	}
	slices.SortFunc(all, func(a, b prompt.Length) int { return cmp.Compare(a.Tokens, b.Tokens) })
	merged := all[:0]
	for _, l := range all {
		if n := len(merged); n > 0 && merged[n-1].Tokens == l.Tokens {
			merged[n-1].Weight += l.Weight
		} else {
			merged = append(merged, l)
		}
	}
	return merged
}

// Likeness compares what a module asks with what users ask.
type Likeness struct {
	// Input and Output are Wasserstein distances between the lengths that the module
	// drew from in the last hour and those of users, as a share of the mean length of
	// users.
	Input, Output float64
	// Requests and Span are those of the mix.
	Requests float64
	Span     time.Duration
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
	inputs, outputs []prompt.Length
}

// observe adds the probes of a run, which drew from the mix of users or, where there was
// none, have the lengths of the module.
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
		d.inputs, d.outputs = []prompt.Length{{Tokens: r.Length, Weight: 1}}, []prompt.Length{{Tokens: r.Tokens.Output, Weight: 1}}
	default:
		return
	}
	f.drawn = append(f.drawn, d)
}

// within returns lengths cut to a bound, with the sum of the weights 1.
func within(lengths []prompt.Length, most int) []prompt.Length {
	total := 0.0
	for _, l := range lengths {
		total += l.Weight
	}
	out := slices.Clone(lengths)
	for i := range out {
		out[i].Tokens, out[i].Weight = min(out[i].Tokens, most), out[i].Weight/total
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
	var inputs, outputs []prompt.Length
	for _, d := range f.drawn {
		inputs, outputs = append(inputs, d.inputs...), append(outputs, d.outputs...)
	}
	return &Likeness{Input: wasserstein(m.Inputs, inputs), Output: wasserstein(m.Outputs, outputs), Requests: m.Requests, Span: m.Span}
}

// wasserstein returns the Wasserstein distance between the lengths of users and others, as a
// share of the mean of users: the integral of the difference between the two
// distribution functions. It is 0 where both are the same, and 1 where
// tokens have to be moved by as much as a request of users has.
func wasserstein(users, others []prompt.Length) float64 {
	steps := make([]prompt.Length, 0, len(users)+len(others)) // of the difference
	add := func(lengths []prompt.Length, sign float64) (mean float64) {
		total := 0.0
		for _, l := range lengths {
			total += l.Weight
			mean += l.Weight * float64(l.Tokens)
		}
		for _, l := range lengths {
			steps = append(steps, prompt.Length{Tokens: l.Tokens, Weight: sign * l.Weight / total})
		}
		return mean / total
	}
	mean := add(users, 1)
	add(others, -1)
	slices.SortFunc(steps, func(a, b prompt.Length) int { return cmp.Compare(a.Tokens, b.Tokens) })
	sum, difference := 0.0, 0.0
	for i, step := range steps[:len(steps)-1] {
		difference += step.Weight
		sum += math.Abs(difference) * float64(steps[i+1].Tokens-step.Tokens)
	}
	return sum / mean
}

// with returns findings, nil for none, with a likeness added, nil for none.
func (f *Findings) with(model string, l *Likeness) *Findings {
	if l == nil {
		return f
	}
	if f == nil {
		f = &Findings{Model: model}
	}
	f.Likeness = l
	return f
}

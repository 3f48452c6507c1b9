package page

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
)

// Ranks is what the parts of a server that work on their own show one by one: the ranks of data parallelism, or the
// replicas on the page of a node. It is immutable.
type Ranks struct {
	// Number is how many there are.
	Number int
	// Bounds are the smallest and the largest of RankQuantities. What the page does not show of each rank is absent.
	Bounds map[config.Quantity][2]float64
	// Starved is since when a rank has had no request while some are in the queues of others, and Slow since when one has
	// generated few tokens for as many requests as the others have; of several ranks, the one that has for longest. The zero
	// time is for none.
	Starved, Slow time.Time
}

// RankQuantities lists what is read of each rank; of GenerationTokens those per second since the reading before.
func RankQuantities() []config.Quantity {
	return []config.Quantity{config.RequestsRunning, config.RequestsWaiting, config.KVCacheUsage, config.GenerationTokens}
}

// HungAfter is how long an engine that has requests makes no progress until it hangs.
const HungAfter = 2 * time.Minute

const (
	// maxRanks is how many ranks of a server are judged one by one.
	maxRanks = 1024
	// slowShare is the share of the median rank's tokens below which a rank is slow, and alikeShare that of its running
	// requests from which a rank has as many.
	slowShare, alikeShare = 0.25, 0.5
)

// rank is what is kept of a rank: its series have the same labels.
type rank struct {
	marks   []float64 // as those of a Reader
	present bool      // the latest page had one
	worked  time.Time

	at            time.Time                   // of the latest page, as all that follows
	requests      float64                     // that it has to work on
	tokens        float64                     // that it has generated; NaN is not known
	starved, slow time.Time                   // as those of Ranks
	values        map[config.Quantity]float64 // of GenerationTokens those per second; nil between two pages
}

// lastProgress returns when the engine was last seen to work or to be idle; the zero time where the page has no series
// that moves while the engine works. Of ranks that have requests the one counts that has not worked for longest, where
// the page shows the progress of each.
func (r *Reader) lastProgress(c *mapping, s *scratch, idle bool, at time.Time) time.Time {
	first := r.worked.IsZero()
	moved, present := c.moveMarks(r.marks, s.results)
	if !present {
		return time.Time{}
	}
	if first || moved || idle {
		r.worked = at
	}
	var oldest time.Time
	for _, k := range r.ranks {
		switch {
		case k.requests == 0:
		case !k.present:
			return r.worked
		case oldest.IsZero() || k.worked.Before(oldest):
			oldest = k.worked
		}
	}
	return cmp.Or(oldest, r.worked)
}

func noMarks(c *mapping) []float64 { return slices.Repeat([]float64{math.NaN()}, len(c.progress)) }

// moveMarks brings marks to the results of a page or a rank. It reports whether one moved, and whether there is any.
func (c *mapping) moveMarks(marks []float64, results []series) (moved, present bool) {
	for i := range marks {
		v, ok := c.progress[i].of(results)
		if ok && marks[i] != v {
			marks[i], moved = v, true
		}
		present = present || ok
	}
	return moved, present
}

// readRanks brings what is kept of the ranks to a page and returns what they show; nil where there are not several.
func (r *Reader) readRanks(c *mapping, s *scratch, at time.Time) *Ranks {
	running, before := s.running(c), r.ranks
	r.ranks = nil
	if len(running) < 2 || len(running) > maxRanks {
		return nil
	}
	r.ranks = make(map[uint64]*rank, len(running))
	for _, run := range running {
		k := before[run.set]
		if k == nil {
			k = &rank{marks: noMarks(c), worked: at, tokens: math.NaN()}
		}
		k.read(c, s.ofRank(c, run.set), at)
		r.ranks[run.set] = k
	}
	return newRanks(r.ranks)
}

// read brings a rank to its results of a page.
func (k *rank) read(c *mapping, results []series, at time.Time) {
	moved, present := c.moveMarks(k.marks, results)
	k.values, k.present = c.numbers(results), present
	k.requests, _ = (&Snapshot{Values: k.values}).work()
	if moved || k.requests == 0 {
		k.worked = at
	}
	tokens, known := k.values[config.GenerationTokens]
	if !known && len(c.progress) > 0 {
		tokens, known = c.progress[0].of(results)
	}
	if !known {
		tokens = math.NaN()
	}
	delete(k.values, config.GenerationTokens)
	if elapsed := at.Sub(k.at).Seconds(); elapsed > 0 && tokens >= k.tokens {
		k.values[config.GenerationTokens] = (tokens - k.tokens) / elapsed
	}
	k.tokens, k.at = tokens, at
}

// newRanks returns what ranks show, and notes which lag behind.
func newRanks(ranks map[uint64]*rank) *Ranks {
	all := &Ranks{Number: len(ranks), Bounds: map[config.Quantity][2]float64{}}
	medians := map[config.Quantity]float64{}
	for _, q := range RankQuantities() {
		var values []float64
		for _, k := range ranks {
			if v, known := k.values[q]; known {
				values = append(values, v)
			}
		}
		if slices.Sort(values); len(values) == len(ranks) {
			all.Bounds[q], medians[q] = [2]float64{values[0], values[len(values)-1]}, values[len(values)/2]
		}
	}
	queued := false
	for _, k := range ranks {
		queued = queued || k.requests > k.values[config.RequestsRunning]
	}
	for _, k := range ranks {
		running, tokens := k.values[config.RequestsRunning], k.values[config.GenerationTokens]
		starved := queued && running+k.values[config.RequestsWaiting]+k.values[config.EnginesSleeping] == 0
		slow := tokens < slowShare*medians[config.GenerationTokens] && running >= max(1, alikeShare*medians[config.RequestsRunning]) &&
			k.at.Sub(k.worked) < HungAfter
		note(starved, k.at, &k.starved, &all.Starved)
		note(slow, k.at, &k.slow, &all.Slow)
		k.values = nil
	}
	return all
}

// note notes since when something holds of a rank, and of the ranks up to this one.
func note(holds bool, at time.Time, since, first *time.Time) {
	if !holds {
		*since = time.Time{}
		return
	}
	if since.IsZero() {
		*since = at
	}
	if first.IsZero() || since.Before(*first) {
		*first = *since
	}
}

// running returns the series of running requests, one for each rank.
func (s *scratch) running(c *mapping) []series {
	for _, n := range c.values[config.RequestsRunning] {
		if s.results[n.source].values != nil {
			return s.of(n.source)
		}
	}
	return nil
}

// of returns the series of a source.
func (s *scratch) of(source int) []series {
	compare := func(x series, source int32) int { return cmp.Compare(x.source, source) }
	from, _ := slices.BinarySearchFunc(s.series, int32(source), compare)
	to, _ := slices.BinarySearchFunc(s.series, int32(source)+1, compare)
	return s.series[from:to]
}

// ofRank returns the results by source that a rank has, until the next call: its series have the given labels.
func (s *scratch) ofRank(c *mapping, set uint64) []series {
	s.rank = sized(s.rank, len(c.sources))
	for source := range s.rank {
		of := s.of(source)
		if i, ok := slices.BinarySearchFunc(of, set, func(x series, set uint64) int { return cmp.Compare(x.set, set) }); ok {
			s.rank[source] = of[i]
		}
	}
	return s.rank
}

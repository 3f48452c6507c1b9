package collector

import (
	"math"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// servedValues is the state behind the samples of an endpoint with servers.
type servedValues struct {
	servers  [numStates]int        // by index in states
	overhead [numOverheads]float64 // NaN is absent
	facts    *workload.Findings    // nil is nothing
}

// servedFamilies returns the families of what the servers report of their
// endpoint, in the order of the documentation.
func servedFamilies() []*familyOf[servedValues] {
	return append(factFamilies(true, func(v servedValues) *workload.Findings { return v.facts }, nil), []*familyOf[servedValues]{
		newOf("endpoint_servers", emitEach(func(v servedValues, i int) float64 {
			return workload.If(v.servers != [numStates]int{}, float64(v.servers[i]))
		})),
		newOf("endpoint_ttft_overhead_seconds", emitEach(func(v servedValues, i int) float64 { return v.overhead[i] })),
	}...)
}

// Bounds of the comparison of probes with histograms.
const (
	// maxCompared is the longest time that is compared.
	maxCompared = 5 * time.Minute
	// maxStarts is how many readings are kept as possible starts of the comparison; those in between are left out.
	maxStarts = 32
	// maxComparedProbes is how many probes are kept. More make the compared time shorter.
	maxComparedProbes = 256
)

// Indexes of the values of the label source.
const (
	overheadReply, overheadHistogram, overheadTraffic, numOverheads = 0, 1, 2, 3
)

// overheadSources lists the closed set in that order.
func overheadSources() []string { return []string{"reply", "histogram", "traffic"} }

// maxTrafficShare is how many requests the servers may have counted for each
// probe so that their times are mostly those of the probes.
const maxTrafficShare = 2

// overhead compares the time to first token as probes see it with what the
// servers say of it: in the reply to a probe, or in their histograms.
type overhead struct {
	latest  [numOverheads]float64 // seconds, by source, at most one of which is not NaN
	replies bool                  // a reply had times: nothing else is shown from then on, as that is another quantity

	bursts int            // of our own, that run
	starts []ttftTotal    // readings within maxCompared, oldest first
	last   *page.Total    // the latest reading; nil before the first
	probes []observedTTFT // successes since the first of starts
}

// ttftTotal is what the histograms of all servers of an endpoint held.
type ttftTotal struct {
	at    time.Time
	count uint64
	sum   float64 // seconds
}

// observedTTFT is the time to first token of a probe.
type observedTTFT struct {
	at   time.Time // when the token came
	ttft float64   // seconds
}

func newOverhead() overhead {
	return overhead{latest: [numOverheads]float64{math.NaN(), math.NaN(), math.NaN()}}
}

// restart forgets all that is compared with histograms.
func (o *overhead) restart() {
	o.clear(overheadHistogram, overheadTraffic)
	o.starts, o.last, o.probes = nil, nil, nil
}

func (o *overhead) clear(sources ...int) {
	for _, source := range sources {
		o.latest[source] = math.NaN()
	}
}

// observe takes a probe. One that is not timed takes part in the comparison with
// histograms, as the servers count it too, and in no other.
func (o *overhead) observe(r *result.Result, timed bool) {
	if r.Outcome == result.Canceled {
		return
	}
	o.clear(overheadReply)
	if r.Outcome != result.Success || r.Timing.TTFT < 0 {
		return
	}
	if timed && r.Server.Queue >= 0 && r.Server.Prefill >= 0 {
		o.replies = true
		o.restart()
		o.latest[overheadReply] = (r.Timing.TTFT - r.Server.Queue - r.Server.Prefill).Seconds()
	}
	if len(o.starts) > 0 {
		firstToken := r.Start.Add(r.Timing.Setup() + r.Timing.TTFT)
		o.keep(observedTTFT{firstToken, r.Timing.TTFT.Seconds()})
	}
}

// keep adds a probe. Where there are too many the oldest goes, and with it the comparisons that it belongs to.
func (o *overhead) keep(p observedTTFT) {
	if len(o.probes) >= maxComparedProbes {
		gone := o.probes[0].at
		o.probes = slices.Delete(o.probes, 0, 1)
		o.starts = slices.DeleteFunc(o.starts, func(s ttftTotal) bool { return s.at.Before(gone) })
	}
	o.probes = append(o.probes, p)
}

// scraped takes a reading of all servers. Unless all have their histogram, and
// all go on from the reading before, the comparison starts again.
func (o *overhead) scraped(statuses []page.Status) {
	o.clear(overheadHistogram, overheadTraffic)
	now := page.NewTotal(statuses)
	if now == nil || now.Failed > 0 || now.Histograms[config.TTFT] == nil || o.bursts > 0 || o.replies {
		o.restart()
		return
	}
	if !now.Follows(o.last) {
		o.starts, o.probes = nil, nil
	}
	o.last = now
	end := ttftTotal{now.At, now.Histograms[config.TTFT].Count, now.Histograms[config.TTFT].Sum}
	o.starts = slices.DeleteFunc(o.starts, func(s ttftTotal) bool { return end.at.Sub(s.at) > maxCompared })
	if len(o.starts) > 0 {
		o.compare(o.starts[0], end)
	}
	if n := len(o.starts); n == 0 || end.at.Sub(o.starts[n-1].at) >= maxCompared/maxStarts {
		o.starts = append(o.starts, end)
	}
	o.probes = slices.DeleteFunc(o.probes, func(p observedTTFT) bool { return !p.at.After(o.starts[0].at) })
}

// compare sets the mean of the probes less that of the servers between two readings. Where the servers counted fewer
// requests than there were probes, the probes went elsewhere; where they counted many more, the difference is mostly
// that between the probes and the other requests.
func (o *overhead) compare(start, end ttftTotal) {
	n, seen := uint64(0), 0.0
	for _, p := range o.probes {
		if p.at.After(start.at) && !p.at.After(end.at) {
			n++
			seen += p.ttft
		}
	}
	reported := end.count - start.count
	if n == 0 || reported < n {
		return
	}
	source := overheadHistogram
	if reported > maxTrafficShare*n {
		source = overheadTraffic
	}
	o.latest[source] = seen/float64(n) - (end.sum-start.sum)/float64(reported)
}

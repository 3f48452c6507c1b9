package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

const (
	// readEvery is how often the pages are read, and readWaiting while requests wait: our own are in a queue, and a user
	// who comes is behind them. That request is only seen in a step before which none of ours ended, and a reading shows one
	// step: fewer readings miss too many. A page that takes longer is read back to back.
	readEvery, readWaiting = 200 * time.Millisecond, 50 * time.Millisecond
	// waitLimit is how long requests wait until that is no moment between two steps of a server.
	waitLimit = 400 * time.Millisecond
	// pageLost is how old the newest reading may be, from when it began. Users who begin to wait are seen by the first
	// reading that begins afterwards, so that the run ends within this time of it, or sooner.
	pageLost = 800 * time.Millisecond
	// firstReading is how long the reading before the run may take.
	firstReading = 5 * time.Second
	// stalePages is by how many readings a page may lag behind ours, which are counted as they were then. With more, users
	// would be hidden among our own requests that come and go; of a page that lags more, more of ours are taken for users.
	stalePages = 2
	// usersStay is how long users count as there after a request of theirs was seen: the next will come.
	usersStay = time.Minute
	// leastShown is the share of our requests in flight that the pages show at the least, blindFor how long they may show
	// less, and blindFrom from how many requests on: where ours are not shown, those of users are not either. Of two even servers
	// behind a balancer the page of one shows half.
	leastShown, blindFor, blindFrom = 0.7, 5 * time.Second, 4
	// fullKV is the share of a KV cache from which on a server has no room.
	fullKV = 0.8
	// lateShare is the share of users' requests that may be later than usual: the usual 99th percentile has 1 %.
	lateShare = 0.05
	// errorWindow and slowWindow are the least numbers of requests over which failed and slow ones are counted.
	errorWindow, slowWindow = 20, 10
	// ownLateShare is the share of the requests of a level that may be late by our own doing, and ownLateFrom from
	// how many requests on that is judged before its end.
	ownLateShare, ownLateFrom = 0.05, 100
)

// guard is what the reasons to end go by. Counts are of the whole run.
type guard struct {
	first, latest *Pressure // of the pages
	peaks         []int     // most requests of ours in flight at once, after the begin of each of the latest readings
	lows          []int     // the least, in the same way
	seen          time.Time // when requests of users were seen last
	blind         time.Time // since which reading the pages show too few requests; the zero time is that they do not
	wait          time.Time // since which reading requests wait; the zero time is that none do
	mark          time.Time // when marked was read, by which TTFT is judged once our requests of that time have ended
	marked        *Pressure
	ours, before  firsts // of our requests that have ended, and of those of them that were sent before mark
	failures      []bool // of the latest requests
	slow          []bool // of the latest requests, where there is no page: were they slower than limit
	limit         time.Duration
}

// firsts counts requests that had a first token, and those that may be in TTFTLate.
type firsts struct{ all, late int }

func (f *firsts) add(s *Sample, usual time.Duration) {
	if s.TTFT >= 0 {
		f.all++
	}
	if s.TTFT < 0 || s.TTFT >= usual {
		f.late++
	}
}

// lookAround ends the run before it begins where the pages show no room.
func (r *runner) lookAround() {
	p, err := r.read(firstReading)
	switch {
	case err != nil:
		r.stop(PageLost, err.Error())
	case p.Waiting > 0:
		r.stop(NoRoom, fmt.Sprintf("%.0f requests wait", p.Waiting))
	case p.KVUsage >= fullKV:
		r.stop(NoRoom, fmt.Sprintf("%.0f %% of a KV cache are in use", 100*p.KVUsage))
	case p.Running > r.plan.Load.Levels()[0]*r.plan.Load.Unit()/2:
		r.stop(NoRoom, fmt.Sprintf("%.0f requests run, more than half of the first level", p.Running))
	}
	g := &r.guard
	g.first, g.latest, g.marked, g.mark = &p, &p, &p, time.Now()
	if p.Running >= 1 {
		g.seen = g.mark
	}
}

// try sends one request before the run where there is no page: how slow is one that is alone.
func (r *runner) try() {
	var lengths *config.TracedRequest
	if l := r.plan.Load; l.Kind() == config.LoadTrace {
		lengths = &l.Trace[0]
	}
	res := r.send(0, time.Time{}, lengths)
	if r.ctx.Err() != nil {
		return
	}
	if res.Outcome != result.Success {
		r.stop(Errors, "the first request failed: "+reason(res))
	}
	r.guard.limit = 2 * untilFirst(res.Timing.TTFT, res.Timing.Duration)
	if o := r.plan.Objectives; o != nil {
		r.guard.limit = max(r.guard.limit, o.TTFT)
	}
}

// untilFirst returns TTFT, and how long a request took where it has none: an embedding comes as a whole.
func untilFirst(ttft, took time.Duration) time.Duration {
	if ttft < 0 {
		return took
	}
	return ttft
}

// read reads the pages. It does not wait longer for a driver that ignores its context.
func (r *runner) read(limit time.Duration) (Pressure, error) {
	ctx, cancel := context.WithTimeout(r.ctx, limit)
	defer cancel()
	var p Pressure
	var err error
	done := make(chan struct{})
	r.work.Go(func() {
		defer close(done)
		p, err = r.driver.Pressure(ctx)
	})
	select {
	case <-done:
		return p, err
	case <-ctx.Done():
		return Pressure{}, errors.New("the pages do not answer")
	}
}

// watch reads the pages until the run ends.
func (r *runner) watch() {
	newest, why := time.Now(), "the pages take too long"
	for r.ctx.Err() == nil {
		begun := time.Now()
		r.mu.Lock()
		r.guard.peaks = stats.AppendLatest(r.guard.peaks, len(r.flying), stalePages)
		r.guard.lows = stats.AppendLatest(r.guard.lows, len(r.flying), stalePages)
		r.mu.Unlock()
		p, err := r.read(time.Until(newest.Add(pageLost)))
		if err == nil {
			newest = begun
			r.judge(&p, begun)
		} else if r.ctx.Err() == nil {
			why = err.Error()
		}
		every := readEvery
		if p.Waiting >= 1 {
			every = readWaiting
		}
		sleep(r.ctx, min(time.Until(begun.Add(every)), time.Until(newest.Add(pageLost))))
		if time.Since(newest) >= pageLost {
			r.stop(PageLost, why)
		}
	}
}

// judge ends the run when a reading shows that users are hurt.
func (r *runner) judge(p *Pressure, begun time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := &r.guard
	g.latest = p
	if p.Running+p.Waiting-float64(slices.Max(g.peaks)) >= 1 {
		g.seen = time.Now()
	}
	ours, most := slices.Min(g.lows), slices.Max(g.peaks)
	switch shown := p.Running + p.Waiting; {
	case most < blindFrom || shown >= leastShown*float64(most):
		g.blind = time.Time{}
	case ours < blindFrom || shown >= leastShown*float64(ours): // many of ours end at once: it shows either
	case g.blind.IsZero():
		g.blind = begun
	case begun.Sub(g.blind) >= blindFor:
		r.stop(PageLost, fmt.Sprintf("the pages show %.0f requests, and %d of ours are in flight: users may be where they do not show", shown, ours))
	}
	if p.Waiting < 1 {
		g.wait = time.Time{}
	} else if g.wait.IsZero() {
		g.wait = begun
	}
	if p.Waiting >= 1 && time.Since(g.seen) <= usersStay && (begun.Sub(g.wait) >= waitLimit || time.Since(begun) > readEvery) {
		r.stop(UsersWaiting, fmt.Sprintf("%.0f requests wait, and users were there %s ago", p.Waiting, result.InWords(time.Since(g.seen))))
	}
	for _, sent := range r.flying {
		if !sent.After(g.mark) {
			return
		}
	}
	r.judgeLate(g.marked)
	g.mark, g.marked, g.before = time.Now(), p, g.ours
}

// judgeLate ends the run when users' TTFT has left its usual range by a reading, all of our requests that were in flight
// at that time having ended since: what is not of them is of users.
func (r *runner) judgeLate(p *Pressure) {
	g := &r.guard
	if p.UsualP99 <= 0 || p.UsualP99 != g.first.UsualP99 || p.TTFTCount < 0 || p.TTFTLate < 0 {
		return
	}
	late := p.TTFTLate - g.first.TTFTLate - float64(g.before.late)
	all := p.TTFTCount - g.first.TTFTCount - float64(g.before.all)
	if late >= 2 && late > lateShare*all {
		r.stop(UsersSlow, fmt.Sprintf("TTFT of %.0f requests of users was over %s", late, result.InWords(p.UsualP99)))
	}
}

// reason returns why a request failed.
func reason(res *result.Result) string {
	if res.Err == nil {
		return res.Outcome.Description()
	}
	return res.Err.Error()
}

// refusal returns why no more requests may be sent after a result; "" where they may.
func refusal(res *result.Result) (End, string) {
	if res == nil {
		return NotPossible, "the driver has no result"
	}
	if why, ok := errors.AsType[*result.Skip](res.Err); ok {
		if why.Reason == result.SkipResources {
			return OwnLimit, why.Text
		}
		return NotPossible, why.Text
	}
	switch {
	case res.Outcome == result.Canceled:
		return Canceled, reason(res)
	case res.Outcome == result.Unauthorized, res.Status == http.StatusPaymentRequired,
		res.Outcome == result.RateLimited && !result.RefusesByLoad(res.Engine):
		return Refused, reason(res)
	}
	return "", ""
}

// judgeOwn ends the run when a request of ours is a reason to: too many failed, are slow where there is no page to see users
// by, or were late by our own doing.
func (r *runner) judgeOwn(s *Sample, sent time.Time, rec *Recorded) {
	g, most := &r.guard, r.plan.Load.MaxErrorRatio
	yes := func(b bool) bool { return b }
	if s.failed() {
		r.failed++
	}
	if s.Late {
		r.late++
	}
	if g.first != nil {
		g.ours.add(s, g.first.UsualP99)
		if !sent.After(g.mark) {
			g.before.add(s, g.first.UsualP99)
		}
	}
	window := max(errorWindow, int(rec.Level))
	g.failures = stats.AppendLatest(g.failures, s.failed(), window)
	if n := stats.Count(g.failures, yes); float64(n) > most*float64(window) || n == 3 && len(g.failures) == 3 {
		r.stop(Errors, fmt.Sprintf("%d of the latest %d requests failed", n, len(g.failures)))
	}
	if g.limit > 0 {
		g.slow = stats.AppendLatest(g.slow, s.failed() || untilFirst(s.TTFT, s.Ended-s.Sent) > g.limit, max(slowWindow, int(rec.Level)))
		if n := stats.Count(g.slow, yes); len(g.slow) >= slowWindow && 2*n > len(g.slow) {
			r.stop(Slow, fmt.Sprintf("%d of our latest %d requests took over %s until their first token", n, len(g.slow), result.InWords(g.limit)))
		}
	}
	if len(rec.Samples) >= ownLateFrom {
		r.judgeOwnLateness(rec)
	}
}

// judgeOwnLateness ends the run when too many requests of a level were late by our own doing.
func (r *runner) judgeOwnLateness(rec *Recorded) {
	if n := len(rec.Samples); r.late > 2 && float64(r.late) > ownLateShare*float64(n) {
		r.stop(OwnLimit, fmt.Sprintf("%d of %d requests were sent or read late", r.late, n))
	}
}

package loadtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

const (
	// readEvery is how often the pages are read. One that takes longer is read back to back.
	readEvery = 200 * time.Millisecond
	// pageLost is how old the newest reading may be, from when it began. Users who begin to wait are seen by the first
	// reading that begins afterwards, so that the run ends within this time of it, or sooner.
	pageLost = 800 * time.Millisecond
	// firstReading is how long the reading before the run may take.
	firstReading = 5 * time.Second
	// stalePages is by how many readings a page may lag behind: SGLang's gauges are as of up to 40 steps ago.
	stalePages = 10
	// usersStay is how long users count as there after a request of theirs was seen: the next will come.
	usersStay = time.Minute
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
	seen          time.Time // when requests of users were seen last
	waited        int       // readings in a row in which requests waited, and users were there
	answered      int       // requests of ours that had a first token
	late          int       // those that may be in TTFTLate
	failures      []bool    // of the latest requests
	slow          []bool    // of the latest requests, where there is no page: were they slower than limit
	limit         time.Duration
}

// hasRoom reports whether the run may begin, and ends it where not.
func (r *runner) hasRoom() bool {
	if r.ctx.Err() == nil {
		if r.plan.HasPage {
			r.lookAround()
		} else {
			r.try()
		}
	}
	return r.ctx.Err() == nil
}

// lookAround reads the pages before the run.
func (r *runner) lookAround() {
	p, err := r.read(firstReading)
	switch {
	case err != nil:
		r.stop(PageLost, err.Error())
	case p.Waiting > 0:
		r.stop(NoRoom, fmt.Sprintf("%.0f requests wait", p.Waiting))
	case p.KVUsage >= fullKV:
		r.stop(NoRoom, fmt.Sprintf("%.0f %% of a KV cache are in use", 100*p.KVUsage))
	case p.Running > firstLoad(r.plan.Load)/2:
		r.stop(NoRoom, fmt.Sprintf("%.0f requests run, more than half of the first level", p.Running))
	}
	if r.guard.first, r.guard.latest = &p, &p; p.Running >= 1 {
		r.guard.seen = time.Now()
	}
}

// firstLoad returns the users, or the requests per second, of the first level.
func firstLoad(l *config.LoadTest) float64 {
	load := l.Levels()[0]
	if l.Kind() == config.LoadTrace {
		load *= float64(len(l.Trace)) / span(l.Trace).Seconds()
	}
	return load
}

// try sends one request before the run where there is no page: how slow is one that is alone.
func (r *runner) try() {
	if !r.driver.Afford(nil) {
		r.stop(Budget, "")
		return
	}
	res := r.driver.Ask(r.ctx, 0, time.Time{}, nil)
	usual, ttft := r.plan.UsualTTFT, res.Timing.TTFT
	if end, text := refusal(res); end != "" {
		r.stop(end, text)
	} else if res.Outcome != result.Success {
		r.stop(Errors, "the first request failed: "+reason(res))
	} else if usual > 0 && ttft > 2*usual {
		r.stop(NoRoom, fmt.Sprintf("TTFT is %s, and usually %s", result.InWords(ttft), result.InWords(usual)))
	}
	r.guard.limit = 2 * max(usual, ttft)
	if o := r.plan.Objectives; o != nil {
		r.guard.limit = max(r.guard.limit, o.TTFT)
	}
}

// read reads the pages. It does not wait longer for a driver that ignores its context.
func (r *runner) read(limit time.Duration) (Pressure, error) {
	ctx, cancel := context.WithTimeout(r.ctx, limit)
	defer cancel()
	type reading struct {
		Pressure
		err error
	}
	got := make(chan reading, 1)
	r.work.Go(func() {
		p, err := r.driver.Pressure(ctx)
		got <- reading{p, err}
	})
	select {
	case p := <-got:
		return p.Pressure, p.err
	case <-ctx.Done():
		return Pressure{}, errors.New("the pages do not answer")
	}
}

// watch reads the pages until the run ends.
func (r *runner) watch() {
	newest := time.Now()
	for r.ctx.Err() == nil {
		begun := time.Now()
		r.mu.Lock()
		r.guard.peaks = stats.AppendLatest(r.guard.peaks, len(r.flying), stalePages)
		r.mu.Unlock()
		p, err := r.read(time.Until(newest.Add(pageLost)))
		switch {
		case err == nil:
			newest = begun
			r.judge(&p, time.Since(begun))
		case time.Since(newest) >= pageLost:
			r.stop(PageLost, err.Error())
		}
		sleep(r.ctx, min(time.Until(begun.Add(readEvery)), time.Until(newest.Add(pageLost))))
	}
}

// judge ends the run when a reading shows that users are hurt.
func (r *runner) judge(p *Pressure, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := &r.guard
	g.latest = p
	if p.Running+p.Waiting-float64(slices.Max(g.peaks)) >= 1 {
		g.seen = time.Now()
	}
	if p.Waiting < 1 || time.Since(g.seen) > usersStay {
		g.waited = 0
	} else if g.waited++; g.waited == 3 || took > readEvery {
		r.stop(UsersWaiting, fmt.Sprintf("%.0f requests wait, and users were there %s ago", p.Waiting, result.InWords(time.Since(g.seen))))
	}
	if late, all := r.usersLate(p); late >= 2 && late > lateShare*all {
		r.stop(UsersSlow, fmt.Sprintf("TTFT of %.0f of %.0f requests of users was over %s", late, all, result.InWords(p.UsualP99)))
	}
}

// usersLate returns how many requests of users were later than usual since the run began, and how many there were. Of
// ours in flight those that are older than the usual have had their first token; as many of them as of those that have
// ended may have been late.
func (r *runner) usersLate(p *Pressure) (late, all float64) {
	g, usual := &r.guard, p.UsualP99
	if usual <= 0 || usual != g.first.UsualP99 || p.TTFTCount < 0 || p.TTFTLate < 0 {
		return 0, 0
	}
	old := 0
	for _, sent := range r.flying {
		if time.Since(sent) > usual {
			old++
		}
	}
	share := float64(g.late) / float64(max(1, g.answered))
	if g.answered == 0 {
		share = 1
	}
	late = p.TTFTLate - g.first.TTFTLate - float64(g.late) - math.Ceil(share*float64(old))
	return late, p.TTFTCount - g.first.TTFTCount - float64(g.answered+old)
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

// heed ends the run when a request of ours is a reason to: too many failed, are slow where there is no page to see users
// by, or were late by our own doing.
func (r *runner) heed(s *Sample, rec *Recorded) {
	g, least := &r.guard, r.plan.Load.MaxErrorRatio
	yes := func(b bool) bool { return b }
	if s.TTFT >= 0 {
		g.answered++
	}
	if g.first != nil && (s.TTFT < 0 || s.TTFT >= g.first.UsualP99) {
		g.late++
	}
	window := max(errorWindow, int(rec.Level))
	g.failures = stats.AppendLatest(g.failures, s.failed(), window)
	if n := stats.Count(g.failures, yes); float64(n) > least*float64(window) || n == 3 && len(g.failures) == 3 {
		r.stop(Errors, fmt.Sprintf("%d of the latest %d requests failed", n, len(g.failures)))
	}
	if g.limit > 0 {
		g.slow = stats.AppendLatest(g.slow, s.failed() || s.TTFT > g.limit, max(slowWindow, int(rec.Level)))
		if n := stats.Count(g.slow, yes); len(g.slow) >= slowWindow && 2*n > len(g.slow) {
			r.stop(Slow, fmt.Sprintf("TTFT of %d of our latest %d requests was over %s", n, len(g.slow), result.InWords(g.limit)))
		}
	}
	if len(rec.Samples) >= ownLateFrom {
		r.heedOwn(rec)
	}
}

// heedOwn ends the run when too many requests of a level were late by our own doing.
func (r *runner) heedOwn(rec *Recorded) {
	if n := len(rec.Samples); r.late > 2 && float64(r.late) > ownLateShare*float64(n) {
		r.stop(OwnLimit, fmt.Sprintf("%d of %d requests were sent or read late", r.late, n))
	}
}

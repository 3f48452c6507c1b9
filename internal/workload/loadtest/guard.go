package loadtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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
	// fullKV is the share of a KV cache from which on a server has no room.
	fullKV = 0.8
	// errorWindow is the least number of requests over which failures are counted.
	errorWindow = 20
)

// guard is what the reasons to end go by.
type guard struct {
	first, latest *Pressure
	peak          int // requests of ours in flight at once, since the latest reading began
	waited        int // readings in a row in which users waited
	outcomes      []bool
}

// hasRoom reports whether the run may begin, and ends it where not.
func (r *runner) hasRoom() bool {
	if !r.plan.HasPage {
		return r.ctx.Err() == nil
	}
	p, err := r.read(firstReading)
	switch {
	case err != nil:
		r.stop(PageLost, err.Error())
	case p.Waiting > 0:
		r.stop(NoRoom, fmt.Sprintf("%.0f requests wait", p.Waiting))
	case p.KVUsage >= fullKV:
		r.stop(NoRoom, fmt.Sprintf("%.0f %% of a KV cache are in use", 100*p.KVUsage))
	case p.Running > r.plan.Load.Levels()[0]/2 && r.plan.Load.Kind() == config.LoadUsers:
		r.stop(NoRoom, fmt.Sprintf("%.0f requests run", p.Running))
	}
	r.guard.first, r.guard.latest = &p, &p
	return r.ctx.Err() == nil
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
		before := r.guard.peak
		r.guard.peak = len(r.flying)
		r.mu.Unlock()
		p, err := r.read(time.Until(newest.Add(pageLost)))
		switch {
		case err == nil:
			newest = begun
			r.judge(&p, before, time.Since(begun))
		case time.Since(newest) >= pageLost:
			r.stop(PageLost, err.Error())
		}
		sleep(r.ctx, min(time.Until(begun.Add(readEvery)), time.Until(newest.Add(pageLost))))
	}
}

// judge ends the run when a reading shows that users are hurt. before is how many of our requests were in flight before
// it, at most.
func (r *runner) judge(p *Pressure, before int, took time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := &r.guard
	g.latest = p
	users := p.Running + p.Waiting - float64(max(before, g.peak))
	if p.Waiting < 1 || users < 1 {
		g.waited = 0
		return
	}
	if g.waited++; g.waited == 2 || p.Waiting >= 2 || took > readEvery {
		r.stop(UsersWaiting, fmt.Sprintf("%.0f requests wait, and at least %.0f are of users", p.Waiting, users))
	}
}

// refusal returns why no more requests may be sent after a result; "" where they may.
func refusal(res *result.Result) (End, string) {
	text := ""
	if res.Err != nil {
		text = res.Err.Error()
	}
	if why, ok := errors.AsType[*result.Skip](res.Err); ok {
		if why.Reason == result.SkipResources {
			return OwnLimit, text
		}
		return NotPossible, text
	}
	switch {
	case res.Outcome == result.Canceled:
		return Canceled, text
	case res.Outcome == result.Unauthorized, res.Status == http.StatusPaymentRequired,
		res.Outcome == result.RateLimited && !result.RefusesByLoad(res.Engine):
		return Refused, text
	}
	return "", ""
}

// heed ends the run when a request of ours is a reason to: too many failed, are slow without a page to see users by, or
// were late by our own doing.
func (r *runner) heed(s *Sample, rec *Recorded) {
	g, l := &r.guard, r.plan.Load
	window := max(errorWindow, int(rec.Level))
	g.outcomes = stats.AppendLatest(g.outcomes, s.failed(), window)
	failed := stats.Count(g.outcomes, func(failed bool) bool { return failed })
	if float64(failed) > l.MaxErrorRatio*float64(window) || failed == 3 && len(g.outcomes) == 3 {
		r.stop(Errors, fmt.Sprintf("%d of the latest %d requests failed", failed, len(g.outcomes)))
	}
}

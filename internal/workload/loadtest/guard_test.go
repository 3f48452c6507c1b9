package loadtest

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
)

// whole is how long a run takes that nothing ends, with its two levels of a minute and the end of their last requests, to
// within a second.
const whole = 2*time.Minute + 1500*time.Millisecond

func failWith(o result.Outcome) func(int, *result.Result) {
	return func(_ int, r *result.Result) {
		if r.Outcome == result.Success {
			r.Outcome = o
		}
	}
}

// endCase is a run with users: 4 and then 8, on a server that does 8 requests of a second at a time, and how it is to end.
type endCase struct {
	prepare func(q *queue, p *Plan)
	end     End
	text    string        // part of the text
	at      time.Duration // when, to within 250 ms; 0 is before any load
}

func endCases() map[string]endCase {
	users := func(from time.Duration, running, waiting float64) func(q *queue, p *Plan) {
		return func(q *queue, _ *Plan) {
			q.page = func(p *Pressure) error {
				if time.Since(q.start) >= from {
					p.Running += running
					p.Waiting += waiting
				}
				return nil
			}
		}
	}
	broken := func(page func(since time.Duration, p *Pressure) error) func(q *queue, p *Plan) {
		return func(q *queue, _ *Plan) {
			q.page = func(p *Pressure) error { return page(time.Since(q.start)-10*time.Second, p) }
		}
	}
	answers := func(change func(n int, r *result.Result)) func(q *queue, p *Plan) {
		return func(q *queue, _ *Plan) { q.change = change }
	}
	return map[string]endCase{
		"all is well":          {func(*queue, *Plan) {}, Completed, "", whole},
		"users run":            {users(20*time.Second, 3, 0), Completed, "", whole},
		"requests wait before": {users(0, 0, 1), NoRoom, "1 requests wait", 0},
		"too many run before":  {users(0, 3, 0), NoRoom, "3 requests run", 0},
		"half as many run":     {users(0, 2, 0), Completed, "", whole},
		"cache full before": {func(q *queue, _ *Plan) {
			q.page = func(p *Pressure) error { p.KVUsage = 0.8; return nil }
		}, NoRoom, "80 %", 0},
		"no page before": {func(q *queue, _ *Plan) {
			q.page = func(*Pressure) error { return errors.New("status 503") }
		}, PageLost, "status 503", 0},
		// The third reading after they began to wait, or the second if it was read at that very moment.
		"users wait": {users(20100*time.Millisecond, 2, 1), UsersWaiting, "1 requests wait", 20600 * time.Millisecond},
		// For 400 ms, which two readings see.
		"users wait for a moment": {broken(func(since time.Duration, p *Pressure) error {
			if since > 100*time.Millisecond && since < 500*time.Millisecond {
				p.Running, p.Waiting = p.Running+1, p.Waiting+1
			}
			return nil
		}), Completed, "", whole},
		"page fails": {broken(func(since time.Duration, _ *Pressure) error {
			if since > 0 {
				return errors.New("status 500")
			}
			return nil
		}), PageLost, "status 500", 10800 * time.Millisecond},
		"page fails for a moment": {broken(func(since time.Duration, _ *Pressure) error {
			if since > 0 && since < 400*time.Millisecond {
				return errors.New("status 500")
			}
			return nil
		}), Completed, "", whole},
		"page hangs": {broken(func(since time.Duration, _ *Pressure) error {
			if since > 0 {
				time.Sleep(3 * time.Second) // whatever its context says
			}
			return nil
		}), PageLost, "do not answer", 13200 * time.Millisecond},
		"page is slow": {broken(func(since time.Duration, _ *Pressure) error {
			if since > 0 {
				time.Sleep(300 * time.Millisecond)
			}
			return nil
		}), Completed, "", whole},
		"page is slow and users wait": {broken(func(since time.Duration, p *Pressure) error {
			if since > 0 {
				p.Running, p.Waiting = p.Running+2, p.Waiting+1
				time.Sleep(300 * time.Millisecond)
			}
			return nil
		}), UsersWaiting, "", 10400 * time.Millisecond},
		"no budget":          {func(q *queue, _ *Plan) { q.afford = 10 }, Budget, "", 4500 * time.Millisecond},
		"window":             {func(_ *queue, p *Plan) { p.Until = time.Now().Add(30 * time.Second) }, WindowOver, "", 30 * time.Second},
		"window over before": {func(_ *queue, p *Plan) { p.Until = time.Now() }, WindowOver, "", 0},
		// One user begins each 1.5 s, and waits a second after a failure: three end at 1, 2.5 and 3 s.
		"all fail":   {func(q *queue, p *Plan) { q.change, p.Load.MaxErrorRatio = failWith(result.HTTPError), 0.5 }, Errors, "3 of the latest 3", 3 * time.Second},
		"no key":     {answers(failWith(result.Unauthorized)), Refused, "", time.Second},
		"rate limit": {answers(failWith(result.RateLimited)), Refused, "", time.Second},
		"no payment": {answers(func(_ int, r *result.Result) { r.Outcome, r.Status = result.HTTPError, 402 }), Refused, "", time.Second},
		"queue full": {answers(func(_ int, r *result.Result) { failWith(result.RateLimited)(0, r); r.Engine = "tgi" }), Errors, "2 of the latest 2", 2500 * time.Millisecond},
		"own prober": {answers(failWith(result.Canceled)), Canceled, "", time.Second},
		"impossible": {answers(func(_ int, r *result.Result) {
			r.Outcome, r.Err = result.HTTPError, &result.Skip{Reason: result.SkipModel, Text: "set model"}
		}), NotPossible, "set model", time.Second},
		"no sockets": {answers(func(_ int, r *result.Result) {
			r.Outcome, r.Err = result.ConnectError, &result.Skip{Reason: result.SkipResources, Text: "sockets"}
		}), OwnLimit, "sockets", time.Second},
		"one of 30": {answers(func(n int, r *result.Result) {
			if n%30 == 5 {
				failWith(result.StreamError)(n, r)
			}
		}), Completed, "", whole},
		// The 6th and the 16th: 2 of 20 are more than 5 %. The 16th begins at 6 s.
		"one of 10": {answers(func(n int, r *result.Result) {
			if n%10 == 5 {
				failWith(result.StreamError)(n, r)
			}
		}), Errors, "2 of the latest", 7 * time.Second},
		// 4 users make 4 requests per second, less 9 that they miss while they come.
		"late": {answers(func(n int, r *result.Result) { r.Imprecise = n%10 == 5 }), OwnLimit, "10 of 100", 27500 * time.Millisecond},
	}
}

func TestEnds(t *testing.T) {
	for name, c := range endCases() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(8, time.Second)
				p := planOf(&config.LoadTest{Users: []int{4, 8}})
				c.prepare(q, &p)
				r := Run(t.Context(), p, q, nil)
				took, tolerance := r.Stop.Sub(r.Start), 0.25
				if c.at == whole {
					tolerance = 1
				}
				if r.End != c.end || !strings.Contains(r.Text, c.text) {
					t.Errorf("ended %s %q after %s, want %s %q", r.End, r.Text, took, c.end, c.text)
				}
				if (c.at == 0) != (len(r.Levels) == 0) || c.at > 0 && math.Abs((took-c.at).Seconds()) > tolerance {
					t.Errorf("%d levels and %s, want %s", len(r.Levels), took, c.at)
				}
				if q.inside != 0 {
					t.Errorf("%d requests are still at the server", q.inside)
				}
				for _, l := range r.Levels {
					for _, s := range l.Samples {
						if s.Outcome == result.Canceled {
							t.Error("a canceled request is a sample")
						}
					}
				}
			})
		})
	}
}

// Our own requests may wait where nobody else's are.
func TestOwnQueueIsNoReasonToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if r := Run(t.Context(), planOf(&config.LoadTest{Users: []int{32}}), newQueue(4, time.Second), nil); r.End != Completed {
			t.Errorf("ended %s %q", r.End, r.Text)
		}
	})
}

// A minute after the latest request of a user, our own may wait again: those of the second level do from 61 s on.
func TestUsersWhoLeft(t *testing.T) {
	for leave, want := range map[time.Duration]End{time.Second: Completed, 10 * time.Second: UsersWaiting} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(8, time.Second)
			q.page = func(p *Pressure) error {
				if since := time.Since(q.start); since > 300*time.Millisecond && since < leave {
					p.Running += 3
				}
				return nil
			}
			if r := Run(t.Context(), planOf(&config.LoadTest{Users: []int{4, 32}}), q, nil); r.End != want {
				t.Errorf("users until %s: ended %s %q after %s", leave, r.End, r.Text, r.Stop.Sub(r.Start))
			}
		})
	}
}

func TestUsersSlow(t *testing.T) {
	for name, c := range map[string]struct {
		late float64 // of one user's request per second from 20 s on
		want End
	}{"some": {0.04, Completed}, "many": {0.1, UsersSlow}} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(8, time.Second)
			q.page = func(p *Pressure) error {
				q.mu.Lock()
				defer q.mu.Unlock()
				since := time.Since(q.start)
				ours := float64(len(q.asked)) // each has its first token at once
				users := math.Floor(since.Seconds())
				p.TTFTCount, p.TTFTLate = 1000+ours+users, 10+math.Floor(c.late*users)
				p.UsualP99 = 500 * time.Millisecond
				return nil
			}
			r := Run(t.Context(), planOf(&config.LoadTest{Users: []int{4}}), q, nil)
			if r.End != c.want {
				t.Errorf("%s: ended %s %q after %s", name, r.End, r.Text, r.Stop.Sub(r.Start))
			}
			// With a tenth late the second is late after 20 s; what of ours is in flight then ends within a second.
			if took := r.Stop.Sub(r.Start); r.End == UsersSlow && (took < 20*time.Second || took > 21400*time.Millisecond) {
				t.Errorf("%s: after %s", name, took)
			}
		})
	}
}

// Those of ours that are late are no users who are.
func TestOwnLateRequestsAreNotUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(4, time.Second)
		q.page = func(p *Pressure) error {
			q.mu.Lock()
			defer q.mu.Unlock()
			p.TTFTCount, p.TTFTLate, p.UsualP99 = float64(len(q.first)), 0, 500*time.Millisecond
			for _, ttft := range q.first {
				if ttft > p.UsualP99 {
					p.TTFTLate++
				}
			}
			return nil
		}
		if r := Run(t.Context(), planOf(&config.LoadTest{Users: []int{16}}), q, nil); r.End != Completed {
			t.Errorf("ended %s %q", r.End, r.Text)
		}
	})
}

func TestWithoutPage(t *testing.T) {
	for name, c := range map[string]struct {
		objective time.Duration
		users     []int
		whole     bool // answers come as a whole, without a first token
		want      End
		text      string
	}{
		"room for all":           {0, []int{4, 8}, false, Completed, ""},
		"ours wait":              {0, []int{4, 32}, false, Slow, "over 200 ms until"},
		"within their objective": {10 * time.Second, []int{4, 32}, false, Completed, ""},
		"over their objective":   {2 * time.Second, []int{4, 32}, false, Slow, "over 2.00 s until"},
		"whole, room for all":    {0, []int{4, 8}, true, Completed, ""},
		"whole, ours wait":       {0, []int{4, 32}, true, Slow, "over 2.00 s until"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(8, time.Second)
				q.change = func(_ int, r *result.Result) {
					if r.Timing.TTFT += 100 * time.Millisecond; c.whole {
						r.Timing.TTFT, r.Timing.Duration = result.Absent, time.Second
					}
				}
				p := planOf(&config.LoadTest{Users: c.users})
				p.HasPage = false
				if c.objective > 0 {
					p.Objectives = series.NewObjectives(config.SLO{TTFT: model.Duration(c.objective)})
				}
				if r := Run(t.Context(), p, q, nil); r.End != c.want || !strings.Contains(r.Text, c.text) {
					t.Errorf("ended %s %q", r.End, r.Text)
				}
			})
		})
	}
}

// The request before a recorded load has recorded lengths too: its module has none.
func TestTraceWithoutPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(8, time.Second)
		trace := []config.TracedRequest{{Input: 10, Output: 1}, {At: 5 * time.Second, Input: 20, Output: 2}}
		p := planOf(&config.LoadTest{TraceFile: "t.csv", Trace: trace, TraceSpeeds: []float64{1}})
		p.HasPage = false
		if r := Run(t.Context(), p, q, nil); r.End != Completed || len(q.inputs) != 1+len(r.Levels[0].Samples) || q.inputs[0] != 10 {
			t.Errorf("ended %s %q, %d requests of the lengths %v", r.End, r.Text, len(r.Levels[0].Samples), q.inputs)
		}
	})
}

// Pages that show half of our requests or less, as one of two servers behind a balancer does, do not show users either; those that show
// most of them may lack some that are on their way.
func TestPagesThatDoNotShowUs(t *testing.T) {
	for share, want := range map[float64]End{0.2: PageLost, 0.5: PageLost, 0.8: Completed} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(16, time.Second)
			q.page = func(p *Pressure) error {
				p.Running *= share
				return nil
			}
			r := Run(t.Context(), planOf(&config.LoadTest{Users: []int{12}}), q, nil)
			// The fourth of 12 users comes 1.5 s after the first, in a rise of 6 s, and counts from the third reading on, after
			// 0.6 s at most. 5 s later the run ends, or some readings after that, where many answers end at once.
			if took := r.Stop.Sub(r.Start).Seconds(); r.End != want || want == PageLost && (took < 6.5 || took > 8) {
				t.Errorf("a share of %v: ended %s %q after %v s", share, r.End, r.Text, took)
			}
		})
	}
}

// With all connections of an open loop in use the run ends: the server falls behind without end.
func TestTooManyInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := Run(t.Context(), planOf(&config.LoadTest{RequestsPerSecond: []float64{100}}), newQueue(10, time.Second), nil)
		// 100 arrive and 10 leave per second, 90 more each second after the rise of 6 s: 2048 after about 26 s.
		if took := r.Stop.Sub(r.Start); r.End != OwnLimit || math.Abs(took.Seconds()-25.8) > 2 {
			t.Errorf("ended %s %q after %s", r.End, r.Text, took)
		}
	})
}

// A driver that ignores its context is left behind.
func TestDriverHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		q := newQueue(4, time.Second)
		q.change = func(int, *result.Result) { <-hang }
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		p := planOf(&config.LoadTest{Users: []int{2}})
		r := Run(ctx, p, q, nil)
		if took := r.Stop.Sub(r.Start); r.End != Canceled || took > 10*time.Second+2*endLimit || len(r.Levels[0].Samples) != 0 {
			t.Errorf("ended %s %q after %s", r.End, r.Text, took)
		}
		p.HasPage, p.Until = false, time.Now().Add(time.Minute)
		if r = Run(t.Context(), p, q, nil); r.End != WindowOver || len(r.Levels) != 0 {
			t.Errorf("the first request alone: ended %s %q with %d levels", r.End, r.Text, len(r.Levels))
		}
		close(hang)
	})
}

// broken is a driver that has no result.
type broken struct{ *queue }

func (broken) Ask(context.Context, int, time.Time, *config.TracedRequest) *result.Result { return nil }

func TestDriverWithoutResult(t *testing.T) {
	for _, page := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p := planOf(&config.LoadTest{Users: []int{2}})
			p.HasPage = page
			if r := Run(t.Context(), p, broken{newQueue(4, time.Second)}, nil); r.End != NotPossible {
				t.Errorf("with a page %t: ended %s %q", page, r.End, r.Text)
			}
		})
	}
}

package loadtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

const (
	// mostInFlight bounds the requests in flight of an open loop, whose server may fall behind without end.
	mostInFlight = 2048
	// mostSamples bounds what is kept of a level: it is over when so many requests were sent.
	mostSamples = 50_000
	// tailLimit is how long the last requests of a level may take. Ask has limits of its own, which are shorter.
	tailLimit = 15 * time.Minute
	// endLimit is how long requests may take to end once they are canceled.
	endLimit = 5 * time.Second
	// pauseAfterFailure is the least time that a user of a closed loop waits after a request that failed.
	pauseAfterFailure = time.Second
	// lateStart is how much later than planned this process may send a request without being the reason why it is slow.
	lateStart = 10 * time.Millisecond
)

// Progress is how far a run is.
type Progress struct {
	// At is counted from the start of the run.
	At time.Duration
	// Level is the one at hand.
	Level float64
	// InFlight are requests of ours, Done those of the level that have ended, and Failed those of them that failed.
	InFlight, Done, Failed int
	// Pressure is the latest reading of the pages; nil is none.
	Pressure *Pressure
	// P50 and P99 are those of TTFT over the latest 10,000 requests of the level; 0 before the first.
	P50, P99 time.Duration
}

// Run puts the load of a plan on an endpoint, level after level, until all were measured or a reason to end came, and
// returns when every request has ended. progress is called at most once per second, must return soon, and may be nil. A
// driver that ignores its context for more than 5 s is left behind.
func Run(ctx context.Context, p Plan, d Driver, progress func(Progress)) *Report {
	r := &runner{plan: p, driver: d, progress: progress, seed: rand.Uint64()}
	return r.run(ctx)
}

// runner is one run.
type runner struct {
	plan     Plan
	driver   Driver
	progress func(Progress)
	seed     uint64 // of all that is drawn

	start time.Time
	ctx   context.Context         // ends with the run
	end   context.CancelCauseFunc // the first cause is the end
	work  sync.WaitGroup          // everything that was started

	mu     sync.Mutex // guards what follows
	flying map[int]time.Time
	levels []Recorded // the last is the one at hand
	over   func()     // ends the sending of that level
	failed int        // of that level
	late   int
	guard  guard
}

// ending is the cause with which the context of a run ends.
type ending struct {
	end  End
	text string
}

func (e *ending) Error() string { return fmt.Sprintf("%s: %s", e.end, e.text) }

// stop ends the run. Only the first call has an effect.
func (r *runner) stop(end End, text string) { r.end(&ending{end, text}) }

func (r *runner) run(parent context.Context) *Report {
	if !r.plan.Until.IsZero() {
		var cancel context.CancelFunc
		parent, cancel = context.WithDeadlineCause(parent, r.plan.Until, &ending{end: WindowOver})
		defer cancel()
	}
	r.ctx, r.end = context.WithCancelCause(parent)
	r.start, r.flying = time.Now(), make(map[int]time.Time)
	switch {
	case r.ctx.Err() != nil:
	case r.plan.HasPage:
		r.lookAround()
	default:
		r.work.Go(r.try)
		r.wait(&r.work)
	}
	if r.plan.HasPage {
		r.work.Go(r.watch)
	}
	if r.progress != nil {
		r.work.Go(r.showProgress)
	}
	for i := 0; i < len(r.plan.Load.Levels()) && r.ctx.Err() == nil; i++ {
		r.level(i)
	}
	r.stop(Completed, "")
	r.wait(&r.work)
	r.mu.Lock() // for a request that was left behind
	defer r.mu.Unlock()
	all := &Report{Start: r.start, Stop: time.Now(), End: Canceled, Levels: r.levels}
	if why, ok := errors.AsType[*ending](context.Cause(r.ctx)); ok {
		all.End, all.Text = why.end, why.text
	}
	return all
}

// wait waits for work, no longer than its limits.
func (r *runner) wait(work *sync.WaitGroup) {
	idle := make(chan struct{})
	go func() {
		work.Wait()
		close(idle)
	}()
	select {
	case <-idle:
		return
	case <-r.ctx.Done():
	case <-time.After(tailLimit):
		r.stop(Errors, "requests do not end")
	}
	select {
	case <-idle:
	case <-time.After(endLimit):
	}
}

// level runs level i until its last request has ended.
func (r *runner) level(i int) {
	l := r.plan.Load
	rec := Recorded{Level: l.Levels()[i], Begin: time.Since(r.start)}
	sending, over := context.WithTimeout(r.ctx, time.Duration(l.Duration))
	defer over()
	r.mu.Lock()
	r.levels, r.failed, r.late, r.over = append(r.levels, rec), 0, 0, over
	r.mu.Unlock()
	var asked sync.WaitGroup
	if l.Kind() == config.LoadUsers {
		r.closed(sending, &asked, int(rec.Level))
	} else {
		r.open(sending, &asked, rec.Level)
	}
	<-sending.Done()
	stop := time.Since(r.start)
	r.wait(&asked)
	r.mu.Lock()
	defer r.mu.Unlock()
	level := &r.levels[i]
	level.Stop = stop
	if full := rec.Begin + rise(time.Duration(l.Duration)); stop >= full {
		level.Full = full
	}
	r.judgeOwnLateness(level)
}

// closed has n users ask, each when its answer came and it has thought. One after the other joins while the load rises.
func (r *runner) closed(sending context.Context, asked *sync.WaitGroup, n int) {
	duration, think := time.Duration(r.plan.Load.Duration), time.Duration(r.plan.Load.ThinkTime)
	for user := range n {
		rng := rand.New(rand.NewPCG(r.seed, uint64(user)))
		asked.Go(func() {
			pause := rise(duration) * time.Duration(user) / time.Duration(n)
			for sleep(sending, pause) {
				failed := r.ask(user, time.Time{}, nil)
				if pause = time.Duration(rng.ExpFloat64() * float64(think)); failed {
					pause = max(pause, pauseAfterFailure)
				}
			}
		})
	}
}

// open sends the requests of an open loop when they are due, each as a user who has none in flight.
func (r *runner) open(sending context.Context, asked *sync.WaitGroup, level float64) {
	idle := make([]int, mostInFlight) // guarded by r.mu
	for i := range idle {
		idle[i] = mostInFlight - 1 - i
	}
	begin := time.Now()
	rng := rand.New(rand.NewPCG(r.seed, uint64(len(r.levels))))
	for at, lengths := range arrivals(r.plan.Load, level, rng) {
		planned := begin.Add(at)
		if !sleep(sending, time.Until(planned)) {
			return
		}
		r.mu.Lock()
		n := len(idle) - 1
		if n < 0 {
			r.mu.Unlock()
			r.stop(OwnLimit, fmt.Sprintf("%d requests are in flight", mostInFlight))
			return
		}
		user := idle[n]
		idle = idle[:n]
		r.mu.Unlock()
		asked.Go(func() {
			r.ask(user, planned, lengths)
			r.mu.Lock()
			defer r.mu.Unlock()
			idle = append(idle, user)
		})
	}
}

// sleep waits, and reports whether ctx has not ended by then.
func sleep(ctx context.Context, d time.Duration) bool {
	if d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// ask sends a request, records it in the level at hand, and reports whether it failed.
func (r *runner) ask(user int, planned time.Time, lengths *config.TracedRequest) (failed bool) {
	begun := time.Now()
	r.mu.Lock()
	r.flying[user] = begun
	if n := len(r.guard.peaks); n > 0 {
		r.guard.peaks[n-1] = max(r.guard.peaks[n-1], len(r.flying))
	}
	r.mu.Unlock()
	res := r.send(user, planned, lengths)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.flying, user)
	if n := len(r.guard.lows); n > 0 {
		r.guard.lows[n-1] = min(r.guard.lows[n-1], len(r.flying))
	}
	if r.ctx.Err() != nil { // what was canceled says nothing
		return true
	}
	s := Sample{
		Sent: begun.Sub(r.start), Ended: time.Since(r.start), TTFT: result.Absent, TPOT: result.Absent,
		Input: res.Tokens.Prompt, Output: res.Tokens.Output, Outcome: res.Outcome, Late: res.Imprecise,
	}
	if !planned.IsZero() {
		s.Sent, s.Late = planned.Sub(r.start), s.Late || begun.Sub(planned) > lateStart
	} else if !res.Sent.IsZero() {
		s.Sent = res.Sent.Sub(r.start)
	}
	if !s.failed() {
		s.TTFT, s.TPOT = res.Timing.TTFT, res.Timing.TPOT
	}
	if r.plan.Objectives != nil {
		s.Judgement = r.plan.Objectives.Judge(res)
	}
	rec := &r.levels[len(r.levels)-1]
	if rec.Samples = append(rec.Samples, s); len(rec.Samples) >= mostSamples {
		r.over()
	}
	r.judgeOwn(&s, begun, rec)
	return s.failed()
}

// send sends a request and returns what it came to, which ends the run where no more may be sent.
func (r *runner) send(user int, planned time.Time, lengths *config.TracedRequest) *result.Result {
	if !r.driver.Afford(lengths) {
		r.stop(Budget, "")
		return nil
	}
	res := r.driver.Ask(r.ctx, user, planned, lengths)
	if end, text := refusal(res); end != "" {
		r.stop(end, text)
	}
	return res
}

// failed reports whether the request was not answered.
func (s *Sample) failed() bool { return s.Outcome != result.Success && s.Outcome != result.CheckFailed }

// showProgress calls progress each second.
func (r *runner) showProgress() {
	for sleep(r.ctx, time.Second) {
		r.progress(r.now())
	}
}

func (r *runner) now() Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := new(Recorded) // before the first level
	if n := len(r.levels); n > 0 {
		rec = &r.levels[n-1]
	}
	var ttft []time.Duration
	for _, s := range rec.Samples[max(0, len(rec.Samples)-10_000):] {
		if s.TTFT >= 0 && !s.Late {
			ttft = append(ttft, s.TTFT)
		}
	}
	slices.Sort(ttft)
	p := Progress{
		At: time.Since(r.start), Level: rec.Level, InFlight: len(r.flying), Done: len(rec.Samples), Failed: r.failed, Pressure: r.guard.latest,
	}
	if n := len(ttft); n > 0 {
		p.P50, p.P99 = ttft[stats.Rank(n, 0.5)-1], ttft[stats.Rank(n, 0.99)-1]
	}
	return p
}

package loadtest

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// The server of the simulation: continuous batching with chunked prefill, first come first served, as vLLM's.
const (
	engineSlots    = 48     // sequences in the batch at most
	engineKV       = 60_000 // tokens
	engineChunk    = 512    // prompt tokens of a step at most
	enginePrefill  = 6000   // prompt tokens per second
	engineStep     = 14 * time.Millisecond
	engineSequence = 250 * time.Microsecond // a step takes so much longer with each sequence that gets a token
	networkDelay   = 2 * time.Millisecond   // each way
	metricsDelay   = 20 * time.Millisecond  // of a reading of the page, each way at most
)

// job is a request inside the server. Times are counted from the beginning of the day.
type job struct {
	arrived, admitted, first time.Duration // negative is not yet
	prompt, output           int
	computed, generated      int
	ours                     bool
	canceled                 bool
	ended                    chan struct{} // of ours
}

func (j *job) ttft() time.Duration { return j.first - j.arrived }

// engine is a server and its users. Nothing in it runs by itself: advance computes what happens until then.
type engine struct {
	now              time.Duration // the end of the latest step, or of idleness
	waiting, running []*job
	held             int             // tokens in the KV cache
	users            []*job          // of the day, in the order of arrival
	next             int             // of them
	step             time.Duration   // of the step under way, from now on; 0 is none
	work             []int           // prompt tokens that it computes, by index in running
	ttfts            []time.Duration // of all requests, as the page counts them
	page             Pressure        // as of the latest step, as vLLM shows it
}

// course returns the requests of a day: rates by the hour, with the peak in the evening, and bursts.
func course(day time.Duration, rng *rand.Rand) []*job {
	var all []*job
	lognormal := func(median, sigma float64, most int) int {
		return min(most, 1+int(median*math.Exp(sigma*rng.NormFloat64())))
	}
	add := func(at time.Duration) {
		all = append(all, &job{arrived: at, admitted: -1, first: -1, prompt: lognormal(400, 0.9, 6000), output: lognormal(80, 0.8, 600)})
	}
	const mean, most = 1.0, 1.9 // requests per second
	for at := 0.0; at < day.Seconds(); at += rng.ExpFloat64() / most {
		phase := 2 * math.Pi * at / day.Seconds()
		if rng.Float64()*most < mean*(1-0.9*math.Cos(phase)) {
			add(time.Duration(at * float64(time.Second)))
		}
	}
	for at := rng.ExpFloat64() * 900; at < day.Seconds(); at += rng.ExpFloat64() * 900 {
		for range 10 + rng.IntN(40) {
			add(time.Duration((at + 4*rng.Float64()) * float64(time.Second)))
		}
	}
	sort.Slice(all, func(i, k int) bool { return all[i].arrived < all[k].arrived })
	return all
}

// advance computes what happens until then.
func (e *engine) advance(until time.Duration) {
	for {
		if e.step > 0 {
			if e.now+e.step > until {
				return
			}
			e.finishStep()
		}
		e.arrive()
		if len(e.running)+len(e.waiting) == 0 {
			if e.next == len(e.users) || e.users[e.next].arrived >= until {
				e.now = max(e.now, until)
				return
			}
			e.now = e.users[e.next].arrived
			continue
		}
		e.plan()
		if e.step == 0 {
			panic("a step does nothing")
		}
	}
}

func (e *engine) arrive() {
	for e.next < len(e.users) && e.users[e.next].arrived <= e.now {
		e.waiting = append(e.waiting, e.users[e.next])
		e.next++
	}
}

// plan decides on the next step.
func (e *engine) plan() {
	e.running = slices.DeleteFunc(e.running, func(j *job) bool {
		if j.canceled {
			e.held -= j.computed + j.generated
		}
		return j.canceled
	})
	e.waiting = slices.DeleteFunc(e.waiting, func(j *job) bool { return j.canceled })
	e.work = e.work[:0]
	prefill, samples := 0, 0
	for _, j := range e.running {
		n := min(j.prompt-j.computed, engineChunk-prefill)
		e.work = append(e.work, n)
		prefill += n
		if j.computed+n == j.prompt {
			samples++
		}
	}
	for len(e.waiting) > 0 && len(e.running) < engineSlots && prefill < engineChunk {
		j := e.waiting[0]
		if e.reserved()+j.prompt+j.output > engineKV {
			break
		}
		e.waiting = e.waiting[1:]
		j.admitted = max(e.now, j.arrived)
		e.running = append(e.running, j)
		n := min(j.prompt, engineChunk-prefill)
		e.work = append(e.work, n)
		prefill += n
		if n == j.prompt {
			samples++
		}
	}
	if len(e.running) == 0 {
		e.show()
		e.step = time.Microsecond // all were canceled
		return
	}
	e.show()
	e.step = engineStep + time.Duration(samples)*engineSequence + time.Duration(prefill)*time.Second/enginePrefill
}

func (e *engine) show() {
	e.page = Pressure{Running: float64(len(e.running)), Waiting: float64(len(e.waiting)), KVUsage: float64(e.held) / engineKV}
}

// reserved returns the tokens that the sequences of the batch will hold at their end.
func (e *engine) reserved() (n int) {
	for _, j := range e.running {
		n += j.prompt + j.output
	}
	return n
}

func (e *engine) finishStep() {
	e.now += e.step
	e.step = 0
	left := e.running[:0]
	for i, j := range e.running {
		j.computed += e.work[i]
		e.held += e.work[i]
		if j.computed == j.prompt {
			if j.generated++; j.generated == 1 {
				j.first = e.now
				e.ttfts = append(e.ttfts, j.ttft())
			}
			e.held++
		}
		if j.generated < j.output {
			left = append(left, j)
			continue
		}
		e.held -= j.computed + j.generated
		if j.ended != nil {
			close(j.ended)
		}
	}
	clear(e.running[len(left):])
	if e.running = left; len(left) == 0 {
		e.show()
	}
}

// citizenDriver puts a load on an engine whose time is that of the bubble of the test.
type citizenDriver struct {
	*engine
	begin time.Time // of the day
	mu    sync.Mutex
	rng   *rand.Rand
	usual time.Duration
	wake  chan struct{}
	ours  []*job
}

func (d *citizenDriver) elapsed() time.Duration { return time.Since(d.begin) }

// serve runs the engine in the time of the bubble until ctx ends.
func (d *citizenDriver) serve(ctx context.Context) {
	for ctx.Err() == nil {
		d.mu.Lock()
		d.advance(d.elapsed())
		next := d.now + d.step
		if d.step == 0 {
			if next = d.now + time.Hour; d.next < len(d.users) {
				next = d.users[d.next].arrived
			}
		}
		d.mu.Unlock()
		t := time.NewTimer(max(next-d.elapsed(), 1))
		select {
		case <-t.C:
		case <-d.wake:
		case <-ctx.Done():
		}
		t.Stop()
	}
}

func (d *citizenDriver) Ask(ctx context.Context, _ int, _ time.Time, _ *config.TracedRequest) *result.Result {
	sent := time.Now()
	r := &result.Result{Sent: sent, Outcome: result.Canceled}
	r.Timing.TTFT, r.Timing.TPOT = result.Absent, result.Absent
	if !sleep(ctx, networkDelay) {
		return r
	}
	d.mu.Lock()
	j := &job{arrived: d.elapsed(), admitted: -1, first: -1, prompt: 200 + d.rng.IntN(400), output: 50 + d.rng.IntN(100), ours: true, ended: make(chan struct{})}
	d.advance(d.elapsed())
	d.waiting = append(d.waiting, j)
	d.ours = append(d.ours, j)
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
	select {
	case <-j.ended:
	case <-ctx.Done():
		d.mu.Lock()
		defer d.mu.Unlock()
		j.canceled, j.ended = true, nil
		return r
	}
	generated := d.elapsed() - j.first
	sleep(ctx, networkDelay)
	r.Outcome = result.Success
	r.Tokens = result.Tokens{Prompt: j.prompt, Output: j.output}
	r.Timing.TTFT = j.ttft() + 2*networkDelay
	r.Timing.TPOT = generated / time.Duration(j.output-1)
	return r
}

func (d *citizenDriver) Pressure(ctx context.Context) (Pressure, error) {
	d.mu.Lock()
	there, back := time.Duration(d.rng.Float64()*float64(metricsDelay)), time.Duration(d.rng.Float64()*float64(metricsDelay))
	d.mu.Unlock()
	if !sleep(ctx, there) {
		return Pressure{}, ctx.Err()
	}
	d.mu.Lock()
	d.advance(d.elapsed())
	p := d.page
	p.UsualP99, p.TTFTCount = d.usual, float64(len(d.ttfts))
	for _, t := range d.ttfts {
		if t > d.usual {
			p.TTFTLate++
		}
	}
	d.mu.Unlock()
	sleep(ctx, back)
	return p, nil
}

func (d *citizenDriver) Afford(*config.TracedRequest) bool { return true }

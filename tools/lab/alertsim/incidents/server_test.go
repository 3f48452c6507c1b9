package incidents

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/fleet"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// The latencies of a healthy endpoint spread log-normally around these medians.
const (
	usualTTFT  = 300 * time.Millisecond
	usualTPOT  = 25 * time.Millisecond
	usualSigma = 0.25
)

// usualWrong is the share of questions that a healthy endpoint answers wrong.
const usualWrong = 0.05

// slots is how many requests a server works on at once; the others wait.
const slots = 16

// fault is what is wrong with an endpoint. Its zero value is a healthy one.
type fault struct {
	outcome    result.Outcome // of the probes that fail; "" is none
	share      float64        // of the probes that fail; 0 is all
	after      time.Duration  // from the request to the failure
	tokens     bool           // they fail after their first tokens
	retryAfter time.Duration  // what they are asked to wait
	ttft, tpot float64        // factors; 0 is 1
	wrong      float64        // share of questions that are answered wrong
	model      string         // that answers instead
	imprecise  float64        // share of probes that the exporter cannot vouch for
	lost       int            // servers that do not answer
	hangs      bool           // requests run and no token is generated
	waiting    float64        // requests in the queue of each server
	kvCache    float64        // share in use
	preempted  float64        // requests a second

	// When it is so after the onset of the incident: from a time on, for a time (0 is to the end), and
	// in turns with times of the same length in which all is well (0 is no turns).
	from, lasts, turn time.Duration
}

// shows reports whether the fault is there so long after the onset.
func (f *fault) shows(after time.Duration) bool {
	after -= f.from
	return after >= 0 && (f.lasts == 0 || after < f.lasts) && (f.turn == 0 || after/f.turn%2 == 0)
}

// server is an endpoint with the servers behind it.
type server struct {
	name     string
	replicas int
	fault    func() fault // now

	mu      sync.Mutex
	random  *rand.Rand
	bursts  int // requests of our own bursts in flight
	at      time.Time
	done    float64 // requests, by at
	dropped float64 // preemptions, by at
	moved   time.Time
	failed  map[page.Reason]uint64
}

// network is the fleet's view of the servers, by the name of their endpoint.
type network map[string]*server

// Runners implements fleet.Network.
func (n network) Runners(e *config.Endpoint) (func(*config.Module) (fleet.Runner, error), error) {
	s := n[e.Name]
	return func(m *config.Module) (fleet.Runner, error) { return runner{s, e, m}, nil }, nil
}

// Reader implements fleet.Network.
func (n network) Reader(e *config.Endpoint, _ *page.Mappings) (fleet.Reader, error) {
	return reader{n[e.Name]}, nil
}

// runner asks a simulated endpoint.
type runner struct {
	*server
	endpoint *config.Endpoint
	module   *config.Module
}

// Close implements fleet.Runner.
func (runner) Close() {}

// Run implements fleet.Runner.
func (r runner) Run(ctx context.Context, due time.Time) ([]*result.Result, *result.Skip) {
	if len(r.module.Concurrency) == 0 {
		return []*result.Result{r.ask(ctx, due, 0)}, nil
	}
	var all []*result.Result
	for _, n := range r.module.Concurrency {
		r.load(n)
		for range n {
			all = append(all, r.answer(due, n, r.fault()))
			due = time.Time{} // nobody scheduled the later ones
		}
		// As long as the slowest of them, with a queue where there are not enough slots.
		rounds := math.Ceil(float64(n) / slots / float64(r.replicas))
		wait(ctx, time.Duration(rounds*float64(all[len(all)-1].Timing.Duration)))
		r.load(-n)
	}
	return all, nil
}

func (s *server) load(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bursts += n
}

// wait reports whether the time passed before ctx ended.
func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// ask makes one request.
func (r runner) ask(ctx context.Context, due time.Time, concurrency int) *result.Result {
	res := r.answer(due, concurrency, r.fault())
	if !wait(ctx, res.Timing.Duration) {
		canceled := *res
		canceled.Outcome, canceled.Err = result.Canceled, context.Cause(ctx)
		return &canceled
	}
	return res
}

// answer returns the result of a request that is made now, as the prober would when
// it has ended.
func (r runner) answer(due time.Time, concurrency int, f fault) *result.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	res := &result.Result{
		Scheduled: due, StartLag: result.Absent, Start: now, Sent: now,
		API: "openai-chat", Kind: api.Generation, Engine: "vllm", Model: r.endpoint.Model,
		Prefix: string(r.module.Prefix), Concurrency: concurrency, Clock: result.ClockKernel,
		Tokens:     result.Tokens{Prompt: api.Unknown, Cached: api.Unknown, Output: api.Unknown, Reasoning: api.Unknown},
		Server:     api.ServerTimes{Queue: result.Absent, Prefill: result.Absent, Decode: result.Absent},
		RateLimit:  api.RateLimit{Requests: api.Unknown, Tokens: api.Unknown},
		RetryAfter: result.Absent,
		Timing:     result.Timing{TTFT: result.Absent, TTFO: result.Absent, TPOT: result.Absent, MaxGap: result.Absent},
	}
	if !due.IsZero() {
		res.StartLag = now.Sub(due)
	}
	if res.Model == "" {
		res.Model = "llama"
		if f.model != "" {
			res.Model = f.model
		}
	}
	ttft, tpot := r.latency(usualTTFT, f.ttft), r.latency(usualTPOT, f.tpot)
	if f.outcome != "" && (f.share == 0 || r.random.Float64() < f.share) {
		r.fail(res, f, ttft)
		return res
	}
	const tokens = 64
	res.Outcome, res.Status, res.Finish = result.Success, 200, "stop"
	res.Timing.TTFT, res.Timing.TTFO, res.Timing.TPOT = ttft, ttft, tpot
	res.Timing.MaxGap, res.Timing.Duration = 2*tpot, ttft+(tokens-1)*tpot
	res.Tokens.Prompt, res.Tokens.Output, res.Tokens.Source = 256, tokens, result.TokensFromUsage
	res.Events = []result.Event{{At: ttft, ReadLag: 20 * time.Microsecond, Tokens: 1}}
	res.Imprecise = r.random.Float64() < f.imprecise
	r.check(res, f)
	return res
}

// latency draws a time around a median that grew by a factor.
func (s *server) latency(median time.Duration, factor float64) time.Duration {
	if factor == 0 {
		factor = 1
	}
	return time.Duration(float64(median) * factor * math.Exp(usualSigma*s.random.NormFloat64()))
}

// fail makes a failure of a result.
func (r runner) fail(res *result.Result, f fault, ttft time.Duration) {
	res.Outcome, res.RetryAfter = f.outcome, result.Absent
	res.Err = fmt.Errorf("simulated: %w", errors.New(f.outcome.Description()))
	res.Timing.Duration = f.after
	switch f.outcome {
	case result.Unauthorized:
		res.Status = 401
	case result.RateLimited:
		res.Status, res.RetryAfter = 429, f.retryAfter
	case result.HTTPError:
		res.Status = 500
	}
	if f.tokens {
		res.Status, res.Timing.TTFT, res.Timing.TTFO = 200, ttft, ttft
		res.Timing.Duration += ttft
		res.Events = []result.Event{{At: ttft, ReadLag: 20 * time.Microsecond, Tokens: 1}}
	}
}

// check judges the answer to a question.
func (r runner) check(res *result.Result, f fault) {
	res.Answer.Model = res.Model
	if f.model != "" {
		res.Answer.Model = f.model
	}
	if !r.module.Questions {
		return
	}
	share := usualWrong
	if f.wrong > 0 {
		share = f.wrong
	}
	res.Answer.Verdict = result.VerdictCorrect
	if r.random.Float64() < share {
		res.Answer.Verdict = result.VerdictWrong
	}
}

// reader reads the pages of simulated servers.
type reader struct{ *server }

// Close implements fleet.Reader.
func (reader) Close() {}

// The load of the users of one server.
const (
	requestsPerSecond = 2.0
	tokensPerRequest  = 100.0
	usualRunning      = 5.0
	usualKVCache      = 0.4
)

// Scrape implements fleet.Reader.
func (r reader) Scrape(context.Context, page.Known) []page.Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.fault()
	r.advance(f)
	statuses := make([]page.Status, r.replicas)
	for i := range statuses {
		st := &statuses[i]
		*st = page.Status{
			Server: fmt.Sprintf("%s-%d:8000", r.name, i), URL: fmt.Sprintf("http://%s-%d:8000/metrics", r.name, i),
			At: time.Now(), Duration: 5 * time.Millisecond, State: page.Up, LastProgress: r.moved,
		}
		if i < f.lost {
			r.failed[page.ReasonConnect]++
			st.State, st.Reason, st.Err = page.Down, page.ReasonConnect, errors.New("simulated: connection refused")
		} else {
			st.Snapshot = r.snapshot(f)
		}
		st.Failures = map[page.Reason]uint64{page.ReasonConnect: r.failed[page.ReasonConnect]}
	}
	return statuses
}

// advance counts what the servers did since the last reading.
func (s *server) advance(f fault) {
	now := time.Now()
	if s.at.IsZero() {
		s.at = now
	}
	passed := now.Sub(s.at).Seconds()
	s.at = now
	if !f.hangs {
		s.done += requestsPerSecond * passed
		s.moved = now
	}
	s.dropped += f.preempted * passed
}

func (s *server) snapshot(f fault) *page.Snapshot {
	running, waiting, used := usualRunning+float64(s.bursts)/float64(s.replicas), f.waiting, usualKVCache
	if running > slots {
		waiting, running = waiting+running-slots, slots
	}
	if f.waiting > 0 || f.hangs {
		running = slots
	}
	if f.kvCache > 0 {
		used = f.kvCache - 0.25*s.random.Float64()*s.random.Float64() // preemption frees some
	}
	return &page.Snapshot{
		Engine: "vllm", At: time.Now(), LastProgress: s.moved, PrefixCacheRatio: -1,
		Values: map[config.Quantity]float64{
			config.RequestsRunning: running, config.RequestsWaiting: waiting, config.KVCacheUsage: used,
			config.PromptTokens: 4 * tokensPerRequest * s.done, config.GenerationTokens: tokensPerRequest * s.done,
			config.Preemptions: s.dropped,
		},
		Requests: map[string]float64{"stop": s.done},
	}
}

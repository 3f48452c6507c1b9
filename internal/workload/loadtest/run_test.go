package loadtest

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/model"
	"go.uber.org/goleak"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// queue is a server that does so many requests at a time, each in the same time, first come first served.
type queue struct {
	servers chan struct{}
	service time.Duration

	mu     sync.Mutex
	inside int
	asked  []time.Duration // when, from the start
	inputs []int           // tokens of those with lengths
	users  map[int]bool
	first  []time.Duration // TTFT of all that got their first token
	start  time.Time
	change func(n int, r *result.Result) // of the n-th answer, from 0
	page   func(p *Pressure) error
	afford int
}

func newQueue(servers int, service time.Duration) *queue {
	return &queue{servers: make(chan struct{}, servers), service: service, start: time.Now(), users: make(map[int]bool), afford: 1e9}
}

func (q *queue) Ask(ctx context.Context, user int, planned time.Time, lengths *config.TracedRequest) *result.Result {
	sent := time.Now()
	if !planned.IsZero() {
		sent = planned
	}
	q.mu.Lock()
	n := len(q.asked)
	q.asked = append(q.asked, sent.Sub(q.start))
	q.users[user] = true
	if lengths != nil {
		q.inputs = append(q.inputs, lengths.Input)
	}
	q.inside++
	q.mu.Unlock()
	defer func() {
		q.mu.Lock()
		q.inside--
		q.mu.Unlock()
	}()
	r := &result.Result{Sent: sent, Outcome: result.Canceled, Tokens: result.Tokens{Prompt: 100, Output: 10}}
	r.Timing.TTFT, r.Timing.TPOT = result.Absent, result.Absent
	select {
	case q.servers <- struct{}{}:
		defer func() { <-q.servers }()
	case <-ctx.Done():
		return r
	}
	r.Timing.TTFT = time.Since(sent)
	q.mu.Lock()
	q.first = append(q.first, r.Timing.TTFT)
	q.mu.Unlock()
	if sleep(ctx, q.service) {
		r.Outcome, r.Timing.TPOT = result.Success, q.service/10
	}
	if q.change != nil {
		q.change(n, r)
	}
	return r
}

func (q *queue) Pressure(context.Context) (Pressure, error) {
	q.mu.Lock()
	p := Pressure{Running: float64(len(q.servers)), KVUsage: -1, TTFTCount: -1, TTFTLate: -1}
	p.Waiting = float64(q.inside) - p.Running
	q.mu.Unlock()
	if q.page == nil {
		return p, nil
	}
	err := q.page(&p)
	return p, err
}

func (q *queue) Afford(*config.TracedRequest) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.afford--
	return q.afford >= 0
}

func planOf(l *config.LoadTest) Plan {
	if l.Duration == 0 {
		l.Duration = model.Duration(time.Minute)
	}
	l.MaxErrorRatio = 0.05
	return Plan{Load: l, HasPage: true}
}

// With 4 servers and 990 ms of service, 2 users have their answers in that time, and 8 wait as long each time.
func TestClosedLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(4, 990*time.Millisecond)
		var seen []Progress
		r := Run(t.Context(), planOf(&config.LoadTest{Users: []int{2, 8}}), q, func(p Progress) { seen = append(seen, p) })
		if r.End != Completed || r.Text != "" || len(r.Levels) != 2 || len(q.users) != 8 {
			t.Fatalf("ended %s %q with %d levels and %d users", r.End, r.Text, len(r.Levels), len(q.users))
		}
		// The first user sends at 0, 0.99 s ... 59.4 s, the second from the middle of the rise on, 3 s: the last
		// of its 58 requests ends at 60.42 s.
		two, eight := r.Levels[0], r.Levels[1]
		if two.Begin != 0 || two.Full != 6*time.Second || two.Stop != time.Minute || len(two.Samples) != 61+58 {
			t.Errorf("level of 2: %s, %s, %s, %d requests", two.Begin, two.Full, two.Stop, len(two.Samples))
		}
		if eight.Begin != 60420*time.Millisecond || eight.Stop != eight.Begin+time.Minute {
			t.Errorf("level of 8: %s, %s", eight.Begin, eight.Stop)
		}
		for _, s := range eight.Samples {
			if s.Sent > eight.Begin+8*time.Second && (s.TTFT < 500*time.Millisecond || s.Outcome != result.Success) {
				t.Errorf("sent at %s: %s, %s", s.Sent, s.Outcome, s.TTFT)
			}
		}
		if n := len(seen); n < 120 || n > 123 || seen[100].InFlight != 8 || seen[100].Level != 8 {
			t.Errorf("%d times progress, %+v", n, seen[100])
		}
	})
}

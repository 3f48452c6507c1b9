package prober

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// newUsers returns the users of an endpoint, who keep their connections.
func newUsers(t *testing.T, cfg *config.Endpoint, change func(m *config.Module)) *Users {
	t.Helper()
	m := newModule()
	m.Connection = config.ConnectionReuse
	if change != nil {
		change(m)
	}
	u, why, err := newProber(t, cfg, m).Users(t.Context())
	if why != nil || err != nil {
		t.Fatal(why, err)
	}
	t.Cleanup(u.Close)
	return u
}

// askAll has n users ask at the same time, so many times each in a row.
func (u *Users) askAll(ctx context.Context, n, times int) []*result.Result {
	results := make([]*result.Result, n*times)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			for j := range times {
				results[i*times+j] = u.Ask(ctx, i, time.Time{}, nil)
			}
		})
	}
	all.Wait()
	return results
}

// Many users are answered beside each other, and measured as the server did it. Each keeps its connection.
func TestUsers(t *testing.T) {
	s, url := startSimulator(t)
	cfg := newEndpoint(t, url)
	cfg.Model = "simulated-8b"
	const n, times = 16, 3
	u := newUsers(t, cfg, func(m *config.Module) { m.OutputTokens, m.KeepAnswer = config.Tokens(24), true })
	addresses := map[string]bool{}
	for i, r := range u.askAll(t.Context(), n, times) {
		if r.Outcome != result.Success {
			t.Fatalf("request %d: %s: %v", i, r.Outcome, r.Err)
		}
		checkConsistent(t, r)
		checkGeneration(t, s, r)
		if first := i%times == 0; r.Reused == first {
			t.Errorf("request %d of user %d: connection reused %t", i%times, i/times, r.Reused)
		}
		if r.Inspected || r.Answer.Text != "" || r.Scheduled != (time.Time{}) || r.StartLag != result.Absent {
			t.Errorf("request %d: inspected %t, answer %+v, scheduled %s", i, r.Inspected, r.Answer, r.Scheduled)
		}
		addresses[u.all[i/times].kept.LocalAddr().String()] = true
	}
	if len(addresses) != n {
		t.Errorf("%d connections for %d users", len(addresses), n)
	}
}

// The lengths are learnt from the answers to all users.
func TestUsersLearnLengths(t *testing.T) {
	_, url := startSimulator(t)
	cfg := newEndpoint(t, url)
	cfg.Model = "simulated-8b"
	u := newUsers(t, cfg, func(m *config.Module) { m.InputTokens, m.OutputTokens = config.Tokens(1000), config.Tokens(2) })
	for i := range 3 {
		u.Ask(t.Context(), i, time.Time{}, nil)
	}
	if got := u.Ask(t.Context(), 3, time.Time{}, nil).Tokens.Prompt; got < 950 || got > 1050 {
		t.Errorf("prompt of %d tokens, want 1000 within 5 %%", got)
	}
}

// lengthsSource has a question of any lengths, of a word for a token.
type lengthsSource struct{ workload.Source }

func (lengthsSource) NextOf(input, output, _ int) workload.Question {
	return workload.Question{Texts: []string{strings.Repeat("word ", input)}, Output: output, Wanted: input}
}

// A recorded request has its own lengths; one that the model has no room for is not sent.
func TestUsersAskWithLengths(t *testing.T) {
	_, url := startSimulator(t)
	cfg := newEndpoint(t, url)
	cfg.Model = "simulated-8b"
	u := newUsers(t, cfg, nil)
	u.served.prober.questions = lengthsSource{}
	r := u.Ask(t.Context(), 0, time.Time{}, &config.TracedRequest{Input: 40, Output: 3})
	if r.Outcome != result.Success || r.PromptBytes != 200 || r.Tokens.Output != 3 {
		t.Errorf("outcome %s, %d bytes, %+v", r.Outcome, r.PromptBytes, r.Tokens)
	}
	u.served.served.context = 2000
	r = u.Ask(t.Context(), 0, time.Time{}, &config.TracedRequest{Input: 4000, Output: 3})
	why, ok := errors.AsType[*result.Skip](r.Err)
	if !ok || why.Reason != result.SkipContext || r.Outcome == result.Success || !r.Sent.IsZero() {
		t.Errorf("outcome %s: %v, sent %s", r.Outcome, r.Err, r.Sent)
	}
}

// A request counts from when it was planned: how late it was sent is in TTFT, how long the connection took is not.
func TestUsersFromThePlan(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		const setup, late, answer = 100 * time.Millisecond, 300 * time.Millisecond, 50 * time.Millisecond
		cfg := secure(t, func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(answer)
			answerOne(w, nil)
		}, func(int64) error {
			time.Sleep(setup)
			return nil
		})
		u := newUsers(t, cfg, nil)
		for i, reused := range []bool{false, true} {
			planned := time.Now().Add(-late)
			r := u.Ask(testlab.Context(t), 0, planned, nil)
			if r.Outcome != result.Success || r.Reused != reused {
				t.Fatalf("request %d: %s: %v, reused %t", i, r.Outcome, r.Err, r.Reused)
			}
			checkConsistent(t, r)
			took := time.Since(planned)
			if r.Timing.TTFT < late+answer || r.Timing.TTFT > took {
				t.Errorf("request %d: TTFT %s, want from %s to %s", i, r.Timing.TTFT, late+answer, took)
			}
			if !reused && (r.Timing.TTFT > took-setup || r.Timing.Setup() < setup) {
				t.Errorf("request %d: TTFT %s of %s with a set-up of %s, which took %s", i, r.Timing.TTFT, took, r.Timing.Setup(), setup)
			}
			if sent := planned.Add(r.Timing.Setup()); !r.Scheduled.Equal(planned) || !r.Sent.Equal(sent) || r.StartLag < late {
				t.Errorf("request %d: scheduled %s, sent %s, lag %s; want %s, %s, %s", i, r.Scheduled, r.Sent, r.StartLag, planned, sent, late)
			}
		}
		planned := time.Now().Add(answer)
		r := u.Ask(testlab.Context(t), 0, planned, nil)
		if r.Outcome != result.Success || !r.Sent.Equal(planned.Add(r.Timing.Setup())) || r.Timing.TTFT < answer {
			t.Errorf("planned for later: %s, sent %s after the plan, TTFT %s", r.Outcome, r.Sent.Sub(planned), r.Timing.TTFT)
		}
	})
}

// hang answers nothing until the connection ends.
func hang(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // the end is seen only then
	<-r.Context().Done()
}

// A server that hangs, at any point, holds nothing up when the load ends.
func TestUsersEnd(t *testing.T) {
	const n = 8
	f := func(name string, planned, limit time.Duration, answer http.HandlerFunc) {
		t.Run(name, func(t *testing.T) {
			testlab.Virtual(t, func(t *testing.T) {
				there := make(chan struct{}, n)
				u := newUsers(t, newEndpoint(t, chat(t, func(w http.ResponseWriter, r *http.Request) {
					there <- struct{}{}
					answer(w, r)
				}).URL), nil)
				ctx, cancel := context.WithTimeout(testlab.Context(t), limit)
				defer cancel()
				var at time.Time
				if planned > 0 {
					at = time.Now().Add(planned)
				}
				var all sync.WaitGroup
				for i := range n {
					all.Go(func() {
						if r := u.Ask(ctx, i, at, nil); r.Outcome != result.Canceled {
							t.Errorf("outcome %s: %v", r.Outcome, r.Err)
						}
					})
				}
				if limit > time.Minute {
					for i := 0; i < n && planned == 0; i++ {
						<-there
					}
					cancel()
				}
				<-ctx.Done()
				ended := time.Now()
				all.Wait()
				if took := time.Since(ended); took > 500*time.Millisecond {
					t.Errorf("ended %s after the load did", took)
				}
			})
		})
	}
	midway := func(w http.ResponseWriter, r *http.Request) {
		events(w, one)
		hang(w, r)
	}
	f("before the reply", 0, time.Hour, hang)
	f("in the reply", 0, time.Hour, midway)
	f("before the plan", time.Hour, time.Hour, hang)
	f("by a deadline", 0, 100*time.Millisecond, midway)
}

// A connection that the server ended, or that a request was given up on, is replaced.
func TestUsersReplaceConnections(t *testing.T) {
	var asked atomic.Int64
	s := chat(t, func(w http.ResponseWriter, r *http.Request) {
		if asked.Add(1) == 3 {
			hang(w, r)
			return
		}
		w.Header().Set("Connection", "close")
		answerOne(w, r)
	})
	u := newUsers(t, newEndpoint(t, s.URL), nil)
	for i, want := range []result.Outcome{result.Success, result.Success, result.Canceled, result.Success} {
		ctx, cancel := context.WithCancel(t.Context())
		if want == result.Canceled {
			time.AfterFunc(50*time.Millisecond, cancel)
		}
		r := u.Ask(ctx, 0, time.Time{}, nil)
		cancel()
		if r.Outcome != want || r.Reused {
			t.Errorf("request %d: %s: %v, reused %t, want %s", i, r.Outcome, r.Err, r.Reused, want)
		}
	}
}

// A connection that the server closes as a request is on its way is replaced, and the question asked again; a server
// that takes the request and closes is at fault.
func TestUsersAskAgainWhereClosed(t *testing.T) {
	var asked atomic.Int64
	cut := func(after time.Duration) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if n := asked.Add(1); n == 2 || n > 3 {
				time.Sleep(after)
				panic(http.ErrAbortHandler)
			}
			answerOne(w, r)
		}
	}
	f := func(after time.Duration, requests int64, outcomes ...result.Outcome) {
		t.Helper()
		asked.Store(0)
		u := newUsers(t, newEndpoint(t, chat(t, cut(after)).URL), nil)
		for i, want := range outcomes {
			if r := u.Ask(t.Context(), 0, time.Time{}, nil); r.Outcome != want {
				t.Errorf("request %d: %s: %v, want %s", i, r.Outcome, r.Err, want)
			}
		}
		if n := asked.Load(); n != requests {
			t.Errorf("the server got %d requests, want %d", n, requests)
		}
	}
	f(0, 5, result.Success, result.Success, result.Truncated)
	f(closedWithin, 2, result.Success, result.Truncated)
}

// Requests of one user at the same time do not wait for each other, and do not share a connection.
func TestUserBesideItself(t *testing.T) {
	const n = 4
	var there sync.WaitGroup
	there.Add(n)
	u := newUsers(t, newEndpoint(t, chat(t, func(w http.ResponseWriter, r *http.Request) {
		there.Done()
		there.Wait()
		answerOne(w, r)
	}).URL), nil)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if r := u.Ask(t.Context(), 1+i*maxUsers, time.Time{}, nil); r.Outcome != result.Success {
				t.Errorf("%s: %v", r.Outcome, r.Err)
			}
		})
	}
	all.Wait()
}

// An endpoint that cannot be asked says why before there is any load.
func TestUsersOfWhatCannotBeAsked(t *testing.T) {
	f := func(models http.HandlerFunc, skip result.SkipReason, text string) {
		t.Helper()
		mux := http.NewServeMux()
		mux.HandleFunc("GET /v1/models", models)
		s := httptest.NewServer(mux)
		defer s.Close()
		cfg := newEndpoint(t, s.URL)
		cfg.Model = ""
		u, why, err := newFreshProber(t, cfg, newModule()).Users(t.Context())
		if u != nil || (why != nil) != (skip != "") || (err != nil) != (skip == "") {
			t.Fatalf("users %v, skip %v, error %v", u, why, err)
		}
		if why != nil {
			err = why
			if why.Reason != skip {
				t.Errorf("skip %s, want %s", why.Reason, skip)
			}
		}
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q, want one with %q", err, text)
		}
	}
	f(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such key", http.StatusUnauthorized) }, "", "401")
	f(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"a"},{"id":"b"}]}`)
	}, result.SkipModel, "set model")
}

package prober

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// fakeNet makes the connections of an endpoint in memory, so that a test's clock
// can be a fake one.
type fakeNet struct {
	refuse bool           // connections are never made
	serve  func(net.Conn) // one connection
	count  atomic.Int64   // connections
}

// use makes the endpoint dial there.
func (n *fakeNet) use(e *Endpoint) {
	e.transport = &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		if n.refuse { // also after the request has ended: see bubble
			time.Sleep(time.Minute)
			return nil, errors.New("refused")
		}
		ours, theirs := net.Pipe()
		n.count.Add(1)
		go func() {
			defer theirs.Close()
			n.serve(theirs)
		}()
		return ours, nil
	}}
}

// bubble runs f with a fake clock, and then lets what goes on in the background
// come to its end.
func bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t)
		time.Sleep(2 * time.Hour)
	})
}

// silent reads requests and never answers.
func silent(c net.Conn) { _, _ = io.Copy(io.Discard, c) }

// pages answers each request by its path.
func pages(answer func(path string) (status int, body string)) func(net.Conn) {
	return func(c net.Conn) {
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		status, body := answer(req.URL.Path)
		kind := "application/json"
		if strings.HasSuffix(req.URL.Path, "/chat/completions") {
			kind = "text/event-stream"
		}
		fmt.Fprintf(c, "HTTP/1.1 %d X\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", status, kind, len(body), body)
	}
}

// answered is a whole answer to a question in chat, by a model of that name.
func answered(name string) string {
	return fmt.Sprintf(`data: {"model":%q,"choices":[{"index":0,"delta":{"content":"one"}}]}`+"\n\n", name) +
		"data: " + stop + "\n\ndata: " + endMarker + "\n\n"
}

// newDefaultEndpoint returns an endpoint and a module as a URL alone makes them.
func newDefaultEndpoint(t *testing.T, n *fakeNet) (*Endpoint, *config.Module) {
	t.Helper()
	cfg, err := config.FromURLs([]string{"http://llm.example:8000"})
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEndpoint(cfg.Endpoints[0], Options{Dialer: &Dialer{capacity: newCapacity()}})
	if err != nil {
		t.Fatal(err)
	}
	n.use(e)
	return e, cfg.Modules[config.Interactive]
}

func newProberOf(t *testing.T, e *Endpoint, m *config.Module) *Prober {
	t.Helper()
	p, err := e.NewProber(m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// A server that does not answer fails the probe, by the limit that it exceeds,
// with all defaults and in whichever way it is configured.
func TestServerThatNeverAnswers(t *testing.T) {
	f := func(name string, n *fakeNet, apiName, modelName string, want result.Outcome) {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				e, m := newDefaultEndpoint(t, n)
				if e.cfg.API, e.cfg.Model = apiName, modelName; apiName != "" {
					own, err := NewEndpoint(e.cfg, Options{Dialer: &Dialer{capacity: newCapacity()}})
					if err != nil {
						t.Fatal(err)
					}
					n.use(own)
					e = own
				}
				p := newProberOf(t, e, m)
				for range 3 {
					began := time.Now()
					r := p.one(t.Context(), time.Time{})
					if r.Outcome != want {
						t.Errorf("outcome %s: %v; want %s", r.Outcome, r.Err, want)
					}
					if d, most := time.Since(began), time.Duration(m.Timeout); d > most {
						t.Errorf("it took %s, want at most %s", d, most)
					}
					time.Sleep(time.Until(began.Add(time.Duration(m.Interval))))
				}
			})
		})
	}
	for _, how := range []struct{ name, api, model string }{
		{"a URL alone", "", ""}, {"api", "openai-chat", ""}, {"api and model", "openai-chat", "m"},
	} {
		f("silent, "+how.name, &fakeNet{serve: silent}, how.api, how.model, result.TimeoutFirstToken)
		f("no connection, "+how.name, &fakeNet{refuse: true}, how.api, how.model, result.TimeoutConnect)
	}
	f("headers without an end", &fakeNet{serve: func(c net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(c))
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n")
		for _, err := c.Write([]byte("A: b\r\n")); err == nil; _, err = c.Write([]byte("A: b\r\n")) {
			time.Sleep(100 * time.Millisecond)
		}
	}}, "", "", result.TimeoutFirstToken)
	f("a list without an end", &fakeNet{serve: func(c net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(c))
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
		for _, err := c.Write([]byte(" ")); err == nil; _, err = c.Write([]byte(" ")) {
			time.Sleep(time.Second)
		}
	}}, "", "", result.TimeoutFirstToken)
}

// A list of models may take as long as a reply may take to begin.
func TestSlowListOfModels(t *testing.T) {
	bubble(t, func(t *testing.T) {
		e, m := newDefaultEndpoint(t, &fakeNet{serve: pages(func(path string) (int, string) {
			switch path {
			case "/v1/models":
				time.Sleep(7 * time.Second)
				return 200, `{"object":"list","data":[{"id":"m","owned_by":"vllm"}]}`
			case "/v1/chat/completions":
				return 200, answered("m")
			}
			time.Sleep(time.Hour) // a page that hangs, and that the probe can do without
			return 200, ""
		})})
		p := newProberOf(t, e, m)
		if r := p.one(t.Context(), time.Time{}); r.Outcome != result.Success || r.Model != "m" || r.Engine != "vllm" {
			t.Errorf("outcome %s (%v), model %q, engine %q", r.Outcome, r.Err, r.Model, r.Engine)
		}
	})
}

// With api and model set, questions that nobody answers neither fail the probe
// nor take of its time, and are asked at most once a minute.
func TestUnansweredQuestionsFailNoProbe(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var asked atomic.Int64
		n := &fakeNet{serve: pages(func(path string) (int, string) {
			if path == "/v1/models" {
				asked.Add(1)
				time.Sleep(time.Hour)
			}
			time.Sleep(9 * time.Second) // of the 10 that the probe has
			return 200, answered("m")
		})}
		cfg := newEndpoint(t, "http://llm.example:8000")
		e, err := NewEndpoint(cfg, Options{Dialer: &Dialer{capacity: newCapacity()}})
		if err != nil {
			t.Fatal(err)
		}
		n.use(e)
		m := newModule()
		m.Timeout = model.Duration(10 * time.Second)
		p := newProberOf(t, e, m)
		began := time.Now()
		for time.Since(began) < 5*time.Minute {
			if r := p.one(t.Context(), time.Time{}); r.Outcome != result.Success {
				t.Errorf("outcome %s: %v", r.Outcome, r.Err)
			}
		}
		if got := asked.Load(); got < 2 || got > 5 {
			t.Errorf("asked %d times in 5 minutes", got)
		}
	})
}

// With api and model set, the first probe is as all others: the engine and the
// room of the model are known to it.
func TestFirstProbeIsAsLaterOnes(t *testing.T) {
	var bodies []string
	var mu sync.Mutex
	bubble(t, func(t *testing.T) {
		n := &fakeNet{serve: func(c net.Conn) {
			req, err := http.ReadRequest(bufio.NewReader(c))
			if err != nil {
				return
			}
			body, _ := io.ReadAll(req.Body)
			answer := answered("m")
			if req.Method == http.MethodGet {
				answer = `{"object":"list","data":[{"id":"m","owned_by":"vllm","max_model_len":4096}]}`
			} else {
				mu.Lock()
				bodies = append(bodies, string(body))
				mu.Unlock()
			}
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
		}}
		cfg := newEndpoint(t, "http://llm.example:8000")
		e, err := NewEndpoint(cfg, Options{Dialer: &Dialer{capacity: newCapacity()}})
		if err != nil {
			t.Fatal(err)
		}
		n.use(e)
		p := newProberOf(t, e, newModule())
		for range 3 {
			if r := p.one(t.Context(), time.Time{}); r.Outcome != result.Success || r.Engine != "vllm" {
				t.Errorf("outcome %s (%v), engine %q", r.Outcome, r.Err, r.Engine)
			}
		}
		if got := e.ContextLength(); got != 4096 {
			t.Errorf("room for %d tokens, want 4096", got)
		}
	})
	for _, body := range bodies {
		if !strings.Contains(body, "ignore_eos") || !strings.Contains(body, "continuous_usage_stats") {
			t.Errorf("asked %s, want an exact length and running counts", body)
		}
	}
	if len(bodies) != 3 {
		t.Errorf("%d requests", len(bodies))
	}
}

// All who need an answer share one round of questions, its answer and its
// failure. Who is canceled leaves at once, and the others get their answer.
func TestQuestionsAreShared(t *testing.T) {
	const probers = 6
	run := func(t *testing.T, n *fakeNet, canceled bool, check func(took time.Duration, r *result.Result)) {
		bubble(t, func(t *testing.T) {
			e, m := newDefaultEndpoint(t, n)
			own := *m
			own.Timeout, own.Timeouts = model.Duration(2*time.Second), config.Timeouts{
				Connect: model.Duration(2 * time.Second), Headers: model.Duration(2 * time.Second),
				FirstToken: model.Duration(2 * time.Second), Stall: model.Duration(2 * time.Second),
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var all sync.WaitGroup
			began := time.Now()
			for i := range probers {
				p := newProberOf(t, e, &own)
				runCtx := t.Context()
				if canceled && i == 0 {
					runCtx = ctx
				}
				all.Go(func() {
					r := p.one(runCtx, time.Time{})
					if runCtx == ctx {
						if took := time.Since(began); r.Outcome != result.Canceled || took != time.Second {
							t.Errorf("outcome %s (%v) after %s, want %s after 1s", r.Outcome, r.Err, took, result.Canceled)
						}
						return
					}
					check(time.Since(began), r)
				})
				synctest.Wait() // the first one begins
			}
			time.Sleep(time.Second)
			cancel()
			all.Wait()
		})
	}
	silence := &fakeNet{serve: silent}
	run(t, silence, false, func(took time.Duration, r *result.Result) {
		if r.Outcome != result.TimeoutFirstToken || took != 2*time.Second {
			t.Errorf("outcome %s (%v) after %s, want %s after 2s", r.Outcome, r.Err, took, result.TimeoutFirstToken)
		}
	})
	if got := silence.count.Load(); got != 1 {
		t.Errorf("%d questions were asked, want 1", got)
	}
	slow := &fakeNet{serve: pages(func(path string) (int, string) {
		if path == "/v1/models" {
			time.Sleep(1500 * time.Millisecond)
			return 200, `{"data":[{"id":"m","owned_by":"sglang"}]}`
		}
		if path == "/v1/chat/completions" {
			return 200, answered("m")
		}
		return 404, ""
	})}
	run(t, slow, true, func(took time.Duration, r *result.Result) {
		if r.Outcome != result.Success || took != 1500*time.Millisecond {
			t.Errorf("outcome %s (%v) after %s", r.Outcome, r.Err, took)
		}
	})
}

// Only that a run was canceled makes it canceled: any other end is a limit.
func TestCanceledNeedsACause(t *testing.T) {
	reload := errors.New("reload")
	f := func(want result.Outcome, end func(context.Context) (context.Context, context.CancelFunc)) {
		for _, apiName := range []string{"", "openai-chat"} {
			bubble(t, func(t *testing.T) {
				e, m := newDefaultEndpoint(t, &fakeNet{serve: silent})
				if apiName != "" {
					cfg := newEndpoint(t, "http://llm.example:8000")
					own, err := NewEndpoint(cfg, Options{Dialer: &Dialer{capacity: newCapacity()}})
					if err != nil {
						t.Fatal(err)
					}
					(&fakeNet{serve: silent}).use(own)
					e = own
				}
				ctx, cancel := end(t.Context())
				defer cancel()
				if r := newProberOf(t, e, m).one(ctx, time.Time{}); r.Outcome != want {
					t.Errorf("outcome %s: %v; want %s", r.Outcome, r.Err, want)
				}
			})
		}
	}
	f(result.Canceled, func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(time.Second, cancel)
		return ctx, cancel
	})
	f(result.Canceled, func(ctx context.Context) (context.Context, context.CancelFunc) {
		ctx, cancel := context.WithCancelCause(ctx)
		time.AfterFunc(time.Second, func() { cancel(reload) })
		return ctx, func() { cancel(nil) }
	})
	f(result.TimeoutTotal, func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, time.Second)
	})
	f(result.TimeoutTotal, func(ctx context.Context) (context.Context, context.CancelFunc) {
		return context.WithTimeoutCause(ctx, time.Second, errors.New("the limit of the scraper"))
	})
}

// A server that serves another model since a restart, and answers whatever is
// asked for, is labelled by its list again. The name that a configuration sets
// stays, and so does one that the list still has: some replies name a version.
func TestReplyNamesAnotherModel(t *testing.T) {
	f := func(name, configured, listed, named string, runs int, want []string, wantAsked int64) {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var asked atomic.Int64
				var nth atomic.Int64
				n := &fakeNet{serve: pages(func(path string) (int, string) {
					switch path {
					case "/v1/models":
						id := "old"
						if asked.Add(1) > 1 {
							id = listed
						}
						return 200, fmt.Sprintf(`{"object":"list","data":[{"id":%q,"owned_by":"vllm"}]}`, id)
					case "/v1/chat/completions":
						return 200, answered(strings.ReplaceAll(named, "#", fmt.Sprint(nth.Add(1))))
					}
					return 404, ""
				})}
				e, m := newDefaultEndpoint(t, n)
				if configured != "" {
					e.cfg.Model = configured
				}
				p := newProberOf(t, e, m)
				var got []string
				for range runs {
					got = append(got, p.one(t.Context(), time.Time{}).Model)
					time.Sleep(10 * time.Second)
				}
				if fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("models %q, want %q", got, want)
				}
				if asked.Load() != wantAsked {
					t.Errorf("the list was asked for %d times, want %d", asked.Load(), wantAsked)
				}
			})
		})
	}
	f("restarted", "", "new", "new", 4, []string{"old", "new", "new", "new"}, 2)
	f("the same", "", "old", "old", 4, []string{"old", "old", "old", "old"}, 1)
	f("a version of it", "", "old", "old-2026-01-01", 12, strings.Split(strings.Repeat("old ", 12), " ")[:12], 2)
	f("configured", "mine", "new", "new", 4, []string{"mine", "mine", "mine", "mine"}, 1)
	// Six runs a minute: the list is asked for at once, and then once a minute.
	f("another name in each reply", "", "old", "old-#", 18, strings.Split(strings.Repeat("old ", 18), " ")[:18], 4)
}

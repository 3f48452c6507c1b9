package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	promconfig "github.com/prometheus/common/config"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

func observe(e *Spans, n int) {
	for range n {
		e.Observe(Target{URL: new(url.URL)}, newResult())
	}
}

func TestBatchGoesOutAfterTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newSpanReceiver(t)
		e, _ := spansTo(t, v, nil)
		stop := startSpans(t, e)
		defer stop()
		observe(e, 3)
		time.Sleep(batchInterval - 1)
		synctest.Wait()
		if n := v.requests(); n != 0 {
			t.Errorf("%d requests before the interval was over", n)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if n, spans := v.requests(), v.spans(); n != 1 || len(spans) != 3 {
			t.Errorf("%d requests with %d spans, want 1 with 3", n, len(spans))
		}
		time.Sleep(10 * batchInterval)
		synctest.Wait()
		if n := v.requests(); n != 1 {
			t.Errorf("%d requests, want none without a span", n-1)
		}
	})
}

func TestFullBatchGoesOutAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newSpanReceiver(t)
		e, _ := spansTo(t, v, nil)
		stop := startSpans(t, e)
		observe(e, batchSize+1)
		synctest.Wait() // no time passes
		if n, spans := v.requests(), v.spans(); n != 1 || len(spans) != batchSize {
			t.Errorf("%d requests with %d spans, want 1 with %d", n, len(spans), batchSize)
		}
		stop()
		if n := len(v.spans()); n != batchSize+1 {
			t.Errorf("%d spans at the end, want %d", n, batchSize+1)
		}
	})
}

func TestQueueOverflow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newSpanReceiver(t)
		e, _ := spansTo(t, v, nil)
		observe(e, queueSize+10) // nobody takes them, and nobody waits
		if n := e.dropped.Load(); n != 10 {
			t.Errorf("%d dropped, want 10", n)
		}
		startSpans(t, e)()
		if n := len(v.spans()); n != queueSize || e.dropped.Load() != 10 {
			t.Errorf("%d spans sent and %d dropped, want %d and 10", n, e.dropped.Load(), queueSize)
		}
	})
}

func TestReceiverDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newSpanReceiver(t)
		e, text := spansTo(t, v, nil)
		stop := startSpans(t, e)
		defer stop()
		round := func() {
			observe(e, 2)
			time.Sleep(batchInterval)
			synctest.Wait()
		}
		v.set(func(v *spanReceiver) { v.down = true })
		round()
		round()
		round()
		if got := text.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "level=WARN") || !strings.Contains(got, "refused") {
			t.Errorf("log after three lost batches:\n%s\nwant one warning with the reason", got)
		}
		if n := e.dropped.Load(); n != 6 {
			t.Errorf("%d dropped, want 6", n)
		}
		v.set(func(v *spanReceiver) { v.down = false })
		round()
		round()
		if got := text.String(); strings.Count(got, "\n") != 2 || !strings.Contains(got, "level=INFO") {
			t.Errorf("log after the recovery:\n%s\nwant one more line", got)
		}
		if n := len(v.spans()); n != 4 {
			t.Errorf("%d spans received, want 4", n)
		}
		v.respond(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
		round()
		if got := text.String(); strings.Count(got, "\n") != 3 || !strings.Contains(got, "503 Service Unavailable") {
			t.Errorf("log after a status 503:\n%s\nwant one more line", got)
		}
	})
}

// hang answers nothing until the client has gone.
func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func TestEndIsNotHeldUpByTheReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newSpanReceiver(t)
		e, _ := spansTo(t, v, nil)
		v.respond(hang)
		stop := startSpans(t, e)
		observe(e, 3*batchSize)
		synctest.Wait()
		before := time.Now()
		stop()
		if d := time.Since(before); d != flushTimeout {
			t.Errorf("ended after %s, want %s", d, flushTimeout)
		}
		if n := e.dropped.Load(); n != 3*batchSize {
			t.Errorf("%d dropped, want %d", n, 3*batchSize)
		}
	})
}

func TestSlowReceiverTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newSpanReceiver(t)
		e, text := spansTo(t, v, nil)
		v.respond(hang)
		stop := startSpans(t, e)
		defer stop()
		observe(e, batchSize)
		time.Sleep(exportTimeout - 1)
		synctest.Wait()
		if n := e.dropped.Load(); n != 0 {
			t.Errorf("%d dropped before the time-out", n)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if n := e.dropped.Load(); n != batchSize || strings.Count(text.String(), "\n") != 1 {
			t.Errorf("%d dropped, log:\n%s", n, text)
		}
	})
}

// A request that is under way when the program ends gets its answer.
func TestRequestInFlightAtTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newSpanReceiver(t)
		e, text := spansTo(t, v, nil)
		v.respond(func(http.ResponseWriter, *http.Request) { time.Sleep(flushTimeout / 2) })
		stop := startSpans(t, e)
		observe(e, batchSize)
		synctest.Wait() // it waits for its answer
		stop()
		if e.dropped.Load() != 0 || text.String() != "" {
			t.Errorf("%d dropped, log:\n%s", e.dropped.Load(), text)
		}
	})
}

// observeOne sends one span to a receiver that answers it so, to the end of the
// exporter, and returns the receiver and the log.
func observeOne(t *testing.T, headers map[string]promconfig.Secret, answer http.HandlerFunc) (*spanReceiver, string) {
	t.Helper()
	v := newSpanReceiver(t)
	e, text := spansTo(t, v, headers)
	v.respond(answer)
	observe(e, 1)
	startSpans(t, e)()
	return v, text.String()
}

const secret = "hunter2-hunter2"

func secretHeaders() map[string]promconfig.Secret {
	return map[string]promconfig.Secret{"Authorization": "Bearer " + secret, "X-Key": secret}
}

func TestHeadersAreSentAndNeverLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, got := observeOne(t, secretHeaders(), func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, "bad key in %v\n%s", r.Header, strings.Repeat("x", 1<<20))
		})
		if got := v.headers[0].Get("Authorization"); got != "Bearer "+secret {
			t.Errorf("Authorization %q", got)
		}
		if v.paths[0] != "POST /v1/traces" {
			t.Errorf("sent to %s", v.paths[0])
		}
		if strings.Contains(got, secret) || len(got) > 4096 || strings.Count(got, "\n") != 1 {
			t.Errorf("log of %d bytes: %.2048s", len(got), got)
		}
	})
}

func TestLogOfAReceiverThatQuotesTheHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, got := observeOne(t, secretHeaders(), func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, "no such key: "+secret)
		})
		if strings.Contains(got, secret) || !strings.Contains(got, "no such key: <secret>") {
			t.Errorf("log: %s", got)
		}
	})
}

func TestRedirectIsNotFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, text := observeOne(t, nil, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://elsewhere.example/", http.StatusTemporaryRedirect)
		})
		if n := v.requests(); n != 1 || !strings.Contains(text, "307") {
			t.Errorf("%d requests, want 1; log: %s", n, text)
		}
	})
}

func TestSignalURL(t *testing.T) {
	f := func(endpoint, want string) {
		t.Helper()
		if got := newReceiver(config.URL{URL: urlOf(t, endpoint)}, "/v1/traces", nil).target; got != want {
			t.Errorf("%s: %q, want %q", endpoint, got, want)
		}
	}
	f("http://host:4318", "http://host:4318/v1/traces")
	f("http://host:4318/", "http://host:4318/v1/traces")
	f("https://host/otlp", "https://host/otlp/v1/traces")
	f("https://host/otlp/v1/traces", "https://host/otlp/v1/traces")
}

// What the receivers before did not take stays counted, when they are replaced and
// when the export ends and begins again: the counter never falls.
func TestDroppedSpansSurviveReloads(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close() // nobody listens there
	spans := NewSpans("", slog.New(slog.DiscardHandler))
	stop := startSpans(t, spans)
	for _, path := range []string{"", "/a", "/b", "", "/a"} {
		settings := config.Tracing{}
		if path != "" {
			settings.OTLPEndpoint.URL = urlOf(t, "http://"+l.Addr().String()+path)
		}
		before, _ := spans.Dropped()
		spans.Use(settings)
		if after, exporting := spans.Dropped(); after < before || exporting != (path != "") {
			t.Errorf("%q: %d dropped after %d, exporting %t", path, after, before, exporting)
		}
		observe(spans, 3)
	}
	stop()
	if n, exporting := spans.Dropped(); n != 9 || !exporting {
		t.Errorf("%d dropped, exporting %t, want the 3 of each of three receivers", n, exporting)
	}
}

// newResult returns a success whose figures are easy to add up.
func newResult() *result.Result {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	r := &result.Result{
		Start: time.Unix(1_700_000_000, 0), Outcome: result.Success, Status: 200,
		API: "openai-chat", Kind: api.Generation, Engine: "vllm", Model: "llama", Prefix: "cold",
		TraceID: [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16},
		Clock:   result.ClockKernel,
		Timing: result.Timing{
			TTFT: ms(60), TTFO: ms(80), TPOT: ms(20), MaxGap: ms(30), Duration: ms(130),
			Phases: [result.NumPhases]time.Duration{ms(1), ms(2), result.Absent, ms(3), ms(40), ms(17), ms(60), ms(7)},
		},
		Events: []result.Event{
			{At: ms(63), Tokens: 1, Reasoning: true}, {At: ms(83), Tokens: 1}, {At: ms(93), Tokens: 1, Merged: true}, {At: ms(123), Tokens: 1},
		},
		Tokens: result.Tokens{Prompt: 100, Cached: 16, Output: 4, Reasoning: 1, Source: result.TokensFromUsage},
		Finish: "stop",
		Server: api.ServerTimes{Queue: ms(5), Prefill: result.Absent, Decode: result.Absent},
	}
	return r
}

// failedResult is a stall in mid-answer.
func failedResult() *result.Result {
	r := newResult()
	r.Outcome, r.Err = result.TimeoutStall, errors.New("no token for 1s in mid-answer")
	r.Finish, r.Tokens.Source, r.Tokens.Output = "", result.TokensFromEvents, 4
	r.Tokens.Prompt, r.Tokens.Cached, r.Tokens.Reasoning = api.Unknown, api.Unknown, api.Unknown
	return r
}

// canceledResult is a probe that we ended before it was answered.
func canceledResult() *result.Result {
	r := failedResult()
	r.Outcome, r.Err = result.Canceled, context.Canceled
	r.Status, r.Events = 0, nil
	r.Timing = result.Timing{TTFT: -1, TTFO: -1, TPOT: -1, MaxGap: -1, Duration: -1}
	for i := range r.Timing.Phases {
		r.Timing.Phases[i] = result.Absent
	}
	return r
}

// What is no reply of a receiver that took all spans counts as lost spans, is logged once,
// and does not end the export.
func TestRepliesThatAreNoSuccess(t *testing.T) {
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, _ = z.Write(make([]byte, 16<<20))
	z.Close()
	as := func(contentType string, body []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = w.Write(body)
		}
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		lost   uint64
		says   string
	}{
		"none":            {as("application/x-protobuf", nil), 0, ""},
		"rejected":        {as("application/x-protobuf", partialSuccess(1, "span too old")), 1, "rejects 1: span too old"},
		"rejected, JSON":  {as("application/json", []byte(`{"partialSuccess": {"rejectedSpans": "1", "errorMessage": "span too old"}}`)), 1, "rejects 1: span too old"},
		"unexpected form": {as("text/plain", []byte("ok")), 0, ""},
		"no message":      {as("application/x-protobuf", []byte("ok")), 2, "not an OTLP reply"},
		"too long":        {as("application/x-protobuf", make([]byte, maxReply+1)), 2, "too large"},
		"gzip bomb": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(bomb.Bytes())
		}, 2, "content encoding"},
		"other protocol": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			_, _ = io.Copy(io.Discard, conn) // until the client has gone
			conn.Close()
		}, 2, "101 Switching Protocols"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked++
				c.answer(w, r)
			}))
			defer server.Close()
			e, text := newSpans(t, server.URL, nil)
			for range 2 {
				observe(e, 2)
				e.flush(t.Context(), new(batch))
			}
			if n := e.dropped.Load(); n != 2*c.lost || asked != 2 {
				t.Errorf("%d spans lost in %d requests, want %d in 2", n, asked, 2*c.lost)
			}
			if got := text.String(); !strings.Contains(got, c.says) || strings.Count(got, "\n") > 1 {
				t.Errorf("log %s, want once %q", got, c.says)
			}
		})
	}
}

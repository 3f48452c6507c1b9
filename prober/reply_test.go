package prober

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// answerAt is an endpoint of an API whose server sends a body, of the type that the
// API wants.
func answerAt(t *testing.T, apiName, body string) *Prober {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", r.Header.Get("Accept"))
		io.WriteString(w, body)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	cfg := newEndpoint(t, s.URL)
	cfg.API = apiName
	return newProber(t, cfg, newModule())
}

// sse puts data into events.
func sse(data ...string) string {
	body := ""
	for _, d := range data {
		body += "data: " + d + "\n\n"
	}
	return body
}

// A front end closes the stream of a server that died as cleanly as any other:
// without a finish reason an answer is whole only where the server itself says so.
func TestNoFinishReason(t *testing.T) {
	f := func(name, apiName, body string, want result.Outcome, wantFlag bool) {
		t.Helper()
		r := answerAt(t, apiName, body).one(t.Context(), time.Time{})
		if flag := r.NoFinish && r.Outcome == result.Success; r.Outcome != want || flag != wantFlag {
			t.Errorf("%s: outcome %s (%v), no finish reason %t; want %s, %t", name, r.Outcome, r.Err, flag, want, wantFlag)
		}
	}
	const (
		text         = `{"choices":[{"index":0,"text":"one"}]}`
		textUsage    = `{"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":1}}`
		counting     = `{"choices":[{"index":0,"delta":{"content":"one"}}],"usage":{"prompt_tokens":20,"completion_tokens":1}}`
		tgiText      = `{"index":1,"token":{"id":5,"text":"one","special":false},"generated_text":null,"details":null}`
		tgiEnd       = `{"index":2,"token":{"id":6,"text":" two","special":false},"generated_text":"one two","details":null}`
		anthropicOne = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"one"}}`
	)
	f("chat", "openai-chat", sse(role, one, stop, usage, endMarker), result.Success, false)
	f("chat without one", "openai-chat", sse(role, one, endMarker), result.Truncated, false)
	f("chat without one, with a final count", "openai-chat", sse(role, one, usage, endMarker), result.Success, true)
	f("chat without one, with a running count", "openai-chat", sse(role, counting, endMarker), result.Truncated, false)
	f("chat without one, counted before its end", "openai-chat", sse(role, usage, one, endMarker), result.Truncated, false)
	f("chat without one and without an answer", "openai-chat", sse(role, endMarker), result.Empty, false)
	f("completions without one", "openai-completions", sse(text, textUsage, endMarker), result.Truncated, false)
	f("TGI without details", "tgi", sse(tgiText, tgiEnd), result.Success, true)
	f("TGI cut by a front end", "tgi", sse(tgiText, endMarker), result.Truncated, false)
	f("Ollama without one", "ollama", "{\"message\":{\"content\":\"one\"},\"done\":false}\n{\"message\":{\"content\":\"\"},\"done\":true}\n", result.Success, true)
	f("Anthropic without one", "anthropic", sse(anthropicOne, `{"type":"message_stop"}`), result.Truncated, false)
}

// An error inside a 200 reply means what its status means, and is no reason to
// identify the server again.
func TestErrorInsideAReply(t *testing.T) {
	f := func(code int, want result.Outcome, wantRetry time.Duration, wantStale bool) {
		t.Helper()
		object := fmt.Sprintf(`{"error":{"message":"no","code":%d}}`, code)
		bodies := map[string]func(w http.ResponseWriter){
			"in the stream": func(w http.ResponseWriter) { events(w, role, one, object, endMarker) },
			"bare": func(w http.ResponseWriter) {
				w.Header().Set("Content-Type", "text/event-stream")
				io.WriteString(w, object)
			},
			"as JSON": func(w http.ResponseWriter) {
				w.Header().Set("Content-Type", "application/json")
				io.WriteString(w, object)
			},
		}
		for name, body := range bodies {
			s := chat(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "7")
				body(w)
			})
			p := newProber(t, newEndpoint(t, s.URL), newModule())
			r := p.one(t.Context(), time.Time{})
			if r.Outcome != want || r.Status != http.StatusOK || r.RetryAfter != wantRetry {
				t.Errorf("%d %s: outcome %s (%v), status %d, retry after %s; want %s, %s",
					code, name, r.Outcome, r.Err, r.Status, r.RetryAfter, want, wantRetry)
			}
			if p.endpoint.stale != wantStale {
				t.Errorf("%d %s: identified again %t, want %t", code, name, p.endpoint.stale, wantStale)
			}
		}
	}
	f(429, result.RateLimited, 7*time.Second, false)
	f(503, result.Overloaded, 7*time.Second, false)
	f(529, result.Overloaded, 7*time.Second, false)
	f(401, result.Unauthorized, result.Absent, true)
	f(403, result.Unauthorized, result.Absent, true)
	f(400, result.HTTPError, result.Absent, true)
	f(404, result.HTTPError, result.Absent, true)
	f(408, result.StreamError, result.Absent, true)
	f(424, result.StreamError, result.Absent, true)
	f(500, result.StreamError, result.Absent, true)
	f(502, result.StreamError, result.Absent, true)
	f(0, result.StreamError, result.Absent, true)
}

// What the reply itself contradicts is not what the server counted.
func TestCountsThatTheReplyContradicts(t *testing.T) {
	f := func(name, body string, want result.Tokens) {
		t.Helper()
		r := answerAt(t, "openai-chat", body).one(t.Context(), time.Time{})
		want.Prompt, want.Cached = 20, -1
		if r.Outcome != result.Success || r.Tokens != want {
			t.Errorf("%s: outcome %s (%v), tokens %+v, want %+v", name, r.Outcome, r.Err, r.Tokens, want)
		}
	}
	counts := func(output, reasoning int) string {
		return fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":20,"completion_tokens":%d,"completion_tokens_details":{"reasoning_tokens":%d}}}`, output, reasoning)
	}
	f("no reasoning", sse(one, one, stop, counts(2, 0), endMarker), result.Tokens{Output: 2, Reasoning: 0, Source: result.TokensFromUsage})
	f("reasoning", sse(thought, thought, one, stop, counts(3, 2), endMarker), result.Tokens{Output: 3, Reasoning: 2, Source: result.TokensFromUsage})
	f("reasoning, 0 by the count", sse(thought, thought, one, stop, counts(3, 0), endMarker), result.Tokens{Output: 3, Reasoning: -1, Source: result.TokensFromUsage})
	f("hidden reasoning", sse(one, stop, counts(65, 64), endMarker), result.Tokens{Output: 65, Reasoning: 64, Source: result.TokensFromUsage})
	f("counted before the answer", sse(counts(1, 0), one, one, one, stop, endMarker), result.Tokens{Output: 3, Reasoning: -1, Source: result.TokensFromEvents})
}

// The lag of a read is that of its last packet: how long the first one waited is
// known only where all came at once, or nothing had come shortly before.
func TestFirstAfter(t *testing.T) {
	start := time.Now()
	at := instant{kernel: 107 * ms, process: 107*ms + 50*time.Microsecond}
	f := func(name string, o origin, traced, more bool, want time.Duration) {
		t.Helper()
		r := &reply{attempt: &attempt{progressed: progressed{start: start}}, body: &stampedBody{origin: o, traced: traced}}
		if got := r.firstAfter(at, more); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	empty := start.Add(100 * ms)
	f("one packet", origin{empty, 1, 900, 1460}, true, true, 107*ms)
	f("nothing behind it", origin{empty, 3, 900, 1460}, true, false, 107*ms)
	f("several packets", origin{empty, 3, 900, 1460}, true, true, 100*ms)
	f("several packets of one write", origin{empty, 3, 3100, 1460}, true, true, result.Absent)
	f("unknown", origin{}, false, true, result.Absent)
}

// A finish reason does not cut what the server still sends: early versions of
// Gemini sent it with every event.
func TestFinishReasonWithEveryEvent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := &fakeNet{serve: func(c net.Conn) {
			req, err := http.ReadRequest(bufio.NewReader(c))
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
			for range 10 {
				fmt.Fprint(c, `data: {"choices":[{"index":0,"delta":{"content":"one"},"finish_reason":"stop"}]}`+"\n\n")
				time.Sleep(time.Second)
			}
			fmt.Fprint(c, "data: "+endMarker+"\n\n")
		}}
		e, m := newDefaultEndpoint(t, n)
		own, err := NewEndpoint(&config.Endpoint{Name: "e", URL: e.cfg.URL, API: "openai-chat", Model: "m"}, Options{Dialer: &Dialer{capacity: newCapacity()}})
		if err != nil {
			t.Fatal(err)
		}
		n.use(own)
		own.lookedUpAt = time.Now()
		r := newProberOf(t, own, m).one(t.Context(), time.Time{})
		if r.Outcome != result.Success || len(r.Events) != 10 || r.NoEndMarker {
			t.Errorf("outcome %s (%v), %d events, end marker missing: %t", r.Outcome, r.Err, len(r.Events), r.NoEndMarker)
		}
	})
}

package simulator

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Fault is one way in which a server misbehaves. A request shows it when its
// path starts with /fault/NAME.
type Fault struct {
	// Name identifies the fault; lower case with underscores.
	Name string
	// Description says in one line what the server does.
	Description string

	// unread takes the request over before its body is read.
	unread func(*exchange) error
	// answer takes the request over once it is read, or prepares the reply and
	// returns false.
	answer func(*exchange) (done bool, err error)
	// request changes what the server understands of a request.
	request func(*request)
	// shape, frame and wire replace parts of a stream; see stream.go.
	shape func(*exchange, sink) sink
	frame frameFunc
	wire  func(*exchange) wire
}

// Faults lists all faults, by name.
func Faults() []Fault {
	all := slices.Concat(statusFaults(), answerFaults(), frameFaults(), lineFaults(), usageFaults(), tokenFaults(), corruptedFaults(),
		endFaults(), silenceFaults(), wireFaults(), callFaults())
	slices.SortFunc(all, func(a, b Fault) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// FaultNamed returns the fault of the given name.
func FaultNamed(name string) (Fault, bool) {
	all := Faults()
	i := slices.IndexFunc(all, func(f Fault) bool { return f.Name == name })
	if i < 0 {
		return Fault{}, false
	}
	return all[i], true
}

// oddToken is the output token, counted from 1, at which faults in the middle
// of a stream strike; those before it are written in full.
const oddToken = 3

// shapeOf makes a fault's shape of a function over the events.
func shapeOf(change func(x *exchange, e *event, next sink) error) func(*exchange, sink) sink {
	return func(x *exchange, next sink) sink {
		return func(e *event) error { return change(x, e, next) }
	}
}

// atOddToken makes a shape that acts instead of writing token oddToken. When
// act returns nil, the token and the rest of the stream follow.
func atOddToken(act func(x *exchange, next sink) error) func(*exchange, sink) sink {
	return func(x *exchange, next sink) sink {
		tokens := 0
		return func(e *event) error {
			if e.tokens > 0 {
				if tokens++; tokens == oddToken {
					if err := act(x, next); err != nil {
						return err
					}
				}
			}
			return next(e)
		}
	}
}

// statusFaults answer with an error status.
func statusFaults() []Fault {
	var faults []Fault
	add := func(status int, kind, message string, header ...string) {
		faults = append(faults, Fault{
			Name:        fmt.Sprintf("status_%d", status),
			Description: fmt.Sprintf("Answers with status %d.", status),
			answer: func(x *exchange) (bool, error) {
				for i := 0; i < len(header); i += 2 {
					x.w.Header().Set(header[i], header[i+1])
				}
				return true, x.refuse(refusal{status, kind, message})
			},
		})
	}
	add(400, "BadRequestError", "Unsupported parameter: 'temperature'")
	add(401, "AuthenticationError", "Invalid API key")
	add(403, "PermissionDeniedError", "This key may not use this model")
	add(404, "NotFoundError", "The model `simulated` does not exist.")
	add(408, "TimeoutError", "The request took too long to arrive")
	add(422, "UnprocessableEntityError", "Input validation error")
	add(429, "RateLimitError", "Rate limit reached", "Retry-After", "7",
		"X-Ratelimit-Remaining-Requests", "0", "X-Ratelimit-Remaining-Tokens", "12")
	add(500, "InternalServerError", "EngineCore encountered an issue")
	add(502, "BadGatewayError", "upstream closed the connection")
	add(503, "ServiceUnavailableError", "The server is overloaded", "Retry-After", "3")
	add(504, "GatewayTimeoutError", "upstream timed out")
	add(529, "OverloadedError", "Overloaded")
	return faults
}

// answerFaults answer with something else than a stream, or not at all.
func answerFaults() []Fault {
	return []Fault{
		{Name: "html_200", Description: "Answers with an HTML page and status 200.", answer: page200("text/html; charset=utf-8", htmlPage)},
		{Name: "html_event_stream", Description: "Answers with an HTML page that claims to be an event stream.", answer: page200("text/event-stream", htmlPage)},
		{Name: "json_error_200", Description: "Answers with a JSON error and status 200.", answer: page200("application/json", jsonError)},
		{Name: "raw_json_error", Description: "Answers with an event stream that is a bare JSON error, without `data:`.", answer: page200("text/event-stream", jsonError)},
		{Name: "empty_body", Description: "Answers with an event stream without a byte.", answer: page200("text/event-stream", "")},
		{Name: "no_echo", Description: "Leaves out the prompt and its log-probabilities although asked.", request: func(a *request) { a.echo = false }},
		{Name: "json_200", Description: "Answers a streaming request with one JSON reply.", answer: jsonReply},
		{Name: "wrong_content_type", Description: "Streams as application/octet-stream.", answer: func(x *exchange) (bool, error) {
			x.contentType = "application/octet-stream"
			return false, nil
		}},
		{Name: "redirect_other_host", Description: "Redirects (307) to another host.", answer: func(x *exchange) (bool, error) {
			http.Redirect(x.w, x.r, "http://other-host.invalid"+x.r.URL.Path, http.StatusTemporaryRedirect)
			return true, nil
		}},
		{Name: "redirect_loop", Description: "Redirects (307) to itself.", answer: func(x *exchange) (bool, error) {
			http.Redirect(x.w, x.r, x.r.RequestURI, http.StatusTemporaryRedirect)
			return true, nil
		}},
		{Name: "early_answer", Description: "Streams a whole answer before the request's body is read.", unread: earlyAnswer},
		{Name: "malformed_http", Description: "Answers with bytes that are not HTTP.", answer: rawAnswer("HTTP/1.1 twohundred OK\r\nContent-Type\r\n\r\n")},
		{Name: "malformed_chunk", Description: "Answers with a body whose chunk sizes are not numbers.", answer: rawAnswer(
			"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\ndata: {}\n\n\r\n0\r\n\r\n")},
		{Name: "close_before_headers", Description: "Closes the connection instead of answering.", answer: func(*exchange) (bool, error) { return true, errCut }},
		{Name: "reset_before_headers", Description: "Resets the connection (RST) instead of answering.", answer: func(x *exchange) (bool, error) { return true, x.reset() }},
		{Name: "stall_before_headers", Description: "Takes the request and never answers.", answer: func(x *exchange) (bool, error) { return true, x.hang() }},
		{Name: "slow_accept", Description: "Takes a request up only after 2 s, as behind a full accept queue.", answer: func(x *exchange) (bool, error) {
			return false, sleep(x.ctx(), 2*time.Second)
		}},
	}
}

const (
	htmlPage  = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body><h1>Welcome back</h1></body></html>\n"
	jsonError = `{"error":{"message":"upstream failed","type":"InternalServerError","param":null,"code":500}}`
)

func page200(contentType, body string) func(*exchange) (bool, error) {
	return func(x *exchange) (bool, error) {
		x.w.Header().Set("Content-Type", contentType)
		_, err := x.w.Write([]byte(body))
		return true, err
	}
}

func jsonReply(x *exchange) (bool, error) {
	x.w.Header().Set("Content-Type", "application/json")
	w := whole{answer: []byte("zero one"), finish: finishStop, usage: usage{Prompt: 1, Output: 2, Cached: 0, Reasoning: -1}}
	_, err := x.w.Write(x.reply.appendWhole(nil, &w))
	return true, err
}

// earlyAnswer streams eight tokens without looking at the request.
func earlyAnswer(x *exchange) error {
	if err := x.flush.EnableFullDuplex(); err != nil {
		return fmt.Errorf("answer early: %w", err)
	}
	x.request.usage = true
	return x.streamReply(func(out sink) error {
		const n = 8
		if err := emit(out, event{kind: open}, event{kind: Role}); err != nil {
			return err
		}
		for i := range n {
			e := event{kind: Answer, text: x.appendToken(nil, i), tokens: 1}
			if i == n-1 {
				e.finish = finishStop
			}
			if err := out(&e); err != nil {
				return err
			}
		}
		return x.finishStream(out, usage{Prompt: 1, Output: n, Cached: 0, Reasoning: -1})
	})
}

// rawAnswer writes bytes to the connection and closes it.
func rawAnswer(answer string) func(*exchange) (bool, error) {
	return func(x *exchange) (bool, error) {
		c, err := x.hijack()
		if err != nil {
			return true, err
		}
		_, err = c.Write([]byte(answer))
		_ = c.Close() // nothing is left to lose
		return true, err
	}
}

func (x *exchange) hijack() (net.Conn, error) {
	c, _, err := x.flush.Hijack()
	if err != nil {
		return nil, fmt.Errorf("take over the connection: %w", err)
	}
	return c, nil
}

// reset cuts the connection with a RST where it can.
func (x *exchange) reset() error {
	if x.conn != nil {
		reset(x.conn.Conn)
	}
	return errCut
}

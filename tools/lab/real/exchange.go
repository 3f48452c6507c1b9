package main

import (
	"bufio"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

// exchange is a request and its reply, read back from a recording.
type exchange struct {
	method, path string
	header       http.Header
	body         []byte    // of the request
	sent         time.Time // when the first byte of the request arrived
	status       int
	reply        http.Header
	contentType  string
	lines        []line // of the reply's body
	ended        time.Time
	err          error // why the reply did not end well
}

// line is a line of a body and when its last byte arrived.
type line struct {
	at   time.Time
	text string
}

// text returns the whole body of the reply.
func (e *exchange) text() string {
	var b strings.Builder
	for _, l := range e.lines {
		b.WriteString(l.text)
	}
	return b.String()
}

// exchanges reads the requests of a connection and their replies.
func (r *recording) exchanges() []*exchange {
	in, out := &replay{pieces: r.request}, &replay{pieces: r.reply}
	requests, replies := bufio.NewReader(in), bufio.NewReader(out)
	var all []*exchange
	for {
		if _, err := requests.Peek(1); err != nil {
			return all
		}
		e := &exchange{sent: in.at}
		request, err := http.ReadRequest(requests)
		if err != nil {
			return all
		}
		e.method, e.path, e.header = request.Method, request.URL.Path, request.Header
		if e.body, err = io.ReadAll(request.Body); err != nil {
			return all
		}
		e.readReply(request, replies, out)
		all = append(all, e)
		if e.err != nil {
			return all
		}
	}
}

func (e *exchange) readReply(request *http.Request, replies *bufio.Reader, clock *replay) {
	response, err := http.ReadResponse(replies, request)
	if err != nil {
		e.err = err
		return
	}
	e.status, e.reply = response.StatusCode, response.Header
	e.contentType, _, _ = mime.ParseMediaType(response.Header.Get("Content-Type"))
	body := bufio.NewReader(response.Body)
	for {
		text, err := body.ReadString('\n')
		if text != "" {
			e.lines = append(e.lines, line{clock.at, text})
		}
		if errors.Is(err, io.EOF) {
			e.ended = clock.at
			return
		}
		if err != nil {
			e.err = err
			return
		}
	}
}

// exchanges returns all that went through the tee so far.
func (t *tee) exchanges() []*exchange {
	var all []*exchange
	for _, r := range t.recordings() {
		all = append(all, r.exchanges()...)
	}
	return all
}

// of returns the exchange of a probe by the trace that the probe sent.
func (t *tee) of(trace string) *exchange {
	for _, e := range t.exchanges() {
		if trace != "" && strings.Contains(e.header.Get("Traceparent"), trace) {
			return e
		}
	}
	return nil
}

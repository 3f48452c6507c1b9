package simulator

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
)

// A stream passes three places, in each of which a fault can act: a sink takes the events and may change them, a
// frameFunc puts a payload into the framing of the protocol, the wire decides when which bytes leave.

// sink takes the events of a stream in order, open first and end last. It must not keep an event.
type sink func(*event) error

func emit(out sink, events ...event) error {
	for i := range events {
		if err := out(&events[i]); err != nil {
			return err
		}
	}
	return nil
}

// frameFunc appends a payload in its frame; name is what the protocol calls it in the framing, if it does.
type frameFunc func(dst []byte, name string, payload []byte) []byte

// Errors with which a fault ends a stream.
var (
	errOver = errors.New("stream over") // where it is, the body being complete
	errCut  = errors.New("connection cut")
)

func (x *exchange) streamReply(produce func(sink) error) error {
	x.frame = framings()[x.p.Framing].frame
	if x.fault.Frame != "" && x.fault.At == "" && x.isSSE() {
		x.frame = framings()[x.fault.Frame].frame
	}
	err := produce(x.fault.shape(x, x.put))
	if errors.Is(err, errOver) {
		err = x.closeBody()
	}
	return err
}

// framing is how the payloads of a reply are put into a body.
type framing struct {
	contentType string
	frame       frameFunc
}

const eventStream = "text/event-stream; charset=utf-8"

// framings lists the values of protocol.Framing, and of effect.Frame those of server-sent events.
func framings() map[string]framing {
	return map[string]framing{
		"":              {eventStream, sseFrame("data: ", "\n")},
		"sse bare":      {eventStream, sseFrame("data:", "\n")},
		"sse crlf":      {eventStream, sseFrame("data: ", "\r\n")},
		"sse cr":        {eventStream, sseFrame("data: ", "\r")},
		"sse multiline": {eventStream, multilineFrame},
		"sse extra":     {eventStream, extraFrame},
		"sse open":      {eventStream, openFrame},
		"lines":         {"application/x-ndjson", lineFrame},
		"json":          {"application/json", bare},
		"aws":           {"application/vnd.amazon.eventstream", awsFrame},
	}
}

// isSSE reports whether the reply is server-sent events, of which are the faults of framing.
func (x *exchange) isSSE() bool { return x.contentType == eventStream }

// bare is a payload without a frame.
func bare(dst []byte, _ string, payload []byte) []byte { return append(dst, payload...) }

func lineFrame(dst []byte, name string, payload []byte) []byte {
	return append(bare(dst, name, payload), '\n')
}

// sseFrame frames as server-sent events do, with the given field start and line end.
func sseFrame(field, newline string) frameFunc {
	return func(dst []byte, name string, payload []byte) []byte {
		if name != "" {
			dst = fmt.Appendf(dst, "event: %s%s", name, newline)
		}
		return fmt.Appendf(dst, "%s%s%s%s", field, payload, newline, newline)
	}
}

// openFrame leaves out the blank line that ends an event.
func openFrame(dst []byte, name string, payload []byte) []byte {
	dst = sseFrame("data: ", "\n")(dst, name, payload)
	return dst[:len(dst)-1]
}

// multilineFrame splits a payload after its first comma, which is outside of any string.
func multilineFrame(dst []byte, name string, payload []byte) []byte {
	return sseFrame("data: ", "\n")(dst, name, bytes.Replace(payload, []byte(","), []byte(",\ndata: "), 1))
}

// extraFrame surrounds a payload with other fields, and puts a member first into its JSON.
func extraFrame(dst []byte, name string, payload []byte) []byte {
	if members, ok := bytes.CutPrefix(payload, []byte("{")); ok {
		payload = append([]byte(`{"x_odd":{"choices":[1,"}"]},`), members...)
	}
	return sseFrame("id: 7\nretry: 1000\nx-odd: 1\ndata: ", "\n")(dst, cmp.Or(name, "message"), payload)
}

// awsFrame frames as application/vnd.amazon.eventstream does, by the code of AWS and not by that of the probes. The names
// of exceptions begin with "exception:".
func awsFrame(dst []byte, name string, payload []byte) []byte {
	kind, nameHeader := "event", ":event-type"
	if exception, ok := strings.CutPrefix(name, "exception:"); ok {
		kind, nameHeader, name = "exception", ":exception-type", exception
	}
	m := eventstream.Message{Payload: payload}
	m.Headers.Set(nameHeader, eventstream.StringValue(name))
	m.Headers.Set(":content-type", eventstream.StringValue("application/json"))
	m.Headers.Set(":message-type", eventstream.StringValue(kind))
	b := bytes.NewBuffer(dst)
	if err := eventstream.NewEncoder().Encode(b, m); err != nil {
		panic(err) // cannot happen: names are short, and a buffer takes all
	}
	return b.Bytes()
}

// tokens produces the events of the sequence as they come: the role with the first token, the finish reason with the last.
func (x *exchange) tokens(out sink) error {
	if err := out(&event{kind: open}); err != nil {
		return err
	}
	p, err := x.await(0)
	if err != nil {
		return err
	}
	if err := out(&event{kind: Role, usage: new(x.usage(p, 0))}); err != nil {
		return err
	}
	var e event
	for sent := 0; e.finish == ""; sent += e.tokens {
		n := x.eventSize(sent)
		for p.tokens < sent+n && p.finish == "" {
			if p, err = x.await(p.tokens); err != nil {
				return err
			}
		}
		e = x.material(e.text[:0], p, sent, min(sent+n, p.tokens))
		if err := out(&e); err != nil {
			return err
		}
	}
	if x.request.usage {
		if err := out(&event{kind: Usage, usage: new(x.usage(p, p.tokens))}); err != nil {
			return err
		}
	}
	return emit(out, event{kind: Done}, event{kind: end})
}

// material returns the event with some of the output tokens.
func (x *exchange) material(text []byte, p progress, from, to int) event {
	e := event{kind: Answer, tokens: to - from}
	for i := from; i < to; i++ {
		text = x.appendToken(text, i)
	}
	e.text = text
	switch {
	case from < x.reasoning:
		e.kind = Reasoning
	case x.call != "":
		e.kind = Call
		if from == x.reasoning {
			e.name = x.call
		}
	}
	if x.request.continuousUsage {
		e.usage = &usage{Prompt: len(x.request.prompt), Output: to, Cached: -1, Reasoning: -1}
	}
	if from == 0 {
		e.top = x.top
	}
	if to == p.tokens {
		e.finish = p.finish
		if x.call != "" && p.finish == finishStop {
			e.finish = finishCall
		}
	}
	return e
}

// drafts is how many tokens are proposed for each step with Options.TokensPerEvent, and maxTokensPerEvent the most that it
// can be: all drafts accepted.
const (
	drafts            = 4
	maxTokensPerEvent = drafts + 1
)

// eventSize returns how many tokens the next event has. With speculative decoding the first one, which comes from the
// prompt, is alone; each further event has one token and those of the drafts that were accepted, each as likely as the
// others. Those of a channel are not put together with those of another.
func (x *exchange) eventSize(sent int) int {
	n := 1
	if x.fault.Name == "many_tokens_per_event" {
		n = 4
	}
	if accept := (x.s.o.TokensPerEvent - 1) / drafts; accept > 0 && sent > 0 {
		for range drafts {
			if x.s.rng.Float64() < accept {
				n++
			}
		}
	}
	switch {
	case sent < x.reasoning:
		return min(n, x.reasoning-sent)
	case sent == x.reasoning && x.call != "": // its name
		return 1
	}
	return n
}

// put is the last sink: it encodes, frames and writes.
func (x *exchange) put(e *event) error {
	switch {
	case e.kind == open:
		return x.openBody()
	case e.kind == end:
		return x.closeBody()
	case e.verbatim != "":
		x.framed = append(x.framed[:0], e.verbatim...)
	case e.payload != "":
		x.framed = x.frame(x.framed[:0], "", []byte(e.payload))
	default:
		x.framed = x.reply.appendEvent(x.framed[:0], e, x.frame)
		if len(x.framed) == 0 {
			return nil // the protocol has no such event
		}
	}
	return x.write(e, x.framed)
}

func (x *exchange) openBody() error {
	switch x.fault.Name {
	case "one_read":
		return nil
	case "gzip":
		x.w.Header().Set("Content-Encoding", "gzip")
		x.zip = gzip.NewWriter(&x.zipped)
	}
	x.w.Header().Set("Content-Type", x.contentType)
	x.w.WriteHeader(http.StatusOK)
	return x.send(nil)
}

// write writes b, which is all of an event, at once but for what the fault says. It adds the event to the record before
// the write that completes it.
func (x *exchange) write(e *event, b []byte) error {
	switch f := x.fault; {
	case f.Name == "one_read" || f.Name == "buffered":
		x.rec.add(e)
		x.held = append(x.held, b...)
		return nil
	case x.zip != nil:
		x.zipped.Reset()
		_, err := x.zip.Write(b)
		if err = cmp.Or(err, x.zip.Flush()); err != nil {
			return err
		}
		b = x.zipped.Bytes()
	case f.Cut != "":
		for n := f.cutAt(b); n > 0 && n < len(b); n = f.cutAt(b) {
			if err := x.send(b[:n]); err != nil {
				return err
			}
			b = b[n:]
			if err := sleep(x.ctx(), f.Pause); err != nil {
				return err
			}
		}
	}
	x.rec.add(e)
	return x.send(b)
}

func (x *exchange) closeBody() error {
	switch {
	case x.fault.Name == "one_read":
		head := "HTTP/1.1 200 OK\r\nContent-Type: " + x.contentType + "\r\nConnection: close\r\n\r\n"
		return x.writeRaw(append([]byte(head), x.held...))
	case x.held != nil:
		return x.send(x.held)
	case x.zip != nil:
		x.zipped.Reset()
		if err := x.zip.Close(); err != nil {
			return err
		}
		return x.send(x.zipped.Bytes())
	}
	return nil
}

// send writes b in one write of the connection.
func (x *exchange) send(b []byte) error {
	if x.conn == nil {
		x.rec.stamp(time.Now())
	}
	if _, err := x.w.Write(b); err != nil {
		return err
	}
	return x.flush.Flush()
}

// sleep waits for d or until ctx ends, and returns ctx's error then.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
	return ctx.Err()
}

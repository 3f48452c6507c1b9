package prober

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/inference-exporter/inference_exporter/internal/foreign"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/prober/stream"
)

const (
	// errorBody bounds what is read of an error reply.
	errorBody = 8 << 10
	// finishGrace is how long to wait for usage and the end marker after the
	// finish reason: some servers send neither and keep the connection open.
	finishGrace = 2 * time.Second
	// bareEnd is an end marker that a proxy in front of the server may add to a reply that the server never finished.
	bareEnd = "[DONE]"
	// drainLimit bounds what is read behind the end marker, for the sake of keeping the connection.
	drainLimit = 4 << 10
	// usualEvents bounds the events that memory is set aside for when the first comes.
	usualEvents = 256
)

// reply reads the answer of one probe.
type reply struct {
	*request
	ctx      context.Context //nolint:containedctx // lives as long as the reply
	attempt  *attempt
	watchdog *watchdog
	line     *timeline
	resp     *http.Response

	share  *share
	stalls *stallWatch
	retry  time.Duration // that the headers ask to wait; Absent without
	body   *stampedBody
	frames stream.Reader
	tally  api.Tally
	count  int // the server's running count of tokens
	finish string
	done   bool
	// ended means that the end marker says more than that the stream is over, and counted how many events there were at
	// the latest count of output tokens, which is final where it came after the last.
	ended   bool
	counted int
	final   bool
	last    instant // arrival of the latest frame
}

// read reads the reply to its end and fills the result with what it says.
func (r *reply) read() error {
	r.result.Status = r.resp.StatusCode
	r.readHeader()
	err := r.accept()
	clear(r.resp.Header) // which may be long, and is kept to the end of the reply
	if err != nil {
		r.line.end = r.attempt.now()
		return err
	}
	limits := r.prober.module.Timeouts
	r.watchdog.expect(r.attempt.far().gotConn.Add(time.Duration(limits.FirstToken)),
		&limitError{result.TimeoutFirstToken, "no first token within %s", limits.FirstToken})
	err = r.frameLoop()
	switch {
	case r.line.end.process >= 0:
	case errors.Is(context.Cause(r.ctx), errFinished): // the wait for more was ours
		r.line.end = r.last
	default:
		r.line.end = r.attempt.now()
	}
	r.result.Finish = r.finish
	r.result.Tokens = r.tokens()
	r.result.MaxTokensIgnored = r.ignored(&r.result.Tokens)
	err = r.verdict(err)
	if err == nil && r.done {
		_, _ = io.CopyN(io.Discard, r.resp.Body, drainLimit)
	}
	return err
}

func (r *reply) readHeader() {
	r.result.RateLimit = api.RateLimitFrom(r.resp.Header)
	if read := r.served.protocol.Headers; read != nil {
		var usage api.Usage
		usage, r.result.Server = read(r.resp.Header)
		r.tally.Add(&usage)
	}
	r.retry = api.RetryAfter(r.resp.Header, time.Now())
	r.result.Retirement.Learn(api.RetirementFrom(r.resp.Header, time.Now()), false)
	if name := r.prober.endpoint.cfg.Request.ReplicaHeader; name != "" && r.result.Turn != nil {
		r.result.Turn.Replica = r.prober.endpoint.names.Clean(r.resp.Header.Get(name))
	}
}

// accept checks status, encoding and content type.
func (r *reply) accept() error {
	c := r.attempt.far().conn
	if r.resp.StatusCode != http.StatusOK {
		r.result.RetryAfter = r.retry
		body, _ := foreign.Start(r.resp.Body, errorBody)
		return statusFailure(r.resp, body, r.attempt.known())
	}
	r.body = &stampedBody{r: &pacedBody{r: r.resp.Body, share: r.share}, conn: c}
	switch enc := r.resp.Header.Get("Content-Encoding"); enc {
	case "", "identity":
	case "gzip":
		r.result.Imprecise = true
		z, err := foreign.Gunzip(r.body, r.replyLimits().Body)
		if err != nil {
			return bodyFailure(r.ctx, r.attempt, err)
		}
		r.body = &stampedBody{r: z, conn: c}
	default:
		return fail(result.ProtocolError, "content encoding %s, want identity", r.attempt.known().Quote(enc, 32))
	}
	return r.acceptType()
}

// acceptType refuses another type than the protocol's. An error page or an error object says why in its first bytes.
func (r *reply) acceptType() error {
	ct := r.resp.Header.Get("Content-Type")
	media, _, _ := mime.ParseMediaType(ct)
	want := r.served.protocol.MediaType()
	if media == want {
		return nil
	}
	body, err := foreign.Start(r.body, errorBody)
	if err != nil {
		return bodyFailure(r.ctx, r.attempt, err)
	}
	if e := api.ParseError(body); e != nil {
		return r.reported("status 200 with an error: ", e)
	}
	return fail(result.ProtocolError, "content type %s, want %s", r.attempt.known().Quote(ct, 64), want)
}

// reported is the failure of an error that the server reports in a 200 reply.
func (r *reply) reported(where string, e *api.ServerError) error {
	o := streamOutcome(e.Status)
	if o == result.RateLimited || o == result.Overloaded {
		r.result.RetryAfter = r.retry
	}
	e = e.Shown(r.attempt.known().Line)
	return fail(o, "%s%w%s", where, e, hintOn(e))
}

// frameLoop reads frames until the end marker, the end of the body (io.EOF) or an error.
func (r *reply) frameLoop() error {
	limits := r.replyLimits()
	limits.Reserve = r.share.reserve
	r.frames = stream.New(r.served.protocol.Framing, r.body, limits)
	dec := r.served.protocol.NewDecoder()
	if keeper, ok := dec.(api.ValueDecoder); ok && !r.prober.kind.Answers {
		keeper.KeepValues()
	}
	var d api.Delta
	start := r.attempt.far().start
	for {
		f, err := r.frames.Next()
		if errors.Is(err, stream.ErrMalformed) && r.frames.Frames() == 0 {
			return fmt.Errorf("%w, in a reply that begins %s", err, r.beginning())
		}
		if err != nil {
			return err
		}
		at := r.body.last.since(start)
		r.last = at
		if err := r.share.parse(f.Data); err != nil {
			return err
		}
		if err := dec.Decode(f.Event, f.Data, &d); err != nil {
			return err
		}
		if d.Err != nil {
			return r.reported("", d.Err)
		}
		r.take(&d, at, f.Read, f.More || r.body.spanned)
		if d.Done {
			r.done, r.ended, r.line.end = true, string(bytes.TrimSpace(f.Data)) != bareEnd, at
			return nil
		}
	}
}

func (r *reply) take(d *api.Delta, at instant, read int, more bool) {
	tokens := 0
	if d.Tokens > r.count {
		tokens = d.Tokens - r.count
		r.count = d.Tokens
	}
	r.result.Characters += characters(d.Text, d.Refusal, d.Tool)
	if d.HasToken() || tokens > 0 {
		if r.line.events == nil {
			r.line.events = make([]rawEvent, 0, min(r.question.Output+1, usualEvents))
		}
		r.line.events = append(r.line.events, rawEvent{
			instant: at, tokens: tokens, size: characters(d.Text, d.Reasoning, d.Refusal, d.Tool), read: read, more: more,
			visible: d.Visible(), reasoning: len(d.Reasoning) > 0 && !d.Visible(),
			summary: d.Summary && len(d.Reasoning) > 0, tool: len(d.Tool) > 0,
			arguments: hasArguments(d.Calls),
		})
		if len(r.line.events) == 1 {
			r.line.firstAfter = r.firstAfter(at, more)
		}
		r.awaitToken(len(r.line.events) == 1)
	}
	if d.Usage != nil && d.Usage.Output > 0 {
		r.counted, r.final = len(r.line.events), !d.HasToken()
	}
	if r.answer != nil {
		r.answer.add(d)
	}
	if r.named == "" && len(d.Model) > 0 && string(d.Model) != r.served.model {
		r.named = string(d.Model)
	}
	r.tally.Add(d.Usage)
	if d.Server != nil {
		r.result.Server = *d.Server
	}
	if d.Vectors != nil {
		r.result.Vectors, r.result.Values, r.line.whole = *d.Vectors, d.Values, true
	}
	if n := len(d.Logprobs); n > 0 {
		sum := stats.Sum(d.Logprobs, func(v float64) float64 { return v })
		r.result.Logprob, r.line.whole = result.Logprob{Tokens: n, Mean: sum / float64(n)}, true
	}
	if d.Finish != "" && r.finish == "" {
		r.finish = d.Finish
		r.watchdog.expect(time.Now().Add(finishGrace), errFinished)
		r.stalls.rest()
	}
}

// characters counts the Unicode characters of texts, each of which ends with a whole one.
func characters(texts ...[]byte) int { return stats.Sum(texts, utf8.RuneCount) }

// firstAfter returns the earliest that the first token can have arrived; Absent
// is not known. more means that its read brought what came after it.
func (r *reply) firstAfter(at instant, more bool) time.Duration {
	after := result.Absent
	switch o := &r.body.origin; {
	case !r.body.traced:
	case !more || o.segments <= 1:
		if after = at.kernel; after < 0 {
			after = at.process
		}
	case !o.together():
		after = max(0, since(r.attempt.far().start, o.empty))
	}
	if r.body.conn != nil {
		r.body.conn.stopTracing()
	}
	return after
}

// awaitToken moves the stall limit on. After a finish reason it is the wait for
// the end: some servers send the reason with every event.
func (r *reply) awaitToken(first bool) {
	if r.finish != "" {
		r.watchdog.extend(time.Now().Add(finishGrace))
		return
	}
	stall, now := time.Duration(r.prober.module.Timeouts.Stall), time.Now()
	r.stalls.token(now, stall)
	if !first {
		r.watchdog.extend(now.Add(stall))
		return
	}
	r.watchdog.expectNext(now.Add(stall),
		&limitError{result.TimeoutStall, "no token for %s in mid-answer", stall})
}

// verdict says what the reply came to, given the error that ended it.
func (r *reply) verdict(err error) error {
	if _, ok := errors.AsType[*failure](err); ok {
		return err
	}
	complete := r.complete(err)
	if err != nil && !errors.Is(err, io.EOF) {
		f := bodyFailure(r.ctx, r.attempt, err)
		// What follows a finish reason is a matter of the connection's end, and no longer of the answer.
		if !complete || OutcomeOf(f) == result.Canceled {
			return f
		}
	}
	if r.served.protocol.Kind != api.Generation {
		return r.wholeVerdict()
	}
	r.result.NoFinish = r.finish == "" && !r.served.protocol.EndOfBody
	r.result.NoEndMarker = !r.done && !r.served.protocol.EndOfBody && !r.served.protocol.NoEndMarker
	if len(r.line.events) > 0 {
		r.inspect()
	}
	switch {
	case r.finish == "error":
		return fail(result.StreamError, "finish reason %q", r.finish)
	case r.finish == "abort":
		return fail(result.Truncated, "finish reason %q", r.finish)
	case complete && len(r.line.events) > 0:
		return r.answerVerdict()
	case complete || r.done && len(r.line.events) == 0:
		return fail(result.Empty, "complete reply without a token")
	}
	return r.incomplete()
}

// complete reports whether the server finished its answer. Without a finish reason that takes, where the
// protocol allows it, a final count of the tokens or the server's own end marker: a front end closes the stream
// of a server that died as cleanly as any other.
func (r *reply) complete(err error) bool {
	p := r.served.protocol
	switch {
	case r.finish != "" || p.Kind != api.Generation:
		return r.finish != "" || r.done
	case p.EndOfBody && (r.done || errors.Is(err, io.EOF)):
		return true
	}
	counted := r.final && r.counted == len(r.line.events)
	return r.done && p.FinishOptional && (r.ended || counted)
}

// wholeVerdict checks that a text has its score, or each input its vector or score.
func (r *reply) wholeVerdict() error {
	v, asked, isScored := &r.result.Vectors, len(r.question.Texts), r.served.protocol.Kind == api.Scoring
	switch {
	case !r.done:
		return r.incomplete()
	case isScored && r.result.Logprob.Tokens == 0:
		return fail(result.Empty, "complete reply without a score")
	case isScored:
		return nil
	case v.Items == 0:
		return fail(result.Empty, "complete reply without a vector")
	case v.Items != asked:
		return fail(result.CheckFailed, "%d vectors or scores for %d inputs", v.Items, asked)
	case v.Dimensions == api.Unknown:
		return fail(result.CheckFailed, "vectors of different length")
	case v.Dimensions > 0 && !(v.Norm > 0):
		return fail(result.CheckFailed, "vectors of norm %g", v.Norm)
	}
	return nil
}

// incomplete says why a reply ended without finish reason and end marker.
func (r *reply) incomplete() error {
	head := bytes.TrimSpace(r.frames.Head())
	switch {
	case r.frames.Frames() > 0:
		return fail(result.Truncated, "reply ended without a finish reason")
	case len(head) == 0:
		return fail(result.Empty, "empty reply")
	}
	if e := api.ParseError(head); e != nil {
		return r.reported("status 200 with an error: ", e)
	}
	return fail(result.ProtocolError, "no event in a reply that begins %s", r.beginning())
}

func (r *reply) beginning() string {
	return r.attempt.known().Quote(string(bytes.TrimSpace(r.frames.Head())), 64)
}

// tokens counts what was asked and answered.
func (r *reply) tokens() result.Tokens {
	u := r.tally.Usage()
	t := result.Tokens{Prompt: u.Prompt, Cached: u.Cached, Output: u.Output, Reasoning: u.Reasoning, Source: result.TokensFromUsage}
	if r.served.protocol.Kind != api.Generation {
		t.Source = ""
	}
	seen := len(r.line.events)
	r.bound(&t, seen)
	if n := r.result.Logprob.Tokens; n > 0 && t.Prompt < 0 {
		t.Prompt = n + 1 // the first token has nothing to be likely after
	}
	if t.Output <= 0 && seen > 0 || t.Output < seen && r.counted < seen {
		// No count, or one from before the last token that cannot be of all.
		t.Output, t.Reasoning, t.Source = seen, api.Unknown, result.TokensFromEvents
	}
	if t.Reasoning == 0 && r.line.reasons() { // it says 0 without looking
		t.Reasoning = api.Unknown
	}
	return t
}

// stampedBody remembers when the bytes of its latest Read were received.
type stampedBody struct {
	r    io.Reader
	conn *conn
	last arrival
	// spanned means that the latest Read returned bytes of several reads of
	// the socket: those before the last were received earlier than stamped.
	spanned bool
	reads   int
	origin  origin // of what the latest Read returned, until the first token
	traced  bool   // origin is known
}

func (b *stampedBody) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.conn == nil {
		b.last = arrival{process: time.Now()}
	} else {
		past := b.conn.past()
		b.last, b.spanned = past.last, b.reads > 0 && past.reads > b.reads+1
		if past.reads != b.reads {
			b.origin, b.traced = b.conn.takeOrigin()
		}
		b.reads = past.reads
	}
	return n, err
}

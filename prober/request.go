package prober

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/prober/stream"
)

type request struct {
	prober      *Prober
	served      *target
	question    workload.Question
	result      *result.Result
	end         time.Time         // when it must be over
	transport   http.RoundTripper // that keeps its connection; nil for a new one
	kept        *conn             // connection of an earlier request, or nil
	used        *conn             // the one that this one had
	answer      *content          // nil where nothing looks at it
	slot        *slot             // in a burst, or nil
	planned     time.Time         // when it was to be sent, outside of a burst; zero for others
	many        bool              // it is one of many, whose answers nobody looks at
	bytes       int               // of the body
	promptCount int               // the server's count of the prompt, whether it can be or not
	named       string            // the model that the reply names where it is another than was asked for
}

// send asks, waits for the end of the answer, and completes the result.
func (q *request) send(ctx context.Context) {
	if q.slot != nil {
		defer q.slot.leave()
	}
	finish(q.result, guard(func() error { return q.prober.endpoint.explain(ctx, q.exchange(ctx)) }), q.prober.endpoint.secrets)
	q.prober.endpoint.learn(q.result, q.named)
}

// learn hands the length of the prompt to the question source. It returns why a
// success is not one of the question that was meant; a failure stays one.
func (q *request) learn() *result.Skip {
	if q.promptCount <= 0 || q.question.Learn == nil {
		return nil
	}
	if why := q.question.Learn(q.promptCount); q.result.Outcome == result.Success {
		return why
	}
	return nil
}

// rerankQuery is what texts are ranked against.
const rerankQuery = "Which of these texts counts upwards?"

// params puts the question in the words of all protocols.
func (q *request) params() api.Params {
	asked := &q.question
	engine := api.LookupEngine(q.served.engine)
	p := api.Params{
		Model: q.served.model, OutputTokens: asked.Output,
		ExactLength:     asked.Exact && (engine.ExactLength || q.served.protocol.ExactLength),
		ContinuousUsage: engine.ContinuousUsage, TopLogprobs: asked.TopLogprobs,
		Tool: asked.Tool, Schema: asked.Schema,
	}
	switch q.served.protocol.Kind {
	case api.Embedding, api.Rerank:
		p.Prompt, p.Inputs = cmp.Or(asked.Query, rerankQuery), asked.Texts
		p.Path = q.served.url(q.prober.endpoint.cfg).Path
	default:
		p.Messages = asked.Messages
		if len(asked.Texts) > 0 {
			p.Prompt = asked.Texts[0]
		}
	}
	return p
}

// exchange sends the request and reads the reply, under the limits.
func (q *request) exchange(ctx context.Context) error {
	body, err := q.served.protocol.Body(q.params(), q.served.quirks)
	if err != nil {
		return fmt.Errorf("build the request: %w", err)
	}
	q.bytes = len(body)
	limits := q.prober.module.Timeouts
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	noConnection := &limitError{result.TimeoutConnect, "no connection within %s", limits.Connect}
	wd := newWatchdog(cancel, q.end, &limitError{result.TimeoutTotal, "not finished within %s", q.prober.module.Timeout},
		time.Now().Add(time.Duration(limits.Connect)), noConnection)
	defer wd.stop()

	var stalls *stallWatch
	if !q.many {
		stalls = newStallWatch()
	}
	a := q.newAttempt(wd, stalls, noConnection)
	req, err := q.build(a.context(ctx), body)
	if err != nil {
		return err
	}
	line := newTimeline()
	rt := q.transport
	if rt == nil {
		var giveBack func()
		if rt, giveBack, err = q.prober.endpoint.borrow(); err != nil {
			return err
		}
		defer giveBack()
	}
	share := &share{capacity: q.prober.endpoint.options.Dialer.capacity, ctx: ctx, kind: q.served.protocol.Kind}
	defer share.release()
	resp, err := a.roundTrip(rt, req)
	if err != nil {
		line.end = a.now()
	} else {
		defer resp.Body.Close()
		q.answer = q.newContent()
		rp := &reply{request: q, ctx: ctx, attempt: a, watchdog: wd, line: &line, resp: resp, share: share, stalls: stalls, tally: api.NewTally()}
		err = rp.read()
	}
	stall, began := stalls.end(err != nil)
	q.settle(a, &line, stall, began)
	return a.censor(err)
}

// newAttempt returns the attempt, which reports its progress to the watchdog and to the watch of its stalls.
func (q *request) newAttempt(wd *watchdog, stalls *stallWatch, noConnection error) *attempt {
	limits := q.prober.module.Timeouts
	a := q.prober.endpoint.newAttempt(q.kept)
	a.onIssue = func() { wd.expect(time.Now().Add(time.Duration(limits.Connect)), noConnection) }
	a.onConnect = func(c *conn) { stalls.begin(c, time.Duration(limits.Connect)) }
	a.slot, a.planned = q.slot, q.planned
	a.onHold = func() {
		wd.pause()
		stalls.rest()
	}
	a.onReady = func() {
		stalls.begin(a.far().conn, time.Duration(limits.FirstToken))
		wd.resume()
		wd.expect(time.Now().Add(time.Duration(limits.Headers)),
			&limitError{result.TimeoutFirstToken, "no response headers within %s", limits.Headers})
	}
	return a
}

// settle turns the stamps into the result's durations.
func (q *request) settle(a *attempt, line *timeline, stall *result.Stall, began time.Time) {
	r := q.result
	far := a.far()
	far.fill(line)
	r.Start, r.Sent = far.start, far.sentAt()
	end := time.Now()
	line.stepped = isStep(end.Round(0).Sub(r.Start.Round(0)), end.Sub(r.Start))
	line.measure(r)
	r.Events = line.published(r.Clock)
	if r.Answer.Verdict == result.VerdictValid {
		r.Call = line.call(r.Clock)
	}
	if r.Imprecise = r.Imprecise || line.imprecise(r.Clock); stall != nil {
		stall.At = max(0, began.Sub(r.Start))
		r.Stall = stall
	}
	q.used, r.Reused, r.CertNotAfter = far.conn, far.reused, far.notAfter
	if q.used != nil {
		r.Address = q.used.address()
	}
}

func (q *request) build(ctx context.Context, body []byte) (*http.Request, error) {
	e := q.prober.endpoint
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, q.served.url(e.cfg).String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("build the request: %w", err)
	}
	// Without GetBody the transport cannot send the request a second time.
	req.GetBody = nil
	req.Header = q.served.protocol.Header()
	if name := e.cfg.Request.StickyHeader; name != "" && q.question.Session != "" {
		req.Header.Set(name, q.question.Session)
	}
	e.ownHeader(req.Header)
	req.Header.Set("Traceparent", traceparent(q.result.TraceID))
	return req, nil
}

// replyLimits bounds a reply by what is asked for, as a server that goes on for ever costs money. Four events a
// token leave room for servers that stream less than a token an event.
func (q *request) replyLimits() stream.Limits {
	l := stream.DefaultLimits()
	l.Events = 4*q.question.Output + 256
	if q.served.protocol.Kind == api.Scoring {
		l.Body = api.MaxScoringBody
	}
	return l
}

// traceparent renders the W3C trace context of a probe. The probe is its
// trace's root span, named by the first half of the trace id.
func traceparent(id [16]byte) string {
	s := hex.EncodeToString(id[:])
	return "00-" + s + "-" + s[:16] + "-01"
}

// servicePreamble is more tokens than services put before a prompt (instructions, tools, steps of agents):
// Cohere, Venice and Groq's compound were seen with 1,400 to 4,800.
const servicePreamble = 8192

// textPreamble is more tokens than servers put around each of several texts.
const textPreamble = 1024

// bound makes Unknown what the server cannot have counted, given what was sent and asked for, and the token events that
// came. Whatever it claims, budgets, costs and counters then grow by no more than request and reply can explain.
func (q *request) bound(t *result.Tokens, events int) {
	q.promptCount = t.Prompt
	// A token is at least one byte.
	most := q.bytes + max(servicePreamble, len(q.question.Texts)*textPreamble)
	if t.Prompt == 0 || t.Prompt > most {
		t.Prompt, t.Cached = api.Unknown, api.Unknown
	}
	if t.Cached > most {
		t.Cached = api.Unknown
	}
	// No server is known to go further over its cap, but those that ignore it: they
	// are believed what their events agree with.
	most = 2*max(q.question.Output, events) + 64
	if t.Output > most {
		t.Output, t.Reasoning = api.Unknown, api.Unknown
	}
	if t.Reasoning > most {
		t.Reasoning = api.Unknown
	}
}

// ignored reports whether the server generated more tokens than it was allowed to. Gateways' own counts may be
// a fifth wrong, and some servers go on or count on for a few tokens.
func (q *request) ignored(t *result.Tokens) bool {
	allowed := q.question.Output
	return q.served.capped && t.Output > allowed+allowed/4+16
}

// textBytes is the length of what is asked, without what the protocol adds.
func textBytes(q *workload.Question) int {
	return stats.Sum(q.Texts, func(text string) int { return len(text) }) + stats.Sum(q.Messages, func(m api.Message) int { return len(m.Content) })
}

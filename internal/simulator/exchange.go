package simulator

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

const maxBody = 64 << 20 // of a request

// exchange is one generation request and its reply.
type exchange struct {
	s     *Server
	p     *protocol
	w     http.ResponseWriter
	flush *http.ResponseController
	r     *http.Request
	conn  *stampedConn // nil outside Serve
	fault *Fault
	rec   *record
	reply *reply

	request   request
	seq       *sequence
	weights   *weights
	reasoning int // reasoning tokens before the answer
	text      answerText
	top       []tokenScore   // the likeliest first tokens, where they are wanted
	verdict   result.Verdict // as Record has it
	call      string         // the name of the function that is called; "" is none

	contentType string
	frame       frameFunc
	framed      []byte       // reused
	held        []byte       // of the body, held back by a fault
	zip         *gzip.Writer // nil without compression
	zipped      bytes.Buffer // of zip
}

// generate answers the requests of one protocol. An error of an exchange ends the connection.
func (s *Server) generate(p *protocol, path string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		x := s.newExchange(p, path, w, r)
		err := x.run()
		if x.seq != nil {
			x.seq.replica.abort(x.seq)
			x.rec.progress(x.seq.progress())
		}
		x.rec.update(func(r *Record) { r.Complete = true })
		s.o.Logger.Debug("request", "path", path, "fault", x.fault.Name, "err", err)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

func (s *Server) newExchange(p *protocol, path string, w http.ResponseWriter, r *http.Request) *exchange {
	x := &exchange{
		s: s, p: p, w: w, r: r, flush: http.NewResponseController(w), weights: s.weights.Load(),
		fault: s.faultOf(r), contentType: framings()[p.Framing].contentType,
	}
	x.rec = &record{r: Record{
		TraceID: traceID(r.Header.Get("Traceparent")), Path: path, Fault: x.fault.Name, Arrival: time.Now(), Replica: -1,
	}}
	s.records.put(x.rec.r.TraceID, x.rec)
	if x.conn, _ = r.Context().Value(connKey{}).(*stampedConn); x.conn != nil {
		x.conn.before = x.rec.stamp
	}
	x.reply = &reply{
		p: p, ID: fmt.Sprintf("%016x%016x", s.rng.Uint64(), s.rng.Uint64()), Model: jsonText(s.o.Model),
		Created: time.Now().Unix(), Fingerprint: x.weights.fingerprint(), Path: path,
	}
	w.Header().Set("Server", "uvicorn")
	return x
}

// traceID returns the trace id of a W3C traceparent header, or nothing.
func traceID(traceparent string) string {
	parts := strings.Split(traceparent, "-")
	if len(parts) < 4 || len(parts[1]) != 32 {
		return ""
	}
	return parts[1]
}

func (x *exchange) ctx() context.Context { return x.r.Context() }

func (x *exchange) run() error {
	if x.fault.Name == "early_answer" {
		return x.answerEarly()
	}
	body, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, maxBody))
	if err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	if done, err := x.fault.answer(x); done || err != nil {
		return err
	}
	err = x.understand(body)
	switch {
	case err == nil && x.request.inputs != nil:
		err = x.answerInputs()
	case err == nil:
		err = x.generate()
	}
	if no, ok := errors.AsType[refusal](err); ok {
		return x.refuse(no)
	}
	return err
}

// understand reads the request, and the model from the path, where it is, of Gemini as MODEL:METHOD.
func (x *exchange) understand(body []byte) (err error) {
	a := &x.request
	if *a, err = x.p.Request.parse(body); err != nil {
		return err
	}
	a.spoilt = x.fault.Spoilt
	a.continuousUsage = a.continuousUsage || x.fault.Name == "usage_every_chunk"
	a.echo = a.echo && x.fault.Name != "no_echo"
	a.model = cmp.Or(x.r.PathValue("model"), a.model)
	if call := x.r.PathValue("call"); call != "" {
		model, method, _ := strings.Cut(call, ":")
		if a.model, a.stream = model, method == "streamGenerateContent"; !a.stream && method != "generateContent" {
			return refusal{http.StatusNotFound, "NotFoundError", "there is no method " + method}
		}
	}
	if a.model != "" && a.model != x.s.o.Model {
		return refusal{http.StatusNotFound, "NotFoundError", fmt.Sprintf("The model `%s` does not exist.", a.model)}
	}
	return nil
}

func (x *exchange) generate() error {
	if err := x.submit(); err != nil {
		return err
	}
	if x.request.stream {
		return x.streamReply(x.tokens)
	}
	return x.wholeReply()
}

func (x *exchange) refuse(no refusal) error {
	return x.answer(no.status, "application/json", x.reply.fail(nil, "failure", no, bare))
}

// answer writes a reply in one piece.
func (x *exchange) answer(status int, contentType string, body []byte) error {
	x.w.Header().Set("Content-Type", contentType)
	x.w.WriteHeader(status)
	_, err := x.w.Write(body)
	return err
}

// await returns the progress of the sequence once it has more tokens than seen, or has ended.
func (x *exchange) await(seen int) (progress, error) {
	for {
		p := x.seq.progress()
		if p.tokens > seen || p.finish != "" {
			x.rec.progress(p)
			return p, nil
		}
		select {
		case <-x.seq.ready:
		case <-x.ctx().Done():
			return p, x.ctx().Err()
		}
	}
}

func (x *exchange) wholeReply() error {
	var p progress
	for p.finish == "" {
		var err error
		if p, err = x.await(p.tokens); err != nil {
			return err
		}
	}
	r := x.reply
	r.Finish, r.Scores = x.p.nameOf(p.finish), x.score(p.tokens)
	for i := range p.tokens {
		if i < x.reasoning {
			r.Thoughts = x.appendToken(r.Thoughts, i)
		} else {
			r.Text = x.appendToken(r.Text, i)
		}
	}
	return x.answer(http.StatusOK, "application/json", r.whole(x.usage(p, p.tokens)))
}

func (x *exchange) appendToken(dst []byte, i int) []byte {
	if i < x.reasoning {
		thoughts := answerText{offset: x.text.offset, order: x.text.order}
		return thoughts.append(dst, i)
	}
	return x.text.append(dst, i-x.reasoning)
}

// usage returns the counts after n output tokens.
func (x *exchange) usage(p progress, n int) usage {
	u := usage{Prompt: len(x.request.prompt), Output: n, Cached: p.cached, Reasoning: -1}
	if x.reasoning > 0 {
		u.Reasoning = min(n, x.reasoning)
	}
	if p.tokens > 0 {
		u.Times = serverTimes{p.scheduled.Sub(p.arrival), p.first.Sub(p.scheduled), time.Since(p.first)}
	}
	return u
}

const defaultOutput = 256 // tokens of an answer to a request that names no limit

// submit gives the request to its replica.
func (x *exchange) submit() error {
	o, a := &x.s.o, &x.request
	if room := o.ContextLength - len(a.prompt); max(a.maxOutput, a.minOutput, 1) > room {
		return badRequest("the model's context length is %d tokens, but %d in the prompt and %d of output were asked",
			o.ContextLength, len(a.prompt), max(a.maxOutput, a.minOutput, 1))
	}
	if err := sleep(x.ctx(), o.FixedDelay); err != nil {
		return err
	}
	if a.reasoning {
		x.reasoning = o.ReasoningTokens
	}
	output, reason := x.compose()
	x.drawFirst()
	x.seq = newSequence(a.prompt, output, reason)
	x.seq.scored, x.seq.stream, x.seq.pace = a.echo, a.stream, x.s.pace()
	to := x.s.route(x.r.Header.Get(o.StickyHeader), a.prompt)
	if o.Replicas > 1 {
		x.w.Header().Set("X-Served-By", "replica-"+strconv.Itoa(to.index))
	}
	if !to.submit(x.seq) {
		x.seq = nil
		return refusal{http.StatusServiceUnavailable, "ServiceUnavailableError", "the queue is full"}
	}
	x.rec.update(func(r *Record) {
		r.PromptTokens, r.Replica, r.Verdict = len(a.prompt), to.index, x.verdict
	})
	return nil
}

// compose decides what to say, and returns its length and how it ends.
func (x *exchange) compose() (int, finish) {
	a := &x.request
	if a.form != nil {
		return x.sayForm()
	}
	if answer, verdict, ok := x.s.answerTo(a, x.weights); ok {
		x.text.fixed = answer
		n := x.reasoning + len(answer)
		if limit := cmp.Or(a.maxOutput, x.s.o.ContextLength-len(a.prompt)); limit < n {
			if verdict == result.VerdictRepetition && limit-x.reasoning >= len(answer)/2 {
				x.verdict = verdict // a loop is known by less
			}
			return limit, finishLength
		}
		if !a.ignoreEOS && a.minOutput <= n {
			x.verdict = verdict
			return n, finishStop
		}
	}
	output, reason := x.s.outputLength(a)
	if version := x.weights.version; version != "" {
		x.text.order = hashText("voice", version, a.text) | 1
	}
	switch {
	case a.sampled:
		x.text.offset = x.s.rng.IntN(100)
	case x.s.rng.Float64() < x.s.o.GreedyFlips:
		x.text.flipAt = 1 + x.s.rng.IntN(max(1, output-x.reasoning))
	}
	return output, reason
}

// pace draws how much longer than usual a prompt takes.
func (s *Server) pace() float64 {
	variance := math.Log1p(s.o.PrefillNoise * s.o.PrefillNoise) // of the logarithm of a number with mean 1
	return math.Exp(math.Sqrt(variance)*s.rng.NormFloat64() - variance/2)
}

// outputLength decides when the model ends: at the limit, which is defaultOutput where none is given.
func (s *Server) outputLength(a *request) (int, finish) {
	room := s.o.ContextLength - len(a.prompt)
	switch {
	case a.maxOutput > 0:
		return a.maxOutput, finishLength
	case a.ignoreEOS:
		return room, finishLength
	}
	return min(max(defaultOutput, a.minOutput), room), finishStop
}

package simulator

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/inference-exporter/inference_exporter/internal/result"
)

// Fault is one way in which a server misbehaves. A request shows it when its path starts with /fault/NAME.
type Fault struct {
	Name        string // lower case with underscores
	Description string // says in one line what the server does

	effect `yaml:",inline"`
	More   []effect // on events, after those of the first
}

// effect is what the server does, as far as it is no function of its own.
type effect struct {
	// An error answer.
	Status        int
	Kind, Message string
	Header        map[string]string
	// Type and Body are an answer with status 200, Raw is what is written instead of HTTP, Answer an end in the place
	// of an answer, Delay the time before the answer, and Spoilt what a call of a function or JSON comes to.
	Type, Body, Raw, Answer string
	Delay                   time.Duration
	Spoilt                  result.Verdict
	// Frame is one of framings, from the events At on if set, Cut how the pieces end that events are written in: their
	// length, or rune or crlf, inside of which they end. Pause is between them.
	Frame, Cut string
	Pause      time.Duration
	// At are the events that change: those of a Kind, token, which have one, text, which is a token of the answer,
	// last, which has the finish reason, final, after which no JSON comes, or any. Of tokens that is the one of the number
	// Token, those of From on, counted from 1, or each of Every.
	At                 string
	Token, From, Every int
	// The changes: a Pause before the event; what is written before (or After) it, verbatim or as Payloads, of the kind
	// Writes, with so many times 64 kB to Fill what is between; the usage as it is (Counted), other Counts of prompt,
	// output, cached and reasoning tokens; another text, of Replace one after the other; no finish reason. Then the end of
	// the stream, or the last of all again and again.
	Write, Payloads       []string
	Writes                Kind
	Fill                  int
	Counts                []*int // nil are as they are
	Prepend, Append, Then string
	Replace               []string
	Repeat                time.Duration

	After, Skip, Unfinished, Counted bool
}

var allFaults = sync.OnceValue(func() (all []Fault) {
	read("faults.yml", &all)
	slices.SortFunc(all, func(a, b Fault) int { return strings.Compare(a.Name, b.Name) })
	return all
})

// Faults lists all faults, by name.
func Faults() []Fault { return slices.Clone(allFaults()) }

// FaultNamed returns the fault of the given name.
func FaultNamed(name string) (Fault, bool) {
	for _, f := range allFaults() {
		if f.Name == name {
			return f, true
		}
	}
	return Fault{}, false
}

// end ends the reply in one of the ways of a fault.
func (x *exchange) end(how string, next sink) error {
	switch how {
	case "cut":
		return errCut
	case "close":
		return errOver
	case "reset":
		if x.conn != nil {
			x.conn.reset()
		}
		return errCut
	case "hang":
		<-x.ctx().Done()
		return x.ctx().Err()
	case "finish":
		return next(&event{kind: Finish, finish: finishStop})
	case "role":
		return cmp.Or(next(&event{kind: Role}), sleep(x.ctx(), time.Second))
	case "fail": // as vLLM does
		return cmp.Or(emit(next, event{kind: Failure, text: []byte("EngineCore encountered an issue")}, event{kind: Done}), errOver)
	}
	return nil
}

// answer takes the request over once it is read, or prepares the reply and returns false.
func (f *Fault) answer(x *exchange) (done bool, err error) {
	switch {
	case f.Delay > 0:
		return false, sleep(x.ctx(), f.Delay)
	case f.Answer != "":
		return true, x.end(f.Answer, nil)
	case f.Status > 0:
		for name, value := range f.Header {
			x.w.Header().Set(name, value)
		}
		return true, x.refuse(refusal{f.Status, f.Kind, f.Message})
	case f.Type != "":
		return true, x.answer(http.StatusOK, f.Type, []byte(f.Body))
	case f.Raw != "":
		return true, x.writeRaw([]byte(f.Raw))
	}
	switch f.Name {
	case "json_200":
		x.reply.Text, x.reply.Finish = jsonText("zero one"), x.p.nameOf(finishStop)
		return true, x.answer(http.StatusOK, "application/json", x.reply.whole(usage{Prompt: 1, Output: 2}))
	case "wrong_content_type":
		x.contentType = "application/octet-stream"
	case "redirect_other_host", "redirect_loop":
		to := map[string]string{"redirect_other_host": "http://other-host.invalid" + x.r.URL.Path, "redirect_loop": x.r.RequestURI}
		http.Redirect(x.w, x.r, to[f.Name], http.StatusTemporaryRedirect)
		return true, nil
	}
	return false, nil
}

// writeRaw takes the connection over, writes to it, and closes it.
func (x *exchange) writeRaw(b []byte) error {
	c, _, err := x.flush.Hijack()
	if err != nil {
		return fmt.Errorf("take over the connection: %w", err)
	}
	defer func() { _ = c.Close() }() // the write reports what matters
	if x.conn == nil {
		x.rec.stamp(time.Now())
	}
	_, err = c.Write(b)
	return err
}

// answerEarly streams eight tokens without looking at the request.
func (x *exchange) answerEarly() error {
	if err := x.flush.EnableFullDuplex(); err != nil {
		return fmt.Errorf("answer early: %w", err)
	}
	x.request = request{prompt: []token{templateToken}, maxOutput: 8, stream: true, usage: true}
	return x.generate()
}

// is reports whether an event is one that the effect is at; n counts the tokens so far, with its own.
func (f *effect) is(x *exchange, e *event, n int) bool {
	switch f.At {
	case "any":
		return e.kind != open && e.kind != end
	case "token", "text":
		return e.tokens > 0 && (f.At == "token" || e.kind == Answer) && n >= f.From &&
			(f.Token == 0 || n == f.Token) && (f.Every == 0 || n%f.Every == 0)
	case "last":
		return e.finish != ""
	case "final":
		return e.kind == Usage || e.finish != "" && !x.request.usage
	}
	return string(e.kind) == f.At
}

// shape returns the sink that shows what the fault does to the events.
func (f *Fault) shape(x *exchange, next sink) sink {
	for _, e := range slices.Backward(f.More) {
		next = e.shape(x, next)
	}
	return f.effect.shape(x, next)
}

func (f *effect) shape(x *exchange, next sink) sink {
	if f.At == "" {
		return next
	}
	n := 0
	return func(e *event) error {
		if e.tokens > 0 && (f.At != "text" || e.kind == Answer) {
			n++
		}
		if !f.is(x, e, n) {
			return next(e)
		}
		return f.change(x, e, n, next)
	}
}

func (f *effect) change(x *exchange, e *event, n int, next sink) error {
	if f.Pause > 0 && f.Cut == "" {
		if err := sleep(x.ctx(), f.Pause); err != nil {
			return err
		}
	}
	changed := *e
	if f.Frame != "" && x.isSSE() {
		x.frame = framings()[f.Frame].frame
	}
	if f.Counted || f.Counts != nil {
		p := x.seq.progress()
		u := x.usage(p, p.tokens)
		for i, to := range []*int{&u.Prompt, &u.Output, &u.Cached, &u.Reasoning} {
			if f.Counts != nil && f.Counts[i] != nil {
				*to = *f.Counts[i]
			}
		}
		changed.usage = &u
	}
	if len(f.Replace) > 0 {
		changed.text = []byte(f.Replace[(n-1)%len(f.Replace)])
	}
	if f.Prepend+f.Append != "" {
		changed.text = []byte(f.Prepend + string(e.text) + f.Append)
	}
	if f.Unfinished {
		changed.finish = ""
	}
	var all []event
	for i, bytes := range f.Write {
		if i > 0 && f.Fill > 0 {
			all = append(all, slices.Repeat([]event{{kind: Odd, verbatim: strings.Repeat("a", 64<<10)}}, f.Fill)...)
		}
		all = append(all, event{kind: cmp.Or(f.Writes, Odd), verbatim: bytes})
	}
	for _, payload := range f.Payloads {
		all = append(all, event{kind: cmp.Or(f.Writes, Odd), payload: payload})
	}
	if f.After {
		all = slices.Insert(all, 0, changed)
	}
	if err := emit(next, all...); err != nil {
		return err
	}
	for f.Repeat > 0 {
		if err := sleep(x.ctx(), f.Repeat); err != nil {
			return err
		}
		if err := next(&all[len(all)-1]); err != nil {
			return err
		}
	}
	if err := x.end(f.Then, next); err != nil || f.After || f.Skip {
		return err
	}
	return next(&changed)
}

// cutAt returns the length of the next piece of b; the rest is one piece if it returns 0 or too much.
func (f *Fault) cutAt(b []byte) int {
	switch f.Cut {
	case "rune": // after the first byte of the first character that has several
		return bytes.IndexFunc(b, func(r rune) bool { return r >= utf8.RuneSelf && r != utf8.RuneError }) + 1
	case "crlf":
		return bytes.IndexByte(b, '\r') + 1
	}
	n, _ := strconv.Atoi(f.Cut) // the tests show each
	return n
}

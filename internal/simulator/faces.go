package simulator

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"sync"
	"text/template"
	"time"
)

// protocol is one wire protocol, a file of faces: it reads a request and writes a reply, and knows nothing of time.
type protocol struct {
	Paths []string // where it is served
	// Engine, if set, is the only server software with this face, which there goes before others of its path.
	Engine  string
	Request reading
	Framing string            // one of framings
	Finish  map[finish]string // names the reasons to finish, where they have other names
	Kinds   map[int]string    // names errors by status; 400 and 500 stand for the others of their class
	Header  map[string]string // templates of headers of a reply about inputs
	// Events are templates by the part of a reply that they write, and templates that those use. A line of what one
	// writes is a payload, with its name in the framing before it. Of a stream: role, then open, reasoning, answer or
	// call, and close of each block of material, stop with the finish reason, finish where that is without a token,
	// usage, end with the usage or at the end, done, broken in the place of what failed. Else: whole, failure. A part
	// without a template is not written.
	Events map[string]string

	templates, header *template.Template
}

// protocols returns what the server speaks.
var protocols = sync.OnceValue(func() (all []*protocol) {
	names, _ := fs.Glob(files, "faces/*.yml") // never fails: it is a pattern
	for _, name := range names {
		p := &protocol{}
		read(name, p)
		p.templates, p.header = compile(p.Events), compile(p.Header)
		all = append(all, p)
	}
	return all
})

// base64Vector encodes little-endian 32-bit floats.
func base64Vector(v []float32) string {
	b, _ := binary.Append(nil, binary.LittleEndian, v) // never fails: their size is fixed
	return base64.StdEncoding.EncodeToString(b)
}

type jsonText []byte

// String returns the text in JSON.
func (t jsonText) String() string { return jsonOf(string(t)) }

// jsonOf returns what is no cycle, channel or function in JSON.
func jsonOf(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // cannot happen: texts and numbers
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// reply writes the parts of one reply by the templates of its protocol, which see its exported members.
type reply struct {
	ID          string // 32 hex digits
	Model       jsonText
	Created     int64  // Unix seconds
	Fingerprint string // the system_fingerprint; "" is none
	Path        string
	// Kind and Index are those of the block of material; Name and Arguments those of a call so far.
	Kind            Kind
	Index           int
	Name, Arguments jsonText
	// Text is what the event holds, All what all did, Thoughts the reasoning of a whole reply.
	Text, All, Thoughts jsonText
	Top                 []tokenScore // the likeliest tokens in the place of the first one
	// Tokens and Total count those of the event and of all, Thinking those of the reasoning.
	Tokens, Total, Thinking int
	Finish                  string
	// Usage is the latest; Counted reports that there is one that is not of the role, Details that it has the cached tokens.
	Usage            usage
	Counted, Details bool
	Scores           *scores // the log-probabilities of a whole reply; nil are not wanted
	Inputs           inputs
	Took             time.Duration // of the prefill of inputs
	Status           int           // of an error, as are:
	Error            string
	Message          jsonText

	p     *protocol
	next  int
	open  bool // a block of material
	ended bool
	buf   bytes.Buffer // reused
}

// Next returns 0, 1 and so on.
func (r *reply) Next() int {
	r.next++
	return r.next - 1
}

// Said is a whole text after the prompt that is scored, if any.
func (r *reply) Said() jsonText {
	if r.Scores == nil {
		return r.Text
	}
	return append(jsonText(r.Scores.text), r.Text...)
}

// Value returns the arguments of a call as the object that they are, or as a text.
func (r *reply) Value() string {
	if json.Valid(r.Arguments) {
		return string(r.Arguments)
	}
	return r.Arguments.String()
}

func (r *reply) take(e *event) {
	r.Text, r.Tokens, r.Top = e.text, e.tokens, e.top
	r.Total += e.tokens
	r.All = append(r.All, e.text...)
	switch e.kind {
	case Reasoning:
		r.Thinking += e.tokens
	case Call:
		r.Arguments = append(r.Arguments, e.text...)
	}
	if e.name != "" {
		r.Name = jsonText(e.name)
	}
	if r.Finish == "" || e.kind == Finish && r.p.Events["finish"] != "" { // where a second one is seen
		r.Finish = r.p.nameOf(e.finish)
	}
	if e.usage != nil {
		cached := r.Usage.Cached
		r.Usage, r.Counted, r.Details = *e.usage, e.kind != Role, e.kind == Usage || e.usage.Cached >= 0
		if r.Usage.Cached < 0 {
			r.Usage.Cached = cached // known with the role, before the first token
		}
		r.Usage.Reasoning = max(r.Usage.Reasoning, 0)
		r.Thinking = max(r.Thinking, r.Usage.Reasoning)
	}
}

func (p *protocol) nameOf(f finish) string { return cmp.Or(p.Finish[f], string(f)) }

// add appends what a template writes.
func (r *reply) add(dst []byte, name string, frame frameFunc) []byte {
	r.buf.Reset()
	execute(r.p.templates, name, &r.buf, r)
	for line := range bytes.Lines(r.buf.Bytes()) {
		if at := bytes.IndexAny(line, "{["); at >= 0 {
			dst = frame(dst, string(bytes.TrimSpace(line[:at])), bytes.TrimSpace(line[at:]))
		}
	}
	return dst
}

// appendEvent appends what one event of a stream is on the wire: one payload in its frame, or several; nothing, if the
// protocol has no such event.
func (r *reply) appendEvent(dst []byte, e *event, frame frameFunc) []byte {
	r.take(e)
	switch e.kind {
	case Failure:
		r.ended = true
		name := "broken"
		if r.p.Events[name] == "" {
			name = "failure"
		}
		return r.fail(dst, name, refusal{500, "InternalServerError", string(e.text)}, frame)
	case Reasoning, Answer, Call:
		dst = r.appendMaterial(dst, e, frame)
	case Role, Finish, Usage:
		dst = r.add(dst, string(e.kind), frame)
	}
	if e.finish != "" {
		dst = r.add(r.closeBlock(dst, frame), "stop", frame)
	}
	if !r.ended && (e.kind == Usage || e.kind == Done) {
		dst = r.add(dst, "end", frame)
		r.ended = e.kind == Usage
	}
	if e.kind == Done {
		dst = r.add(dst, "done", frame)
	}
	return dst
}

// appendMaterial writes material in a block of its kind.
func (r *reply) appendMaterial(dst []byte, e *event, frame frameFunc) []byte {
	if !r.open || r.Kind != e.kind || e.name != "" {
		dst = r.closeBlock(dst, frame)
		r.open, r.Kind = true, e.kind
		dst = r.add(dst, "open", frame)
	}
	if e.name != "" {
		return dst
	}
	return r.add(dst, string(e.kind), frame)
}

func (r *reply) closeBlock(dst []byte, frame frameFunc) []byte {
	if r.open {
		dst = r.add(dst, "close", frame)
		r.open = false
		r.Index++
	}
	return dst
}

// fail writes an error, in the words of OpenAI where the protocol has no own.
func (r *reply) fail(dst []byte, name string, no refusal, frame frameFunc) []byte {
	if r.p.Events[name] == "" {
		return frame(dst, "", openaiFailure(no))
	}
	r.Error = cmp.Or(r.p.Kinds[no.status], r.p.Kinds[min(no.status/100, 5)*100], no.kind)
	r.Status, r.Message = no.status, jsonText(no.message)
	return r.add(dst, name, frame)
}

// whole returns the body of a reply that is not streamed, whose other members are set.
func (r *reply) whole(u usage) []byte {
	u.Cached, u.Reasoning = max(0, u.Cached), max(0, u.Reasoning)
	r.Usage, r.Counted, r.Details, r.Tokens, r.Thinking = u, true, true, u.Output, u.Reasoning
	return r.add(nil, "whole", bare)
}

func (r *reply) setHeader(h http.Header) {
	for name := range r.p.Header {
		r.buf.Reset()
		execute(r.p.header, name, &r.buf, r)
		h.Set(name, r.buf.String())
	}
}

func openaiFailure(r refusal) []byte {
	return fmt.Appendf(nil, `{"error":{"message":%s,"type":%q,"param":null,"code":%d}}`, jsonOf(r.message), r.kind, r.status)
}

package api

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/valyala/fastjson"
)

const (
	maxMessage   = 256 // bytes of a server's text that are shown
	maxErrorType = 64  // bytes of a server's error type that are shown
	maxParam     = 64  // bytes of a parameter's name that are shown
	// maxKept is how much of each is kept, in bytes. It is more than is shown, so
	// that a secret that the server quotes is whole when it is looked for.
	maxKept = 4 << 10
)

// ParseHTTPError reads the body of a reply with an error status. Whatever the
// body is, the result is not nil and has a message.
func ParseHTTPError(status int, body []byte) *ServerError {
	e := describeError(body)
	e.Status = status
	if e.Message == "" {
		e.Message = http.StatusText(status)
	}
	if e.Message == "" {
		e.Message = "status " + strconv.Itoa(status)
	}
	return e
}

// ParseError reads a body that is bare JSON where a stream was due; nil is a
// body that reports no error.
func ParseError(body []byte) *ServerError {
	var p fastjson.Parser
	v, err := parseJSON(&p, body)
	if err != nil {
		return nil
	}
	return errorIn(v)
}

// describeError reads a text that is known to be an error.
func describeError(body []byte) *ServerError {
	var p fastjson.Parser
	v, err := parseJSON(&p, body)
	if err != nil {
		return &ServerError{Message: boundedTo(title(body), maxKept)}
	}
	if e := errorIn(v); e != nil {
		return e
	}
	return readError(v, v)
}

// title returns what the title of a web page says, which is what proxies and web
// servers say in their error pages; a text that is none as it is.
func title(body []byte) []byte {
	const begin, end = "<title>", "</title>"
	lower := bytes.ToLower(body[:min(len(body), maxKept)])
	from := bytes.Index(lower, []byte(begin))
	if from < 0 || len(lower) != len(body[:min(len(body), maxKept)]) {
		return body
	}
	from += len(begin)
	length := bytes.Index(lower[from:], []byte(end))
	if length <= 0 {
		return body
	}
	return body[from : from+length]
}

// errorIn finds the error that an object reports, in the shapes that servers
// use: {"error": object or text}, {"object": "error"}, {"type": "error"},
// Groq's {"x_groq": {"error": text}}, and a message with the code of an error
// beside it (DashScope); Google's servers put the object into a list. nil is
// none.
func errorIn(v *fastjson.Value) *ServerError {
	if list := v.GetArray(); len(list) > 0 {
		v = list[0]
	}
	if e := v.Get("error"); told(e) {
		return readError(e, v)
	}
	if string(v.GetStringBytes("object")) == "error" || string(v.GetStringBytes("type")) == "error" {
		return readError(v, v)
	}
	if e := v.Get("x_groq", "error"); told(e) {
		return readError(e, v)
	}
	if len(v.GetStringBytes("message")) > 0 && errorStatus(v, v) != 0 {
		return readError(v, v)
	}
	return nil
}

// told tells whether the value of an error field is an error: some servers
// send the field always, empty.
func told(v *fastjson.Value) bool {
	if v == nil {
		return false
	}
	switch v.Type() {
	case fastjson.TypeNull, fastjson.TypeFalse:
		return false
	case fastjson.TypeString:
		return len(v.GetStringBytes()) > 0
	case fastjson.TypeObject:
		return v.GetObject().Len() > 0
	case fastjson.TypeArray:
		return len(v.GetArray()) > 0
	}
	return true
}

// readError reads the error v, which is the object outer or a field of it.
func readError(v, outer *fastjson.Value) *ServerError {
	e := &ServerError{
		Message: firstText(maxKept, v, v.Get("message"), v.Get("detail"), v.Get("detail", "0", "msg")),
		Type:    firstText(maxKept, v.Get("type"), v.Get("error_type"), outer.Get("error_type"), v.Get("code"), v.Get("status")),
		Param:   firstText(maxKept, v.Get("param")),
	}
	if e.Param == "" {
		e.Param = located(v.Get("detail", "0", "loc"))
	}
	if e.Message == "" {
		e.Message = boundedTo(v.MarshalTo(nil), maxKept)
	}
	e.Status = errorStatus(v, outer)
	return e
}

// located returns the parameter that a place in the request names, as the
// validation of Python servers tells it: ["body", "stream_options", "x"].
func located(place *fastjson.Value) string {
	var steps []string
	for i, step := range place.GetArray() {
		if name := step.GetStringBytes(); len(name) > 0 && (i > 0 || string(name) != "body") {
			steps = append(steps, string(name))
		}
	}
	return boundedTo([]byte(strings.Join(steps, ".")), maxKept)
}

// firstText returns the first value that is a text with content, bounded. The
// type "error" is what wraps an error, not what it is.
func firstText(limit int, values ...*fastjson.Value) string {
	for _, v := range values {
		if s := boundedTo(v.GetStringBytes(), limit); s != "" && s != "error" {
			return s
		}
	}
	return ""
}

// bounded returns the beginning of a server's text as one line of printable
// UTF-8 of at most 256 bytes.
func bounded(text []byte) string { return boundedTo(text, maxMessage) }

func boundedTo(text []byte, limit int) string {
	var b strings.Builder
	space := false
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		text = text[size:]
		if !unicode.IsPrint(r) || r == ' ' {
			space = b.Len() > 0
			continue
		}
		need := utf8.RuneLen(r)
		if space {
			need++
		}
		if b.Len()+need > limit {
			break
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(r)
	}
	return b.String()
}

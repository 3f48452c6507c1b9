package api

import (
	"cmp"
	_ "embed"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/internal/asset"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
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
	e.Message = cmp.Or(e.Message, http.StatusText(status), "status "+strconv.Itoa(status))
	return e
}

// ParseError reads a body that is bare JSON where a stream was due; nil is a body that reports no error.
func ParseError(body []byte) *ServerError {
	v, err := parseJSON(new(fastjson.Parser), body)
	if err != nil {
		return nil
	}
	return errorIn(v)
}

// describeError reads a text that is known to be an error.
func describeError(body []byte) *ServerError {
	v, err := parseJSON(new(fastjson.Parser), body)
	if err != nil {
		return &ServerError{Message: kept(title(body))}
	}
	if e := errorIn(v); e != nil {
		return e
	}
	return readError(v, v)
}

// title returns what the title of a web page says, which is what proxies and web
// servers say in their error pages; a text that is none as it is.
func title(body []byte) []byte {
	found := regexp.MustCompile(`(?is)<title>(.+?)</title>`).FindSubmatch(body[:min(len(body), maxKept)])
	if found == nil {
		return body
	}
	return found[1]
}

// errorIn finds the error that an object reports; nil is none. Shapes: {"error": object or text}, {"object":
// "error"}, {"type": "error"}, {"x_groq": {"error": text}}, a message beside the code of an error (DashScope),
// and the object in a list (Google).
func errorIn(v *fastjson.Value) *ServerError {
	if list := v.GetArray(); len(list) > 0 {
		v = list[0]
	}
	if e := v.Get("error"); isSet(e) {
		return readError(e, v)
	}
	if string(v.GetStringBytes("object")) == "error" || string(v.GetStringBytes("type")) == "error" {
		return readError(v, v)
	}
	if e := v.Get("x_groq", "error"); isSet(e) {
		return readError(e, v)
	}
	if len(v.GetStringBytes("message")) > 0 && errorStatus(v, v) != 0 {
		return readError(v, v)
	}
	return nil
}

// isSet reports whether the value of an error field is an error: some servers send the field always, empty.
func isSet(v *fastjson.Value) bool {
	return v != nil && v.Type() != fastjson.TypeNull && !slices.Contains([]string{"false", `""`, "{}", "[]"}, v.String())
}

// readError reads the error v, which is the object outer or a field of it.
func readError(v, outer *fastjson.Value) *ServerError {
	e := &ServerError{
		Status:  errorStatus(v, outer),
		Type:    firstText(v.Get("type"), v.Get("error_type"), outer.Get("error_type"), v.Get("code"), v.Get("status")),
		Param:   cmp.Or(firstText(v.Get("param")), located(v.Get("detail", "0", "loc"))),
		Message: firstText(v, v.Get("message"), v.Get("detail"), v.Get("detail", "0", "msg")),
	}
	if e.Message == "" {
		e.Message = kept(v.MarshalTo(nil))
	}
	return e
}

// located returns the parameter that a place in the request names, as the
// validation of Python servers writes it: ["body", "stream_options", "x"].
func located(place *fastjson.Value) string {
	var steps []string
	for i, step := range place.GetArray() {
		if name := step.GetStringBytes(); len(name) > 0 && (i > 0 || string(name) != "body") {
			steps = append(steps, string(name))
		}
	}
	return kept([]byte(strings.Join(steps, ".")))
}

// firstText returns the first value that is a text with content, bounded. The
// type "error" is what wraps an error, not what it is.
func firstText(values ...*fastjson.Value) string {
	for _, v := range values {
		if s := kept(v.GetStringBytes()); s != "" && s != "error" {
			return s
		}
	}
	return ""
}

// kept returns a server's text on one line, as much of it as is kept, and bounded as much as is shown.
func kept(text []byte) string    { return safetext.Line(string(text), maxKept) }
func bounded(text []byte) string { return safetext.Line(string(text), maxMessage) }

// StatusSiteOverloaded is what Anthropic and some gateways answer under load.
const StatusSiteOverloaded = 529

// errorStatus returns the HTTP status that an error names; 0 is none. A status in the error or around it
// decides, else the name of a code or of a type, the code first, as OpenAI's types are coarse: an
// invalid_api_key is an invalid_request_error too.
func errorStatus(e, outer *fastjson.Value) int {
	for _, v := range [...]*fastjson.Value{e, outer} {
		for _, field := range [...]string{"code", "status", "status_code", "statusCode", "http_status_code", "http_code"} {
			if status := statusNumber(v.Get(field)); status != 0 {
				return status
			}
		}
	}
	for _, v := range [...]*fastjson.Value{e, outer} {
		for _, field := range [...]string{"code", "status", "type", "error_type", "__type"} {
			if status := namedStatus(string(v.GetStringBytes(field))); status != 0 {
				return status
			}
		}
	}
	return 0
}

// statusNumber returns the status of an error that a value is, as a number or as a text; 0 is none.
func statusNumber(v *fastjson.Value) int {
	n := count(v)
	if s := v.GetStringBytes(); len(s) == 3 {
		n, _ = strconv.Atoi(string(s))
	}
	if n < 400 || n > 599 {
		return 0
	}
	return n
}

// namedStatus returns the HTTP status that the name of an error means; 0 is unknown. Names differ in case, in
// separators, and in an ending: rate_limit_error, RateLimitError.
func namedStatus(name string) int {
	name = name[strings.LastIndexByte(name, '#')+1:] // AWS: the name space before it
	name, _, _ = strings.Cut(name, ".")              // DashScope: what exactly, behind it
	name = strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(name))
	name = strings.TrimSuffix(strings.TrimSuffix(name, "exception"), "error")
	return knownErrors().statuses[name]
}

//go:embed errors.yml
var errorsFile []byte

// errorWords is what servers say in errors.
type errorWords struct {
	statuses   map[string]int // by the names of errors
	rejections []*regexp.Regexp
}

// knownErrors returns what errors.yml says.
var knownErrors = sync.OnceValue(func() errorWords {
	file := asset.Once[struct {
		Names      map[int]string
		Rejections []string
	}]("errors.yml", errorsFile)()
	w := errorWords{statuses: map[string]int{}}
	for status, names := range file.Names {
		for _, name := range strings.Fields(names) {
			w.statuses[name] = status
		}
	}
	for _, phrase := range file.Rejections {
		w.rejections = append(w.rejections, regexp.MustCompile(strings.ReplaceAll(phrase, "NAME", "([A-Za-z_][A-Za-z0-9_.]*)")))
	}
	return w
})

// RejectedParameter returns the parameter of the request that the server does not take, "" where none is known:
// of a 400 or 422, by Param or else by phrases of the message. It is a hint for people, on which nothing may
// depend, and never what every request needs (the model, the prompt).
func (e *ServerError) RejectedParameter() string {
	if e.Status != http.StatusBadRequest && e.Status != http.StatusUnprocessableEntity {
		return ""
	}
	if isParameter(e.Param) {
		return dispensable(e.Param)
	}
	for _, phrase := range knownErrors().rejections {
		if found := phrase.FindStringSubmatch(e.Message); found != nil {
			return dispensable(strings.TrimRight(found[1], "."))
		}
	}
	return ""
}

// isParameter reports whether s can be a parameter's name: some gateways put other things into the place of one.
func isParameter(s string) bool {
	return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.[\]-]*$`).MatchString(s)
}

// dispensable returns name, or "" where no request can do without it.
func dispensable(name string) string {
	first, _, _ := strings.Cut(strings.ReplaceAll(name, "[", "."), ".")
	if slices.Contains([]string{"model", "messages", "prompt", "input", "inputs", "contents", "stream"}, first) {
		return ""
	}
	return name
}

package api

import (
	"cmp"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"

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
	found := regexp.MustCompile(`(?is)<title>(.+?)</title>`).FindSubmatch(body[:min(len(body), maxKept)])
	if found == nil {
		return body
	}
	return found[1]
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

// isSet reports whether the value of an error field is an error: some servers
// send the field always, empty.
func isSet(v *fastjson.Value) bool {
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
// validation of Python servers writes it: ["body", "stream_options", "x"].
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

// bounded returns the beginning of a server's text on one line.
func bounded(text []byte) string { return boundedTo(text, maxMessage) }

func boundedTo(text []byte, limit int) string { return safetext.Line(string(text), limit) }

// StatusSiteOverloaded is what Anthropic and some gateways answer under load.
const StatusSiteOverloaded = 529

// errorStatus returns the HTTP status that an error names; 0 is none. A status
// in the error or in the object around it decides, as a number or as a text;
// else the name of a code or of a type does, the code first, as OpenAI's types
// are coarse: an invalid_api_key is an invalid_request_error too.
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

// statusNumber returns the status of an error that a value is, as a number or
// as a text; 0 is none.
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

// namedStatus returns the HTTP status that the name of an error means, as
// a stream that began with 200 has the name alone; 0 is unknown. Names differ in
// case, in separators, and in an ending: rate_limit_error, RateLimitError.
//
// Sources: OpenAI (guides/error-codes, and the codes of a failed response),
// Anthropic (api/errors), Google (google.rpc.Code), Amazon Bedrock (the
// exceptions of ConverseStream), DashScope (error-code), llama.cpp (tools/server, error_type), the
// classes of exceptions of vLLM, SGLang and LiteLLM, text-generation-inference
// (error_type).
func namedStatus(name string) int {
	name = name[strings.LastIndexByte(name, '#')+1:] // AWS: the name space before it
	name, _, _ = strings.Cut(name, ".")              // DashScope: what exactly, behind it
	name = strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(name))
	name = strings.TrimSuffix(strings.TrimSuffix(name, "exception"), "error")
	for _, row := range errorNames() {
		if slices.Contains(strings.Fields(row.names), name) {
			return row.status
		}
	}
	return 0
}

type errorName struct {
	status int
	names  string
}

// errorNames are the statuses that the names of errors mean.
func errorNames() []errorName {
	return []errorName{
		{http.StatusBadRequest, "badrequest invalidrequest validation invalidargument failedprecondition outofrange"},
		{http.StatusBadRequest, "contextlengthexceeded contextwindowexceeded exceedcontextsize invalidprompt toolusefailed"},
		{http.StatusUnauthorized, "authentication unauthorized unauthenticated invalidapikey"},
		{http.StatusPaymentRequired, "billing"},
		{http.StatusForbidden, "permission permissiondenied forbidden accessdenied"},
		{http.StatusNotFound, "notfound modelnotfound resourcenotfound"},
		{http.StatusRequestTimeout, "modeltimeout"},
		{http.StatusRequestEntityTooLarge, "requesttoolarge"},
		{http.StatusUnprocessableEntity, "unprocessableentity"},
		{http.StatusFailedDependency, "modelstream model generation"},
		{http.StatusTooManyRequests, "ratelimit ratelimitexceeded ratelimitreached toomanyrequests throttling resourceexhausted"},
		{http.StatusTooManyRequests, "insufficientquota quotaexceeded servicequotaexceeded modelnotready"},
		{http.StatusInternalServerError, "server internal internalserver api"},
		{http.StatusNotImplemented, "unimplemented notimplemented notsupported"},
		{http.StatusBadGateway, "badgateway"},
		{http.StatusServiceUnavailable, "unavailable serviceunavailable slowdown engineoverloaded"},
		{http.StatusGatewayTimeout, "timeout gatewaytimeout deadlineexceeded"},
		{StatusSiteOverloaded, "overloaded"},
	}
}

// rejections are phrases with which servers name the parameter that they do
// not take; the first group is its name.
func rejections() []string {
	const name = "([A-Za-z_][A-Za-z0-9_.]*)"
	return []string{
		// OpenAI, Azure, vLLM's own checks; some gateways leave out the quotes.
		`[Uu]nsupported (?:parameter|value)s?: ['"]?` + name,
		`[Uu]nrecognized request arguments? supplied: ` + name,
		`[Uu]nknown (?:parameter|field|name):? ['"]` + name,
		// Python servers, in the text of a message.
		`['"]loc['"]: ?[(\[]['"]body['"], ?['"]` + name + `['"][)\]], ?['"]msg['"]: ?['"]Extra inputs`,
		name + `:?\s+Extra inputs are not permitted`,                           // Anthropic, and pydantic's own text
		"[`'\"]" + name + "[`'\"] is (?:deprecated|not supported|unsupported)", // Anthropic, Groq
		`[Pp]arameter ['"]` + name + `['"] is not a valid field`,
		`[Aa]rgument not supported on this model: ` + name,                  // xAI
		`does(?:n't| not) support (?:parameters: \[['"])?` + name + `['"=]`, // LiteLLM
		`extraneous key \[` + name + `\] is not permitted`,                  // Bedrock
	}
}

// RejectedParameter returns the parameter of the request that the server does
// not take, "" where none is known. The answer comes from a 400 or 422 alone,
// from Param or else from well-known phrasings of the message: a hint for
// people, on which nothing may depend. What every request needs (the model,
// the prompt) is never returned.
func (e *ServerError) RejectedParameter() string {
	if e.Status != http.StatusBadRequest && e.Status != http.StatusUnprocessableEntity {
		return ""
	}
	if isParameter(e.Param) {
		return dispensable(e.Param)
	}
	for _, phrase := range rejections() {
		if found := regexp.MustCompile(phrase).FindStringSubmatch(e.Message); found != nil {
			return dispensable(strings.TrimRight(found[1], "."))
		}
	}
	return ""
}

// isParameter reports whether s can be a parameter's name: some gateways put
// other things into the place of one.
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

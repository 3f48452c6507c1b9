package api

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/valyala/fastjson"
)

// statusSiteOverloaded is the status of Anthropic's overloaded_error.
const statusSiteOverloaded = 529

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

// namedStatus returns the HTTP status that the name of an error stands for, as
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
	switch name {
	case "badrequest", "invalidrequest", "validation", "invalidargument", "failedprecondition", "outofrange",
		"contextlengthexceeded", "contextwindowexceeded", "exceedcontextsize", "invalidprompt", "toolusefailed":
		return http.StatusBadRequest
	case "authentication", "unauthorized", "unauthenticated", "invalidapikey":
		return http.StatusUnauthorized
	case "billing":
		return http.StatusPaymentRequired
	case "permission", "permissiondenied", "forbidden", "accessdenied":
		return http.StatusForbidden
	case "notfound", "modelnotfound", "resourcenotfound":
		return http.StatusNotFound
	case "modeltimeout":
		return http.StatusRequestTimeout
	case "requesttoolarge":
		return http.StatusRequestEntityTooLarge
	case "unprocessableentity":
		return http.StatusUnprocessableEntity
	case "modelstream", "model", "generation":
		return http.StatusFailedDependency
	case "ratelimit", "ratelimitexceeded", "ratelimitreached", "toomanyrequests", "throttling", "resourceexhausted",
		"insufficientquota", "quotaexceeded", "servicequotaexceeded", "modelnotready":
		return http.StatusTooManyRequests
	case "server", "internal", "internalserver", "api":
		return http.StatusInternalServerError
	case "unimplemented", "notimplemented", "notsupported":
		return http.StatusNotImplemented
	case "badgateway":
		return http.StatusBadGateway
	case "unavailable", "serviceunavailable", "slowdown", "engineoverloaded":
		return http.StatusServiceUnavailable
	case "timeout", "gatewaytimeout", "deadlineexceeded":
		return http.StatusGatewayTimeout
	case "overloaded":
		return statusSiteOverloaded
	}
	return 0
}

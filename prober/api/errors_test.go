package api

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func isProtocolError(err error) bool { return errors.Is(err, ErrProtocol) }

func TestParseHTTPError(t *testing.T) {
	f := func(status int, body, wantType, wantMessage string) {
		t.Helper()
		want := &ServerError{Status: status, Type: wantType, Message: wantMessage}
		if d := cmp.Diff(want, ParseHTTPError(status, []byte(body))); d != "" {
			t.Errorf("%s (-want +got):\n%s", body, d)
		}
	}
	f(401, `{"error":{"message":"no key","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`, "invalid_request_error", "no key")
	f(404, `{"error":{"message":"no model","type":"NotFoundError","param":null,"code":404}}`, "NotFoundError", "no model")
	f(400, `{"object":"error","message":"too long","type":"BadRequestError","param":null,"code":400}`, "BadRequestError", "too long")
	f(503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, "unavailable_error", "Loading model")
	f(429, `{"error":"Model is overloaded","error_type":"overloaded"}`, "overloaded", "Model is overloaded")
	f(429, `{"error":{"message":"slow down","type":null,"param":null,"code":"429"}}`, "429", "slow down")
	f(502, `{"error":{"code":502,"message":"upstream","metadata":{"provider_name":"x"}}}`, "", "upstream")
	f(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, "overloaded_error", "Overloaded")
	f(413, `{"message":"batch too large","code":413,"type":"Validation"}`, "Validation", "batch too large")
	f(422, `{"detail":"bad value"}`, "", "bad value")
	f(422, `{"detail":[{"loc":["body"],"msg":"field required","type":"missing"}]}`, "", "field required")
	f(500, `{"error":{"reason":7}}`, "", `{"reason":7}`)
	f(500, `{"error":true}`, "", "true")
	f(500, `{"status":"failed"}`, "failed", `{"status":"failed"}`)
	f(500, `"boom"`, "", "boom")
	f(500, `Internal Server Error`+"\r\n", "", "Internal Server Error")
	f(502, "<html>\n<head><title>502</title></head>\n", "", "502")
	f(400, "<html>\r\n<head><TITLE>400 The plain HTTP request was sent to HTTPS port</TITLE></head>", "", "400 The plain HTTP request was sent to HTTPS port")
	f(502, "<html><title></title>down", "", "<html><title></title>down")
	f(503, "", "", "Service Unavailable")
	f(529, " \n", "", "status 529")
	f(500, `{"error":{"message":"cut of`, "", `{"error":{"message":"cut of`)
}

func TestServerErrorText(t *testing.T) {
	f := func(e ServerError, want string) {
		t.Helper()
		if got := e.Error(); got != want {
			t.Errorf("%+v: %q, want %q", e, got, want)
		}
	}
	f(ServerError{Type: "t", Message: "m"}, "t: m")
	f(ServerError{Message: "m"}, "m")
	f(ServerError{Type: "m", Message: "m"}, "m")
}

func TestBoundedText(t *testing.T) {
	f := func(in, want string) {
		t.Helper()
		if got := bounded([]byte(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	f("", "")
	f(" a\t\r\n b\x00\x1b[31m c ", "a b [31m c")
	f("caf\u00e9 \U0001f642", "caf\u00e9 \U0001f642")
	f("\xff", "\ufffd")
	f("a\u202eb\u2028c", "a b c") // marks that reorder or break a line
	f(strings.Repeat("x", 300), strings.Repeat("x", 253)+"...")
	f(strings.Repeat("x", 252)+"\u00e9abc", strings.Repeat("x", 252)+"...") // never half a character
}

func FuzzHTTPError(f *testing.F) {
	for _, s := range []string{"", `{"error":{"message":"m","code":"429"}}`, `{"error":"x","error_type":"y"}`, `[1]`, "null", "<html>\xff", `{"detail":[{"msg":"m","loc":["body","x",1,"y"]}]}`, `[{"error":{"message":"m","param":"p"}}]`} {
		f.Add(500, []byte(s))
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		e := ParseHTTPError(status, body)
		checkServerError(t, e)
		if e.Status != status || e.Message == "" {
			t.Fatalf("%q: %+v", body, e)
		}
		if models, err := ParseModels(body); err != nil && !isProtocolError(err) {
			t.Fatalf("%v, %v", models, err)
		}
	})
}

// checkServerError holds the bounds that a server's words keep.
func checkServerError(t *testing.T, e *ServerError) {
	t.Helper()
	if len(e.Message) > maxKept || len(e.Type) > maxKept || len(e.Param) > maxKept || !utf8.ValidString(e.Error()) || strings.ContainsAny(e.Error(), "\n\r\x00\x1b") {
		t.Fatalf("not bounded: %+q", e)
	}
}

// TestErrorStatus reads the status that an error inside a stream names, in the
// shapes of the documentation of servers and of recorded streams.
func TestErrorStatus(t *testing.T) {
	f := func(want int, api string, bodies ...string) {
		t.Helper()
		for _, body := range bodies {
			got := decodeReply(t, api, strings.NewReader(body+"\n\n")).Err
			if got.Status != want || got.Message == "" {
				t.Errorf("%s: %+v, want status %d", body, got, want)
			}
		}
	}
	const chat = "openai-chat"
	f(429, chat,
		`data: {"error":{"message":"m","code":429}}`,
		`data: {"error":{"message":"m","code":"429"}}`,
		`data: {"error":{"message":"m","status":429}}`,
		`data: {"error":{"message":"m","status_code":429}}`,
		`data: {"error":{"message":"m"},"status":429}`,
		`data: {"error":{"message":"m"},"status_code":"429"}`,
		`data: {"error":{"message":"m"},"code":429}`,
		`data: {"error":"m","code":429}`,
		`data: {"error":{"message":"m","type":"requests","code":"rate_limit_exceeded"}}`,
		`data: {"error":{"message":"m","type":"rate_limit_error"}}`,
		`data: {"error":{"message":"m","type":"RateLimitError"}}`,
		`data: {"error":{"message":"m","type":"tokens","code":"rate-limit-exceeded"}}`,
		`data: {"error":{"message":"m","type":"insufficient_quota","code":"insufficient_quota"}}`,
		`data: {"error":{"message":"m","type":"Too Many Requests"}}`,
		`data: {"error":{"grpc_code":8,"http_code":429,"message":"m","http_status":"Too Many Requests"}}`,
		`data: {"object":"error","message":"m","type":"RateLimitError","code":429}`,
		`data: {"code":429,"message":"m"}`,
		`data: {"code":"Throttling.RateQuota","message":"m","request_id":"r"}`,
		"event: error\ndata: {\"message\":\"m\",\"code\":429}")
	f(503, chat,
		`error: {"code":503,"message":"Loading model","type":"unavailable_error"}`,
		`data: {"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`,
		`data: {"error":{"message":"m","type":"unavailable_error"}}`,
		`data: {"error":{"message":"m","type":"ServiceUnavailableError","code":null}}`,
		`data: {"error":{"message":"m","code":"slow_down"}}`)
	f(529, chat, `data: {"error":{"message":"m","type":"overloaded_error"}}`, `data: {"error":"m","error_type":"overloaded"}`)
	f(401, chat, `data: {"error":{"message":"m","type":"invalid_request_error","code":"invalid_api_key"}}`)
	f(404, chat, `data: {"error":{"message":"m","type":"invalid_request_error","code":"model_not_found"}}`)
	f(400, chat,
		`data: {"object":"error","message":"m","type":"BadRequestError","code":400}`,
		`data: {"error":{"message":"m","type":"invalid_request_error","code":null}}`,
		`data: {"error":{"message":"m","type":"exceed_context_size_error"}}`)
	f(504, chat, `data: {"error":{"message":"m","type":"timeout_error"}}`)
	f(0, chat, // nothing that is a status
		`data: {"error":{"message":"m"}}`,
		`data: {"error":{"message":"m","code":8}}`,
		`data: {"error":{"message":"m","code":200}}`,
		`data: {"error":{"message":"m","code":"1302"}}`,
		`data: {"error":{"message":"m","code":429.5}}`,
		`data: {"error":{"message":"m","type":"error","code":{}}}`,
		`data: {"error":"429"}`)
	f(429, "gemini", `data: {"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED"}}`, `data: {"error":{"message":"m","status":"RESOURCE_EXHAUSTED"}}`)
	f(503, "gemini", `data: [{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}]`, `data: {"error":{"message":"m","status":"UNAVAILABLE"}}`)
	f(403, "gemini", `data: {"error":{"code":7,"message":"m","status":"PERMISSION_DENIED"}}`)
	f(529, "anthropic", "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}")
	f(429, "openai-responses", `data: {"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"m"}}}`)
	f(503, "ollama", `{"error":"server busy, please try again","status_code":503}`, `{"error":"m","status":503}`)
	f(0, "ollama", `{"error":"model runner has unexpectedly stopped"}`)
	f(529, "tgi", `data: {"error":"Model is overloaded","error_type":"overloaded"}`)
}

// The texts are those of public bug reports.
func TestRejectedParameter(t *testing.T) {
	f := func(status int, body, want string) {
		t.Helper()
		e := ParseHTTPError(status, []byte(body))
		if got := e.RejectedParameter(); got != want {
			t.Errorf("%d %s: %q, want %q; %+v", status, body, got, want, e)
		}
	}
	// Named in a field.
	f(400, `{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.","type":"invalid_request_error","param":"max_tokens","code":"unsupported_parameter"}}`, "max_tokens")
	f(400, `{"error":{"message":"no","param":"stream_options.include_usage"}}`, "stream_options.include_usage")
	f(422, `{"object":"Error","detail":[{"type":"extra_forbidden","loc":["body","ignore_eos"],"msg":"Extra inputs are not permitted","input":true}],"type":"invalid_request_error","code":3001}`, "ignore_eos")
	f(422, `{"detail":[{"loc":["body","stream_options",0,"include_usage"],"msg":"no"}]}`, "stream_options.include_usage")
	// Named in the message.
	message := func(text, want string) {
		t.Helper()
		e := ServerError{Status: 400, Message: text}
		if got := e.RejectedParameter(); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	message("Unsupported parameter: 'max_tokens' is not supported with this model.", "max_tokens")
	message("Unsupported parameter: max_output_tokens", "max_output_tokens")
	message("Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.", "temperature")
	message("Unrecognized request argument supplied: min_tokens", "min_tokens")
	message("litellm.BadRequestError: OpenAIException - Unrecognized request arguments supplied: ignore_eos, min_tokens", "ignore_eos")
	message("Unknown parameter: 'ignore_eos'.", "ignore_eos")
	message("[{'type': 'extra_forbidden', 'loc': ('body', 'max_completion_tokens'), 'msg': 'Extra inputs are not permitted', 'input': 800}]", "max_completion_tokens")
	message(`{"detail":[{"type":"extra_forbidden","loc":["body","seed"],"msg":"Extra inputs are not permitted","input":0.0}]}`, "seed")
	message("ignore_eos: Extra inputs are not permitted", "ignore_eos")
	message("`temperature` is deprecated for this model.", "temperature")
	message("property 'stream_options' is unsupported, did you mean 'stream'?", "stream_options")
	message("litellm.UnsupportedParamsError: openai does not support parameters: ['ignore_eos'], for model=gpt-5", "ignore_eos")
	message("litellm.UnsupportedParamsError: gpt-5-nano doesn't support temperature=0.1 while reasoning is active.", "temperature")
	message("Argument not supported on this model: frequencyPenalty", "frequencyPenalty")
	message("unknown field: parameter 'ignore_eos' is not a valid field", "ignore_eos")
	message("Malformed input request: #: extraneous key [ignore_eos] is not permitted, please reformat your input and try again.", "ignore_eos")
	message(`Invalid JSON payload received. Unknown name "ignoreEos" at 'generation_config': Cannot find field.`, "ignoreEos")
	message(`json: unknown field "ignore_eos"`, "ignore_eos")
	// Nothing that could be left out.
	message("", "")
	message("Internal error", "")
	message("This model's maximum context length is 8192 tokens.", "")
	message("messages.0.content.1.text: Extra inputs are not permitted", "")
	f(400, `{"error":{"message":"too long","param":"messages","code":"context_length_exceeded"}}`, "")
	f(400, `{"error":{"message":"too long","param":"messages[1].content"}}`, "")
	// What gateways put into the place of a name.
	f(400, `{"error":{"message":"upstream","param":"400"}}`, "")
	f(400, `{"error":{"message":"upstream","param":"not a name"}}`, "")
	f(400, `{"error":{"message":"Unknown parameter: 'seed'.","param":""}}`, "seed")
	// Only a request that was refused as such.
	f(404, `{"error":{"message":"no model","param":"temperature"}}`, "")
	f(500, `{"error":{"message":"Unknown parameter: 'seed'."}}`, "")
}

func FuzzRejectedParameter(f *testing.F) {
	for _, s := range []string{"", "Unsupported parameter: 'max_tokens'", "a.b.c: Extra inputs are not permitted", "`x` is deprecated", "\xff"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, param, message string) {
		e := ServerError{Status: 400, Param: param, Message: message}
		if got := e.RejectedParameter(); got != "" && !isParameter(got) {
			t.Fatalf("%q, %q: %q is no name", param, message, got)
		}
	})
}

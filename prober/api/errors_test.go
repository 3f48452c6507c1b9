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
	f(strings.Repeat("x", 300), strings.Repeat("x", 256))
	f(strings.Repeat("x", 255)+"\u00e9", strings.Repeat("x", 255)) // never half a character
	f(strings.Repeat("x", 255)+" y", strings.Repeat("x", 255))
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

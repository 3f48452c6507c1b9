package prober

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"syscall"

	"golang.org/x/oauth2"

	"github.com/inference-exporter/inference_exporter/internal/foreign"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/prober/cloudauth"
	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// failure is an error with the outcome that it makes.
type failure struct {
	outcome result.Outcome
	cause   error
	noReply bool // the request was sent, and no reply to it can be read
}

func (f *failure) Error() string { return f.cause.Error() }
func (f *failure) Unwrap() error { return f.cause }

func fail(o result.Outcome, format string, args ...any) error {
	return &failure{outcome: o, cause: fmt.Errorf(format, args...)}
}

// OutcomeOf returns the outcome of what a request came to: Success for nil.
func OutcomeOf(err error) result.Outcome {
	if err == nil {
		return result.Success
	}
	if f, ok := errors.AsType[*failure](err); ok {
		return f.outcome
	}
	return result.ProtocolError
}

// runKey is how what a run does finds the context that the run was given.
type runKey struct{}

// within returns ctx as the context of a run: interrupted separates its end from
// those of the contexts that are derived from it.
func within(ctx context.Context) context.Context { return context.WithValue(ctx, runKey{}, ctx) }

// isOurs reports whether the cause of a context's end is that its run was
// canceled, and not that the run's time was up or anything else.
func isOurs(ctx context.Context, cause error) bool {
	run, ok := ctx.Value(runKey{}).(context.Context)
	return ok && errors.Is(run.Err(), context.Canceled) && errors.Is(cause, context.Cause(run))
}

// interrupted returns the failure of a canceled context, by its cause; nil while it runs or when the reply was
// complete. Where the run was not canceled it is a limit, which the endpoint exceeded.
func interrupted(ctx context.Context) error {
	cause := context.Cause(ctx)
	if cause == nil || errors.Is(cause, errFinished) {
		return nil
	}
	if l, ok := errors.AsType[*limitError](cause); ok {
		return l.failure()
	}
	if isOurs(ctx, cause) {
		return fail(result.Canceled, "canceled: %w", cause)
	}
	return fail(result.TimeoutTotal, "%w", cause)
}

// roundTripFailure classifies an error from before the headers. What the
// hooks saw decides first, as net/http does not export most of its errors.
func roundTripFailure(ctx context.Context, a *attempt, err error) error {
	if isOwn(err) { // also where the time was up meanwhile
		return fail(result.ConnectError, "%w", err)
	}
	if f := interrupted(ctx); f != nil {
		return f
	}
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok { // its text quotes the request
		return fail(result.Unauthorized, "no OAuth2 token: the token server answered %q", e.Response.Status)
	}
	far := a.far()
	err = foreign.Cause(far.got, err)
	ready := !far.gotConn.IsZero()
	_, isDNS := errors.AsType[*net.DNSError](err)
	switch {
	case errors.Is(err, foreign.ErrTooLarge):
		return fail(result.TooLarge, "%w", err)
	case !ready && far.failed != "":
		return fail(far.failed, "%w", err)
	case !ready && isDNS:
		return fail(result.DNSError, "%w", err)
	case !ready && isTimeout(err):
		return fail(result.TimeoutConnect, "%w", err)
	case !ready:
		return fail(result.ConnectError, "%w", err)
	case isAlert(err):
		return fail(result.TLSError, "%w", err)
	case far.cutBy(err):
		return &failure{outcome: result.Truncated, cause: fmt.Errorf("connection closed before the reply: %w", err), noReply: true}
	case far.spokenFirst(): // of which net/http makes an error without a cause
		return fail(result.ProtocolError, "the server sent data before the request")
	}
	return &failure{outcome: result.ProtocolError, cause: err, noReply: true}
}

// isOwn reports whether a request was not sent since this machine lacks a file for it, or the credentials of its cloud.
func isOwn(err error) bool {
	_, file := errors.AsType[*foreign.FileError](err)
	_, cloud := errors.AsType[*cloudauth.Error](err)
	return file || cloud
}

func bodyFailure(ctx context.Context, a *attempt, err error) error {
	if f := interrupted(ctx); f != nil {
		return f
	}
	switch far := a.far(); {
	case errors.Is(err, stream.ErrTooLarge), errors.Is(err, foreign.ErrTooLarge):
		return fail(result.TooLarge, "%w", err)
	case errors.Is(err, api.ErrProtocol), errors.Is(err, stream.ErrMalformed):
		return fail(result.ProtocolError, "%w", err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fail(result.Truncated, "reply cut before its end")
	case far.cutBy(err):
		return fail(result.Truncated, "reply cut before its end: %w", err)
	}
	return fail(result.ProtocolError, "read the reply: %w", err)
}

func statusFailure(resp *http.Response, body []byte, secrets *safetext.Secrets) error {
	o := statusOutcome(resp.StatusCode)
	if to := resp.Header.Get("Location"); resp.StatusCode/100 == 3 && to != "" {
		host := "another address"
		if u, err := resp.Request.URL.Parse(to); err == nil && u.Host != "" {
			host = u.Host
		}
		text := fmt.Sprintf("status %d: redirected to %s, and probes follow no redirect", resp.StatusCode, secrets.Quote(host, 128))
		return &failure{outcome: o, cause: &statusError{status: resp.StatusCode, text: text}}
	}
	e := api.ParseHTTPError(resp.StatusCode, body).Shown(secrets.Line)
	text := fmt.Sprintf("status %d: %v%s", resp.StatusCode, e, hintOn(e))
	return &failure{outcome: o, cause: &statusError{resp.StatusCode, text, e}}
}

// hintOn returns what to change in the configuration after an error that refuses a parameter of the
// request, in parentheses; "" for others. Nothing is changed by itself: a probe that asks for
// something else measures something else.
func hintOn(e *api.ServerError) string {
	switch param := e.RejectedParameter(); param {
	case "":
		return ""
	case "max_tokens":
		return " (hint: set request.max_tokens_field of the endpoint to max_completion_tokens)"
	case "max_completion_tokens", "max_output_tokens":
		return " (hint: another output_tokens in the module, or another request.max_tokens_field of the endpoint)"
	default:
		return fmt.Sprintf(" (hint: add %q to request.omit of the endpoint)", param)
	}
}

func statusOutcome(status int) result.Outcome {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return result.Unauthorized
	case http.StatusTooManyRequests:
		return result.RateLimited
	case http.StatusServiceUnavailable, api.StatusSiteOverloaded:
		return result.Overloaded
	}
	return result.HTTPError
}

// streamOutcome returns the outcome of an error inside a 200 reply: that of the status that it names, where that says
// more than that the server failed. A timeout (408) and a model that failed (424, at Bedrock) are its own failures.
func streamOutcome(status int) result.Outcome {
	o := statusOutcome(status)
	refused := status/100 == 4 && status != http.StatusRequestTimeout && status != http.StatusFailedDependency
	if o == result.HTTPError && !refused {
		return result.StreamError
	}
	return o
}

// statusError is a reply with another status than 200, in the server's words.
type statusError struct {
	status int
	text   string
	cause  error // what the body says; nil for a redirect
}

func (e *statusError) Error() string { return e.text }
func (e *statusError) Unwrap() error { return e.cause }

// isAlert reports whether the peer ended TLS with an alert. Under TLS 1.3 that is
// how a server refuses a certificate, or misses one, after the handshake.
func isAlert(err error) bool {
	e, ok := errors.AsType[*net.OpError](err)
	return ok && e.Op == "remote error"
}

// isCut reports whether the peer ended or reset the connection.
func isCut(err error) bool {
	return isEOF(err) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// reason splits the text of an error into its innermost cause, which must be read even where the text is cut,
// and what was being done then: "connection refused" and "detect the api: nothing answers GET /v1/models: dial
// tcp 10.0.0.1:8000: connect".
func reason(err error) (what, where string) {
	inner := innermost(err)
	what = inner.Error()
	r, presented := inner.(*redacted) //nolint:errorlint // it is not unwrapped on purpose
	if presented {
		what, where = r.what, r.where
	}
	outer, ok := strings.CutSuffix(err.Error(), inner.Error())
	if !ok { // the text is of another form
		return err.Error(), ""
	}
	outer = strings.TrimSuffix(outer, ": ")
	if outer != "" && where != "" {
		outer += ": "
	}
	return plainly(what, outer+where)
}

var (
	// dialing and transfer are Go's words for what a connection did.
	dialing  = regexp.MustCompile(`dial (?:tcp|udp) (\S+): connect$`)
	transfer = regexp.MustCompile(`(?:^|: )(?:(?:dial|read|write) (?:tcp|udp)(?: \S+)?(?:: [a-z]+)?|net/http: HTTP/1\.x transport connection broken|tls: failed to verify certificate)$`)
)

// plainly returns the parts of a reason without the words by which Go's packages name themselves and system calls.
func plainly(what, where string) (string, string) {
	where = transfer.ReplaceAllString(dialing.ReplaceAllString(where, "connect to $1"), "")
	what = strings.TrimSuffix(strings.TrimPrefix(what, "x509: "), ": "+io.EOF.Error())
	if what == "tls: first record does not look like a TLS handshake" {
		what = "the server does not speak TLS at this port"
	}
	return what, where
}

// innermost returns the error that says what happened: of a reply its error status, and of a connection's end
// the failure that was made of it, which says more.
func innermost(err error) error {
	for {
		switch err.(type) { //nolint:errorlint // each error on its own
		case *redacted, *statusError, *result.SchemeError:
			return err
		}
		next := errors.Unwrap(err)
		if f, ok := err.(*failure); next == nil || ok && isEOF(f) {
			return err
		}
		err = next
	}
}

func isEOF(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// maxReason bounds the text of a failure in bytes: what a server sends as its first line, net/http quotes whole.
const maxReason = 768

// redacted is an error whose text is one bounded line without secrets. It
// hides the text of its cause, and not what the cause is.
type redacted struct {
	cause error
	what  string // the innermost cause
	where string // what was being done then, from outside to inside; "" is not known
}

func (r *redacted) Error() string {
	if r.where == "" {
		return r.what
	}
	return r.what + " (" + r.where + ")"
}

func (r *redacted) Unwrap() error { return r.cause }

// presentable returns err with a text that can be shown to anyone, the innermost cause first.
func presentable(err error, secrets *safetext.Secrets) error {
	if err == nil {
		return nil
	}
	what, where := reason(err)
	r := &redacted{cause: err, what: secrets.Line(what, maxReason)}
	if where != "" {
		r.where = secrets.Line(where, max(0, maxReason-len(r.what)))
	}
	if r.Error() == err.Error() {
		return err
	}
	return r
}

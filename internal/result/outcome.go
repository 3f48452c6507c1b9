package result

import (
	"cmp"
	"crypto/x509"
	"errors"
	"slices"
	"strconv"
	"syscall"

	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Outcome says how a probe ended. The set is closed: it is a label value.
type Outcome string

// The outcomes. Success, Empty, Truncated and CheckFailed follow a reply with
// status 200; Canceled counts neither for nor against an endpoint.
const (
	// Success is an answer with at least one token and a finish reason, or another sign that the server finished it.
	Success Outcome = "success"
	// Empty is a complete reply without a single token.
	Empty Outcome = "empty"
	// Truncated is a reply that was cut before its finish reason or its first byte,
	// or that ends without a finish reason where the protocol demands one.
	Truncated Outcome = "truncated"
	// CheckFailed is a complete answer that misses what the module expects.
	CheckFailed Outcome = "check_failed"
	// DNSError is a host name that did not resolve.
	DNSError Outcome = "dns_error"
	// ConnectError is a connection that was refused, reset or unreachable.
	ConnectError Outcome = "connect_error"
	// TLSError is a failed handshake, a certificate that does not verify, a certificate of the exporter that the server
	// misses or refuses, or plain HTTP at a port that speaks TLS.
	TLSError Outcome = "tls_error"
	// Unauthorized is status 401 or 403, of a reply or of an error inside one.
	Unauthorized Outcome = "unauthorized"
	// RateLimited is status 429, of a reply or of an error inside one.
	RateLimited Outcome = "rate_limited"
	// Overloaded is status 503 or 529, of a reply or of an error inside one.
	Overloaded Outcome = "overloaded"
	// HTTPError is any other status than 200, redirects included, also to the questions
	// what the server is, and an error inside a 200 reply that refuses the request.
	HTTPError Outcome = "http_error"
	// StreamError is any other error that the server reports inside a 200 reply.
	StreamError Outcome = "stream_error"
	// ProtocolError is a reply that is not what the protocol says: another content type, broken JSON, malformed HTTP.
	ProtocolError Outcome = "protocol_error"
	// TooLarge is a reply past the limits on line, body or events.
	TooLarge Outcome = "too_large"
	// TimeoutConnect is no ready connection within the connect limit.
	TimeoutConnect Outcome = "timeout_connect"
	// TimeoutFirstToken is no headers, or no first token, within their limits. Of a server
	// that is not identified yet it is no answer to the question what it is.
	TimeoutFirstToken Outcome = "timeout_first_token"
	// TimeoutStall is a silence between tokens longer than the stall limit.
	TimeoutStall Outcome = "timeout_stall"
	// TimeoutTotal is an answer that was still coming at the total limit. Before
	// the first token that limit is timeout_connect or timeout_first_token.
	TimeoutTotal Outcome = "timeout_total"
	// Canceled is a probe that we ended ourselves: by shutdown, by reload, or a
	// confirmation because the next probe was due.
	Canceled Outcome = "canceled"
)

// Outcomes lists the closed set in the order of the documentation. It is not to be changed.
func Outcomes() []Outcome { return words().outcomes }

// Description returns what happened to a probe with the outcome, as in "the answer is empty".
func (o Outcome) Description() string { return cmp.Or(words().texts[string(o)], string(o)) }

// IsTimeout returns whether the endpoint did not answer, or go on, in time.
func (o Outcome) IsTimeout() bool {
	return slices.Contains([]Outcome{TimeoutConnect, TimeoutFirstToken, TimeoutStall, TimeoutTotal}, o)
}

// SchemeError is a failure at a port that speaks TLS while the URL has http://.
type SchemeError struct{ Err error }

// Error returns what to write in the URL.
func (e *SchemeError) Error() string {
	return "the server speaks TLS at this port: use https:// in the URL"
}

// Unwrap returns the failure.
func (e *SchemeError) Unwrap() error { return e.Err }

// RefusesByLoad reports whether servers of an engine answer status 429 where their queue is full, and not for a quota.
func RefusesByLoad(engine string) bool { return engine == "tgi" || engine == "tei" }

// Advice returns what to check next after a failure; "" after a success.
func (r *Result) Advice() string {
	if _, ok := errors.AsType[*SchemeError](r.Err); ok {
		return "Write https:// instead of http:// in the URL. A private authority goes into http.tls_config.ca_file."
	}
	if r.Outcome == TimeoutFirstToken && r.Sent.IsZero() {
		return "The server took the connection and did not say what it serves: look whether it hangs, is overloaded or still loads the model. " +
			"If api and model are set, it is not asked."
	}
	if r.Outcome == RateLimited && RefusesByLoad(r.Engine) {
		return "The queue of the server is full, which answers so and has no quotas: look at what waits there, at its limits, and whether it needs replicas."
	}
	advice := words().advice[string(r.Outcome)]
	if r.Outcome != HTTPError {
		return advice
	}
	status := r.Status
	if e, ok := errors.AsType[*api.ServerError](r.Err); ok && e.Status != 0 { // inside a 200 reply
		status = e.Status
	}
	statuses := words().statuses
	return cmp.Or(statuses[strconv.Itoa(status)], statuses[strconv.Itoa(status/100)+"xx"], advice)
}

// SkipReason is why a probe that was due did not run or measured nothing. The set is closed: it is a label value.
type SkipReason string

const (
	SkipOverrun SkipReason = "overrun" // an earlier run that was still going
	SkipBackoff SkipReason = "backoff" // a server that asked to wait, or let two probes in a row time out
	// SkipLimit is a run that did not start before the next one was due: the limits of
	// probes in flight were used up, or the whole process was suspended.
	SkipLimit   SkipReason = "limit"
	SkipBudget  SkipReason = "budget"         // a probe that would have exceeded a budget
	SkipContext SkipReason = "context_length" // a model whose context has no room for what the module asks
	SkipModel   SkipReason = "model_not_set"  // a server with several models and a configuration that names none
	// SkipTruncated is a server that truncates the prompt, so that what it answers
	// is no answer to a prompt of that length.
	SkipTruncated SkipReason = "prompt_truncated"
	// SkipSecret is an endpoint whose secret is missing in the configuration, or a file or a
	// credential of a cloud that requests need and this machine does not have.
	SkipSecret    SkipReason = "secret_missing"
	SkipResources SkipReason = "resources" // a lack of descriptors, memory or ports on this machine
	SkipAsleep    SkipReason = "asleep"    // a model that sleeps, and that probes do not wake
)

// SkipReasons lists the closed set. It is not to be changed.
func SkipReasons() []SkipReason { return words().skips }

// Description returns in words why a run was left out.
func (s SkipReason) Description() string { return cmp.Or(words().texts[string(s)], string(s)) }

// Skip is why a run measured nothing although the server did not fail: the configuration and the server do not fit
// together, or this machine lacks something.
type Skip struct {
	Reason SkipReason
	// Spent are the results of requests that were made nevertheless, since nobody
	// knew before. Their tokens are paid for; they say nothing else.
	Spent []*Result
	// Text says for people what to change: one bounded line that may quote the server.
	Text string
}

// Error returns Text.
func (s *Skip) Error() string { return s.Text }

// Spent returns the results of all requests that a run made, given what Run returned: those that cost something.
func Spent(results []*Result, why *Skip) (all []*Result) {
	if why != nil {
		results = why.Spent
	}
	for _, r := range results {
		all = append(append(all, r.Beside...), r)
	}
	return all
}

// Reason is what is known of a failure beyond its outcome.
type Reason string

const (
	Refused     Reason = "refused"      // the host refused the connection
	Unreachable Reason = "unreachable"  // no route to the host
	Expired     Reason = "expired"      // the certificate is not valid now
	WrongName   Reason = "wrong_name"   // the certificate is for other names
	Authority   Reason = "authority"    // the certificate's authority is not known
	WrongScheme Reason = "wrong_scheme" // TLS is spoken at the port
)

// ReasonOf returns what the error of a probe is, by its type.
func ReasonOf(err error) Reason {
	if _, ok := errors.AsType[*SchemeError](err); ok {
		return WrongScheme
	}
	if e, ok := errors.AsType[x509.CertificateInvalidError](err); ok && e.Reason == x509.Expired {
		return Expired
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return WrongName
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return Authority
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return Refused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return Unreachable
	}
	return ""
}

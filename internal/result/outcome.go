package result

import (
	"cmp"
	"crypto/x509"
	"errors"
	"net/http"
	"syscall"

	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Outcome says how a probe ended. The set is closed: it is a label value.
type Outcome string

// The outcomes. Success, Empty, Truncated and CheckFailed follow a reply with
// status 200; Canceled counts neither for nor against an endpoint.
const (
	// Success is an answer with at least one token and a finish reason, or another
	// sign that the server finished it.
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
	// TLSError is a failed handshake, a certificate that does not verify, a
	// certificate of the exporter that the server misses or refuses, or plain HTTP at a
	// port that speaks TLS.
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
	// ProtocolError is a reply that is not what the protocol says: another
	// content type, broken JSON, malformed HTTP.
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

// description is an outcome in words: what happened to the probe, as in "down: the
// answer is empty", and what to check next.
type description struct {
	outcome      Outcome
	text, advice string
}

// numOutcomes is how many outcomes there are.
const numOutcomes = 19

// descriptions lists the closed set in the order of the documentation. An array
// needs no memory of its own: every probe looks into it.
func descriptions() [numOutcomes]description {
	return [...]description{
		{Success, "success", ""},
		{Empty, "the answer is empty", "Ask the same by hand: a stop sequence, a chat template or a content filter may end the answer at once, " +
			"and a reasoning model may need more output_tokens."},
		{Truncated, "the answer is cut", "Look for a crash or restart of the server at this time, then for a proxy between that limits " +
			"the time of a reply or of silence. The trace id finds the request in logs."},
		{CheckFailed, "the answer is not as expected", "The server works, but its answer is not the expected one: compare model, revision, chat template " +
			"and quantisation with when it passed."},
		{DNSError, "the host name does not resolve", "Does the host's name resolve on this machine? Look for a typing error in the URL, a missing search " +
			"domain, and at the resolver itself."},
		{ConnectError, "no connection", "Is the server running and listening on this port, on an address that others reach? Then look at " +
			"firewalls and network policies between, and at the proxy if one is set."},
		{TLSError, "no secure connection", "Compare the certificate's names, issuer and dates with the URL. A private authority goes into " +
			"http.tls_config.ca_file; a server without TLS needs http:// in its URL."},
		{Unauthorized, "not authorized", "Is the key set, current, and allowed to use this model? See http.authorization, or the headers " +
			"that this api wants."},
		{RateLimited, "over the rate limit", "The quota is used up, by these probes or by others with the same key: probe less often or with " +
			"fewer tokens, or ask for a higher quota."},
		{Overloaded, "overloaded", "The server takes no more requests: look at its queue, its replicas, and whether it is still loading the model."},
		{HTTPError, "an HTTP error", "The reason is the server's own; see its documentation for this status."},
		{StreamError, "an error in mid-reply", "The server gave up in mid-reply. Its log at this time says why: out of memory, a worker that died, " +
			"a request that was aborted."},
		{ProtocolError, "a reply that is not of the protocol", "Does the server speak this api, and does the URL lead to it and not to a web page, a login or " +
			"another service? Try another api, or the URL with or without /v1."},
		{TooLarge, "the reply is too large", "The server sends more than was asked for: does it honour the limit on output tokens, and is it an inference server at all?"},
		{TimeoutConnect, "no connection in time", "Packets get lost on the way: look at firewalls and routes, whether the address is right, and " +
			"whether the server still accepts connections."},
		{TimeoutFirstToken, "no first token in time", "The request arrived, but no token came. Look at the server's queue and running requests, then " +
			"at its log: it may be overloaded, loading the model, or hung."},
		{TimeoutStall, "the answer stalls", "Tokens came and then stopped. Look for preemptions (a full KV cache), a worker or GPU that hangs, " +
			"and a proxy between that holds the stream back."},
		{TimeoutTotal, "no whole answer in time", "The answer was still coming: is it slower than usual (see TPOT), or is the timeout too short for " +
			"so many output_tokens?"},
		{Canceled, "canceled", "The exporter itself ended the probe: this does not count against the endpoint."},
	}
}

// Outcomes lists the closed set in the order of the documentation.
func Outcomes() []Outcome {
	outcomes := make([]Outcome, 0, numOutcomes)
	for _, d := range descriptions() {
		outcomes = append(outcomes, d.outcome)
	}
	return outcomes
}

func (o Outcome) description() description {
	for _, d := range descriptions() {
		if d.outcome == o {
			return d
		}
	}
	return description{outcome: o, text: string(o)}
}

// Description returns what happened to a probe with the outcome, as in "the answer
// is empty".
func (o Outcome) Description() string { return o.description().text }

// IsTimeout returns whether the endpoint did not answer, or go on, in time.
func (o Outcome) IsTimeout() bool {
	switch o {
	case TimeoutConnect, TimeoutFirstToken, TimeoutStall, TimeoutTotal:
		return true
	}
	return false
}

// SchemeError is a failure at a port that speaks TLS while the URL has http://.
type SchemeError struct{ Err error }

// Error returns what to write in the URL.
func (e *SchemeError) Error() string {
	return "the server speaks TLS at this port: use https:// in the URL"
}

// Unwrap returns the failure.
func (e *SchemeError) Unwrap() error { return e.Err }

// RefusesByLoad reports whether servers of an engine answer status 429 where their queue is
// full, and not for a quota.
func RefusesByLoad(engine string) bool { return engine == "tgi" || engine == "tei" }

// Advice returns what to check next after a failure; "" after a success.
func (r *Result) Advice() string {
	if _, ok := errors.AsType[*SchemeError](r.Err); ok {
		return "Write https:// instead of http:// in the URL. A private authority goes into http.tls_config.ca_file."
	}
	advice := r.Outcome.description().advice
	if r.Outcome == TimeoutFirstToken && r.Sent.IsZero() {
		return "The server took the connection and did not say what it serves: look whether it hangs, is overloaded or still loads the model. " +
			"If api and model are set, it is not asked."
	}
	if r.Outcome == RateLimited && RefusesByLoad(r.Engine) {
		return "The queue of the server is full, which answers so and has no quotas: look at what waits there, at its limits, and whether it needs replicas."
	}
	if r.Outcome != HTTPError {
		return advice
	}
	status := r.Status
	if e, ok := errors.AsType[*api.ServerError](r.Err); ok && e.Status != 0 { // inside a 200 reply
		status = e.Status
	}
	return cmp.Or(statusAdvice(status), advice)
}

// statusAdvice returns the advice for a status that has no outcome of its own; ""
// where there is none.
func statusAdvice(status int) string {
	switch {
	case status == 0: // of an answer to a question before the probe
		return "The server refused to say what it serves: is the URL right, with or without /v1? If api and model are set, it is not asked."
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed:
		return "Is the path right (the URL with or without /v1, the api), and does the server serve a model of this name?"
	case status == http.StatusBadRequest || status == http.StatusUnprocessableEntity:
		return "The server refuses the request itself: the reason may name a parameter, or a prompt that is longer than the model's context."
	case status == http.StatusProxyAuthRequired:
		return "The proxy wants a user and a password: see http.proxy_url."
	case status == http.StatusBadGateway || status == http.StatusGatewayTimeout:
		return "A gateway answers, but not the server behind it: is that running, and slower than the gateway's limit?"
	case status/100 == 3:
		return "Probe the address that the redirect names, if that is the right one."
	case status/100 == 5:
		return "The server failed: its log at this time says why."
	}
	return ""
}

// SkipReason is why a probe that was due did not run or measured nothing. The set is
// closed: it is a label value.
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
)

// SkipReasons lists the closed set.
func SkipReasons() []SkipReason {
	return []SkipReason{SkipOverrun, SkipBackoff, SkipLimit, SkipBudget, SkipContext, SkipModel, SkipTruncated, SkipSecret, SkipResources}
}

// Skip is why a run measured nothing although the server did not fail: the
// configuration and the server do not fit together, or this machine lacks
// something.
type Skip struct {
	Reason SkipReason
	// Spent are the results of requests that were made nevertheless, since nobody
	// knew before. Their tokens are paid for; they say nothing else.
	Spent []*Result
	// Text says for people what to change: one bounded line that may quote the
	// server.
	Text string
}

// Error returns Text.
func (s *Skip) Error() string { return s.Text }

// Spent returns the results of all requests that a run made, given what Run returned:
// those that cost something.
func Spent(results []*Result, why *Skip) []*Result {
	if why != nil {
		return why.Spent
	}
	return results
}

// Description returns in words why a run was left out.
func (s SkipReason) Description() string {
	switch s {
	case SkipOverrun:
		return "the run before it was still going"
	case SkipBackoff:
		return "the server asked to wait, or let two probes in a row time out"
	case SkipLimit:
		return "the limits of probes in flight were used up"
	case SkipBudget:
		return "the run could exceed a budget"
	case SkipContext:
		return "the model's context has no room for what the module asks"
	case SkipModel:
		return "the server has several models, and the configuration names none"
	case SkipTruncated:
		return "the server truncates the prompt"
	case SkipSecret:
		return "a secret of the endpoint, or a file or credential for its requests, is missing or cannot be used"
	case SkipResources:
		return "descriptors, memory or ports are short on this machine"
	}
	return string(s)
}

// Reason is what is known of a failure beyond its outcome.
type Reason string

// The reasons.
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

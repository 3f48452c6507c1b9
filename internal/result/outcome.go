package result

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
	// TLSError is a failed handshake, a certificate that does not verify, or a
	// certificate of the exporter that the server misses or refuses.
	TLSError Outcome = "tls_error"
	// Unauthorized is status 401 or 403, of a reply or of an error inside one.
	Unauthorized Outcome = "unauthorized"
	// RateLimited is status 429, of a reply or of an error inside one.
	RateLimited Outcome = "rate_limited"
	// Overloaded is status 503 or 529, of a reply or of an error inside one.
	Overloaded Outcome = "overloaded"
	// HTTPError is any other status than 200, redirects included, and an error
	// inside a 200 reply that refuses the request.
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
	// TimeoutFirstToken is no headers, or no first token, within their limits.
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

// Outcomes lists the closed set in the order of the documentation.
func Outcomes() []Outcome {
	return []Outcome{
		Success, Empty, Truncated, CheckFailed, DNSError, ConnectError, TLSError,
		Unauthorized, RateLimited, Overloaded, HTTPError, StreamError,
		ProtocolError, TooLarge, TimeoutConnect, TimeoutFirstToken,
		TimeoutStall, TimeoutTotal, Canceled,
	}
}

// IsTimeout returns whether the endpoint did not answer, or go on, in time.
func (o Outcome) IsTimeout() bool {
	switch o {
	case TimeoutConnect, TimeoutFirstToken, TimeoutStall, TimeoutTotal:
		return true
	}
	return false
}

package status

import "github.com/inference-exporter/inference_exporter/internal/result"

// inWords returns what happened to a probe of an outcome, for people.
func inWords(o result.Outcome) string {
	switch o {
	case result.Empty:
		return "the answer is empty"
	case result.Truncated:
		return "the answer is cut"
	case result.CheckFailed:
		return "the answer is not as expected"
	case result.DNSError:
		return "the host name does not resolve"
	case result.ConnectError:
		return "no connection"
	case result.TLSError:
		return "no secure connection"
	case result.Unauthorized:
		return "not authorized"
	case result.RateLimited:
		return "over the rate limit"
	case result.Overloaded:
		return "overloaded"
	case result.HTTPError:
		return "an HTTP error"
	case result.StreamError:
		return "an error in mid-reply"
	case result.ProtocolError:
		return "a reply that is not of the protocol"
	case result.TooLarge:
		return "the reply is too large"
	case result.TimeoutConnect:
		return "no connection in time"
	case result.TimeoutFirstToken:
		return "no first token in time"
	case result.TimeoutStall:
		return "the answer stalls"
	case result.TimeoutTotal:
		return "no whole answer in time"
	}
	return string(o)
}

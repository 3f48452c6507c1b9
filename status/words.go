package status

import "github.com/inference-exporter/inference_exporter/prober"

// inWords returns what happened to a probe of an outcome, for people.
func inWords(o prober.Outcome) string {
	switch o {
	case prober.Empty:
		return "the answer is empty"
	case prober.Truncated:
		return "the answer is cut"
	case prober.CheckFailed:
		return "the answer is not as expected"
	case prober.DNSError:
		return "the host name does not resolve"
	case prober.ConnectError:
		return "no connection"
	case prober.TLSError:
		return "no secure connection"
	case prober.Unauthorized:
		return "not authorized"
	case prober.RateLimited:
		return "over the rate limit"
	case prober.Overloaded:
		return "overloaded"
	case prober.HTTPError:
		return "an HTTP error"
	case prober.StreamError:
		return "an error in mid-reply"
	case prober.ProtocolError:
		return "a reply that is not of the protocol"
	case prober.TooLarge:
		return "the reply is too large"
	case prober.TimeoutConnect:
		return "no connection in time"
	case prober.TimeoutFirstToken:
		return "no first token in time"
	case prober.TimeoutStall:
		return "the answer stalls"
	case prober.TimeoutTotal:
		return "no whole answer in time"
	}
	return string(o)
}

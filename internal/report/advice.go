package report

import (
	"errors"
	"net/http"

	"github.com/inference-exporter/inference_exporter/internal/result"

	"github.com/inference-exporter/inference_exporter/prober"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Advice says what to check next after a failure with the given outcome, HTTP
// status and error; "" after a success.
func Advice(o result.Outcome, status int, err error) string {
	if prober.WantsTLS(err) {
		return "Write https:// instead of http:// in the URL. A private authority goes into http.tls_config.ca_file."
	}
	if o == result.HTTPError {
		if e, ok := errors.AsType[*api.ServerError](err); ok && e.Status != 0 { // inside a 200 reply
			status = e.Status
		}
		return statusAdvice(status)
	}
	return map[result.Outcome]string{
		result.Empty: "Ask the same by hand: a stop sequence, a chat template or a content filter may end the answer at once, " +
			"and a reasoning model may need more output_tokens.",
		result.Truncated: "Look for a crash or restart of the server at this time, then for a proxy between that limits " +
			"the time of a reply or of silence. The trace id finds the request in logs.",
		result.CheckFailed: "The server works, but its answer is not the expected one: compare model, revision, chat template " +
			"and quantisation with when it passed.",
		result.DNSError: "Does the host's name resolve on this machine? Look for a typing error in the URL, a missing search " +
			"domain, and at the resolver itself.",
		result.ConnectError: "Is the server running and listening on this port, on an address that others reach? Then look at " +
			"firewalls and network policies between, and at the proxy if one is set.",
		result.TLSError: "Compare the certificate's names, issuer and dates with the URL. A private authority goes into " +
			"http.tls_config.ca_file; a server without TLS needs http:// in its URL.",
		result.Unauthorized: "Is the key there, current, and allowed to use this model? See http.authorization, or the headers " +
			"that this api wants.",
		result.RateLimited: "The quota is used up, by these probes or by others with the same key: probe less often or with " +
			"fewer tokens, or ask for a higher quota.",
		result.Overloaded: "The server takes no more requests: look at its queue, its replicas, and whether it is still loading the model.",
		result.StreamError: "The server gave up in mid-reply. Its log at this time says why: out of memory, a worker that died, " +
			"a request that was aborted.",
		result.ProtocolError: "Does the server speak this api, and does the URL lead to it and not to a web page, a login or " +
			"another service? Try another api, or the URL with or without /v1.",
		result.TooLarge: "The server sends more than was asked for: does it honour the limit on output tokens, and is it an inference server at all?",
		result.TimeoutConnect: "Packets get lost on the way: look at firewalls and routes, whether the address is right, and " +
			"whether the server still accepts connections.",
		result.TimeoutFirstToken: "The request arrived, but no token came. Look at the server's queue and running requests, then " +
			"at its log: it may be overloaded, loading the model, or hung.",
		result.TimeoutStall: "Tokens came and then stopped. Look for preemptions (a full KV cache), a worker or GPU that hangs, " +
			"and a proxy between that holds the stream back.",
		result.TimeoutTotal: "The answer was still coming: is it slower than usual (see TPOT), or is the timeout too short for " +
			"so many output_tokens?",
		result.Canceled: "The probe was ended from here, which says nothing of the endpoint.",
	}[o]
}

// statusAdvice is the advice for statuses that have no outcome of their own.
func statusAdvice(status int) string {
	switch {
	case status == 0: // of an answer to a question before the probe
		return "The server refused to say what it serves: is the URL right, with or without /v1? With api and model set it need not be asked."
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
	return "The reason is the server's own; see its documentation for this status."
}

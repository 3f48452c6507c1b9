package api

import (
	"errors"
	"net/http"
)

// ErrProtocol is a reply, or a frame of one, that the protocol does not know.
var ErrProtocol = errors.New("protocol error")

// protocols is the closed list, in the order of the documentation.
func protocols() []Protocol {
	return []Protocol{
		chat(), completions(), responses(),
		ollamaChat(), ollamaGenerate(), tgi(), sglang(), llamacpp(), triton(),
		anthropic(),
		gemini(),
		cohere(),
		bedrock(),
		openAIEmbeddings(), tei(), ollamaEmbed(), cohereEmbed(), rerank(),
	}
}

// Lookup returns the protocol of that name.
func Lookup(name string) (Protocol, bool) {
	for _, p := range protocols() {
		if p.Name == name {
			return p, true
		}
	}
	return Protocol{}, false
}

// Names lists the protocols in the order of the documentation.
func Names() []string {
	var names []string
	for _, p := range protocols() {
		names = append(names, p.Name)
	}
	return names
}

// The media types of streams.
const (
	eventStreamType = "text/event-stream"
	ndjsonType      = "application/x-ndjson"
)

// eventStreamHeader is the header of a request that wants a stream of events.
func eventStreamHeader() http.Header { return acceptHeader(eventStreamType) }

// acceptHeader is the header of a request that wants a reply of one media
// type. The encoding is named because a compressed stream arrives in blocks,
// which hides when its parts were sent.
func acceptHeader(mediaType string) http.Header {
	return http.Header{
		"Accept":          {mediaType},
		"Accept-Encoding": {"identity"},
		"Content-Type":    {"application/json"},
	}
}

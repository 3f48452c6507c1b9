package api

import (
	"errors"
	"net/http"
)

// ErrProtocol is a reply, or a frame of one, that the protocol does not know.
var ErrProtocol = errors.New("not what the protocol says")

// protocols is the closed list, in the order of the documentation.
func protocols() []Protocol {
	return []Protocol{chat(), completions()}
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

// eventStreamType is the media type of server-sent events.
const eventStreamType = "text/event-stream"

// eventStreamHeader is the header of a request that wants a stream of events. The
// encoding is named because a compressed stream arrives in blocks, which hides
// when its events were sent.
func eventStreamHeader() http.Header {
	return http.Header{
		"Accept":          {eventStreamType},
		"Accept-Encoding": {"identity"},
		"Content-Type":    {"application/json"},
	}
}

package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// encodeBody writes the body of a request for generated tokens. It refuses one
// without a cap on the answer, which some servers take as a request without
// end.
func encodeBody(p Params, body any) ([]byte, error) {
	if p.OutputTokens < 1 {
		return nil, fmt.Errorf("build request body: output tokens %d, want at least 1", p.OutputTokens)
	}
	return encodeJSON(body)
}

// encodeJSON writes the body of any request.
func encodeJSON(body any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // so that the prompt's length on the wire is its own
	if err := e.Encode(body); err != nil {
		return nil, fmt.Errorf("build request body: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// chatMessage is one message of a conversation, which OpenAI's protocols and
// many others share.
type chatMessage struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

const (
	roleSystem = "system"
	roleUser   = "user"
)

// blankLine separates messages that become one text.
const blankLine = "\n\n"

// What Doc.Conversation says of most protocols.
const (
	docMessages = "`messages`"
	docOneText  = "one text: what the messages say, without roles, a blank line between them"
)

// conversation is what to ask where each message has a role: the messages, or
// the prompt as the only one, of the user.
func conversation(p Params) []chatMessage {
	if len(p.Messages) == 0 {
		return []chatMessage{{Role: roleUser, Content: p.Prompt}}
	}
	messages := make([]chatMessage, len(p.Messages))
	for i, m := range p.Messages {
		messages[i] = chatMessage(m)
	}
	return messages
}

// systemApart is the conversation where what the system says is apart and
// the roles of the rest must alternate: messages of one role in a row become
// one, those of the system another, each with a blank line between them.
func systemApart(p Params) (system string, turns []chatMessage) {
	var said []string
	for _, m := range conversation(p) {
		last := len(turns) - 1
		switch {
		case m.Role == roleSystem:
			said = append(said, m.Content)
		case last >= 0 && turns[last].Role == m.Role:
			turns[last].Content += blankLine + m.Content
		default:
			turns = append(turns, m)
		}
	}
	return strings.Join(said, blankLine), turns
}

// oneText is what to ask where there are no roles: the prompt, or the contents
// of the messages with a blank line between them, without their roles.
func oneText(p Params) string { return joined(conversation(p)) }

// joined returns the contents of messages with a blank line between them.
func joined(messages []chatMessage) string {
	contents := make([]string, len(messages))
	for i, m := range messages {
		contents[i] = m.Content
	}
	return strings.Join(contents, blankLine)
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

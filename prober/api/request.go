package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
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

const (
	modelsPath      = "/models"
	chatPath        = "/chat/completions"
	completionsPath = "/completions"
	responsesPath   = "/responses"
	messagesPath    = "/messages"
	embeddingsPath  = "/embeddings"

	// deployments is where Azure has a path without a version for each model.
	deployments = "/openai/deployments/"
)

// versioned returns a Protocol.URL for a path behind the version. The base may
// be a server ("http://h:8000"), a server with a prefix that ends in or holds a
// version ("…/v1", "…/openai/v1", "…/v1beta/openai"), or already the URL of a
// known protocol. Only a base without a version gets "/v1". A query stays.
func versioned(path string) func(*url.URL, string) *url.URL {
	return func(base *url.URL, _ string) *url.URL { return under(base, path) }
}

// openAIModels is GET /v1/models.
func openAIModels() *ModelList {
	return &ModelList{
		URL:   func(base *url.URL) *url.URL { return under(base, modelsPath) },
		Parse: ParseModels,
	}
}

// under replaces the path of a known protocol in base, or extends base.
func under(base *url.URL, path string) *url.URL {
	root := rootOf(base)
	azure := strings.Index(root, deployments)
	versioned := []string{modelsPath, chatPath, completionsPath, responsesPath, messagesPath, embeddingsPath}
	if known := longestSuffix(root, versioned); known != "" {
		root = strings.TrimSuffix(root, known)
	} else if azure < 0 && !hasVersion(root) {
		root += "/v1"
	}
	if azure >= 0 && path == modelsPath { // Azure lists models beside the deployments
		root = root[:azure] + "/openai"
	}
	return withPath(base, root+path)
}

// fixed returns the URL of a path that has no version of its own choice. The
// base may be a server, a server with a prefix, or end in path or in one of
// known. A query stays.
func fixed(base *url.URL, path string, known ...string) *url.URL {
	root := rootOf(base)
	root = strings.TrimSuffix(root, longestSuffix(root, append(known, path)))
	return withPath(base, root+path)
}

// rootOf returns the escaped path of an URL without a slash at its end.
func rootOf(u *url.URL) string { return strings.TrimRight(u.EscapedPath(), "/") }

// withPath returns base with another path, given with valid escapes, and
// without its fragment.
func withPath(base *url.URL, escaped string) *url.URL {
	u := *base
	u.Fragment, u.RawFragment = "", ""
	u.RawPath = escaped
	u.Path, _ = url.PathUnescape(escaped)
	return &u
}

// longestSuffix returns the longest of paths that root ends in; "" is none.
func longestSuffix(root string, paths []string) string {
	longest := ""
	for _, path := range paths {
		if strings.HasSuffix(root, path) && len(path) > len(longest) {
			longest = path
		}
	}
	return longest
}

// hasVersion reports whether a segment of the path is a version.
func hasVersion(path string) bool { return slices.ContainsFunc(strings.Split(path, "/"), IsVersion) }

// IsVersion reports whether a segment of a path is a version: v1, v4, v1beta.
func IsVersion(segment string) bool {
	number, ok := strings.CutPrefix(segment, "v")
	number = strings.TrimSuffix(strings.TrimSuffix(number, "alpha"), "beta")
	_, err := strconv.ParseUint(number, 10, 8)
	return ok && err == nil
}

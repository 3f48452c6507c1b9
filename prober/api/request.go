package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// fields are the members of a JSON object of a request, in their order.
type fields []field

type field struct {
	key   string
	value any // none is left out
}

// none is the value of a field that is left out.
type none struct{}

// given returns a value; none where it is the zero value of its type.
func given(value any) any { return when(!reflect.ValueOf(value).IsZero(), value) }

// when returns a value; none unless it is wanted.
func when(wanted bool, value any) any {
	if wanted {
		return value
	}
	return none{}
}

// Body builds the request's JSON body with the changes to it that an endpoint needs. It refuses
// a request for tokens without a cap on the answer, which some servers take as one without
// end, and one about texts without any, which servers answer with an error or with nothing.
func (p Protocol) Body(asked Params, a *Adjustment) ([]byte, error) {
	switch {
	case p.Kind == Generation && asked.OutputTokens < 1:
		return nil, fmt.Errorf("build request body: output tokens %d, want at least 1", asked.OutputTokens)
	case (p.Kind == Embedding || p.Kind == Rerank) && len(asked.Inputs) == 0:
		return nil, errors.New("build request body: no inputs")
	}
	body, err := a.apply(p.body(asked), p.MaxTokens)
	if err != nil {
		return nil, fmt.Errorf("adjust request body: %w", err)
	}
	return encodeJSON(body)
}

func encodeJSON(body any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // so that the prompt's length on the wire is its own
	if err := encode(&b, e, body); err != nil {
		return nil, fmt.Errorf("build request body: %w", err)
	}
	return b.Bytes(), nil
}

// MarshalJSON implements json.Marshaler, for objects in a list.
func (f fields) MarshalJSON() ([]byte, error) { return encodeJSON(f) }

// encode writes a value to b, other values than objects by e, which writes there too.
func encode(b *bytes.Buffer, e *json.Encoder, v any) (err error) {
	object, ok := v.(fields)
	if !ok {
		if err = e.Encode(v); err == nil {
			b.Truncate(b.Len() - len("\n"))
		}
		return err
	}
	b.WriteByte('{')
	separator := ""
	for i := range object {
		if m := &object[i]; err == nil && m.value != (none{}) {
			b.WriteString(separator)
			separator = ","
			writeKey(b, e, m.key)
			err = encode(b, e, m.value)
		}
	}
	b.WriteByte('}')
	return err
}

// writeKey writes a key to b, by e where it needs escapes, as a key of an endpoint's own may.
func writeKey(b *bytes.Buffer, e *json.Encoder, key string) {
	if strconv.CanBackquote(key) && !strings.ContainsAny(key, `"\`) {
		b.WriteByte('"')
		b.WriteString(key)
		b.WriteString(`":`)
		return
	}
	_ = encode(b, e, key) // a text has no errors
	b.WriteByte(':')
}

// present returns the fields without those that are left out.
func (f fields) present() fields {
	return slices.DeleteFunc(slices.Clone(f), func(m field) bool { return m.value == none{} })
}

const (
	roleSystem = "system"
	roleUser   = "user"
)

// blankLine separates messages that become one text.
const blankLine = "\n\n"

// conversation is what to ask where each message has a role: the messages, or the prompt as the only one, of the user.
func conversation(p Params) []Message {
	if len(p.Messages) == 0 {
		return []Message{{Role: roleUser, Content: p.Prompt}}
	}
	return p.Messages
}

// systemApart is the conversation where what the system says is apart and the roles of the rest must alternate:
// messages of one role in a row become one, those of the system another, each with a blank line between them.
func systemApart(p Params) (system string, turns []Message) {
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
func joined(messages []Message) string {
	return strings.Join(stats.Map(messages, func(m Message) string { return m.Content }), blankLine)
}

// answerSchema is the name of Params.Schema where a protocol wants one.
const answerSchema = "answer"

// listed returns a list of the tool, with the schema of its arguments under a key; nil without.
func (t *Tool) listed(schema string) []fields {
	if t == nil {
		return nil
	}
	return []fields{{{"name", t.Name}, {"description", t.Description}, {schema, t.Parameters}}}
}

// openAITools returns the tools of a request of OpenAI's chat completions, whose form others share; nil without.
func openAITools(t *Tool) []fields {
	if t == nil {
		return nil
	}
	return []fields{{{"type", "function"}, {"function", t.listed("parameters")[0]}}}
}

// namedSchema is a schema that the answer is to follow, as OpenAI's protocols spell it.
func namedSchema(schema json.RawMessage) fields {
	return fields{{"name", answerSchema}, {"schema", schema}, {"strict", true}}
}

// MediaType is the content type of a good reply.
func (p Protocol) MediaType() string {
	return [...]string{
		stream.SSE: "text/event-stream", stream.NDJSON: "application/x-ndjson",
		stream.EventStream: "application/vnd.amazon.eventstream", stream.Whole: "application/json",
	}[p.Framing]
}

// Header returns what is added to the request. The encoding is named because a compressed
// stream arrives in blocks, which hides when its parts were sent.
func (p Protocol) Header() http.Header {
	h := http.Header{"Accept": {p.MediaType()}, "Accept-Encoding": {"identity"}, "Content-Type": {"application/json"}}
	if p.Version != "" {
		h.Set("Anthropic-Version", p.Version)
	}
	return h
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

// versioned returns a Protocol.URL for a path behind the version. The base may be a server ("http://h:8000"), a server
// with a prefix that ends in or holds a version ("…/v1", "…/openai/v1", "…/v1beta/openai"), or already the URL of a
// known protocol. Only a base without a version gets "/v1". A query stays.
func versioned(path string) func(*url.URL, string) *url.URL {
	return func(base *url.URL, _ string) *url.URL { return under(base, path) }
}

// openAIModels is GET /v1/models.
func openAIModels() *ModelList {
	return &ModelList{URL: func(base *url.URL) *url.URL { return under(base, modelsPath) }, Parse: ParseModels}
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
	return WithPath(base, root+path)
}

// server lists the paths, none of which has a version of the user's choice, that the URL of a server may end in.
type server []string

// path returns a Protocol.URL. The base may be a server, a server with a prefix, or end in path
// or in one of those of the server. A query stays.
func (s server) path(path string) func(*url.URL, string) *url.URL {
	return func(base *url.URL, _ string) *url.URL {
		root := rootOf(base)
		return WithPath(base, strings.TrimSuffix(root, longestSuffix(root, append([]string{path}, s...)))+path)
	}
}

func (s server) models(path string, parse func([]byte) ([]ModelInfo, error)) *ModelList {
	return &ModelList{URL: func(base *url.URL) *url.URL { return s.path(path)(base, "") }, Parse: parse}
}

// rootOf returns the escaped path of an URL without a slash at its end.
func rootOf(u *url.URL) string { return strings.TrimRight(u.EscapedPath(), "/") }

// WithPath returns base with another path, given with valid escapes, and without its fragment.
func WithPath(base *url.URL, escaped string) *url.URL {
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

func hasVersion(path string) bool { return slices.ContainsFunc(strings.Split(path, "/"), IsVersion) }

// IsVersion reports whether a segment of a path is a version: v1, v4, v1beta.
func IsVersion(segment string) bool {
	number, ok := strings.CutPrefix(segment, "v")
	number = strings.TrimSuffix(strings.TrimSuffix(number, "alpha"), "beta")
	_, err := strconv.ParseUint(number, 10, 8)
	return ok && err == nil
}

package simulator

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// conversation is what the requests of chat protocols have in common, beyond
// their spelling.
type conversation struct {
	model       string
	contents    []string
	limit       *int // nil is not given
	stream      bool
	temperature *float64
	noReasoning bool
}

// ask returns the request in the words of all protocols; these protocols report
// the usage unasked.
func (c conversation) ask() (ask, error) {
	if len(c.contents) == 0 {
		return ask{}, badRequest("there is no message")
	}
	a := ask{
		model: c.model, text: c.contents[len(c.contents)-1], prompt: chatTokens(c.contents), stream: c.stream, usage: true,
		sampled: c.temperature == nil || *c.temperature > 0, reasoning: !c.noReasoning,
	}
	if c.limit != nil {
		if a.maxOutput = *c.limit; a.maxOutput < 1 {
			return ask{}, badRequest("the limit on the output must be at least 1, got " + strconv.Itoa(*c.limit))
		}
	}
	return a, nil
}

// messagesRequest is what the requests of Anthropic and Cohere spell alike.
type messagesRequest struct {
	Model    string `json:"model"`
	Messages []struct {
		Content openaiContent `json:"content"`
	} `json:"messages"`
	MaxTokens   *int     `json:"max_tokens"`
	Temperature *float64 `json:"temperature"`
	Stream      bool     `json:"stream"`
	Thinking    struct {
		Type string `json:"type"`
	} `json:"thinking"`
}

func (q *messagesRequest) ask() (ask, error) {
	c := conversation{
		model: q.Model, limit: q.MaxTokens, stream: q.Stream,
		temperature: q.Temperature, noReasoning: q.Thinking.Type == "disabled",
	}
	for _, m := range q.Messages {
		c.contents = append(c.contents, string(m.Content))
	}
	return c.ask()
}

// contentBlock is the part of a reply, of one kind of material, that is written
// at the moment.
type contentBlock struct {
	kind  Kind // Role is none
	index int  // of the open block, or the next
}

// close ends the open block, if there is one, and returns its index.
func (b *contentBlock) close() (index int, ok bool) {
	if b.kind == Role {
		return 0, false
	}
	b.kind = Role
	b.index++
	return b.index - 1, true
}

// ending is the end of a reply in protocols that tell the finish reason and the
// usage in one event.
type ending struct {
	finish  finish
	usage   usage
	counted bool // usage is known
	told    bool // the end is written
}

// take notes what an event tells of the end, and returns whether to write it
// now: with the usage, or in its absence with the end marker.
func (n *ending) take(e *event) (due bool) {
	if n.finish == "" {
		n.finish = e.finish
	}
	if e.usage != nil && e.kind != Role {
		n.usage, n.counted = *e.usage, true
	}
	due = !n.told && (e.kind == Usage || e.kind == Done)
	n.told = n.told || due || e.kind == Failure
	return due
}

// appendTyped appends an event whose name stands in its frame and in its member
// type. members are what follows in its object, with the commas before them.
func appendTyped(dst []byte, frame frameFunc, name, members string) []byte {
	return frame(dst, name, []byte(`{"type":"`+name+`"`+members+`}`))
}

// quote returns a text in JSON.
func quote[T ~string | ~[]byte](text T) string {
	b, err := json.Marshal(string(text))
	if err != nil {
		panic(err) // cannot happen: a string
	}
	return string(b)
}

// appendText appends a text inside of a string in JSON. What is no control
// character stays as it is, valid or not.
func appendText[T ~string | ~[]byte](dst []byte, text T) []byte {
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = fmt.Appendf(dst, `\u%04x`, c)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

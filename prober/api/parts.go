package api

import (
	"bytes"

	"github.com/valyala/fastjson"
)

// parts collects material that comes in pieces of several kinds in one frame:
// the parts of a content that is a list, function calls.
type parts struct {
	text, reasoning, tool []byte
}

// reset forgets what was collected and keeps the memory.
func (p *parts) reset() {
	p.text, p.reasoning, p.tool = p.text[:0], p.reasoning[:0], p.tool[:0]
}

// add adds a content: a text, a part, or a list of these. A part of type thinking
// (Mistral) or reasoning is reasoning, as a text or as a list of parts itself; of
// others the text counts, and one without a text (references, an image) is no
// token.
func (p *parts) add(content *fastjson.Value) {
	if content == nil {
		return
	}
	for _, part := range content.GetArray() {
		p.add(part)
	}
	text := &p.text
	if kind := content.GetStringBytes("type"); bytes.HasPrefix(kind, []byte("thinking")) || bytes.HasPrefix(kind, []byte("reasoning")) {
		text = &p.reasoning
	}
	for _, field := range [...]*fastjson.Value{content, content.Get("text"), content.Get("refusal")} {
		*text = append(*text, field.GetStringBytes()...)
	}
	if thinking := content.Get("thinking"); thinking != nil {
		inner := parts{text: p.reasoning} // whatever the types in it, it is reasoning
		inner.add(thinking)
		p.reasoning = append(inner.text, inner.reasoning...)
	}
}

// addCall adds the name and the arguments of a function call, or the input of a
// call of a custom tool.
func (p *parts) addCall(call *fastjson.Value) {
	p.tool = append(p.tool, call.GetStringBytes("name")...)
	p.tool = append(p.tool, call.GetStringBytes("arguments")...)
	p.tool = append(p.tool, call.GetStringBytes("input")...)
}

package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fastjson"
)

// objects decodes a reply whose frames are JSON objects, which differ by protocol.
type objects struct {
	parser fastjson.Parser
	reader
}

// reader reads the frames of one reply in order.
type reader interface {
	// read adds to d what an object says, given the name of its event.
	read(event []byte, v *fastjson.Value, d *Delta)
}

func (o *objects) Decode(event, data []byte, d *Delta) error {
	*d = Delta{Tokens: Unknown}
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0:
		return nil
	case string(data) == "[DONE]":
		d.Done = true
		return nil
	case string(event) == "error":
		d.Err = describeError(data)
		return nil
	}
	v, err := parseJSON(&o.parser, data)
	if err != nil {
		return err
	}
	d.Err = errorIn(v)
	switch {
	case v.Type() == fastjson.TypeObject:
		o.read(event, v, d)
	case d.Err == nil:
		return fmt.Errorf("%w: no JSON object: %s", ErrProtocol, bounded(data))
	}
	return nil
}

// decodeWhole decodes a reply of one frame, of which read takes what is no error.
func decodeWhole(data []byte, d *Delta, read func(reply *fastjson.Value) error) error {
	*d = Delta{Tokens: Unknown}
	reply, err := parseJSON(new(fastjson.Parser), data)
	if err != nil {
		return err
	}
	if d.Err = errorIn(reply); d.Err != nil {
		return nil
	}
	d.Done = true
	return read(reply)
}

// frame is what the Delta of the latest frame points to.
type frame struct {
	usage  Usage
	server ServerTimes
	calls  []CallPiece
}

// usageAt returns the token counts at these places in v, of countAt; "" is Unknown.
func usageAt(v *fastjson.Value, prompt, cached, output, reasoning string) Usage {
	return Usage{Prompt: countAt(v, prompt), Cached: countAt(v, cached), Output: countAt(v, output), Reasoning: countAt(v, reasoning)}
}

// setUsage sets the token counts of a frame, where it has any.
func (f *frame) setUsage(d *Delta, u Usage) {
	if f.usage = u; u != noUsage() {
		d.Usage = &f.usage
	}
}

// setServer sets the server's own timing of a frame, where it has any.
func (f *frame) setServer(d *Delta, s ServerTimes) {
	if f.server = s; s != (ServerTimes{-1, -1, -1}) {
		d.Server = &f.server
	}
}

func (f *frame) addCall(d *Delta, index int, name, arguments []byte) {
	if len(name)+len(arguments) == 0 {
		return
	}
	if d.Calls == nil {
		f.calls = f.calls[:0]
	}
	f.calls = append(f.calls, CallPiece{index, name, arguments})
	d.Calls = f.calls
}

// wholeArguments returns the text of arguments that come whole, as an object, and from some servers as a text.
func wholeArguments(v *fastjson.Value) []byte {
	switch {
	case v == nil || v.Type() == fastjson.TypeNull:
		return nil
	case v.Type() == fastjson.TypeString:
		return v.GetStringBytes()
	}
	return v.MarshalTo(nil)
}

// eventType returns what kind of event a frame is: its member type, else the
// name that the framing gives it. Some gateways leave out one of the two.
func eventType(v *fastjson.Value, event []byte) []byte {
	if t := v.GetStringBytes("type"); len(t) > 0 {
		return t
	}
	return event
}

const (
	// checkedSize is the length of a JSON text from which on it is checked before it is parsed.
	checkedSize = 16 << 10
	// maxValues is how many values a checked text may hold, and bytesPerValue how long they are at least on average:
	// lists of token ids, which are the densest of real replies, have five bytes for each.
	maxValues     = 100_000
	bytesPerValue = 3
	maxCount      = 100_000_000    // the largest believable count of tokens
	maxServerTime = 24 * time.Hour // the longest believable time of one request
)

// parseJSON parses a JSON text to a depth of fastjson.MaxDepth. The parser needs some 100 bytes for a value
// that took 2, and its errors grow with input times depth: a long text is checked before.
func parseJSON(p *fastjson.Parser, text []byte) (*fastjson.Value, error) {
	if len(text) > checkedSize {
		if most := min(maxValues, len(text)/bytesPerValue); valuesIn(text) > most {
			return nil, fmt.Errorf("%w: JSON of over %d values", ErrProtocol, most)
		}
		if !json.Valid(text) {
			return nil, notJSON(text)
		}
	}
	v, err := p.ParseBytes(text)
	if err != nil {
		return nil, notJSON(text)
	}
	return v, nil
}

// ParserMemory returns about how many bytes the parser needs for the values of a
// JSON text. The vectors of an Embedding are read without it.
func ParserMemory(text []byte, k Kind) int {
	if k == Embedding {
		return 0
	}
	return 160 * valuesIn(text)
}

// valuesIn returns about how many values a JSON text holds, rather more.
func valuesIn(text []byte) int {
	return bytes.Count(text, []byte(",")) + bytes.Count(text, []byte("[")) + bytes.Count(text, []byte("{"))
}

// notJSON quotes the beginning of a text; the parser's own error quotes more.
func notJSON(text []byte) error {
	return fmt.Errorf("%w: no JSON: %s", ErrProtocol, bounded(text))
}

// count returns a count of tokens. Unknown is anything but a believable
// number: absent, null, negative, a fraction, absurdly large.
func count(v *fastjson.Value) int {
	f := number(v)
	if f > maxCount || f != math.Trunc(f) {
		return Unknown
	}
	return int(f)
}

// countAt returns the first count of tokens at one of the places in v, each a key or, with dots, keys one in the other.
func countAt(v *fastjson.Value, places ...string) int {
	for _, place := range places {
		if place == "" {
			continue
		}
		in := v
		dot := strings.IndexByte(place, '.')
		for ; dot >= 0; dot = strings.IndexByte(place, '.') {
			in, place = in.Get(place[:dot]), place[dot+1:]
		}
		if n := count(in.Get(place)); n != Unknown {
			return n
		}
	}
	return Unknown
}

// seconds returns a duration in seconds; -1 is absent or not believable.
func seconds(v *fastjson.Value) time.Duration { return duration(v, time.Second) }

// milliseconds is the same for a duration in milliseconds.
func milliseconds(v *fastjson.Value) time.Duration { return duration(v, time.Millisecond) }

func duration(v *fastjson.Value, unit time.Duration) time.Duration {
	f := number(v)
	if f < 0 || f > float64(maxServerTime/unit) {
		return -1
	}
	return time.Duration(math.Round(f * float64(unit)))
}

// number returns a number that is not negative; -1 is anything else.
func number(v *fastjson.Value) float64 {
	if v == nil || v.Type() != fastjson.TypeNumber {
		return -1
	}
	f, err := v.Float64()
	if err != nil || !(f >= 0) { // NaN too, which the parser lets through
		return -1
	}
	return f
}

func hasText(list []*fastjson.Value, text string) bool {
	return slices.ContainsFunc(list, func(v *fastjson.Value) bool { return string(v.GetStringBytes()) == text })
}

// nameIn returns a name in a reply, of a model or of a version; nil
// where it is missing or could not be a name (over 256 bytes, not UTF-8).
func nameIn(v *fastjson.Value) []byte {
	if name := v.GetStringBytes(); usableName(string(name)) {
		return name
	}
	return nil
}

// onceName reads a name from the first frame that has it. Most servers repeat it in every frame.
type onceName bool

// read returns the name under the keys; nil where it was read before.
func (o *onceName) read(v *fastjson.Value, keys ...string) []byte {
	if *o {
		return nil
	}
	name := nameIn(v.Get(keys...))
	*o = name != nil
	return name
}

// addContent adds a content: a text, a part, or a list of these. A part of type thinking (Mistral) or reasoning is reasoning,
// as a text or as a list of parts itself; of others the text counts: one without (references, an image) is no token.
func (d *Delta) addContent(content *fastjson.Value) {
	if content == nil {
		return
	}
	for _, part := range content.GetArray() {
		d.addContent(part)
	}
	text := &d.Text
	if kind := content.GetStringBytes("type"); bytes.HasPrefix(kind, []byte("thinking")) || bytes.HasPrefix(kind, []byte("reasoning")) {
		text = &d.Reasoning
	}
	for _, field := range [...]*fastjson.Value{content, content.Get("text"), content.Get("refusal")} {
		*text = joinTexts(*text, field.GetStringBytes())
	}
	if thinking := content.Get("thinking"); thinking != nil {
		d.addReasoning(thinking)
	}
}

// joinTexts returns two texts as one, which takes memory only where there is material in both.
func joinTexts(first, second []byte) []byte {
	if len(first) == 0 {
		return second
	}
	return append(first, second...)
}

// addReasoning adds contents that are reasoning, whatever the types in them.
func (d *Delta) addReasoning(contents ...*fastjson.Value) {
	inner := Delta{Text: d.Reasoning}
	for _, content := range contents {
		inner.addContent(content)
	}
	d.Reasoning = append(inner.Text, inner.Reasoning...)
}

// addTool adds texts that a call has under these keys.
func (d *Delta) addTool(call *fastjson.Value, keys ...string) {
	for _, key := range keys {
		d.Tool = append(d.Tool, call.GetStringBytes(key)...)
	}
}

// growingText makes pieces of a text that a server sends whole in each frame,
// or, depending on how the server was started, in pieces anyway.
type growingText struct {
	whole  bool // a text began with the one before; or set, where that is the default
	pieces bool // a text did not fit the one before, which ends the question
	seen   []byte
}

// next returns what a frame's text adds. A text that begins with the one before is taken as grown, and one that
// the one before begins with as cut at its end (by a stop string); anything else proves pieces.
func (g *growingText) next(text []byte) []byte {
	if g.pieces || len(text) == 0 {
		return text
	}
	fresh := text
	switch {
	case len(text) > len(g.seen) && bytes.HasPrefix(text, g.seen):
		fresh = text[len(g.seen):]
		g.whole = g.whole || len(g.seen) > 0
		g.seen = append(g.seen, fresh...)
	case g.whole && bytes.HasPrefix(g.seen, text):
		fresh = nil
	default:
		g.pieces, g.seen = true, nil
	}
	return fresh
}

// FinishReasons lists the closed set of Delta.Finish: the finish reasons of the
// OpenAI protocols, abort (SGLang, vLLM), error (OpenRouter) and other.
func FinishReasons() []string {
	return []string{"stop", "length", "tool_calls", "content_filter", "function_call", "abort", "error", "other"}
}

// finishWord maps a server's finish reason, in any case, into the closed set. "" is none, and so are the words
// for it that servers put into every frame but the last.
func finishWord(reason []byte) string {
	switch string(reason) {
	case "", "None", "none", "null", "FINISH_REASON_UNSPECIFIED":
		return ""
	}
	switch s := strings.ToLower(string(reason)); s {
	case "stop", "length", "tool_calls", "content_filter", "function_call", "abort", "error":
		return s
	case "stop_sequence", "eos", "eos_token", "word", "end_turn", "complete":
		return "stop"
	case "limit", "max_tokens", "max_output_tokens", "max_length", "model_length", "model_context_window_exceeded":
		return "length"
	case "tool_use", "tool_call":
		return "tool_calls"
	case "refusal", "guardrail_intervened", "content_filtered", "safety", "recitation", "blocklist", "prohibited_content", "spii":
		return "content_filter"
	case "insufficient_system_resource": // DeepSeek: the server gave up
		return "error"
	}
	return "other"
}

// finishReason maps a finish reason in JSON: absent, null, false and what is empty are none.
func finishReason(v *fastjson.Value) string {
	switch {
	case v != nil && v.Type() == fastjson.TypeString:
		return finishWord(v.GetStringBytes())
	case isSet(v):
		return "other"
	}
	return ""
}

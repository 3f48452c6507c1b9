package api

import (
	"encoding/json"

	"github.com/valyala/fastjson"
)

// Tool is a function that the model may call.
type Tool struct {
	// Name is the name to call it by, Description what it is for.
	Name, Description string
	// Parameters is the JSON schema of its arguments.
	Parameters json.RawMessage
}

// CallPiece is what one frame adds to a call of a function.
type CallPiece struct {
	// Index tells the calls of a reply apart.
	Index int
	// Name is the name of the function, or a part of it; Arguments is what the frame
	// adds to the text of the arguments. Either may be empty.
	Name, Arguments []byte
}

// addCall adds a piece of a call to the delta of a frame.
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

// wholeArguments returns the text of arguments that come whole, as an object, and
// from some servers as a text.
func wholeArguments(v *fastjson.Value) []byte {
	switch {
	case v == nil || v.Type() == fastjson.TypeNull:
		return nil
	case v.Type() == fastjson.TypeString:
		return v.GetStringBytes()
	}
	return v.MarshalTo(nil)
}

// answerSchema is the name of Params.Schema where a protocol wants one.
const answerSchema = "answer"

// openAITool is a tool in a request of OpenAI's chat completions, which others
// share.
type openAITool struct {
	Type     string         `json:"type"`
	Function openAIFunction `json:"function"`
}

type openAIFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

// openAITools returns the tools of a request; nil without.
func openAITools(t *Tool) []openAITool {
	if t == nil {
		return nil
	}
	return []openAITool{{"function", openAIFunction{t.Name, t.Description, t.Parameters}}}
}

// namedSchema is a schema that the answer is to follow, as OpenAI's protocols and
// others spell it.
type namedSchema struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Strict bool            `json:"strict"`
}

// responseFormat is response_format of chat completions.
type responseFormat struct {
	Type       string      `json:"type"`
	JSONSchema namedSchema `json:"json_schema"`
}

// jsonFormat returns the response_format that asks for a schema; nil without.
func jsonFormat(schema json.RawMessage) *responseFormat {
	if schema == nil {
		return nil
	}
	return &responseFormat{"json_schema", namedSchema{answerSchema, schema, true}}
}

package api

import (
	"encoding/json"

	"github.com/valyala/fastjson"
)

// Tool is a function that the model may call.
type Tool struct {
	// Name is the name to call it by, Description what it is for.
	Name, Description string
	Parameters        json.RawMessage // the JSON schema of its arguments
}

// CallPiece is what one frame adds to a call of a function.
type CallPiece struct {
	// Index tells the calls of a reply apart.
	Index int
	// Name is the name of the function, or a part of it; Arguments is what the frame
	// adds to the text of the arguments. Either may be empty.
	Name, Arguments []byte
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

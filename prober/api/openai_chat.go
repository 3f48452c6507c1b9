package api

import "github.com/valyala/fastjson"

// chat is OpenAI Chat Completions, POST /v1/chat/completions.
func chat() Protocol {
	return Protocol{
		Name:   "openai-chat",
		Path:   "/chat/completions",
		Header: eventStream(),
		Body: func(p Params) ([]byte, error) {
			r := newOpenAIRequest(p)
			r.Messages = []openAIMessage{{Role: "user", Content: p.Prompt}}
			return r.encode()
		},
		NewDecoder: func() Decoder { return &openAIDecoder{material: (*openAIDecoder).chatMaterial} },
	}
}

// chatMaterial reads choices[].delta. Servers name the reasoning differently,
// and one that sends both names sends the same text twice.
func (o *openAIDecoder) chatMaterial(choice *fastjson.Value, d *Delta) {
	delta := choice.Get("delta")
	if delta == nil {
		return
	}
	d.Text = delta.GetStringBytes("content")
	d.Reasoning = delta.GetStringBytes("reasoning")
	if len(d.Reasoning) == 0 {
		d.Reasoning = delta.GetStringBytes("reasoning_content")
	}
	d.Refusal = delta.GetStringBytes("refusal")
	o.tool = o.tool[:0]
	for _, call := range delta.GetArray("tool_calls") {
		o.appendCall(call.Get("function"))
	}
	o.appendCall(delta.Get("function_call"))
	d.Tool = o.tool
}

// appendCall adds the name and the arguments of a function call.
func (o *openAIDecoder) appendCall(function *fastjson.Value) {
	o.tool = append(o.tool, function.GetStringBytes("name")...)
	o.tool = append(o.tool, function.GetStringBytes("arguments")...)
}

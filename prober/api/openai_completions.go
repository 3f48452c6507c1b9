package api

import "github.com/valyala/fastjson"

// completions is the legacy OpenAI Completions, POST /v1/completions: no chat
// template and no parser of reasoning between the engine and the reply.
func completions() Protocol {
	return Protocol{
		Name:   "openai-completions",
		Path:   "/completions",
		Header: eventStream(),
		Body: func(p Params) ([]byte, error) {
			r := newOpenAIRequest(p)
			r.Prompt = p.Prompt
			return r.encode()
		},
		NewDecoder: func() Decoder { return &openAIDecoder{material: (*openAIDecoder).completionMaterial} },
	}
}

// completionMaterial reads choices[].text.
func (o *openAIDecoder) completionMaterial(choice *fastjson.Value, d *Delta) {
	d.Text = choice.GetStringBytes("text")
}

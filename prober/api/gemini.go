package api

import (
	"net/url"
	"strings"

	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// gemini is Google Gemini, POST /v1beta/models/MODEL:streamGenerateContent, on the Gemini API and on Vertex AI.
func gemini() Protocol {
	return Protocol{
		Name: "gemini", Hosted: true, Operation: OperationContent, Kind: Generation, Framing: stream.SSE,
		URL: geminiURL, Models: &ModelList{URL: geminiModelsURL, Parse: parseGeminiModels},
		body:        geminiBody,
		NoEndMarker: true,
		MaxTokens:   "generationConfig.maxOutputTokens", Tools: true, Structured: true,
		NewDecoder: func() Decoder { return &objects{reader: &geminiReader{candidates: Unknown, thoughts: Unknown}} },
	}
}

// geminiBody builds the body of a request. What others call the assistant is the model here.
func geminiBody(p Params) fields {
	parts := func(text string) field { return field{"parts", []fields{{{"text", text}}}} }
	system, turns := systemApart(p)
	var contents []fields
	for _, m := range turns {
		if m.Role != roleUser {
			m.Role = "model"
		}
		contents = append(contents, fields{{"role", m.Role}, parts(m.Content)})
	}
	return fields{
		{"contents", contents},
		{"systemInstruction", when(system != "", fields{parts(system)})},
		{"generationConfig", fields{
			{"maxOutputTokens", p.OutputTokens},
			{"temperature", 0},
			{"responseLogprobs", given(p.TopLogprobs > 0)},
			{"logprobs", given(p.TopLogprobs)},
			{"responseMimeType", when(p.Schema != nil, "application/json")},
			{"responseJsonSchema", given(p.Schema)},
		}},
		{"tools", when(p.Tool != nil, []fields{{{"functionDeclarations", p.Tool.listed("parameters")}}})},
	}
}

// geminiURL returns where to send requests for a model. Without alt=sse the reply would be one JSON array.
func geminiURL(base *url.URL, model string) *url.URL {
	u := geminiModelsURL(base)
	if model = strings.TrimPrefix(model, "models/"); model != "" {
		u = WithPath(u, u.EscapedPath()+"/"+url.PathEscape(model)+":streamGenerateContent")
	}
	query := u.Query()
	query.Set("alt", "sse")
	u.RawQuery = query.Encode()
	return u
}

// geminiModelsURL returns where the models are. The base may be the server, end in a version or in Vertex AI's
// publishers/google, or be the URL of a model's method.
func geminiModelsURL(base *url.URL) *url.URL {
	root := rootOf(base)
	if i := strings.LastIndex(root, "/models/"); i >= 0 && strings.Contains(root[i:], ":") {
		root = root[:i]
	}
	root = strings.TrimSuffix(root, modelsPath)
	if !hasVersion(root) {
		root += "/v1beta"
	}
	return WithPath(base, root+modelsPath)
}

// parseGeminiModels reads the reply to GET /v1beta/models: those that
// generate, without the "models/" before their names.
func parseGeminiModels(body []byte) ([]ModelInfo, error) {
	return parseModelList(body, "models", func(m *fastjson.Value) ModelInfo {
		if !hasText(m.GetArray("supportedGenerationMethods"), "generateContent") {
			return ModelInfo{}
		}
		return ModelInfo{
			ID:          strings.TrimPrefix(string(m.GetStringBytes("name")), "models/"),
			MaxModelLen: count(m.Get("inputTokenLimit")),
		}
	})
}

type geminiReader struct {
	frame
	running runningCount
	model   onceName
	// The last counts of the answer and of the thoughts; Unknown before the first.
	candidates, thoughts int
	answered, finished   bool // a part of the answer came; a finish reason
	called               int  // functions so far
}

func (g *geminiReader) read(_ []byte, v *fastjson.Value, d *Delta) {
	d.Model = g.model.read(v, "modelVersion")
	candidate := v.Get("candidates", "0")
	g.readParts(candidate, d)
	g.answered = g.answered || d.Visible()
	g.finished = g.finished || finishReason(candidate.Get("finishReason")) != ""
	usage := v.Get("usageMetadata")
	g.readUsage(usage, d)
	if candidate != nil {
		d.Top = topIn(candidate.GetArray("logprobsResult", "topCandidates", "0", "candidates"), "token", "logProbability")
		d.Finish = finishReason(candidate.Get("finishReason"))
		d.Tokens = g.running.next(count(usage.Get("candidatesTokenCount")), Unknown, d)
	} else if len(v.GetStringBytes("promptFeedback", "blockReason")) > 0 {
		d.Finish = "content_filter" // the prompt was refused, with no candidate
	}
}

// readParts reads the material of a candidate. Thoughts are summaries. A part may
// be a mere thoughtSignature, which is no token.
func (g *geminiReader) readParts(candidate *fastjson.Value, d *Delta) {
	for _, part := range candidate.GetArray("content", "parts") {
		text := &d.Text
		if part.GetBool("thought") {
			text = &d.Reasoning
		}
		*text = joinTexts(*text, part.GetStringBytes("text"))
		if call := part.Get("functionCall"); call != nil {
			readCall(call, d)
			name := call.GetStringBytes("name")
			if len(name) > 0 { // else the chunk adds to the call before
				g.called++
			}
			g.addCall(d, g.called, name, wholeArguments(call.Get("args")))
		}
		d.Tool = append(d.Tool, part.GetStringBytes("executableCode", "code")...)
	}
	d.Summary = len(d.Reasoning) > 0
}

// readCall reads a function call, or what a chunk adds to one: Vertex AI streams
// the arguments piece by piece if asked to, and ends them with an empty piece.
func readCall(call *fastjson.Value, d *Delta) {
	d.Tool = append(d.Tool, call.GetStringBytes("name")...)
	if args := call.Get("args"); args != nil {
		d.Tool = args.MarshalTo(d.Tool)
	}
	for _, piece := range call.GetArray("partialArgs") {
		d.Tool = append(d.Tool, piece.GetStringBytes("stringValue")...)
		for _, field := range [...]string{"numberValue", "boolValue", "nullValue"} {
			if value := piece.Get(field); value != nil {
				d.Tool = value.MarshalTo(d.Tool)
			}
		}
	}
}

// readUsage reads the token counts, running totals of which the last one counts.
// Candidates leave out the thoughts. Vertex AI may leave out what did not change.
func (g *geminiReader) readUsage(usage *fastjson.Value, d *Delta) {
	if usage == nil || usage.Type() != fastjson.TypeObject {
		return
	}
	g.candidates = known(count(usage.Get("candidatesTokenCount")), g.candidates)
	g.thoughts = known(count(usage.Get("thoughtsTokenCount")), g.thoughts)
	u := usageAt(usage, "promptTokenCount", "cachedContentTokenCount", "", "")
	u.Reasoning = g.thoughts
	// Without a count of the answer the thoughts are all there is only where no answer came to the end: chunks may
	// count the thoughts and not yet their own text, and some replies never do.
	if g.candidates != Unknown || g.thoughts != Unknown && g.finished && !g.answered {
		u.Output = max(0, g.candidates)
		// The total also counts what tools made of the prompt.
		u.joinReasoning(max(Unknown, count(usage.Get("totalTokenCount"))-max(0, count(usage.Get("toolUsePromptTokenCount")))), true)
	}
	g.setUsage(d, u)
}

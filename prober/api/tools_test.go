package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestForms checks how each protocol asks for a call of a tool, and for JSON by a
// schema: the members of the body as the services' documentation has them.
func TestForms(t *testing.T) {
	const schema = `{"type":"object"}`
	const function = `{"name":"f","description":"Does it.","parameters":` + schema + `}`
	openAI := `{"tools":[{"type":"function","function":` + function + `}]}`
	want := map[string][2]string{
		"openai-chat": {openAI, `{"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":` + schema + `,"strict":true}}}`},
		"openai-responses": {
			`{"tools":[{"type":"function","name":"f","description":"Does it.","parameters":` + schema + `,"strict":false}]}`,
			`{"text":{"format":{"type":"json_schema","name":"answer","schema":` + schema + `,"strict":true}}}`,
		},
		"ollama":          {openAI, `{"format":` + schema + `}`},
		"ollama-generate": {"", `{"format":` + schema + `}`},
		"tgi":             {"", `{"parameters":{"grammar":{"type":"json","value":` + schema + `}}}`},
		"sglang":          {"", `{"sampling_params":{"json_schema":"{\"type\":\"object\"}"}}`},
		"llamacpp":        {"", `{"json_schema":` + schema + `}`},
		"anthropic": {
			`{"tools":[{"name":"f","description":"Does it.","input_schema":` + schema + `}]}`,
			`{"output_config":{"format":{"type":"json_schema","schema":` + schema + `}}}`,
		},
		"gemini": {
			`{"tools":[{"functionDeclarations":[` + function + `]}]}`,
			`{"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":` + schema + `}}`,
		},
		"cohere": {openAI, `{"response_format":{"type":"json_object","json_schema":` + schema + `}}`},
		"bedrock": {
			`{"toolConfig":{"tools":[{"toolSpec":{"name":"f","description":"Does it.","inputSchema":{"json":` + schema + `}}}]}}`,
			`{"outputConfig":{"textFormat":{"type":"json_schema","structure":{"jsonSchema":{"name":"answer","schema":"{\"type\":\"object\"}"}}}}}`,
		},
	}
	for _, p := range protocols() {
		w, ok := want[p.Name]
		if p.Tools != (w[0] != "") || p.Structured != ok {
			t.Errorf("%s: tools %t, JSON %t; want %t, %t", p.Name, p.Tools, p.Structured, w[0] != "", ok)
			continue
		}
		plain := Params{Model: "m", Prompt: "Hello.", OutputTokens: 16}
		if p.Kind != Generation {
			continue
		}
		for i, add := range []func(*Params){
			func(q *Params) { q.Tool = &Tool{"f", "Does it.", json.RawMessage(schema)} },
			func(q *Params) { q.Schema = json.RawMessage(schema) },
		} {
			asked := plain
			add(&asked)
			if got, want := bodyOf(t, p, asked), merged(bodyOf(t, p, plain), jsonObject(t, w[i])); !cmp.Equal(got, want) {
				t.Errorf("%s (-want +got):\n%s", p.Name, cmp.Diff(want, got))
			}
		}
	}
}

func jsonObject(t *testing.T, text string) map[string]any {
	t.Helper()
	if text == "" {
		return nil
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func bodyOf(t *testing.T, p Protocol, asked Params) map[string]any {
	t.Helper()
	body, err := p.Body(asked, new(Adjustment))
	if err != nil {
		t.Fatal(err)
	}
	return jsonObject(t, string(body))
}

// merged adds the members of b to a, at any depth.
func merged(a, b map[string]any) map[string]any {
	for name, v := range b {
		if inner, ok := a[name].(map[string]any); ok {
			v = merged(inner, v.(map[string]any))
		}
		a[name] = v
	}
	return a
}

// TestCallPieces decodes the calls of replies: those of files that are recorded or
// composed elsewhere, and forms that servers are known to use.
func TestCallPieces(t *testing.T) {
	f := func(api, body, want string) {
		t.Helper()
		p, _ := Lookup(api)
		var pieces []string
		var d Delta
		decoder := p.NewDecoder()
		for line := range strings.Lines(body) {
			event, data, ok := strings.Cut(strings.TrimSpace(line), " ")
			if !ok || strings.HasPrefix(line, "data:") || strings.HasPrefix(line, "{") {
				event, data = "", strings.TrimPrefix(strings.TrimSpace(line), "data:")
			}
			if err := decoder.Decode([]byte(event), []byte(data), &d); err != nil {
				t.Fatal(err)
			}
			for _, c := range d.Calls {
				pieces = append(pieces, fmt.Sprintf("%d %s(%s)", c.Index, c.Name, c.Arguments))
			}
		}
		if got := strings.Join(pieces, "; "); got != want {
			t.Errorf("%s: %s, want %s", api, got, want)
		}
	}
	f("bedrock", string(readCapture(t, "composed_bedrock_tool")), `0 get_weather(); 0 ({"city":); 0 ( "Rome"})`)
	f("openai-chat", `data: {"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"name":"f","arguments":{"a":1}}}]}}]}
data: {"choices":[{"delta":{"tool_calls":[{"function":{"name":"g"}},{"function":{"arguments":"{}"}}]}}]}
data: {"choices":[{"delta":{"function_call":{"name":"h","arguments":"["}}}]}
data: {"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":null,"arguments":null}}]}}]}
`, `1 f({"a":1}); 0 g(); 1 ({}); 0 h([)`)
	f("openai-responses", `data: {"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","name":"f","arguments":""}}
data: {"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"a\""}
data: {"type":"response.function_call_arguments.delta","output_index":1,"delta":":1}"}
data: {"type":"response.function_call_arguments.done","output_index":1,"arguments":"{\"a\":1}"}
data: {"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","name":"f","arguments":"{\"a\":1}"}}
data: {"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","name":"whole","arguments":"{}"}}
data: {"type":"response.completed","response":{"output":[{"type":"function_call","name":"f","arguments":"{\"a\":1}"}]}}
`, `1 f(); 1 ({"a"); 1 (:1}); 2 whole({})`)
	f("openai-responses", `data: {"type":"response.completed","response":{"output":[{"type":"message","content":[]},{"type":"function_call","name":"f","arguments":"{}"}]}}
`, `1 f({})`)
	f("anthropic", `data: {"type":"content_block_start","index":1,"content_block":{"type":"tool_use","name":"f","input":{}}}
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":""}}
data: {"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{}"}}
data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","name":"whole","input":{"a":1}}}
`, `1 f(); 1 ({}); 2 whole({"a":1})`)
	f("gemini", `data: {"candidates":[{"content":{"parts":[{"text":"Well."},{"functionCall":{"name":"f","args":{"a":1}}}]}}]}
data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"g","args":{}}}]}}]}
`, `1 f({"a":1}); 2 g({})`)
	f("cohere", `data: {"type":"tool-call-start","index":0,"delta":{"message":{"tool_calls":{"function":{"name":"f","arguments":""}}}}}
data: {"type":"tool-call-delta","index":0,"delta":{"message":{"tool_calls":{"function":{"arguments":"{}"}}}}}
`, `0 f(); 0 ({})`)
	f("ollama", `{"message":{"tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]},"done":false}
{"message":{"tool_calls":[{"function":{"name":"g","arguments":"text"}}]},"done":false}
`, `0 f({"a":1}); 1 g(text)`)
}

// A frame of text costs nothing for the calls that it does not have.
func TestTextAllocatesNoCalls(t *testing.T) {
	p, _ := Lookup("openai-chat")
	decoder, frame := p.NewDecoder(), []byte(`{"choices":[{"index":0,"delta":{"content":"x"}}]}`)
	var d Delta
	if err := decoder.Decode(nil, frame, &d); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { _ = decoder.Decode(nil, frame, &d) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// parameters is the schema of an object whose members are of the given types and
// all required.
func parameters(members ...string) json.RawMessage {
	var all, names []string
	for i := 0; i < len(members); i += 2 {
		all = append(all, fmt.Sprintf("%q:{\"type\":%q}", members[i], members[i+1]))
		names = append(names, fmt.Sprintf("%q", members[i]))
	}
	return json.RawMessage(`{"type":"object","properties":{` + strings.Join(all, ",") + `},"required":[` + strings.Join(names, ",") + `]}`)
}

// TestBrokenParsers judges replies of servers whose parsers of calls are known to
// have been broken, in the smallest and the largest pieces that a connection may
// deliver. Each file names its source.
func TestBrokenParsers(t *testing.T) {
	weather := Tool()
	inCity := api.Tool{Name: "get_weather", Parameters: parameters("city", "string")}
	probe := func(members ...string) api.Tool { return api.Tool{Name: "probe", Parameters: parameters(members...)} }
	seen := map[Verdict]bool{}
	for _, c := range []struct {
		file, api string
		tool      api.Tool
		want      Verdict
	}{
		{"vllm_messages_first_token_lost", "anthropic", api.Tool{Name: "execute_bash_code", Parameters: parameters("code", "string")}, BadJSON},
		{"sglang_glm_bare_token", "", probe("x", "string"), BadJSON},
		{"vllm_step3_no_arguments", "", inCity, BadJSON},
		{"vllm_hermes_no_arguments", "", api.Tool{Name: "current_time", Parameters: parameters()}, BadJSON},
		{"sglang_glm_types", "", probe("get_weather", "integer"), BadSchema},
		{"vllm_xlam_dropped_arguments", "", api.Tool{Name: "b", Parameters: parameters("x", "integer")}, BadSchema},
		{"gateway_name_null", "", api.Tool{Name: "list_directory", Parameters: parameters("path", "string")}, WrongTool},
		{"vllm_internlm2_lost_call", "", inCity, NoCall},
		{"mlx_serve_lost_call", "", inCity, NoCall},
		{"sglang_call_as_text", "", api.Tool{Name: "deleteEvent", Parameters: parameters("id", "string")}, LeakedIntoContent},
		{"vllm_kimi_k2_markers", "", inCity, LeakedIntoContent},
		{"rapid_mlx_leaked_prefix", "", weather, LeakedIntoContent},
		{"vllm_deepseek_v4_cut", "", api.Tool{Name: "write_file", Parameters: parameters("path", "string", "content", "string")}, Truncated},
		{"vllm_hermes_cut_before_call", "", inCity, Truncated},
		{"sglang_glm_not_closed", "", probe("o", "object"), Truncated},
		{"vllm_kimi_k2_good", "", weather, Valid},
	} {
		if c.api == "" {
			c.api = "openai-chat"
		}
		body, err := os.ReadFile(filepath.Join("testdata", "calls", c.file+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		check, err := NewToolCheck(c.tool)
		if err != nil {
			t.Fatal(err)
		}
		for pieces, r := range map[string]io.Reader{
			"1 byte": iotest.OneByteReader(bytes.NewReader(body)), "64 KiB": bytes.NewReader(body),
		} {
			if got, reason := check.Judge(answerIn(t, c.api, r)); got != c.want || (reason == "") != (got == Valid) {
				t.Errorf("%s in pieces of %s: %s (%s), want %s", c.file, pieces, got, reason, c.want)
			}
		}
		seen[c.want] = true
	}
	for _, v := range ToolCallVerdicts() {
		if !seen[v] {
			t.Errorf("no reply is %s", v)
		}
	}
}

// answerIn reads a stream as a probe does.
func answerIn(t *testing.T, name string, body io.Reader) Answer {
	t.Helper()
	p, ok := api.Lookup(name)
	if !ok {
		t.Fatalf("no protocol %q", name)
	}
	var a Answer
	var calls Calls
	var d api.Delta
	for frames, decoder := stream.New(p.Framing, body, stream.DefaultLimits()), p.NewDecoder(); ; {
		f, err := frames.Next()
		if err == io.EOF {
			a.Calls = calls.List()
			return a
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := decoder.Decode(f.Event, f.Data, &d); err != nil {
			t.Fatal(err)
		}
		calls.Add(d.Calls)
		a.Text += string(d.Text)
		a.Reasoning += string(d.Reasoning)
		if a.Finish == "" {
			a.Finish = d.Finish
		}
	}
}

// TestToolCheck judges calls and texts at the edges of the verdicts.
func TestToolCheck(t *testing.T) {
	check, err := NewToolCheck(Tool())
	if err != nil {
		t.Fatal(err)
	}
	const good = `{"city": "Paris", "unit": "celsius"}`
	call := func(arguments string) Answer {
		return Answer{Calls: []Call{{"get_weather", arguments}}, Finish: "tool_calls"}
	}
	f := func(what string, a Answer, want Verdict) {
		t.Helper()
		if got, reason := check.Judge(a); got != want {
			t.Errorf("%s: %s (%s), want %s", what, got, reason, want)
		}
	}
	f("a good call", call(good), Valid)
	f("white space around", call("\n "+good+" \n"), Valid)
	f("another argument, which the schema does not forbid", call(`{"city": "Paris", "unit": "celsius", "days": 1}`), Valid)
	f("text beside the call", Answer{Text: "I will look that up.", Calls: call(good).Calls}, Valid)
	f("a finish reason that is not that of calls", Answer{Calls: call(good).Calls, Finish: "stop"}, Valid)
	f("a whole call at the limit", Answer{Calls: call(good).Calls, Finish: "length"}, Valid)
	f("two calls", Answer{Calls: []Call{{"get_weather", good}, {"get_weather", good}}}, Valid)
	f("the second of two calls", Answer{Calls: []Call{{"get_weather", good}, {"get_weather", "{"}}}, Truncated)
	f("an unknown unit", call(`{"city": "Paris", "unit": "kelvin"}`), BadSchema)
	f("a number for a city", call(`{"city": 75, "unit": "celsius"}`), BadSchema)
	f("no unit", call(`{"city": "Paris"}`), BadSchema)
	f("arguments twice encoded", call(`"{\"city\": \"Paris\", \"unit\": \"celsius\"}"`), BadSchema)
	f("an empty object", call(`{}`), BadSchema)
	f("null", call(`null`), BadSchema)
	f("no arguments", call(""), BadJSON)
	f("arguments twice", call(good+good), BadJSON)
	f("single quotes", call(`{'city': 'Paris', 'unit': 'celsius'}`), BadJSON)
	f("a number past all bounds", call(`{"city": "Paris", "unit": "celsius", "days": 1e999999}`), BadJSON)
	f("cut in a word", call(`{"city": "Par`), Truncated)
	f("cut before the last brace", call(`{"city": "Paris", "unit": "celsius"`), Truncated)
	f("a prefix", Answer{Calls: []Call{{"functions.get_weather:0", good}}}, WrongTool)
	f("no name", Answer{Calls: []Call{{"", good}}}, WrongTool)
	f("text", Answer{Text: "It is 18 degrees in Paris.", Finish: "stop"}, NoCall)
	f("nothing", Answer{Finish: "stop"}, NoCall)
	f("nothing at the limit", Answer{Finish: "length"}, Truncated)
	f("thoughts up to the limit", Answer{Reasoning: "The user wants to know", Finish: "length"}, Truncated)
	f("thoughts of a call", Answer{Reasoning: "I should call get_weather with city Paris.", Finish: "stop"}, NoCall)
	f("a call in the thoughts", Answer{Reasoning: "<tool_call>\n{\"name\": \"get_weather\"}", Finish: "stop"}, LeakedIntoContent)
	f("the function is only named", Answer{Text: "I would use get_weather to find out."}, NoCall)
	f("a pythonic call", Answer{Text: `[get_weather(city="Paris", unit="celsius")]`}, LeakedIntoContent)
	f("a code block", Answer{Text: "```json\n{\"name\": \"get_weather\", \"arguments\": {}}\n```"}, LeakedIntoContent)
	for _, markup := range []string{
		"<tool_call>", "</tool_call>", "<|tool_call>", "<|tool_calls_section_begin|>", "<|tool▁calls▁begin|>", "<｜tool▁calls▁begin｜>",
		"<function=get_weather>", "<function", "[TOOL_CALLS]", "[ARGS]", "<|python_tag|>", "<|action_start|>", "<minimax:tool_call>",
		"<arg_key>city</arg_key>", `<invoke name="x">`, "<|channel|>commentary", "<｜DSML｜function_calls>",
	} {
		f(markup+" beside a good call", Answer{Text: markup, Calls: call(good).Calls}, LeakedIntoContent)
	}
}

// TestCalls puts pieces together, within bounds.
func TestCalls(t *testing.T) {
	var c Calls
	piece := func(index int, name, arguments string) api.CallPiece {
		return api.CallPiece{Index: index, Name: []byte(name), Arguments: []byte(arguments)}
	}
	c.Add([]api.CallPiece{piece(3, "get_", ""), piece(3, "weather", "{"), piece(7, "b", "[")})
	c.Add([]api.CallPiece{piece(3, "", `"x"`), piece(7, "b", "]"), piece(3, "get_weather", ":1}")}) // the name again
	if got, want := fmt.Sprint(c.List()), `[{get_weather {"x":1}} {b []}]`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for i := range 100 {
		c.Add([]api.CallPiece{piece(i, "x", "")})
	}
	if n := len(c.List()); n != 16 {
		t.Errorf("%d calls are kept, want 16", n)
	}
	long := strings.Repeat("x", 1000)
	for range 100 {
		c.Add([]api.CallPiece{piece(3, "", long)})
	}
	if n := len(c.List()[0].Arguments); n > 64<<10 || n < 63<<10 {
		t.Errorf("%d bytes of arguments are kept, want about 64 KiB", n)
	}
}

// TestSchemaCheck judges answers that are to be JSON.
func TestSchemaCheck(t *testing.T) {
	check, err := NewSchemaCheck(StructuredSchema())
	if err != nil {
		t.Fatal(err)
	}
	f := func(text, finish string, want Verdict) {
		t.Helper()
		if got, reason := check.Judge(Answer{Text: text, Finish: finish}); got != want {
			t.Errorf("%s: %s (%s), want %s", text, got, reason, want)
		}
	}
	const good = `{"title": "Emma", "author": "Jane Austen", "year": 1815, "language": "en"}`
	f(good, "stop", Valid)
	f(good, "length", Valid)
	f(strings.Replace(good, "1815", `"1815"`, 1), "stop", BadSchema)
	f(strings.Replace(good, "}", `, "pages": 474}`, 1), "stop", BadSchema)
	f(`[`+good+`]`, "stop", BadSchema)
	f("Sure: "+good, "stop", BadJSON)
	f("```json\n"+good+"\n```", "stop", BadJSON)
	f(good+" Is that all?", "stop", BadJSON)
	f("I cannot answer in JSON.", "stop", BadJSON)
	f("  ", "stop", BadJSON)
	f("  ", "length", Truncated)
	f(good[:40], "length", Truncated)
	f(good[:40], "stop", Truncated)
	f("{\n\n\n\n\n", "length", Truncated)
}

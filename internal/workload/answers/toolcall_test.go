package answers

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

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
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
	seen := map[result.Verdict]bool{}
	for _, c := range []struct {
		file, api string
		tool      api.Tool
		want      result.Verdict
	}{
		{"vllm_messages_first_token_lost", "anthropic", api.Tool{Name: "execute_bash_code", Parameters: parameters("code", "string")}, result.VerdictBadJSON},
		{"sglang_glm_bare_token", "", probe("x", "string"), result.VerdictBadJSON},
		{"vllm_step3_no_arguments", "", inCity, result.VerdictBadJSON},
		{"vllm_hermes_no_arguments", "", api.Tool{Name: "current_time", Parameters: parameters()}, result.VerdictBadJSON},
		{"sglang_glm_types", "", probe("get_weather", "integer"), result.VerdictBadSchema},
		{"vllm_xlam_dropped_arguments", "", api.Tool{Name: "b", Parameters: parameters("x", "integer")}, result.VerdictBadSchema},
		{"gateway_name_null", "", api.Tool{Name: "list_directory", Parameters: parameters("path", "string")}, result.VerdictWrongTool},
		{"vllm_internlm2_lost_call", "", inCity, result.VerdictNoCall},
		{"mlx_serve_lost_call", "", inCity, result.VerdictNoCall},
		{"sglang_call_as_text", "", api.Tool{Name: "deleteEvent", Parameters: parameters("id", "string")}, result.VerdictLeakedIntoContent},
		{"vllm_kimi_k2_markers", "", inCity, result.VerdictLeakedIntoContent},
		{"rapid_mlx_leaked_prefix", "", weather, result.VerdictLeakedIntoContent},
		{"vllm_deepseek_v4_cut", "", api.Tool{Name: "write_file", Parameters: parameters("path", "string", "content", "string")}, result.VerdictTruncated},
		{"vllm_hermes_cut_before_call", "", inCity, result.VerdictTruncated},
		{"sglang_glm_not_closed", "", probe("o", "object"), result.VerdictTruncated},
		{"vllm_kimi_k2_good", "", weather, result.VerdictValid},
	} {
		if c.api == "" {
			c.api = "openai-chat"
		}
		body, err := os.ReadFile(filepath.Join("testdata", "calls", c.file+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		check, err := byTool(c.tool)
		if err != nil {
			t.Fatal(err)
		}
		for pieces, r := range map[string]io.Reader{
			"1 byte": iotest.OneByteReader(bytes.NewReader(body)), "64 KiB": bytes.NewReader(body),
		} {
			if got, reason := check(answerIn(t, c.api, r)); got != c.want || (reason == "") != (got == result.VerdictValid) {
				t.Errorf("%s in pieces of %s: %s (%s), want %s", c.file, pieces, got, reason, c.want)
			}
		}
		seen[c.want] = true
	}
	for _, v := range result.ToolCallVerdicts() {
		if !seen[v] {
			t.Errorf("no reply is %s", v)
		}
	}
}

// answerIn reads a stream as a probe does.
func answerIn(t *testing.T, name string, body io.Reader) workload.Answer {
	t.Helper()
	p, ok := api.Lookup(name)
	if !ok {
		t.Fatalf("no protocol %q", name)
	}
	var a workload.Answer
	var calls workload.Calls
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
	check, err := byTool(Tool())
	if err != nil {
		t.Fatal(err)
	}
	const good = `{"city": "Paris", "unit": "celsius"}`
	call := func(arguments string) workload.Answer {
		return workload.Answer{Calls: []workload.Call{{Name: "get_weather", Arguments: arguments}}, Finish: "tool_calls"}
	}
	f := func(what string, a workload.Answer, want result.Verdict) {
		t.Helper()
		if got, reason := check(a); got != want {
			t.Errorf("%s: %s (%s), want %s", what, got, reason, want)
		}
	}
	f("a good call", call(good), result.VerdictValid)
	f("white space around", call("\n "+good+" \n"), result.VerdictValid)
	f("another argument, which the schema does not forbid", call(`{"city": "Paris", "unit": "celsius", "days": 1}`), result.VerdictValid)
	f("text beside the call", workload.Answer{Text: "I will look that up.", Calls: call(good).Calls}, result.VerdictValid)
	f("a finish reason that is not that of calls", workload.Answer{Calls: call(good).Calls, Finish: "stop"}, result.VerdictValid)
	f("a whole call at the limit", workload.Answer{Calls: call(good).Calls, Finish: "length"}, result.VerdictValid)
	f("two calls", workload.Answer{Calls: []workload.Call{{Name: "get_weather", Arguments: good}, {Name: "get_weather", Arguments: good}}}, result.VerdictValid)
	f("the second of two calls", workload.Answer{Calls: []workload.Call{{Name: "get_weather", Arguments: good}, {Name: "get_weather", Arguments: "{"}}}, result.VerdictTruncated)
	f("an unknown unit", call(`{"city": "Paris", "unit": "kelvin"}`), result.VerdictBadSchema)
	f("a number for a city", call(`{"city": 75, "unit": "celsius"}`), result.VerdictBadSchema)
	f("no unit", call(`{"city": "Paris"}`), result.VerdictBadSchema)
	f("arguments twice encoded", call(`"{\"city\": \"Paris\", \"unit\": \"celsius\"}"`), result.VerdictBadSchema)
	f("an empty object", call(`{}`), result.VerdictBadSchema)
	f("null", call(`null`), result.VerdictBadSchema)
	f("no arguments", call(""), result.VerdictBadJSON)
	f("arguments twice", call(good+good), result.VerdictBadJSON)
	f("single quotes", call(`{'city': 'Paris', 'unit': 'celsius'}`), result.VerdictBadJSON)
	f("a number past all bounds", call(`{"city": "Paris", "unit": "celsius", "days": 1e999999}`), result.VerdictBadJSON)
	f("cut in a word", call(`{"city": "Par`), result.VerdictTruncated)
	f("cut before the last brace", call(`{"city": "Paris", "unit": "celsius"`), result.VerdictTruncated)
	f("a prefix", workload.Answer{Calls: []workload.Call{{Name: "functions.get_weather:0", Arguments: good}}}, result.VerdictWrongTool)
	f("no name", workload.Answer{Calls: []workload.Call{{Name: "", Arguments: good}}}, result.VerdictWrongTool)
	f("text", workload.Answer{Text: "It is 18 degrees in Paris.", Finish: "stop"}, result.VerdictNoCall)
	f("nothing", workload.Answer{Finish: "stop"}, result.VerdictNoCall)
	f("nothing at the limit", workload.Answer{Finish: "length"}, result.VerdictTruncated)
	f("thoughts up to the limit", workload.Answer{Reasoning: "The user wants to know", Finish: "length"}, result.VerdictTruncated)
	f("thoughts of a call", workload.Answer{Reasoning: "I should call get_weather with city Paris.", Finish: "stop"}, result.VerdictNoCall)
	f("a call in the thoughts", workload.Answer{Reasoning: "<tool_call>\n{\"name\": \"get_weather\"}", Finish: "stop"}, result.VerdictLeakedIntoContent)
	f("the function is only named", workload.Answer{Text: "I would use get_weather to find out."}, result.VerdictNoCall)
	f("a pythonic call", workload.Answer{Text: `[get_weather(city="Paris", unit="celsius")]`}, result.VerdictLeakedIntoContent)
	f("a code block", workload.Answer{Text: "```json\n{\"name\": \"get_weather\", \"arguments\": {}}\n```"}, result.VerdictLeakedIntoContent)
	for _, markup := range []string{
		"<tool_call>", "</tool_call>", "<|tool_call>", "<|tool_calls_section_begin|>", "<|tool▁calls▁begin|>", "<｜tool▁calls▁begin｜>",
		"<function=get_weather>", "<function", "[TOOL_CALLS]", "[ARGS]", "<|python_tag|>", "<|action_start|>", "<minimax:tool_call>",
		"<arg_key>city</arg_key>", `<invoke name="x">`, "<|channel|>commentary", "<｜DSML｜function_calls>",
	} {
		f(markup+" beside a good call", workload.Answer{Text: markup, Calls: call(good).Calls}, result.VerdictLeakedIntoContent)
	}
}

// TestCalls puts pieces together, within bounds.
func TestCalls(t *testing.T) {
	var c workload.Calls
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

// TestBySchema judges answers that are to be JSON.
func TestBySchema(t *testing.T) {
	judge, err := bySchema(json.RawMessage(forms().Structured.Schema))
	if err != nil {
		t.Fatal(err)
	}
	f := func(text, finish string, want result.Verdict) {
		t.Helper()
		if got, reason := judge(workload.Answer{Text: text, Finish: finish}); got != want {
			t.Errorf("%s: %s (%s), want %s", text, got, reason, want)
		}
	}
	const good = `{"title": "Emma", "author": "Jane Austen", "year": 1815, "language": "en"}`
	f(good, "stop", result.VerdictValid)
	f(good, "length", result.VerdictValid)
	f(strings.Replace(good, "1815", `"1815"`, 1), "stop", result.VerdictBadSchema)
	f(strings.Replace(good, "}", `, "pages": 474}`, 1), "stop", result.VerdictBadSchema)
	f(`[`+good+`]`, "stop", result.VerdictBadSchema)
	f("Sure: "+good, "stop", result.VerdictBadJSON)
	f("```json\n"+good+"\n```", "stop", result.VerdictBadJSON)
	f(good+" Is that all?", "stop", result.VerdictBadJSON)
	f("I cannot answer in JSON.", "stop", result.VerdictBadJSON)
	f("  ", "stop", result.VerdictBadJSON)
	f("  ", "length", result.VerdictTruncated)
	f(good[:40], "length", result.VerdictTruncated)
	f(good[:40], "stop", result.VerdictTruncated)
	f("{\n\n\n\n\n", "length", result.VerdictTruncated)
}

package api

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// oddStream is a body that a real server or gateway sends, or might, against
// the protocol of chat completions.
type oddStream struct {
	name, body string
	want       reply
}

func checkStreams(t *testing.T, streams []oddStream) {
	t.Helper()
	for _, c := range streams {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, decodeReply(t, "openai-chat", strings.NewReader(c.body))); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// done, hi and stop are the frames of the plain stream that oddities vary.
const (
	done = "data: [DONE]\n\n"
	hi   = `data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}` + "\n\n"
	stop = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
)

func chunk(delta, finish string) string {
	return `data: {"choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + "}]}\n\n"
}

// plain is what the plain stream decodes to, but for a change.
func plain(change func(*reply)) reply {
	return with(func(r *reply) { hiReply(r); change(r) })
}

func good() reply { return plain(func(*reply) {}) }

// TestOddStreams leaves out, nulls or adds parts. What concerns lines and
// events alone is tested in package stream.
func TestOddStreams(t *testing.T) {
	checkStreams(t, []oddStream{
		{"plain", hi + stop + done, good()},
		{"no end marker", hi + stop, plain(func(r *reply) { r.Done = false })},
		{"end marker without a finish reason", hi + done, plain(func(r *reply) { r.Finish = "" })},
		{"empty stream that finishes", stop + done, with(func(r *reply) { r.Finish, r.Done = "stop", true })},
		{"end marker with blanks", hi + stop + "data:  [DONE] \t\n\n", good()},
		{"blank after the JSON", `data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]} ` + "\n\n" + done, good()},
		{"CRLF", strings.ReplaceAll(hi+stop+done, "\n", "\r\n"), good()},
		{"JSON over several data lines", "data: {\"choices\":[{\"delta\":\ndata: {\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\n" + done, good()},
		{"keep-alives as comment and as data", ": ping\n\ndata: : keepalive\n\n" + hi + "data:\n\n: x\n" + stop + done, good()},
		{"data of blanks", "data:   \n\n" + hi + stop + done, good()},
		{"content null", chunk(`{"role":"assistant","content":null}`, "null") + hi + stop + done, good()},
		{"explicit nulls everywhere", chunk(`{"role":null,"content":null,"reasoning_content":null,"tool_calls":null,"function_call":null,"refusal":null}`, "null") + hi + stop + done, good()},
		{"delta null", chunk("null", "null") + hi + stop + done, good()},
		{"delta missing", `data: {"choices":[{"index":0}]}` + "\n\n" + hi + stop + done, good()},
		{"delta of another type", chunk(`"x"`, "null") + chunk("[]", "null") + hi + stop + done, good()},
		{"content of another type", chunk(`{"content":7,"tool_calls":{},"reasoning":[]}`, "null") + hi + stop + done, good()},
		{"choices empty, with filter results", `data: {"id":"","choices":[],"prompt_filter_results":[{}]}` + "\n\n" + hi + stop + done, good()},
		{"choices null", `data: {"choices":null}` + "\n\n" + hi + stop + done, good()},
		{"choices missing", `data: {"id":"x"}` + "\n\n" + hi + stop + done, good()},
		{"choice null", `data: {"choices":[null]}` + "\n\n" + hi + stop + done, good()},
		{"index missing", `data: {"choices":[{"delta":{"content":"hi"}}]}` + "\n\n" + stop + done, good()},
		{"other choices", `data: {"choices":[{"index":1,"delta":{"content":"no"},"finish_reason":"length"},{"index":0,"delta":{"content":"hi"}}]}` + "\n\n" + stop + done, good()},
		{"prompt progress", `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":null}}],"prompt_progress":{"total":9,"processed":3}}` + "\n\n" + hi + stop + done, good()},
		{"unknown fields and event names", "event: x\nid: 1\nretry: 5\n" + hi + `data: {"padding":"zz","choices":[{"delta":{"obfuscation":"q"},"finish_reason":"stop"}]}` + "\n\n" + done, good()},
	})
}

// TestMaterial has what a chunk may carry.
func TestMaterial(t *testing.T) {
	checkStreams(t, []oddStream{
		{"role-only chunk", chunk(`{"role":"assistant","content":""}`, "null") + hi + stop + done, good()},
		{"role in every chunk", chunk(`{"role":"assistant","content":"hi"}`, "null") + stop + done, good()},
		{"last token and finish in one chunk", chunk(`{"content":"hi"}`, `"stop"`) + done, good()},
		{"lone replacement character", chunk("{\"content\":\"\ufffd\"}", `"stop"`) + done, plain(func(r *reply) { r.Text = "\ufffd" })},
		{"escapes", chunk(`{"content":"\u00e9\ud83d\ude42\n\"\\"}`, `"stop"`) + done, plain(func(r *reply) { r.Text = "\u00e9\U0001f642\n\"\\" })},
		{"thoughts as content", chunk(`{"content":"<think>"}`, `"stop"`) + done, plain(func(r *reply) { r.Text = "<think>" })},
		{"reasoning", chunk(`{"reasoning":"hm"}`, "null") + hi + stop + done, plain(func(r *reply) { r.Reasoning, r.Tokens = "hm", 2 })},
		{"reasoning by its other name", chunk(`{"reasoning_content":"hm"}`, "null") + hi + stop + done, plain(func(r *reply) { r.Reasoning, r.Tokens = "hm", 2 })},
		{"reasoning by both names counts once", chunk(`{"reasoning":"hm","reasoning_content":"hm"}`, "null") + hi + stop + done, plain(func(r *reply) { r.Reasoning, r.Tokens = "hm", 2 })},
		{"reasoning by its name at GitHub Copilot", chunk(`{"reasoning_text":"hm","reasoning_opaque":"Eq"}`, "null") + hi + stop + done, plain(func(r *reply) { r.Reasoning, r.Tokens = "hm", 2 })},
		{"reasoning in details alone", chunk(`{"content":"","reasoning_details":[{"type":"reasoning.text","text":"h"},{"type":"reasoning.text","text":"m"}]}`, "null") + hi + stop + done, plain(func(r *reply) { r.Reasoning, r.Tokens = "hm", 2 })},
		{"reasoning in details too counts once", chunk(`{"reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm","format":null}]}`, "null") + hi + stop + done, plain(func(r *reply) { r.Reasoning, r.Tokens = "hm", 2 })},
		{"a summary in details", chunk(`{"reasoning_details":[{"type":"reasoning.summary","summary":"hm"}]}`, "null") + hi + stop + done, plain(func(r *reply) { r.Reasoning, r.Tokens, r.Summaries = "hm", 2, 1 })},
		{"a summary by a provider that streams nothing else", chunk(`{"reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm","format":"google-gemini-v1"}]}`, "null") + hi + stop + done, plain(func(r *reply) { r.Reasoning, r.Tokens, r.Summaries = "hm", 2, 1 })},
		{"a summary by its type", chunk(`{"reasoning_details":[{"type":"reasoning.summary","text":"hm"}]}`, "null") + hi + stop + done, plain(func(r *reply) { r.Reasoning, r.Tokens, r.Summaries = "hm", 2, 1 })},
		{"a summary of OpenAI's models at Azure", chunk(`{"reasoning":"hm","reasoning_details":[{"type":"reasoning.text","text":"hm","format":"azure-openai-responses-v1"}]}`, "null") + hi + stop + done, plain(func(r *reply) { r.Reasoning, r.Tokens, r.Summaries = "hm", 2, 1 })},
		{"encrypted reasoning is no token", chunk(`{"content":"","reasoning":null,"reasoning_details":[{"type":"reasoning.encrypted","data":"B7oH","format":"xai-responses-v1"}]}`, "null") + hi + stop + done, good()},
		{"details of other types", chunk(`{"reasoning_details":[null,7,"x",{},{"text":7}]}`, "null") + chunk(`{"reasoning_details":{"text":"x"}}`, "null") + hi + stop + done, good()},
		{"call of a custom tool", chunk(`{"tool_calls":[{"index":0,"id":"c","type":"custom","custom":{"name":"f","input":"x"}}]}`, `"tool_calls"`) + done, with(func(r *reply) { r.Tool, r.Tokens, r.Visible, r.Finish, r.Done = "fx", 1, 1, "tool_calls", true })},
		{"all reasoning", chunk(`{"reasoning":"hm"}`, `"length"`) + done, with(func(r *reply) { r.Reasoning, r.Tokens, r.Finish, r.Done = "hm", 1, "length", true })},
		{"refusal", chunk(`{"refusal":"no"}`, `"stop"`) + done, with(func(r *reply) { r.Refusal, r.Tokens, r.Visible, r.Finish, r.Done = "no", 1, 1, "stop", true })},
		{"tool calls", chunk(`{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":""}}]}`, "null") + chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"{}"}},{"function":null},null]}`, `"tool_calls"`) + done, with(func(r *reply) { r.Tool, r.Tokens, r.Visible, r.Finish, r.Done = "f{}", 2, 2, "tool_calls", true })},
		{"function call", chunk(`{"function_call":{"name":"f","arguments":"{}"}}`, `"function_call"`) + done, with(func(r *reply) { r.Tool, r.Tokens, r.Visible, r.Finish, r.Done = "f{}", 1, 1, "function_call", true })},
		{"unknown finish reason", hi + chunk("{}", `"load"`) + done, plain(func(r *reply) { r.Finish = "other" })},
		{"finish reason of another type", hi + chunk("{}", `{"type":"stop"}`) + done, plain(func(r *reply) { r.Finish = "other" })},
	})
}

// TestContentParts has contents that are lists of parts, as Mistral sends them
// for models that reason.
func TestContentParts(t *testing.T) {
	parts := func(name, content string, change func(*reply)) oddStream {
		return oddStream{name, chunk(`{"content":`+content+`}`, "null") + stop + done, plain(change)}
	}
	const thought = `{"type":"thinking","thinking":[{"type":"text","text":"h"},{"type":"text","text":"m"}],"closed":true}`
	silent := func(r *reply) { r.Text, r.Tokens, r.Visible = "", 0, 0 }
	thinks := func(r *reply) { r.Text, r.Visible, r.Reasoning = "", 0, "hm" }
	checkStreams(t, []oddStream{
		parts("text", `[{"type":"text","text":"hi"}]`, func(*reply) {}),
		parts("texts in order", `[{"type":"text","text":"h"},{"type":"text","text":"i"}]`, func(*reply) {}),
		parts("a text that is no part", `["h",{"text":"i"}]`, func(*reply) {}),
		parts("one part that is no list", `{"type":"text","text":"hi"}`, func(*reply) {}),
		parts("thinking", "["+thought+"]", thinks),
		parts("thinking as a text", `[{"type":"thinking","thinking":"hm"}]`, thinks),
		parts("thinking in its text", `[{"type":"thinking","text":"hm"}]`, thinks),
		parts("thinking and text", "["+thought+`,{"type":"text","text":"hi"}]`, func(r *reply) { r.Reasoning = "hm" }),
		parts("text and thinking", `[{"type":"text","text":"h"},`+thought+`,{"type":"text","text":"i"}]`, func(r *reply) { r.Reasoning = "hm" }),
		parts("a reference in the text", `[{"type":"text","text":"h"},{"type":"reference","reference_ids":[1,2]},{"type":"text","text":"i"}]`, func(*reply) {}),
		parts("a reference in thinking", `[{"type":"thinking","thinking":[{"type":"reference","reference_ids":[1]},{"type":"text","text":"hm"}]}]`, thinks),
		parts("a reference alone", `[{"type":"reference","reference_ids":[1]}]`, silent),
		parts("an image alone", `[{"type":"image_url","image_url":{"url":"data:image/png;base64,AA"}}]`, silent),
		parts("an unknown part with a text", `[{"type":"future","text":"hi"}]`, func(*reply) {}),
		parts("a refusal", `[{"type":"refusal","refusal":"hi"}]`, func(*reply) {}),
		parts("nothing", `[]`, silent),
		parts("other types", `[null,7,true,{},{"type":7,"text":7},{"thinking":7},[]]`, silent),
		parts("a lot of nothing", strings.Repeat("[", 200)+strings.Repeat("]", 200), silent),
	})
}

// TestBadFrames has frames that are not of the protocol, or barely.
func TestBadFrames(t *testing.T) {
	checkStreams(t, []oddStream{
		{"two events in one write, the second cut", hi + stop[:len(stop)-2], plain(func(r *reply) { r.Done, r.Partial = false, true })},
		{"cut inside the JSON", hi + stop[:30], plain(func(r *reply) { r.Finish, r.Done, r.Partial, r.Broken = "", false, true, true })},
		{"JSON that is no object", hi + "data: 7\n\ndata: []\n\ndata: \"x\"\n\ndata: null\n\n" + stop + done, plain(func(r *reply) { r.Broken = true })},
		{"two JSON objects in one event", "data: {}{}\n\n" + hi + stop + done, plain(func(r *reply) { r.Broken = true })},
		{"HTML in the middle", hi + "data: <html>\n\n" + stop + done, plain(func(r *reply) { r.Broken = true })},
		{"too deep", "data: " + strings.Repeat("[", 400) + strings.Repeat("]", 400) + "\n\n" + hi + stop + done, plain(func(r *reply) { r.Broken = true })},
		{"too many values", `data: {"x":[0` + strings.Repeat(",0", maxValues) + "]}\n\n" + hi + stop + done, plain(func(r *reply) { r.Broken = true })},
		{"long and broken", "data: " + strings.Repeat("[", 290) + strings.Repeat("t", 1<<20) + "\n\n" + hi + stop + done, plain(func(r *reply) { r.Broken = true })},
		{"large but honest", `data: {"echo":"` + strings.Repeat("x", 1<<20) + `"}` + "\n\n" + hi + stop + done, good()},
		{"bare JSON error", `{"error":{"message":"no"}}`, noReply()},
		{"HTML page", "<!doctype html>\n<html>\n\n</html>\n", noReply()},
	})
}

// TestErrorsInStream has the errors that servers report inside a reply of
// status 200.
func TestErrorsInStream(t *testing.T) {
	checkStreams(t, []oddStream{
		{"error as the first event", `data: {"error":{"message":"Internal server error","type":"InternalServerError","param":null,"code":500}}` + "\n\n" + done, with(func(r *reply) {
			r.Err, r.Done = ServerError{Status: 500, Type: "InternalServerError", Message: "Internal server error"}, true
		})},
		{"error after tokens", hi + `data: {"error":{"message":"out of memory","http_status_code":422}}` + "\n\n" + done, plain(func(r *reply) { r.Finish, r.Err = "", ServerError{Status: 422, Type: "", Message: "out of memory"} })},
		{"error with a code in text", `data: {"error":{"message":"slow down","type":null,"code":"429"}}` + "\n\n", with(func(r *reply) { r.Err = ServerError{Status: 429, Type: "429", Message: "slow down"} })},
		{"error as text", `data: {"error":"boom","error_type":"generation"}` + "\n\n", with(func(r *reply) { r.Err = ServerError{Status: 424, Type: "generation", Message: "boom"} })},
		{"error at the top", `data: {"object":"error","message":"too long","type":"BadRequestError","code":400}` + "\n\n", with(func(r *reply) { r.Err = ServerError{Status: 400, Type: "BadRequestError", Message: "too long"} })},
		{"error by type", `data: {"type":"error","code":"server_error","message":"boom"}` + "\n\n", with(func(r *reply) { r.Err = ServerError{Status: 500, Type: "server_error", Message: "boom"} })},
		{"error of Groq", `data: {"choices":[{"delta":{}}],"x_groq":{"id":"r","error":"over capacity"}}` + "\n\n", with(func(r *reply) { r.Err = ServerError{Status: 0, Type: "", Message: "over capacity"} })},
		{"error beside a choice", `data: {"error":{"code":502,"message":"upstream"},"choices":[{"delta":{"content":"hi"},"finish_reason":"error"}]}` + "\n\n" + done, plain(func(r *reply) { r.Finish, r.Err = "error", ServerError{Status: 502, Type: "", Message: "upstream"} })},
		{"error line of llama.cpp", `error: {"code":500,"message":"boom","type":"server_error"}` + "\n\n", with(func(r *reply) { r.Err = ServerError{Status: 500, Type: "server_error", Message: "boom"} })},
		{"error line without JSON", "error: boom\n\n", with(func(r *reply) { r.Err = ServerError{Status: 0, Type: "", Message: "boom"} })},
		{"event named error", "event: error\ndata: {\"message\":\"boom\"}\n\n", with(func(r *reply) { r.Err = ServerError{Status: 0, Type: "", Message: "boom"} })},
		{"a message and a code that is no error's", `data: {"code":200,"message":"ok"}` + "\n\n" + `data: {"code":0,"message":"ok","status":"running"}` + "\n\n" + hi + stop + done, good()},
		{"error fields that are empty", `data: {"error":null,"choices":[{"delta":{"content":"hi"}}],"x_groq":{"error":""}}` + "\n\n" + `data: {"error":{}}` + "\n\n" + `data: {"error":""}` + "\n\n" + `data: {"error":false}` + "\n\n" + `data: {"error":[]}` + "\n\n" + stop + done, good()},
	})
}

func TestOddCompletions(t *testing.T) {
	f := func(body string, want reply) {
		t.Helper()
		if d := cmp.Diff(want, decodeReply(t, "openai-completions", strings.NewReader(body))); d != "" {
			t.Errorf("%s (-want +got):\n%s", body, d)
		}
	}
	r := noReply()
	r.Text, r.Tokens, r.Visible, r.Finish = "hi", 1, 1, "stop"
	f(`data: {"choices":[{"index":0,"text":"hi","finish_reason":"stop"}]}`+"\n\n", r)
	f(`data: {"choices":[{"text":null},{"text":"no"}]}`+"\n\n"+`data: {"choices":[{"text":"hi","finish_reason":"eos_token","index":0}]}`+"\n\n", r)
	f(`data: {"choices":[{"text":"hi","finish_reason":"stop","delta":{"content":"no"}}]}`+"\n\n", r)
}

// TestBodyThatIsNoStream identifies, by its beginning, what came instead.
func TestBodyThatIsNoStream(t *testing.T) {
	f := func(body string, want *ServerError) {
		t.Helper()
		s := stream.New(stream.SSE, strings.NewReader(body), stream.DefaultLimits())
		if frame, err := s.Next(); err == nil {
			t.Fatalf("%s gave the frame %q", body, frame.Data)
		}
		if d := cmp.Diff(want, ParseError(s.Head())); d != "" {
			t.Errorf("%s (-want +got):\n%s", body, d)
		}
	}
	f(`{"error":{"message":"no such model","code":404}}`, &ServerError{Status: 404, Type: "", Message: "no such model"})
	f("{\n \"error\":\n  {\"message\": \"no\"}\n\n}\n", &ServerError{Status: 0, Type: "", Message: "no"})
	f(`{"choices":[{"message":{"content":"hi"}}]}`, nil)
	f("<html>\n<p>502</p>", nil)
	f("", nil)
}

func TestUsage(t *testing.T) {
	f := func(chunks string, want Usage) {
		t.Helper()
		var body strings.Builder
		for chunk := range strings.SplitSeq(chunks, "\n") {
			body.WriteString("data: " + chunk + "\n\n")
		}
		if d := cmp.Diff(want, decodeReply(t, "openai-chat", strings.NewReader(body.String())).Usage); d != "" {
			t.Errorf("%s (-want +got):\n%s", chunks, d)
		}
	}
	const u = Unknown
	f(`{"choices":[]}`, Usage{u, u, u, u})
	f(`{"choices":[],"usage":null}`, Usage{u, u, u, u})
	f(`{"choices":[],"usage":{}}`, Usage{u, u, u, u})
	f(`{"choices":[],"usage":"x"}`, Usage{u, u, u, u})
	f(`{"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}`, Usage{9, u, 3, u})
	f(`{"usage":{"prompt_tokens":9,"completion_tokens":3,"prompt_tokens_details":null,"completion_tokens_details":null}}`, Usage{9, u, 3, u})
	f(`{"usage":{"prompt_tokens":9,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":2}}}`, Usage{9, 0, 3, 2})
	f(`{"usage":{"prompt_tokens":9,"completion_tokens":3,"prompt_cache_hit_tokens":4,"prompt_cache_miss_tokens":5}}`, Usage{9, 4, 3, u})
	f(`{"usage":{"prompt_tokens":9,"completion_tokens":3,"reasoning_tokens":2}}`, Usage{9, u, 3, 2})
	f(`{"choices":[],"x_groq":{"usage":{"prompt_tokens":9,"completion_tokens":3}}}`, Usage{9, u, 3, u})
	f(`{"usage":{"prompt_tokens":9,"completion_tokens":3},"timings":{"cache_n":4,"prompt_n":5,"predicted_n":3}}`, Usage{9, 4, 3, u})
	f(`{"timings":{"cache_n":4,"prompt_n":5,"predicted_n":3}}`, Usage{9, 4, 3, u})
	f(`{"timings":{"prompt_n":5}}`, Usage{u, u, u, u}) // an older build: how many were cached is not known
	// Reasoning that is counted apart, as at xAI: the total decides.
	f(`{"usage":{"prompt_tokens":12,"completion_tokens":2,"total_tokens":354,"completion_tokens_details":{"reasoning_tokens":340}}}`, Usage{12, u, 342, 340})
	f(`{"usage":{"prompt_tokens":21,"completion_tokens":0,"total_tokens":81,"completion_tokens_details":{"reasoning_tokens":60}}}`, Usage{21, u, 60, 60})
	f(`{"usage":{"prompt_tokens":9,"completion_tokens":300,"total_tokens":409,"completion_tokens_details":{"reasoning_tokens":100}}}`, Usage{9, u, 400, 100})
	f(`{"usage":{"prompt_tokens":9,"completion_tokens":300,"total_tokens":309,"completion_tokens_details":{"reasoning_tokens":100}}}`, Usage{9, u, 300, 100})
	f(`{"usage":{"prompt_tokens":9,"completion_tokens":300,"completion_tokens_details":{"reasoning_tokens":100}}}`, Usage{9, u, 300, 100})
	f(`{"usage":{"completion_tokens":300,"total_tokens":409,"completion_tokens_details":{"reasoning_tokens":100}}}`, Usage{u, u, 300, 100})
	f(`{"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":100000000,"completion_tokens_details":{"reasoning_tokens":2}}}`, Usage{9, u, 3, 2})
	f(`{"usage":{"prompt_tokens":9,"completion_tokens":2,"total_tokens":11,"completion_tokens_details":{"reasoning_tokens":0}}}`, Usage{9, u, 2, 0})
	// It exceeds the output, and the total does not help: neither is believed.
	f(`{"usage":{"prompt_tokens":43,"completion_tokens":10,"total_tokens":53,"completion_tokens_details":{"reasoning_tokens":11}}}`, Usage{43, u, 10, u})
	f(`{"usage":{"prompt_tokens":9,"completion_tokens":2,"completion_tokens_details":{"reasoning_tokens":340}}}`, Usage{9, u, 2, u})
	// Cached tokens at the top of usage, as at Together and Moonshot.
	f(`{"usage":{"prompt_tokens":9,"completion_tokens":3,"cached_tokens":4}}`, Usage{9, 4, 3, u})
	// As at Databricks, where prompt_tokens has them: github.com/databricks/databricks-ai-bridge, issue 446.
	f(`{"usage":{"prompt_tokens":1547,"completion_tokens":3,"total_tokens":1550,"cache_read_input_tokens":1530,"cache_creation_input_tokens":0}}`, Usage{1547, 1530, 3, u})
	// Values that cannot be counts.
	f(`{"usage":{"prompt_tokens":-1,"completion_tokens":3}}`, Usage{u, u, 3, u})
	f(`{"usage":{"prompt_tokens":100000000,"completion_tokens":100000001}}`, Usage{100000000, u, u, u})
	f(`{"usage":{"prompt_tokens":1e300,"completion_tokens":2.5}}`, Usage{u, u, u, u})
	f(`{"usage":{"prompt_tokens":"9","completion_tokens":true,"prompt_tokens_details":{"cached_tokens":NaN}}}`, Usage{u, u, u, u})
	f(`{"usage":{"prompt_tokens":9.0,"completion_tokens":3e0}}`, Usage{9, u, 3, u})
	// Parts that exceed the whole.
	f(`{"usage":{"prompt_tokens":9,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":10},"completion_tokens_details":{"reasoning_tokens":4}}}`, Usage{9, u, 3, u})
	// Several reports: the last one wins, nothing is added up, zeros hide nothing.
	f(`{"usage":{"prompt_tokens":9,"completion_tokens":1}}`+"\n"+`{"usage":{"prompt_tokens":9,"completion_tokens":2}}`+"\n"+`{"usage":null}`, Usage{9, u, 2, u})
	f(`{"usage":{"prompt_tokens":0,"completion_tokens":0}}`+"\n"+`{"usage":{"prompt_tokens":9,"completion_tokens":2}}`, Usage{9, u, 2, u})
	f(`{"usage":{"prompt_tokens":9,"completion_tokens":2}}`+"\n"+`{"usage":{"prompt_tokens":0,"completion_tokens":0}}`, Usage{9, u, 2, u})
	f(`{"usage":{"prompt_tokens":9,"completion_tokens":0}}`, Usage{9, u, 0, u})
	f(`{"usage":{"prompt_tokens":9,"completion_tokens":2}}`+"\n"+`{"usage":{"completion_tokens":-5}}`, Usage{9, u, 2, u})
}

func TestRunningCount(t *testing.T) {
	f := func(chunks string, want ...int) {
		t.Helper()
		var got []int
		decoder, d := completions().NewDecoder(), Delta{}
		for chunk := range strings.SplitSeq(chunks, "\n") {
			if err := decoder.Decode(nil, []byte(chunk), &d); err != nil {
				t.Fatal(err)
			}
			got = append(got, d.Tokens)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", chunks, d)
		}
	}
	const (
		u    = Unknown
		tail = `{"choices":[],"usage":{"completion_tokens":9}}`
	)
	// A server that counts along; the third frame is a token of empty text.
	f(`{"choices":[{"text":"a"}],"usage":{"completion_tokens":1}}
{"choices":[{"text":"b"}],"usage":{"completion_tokens":4}}
{"choices":[{"text":""}],"usage":{"completion_tokens":5}}
{"choices":[{"text":"","finish_reason":"stop"}],"usage":{"completion_tokens":5}}
`+tail, 1, 4, 5, 5, u)
	// The first frame has no material yet, with or without a count of 0.
	f(`{"choices":[{"text":""}]}
{"choices":[{"text":"a"}],"usage":{"completion_tokens":1}}`, u, 1)
	f(`{"choices":[{"text":""}],"usage":{"completion_tokens":0}}
{"choices":[{"text":""}],"usage":{"completion_tokens":1}}`, u, 1)
	// The total on the last frame is no running count.
	f(`{"choices":[{"text":"a"}]}
{"choices":[{"text":"","finish_reason":"stop"}],"usage":{"completion_tokens":9}}`, u, u)
	f(`{"choices":[{"text":"","finish_reason":"stop"}],"usage":{"completion_tokens":9}}`, u)
	// Zeros on every frame but the last, as Ollama sends.
	f(`{"choices":[{"text":"a"}],"usage":{"completion_tokens":0}}
{"choices":[{"text":"","finish_reason":"stop"}],"usage":{"completion_tokens":0}}
`+tail, u, u, u)
	// A count that falls, and one that stops.
	f(`{"choices":[{"text":"a"}],"usage":{"completion_tokens":3}}
{"choices":[{"text":"b"}],"usage":{"completion_tokens":2}}
{"choices":[{"text":"c"}],"usage":{"completion_tokens":5}}`, 3, u, u)
	f(`{"choices":[{"text":"a"}],"usage":{"completion_tokens":1}}
{"choices":[{"text":"b"}]}
{"choices":[{"text":"c"}],"usage":{"completion_tokens":3}}`, 1, u, u)
	// Reasoning that left no event is no token of an event, and that which did is.
	f(`{"choices":[{"text":"a"}],"usage":{"completion_tokens":301,"completion_tokens_details":{"reasoning_tokens":300}}}
{"choices":[{"text":"b"}],"usage":{"completion_tokens":304,"completion_tokens_details":{"reasoning_tokens":300}}}
{"choices":[{"text":"","finish_reason":"stop"}],"usage":{"completion_tokens":305,"completion_tokens_details":{"reasoning_tokens":300}}}`, 1, 4, 5)
	f(`{"choices":[{"text":"a","finish_reason":"stop"}],"usage":{"completion_tokens":9,"completion_tokens_details":{"reasoning_tokens":12}}}`, u)
	// The whole answer in one frame.
	f(`{"choices":[{"text":"a b c","finish_reason":"stop"}],"usage":{"completion_tokens":9}}`, 9)
}

// TestRunningCountOfReasoning has counts beside reasoning that is streamed: whole,
// or in a summary that carries none of the counted tokens.
func TestRunningCountOfReasoning(t *testing.T) {
	f := func(delta string, want ...int) {
		t.Helper()
		var got []int
		decoder, d := chat().NewDecoder(), Delta{}
		for i, frame := range []string{delta, `{"content":"hi"}`, `{"content":" you"}`} {
			usage := []string{"12", "13", "14"}[i]
			data := `{"choices":[{"delta":` + frame + `}],"usage":{"completion_tokens":` + usage + `,"completion_tokens_details":{"reasoning_tokens":12}}}`
			if err := decoder.Decode(nil, []byte(data), &d); err != nil {
				t.Fatal(err)
			}
			got = append(got, d.Tokens)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", delta, d)
		}
	}
	f(`{"reasoning":"hm"}`, 12, 13, 14)
	f(`{"reasoning_details":[{"type":"reasoning.summary","summary":"hm"}]}`, Unknown, 1, 2)
	f(`{"content":""}`, Unknown, 1, 2)
}

func TestServerTimes(t *testing.T) {
	f := func(chunk string, want ServerTimes) {
		t.Helper()
		got := decodeReply(t, "openai-chat", strings.NewReader("data: "+chunk+"\n\n")).Server
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", chunk, d)
		}
	}
	const ms = time.Millisecond
	f(`{"choices":[]}`, ServerTimes{-1, -1, -1})
	f(`{"choices":[],"usage":{"completion_tokens":3},"metrics":{"time_to_first_token_ms":40.5,"queue_time_ms":1.25,"generation_time_ms":100}}`, ServerTimes{1250 * time.Microsecond, 40500 * time.Microsecond, 100 * ms})
	f(`{"choices":[],"timings":{"prompt_ms":59.445,"predicted_ms":3602.976}}`, ServerTimes{-1, 59445 * time.Microsecond, 3602976 * time.Microsecond})
	f(`{"choices":[],"x_groq":{"usage":{"queue_time":0.0185,"prompt_time":0.002,"completion_time":0.5,"total_time":0.502}}}`, ServerTimes{18500 * time.Microsecond, 2 * ms, 500 * ms})
	f(`{"choices":[],"usage":{"queue_time":0,"prompt_time":0.002}}`, ServerTimes{0, 2 * ms, -1})
	f(`{"choices":[],"metrics":{"time_to_first_token_ms":null,"queue_time_ms":-3,"generation_time_ms":"7"}}`, ServerTimes{-1, -1, -1})
	f(`{"choices":[],"metrics":null,"timings":[]}`, ServerTimes{-1, -1, -1})
	f(`{"choices":[],"metrics":{"queue_time_ms":86400001,"generation_time_ms":1e300,"time_to_first_token_ms":NaN}}`, ServerTimes{-1, -1, -1})
}

package api

import "testing"

func TestOddResponses(t *testing.T) {
	f := func(name, events string, change func(*reply)) {
		t.Helper()
		checkOdd(t, "openai-responses", name, events, change)
	}
	const (
		hi  = `{"type":"response.output_text.delta","delta":"hi"}`
		end = `{"type":"response.completed","response":{"status":"completed","error":null,"usage":null}}`
	)
	failed := func(e ServerError) func(*reply) {
		return func(r *reply) { r.Text, r.Tokens, r.Visible, r.Err = "hi", 1, 1, e }
	}
	f("plain", hi+"\n"+end, hiReply)
	f("an end marker of another protocol", hi+"\n"+end+"\n[DONE]", hiReply)
	f("the type is in the name alone", "response.output_text.delta {\"delta\":\"hi\"}\nresponse.completed {\"response\":{}}", hiReply)
	f("the type goes before the name", "message "+hi+"\nmessage "+end, hiReply)
	f("unknown and empty events", `{"type":"response.queued"}`+"\n{}\n"+`{"type":7}`+"\n"+`{"type":"response.output_text.delta","delta":null}`+"\n"+
		`{"type":"response.output_text.delta"}`+"\n"+`{"type":"response.output_text.done","text":"no"}`+"\n"+hi+"\n"+end, hiReply)
	f("reasoning", `{"type":"response.reasoning_text.delta","delta":"hm"}`+"\n"+hi+"\n"+end, func(r *reply) { hiReply(r); r.Reasoning, r.Tokens = "hm", 2 })
	f("refusal", `{"type":"response.refusal.delta","delta":"no"}`+"\n"+end, func(r *reply) { hiReply(r); r.Text, r.Refusal = "", "no" })
	f("function call", `{"type":"response.function_call_arguments.delta","delta":"{}"}`+"\n"+end, func(r *reply) { hiReply(r); r.Text, r.Tool = "", "{}" })
	f("reasoning by other names", `{"type":"response.reasoning_summary_text.delta","delta":"h"}`+"\n"+`{"type":"response.reasoning.delta","delta":"m"}`+"\n"+hi+"\n"+end,
		func(r *reply) { hiReply(r); r.Reasoning, r.Tokens, r.Summaries = "hm", 3, 1 })
	for _, kind := range []string{
		"custom_tool_call_input", "mcp_call_arguments", "code_interpreter_call_code", "shell_call_command", "apply_patch_call_operation_diff", "future_call_input",
	} {
		f(kind, `{"type":"response.output_item.added","output_index":0,"item":{"type":"x_call","input":""}}`+"\n"+`{"type":"response.`+kind+`.delta","output_index":0,"delta":"ls"}`+"\n"+
			`{"type":"response.`+kind+`.done","output_index":0,"command":"ls","code":"ls"}`+"\n"+`{"type":"response.output_item.done","output_index":0,"item":{"type":"x_call","input":"ls"}}`+"\n"+end,
			func(r *reply) { hiReply(r); r.Text, r.Tool = "", "ls" })
	}
	f("what a tool returns is no output", `{"type":"response.shell_call_output_content.delta","delta":{"stdout":"x"}}`+"\n"+
		`{"type":"response.output_item.done","output_index":4,"item":{"type":"shell_call_output","output":[{"stdout":"x"}]}}`+"\n"+
		`{"type":"response.output_item.done","output_index":5,"item":{"type":"mcp_list_tools","name":"x","tools":[{}]}}`+"\n"+hi+"\n"+end, hiReply)
	f("filtered", hi+"\n"+`{"type":"response.incomplete","response":{"incomplete_details":{"reason":"content_filter"}}}`, func(r *reply) { hiReply(r); r.Finish = "content_filter" })
	f("incomplete for no reason", hi+"\n"+`{"type":"response.incomplete","response":{"incomplete_details":null}}`, func(r *reply) { hiReply(r); r.Finish = "other" })
	f("failed", hi+"\n"+`{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"boom"}}}`, func(r *reply) {
		failed(ServerError{Status: 500, Type: "server_error", Message: "boom"})(r)
		r.Done = true
	})
	f("failed for no reason", hi+"\n"+`{"type":"response.failed"}`, func(r *reply) { failed(ServerError{Message: "response failed"})(r); r.Done = true })
	f("error event", hi+"\n"+`error {"type":"error","code":"rate_limit_exceeded","message":"slow down","param":null,"sequence_number":3}`, failed(ServerError{Status: 429, Type: "rate_limit_exceeded", Message: "slow down"}))
	f("error by type", hi+"\n"+`{"type":"error","error":{"type":"invalid_request_error","message":"no","param":"input","code":null}}`, failed(ServerError{Status: 400, Type: "invalid_request_error", Param: "input", Message: "no"}))
	f("absurd usage", hi+"\n"+`{"type":"response.completed","response":{"usage":{"input_tokens":-1,"output_tokens":1e18,"input_tokens_details":null,"output_tokens_details":[]}},"timings":{"prompt_ms":-1}}`, hiReply)
	f("reasoning that is counted apart", hi+"\n"+`{"type":"response.completed","response":{"usage":{"input_tokens":9,"output_tokens":3,"total_tokens":32,"output_tokens_details":{"reasoning_tokens":20}}}}`, func(r *reply) { hiReply(r); r.Usage = Usage{9, Unknown, 23, 20} })
	f("usage in part", hi+"\n"+`{"type":"response.completed","response":{"usage":{"input_tokens":9,"output_tokens":3}}}`, func(r *reply) { hiReply(r); r.Usage = Usage{9, Unknown, 3, Unknown} })
	f("cut", hi, func(r *reply) { r.Text, r.Tokens, r.Visible = "hi", 1, 1 })
	f("frames that are not of the protocol", "7\n[]\n<html>\n"+hi+"\n"+end, func(r *reply) { hiReply(r); r.Broken = true })
}

// TestWholeItems has items of which no delta came, as OpenAI sends some, servers
// that do not stream calls all, and gateways that buffer everything.
func TestWholeItems(t *testing.T) {
	f := func(name, events string, change func(*reply)) {
		t.Helper()
		checkOdd(t, "openai-responses", name, events, change)
	}
	const end = `{"type":"response.completed","response":{"status":"completed"}}`
	item := func(kind, item string) string {
		return `{"type":"response.output_item.` + kind + `","output_index":0,"item":` + item + "}\n"
	}
	call := func(name, adds, done, want string) {
		t.Helper()
		f(name, item("added", adds)+item("done", done)+end, func(r *reply) {
			r.Tool, r.Tokens, r.Visible, r.Finish, r.Done = want, 1, 1, "stop", true
		})
		f(name+" in the last event alone", `{"type":"response.completed","response":{"output":[`+done+`]}}`, func(r *reply) {
			r.Tool, r.Tokens, r.Visible, r.Finish, r.Done = want, 1, 1, "stop", true
		})
	}
	call("local shell", `{"type":"local_shell_call","action":{"command":[]}}`, `{"type":"local_shell_call","action":{"command":["ls"]}}`, `{"command":["ls"]}`)
	call("patch", `{"type":"apply_patch_call","operation":{"type":"delete_file"}}`, `{"type":"apply_patch_call","operation":{"type":"delete_file"}}`, `{"type":"delete_file"}`)
	call("web search", `{"type":"web_search_call"}`, `{"type":"web_search_call","action":{"query":"x"}}`, `{"query":"x"}`)
	call("tool search", `{"type":"tool_search_call","arguments":{}}`, `{"type":"tool_search_call","arguments":{"goal":"x"}}`, `{"goal":"x"}`)
	call("code", `{"type":"code_interpreter_call","code":""}`, `{"type":"code_interpreter_call","code":"1+1","outputs":null}`, "1+1")
	call("image", `{"type":"image_generation_call"}`, `{"type":"image_generation_call","result":"UklG"}`, "UklG")

	const function = `{"type":"function_call","name":"f","arguments":""}`
	f("a function's name, and its arguments whole", item("added", function)+`{"type":"response.function_call_arguments.done","arguments":"{}"}`+"\n"+item("done", `{"type":"function_call","name":"f","arguments":"{}"}`)+end,
		func(r *reply) { r.Tool, r.Tokens, r.Visible, r.Finish, r.Done = "ff{}", 2, 2, "stop", true })
	f("a function's name, and its arguments in pieces", item("added", function)+`{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{}"}`+"\n"+item("done", `{"type":"function_call","name":"f","arguments":"{}"}`)+end,
		func(r *reply) { r.Tool, r.Tokens, r.Visible, r.Finish, r.Done = "f{}", 2, 2, "stop", true })
	f("two calls at once", item("added", function)+`{"type":"response.output_item.added","output_index":1,"item":{"type":"custom_tool_call"}}`+"\n"+
		`{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{}"}`+"\n"+`{"type":"response.custom_tool_call_input.delta","output_index":1,"delta":"x"}`+"\n"+
		item("done", `{"type":"function_call","name":"f","arguments":"{}"}`)+`{"type":"response.output_item.done","output_index":1,"item":{"type":"custom_tool_call","input":"x"}}`+"\n"+end,
		func(r *reply) { r.Tool, r.Tokens, r.Visible, r.Finish, r.Done = "f{}x", 3, 3, "stop", true })
	const message = `{"type":"message","content":[{"type":"output_text","text":"h"},{"type":"output_text","text":"i"}]}`
	f("a message", item("added", `{"type":"message","content":[]}`)+item("done", message)+end, hiReply)
	f("a message of which deltas came", item("added", `{"type":"message","content":[]}`)+`{"type":"response.output_text.delta","output_index":0,"delta":"hi"}`+"\n"+item("done", message)+end, hiReply)
	f("everything in the last event", `{"type":"response.completed","response":{"output":[{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"hm"}]},`+message+`]}}`,
		func(r *reply) { hiReply(r); r.Reasoning = "hm" })
	f("reasoning in a summary", item("done", `{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"gA"}`)+end,
		func(r *reply) { r.Reasoning, r.Tokens, r.Summaries, r.Finish, r.Done = "hm", 1, 1, "stop", true })
	f("reasoning that is encrypted is no token", item("added", `{"type":"reasoning","summary":[],"encrypted_content":"gA"}`)+item("done", `{"type":"reasoning","summary":[],"encrypted_content":"gAA"}`)+end,
		func(r *reply) { r.Finish, r.Done = "stop", true })
	f("other types", item("added", "null")+item("done", "7")+item("done", `{"type":7}`)+item("done", `{"type":"x_call","name":null,"action":null}`)+`{"type":"response.output_item.done"}`+"\n"+end,
		func(r *reply) { r.Finish, r.Done = "stop", true })
}

func FuzzResponses(f *testing.F) {
	fuzzReply(f, "openai-responses", "composed_openai_responses", "llamacpp_v1_responses_stream")
}

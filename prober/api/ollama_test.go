package api

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOddOllama(t *testing.T) {
	f := func(name, frames string, change func(*reply)) {
		t.Helper()
		checkOdd(t, "ollama", name, frames, change)
	}
	const hi, end = `{"message":{"role":"assistant","content":"hi"},"done":false}`, `{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}`
	f("plain", hi+"\n"+end, hiReply)
	f("blank lines", "\n\n"+hi+"\n \n\r\n"+end, hiReply)
	f("role without content, nulls, other types", `{"message":{"role":"assistant","content":""},"done":false}
{"message":null,"done":null,"done_reason":null,"eval_count":null,"error":null}
{"message":{"content":null,"thinking":7,"tool_calls":{}}}
{}
`+hi+"\n"+end, hiReply)
	f("text on the last object", `{"message":{"content":"hi"},"done":true,"done_reason":"stop"}`, hiReply)
	f("thinking beside content", `{"message":{"content":"hi","thinking":"hm"}}`+"\n"+end, func(r *reply) { hiReply(r); r.Reasoning = "hm" })
	f("tool call", `{"message":{"content":"","tool_calls":[{"function":{"index":0,"name":"f","arguments":{"a": 1}}},{"function":{"name":"g"}},null]}}`+"\n"+end,
		func(r *reply) { hiReply(r); r.Text, r.Tool = "", `f{"a":1}g` })
	f("capped", hi+"\n"+`{"done":true,"done_reason":"length","prompt_eval_count":9,"eval_count":1}`, func(r *reply) {
		hiReply(r)
		r.Finish, r.Usage = "length", Usage{9, Unknown, 1, Unknown}
	})
	// Composed by the source of Ollama 0.17.4: three objects of thoughts, and two of the second pass.
	f("thoughts before a format", strings.Repeat(`{"message":{"content":"","thinking":"hm"}}`+"\n", 3)+
		`{"message":{"content":"{"}}`+"\n"+`{"message":{"content":"}"}}`+"\n"+
		`{"done":true,"done_reason":"stop","prompt_eval_count":41,"prompt_eval_duration":5,"eval_count":3,"eval_duration":7}`,
		func(r *reply) {
			hiReply(r)
			r.Text, r.Reasoning, r.Tokens, r.Visible = "{}", "hmhmhm", 5, 2
		})
	f("older server without done_reason", hi+"\n"+`{"done":true,"eval_count":1}`, func(r *reply) {
		hiReply(r)
		r.Finish, r.Usage.Output = "", 1
	})
	f("a model that was loaded, no answer", `{"message":{"content":""},"done":true,"done_reason":"load"}`, func(r *reply) { r.Finish, r.Done = "other", true })
	f("error instead of an answer", `{"error":"model runner has unexpectedly stopped"}`, func(r *reply) {
		r.Err = ServerError{Message: "model runner has unexpectedly stopped"}
	})
	f("error in mid-answer", hi+"\n"+`{"error":"boom"}`, func(r *reply) { r.Text, r.Tokens, r.Visible, r.Err.Message = "hi", 1, 1, "boom" })
	f("absurd counts and times", hi+"\n"+`{"done":true,"done_reason":"stop","prompt_eval_count":-1,"eval_count":1e18,"prompt_eval_duration":1e18,"eval_duration":-5}`, hiReply)
	f("frames that are not of the protocol", "7\n[]\n<html>\ndata: {}\n"+hi+"\n"+end, func(r *reply) { hiReply(r); r.Broken = true })
	f("an end marker of another protocol", hi+"\n[DONE]", func(r *reply) { hiReply(r); r.Finish = "" })

	whole, cut := plain(func(r *reply) { r.Partial = true }), noReply()
	cut.Text, cut.Tokens, cut.Visible, cut.Partial, cut.Broken = "hi", 1, 1, true, true
	for body, want := range map[string]reply{hi + "\n" + end: whole, hi + "\n" + end[:30]: cut} {
		if d := cmp.Diff(want, decodeReply(t, "ollama", strings.NewReader(body))); d != "" {
			t.Errorf("last line without its end: %s (-want +got):\n%s", body, d)
		}
	}

	checkOdd(t, "ollama-generate", "thinking", `{"response":"","thinking":"hm","done":false}
{"response":"hi","done":false}
{"response":"","done":true,"done_reason":"stop","context":[1,2,3]}`, func(r *reply) {
		hiReply(r)
		r.Reasoning, r.Tokens = "hm", 2
	})
}

func FuzzOllama(f *testing.F) { fuzzReply(f, "ollama", "ollama_api_chat", "ollama_think_api_chat") }

func FuzzOllamaGenerate(f *testing.F) {
	fuzzReply(f, "ollama-generate", "ollama_api_generate")
}

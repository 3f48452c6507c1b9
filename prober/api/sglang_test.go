package api

import "testing"

func TestOddSGLang(t *testing.T) {
	f := func(name, frames string, change func(*reply)) {
		t.Helper()
		checkOdd(t, "sglang", name, frames, change)
	}
	const done = "\n[DONE]"
	good := func(r *reply) {
		r.Text, r.Tokens, r.Visible, r.Counts, r.Done, r.Usage.Output = "hi", 1, 1, []int{1}, true, 1
	}
	f("no finish reason", `{"text":"hi","meta_info":{"completion_tokens":1,"finish_reason":null}}`+done, good)
	f("finish reason as a text", `{"text":"hi","meta_info":{"completion_tokens":1,"finish_reason":"length"}}`+done, func(r *reply) { good(r); r.Finish = "length" })
	f("aborted", `{"text":"hi","meta_info":{"completion_tokens":1,"finish_reason":{"type":"abort","message":"Aborted","status_code":503}}}`+done, func(r *reply) { good(r); r.Finish = "abort" })
	f("finish reason of another type", `{"text":"hi","meta_info":{"completion_tokens":1,"finish_reason":{"type":null}}}`+done, good)
	f("a token without text yet", `{"text":"","meta_info":{"completion_tokens":0}}
{"text":"","meta_info":{"completion_tokens":1}}
{"text":"hi","meta_info":{"completion_tokens":2}}`+done, func(r *reply) { good(r); r.Counts, r.Usage.Output = []int{1, 2}, 2 })
	f("a stop string cut off at the end", `{"text":"hi","meta_info":{"completion_tokens":1}}
{"text":"hi EN","meta_info":{"completion_tokens":2}}
{"text":"hi","meta_info":{"completion_tokens":3,"finish_reason":{"type":"stop","matched":"END"}}}`+done, func(r *reply) {
		good(r)
		r.Text, r.Tokens, r.Visible, r.Counts, r.Finish, r.Usage.Output = "hi EN", 2, 2, upTo(3), "stop", 3
	})
	f("no counts", `{"text":"h"}`+"\n"+`{"text":"hi","meta_info":null}`+done, func(r *reply) {
		good(r)
		r.Tokens, r.Visible, r.Counts, r.Usage = 2, 2, nil, noUsage()
	})
	f("error", `{"error":{"message":"The input is longer than the model's context length"}}`+done, func(r *reply) {
		r.Err.Message, r.Done = "The input is longer than the model's context length", true
	})
	f("times without a start", `{"text":"hi","meta_info":{"completion_tokens":1,"queue_time":0.0,"decode_throughput":5}}`+done, good)
	f("absurd times", `{"text":"hi","meta_info":{"completion_tokens":2,"forward_entry_time":5,"prefill_finished_time":4,"queue_time":-1,"decode_throughput":1e-9}}`+done, func(r *reply) {
		good(r)
		r.Counts, r.Usage.Output = []int{2}, 2
	})
	f("nothing to read", "{}\n"+`{"text":7,"meta_info":[]}`+done, func(r *reply) { r.Done = true })
}

func FuzzSGLang(f *testing.F) {
	fuzzReply(f, "sglang", "composed_sglang_generate", "composed_sglang_generate_increments")
}

package api

import "testing"

func TestOddTGI(t *testing.T) {
	f := func(name, frames string, change func(*reply)) {
		t.Helper()
		checkOdd(t, "tgi", name, frames, change)
	}
	const hi = `{"index":1,"token":{"id":1,"text":"hi","special":false},"generated_text":null,"details":null}`
	good := func(r *reply) { r.Text, r.Tokens, r.Visible, r.Counts, r.Done = "hi", 1, 1, []int{1}, true }
	f("no details", `{"token":{"text":"hi","special":false},"generated_text":"hi","details":null}`, good)
	f("details", `{"token":{"text":"hi"},"generated_text":"hi","details":{"finish_reason":"length","generated_tokens":1,"input_length":3}}`, func(r *reply) {
		good(r)
		r.Finish, r.Usage = "length", Usage{3, Unknown, 1, Unknown}
	})
	f("stop sequence", hi+"\n"+`{"token":{"text":"","special":false},"generated_text":"","details":{"finish_reason":"stop_sequence"}}`, func(r *reply) {
		good(r)
		r.Finish, r.Counts = "stop", []int{1, 2} // a token of empty text is one
	})
	f("only an end token", `{"token":{"text":"</s>","special":true},"generated_text":"","details":{"finish_reason":"eos_token","generated_tokens":1}}`, func(r *reply) {
		r.Counts, r.Finish, r.Done, r.Usage.Output = []int{1}, "stop", true, 1
	})
	f("no token", `{"token":null,"generated_text":null}`+"\n"+`{"token":"x","generated_text":7,"details":[]}`+"\n{}", func(*reply) {})
	f("error", `{"error":"Request failed during generation: CANCELLED","error_type":"generation"}`, func(r *reply) {
		r.Err = ServerError{Status: 424, Type: "generation", Message: "Request failed during generation: CANCELLED"}
	})
	f("error after a token", hi+"\n"+`{"error":"Incomplete generation stream","error_type":"incomplete_generation_stream"}`, func(r *reply) {
		good(r)
		r.Done, r.Err = false, ServerError{Type: "incomplete_generation_stream", Message: "Incomplete generation stream"}
	})
}

func FuzzTGI(f *testing.F) { fuzzReply(f, "tgi", "composed_tgi_generate_stream") }

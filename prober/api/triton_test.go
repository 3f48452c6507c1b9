package api

import "testing"

func TestOddTriton(t *testing.T) {
	f := func(name, frames string, change func(*reply)) {
		t.Helper()
		checkOdd(t, "triton", name, frames, change)
	}
	hi := func(r *reply) { r.Text, r.Tokens, r.Visible = "hi", 1, 1 }
	f("neither counts nor reason", `{"text_output":"hi"}`+"\n"+`{"text_output":""}`, hi)
	f("values in lists", `{"text_output":["hi","other"],"finish_reason":["stop"],"num_input_tokens":[9],"num_output_tokens":[1]}`, func(r *reply) {
		hi(r)
		r.Counts, r.Finish, r.Usage = []int{1}, "stop", Usage{9, Unknown, 1, Unknown}
	})
	f("empty lists, nulls, other types", `{"text_output":[],"finish_reason":[],"num_output_tokens":[]}`+"\n"+`{"text_output":null,"finish_reason":null,"arrival_time_ns":null}`+"\n"+
		`{"text_output":7,"arrival_time_ns":"x","first_scheduled_time_ns":{}}`+"\n"+`{"text_output":"hi"}`, hi)
	f("two equal pieces first", `{"text_output":"ha","num_output_tokens":1}`+"\n"+`{"text_output":"ha","num_output_tokens":1,"finish_reason":"stop"}`, func(r *reply) {
		r.Text, r.Tokens, r.Visible, r.Counts, r.Finish, r.Usage.Output = "haha", 2, 2, []int{1, 2}, "stop", 2
	})
	// What looks grown at first turns out to be pieces: one line feed is lost,
	// the running count too, but not the sum.
	f("a piece that begins with the piece before", `{"text_output":"\n","num_output_tokens":1}`+"\n"+`{"text_output":"\n\n","num_output_tokens":1}`+"\n"+`{"text_output":"hi","num_output_tokens":1,"finish_reason":"stop"}`, func(r *reply) {
		r.Text, r.Tokens, r.Visible, r.Counts, r.Finish, r.Usage.Output = "\n\nhi", 3, 3, []int{1}, "stop", 3
	})
	f("a number left out", `{"text_output":"h","num_output_tokens":1}`+"\n"+`{"text_output":"i"}`+"\n"+`{"text_output":"","num_output_tokens":1,"finish_reason":"stop"}`, func(r *reply) {
		r.Text, r.Tokens, r.Visible, r.Counts, r.Finish = "hi", 2, 2, []int{1}, "stop"
	})
	f("error", `{"text_output":"hi"}`+"\n"+`{"error":"Model 'm' receives inputs originally configured"}`, func(r *reply) {
		hi(r)
		r.Err.Message = "Model 'm' receives inputs originally configured"
	})
	f("stamps out of order", `{"text_output":"hi","arrival_time_ns":50,"first_scheduled_time_ns":40,"first_token_time_ns":45,"last_token_time_ns":0}`, func(r *reply) {
		hi(r)
		r.Server = ServerTimes{-1, 5, -1}
	})
	f("stamps not taken", `{"text_output":"hi","arrival_time_ns":0,"first_scheduled_time_ns":0,"first_token_time_ns":0,"last_token_time_ns":0}`, hi)
}

func FuzzTriton(f *testing.F) {
	fuzzReply(f, "triton", "composed_triton_vllm", "composed_triton_trtllm", "composed_triton_trtllm_whole")
}

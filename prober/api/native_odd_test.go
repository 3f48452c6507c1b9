package api

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// checkNative decodes frames of JSON, one a line, in the framing of an api.
func checkNative(t *testing.T, api, name, frames string, change func(*reply)) {
	t.Helper()
	want := noReply()
	change(&want)
	body := frames + "\n"
	if !strings.HasPrefix(api, "ollama") {
		body = "data: " + strings.ReplaceAll(frames, "\n", "\n\ndata: ") + "\n\n"
	}
	if d := cmp.Diff(want, decodeReply(t, api, strings.NewReader(body))); d != "" {
		t.Errorf("%s, %s (-want +got):\n%s", api, name, d)
	}
}

func TestOddOllama(t *testing.T) {
	f := func(name, frames string, change func(*reply)) {
		t.Helper()
		checkNative(t, "ollama", name, frames, change)
	}
	const hi, end = `{"message":{"role":"assistant","content":"hi"},"done":false}`, `{"message":{"role":"assistant","content":""},"done":true,"done_reason":"stop"}`
	good := func(r *reply) { r.Text, r.Tokens, r.Visible, r.Finish, r.Done = "hi", 1, 1, "stop", true }
	f("plain", hi+"\n"+end, good)
	f("blank lines", "\n\n"+hi+"\n \n\r\n"+end, good)
	f("role without content, nulls, other types", `{"message":{"role":"assistant","content":""},"done":false}
{"message":null,"done":null,"done_reason":null,"eval_count":null,"error":null}
{"message":{"content":null,"thinking":7,"tool_calls":{}}}
{}
`+hi+"\n"+end, good)
	f("text on the last object", `{"message":{"content":"hi"},"done":true,"done_reason":"stop"}`, good)
	f("thinking beside content", `{"message":{"content":"hi","thinking":"hm"}}`+"\n"+end, func(r *reply) { good(r); r.Reasoning = "hm" })
	f("tool call", `{"message":{"content":"","tool_calls":[{"function":{"index":0,"name":"f","arguments":{"a": 1}}},{"function":{"name":"g"}},null]}}`+"\n"+end,
		func(r *reply) { good(r); r.Text, r.Tool = "", `f{"a":1}g` })
	f("capped", hi+"\n"+`{"done":true,"done_reason":"length","prompt_eval_count":9,"eval_count":1}`, func(r *reply) {
		good(r)
		r.Finish, r.Usage = "length", Usage{9, Unknown, 1, Unknown}
	})
	f("older server without done_reason", hi+"\n"+`{"done":true,"eval_count":1}`, func(r *reply) {
		good(r)
		r.Finish, r.Usage.Output = "", 1
	})
	f("a model that was loaded, no answer", `{"message":{"content":""},"done":true,"done_reason":"load"}`, func(r *reply) { r.Finish, r.Done = "other", true })
	f("error instead of an answer", `{"error":"model runner has unexpectedly stopped"}`, func(r *reply) {
		r.Err = ServerError{Message: "model runner has unexpectedly stopped"}
	})
	f("error in mid-answer", hi+"\n"+`{"error":"boom"}`, func(r *reply) { r.Text, r.Tokens, r.Visible, r.Err.Message = "hi", 1, 1, "boom" })
	f("absurd counts and times", hi+"\n"+`{"done":true,"done_reason":"stop","prompt_eval_count":-1,"eval_count":1e18,"prompt_eval_duration":1e18,"eval_duration":-5}`, good)
	f("frames that are not of the protocol", "7\n[]\n<html>\ndata: {}\n"+hi+"\n"+end, func(r *reply) { good(r); r.Broken = true })
	f("an end marker of another protocol", hi+"\n[DONE]", func(r *reply) { good(r); r.Finish = "" })

	whole, cut := noReply(), noReply()
	whole.Text, whole.Tokens, whole.Visible, whole.Finish, whole.Done, whole.Partial = "hi", 1, 1, "stop", true, true
	cut.Text, cut.Tokens, cut.Visible, cut.Partial, cut.Broken = "hi", 1, 1, true, true
	for body, want := range map[string]reply{hi + "\n" + end: whole, hi + "\n" + end[:30]: cut} {
		if d := cmp.Diff(want, decodeReply(t, "ollama", strings.NewReader(body))); d != "" {
			t.Errorf("last line without its end: %s (-want +got):\n%s", body, d)
		}
	}

	checkNative(t, "ollama-generate", "thinking", `{"response":"","thinking":"hm","done":false}
{"response":"hi","done":false}
{"response":"","done":true,"done_reason":"stop","context":[1,2,3]}`, func(r *reply) {
		good(r)
		r.Reasoning, r.Tokens = "hm", 2
	})
}

func TestOddTGI(t *testing.T) {
	f := func(name, frames string, change func(*reply)) {
		t.Helper()
		checkNative(t, "tgi", name, frames, change)
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
		r.Err = ServerError{Type: "generation", Message: "Request failed during generation: CANCELLED"}
	})
	f("error after a token", hi+"\n"+`{"error":"Incomplete generation stream","error_type":"incomplete_generation_stream"}`, func(r *reply) {
		good(r)
		r.Done, r.Err = false, ServerError{Type: "incomplete_generation_stream", Message: "Incomplete generation stream"}
	})
}

func TestOddSGLang(t *testing.T) {
	f := func(name, frames string, change func(*reply)) {
		t.Helper()
		checkNative(t, "sglang", name, frames, change)
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

func TestOddLlamacpp(t *testing.T) {
	f := func(name, frames string, change func(*reply)) {
		t.Helper()
		checkNative(t, "llamacpp", name, frames, change)
	}
	const hi = `{"index":0,"content":"hi","tokens":[1],"stop":false,"tokens_predicted":1,"tokens_evaluated":9}`
	good := func(r *reply) {
		r.Text, r.Tokens, r.Visible, r.Counts, r.Finish, r.Done, r.Usage = "hi", 1, 1, []int{1, 1}, "length", true, Usage{9, Unknown, 1, Unknown}
	}
	end := func(stopType string) string {
		return `{"index":0,"content":"","stop":true,"stop_type":` + stopType + `,"tokens_predicted":1,"tokens_evaluated":9,"tokens_cached":9}`
	}
	f("capped", hi+"\n"+end(`"limit"`), good)
	f("stop string", hi+"\n"+end(`"word"`), func(r *reply) { good(r); r.Finish = "stop" })
	f("neither", hi+"\n"+end(`"none"`), func(r *reply) { good(r); r.Finish = "other" })
	f("older server without stop_type", hi+"\n"+end("null"), func(r *reply) { good(r); r.Finish = "" })
	f("progress of the prompt", `{"index":0,"content":"","tokens":[],"stop":false,"tokens_predicted":0,"tokens_evaluated":9,"prompt_progress":{"total":9,"cache":0,"processed":4,"time_ms":5}}
{"index":0,"content":"","tokens":[],"stop":false,"tokens_predicted":0,"tokens_evaluated":9,"prompt_progress":{"total":9,"cache":0,"processed":9,"time_ms":9}}
`+hi+"\n"+end(`"limit"`), func(r *reply) { good(r); r.Counts = []int{0, 1, 1} })
	f("cached prompt", hi+"\n"+`{"content":"","stop":true,"stop_type":"limit","tokens_predicted":1,"tokens_evaluated":9,"timings":{"cache_n":8,"prompt_n":1,"prompt_ms":2.5,"predicted_ms":0}}`, func(r *reply) {
		good(r)
		r.Usage.Cached, r.Server = 8, ServerTimes{-1, 2500 * time.Microsecond, 0}
	})
	f("error", hi+"\n"+`{"error":{"code":500,"message":"boom","type":"server_error"}}`, func(r *reply) {
		good(r)
		r.Counts, r.Finish, r.Done, r.Err = []int{1}, "", false, ServerError{Status: 500, Type: "server_error", Message: "boom"}
	})
	f("no counts, other types", `{"content":7,"stop":"no"}`+"\n"+`{"content":"hi","stop":null}`, func(r *reply) { r.Text, r.Tokens, r.Visible = "hi", 1, 1 })

	r := noReply()
	r.Err = ServerError{Status: 500, Type: "server_error", Message: "boom"}
	body := `error: {"code":500,"message":"boom","type":"server_error"}` + "\n\n"
	if d := cmp.Diff(r, decodeReply(t, "llamacpp", strings.NewReader(body))); d != "" {
		t.Errorf("error line (-want +got):\n%s", d)
	}
}

func TestOddTriton(t *testing.T) {
	f := func(name, frames string, change func(*reply)) {
		t.Helper()
		checkNative(t, "triton", name, frames, change)
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

func TestNativeURL(t *testing.T) {
	f := func(api, base, model, want, wantModels string) {
		t.Helper()
		u, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		p, _ := Lookup(api)
		got, gotModels := p.URL(u, model).String(), ""
		if p.Models != nil {
			gotModels = p.Models.URL(u).String()
		}
		if got != want || gotModels != wantModels {
			t.Errorf("%s, %s: %s and %s; want %s and %s", api, base, got, gotModels, want, wantModels)
		}
		if u.String() != base {
			t.Errorf("%s was changed to %s", base, u)
		}
	}
	for _, base := range []string{"http://h:11434", "http://h:11434/", "http://h:11434/api", "http://h:11434/api/chat", "http://h:11434/api/generate/", "http://h:11434/v1", "http://h:11434/api/tags"} {
		f("ollama", base, "m", "http://h:11434/api/chat", "http://h:11434/api/tags")
		f("ollama-generate", base, "m", "http://h:11434/api/generate", "http://h:11434/api/tags")
	}
	f("ollama", "https://h/a%2Fb/ollama?k=1#f", "m", "https://h/a%2Fb/ollama/api/chat?k=1", "https://h/a%2Fb/ollama/api/tags?k=1")
	for _, base := range []string{"http://h", "http://h/", "http://h/generate_stream", "http://h/generate", "http://h/info", "http://h/v1"} {
		f("tgi", base, "", "http://h/generate_stream", "http://h/info")
	}
	for _, base := range []string{"http://h", "http://h/generate", "http://h/v1/", "http://h/v1/models", "http://h/get_model_info"} {
		f("sglang", base, "", "http://h/generate", "http://h/v1/models")
	}
	for _, base := range []string{"http://h", "http://h/completion", "http://h/v1", "http://h/v1/models"} {
		f("llamacpp", base, "", "http://h/completion", "http://h/v1/models")
	}
	f("llamacpp", "http://gateway/v1/llama?k=1", "", "http://gateway/v1/llama/completion?k=1", "http://gateway/v1/llama/v1/models?k=1")
	for _, base := range []string{"http://h", "http://h/", "http://h/v2", "http://h/v2/models/", "http://h/v2/models/m", "http://h/v2/models/m/generate", "http://h/v2/models/m/generate_stream"} {
		f("triton", base, "m", "http://h/v2/models/m/generate_stream", "")
	}
	f("triton", "http://h/v2/models/m/versions/2", "other", "http://h/v2/models/m/versions/2/generate_stream", "")
	f("triton", "http://h/kserve?k=1", "a/b c", "http://h/kserve/v2/models/a%2Fb%20c/generate_stream?k=1", "")
}

func TestNativeBody(t *testing.T) {
	f := func(api string, p Params, want string) {
		t.Helper()
		protocol, _ := Lookup(api)
		got, err := protocol.Body(p)
		if d := cmp.Diff(want, string(got)); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", api, err, d)
		}
		p.OutputTokens = 0
		if got, err := protocol.Body(p); err == nil {
			t.Errorf("%s: no cap on the answer: %s, want an error", api, got)
		}
	}
	plain := Params{Model: "m", Prompt: "a <b>", OutputTokens: 64}
	exact := plain
	exact.ExactLength = true
	f("ollama", plain, `{"model":"m","messages":[{"role":"user","content":"a <b>"}],"stream":true,"options":{"num_predict":64,"temperature":0}}`)
	f("ollama-generate", exact, `{"model":"m","prompt":"a <b>","stream":true,"options":{"num_predict":64,"temperature":0}}`)
	f("tgi", exact, `{"inputs":"a <b>","parameters":{"max_new_tokens":64,"do_sample":false,"details":true}}`)
	f("sglang", plain, `{"text":"a <b>","sampling_params":{"max_new_tokens":64,"temperature":0},"stream":true}`)
	f("sglang", exact, `{"text":"a <b>","sampling_params":{"max_new_tokens":64,"min_new_tokens":64,"ignore_eos":true,"temperature":0},"stream":true}`)
	f("llamacpp", plain, `{"prompt":"a <b>","n_predict":64,"temperature":0,"stream":true}`)
	f("llamacpp", exact, `{"prompt":"a <b>","n_predict":64,"ignore_eos":true,"temperature":0,"stream":true}`)
	const asked = `"temperature":0,"exclude_input_in_output":true,"return_finish_reason":true,"return_num_input_tokens":true,"return_num_output_tokens":true}}`
	f("triton", plain, `{"text_input":"a <b>","parameters":{"stream":true,"max_tokens":64,`+asked)
	f("triton", exact, `{"text_input":"a <b>","parameters":{"stream":true,"max_tokens":64,"min_tokens":64,`+asked)
}

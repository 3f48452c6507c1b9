package simulator

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// answered is what a client of the api made of a reply.
type answered struct {
	Text, Reasoning string
	Events, Count   int // events with material, and the last running count
	Finish          string
	Done            bool
	Usage           api.Usage
	Server          api.ServerTimes
	Err             string
}

// askFace sends the request of an api to its face, and decodes the reply as a
// probe does.
func askFace(t *testing.T, v *serving, name, prefix string) answered {
	t.Helper()
	p, ok := api.Lookup(name)
	if !ok {
		t.Fatalf("no api %s", name)
	}
	body, err := p.Body(api.Params{Model: "simulated-8b", Prompt: strings.Repeat("word ", 40), OutputTokens: 6, ExactLength: true})
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequest(http.MethodPost, v.base+prefix, nil)
	if err != nil {
		t.Fatal(err)
	}
	u := p.URL(req.URL, "simulated-8b")
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	a := v.post(ctx, u.RequestURI(), string(body), 1<<20)
	return decodeFace(&p, a.body)
}

func decodeFace(p *api.Protocol, body string) answered {
	got := answered{Count: api.Unknown, Server: api.ServerTimes{Queue: -1, Prefill: -1, Decode: -1}}
	var tally api.Tally
	var d api.Delta
	frames, decoder := stream.New(p.Framing, strings.NewReader(body), stream.DefaultLimits()), p.NewDecoder()
	for {
		f, err := frames.Next()
		if err == nil {
			err = decoder.Decode(f.Event, f.Data, &d)
		}
		if err != nil {
			got.Err = err.Error()
			got.Usage = tally.Usage()
			return got
		}
		got.Text += string(d.Text)
		got.Reasoning += string(d.Reasoning)
		if d.HasToken() {
			got.Events++
		}
		got.Count = max(got.Count, d.Tokens)
		if d.Finish != "" {
			got.Finish = d.Finish
		}
		if d.Server != nil {
			got.Server = *d.Server
		}
		got.Done = got.Done || d.Done
		tally.Add(d.Usage)
	}
}

// askFaulty asks a face of a server of its own that shows a fault.
func askFaulty(t *testing.T, name, fault string, ok func(answered) bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{}, false)
		defer v.stop()
		if got := askFace(t, v, name, "/fault/"+fault+"/"); !ok(got) {
			t.Errorf("%s at %s: %+v", fault, name, got)
		}
	})
}

func nativeAPIs() []string {
	return []string{"ollama", "ollama-generate", "tgi", "sglang", "llamacpp", "triton"}
}

// TestFacesAreUnderstood asks each face what a probe asks, twice, so that the
// second prompt is cached where the server reports that: of the 52 tokens with
// the template 48, of the 40 without it 32.
func TestFacesAreUnderstood(t *testing.T) {
	const u, ms = api.Unknown, 1_000_000
	const text = "zero one two three four five"
	noTimes := api.ServerTimes{Queue: -1, Prefill: -1, Decode: -1}
	thinking := func(usage api.Usage, server api.ServerTimes) answered {
		return answered{
			Text: "zero one two three", Reasoning: "zero one", Events: 6, Count: u, Finish: "length", Done: true, Err: "EOF",
			Usage: usage, Server: server,
		}
	}
	full := api.Usage{Prompt: 52, Cached: 48, Output: 6, Reasoning: 2}
	gemini := thinking(full, noTimes)
	gemini.Count, gemini.Done = 4, false // of the answer: thoughts are counted apart
	// 4 tokens are left to prefill, 0.5 ms, and a step.
	ollama := thinking(api.Usage{Prompt: 52, Cached: u, Output: 6, Reasoning: u}, api.ServerTimes{Queue: -1, Prefill: 20*ms + ms/2, Decode: 100 * ms})
	for name, want := range map[string]answered{
		"openai-responses": thinking(full, noTimes), "anthropic": thinking(full, noTimes), "gemini": gemini,
		"cohere": thinking(api.Usage{Prompt: 52, Cached: u, Output: 6, Reasoning: u}, noTimes),
		"ollama": ollama, "ollama-generate": ollama,
		"tgi":    {Text: text, Events: 6, Count: 6, Finish: "length", Done: true, Err: "EOF", Usage: api.Usage{Prompt: 40, Cached: u, Output: 6, Reasoning: u}, Server: noTimes},
		"sglang": {Text: text, Events: 6, Count: 6, Finish: "length", Done: true, Err: "EOF", Usage: api.Usage{Prompt: 40, Cached: 32, Output: 6, Reasoning: u}, Server: noTimes},
		"llamacpp": {
			Text: text, Events: 6, Count: 6, Finish: "length", Done: true, Err: "EOF", Usage: api.Usage{Prompt: 40, Cached: 32, Output: 6, Reasoning: u},
			Server: api.ServerTimes{Queue: -1, Prefill: 21 * ms, Decode: 100 * ms}, // 8 tokens in 1 ms, and a step
		},
		"triton": {Text: text, Events: 6, Count: 6, Finish: "length", Err: "EOF", Usage: api.Usage{Prompt: 40, Cached: u, Output: 6, Reasoning: u}, Server: noTimes},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := serve(t, Options{ReasoningTokens: 2}, false)
				defer v.stop()
				askFace(t, v, name, "/")
				got := askFace(t, v, name, "/")
				if name == "anthropic" { // which is asked for no temperature and begins anywhere
					got.Text, got.Reasoning = want.Text, want.Reasoning
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("(-want +got):\n%s", d)
				}
			})
		})
	}
}

// TestFaultsOfHostedFaces has for every fault of the events how many of them a
// client sees of 6 tokens, and how the reply ends.
func TestFaultsOfHostedFaces(t *testing.T) {
	f := func(fault string, events int, finish, err string) {
		t.Helper()
		for _, name := range []string{"openai-responses", "anthropic", "gemini", "cohere"} {
			askFaulty(t, name, fault, func(a answered) bool {
				return a.Events == events && a.Finish == finish && strings.Contains(a.Err, err)
			})
		}
	}
	for _, odd := range []string{
		"crlf", "cr", "done_without_space", "multiline_data", "extra_fields", "bom", "event_without_blank_line_at_eof", "comments_between", "comment_before_done",
		"keepalive_data", "empty_events", "nulls", "garbage_bytes", "no_usage", "usage_every_chunk", "usage_on_finish", "two_finish_reasons", "no_end_marker",
		"split_writes", "split_utf8", "crlf_split", "buffered", "one_read", "early_role", "slow_tokens",
	} {
		f(odd, 6, "length", "EOF")
	}
	f("many_tokens_per_event", 2, "length", "EOF")
	f("empty_string_tokens", 3, "length", "EOF")
	f("empty_stream", 0, "stop", "EOF")
	f("end_before_finish", oddToken-1, "", "EOF")
	f("cut_before_finish", oddToken-1, "", "EOF")
	f("malformed_json", oddToken-1, "", "no JSON")
}

// A stream that breaks off with an error says so in the words of its protocol.
func TestFailuresOfHostedFaces(t *testing.T) {
	for _, c := range []struct {
		name string
		face protocol
		want api.ServerError
	}{
		{"openai-responses", openaiResponses(), api.ServerError{Status: 500, Type: "server_error", Message: "boom"}},
		{"anthropic", anthropicMessages(), api.ServerError{Status: 500, Type: "api_error", Message: "boom"}},
		{"gemini", geminiGenerate(), api.ServerError{Status: 500, Type: "INTERNAL", Message: "boom"}},
		{"cohere", cohereChat(), api.ServerError{Message: "boom"}},
	} {
		body := c.face.reply(replyHeader{}).appendEvent(nil, &event{kind: Failure, text: []byte("boom")}, sseFrame("data: ", "\n"))
		frame, err := stream.NewSSE(strings.NewReader(string(body)), stream.DefaultLimits()).Next()
		if err != nil {
			t.Fatal(err)
		}
		p, _ := api.Lookup(c.name)
		var d api.Delta
		if err := p.NewDecoder().Decode(frame.Event, frame.Data, &d); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&c.want, d.Err); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestFaultsOfNativeFaces shows each fault at each face. It must end, and what
// came is decoded or refused.
func TestFaultsOfNativeFaces(t *testing.T) {
	for _, name := range nativeAPIs() {
		for _, f := range Faults() {
			if f.Name == "long_line" {
				continue // a hundred megabytes each
			}
			synctest.Test(t, func(t *testing.T) {
				v := serve(t, Options{}, false)
				defer v.stop()
				got := fmt.Sprintf("%+v", askFace(t, v, name, "/fault/"+f.Name+"/"))
				synctest.Wait()
				if r, ok := v.Request(trace); !ok || r.Fault != f.Name || !r.Complete {
					t.Errorf("%s at %s: record %v %+v, got %s", f.Name, name, ok, r, got)
				}
			})
		}
	}
}

// TestFaultsThatNativeFacesShow has what a client must notice at every face.
func TestFaultsThatNativeFacesShow(t *testing.T) {
	for _, name := range nativeAPIs() {
		f := func(fault string, ok func(answered) bool) {
			t.Helper()
			askFaulty(t, name, fault, ok)
		}
		f("end_before_finish", func(a answered) bool { return a.Events == oddToken-1 && a.Finish == "" && !a.Done })
		f("malformed_json", func(a answered) bool { return a.Events == oddToken-1 && strings.Contains(a.Err, "no JSON") })
		f("many_tokens_per_event", func(a answered) bool { return a.Events == 2 && strings.HasSuffix(a.Text, "five") })
		f("empty_stream", func(a answered) bool { return a.Events == 0 && a.Finish == "stop" })
		f("split_utf8", func(a answered) bool { return strings.HasPrefix(a.Text, " café 数字 😀") })
	}
}

// TestNativeReplies has the replies of the engines' own protocols. Prefill is
// 8000 tokens a second, a decode step 20 ms: the times follow.
func TestNativeReplies(t *testing.T) {
	f := func(o Options, path, request string, want ...string) {
		t.Helper()
		separator := "\n"
		if strings.HasPrefix(want[0], "data:") {
			separator = "\n\n"
		}
		checkReply(t, o, path, request, strings.Join(want, separator))
	}
	const object = `{"model":"simulated-8b","created_at":"T",`

	f(Options{ReasoningTokens: 1}, "/api/chat", `{"model":"simulated-8b","messages":[{"role":"user","content":"one"}],"options":{"num_predict":3,"temperature":0}}`,
		object+`"message":{"role":"assistant","content":"","thinking":"zero"},"done":false}`,
		object+`"message":{"role":"assistant","content":"zero"},"done":false}`,
		object+`"message":{"role":"assistant","content":" one"},"done":false}`,
		object+`"message":{"role":"assistant","content":""},"done":true,"done_reason":"length","total_duration":61625000,"prompt_eval_count":13,"prompt_eval_duration":21625000,"eval_count":3,"eval_duration":40000000}`, "")
	f(Options{ReasoningTokens: 1}, "/api/generate", `{"prompt":"one","think":false,"options":{"num_predict":1,"temperature":0}}`,
		object+`"response":"zero","done":false}`,
		object+`"response":"","done":true,"done_reason":"length","total_duration":21625000,"prompt_eval_count":13,"prompt_eval_duration":21625000,"eval_count":1}`, "")
	f(Options{}, "/api/generate", `{"prompt":"one","stream":false,"options":{"num_predict":1,"temperature":0}}`,
		object+`"response":"zero","done":true,"done_reason":"length","total_duration":21625000,"prompt_eval_count":13,"prompt_eval_duration":21625000,"eval_count":1}`)
	f(Options{}, "/generate_stream", `{"inputs":"one two","parameters":{"max_new_tokens":2,"do_sample":false,"details":true}}`,
		`data:{"index":1,"token":{"id":1,"text":"zero","logprob":-0.25,"special":false},"generated_text":null,"details":null}`,
		`data:{"index":2,"token":{"id":2,"text":" one","logprob":-0.25,"special":false},"generated_text":"zero one","details":{"finish_reason":"length","generated_tokens":2,"seed":null,"input_length":2}}`)
	f(Options{StopProbability: 1}, "/generate", `{"text":"one two","sampling_params":{"max_new_tokens":2,"min_new_tokens":1,"temperature":0},"stream":true}`,
		`data: {"text":"zero","meta_info":{"id":"ID","finish_reason":{"type":"stop","matched":2},"prompt_tokens":2,"completion_tokens":1,"cached_tokens":0}}`,
		`data: [DONE]`)
	f(Options{StopProbability: 1}, "/generate", `{"text":"one two","sampling_params":{"max_new_tokens":2,"ignore_eos":true,"temperature":0},"stream":true}`,
		`data: {"text":"zero","meta_info":{"id":"ID","finish_reason":null,"prompt_tokens":2,"completion_tokens":1,"cached_tokens":0}}`,
		`data: {"text":"zero one","meta_info":{"id":"ID","finish_reason":{"type":"length","length":2},"prompt_tokens":2,"completion_tokens":2,"cached_tokens":0}}`,
		`data: [DONE]`)
	f(Options{}, "/completion", `{"prompt":"one two","n_predict":2,"temperature":0,"stream":true}`,
		`data: {"index":0,"content":"zero","tokens":[],"stop":false,"id_slot":-1,"tokens_predicted":1,"tokens_evaluated":2}`,
		`data: {"index":0,"content":" one","tokens":[],"stop":false,"id_slot":-1,"tokens_predicted":2,"tokens_evaluated":2}`,
		`data: {"index":0,"content":"","tokens":[],"id_slot":0,"stop":true,"model":"simulated-8b","tokens_predicted":2,"tokens_evaluated":2,"truncated":false,"stop_type":"limit","stopping_word":"","tokens_cached":4,`+
			`"timings":{"cache_n":0,"prompt_n":2,"prompt_ms":20.250,"predicted_n":2,"predicted_ms":20.000}}`)
	f(Options{}, "/v2/models/simulated-8b/generate_stream", `{"text_input":"one two","parameters":{"stream":true,"max_tokens":2,"temperature":0}}`,
		`data: {"finish_reason":"None","model_name":"simulated-8b","model_version":"1","num_input_tokens":2,"num_output_tokens":1,"text_output":"zero"}`,
		`data: {"finish_reason":"length","model_name":"simulated-8b","model_version":"1","num_input_tokens":2,"num_output_tokens":1,"text_output":" one"}`)
}

func TestNativeRefusals(t *testing.T) {
	f := func(path, request string, status int, want string) {
		t.Helper()
		checkRefusal(t, path, request, status, want)
	}
	const noPrompt = `"the prompt must not be empty"`
	f("/api/chat", `{"model":"m","messages":[{"content":"x"}]}`, 404, "{\"error\":\"The model `m` does not exist.\"}")
	f("/api/chat", `{"messages":[]}`, 400, `{"error":"there is no message"}`)
	f("/api/generate", `{}`, 400, `{"error":"prompt must not be empty"}`)
	f("/generate_stream", `{"inputs":""}`, 400, `{"error":`+noPrompt+`,"error_type":"validation"}`)
	f("/generate_stream", `{"inputs":"x","parameters":{"temperature":0}}`, 400, "{\"error\":\"`temperature` must be strictly positive\",\"error_type\":\"validation\"}")
	f("/generate", `{"text":" "}`, 400, `{"error":{"message":`+noPrompt+`}}`)
	f("/generate", `{"text":"x","sampling_params":{"max_new_tokens":2,"min_new_tokens":3}}`, 400, `{"error":{"message":"the least output must be from 0 to the limit"}}`)
	f("/completion", `{"prompt":"x","n_predict":0}`, 400, `{"error":{"code":400,"message":"the limit on the output must be at least 1, got 0","type":"invalid_request_error"}}`)
	f("/v2/models/m/generate_stream", `{"text_input":"x"}`, 404, "{\"error\":\"The model `m` does not exist.\"}")
	f("/v2/models/simulated-8b/generate_stream", `{}`, 400, `{"error":`+noPrompt+`}`)
}

// stable replaces what differs from run to run: ids and times.
func stable(body string) string {
	body = regexp.MustCompile(`[0-9a-f]{32}`).ReplaceAllString(body, "ID")
	body = regexp.MustCompile(`"(created|created_at)":\d+`).ReplaceAllString(body, `"$1":0`)
	return regexp.MustCompile(`"created_at":"[^"]*"`).ReplaceAllString(body, `"created_at":"T"`)
}

// checkReply compares the lines of a reply, the blank ones at the end aside.
func checkReply(t *testing.T, o Options, path, request string, want ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, o, false)
		defer v.stop()
		a := v.post(context.Background(), path, request, 1<<20)
		if a.status != http.StatusOK || a.err != nil {
			t.Errorf("%s: status %d, error %v", path, a.status, a.err)
		}
		if d := cmp.Diff(strings.Join(want, "\n"), strings.TrimSuffix(stable(a.body), "\n\n")); d != "" {
			t.Errorf("%s (-want +got):\n%s", path, d)
		}
	})
}

// checkRefusal wants a status and a body.
func checkRefusal(t *testing.T, path, request string, status int, want string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{}, false)
		defer v.stop()
		a := v.post(context.Background(), path, request, 1<<20)
		if a.status != status || a.body != want {
			t.Errorf("%s %s: status %d, body %s; want %d, %s", path, request, a.status, a.body, status, want)
		}
	})
}

func TestResponsesFace(t *testing.T) {
	const (
		path     = "/v1/responses"
		response = `"response":{"id":"resp_ID","object":"response","created_at":0,"status":`
		place    = `"item_id":"msg_1","output_index":1,"content_index":0`
	)
	checkReply(t, Options{ReasoningTokens: 1}, path, `{"model":"simulated-8b","input":"one two","max_output_tokens":2,"temperature":0,"stream":true,"store":false}`,
		`event: response.created`,
		`data: {"type":"response.created",`+response+`"in_progress","error":null,"incomplete_details":null,"model":"simulated-8b","output":[],"store":false,"usage":null},"sequence_number":0}`, "",
		`event: response.in_progress`,
		`data: {"type":"response.in_progress",`+response+`"in_progress","error":null,"incomplete_details":null,"model":"simulated-8b","output":[],"store":false,"usage":null},"sequence_number":1}`, "",
		`event: response.reasoning_text.delta`,
		`data: {"type":"response.reasoning_text.delta","item_id":"msg_0","output_index":0,"content_index":0,"delta":"zero","sequence_number":2}`, "",
		`event: response.output_item.added`,
		`data: {"type":"response.output_item.added","output_index":1,"item":{"id":"msg_1","type":"message","role":"assistant","status":"in_progress","content":[]},"sequence_number":3}`, "",
		`event: response.content_part.added`,
		`data: {"type":"response.content_part.added",`+place+`,"part":{"type":"output_text","text":"","annotations":[]},"sequence_number":4}`, "",
		`event: response.output_text.delta`,
		`data: {"type":"response.output_text.delta",`+place+`,"delta":"zero","sequence_number":5}`, "",
		`event: response.incomplete`,
		`data: {"type":"response.incomplete",`+response+`"incomplete","error":null,"incomplete_details":{"reason":"max_output_tokens"},"model":"simulated-8b","output":[],"store":false,`+
			`"usage":{"input_tokens":14,"input_tokens_details":{"cached_tokens":0},"output_tokens":2,"output_tokens_details":{"reasoning_tokens":1},"total_tokens":16}},"sequence_number":6}`)
	checkReply(t, Options{StopProbability: 1}, path, `{"input":[{"role":"user","content":"one"}],"temperature":0}`,
		`{"id":"resp_ID","object":"response","created_at":0,"status":"completed","error":null,"incomplete_details":null,"model":"simulated-8b",`+
			`"output":[{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","annotations":[],"text":"zero"}]}],"store":false,`+
			`"usage":{"input_tokens":13,"input_tokens_details":{"cached_tokens":0},"output_tokens":1,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":14}}`)
}

func TestAnthropicFace(t *testing.T) {
	const path = "/v1/messages"
	checkReply(t, Options{ReasoningTokens: 1}, path, `{"model":"simulated-8b","max_tokens":3,"messages":[{"role":"user","content":"one two"}],"temperature":0,"stream":true}`,
		`event: message_start`,
		`data: {"type":"message_start","message":{"id":"msg_ID","type":"message","role":"assistant","content":[],"model":"simulated-8b","stop_reason":null,"stop_sequence":null,`+
			`"usage":{"input_tokens":14,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}}}`, "",
		`event: content_block_start`,
		`data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`, "",
		`event: content_block_delta`,
		`data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"zero"}}`, "",
		`event: content_block_stop`,
		`data: {"type":"content_block_stop","index":0}`, "",
		`event: content_block_start`,
		`data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`, "",
		`event: content_block_delta`,
		`data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"zero"}}`, "",
		`event: content_block_delta`,
		`data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":" one"}}`, "",
		`event: content_block_stop`,
		`data: {"type":"content_block_stop","index":1}`, "",
		`event: message_delta`,
		`data: {"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null},"usage":{"input_tokens":14,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,`+
			`"output_tokens":3,"output_tokens_details":{"thinking_tokens":1}}}`, "",
		`event: message_stop`,
		`data: {"type":"message_stop"}`)
	checkReply(t, Options{ReasoningTokens: 1, StopProbability: 1}, path, `{"max_tokens":3,"messages":[{"content":[{"type":"text","text":"one"}]}],"temperature":0,"thinking":{"type":"disabled"}}`,
		`{"id":"msg_ID","type":"message","role":"assistant","model":"simulated-8b","content":[{"type":"text","text":"zero"}],"stop_reason":"end_turn","stop_sequence":null,`+
			`"usage":{"input_tokens":13,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}}`)
}

func TestGeminiFace(t *testing.T) {
	const (
		path = "/v1beta/models/simulated-8b:"
		rest = `,"modelVersion":"simulated-8b","responseId":"ID"}`
	)
	checkReply(t, Options{ReasoningTokens: 1}, path+"streamGenerateContent?alt=sse", `{"contents":[{"role":"user","parts":[{"text":"one two"}]}],"generationConfig":{"maxOutputTokens":2,"temperature":0}}`,
		`data: {"candidates":[{"content":{"parts":[{"text":"zero","thought":true}],"role":"model"},"index":0}],`+
			`"usageMetadata":{"promptTokenCount":14,"candidatesTokenCount":0,"thoughtsTokenCount":1,"totalTokenCount":15}`+rest+"\r", "\r",
		`data: {"candidates":[{"content":{"parts":[{"text":"zero"}],"role":"model"},"index":0}],`+
			`"usageMetadata":{"promptTokenCount":14,"candidatesTokenCount":1,"thoughtsTokenCount":1,"totalTokenCount":16}`+rest+"\r", "\r",
		`data: {"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"MAX_TOKENS","index":0}],`+
			`"usageMetadata":{"promptTokenCount":14,"candidatesTokenCount":1,"thoughtsTokenCount":1,"totalTokenCount":16}`+rest+"\r", "\r", "")
	checkReply(t, Options{ReasoningTokens: 1, StopProbability: 1}, path+"generateContent",
		`{"contents":[{"parts":[{"text":"one"}]}],"generationConfig":{"temperature":0,"thinkingConfig":{"thinkingBudget":0}}}`,
		`{"candidates":[{"content":{"parts":[{"text":"zero"}],"role":"model"},"finishReason":"STOP","index":0}],`+
			`"usageMetadata":{"promptTokenCount":13,"candidatesTokenCount":1,"totalTokenCount":14}`+rest)
}

func TestCohereFace(t *testing.T) {
	const path = "/v2/chat"
	checkReply(t, Options{ReasoningTokens: 1}, path, `{"model":"simulated-8b","messages":[{"role":"user","content":"one two"}],"max_tokens":2,"temperature":0,"stream":true}`,
		`event: message-start`,
		`data: {"type":"message-start","id":"ID","delta":{"message":{"role":"assistant","content":[],"tool_plan":"","tool_calls":[],"citations":[]}}}`, "",
		`event: content-start`,
		`data: {"type":"content-start","index":0,"delta":{"message":{"content":{"type":"thinking","thinking":""}}}}`, "",
		`event: content-delta`,
		`data: {"type":"content-delta","index":0,"delta":{"message":{"content":{"thinking":"zero"}}}}`, "",
		`event: content-end`,
		`data: {"type":"content-end","index":0}`, "",
		`event: content-start`,
		`data: {"type":"content-start","index":1,"delta":{"message":{"content":{"type":"text","text":""}}}}`, "",
		`event: content-delta`,
		`data: {"type":"content-delta","index":1,"delta":{"message":{"content":{"text":"zero"}}}}`, "",
		`event: content-end`,
		`data: {"type":"content-end","index":1}`, "",
		`event: message-end`,
		`data: {"type":"message-end","delta":{"finish_reason":"MAX_TOKENS","usage":{"billed_units":{"input_tokens":2.0,"output_tokens":2.0},"tokens":{"input_tokens":14.0,"output_tokens":2.0}}}}`)
	checkReply(t, Options{StopProbability: 1}, path, `{"messages":[{"content":"one"}],"temperature":0}`,
		`{"id":"ID","finish_reason":"COMPLETE","message":{"role":"assistant","content":[{"type":"text","text":"zero"}]},`+
			`"usage":{"billed_units":{"input_tokens":1.0,"output_tokens":1.0},"tokens":{"input_tokens":13.0,"output_tokens":1.0}}}`)
}

func TestFaceRefusals(t *testing.T) {
	f := func(path, request string, status int, body string) {
		t.Helper()
		checkRefusal(t, path, request, status, body)
	}
	const noModel = "The model `other` does not exist."
	f("/v1/responses", `{"model":"other","input":"x"}`, 404, `{"error":{"message":"`+noModel+`","type":"NotFoundError","param":null,"code":404}}`)
	f("/v1/responses", `{"input":[]}`, 400, `{"error":{"message":"there is no message","type":"BadRequestError","param":null,"code":400}}`)
	f("/v1/messages", `{"model":"other","max_tokens":1,"messages":[{"content":"x"}]}`, 404, `{"type":"error","error":{"type":"not_found_error","message":"`+noModel+`"}}`)
	f("/v1/messages", `{"messages":[{"content":"x"}]}`, 400, `{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: Field required"}}`)
	f("/fault/status_429/v1/messages", `{}`, 429, `{"type":"error","error":{"type":"rate_limit_error","message":"Rate limit reached"}}`)
	f("/v1beta/models/other:streamGenerateContent", `{"contents":[{"parts":[{"text":"x"}]}]}`, 404, `{"error":{"code":404,"message":"`+noModel+`","status":"NOT_FOUND"}}`)
	f("/v1beta/models/simulated-8b:countTokens", `{"contents":[{"parts":[{"text":"x"}]}]}`, 404, `{"error":{"code":404,"message":"there is no method countTokens","status":"NOT_FOUND"}}`)
	f("/fault/status_429/v1beta/models/simulated-8b:generateContent", `{}`, 429, `{"error":{"code":429,"message":"Rate limit reached","status":"RESOURCE_EXHAUSTED"}}`)
	f("/v2/chat", `{"messages":[{"content":"x"}],"max_tokens":0}`, 400, `{"message":"the limit on the output must be at least 1, got 0"}`)
}

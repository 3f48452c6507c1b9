package simulator

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// checkFace compares what a face writes, ids and times aside.
func checkFace(t *testing.T, o Options, path, request string, want ...string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, o, false)
		defer v.stop()
		a := v.post(context.Background(), path, request, 1<<20)
		if a.status != http.StatusOK || a.err != nil {
			t.Errorf("%s: status %d, error %v", path, a.status, a.err)
		}
		body := regexp.MustCompile(`[0-9a-f]{32}`).ReplaceAllString(a.body, "ID")
		body = regexp.MustCompile(`"created_at":\d+`).ReplaceAllString(body, `"created_at":0`)
		if d := cmp.Diff(strings.Join(want, "\n"), strings.TrimRight(body, "\n")); d != "" {
			t.Errorf("%s (-want +got):\n%s", path, d)
		}
	})
}

func TestResponsesFace(t *testing.T) {
	const (
		path     = "/v1/responses"
		response = `"response":{"id":"resp_ID","object":"response","created_at":0,"status":`
		place    = `"item_id":"msg_1","output_index":1,"content_index":0`
	)
	checkFace(t, Options{ReasoningTokens: 1}, path, `{"model":"simulated-8b","input":"one two","max_output_tokens":2,"temperature":0,"stream":true,"store":false}`,
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
	checkFace(t, Options{StopProbability: 1}, path, `{"input":[{"role":"user","content":"one"}],"temperature":0}`,
		`{"id":"resp_ID","object":"response","created_at":0,"status":"completed","error":null,"incomplete_details":null,"model":"simulated-8b",`+
			`"output":[{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","annotations":[],"text":"zero"}]}],"store":false,`+
			`"usage":{"input_tokens":13,"input_tokens_details":{"cached_tokens":0},"output_tokens":1,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":14}}`)
}

func TestAnthropicFace(t *testing.T) {
	const path = "/v1/messages"
	checkFace(t, Options{ReasoningTokens: 1}, path, `{"model":"simulated-8b","max_tokens":3,"messages":[{"role":"user","content":"one two"}],"temperature":0,"stream":true}`,
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
	checkFace(t, Options{ReasoningTokens: 1, StopProbability: 1}, path, `{"max_tokens":3,"messages":[{"content":[{"type":"text","text":"one"}]}],"temperature":0,"thinking":{"type":"disabled"}}`,
		`{"id":"msg_ID","type":"message","role":"assistant","model":"simulated-8b","content":[{"type":"text","text":"zero"}],"stop_reason":"end_turn","stop_sequence":null,`+
			`"usage":{"input_tokens":13,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}}`)
}

func TestGeminiFace(t *testing.T) {
	const (
		path = "/v1beta/models/simulated-8b:"
		rest = `,"modelVersion":"simulated-8b","responseId":"ID"}`
	)
	checkFace(t, Options{ReasoningTokens: 1}, path+"streamGenerateContent?alt=sse", `{"contents":[{"role":"user","parts":[{"text":"one two"}]}],"generationConfig":{"maxOutputTokens":2,"temperature":0}}`,
		`data: {"candidates":[{"content":{"parts":[{"text":"zero","thought":true}],"role":"model"},"index":0}],`+
			`"usageMetadata":{"promptTokenCount":14,"candidatesTokenCount":0,"thoughtsTokenCount":1,"totalTokenCount":15}`+rest+"\r", "\r",
		`data: {"candidates":[{"content":{"parts":[{"text":"zero"}],"role":"model"},"index":0}],`+
			`"usageMetadata":{"promptTokenCount":14,"candidatesTokenCount":1,"thoughtsTokenCount":1,"totalTokenCount":16}`+rest+"\r", "\r",
		`data: {"candidates":[{"content":{"parts":[{"text":""}],"role":"model"},"finishReason":"MAX_TOKENS","index":0}],`+
			`"usageMetadata":{"promptTokenCount":14,"candidatesTokenCount":1,"thoughtsTokenCount":1,"totalTokenCount":16}`+rest+"\r", "\r")
	checkFace(t, Options{ReasoningTokens: 1, StopProbability: 1}, path+"generateContent",
		`{"contents":[{"parts":[{"text":"one"}]}],"generationConfig":{"temperature":0,"thinkingConfig":{"thinkingBudget":0}}}`,
		`{"candidates":[{"content":{"parts":[{"text":"zero"}],"role":"model"},"finishReason":"STOP","index":0}],`+
			`"usageMetadata":{"promptTokenCount":13,"candidatesTokenCount":1,"totalTokenCount":14}`+rest)
}

func TestCohereFace(t *testing.T) {
	const path = "/v2/chat"
	checkFace(t, Options{ReasoningTokens: 1}, path, `{"model":"simulated-8b","messages":[{"role":"user","content":"one two"}],"max_tokens":2,"temperature":0,"stream":true}`,
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
	checkFace(t, Options{StopProbability: 1}, path, `{"messages":[{"content":"one"}],"temperature":0}`,
		`{"id":"ID","finish_reason":"COMPLETE","message":{"role":"assistant","content":[{"type":"text","text":"zero"}]},`+
			`"usage":{"billed_units":{"input_tokens":1.0,"output_tokens":1.0},"tokens":{"input_tokens":13.0,"output_tokens":1.0}}}`)
}

func TestFaceRefusals(t *testing.T) {
	f := func(path, request string, status int, body string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			v := serve(t, Options{}, false)
			defer v.stop()
			if a := v.post(context.Background(), path, request, 1<<20); a.status != status || a.body != body {
				t.Errorf("%s %s: status %d, body %s", path, request, a.status, a.body)
			}
		})
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

// TestHostedFacesAreUnderstood asks each face what a probe asks, twice, so that
// 48 of the 52 tokens of the second prompt are cached.
func TestHostedFacesAreUnderstood(t *testing.T) {
	const u = api.Unknown
	plain := answered{
		Text: "zero one two three", Reasoning: "zero one", Events: 6, Count: u, Finish: "length", Done: true, Err: "EOF",
		Server: api.ServerTimes{Queue: -1, Prefill: -1, Decode: -1},
	}
	for name, change := range map[string]func(*answered){
		"openai-responses": func(a *answered) { a.Usage = api.Usage{Prompt: 52, Cached: 48, Output: 6, Reasoning: 2} },
		"anthropic":        func(a *answered) { a.Usage = api.Usage{Prompt: 52, Cached: 48, Output: 6, Reasoning: 2} },
		"gemini": func(a *answered) {
			a.Usage, a.Count, a.Done = api.Usage{Prompt: 52, Cached: 48, Output: 6, Reasoning: 2}, 6, false
		},
		"cohere": func(a *answered) { a.Usage = api.Usage{Prompt: 52, Cached: u, Output: 6, Reasoning: u} },
	} {
		synctest.Test(t, func(t *testing.T) {
			v := serve(t, Options{ReasoningTokens: 2}, false)
			defer v.stop()
			want := plain
			change(&want)
			ask := func() answered {
				a := askFace(t, v, name, "/")
				if name == "anthropic" { // which is asked for no temperature and begins anywhere
					a.Text, a.Reasoning = want.Text, want.Reasoning
				}
				return a
			}
			ask()
			if d := cmp.Diff(want, ask()); d != "" {
				t.Errorf("%s (-want +got):\n%s", name, d)
			}
		})
	}
}

// TestFaultsOfHostedFaces has for every fault of the events how many of them a
// client sees of 6 tokens, and how the reply ends.
func TestFaultsOfHostedFaces(t *testing.T) {
	f := func(fault string, events int, finish, err string) {
		t.Helper()
		for _, name := range []string{"openai-responses", "anthropic", "gemini", "cohere"} {
			synctest.Test(t, func(t *testing.T) {
				v := serve(t, Options{}, false)
				defer v.stop()
				got := askFace(t, v, name, "/fault/"+fault+"/")
				if got.Events != events || got.Finish != finish || !strings.Contains(got.Err, err) {
					t.Errorf("%s at %s: %+v", fault, name, got)
				}
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
		{"openai-responses", openaiResponses(), api.ServerError{Type: "server_error", Message: "boom"}},
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

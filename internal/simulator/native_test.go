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

// payloads returns the body of a reply, one payload a line.
func payloads(body string) string {
	body = regexp.MustCompile(`"created_at":"[^"]*"`).ReplaceAllString(body, `"created_at":"T"`)
	body = regexp.MustCompile(`"id":"[0-9a-f]{32}"`).ReplaceAllString(body, `"id":"ID"`)
	return strings.TrimSuffix(strings.ReplaceAll(body, "\n\n", "\n"), "\n")
}

// TestNativeReplies has the replies of the engines' own protocols. Prefill is
// 8000 tokens a second, a decode step 20 ms: the times follow.
func TestNativeReplies(t *testing.T) {
	f := func(o Options, path, request string, want ...string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			v := serve(t, o, false)
			defer v.stop()
			a := v.post(context.Background(), path, request, 1<<20)
			if a.status != http.StatusOK || a.err != nil {
				t.Errorf("status %d, error %v", a.status, a.err)
			}
			if d := cmp.Diff(strings.Join(want, "\n"), payloads(a.body)); d != "" {
				t.Errorf("%s: %s", path, d)
			}
		})
	}
	const object = `{"model":"simulated-8b","created_at":"T",`

	f(Options{ReasoningTokens: 1}, "/api/chat", `{"model":"simulated-8b","messages":[{"role":"user","content":"one"}],"options":{"num_predict":3,"temperature":0}}`,
		object+`"message":{"role":"assistant","content":"","thinking":"zero"},"done":false}`,
		object+`"message":{"role":"assistant","content":"zero"},"done":false}`,
		object+`"message":{"role":"assistant","content":" one"},"done":false}`,
		object+`"message":{"role":"assistant","content":""},"done":true,"done_reason":"length","total_duration":61625000,"prompt_eval_count":13,"prompt_eval_duration":21625000,"eval_count":3,"eval_duration":40000000}`)
	f(Options{ReasoningTokens: 1}, "/api/generate", `{"prompt":"one","think":false,"options":{"num_predict":1,"temperature":0}}`,
		object+`"response":"zero","done":false}`,
		object+`"response":"","done":true,"done_reason":"length","total_duration":21625000,"prompt_eval_count":13,"prompt_eval_duration":21625000,"eval_count":1}`)
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
		synctest.Test(t, func(t *testing.T) {
			v := serve(t, Options{}, false)
			defer v.stop()
			a := v.post(context.Background(), path, request, 1<<20)
			if a.status != status || a.body != want {
				t.Errorf("%s: status %d, body %s; want %d, %s", path, a.status, a.body, status, want)
			}
		})
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

func nativeAPIs() []string {
	return []string{"ollama", "ollama-generate", "tgi", "sglang", "llamacpp", "triton"}
}

// TestNativeFacesAreUnderstood asks each face what a probe asks, twice, so that
// the second prompt is cached where the server tells that.
func TestNativeFacesAreUnderstood(t *testing.T) {
	const u, ms = api.Unknown, 1_000_000
	const text = "zero one two three four five"
	noTimes := api.ServerTimes{Queue: -1, Prefill: -1, Decode: -1}
	thinking := answered{
		Text: "zero one two three", Reasoning: "zero one", Events: 6, Count: u, Finish: "length", Done: true, Err: "EOF",
		// Three blocks of 16 of the 52 tokens are cached: 4 are left, 0.5 ms, and
		// a step.
		Usage: api.Usage{Prompt: 52, Cached: u, Output: 6, Reasoning: u}, Server: api.ServerTimes{Queue: -1, Prefill: 20*ms + ms/2, Decode: 100 * ms},
	}
	for name, want := range map[string]answered{
		"ollama": thinking, "ollama-generate": thinking,
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
				v := serve(t, Options{ReasoningTokens: 2, StopProbability: 0}, false)
				defer v.stop()
				askFace(t, v, name, "/")
				if d := cmp.Diff(want, askFace(t, v, name, "/")); d != "" {
					t.Error(d)
				}
			})
		})
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
			synctest.Test(t, func(t *testing.T) {
				v := serve(t, Options{}, false)
				defer v.stop()
				if got := askFace(t, v, name, "/fault/"+fault+"/"); !ok(got) {
					t.Errorf("%s at %s: %+v", fault, name, got)
				}
			})
		}
		f("end_before_finish", func(a answered) bool { return a.Events == oddToken-1 && a.Finish == "" && !a.Done })
		f("malformed_json", func(a answered) bool { return a.Events == oddToken-1 && strings.Contains(a.Err, "no JSON") })
		f("many_tokens_per_event", func(a answered) bool { return a.Events == 2 && strings.HasSuffix(a.Text, "five") })
		f("empty_stream", func(a answered) bool { return a.Events == 0 && a.Finish == "stop" })
		f("split_utf8", func(a answered) bool { return strings.HasPrefix(a.Text, " café 数字 😀") })
	}
}

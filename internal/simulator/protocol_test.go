package simulator

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
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
	body, err := p.Body(api.Params{Model: "simulated-8b", Prompt: strings.Repeat("word ", 40), OutputTokens: 6, ExactLength: true}, new(api.Adjustment))
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
	return decodeFace(p, a.body)
}

func decodeFace(p *api.Protocol, body string) answered {
	got := answered{Count: api.Unknown, Server: api.ServerTimes{Queue: -1, Prefill: -1, Decode: -1}}
	tally := api.NewTally()
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
	f("end_before_finish", 2, "", "EOF")
	f("cut_before_finish", 2, "", "EOF")
	f("malformed_json", 2, "", "no JSON")
}

// A stream that breaks off with an error says so in the words of its protocol.
func TestFailuresOfFaces(t *testing.T) {
	for name, want := range map[string]api.ServerError{
		"openai-responses": {Status: 500, Type: "server_error", Message: "boom"},
		"anthropic":        {Status: 500, Type: "api_error", Message: "boom"},
		"gemini":           {Status: 500, Type: "INTERNAL", Message: "boom"},
		"cohere":           {Message: "boom"},
	} {
		p, _ := api.Lookup(name)
		var body []byte
		for _, face := range protocols() {
			if path := p.URL(&url.URL{Path: "/"}, "m").Path; path == face.Paths[0] || strings.HasPrefix(path, "/v1beta/") && strings.HasPrefix(face.Paths[0], "/v1beta/") {
				body = (&reply{p: face, Path: path}).appendEvent(nil, &event{kind: Failure, text: []byte("boom")}, sseFrame("data: ", "\n"))
			}
		}
		frame, err := stream.New(stream.SSE, bytes.NewReader(body), stream.DefaultLimits()).Next()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var d api.Delta
		if err := p.NewDecoder().Decode(frame.Event, frame.Data, &d); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&want, d.Err); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestTemplates writes with every template of every face, and expects JSON.
func TestTemplates(t *testing.T) {
	u := usage{Prompt: 9, Output: 3, Cached: 4, Reasoning: 1}
	p := 0.5
	tokens := []tokenScore{{Text: "a"}, {Text: "\"", Logprob: &p}}
	for _, face := range protocols() {
		check := func(_ []byte, _ string, payload []byte) []byte {
			if !json.Valid(payload) && string(payload) != "[DONE]" {
				t.Errorf("%s: %s", face.Paths[0], payload)
			}
			return []byte("written")
		}
		for _, f := range []finish{finishStop, finishLength, finishCall} {
			begin := func(r reply) *reply {
				r.p, r.ID, r.Model, r.Path = face, trace, jsonText(`m"`), face.Paths[0]
				return &r
			}
			r := begin(reply{})
			for _, e := range []event{
				{kind: Role, usage: &u},
				{kind: Reasoning, text: []byte("\"a\n"), tokens: 1, usage: &u},
				{kind: Answer, text: []byte("<b>"), tokens: 1},
				{kind: Call, name: `f"`},
				{kind: Call, text: []byte(`{"a":1`), tokens: 1, finish: f},
				{kind: Finish, finish: f},
				{kind: Usage, usage: &u},
				{kind: Done},
				{kind: Failure, text: []byte(`"no"`)},
			} {
				r.appendEvent(nil, &e, check)
			}
			for _, w := range []reply{
				{Text: jsonText(`"a"`)},
				{Text: jsonText("a"), Thoughts: jsonText("b"), Scores: &scores{Prompt: tokens, Output: tokens}},
				{Inputs: inputs{texts: [][]token{{1}, {2}}, query: []token{2}}},
			} {
				w.Finish = face.nameOf(f)
				if body := begin(w).whole(u); !json.Valid(body) {
					t.Errorf("%s: whole: %s", face.Paths[0], body)
				}
			}
		}
		if body := (&reply{p: face}).fail(nil, "failure", refusal{418, "Kind", `"no"`}, bare); !json.Valid(body) {
			t.Errorf("%s: failure: %s", face.Paths[0], body)
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
		f("end_before_finish", func(a answered) bool { return a.Events == 2 && a.Finish == "" && !a.Done })
		f("malformed_json", func(a answered) bool { return a.Events == 2 && strings.Contains(a.Err, "no JSON") })
		f("many_tokens_per_event", func(a answered) bool { return a.Events == 2 && strings.HasSuffix(a.Text, "five") })
		f("empty_stream", func(a answered) bool { return a.Events == 0 && a.Finish == "stop" })
		f("split_utf8", func(a answered) bool { return strings.HasPrefix(a.Text, " café 数字 😀") })
	}
}

func TestNativeRefusals(t *testing.T) {
	f := func(path, request string, status int, want string) {
		t.Helper()
		checkRefusal(t, path, request, status, want)
	}
	f("/api/chat", `{"model":"m","messages":[{"content":"x"}]}`, 404, "{\"error\":\"The model `m` does not exist.\"}")
	f("/api/chat", `{"messages":[]}`, 400, `{"error":"the prompt must not be empty"}`)
	f("/api/generate", `{}`, 400, `{"error":"the prompt must not be empty"}`)
	f("/generate_stream", `{"inputs":""}`, 400, `{"error":"the prompt must not be empty","error_type":"validation"}`)
	f("/generate", `{"text":7}`, 400, `{"error":{"message":"the prompt must not be empty"}}`)
	f("/generate", `{"text":"x","sampling_params":{"max_new_tokens":2,"min_new_tokens":3}}`, 400, `{"error":{"message":"the least output must be from 0 to the limit"}}`)
	f("/completion", `{"prompt":"x","n_predict":0}`, 400, `{"error":{"code":400,"message":"the limit on the output must be at least 1, got 0","type":"invalid_request_error"}}`)
	f("/v2/models/m/generate_stream", `{"text_input":"x"}`, 404, "{\"error\":\"The model `m` does not exist.\"}")
}

// stable replaces what differs from run to run: ids and times.
func stable(body string) string {
	body = regexp.MustCompile(`[0-9a-f]{32}`).ReplaceAllString(body, "ID")
	body = regexp.MustCompile(`, (["{])`).ReplaceAllString(body, ",$1") // in the templates a line ends there
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

func TestFaceRefusals(t *testing.T) {
	f := func(path, request string, status int, body string) {
		t.Helper()
		checkRefusal(t, path, request, status, body)
	}
	const noModel = "The model `other` does not exist."
	f("/v1/responses", `{"model":"other","input":"x"}`, 404, `{"error":{"message":"`+noModel+`","type":"NotFoundError","param":null,"code":404}}`)
	f("/v1/responses", `{"input":[]}`, 400, `{"error":{"message":"the prompt must not be empty","type":"BadRequestError","param":null,"code":400}}`)
	f("/v1/messages", `{"model":"other","max_tokens":1,"messages":[{"content":"x"}]}`, 404, `{"type":"error","error":{"type":"not_found_error","message":"`+noModel+`"}}`)
	f("/fault/status_429/v1/messages", `{}`, 429, `{"type":"error","error":{"type":"rate_limit_error","message":"Rate limit reached"}}`)
	f("/v1beta/models/other:streamGenerateContent", `{"contents":[{"parts":[{"text":"x"}]}]}`, 404, `{"error":{"code":404,"message":"`+noModel+`","status":"NOT_FOUND"}}`)
	f("/v1beta/models/simulated-8b:countTokens", `{"contents":[{"parts":[{"text":"x"}]}]}`, 404, `{"error":{"code":404,"message":"there is no method countTokens","status":"NOT_FOUND"}}`)
	f("/fault/status_429/v1beta/models/simulated-8b:generateContent", `{}`, 429, `{"error":{"code":429,"message":"Rate limit reached","status":"RESOURCE_EXHAUSTED"}}`)
	f("/v2/chat", `{"messages":[{"content":"x"}],"max_tokens":0}`, 400, `{"message":"the limit on the output must be at least 1, got 0"}`)
}

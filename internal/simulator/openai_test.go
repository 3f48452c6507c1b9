package simulator

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestOpenAIReplies(t *testing.T) {
	f := func(o Options, path, request string, want ...string) {
		t.Helper()
		checkReply(t, o, path, request, want...)
	}
	const chat, completions = "/v1/chat/completions", "/v1/completions"
	const chunk = `data: {"id":"chatcmpl-ID","object":"chat.completion.chunk","created":0,"model":"simulated-8b","choices":[`
	const text = `data: {"id":"cmpl-ID","object":"text_completion","created":0,"model":"simulated-8b","choices":[`

	f(Options{}, chat, `{"model":"simulated-8b","messages":[{"role":"user","content":"one two"}],"max_tokens":2,
		"temperature":0,"stream":true,"stream_options":{"include_usage":true}}`,
		chunk+`{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`, "",
		chunk+`{"index":0,"delta":{"content":"zero"},"logprobs":null,"finish_reason":null}]}`, "",
		chunk+`{"index":0,"delta":{"content":" one"},"logprobs":null,"finish_reason":"length","stop_reason":null}]}`, "",
		chunk+`],"usage":{"prompt_tokens":14,"total_tokens":16,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0}}}`, "",
		`data: [DONE]`)

	// Reasoning comes first; without include_usage there is no usage.
	f(Options{ReasoningTokens: 2}, chat, `{"messages":[{"content":[{"type":"text","text":"one"}]}],"max_completion_tokens":3,"max_tokens":9,"temperature":0,"stream":true}`,
		chunk+`{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`, "",
		chunk+`{"index":0,"delta":{"reasoning":"zero"},"logprobs":null,"finish_reason":null}]}`, "",
		chunk+`{"index":0,"delta":{"reasoning":" one"},"logprobs":null,"finish_reason":null}]}`, "",
		chunk+`{"index":0,"delta":{"content":"zero"},"logprobs":null,"finish_reason":"length","stop_reason":null}]}`, "",
		`data: [DONE]`)

	f(Options{ReasoningTokens: 2}, completions, `{"prompt":"one two three","max_tokens":2,"temperature":0,"stream":true,
		"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`,
		text+`{"index":0,"text":"zero","logprobs":null,"finish_reason":null}],"usage":{"prompt_tokens":4,"total_tokens":5,"completion_tokens":1}}`, "",
		text+`{"index":0,"text":" one","logprobs":null,"finish_reason":"length","stop_reason":null}],"usage":{"prompt_tokens":4,"total_tokens":6,"completion_tokens":2}}`, "",
		text+`],"usage":{"prompt_tokens":4,"total_tokens":6,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0}}}`, "",
		`data: [DONE]`)

	f(Options{ReasoningTokens: 1}, chat, `{"messages":[{"content":"one"}],"max_tokens":3,"temperature":0}`,
		`{"id":"chatcmpl-ID","object":"chat.completion","created":0,"model":"simulated-8b","choices":[{"index":0,`+
			`"message":{"role":"assistant","content":"zero one","reasoning":"zero"},"logprobs":null,"finish_reason":"length","stop_reason":null}],`+
			`"usage":{"prompt_tokens":13,"total_tokens":16,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":1}}}`)

	f(Options{ReasoningTokens: 1}, chat, `{"messages":[{"content":"one"}],"max_tokens":1,"temperature":0,"reasoning_effort":"none"}`,
		`{"id":"chatcmpl-ID","object":"chat.completion","created":0,"model":"simulated-8b","choices":[{"index":0,`+
			`"message":{"role":"assistant","content":"zero"},"logprobs":null,"finish_reason":"length","stop_reason":null}],`+
			`"usage":{"prompt_tokens":13,"total_tokens":14,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":0}}}`)
}

func TestOpenAIRefusals(t *testing.T) {
	f := func(path, request string, status int, kind string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			v := serve(t, Options{ContextLength: 100}, false)
			defer v.stop()
			a := v.post(context.Background(), path, request, 1<<20)
			if a.status != status || !strings.HasPrefix(a.body, `{"error":{"message":"`) || !strings.Contains(a.body, `"type":"`+kind+`"`) {
				t.Errorf("status %d, body %s", a.status, a.body)
			}
		})
	}
	const chat, completions, bad = "/v1/chat/completions", "/v1/completions", "BadRequestError"
	f(chat, `{"model":"other","messages":[{"content":"x"}]}`, 404, "NotFoundError")
	f(chat, `{"messages":[]}`, 400, bad)
	f(chat, `{"messages":`, 400, bad)
	f(chat, `{"messages":[{"content":7}]}`, 400, bad)
	f(chat, `{"messages":[{"content":"x"}],"max_tokens":0}`, 400, bad)
	f(chat, `{"messages":[{"content":"x"}],"max_tokens":2,"min_tokens":3}`, 400, bad)
	f(chat, `{"messages":[{"content":"x"}],"stream_options":{"include_usage":true}}`, 400, bad)
	f(chat, `{"messages":[{"content":"x"}],"max_tokens":88}`, 400, bad) // 13 + 88 > 100
	f(completions, `{"prompt":7}`, 400, bad)
	f(completions, `{"prompt":" "}`, 400, bad)
}

func TestOutputLength(t *testing.T) {
	f := func(o Options, a request, want int, reason finish) {
		t.Helper()
		s := New(o)
		if n, r := s.outputLength(&a); n != want || r != reason {
			t.Errorf("%+v: %d tokens, %s; want %d, %s", a, n, r, want, reason)
		}
	}
	never := Options{ContextLength: 1000}
	f(never, request{maxOutput: 500}, 500, finishLength)
	f(never, request{}, 256, finishStop)
	f(never, request{minOutput: 300}, 300, finishStop)
	f(never, request{ignoreEOS: true}, 1000, finishLength)
}

func TestTemperatureMakesAnswersDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{}, false)
		defer v.stop()
		answers := func(temperature string) int {
			different := map[string]bool{}
			for range 8 {
				a := v.post(context.Background(), "/v1/completions", `{"prompt":"x","max_tokens":3,"temperature":`+temperature+`}`, 1<<20)
				different[regexp.MustCompile(`"text":"[^"]*"`).FindString(a.body)] = true
			}
			return len(different)
		}
		if n := answers("0"); n != 1 {
			t.Errorf("%d different answers at temperature 0", n)
		}
		if n := answers("1"); n < 3 {
			t.Errorf("only %d different answers of 8 at temperature 1", n)
		}
	})
}

func TestQueueFullIs503(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{Slots: 1, QueueLimit: 1, Background: 2, BackgroundOutput: 1000}, false)
		defer v.stop()
		time.Sleep(time.Second)
		a := v.post(context.Background(), "/v1/completions", `{"prompt":"x"}`, 1<<20)
		if a.status != http.StatusServiceUnavailable {
			t.Errorf("status %d: %s", a.status, a.body)
		}
	})
}

func TestOtherPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := serve(t, Options{Model: "m"}, false)
		defer v.stop()
		var models struct {
			Object string
			Data   []struct {
				ID          string
				OwnedBy     string `json:"owned_by"`
				MaxModelLen int    `json:"max_model_len"`
			}
		}
		v.getJSON("/v1/models", &models)
		if len(models.Data) != 1 || models.Data[0].ID != "m" || models.Data[0].OwnedBy != "vllm" || models.Data[0].MaxModelLen != 8192 {
			t.Errorf("%+v", models)
		}
		v.getJSON("/fault/crlf/v1/models", &models)
		var version struct{ Version string }
		v.getJSON("/version", &version)
		if version.Version == "" {
			t.Error("no version")
		}
		for path, want := range map[string]int{
			"/health": 200, "/fault/nonsense/v1/models": 404, "/v1/chat/completions": 405, "/nowhere": 404,
			"/simulator/requests/" + trace: 404,
		} {
			if status, _ := v.get(path); status != want {
				t.Errorf("GET %s: status %d, want %d", path, status, want)
			}
		}
	})
}

// Any body is refused or understood; nothing else.
func FuzzOpenAIRequest(f *testing.F) {
	for _, seed := range []string{
		`{"messages":[{"role":"user","content":"one two"}],"max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}`,
		`{"messages":[{"content":[{"type":"text","text":"x"}]}],"max_completion_tokens":1,"chat_template_kwargs":{"enable_thinking":false}}`,
		`{"prompt":"one","max_tokens":1,"min_tokens":1,"ignore_eos":true,"temperature":0}`,
		`{"prompt":["one"]}`, `{"messages":null}`, `{"max_tokens":-1,"prompt":"x"}`, `null`, `[]`, `{"prompt":"\u0000"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, p := range protocols() {
			a, err := p.Request.parse(body)
			if err != nil {
				if _, ok := errors.AsType[refusal](err); !ok {
					t.Errorf("error %v is no refusal", err)
				}
				continue
			}
			if a.inputs == nil && len(a.prompt) == 0 || a.maxOutput < 0 {
				t.Errorf("took %s as %+v", body, a)
			}
		}
	})
}

package prober

import (
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
)

// The times of a call are counted from the start of the request, by the clock of
// the probe.
func TestCallTimes(t *testing.T) {
	const ms = time.Millisecond
	line := newTimeline()
	line.requestStart = 5 * ms
	event := func(kernel, process time.Duration, arguments bool) {
		line.events = append(line.events, rawEvent{instant: instant{kernel * ms, process * ms}, tool: true, arguments: arguments})
	}
	f := func(c result.Clock, first, complete time.Duration) {
		t.Helper()
		if got, want := line.call(c), (result.Call{FirstArgument: first * ms, Complete: complete * ms}); got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	f(result.ClockKernel, 0, 0)
	event(100, 101, false) // the name
	f(result.ClockKernel, 0, 0)
	event(120, 122, true)
	f(result.ClockKernel, 115, 115) // a call that comes whole
	event(140, 143, true)
	event(180, 184, false) // text after it
	f(result.ClockKernel, 115, 135)
	f(result.ClockProcess, 117, 138)
}

// A protocol without calls or schemas is refused by its name, with what to do.
func TestLacksForm(t *testing.T) {
	f := func(api string, m config.Module, want string) {
		t.Helper()
		err := Suits(api, &m)
		if got := ""; err != nil {
			if got = err.Error(); got != want {
				t.Errorf("%s: %s, want %s", api, got, want)
			}
		} else if want != "" {
			t.Errorf("%s: no error, want %s", api, want)
		}
	}
	calls, structured := config.Module{ToolCall: true}, config.Module{Structured: true}
	f("openai-chat", calls, "")
	f("openai-chat", structured, "")
	f("sglang", structured, "")
	f("", calls, "") // not known yet
	f("openai-completions", calls, "the api openai-completions has no calls of tools: use one of openai-chat, openai-responses, ollama, anthropic, gemini, cohere, bedrock, or leave tool_call out")
	f("triton", structured, "the api triton has no answers by a JSON schema: use one of openai-chat, openai-responses, ollama, ollama-generate, tgi, sglang, llamacpp, anthropic, gemini, cohere, bedrock, or leave structured out")
	f("tei", config.Module{Interference: 8192}, "the api tei embeds or ranks and does not generate: interference has no meaning there; leave it out")
	f("tei", calls, "the api tei embeds or ranks and does not generate: tool_call has no meaning there; leave it out")
	f("rerank", structured, "the api rerank embeds or ranks and does not generate: structured has no meaning there; leave it out")
}

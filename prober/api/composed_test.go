package api

import (
	"testing"
	"time"
)

// TestComposed decodes replies that were composed from the documentation and
// the sources of servers, and counted by hand. Each has what is peculiar to
// its server.
func TestComposed(t *testing.T) {
	const (
		chat = "openai-chat"
		ms   = time.Millisecond
	)
	none := ServerTimes{-1, -1, -1}
	for _, c := range []struct {
		file, api string
		want      reply
	}{
		// A model that reasons unseen: 2 of 66 tokens come.
		{"composed_openai_chat", chat, reply{
			Text: "one two", Tokens: 2, Visible: 2, Finish: "length", Done: true, Usage: Usage{1510, 1408, 66, 64}, Server: none,
		}},
		// Filter results without choices and with a delta that is null.
		{"composed_azure_chat", chat, reply{
			Text: "one two three", Tokens: 1, Visible: 1, Finish: "stop", Done: true, Usage: Usage{12, 0, 3, 0}, Server: none,
		}},
		// Comments; the usage comes with an empty choice.
		{"composed_openrouter_chat", chat, reply{
			Text: "one two", Reasoning: "Hm", Tokens: 3, Visible: 2, Finish: "length", Done: true, Usage: Usage{9, 0, 4, 2}, Server: none,
		}},
		// Usage and times in x_groq, in seconds.
		{"composed_groq_chat", chat, reply{
			Text: "one", Reasoning: "Hm", Tokens: 2, Visible: 1, Finish: "stop", Done: true,
			Usage: Usage{20, Unknown, 3, Unknown}, Server: ServerTimes{18500 * time.Microsecond, 2500 * time.Microsecond, 6 * ms},
		}},
		// Keep-alives, nulls, an own name for cached tokens.
		{"composed_deepseek_chat", chat, reply{
			Text: "one", Reasoning: "Hm", Tokens: 2, Visible: 1, Finish: "stop", Done: true, Usage: Usage{70, 64, 3, 1}, Server: none,
		}},
		// No finish_reason but on one chunk; usage with a choice behind it.
		{"composed_litellm_chat", chat, reply{
			Text: "one two", Reasoning: "Hm", Tokens: 2, Visible: 1, Finish: "stop", Done: true, Usage: Usage{30, 16, 4, Unknown}, Server: none,
		}},
		// A blank behind each event; a token that is an empty string.
		{"composed_trtllm_chat", chat, reply{
			Text: "one two", Tokens: 2, Visible: 2, Counts: []int{1, 2, 4}, Finish: "length", Done: true, Usage: Usage{9, 0, 4, Unknown}, Server: none,
		}},
		// Four tokens in one event; times beside the usage.
		{"composed_vllm_chat", chat, reply{
			Text: "one two three four", Reasoning: "Hm", Tokens: 3, Visible: 2, Counts: []int{1, 5, 6}, Finish: "length", Done: true,
			Usage: Usage{33, 32, 6, Unknown}, Server: ServerTimes{2250 * time.Microsecond, 41500 * time.Microsecond, 100 * ms},
		}},
		// Explicit nulls; reasoning tokens at the top of usage.
		{"composed_sglang_chat", chat, reply{
			Text: "one", Reasoning: "Hm", Tokens: 2, Visible: 1, Finish: "stop", Done: true, Usage: Usage{50, 48, 3, 1}, Server: none,
		}},
		// A special token is the empty last one.
		{"composed_tgi_chat", chat, reply{
			Text: "one two", Tokens: 2, Visible: 2, Finish: "stop", Done: true, Usage: Usage{15, Unknown, 3, Unknown}, Server: none,
		}},
		// An empty delta is no token.
		{"composed_openai_responses", "openai-responses", reply{
			Text: "one two", Reasoning: "Hm", Tokens: 3, Visible: 2, Summaries: 1, Finish: "length", Done: true, Usage: Usage{1100, 1024, 64, 62}, Server: none,
		}},
		// 9 + 256 + 1024 tokens of prompt; a ping; a signature is no token.
		{"composed_anthropic", "anthropic", reply{
			Text: "one two three", Reasoning: "Hm", Tokens: 3, Visible: 2, Summaries: 1, Finish: "length", Done: true, Usage: Usage{1289, 1024, 12, 8}, Server: none,
		}},
		{"composed_anthropic_overloaded", "anthropic", reply{
			Text: "one", Tokens: 1, Visible: 1, Usage: Usage{9, 0, Unknown, Unknown}, Server: none,
			Err: ServerError{Status: 529, Type: "overloaded_error", Message: "Overloaded"},
		}},
		// CRLF, no end marker; output 151 + 382; two parts in one chunk.
		{"composed_gemini", "gemini", reply{
			Text: "one two three four", Reasoning: "Hm", Tokens: 3, Visible: 2, Summaries: 1, Counts: []int{3, 4, 151}, Finish: "length",
			Usage: Usage{20, 16, 533, 382}, Server: none,
		}},
		// The tokens, as fractions, and not what is billed.
		{"composed_cohere", "cohere", reply{
			Text: "one two", Reasoning: "Hm", Tokens: 3, Visible: 2, Finish: "length", Done: true, Usage: Usage{69, Unknown, 5, Unknown}, Server: none,
		}},
		{"composed_tgi_generate_stream", "tgi", reply{
			Text: "Hi there", Tokens: 2, Visible: 2, Counts: upTo(3), Finish: "stop", Done: true,
			Usage: Usage{9, Unknown, 3, Unknown}, Server: none,
		}},
		// The third event has a token and no new text. 4 tokens after the first
		// at 64 a second are 62.5 ms.
		{"composed_sglang_generate", "sglang", reply{
			Text: "Hi there \U0001f642!", Tokens: 3, Visible: 3, Counts: upTo(5, 4), Finish: "length", Done: true,
			Usage: Usage{40, 32, 5, 0}, Server: ServerTimes{62500 * time.Microsecond, 125 * ms, 62500 * time.Microsecond},
		}},
		{"composed_sglang_generate_increments", "sglang", reply{
			Text: "Hi there there there!", Tokens: 4, Visible: 4, Counts: upTo(6, 4, 5), Finish: "stop", Done: true,
			Usage: Usage{40, 0, 6, Unknown}, Server: none,
		}},
		{"composed_triton_vllm", "triton", reply{
			Text: "Hi there \U0001f642", Tokens: 3, Visible: 3, Counts: upTo(5, 2), Finish: "length",
			Usage: Usage{9, Unknown, 5, Unknown}, Server: none,
		}},
		{"composed_triton_trtllm", "triton", reply{
			Text: "Hi there!", Tokens: 3, Visible: 3, Counts: upTo(3),
			Usage: Usage{9, Unknown, 3, Unknown}, Server: ServerTimes{2 * ms, 40 * ms, 40*ms + 2},
		}},
		{"composed_triton_trtllm_whole", "triton", reply{
			Text: "Hi there!", Tokens: 3, Visible: 3, Counts: upTo(1),
			Usage: Usage{9, Unknown, Unknown, Unknown}, Server: none,
		}},
	} {
		t.Run(c.file, func(t *testing.T) { checkGolden(t, c.file, c.api, c.want) })
	}
}

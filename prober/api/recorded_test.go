package api

import "testing"

// TestRecorded decodes replies of hosted services that the test suites of client
// libraries recorded: github.com/vercel/ai (Apache-2.0; packages/*/__fixtures__,
// whose chunks were put into the framing again: xAI, Mistral, Vertex AI, Cohere,
// OpenAI) and github.com/pydantic/pydantic-ai (MIT; tests/models/cassettes:
// Snowflake, Crusoe, Groq). Texts and pieces were counted outside of this program.
func TestRecorded(t *testing.T) {
	const chat, u = "openai-chat", Unknown
	none := ServerTimes{-1, -1, -1}
	for _, c := range []struct {
		file, api string
		want      reply
	}{
		// 12 of prompt, 1 of completion, 290 of reasoning, 303 in total.
		{"recorded_xai_chat", chat, reply{
			Text: "Hello", Reasoning: "First, the user said", Tokens: 6, Visible: 1, Finish: "stop", Done: true,
			Usage: Usage{12, 11, 291, 290}, Server: none,
		}},
		// The content is a list of parts, and a text in the last chunk.
		{"recorded_mistral_chat", chat, reply{
			Text: "2 + 2 = 4", Reasoning: "The user is asking for 2+2. This is basic arithmetic. 2+2=4.",
			Tokens: 3, Visible: 1, Finish: "stop", Done: true, Usage: Usage{10, u, 46, u}, Server: none,
		}},
		// No finish reason, reasoning in its details alone, and reasoning tokens of 0.
		{"recorded_snowflake_chat", chat, reply{
			Text:      "15 \u00d7 27 = **405**\n\nHere's the breakdown:\n- 15 \u00d7 20 = 300\n- 15 \u00d7 7 = 105\n- 300 + 105 = **405**",
			Reasoning: "15 * 27 = 405", Tokens: 12, Visible: 10, Summaries: 2, Done: true, Usage: Usage{45, 0, 73, 0}, Server: none,
		}},
		{"recorded_crusoe_chat", chat, reply{
			Text: "1, 2, 3, 4, 5", Tokens: 13, Visible: 13, Finish: "stop", Done: true, Usage: Usage{46, 0, 14, u}, Server: none,
		}},
		{"recorded_groq_error", chat, reply{
			Reasoning: "We need", Tokens: 2, Usage: noUsage(), Server: none,
			Err: ServerError{
				Status: 400, Type: "invalid_request_error",
				Message: "Tool call validation failed: tool call validation failed: parameters for tool get_something_by_name did not match schema: errors: [missing properties: 'name', additionalProperties 'invalid_param' not allowed]",
			},
		}},
		// The arguments of two calls in pieces; the counts come with the last chunk
		// alone: 23 and 132 of thoughts.
		{"recorded_vertex_arguments", "gemini", reply{
			Tool: "getWeatherBostongetWeatherSan Francisco", Tokens: 4, Visible: 4, Finish: "stop", Usage: Usage{26, u, 155, 132}, Server: none,
		}},
		{"recorded_cohere_reasoning", "cohere", reply{
			Text:      "The answer to 2 + 2 is 4.",
			Reasoning: "The user is asking for the sum of 2 and 2. Since this is a straightforward arithmetic problem, I don't need to use any tools. I can calculate the answer directly.",
			Tokens:    45, Visible: 9, Finish: "stop", Done: true, Usage: Usage{1394, 1360, 54, u}, Server: none,
		}},
		// The only output is a call that comes whole, and has no name.
		{"recorded_openai_local_shell", "openai-responses", reply{
			Tool: `{"type":"exec","command":["ls","-a","~"],"env":{}}`, Tokens: 1, Visible: 1, Finish: "stop", Done: true,
			Usage: Usage{407, 0, 151, 128}, Server: none,
		}},
	} {
		t.Run(c.file, func(t *testing.T) { checkGolden(t, c.file, c.api, c.want) })
	}
}

package api

import (
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// words is what the toy model of the captures says: 43 pieces, the smiley of
// which is two tokens; with the end token the server counts 45.
const words = " zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen" +
	" seventeen eighteen nineteen twenty caf\u00e9\U0001f642 alpha bravo charlie delta echo foxtrot golf hotel india juliett" +
	" kilo lima mike november oscar papa quebec romeo sierra tango"

const someWords = " zero one two three four" // an answer cut at 5 tokens

func readCapture(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// cutter gives a body in pieces of random length.
type cutter struct {
	body []byte
	rand *rand.Rand
}

func (c *cutter) Read(p []byte) (int, error) {
	if len(c.body) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 1+c.rand.IntN(300))], c.body)
	c.body = c.body[n:]
	return n, nil
}

// TestCaptures decodes recorded replies of Ollama and llama.cpp. Pieces were
// counted with grep in the recordings, counts and times are the last ones that
// the server wrote.
func TestCaptures(t *testing.T) {
	const chat, completions, responses, anthropic = "openai-chat", "openai-completions", "openai-responses", "anthropic"
	ms := func(f float64) time.Duration { return time.Duration(f * 1e6) }
	none := ServerTimes{-1, -1, -1}
	for _, c := range []struct {
		file, api string
		want      reply
	}{
		{"ollama_v1_chat_stream_usage", chat, reply{
			Text: words, Tokens: 43, Visible: 43, Finish: "stop", Done: true,
			Usage: Usage{21, Unknown, 45, Unknown}, Server: none,
		}},
		{"ollama_v1_chat_stream_nousage_len", chat, reply{
			Text: someWords, Tokens: 5, Visible: 5, Finish: "length", Done: true, Usage: noUsage(), Server: none,
		}},
		// 11 pieces of reasoning and 43 of the answer, whose first has no space.
		{"ollama_think_v1_chat_stream_usage", chat, reply{
			Reasoning: "thinking tzero tone ttwo tthree tfour tfive tsix tseven teight tnine", Text: words[1:],
			Tokens: 54, Visible: 43, Finish: "stop", Done: true, Usage: Usage{21, Unknown, 59, Unknown}, Server: none,
		}},
		{"ollama_v1_completions_stream", completions, reply{
			Text: words, Tokens: 43, Visible: 43, Finish: "stop", Done: true,
			Usage: Usage{21, Unknown, 45, Unknown}, Server: none,
		}},
		{"llamacpp_v1_chat_stream_usage", chat, reply{
			Text: words, Tokens: 43, Visible: 43, Finish: "stop", Done: true,
			Usage: Usage{20, 0, 45, Unknown}, Server: ServerTimes{-1, ms(59.445), ms(3602.976)},
		}},
		// No usage, but timings: 19 cached and 1 other token of prompt, 5 predicted.
		{"llamacpp_v1_chat_stream_nousage_len", chat, reply{
			Text: someWords, Tokens: 5, Visible: 5, Finish: "length", Done: true,
			Usage: Usage{20, 19, 5, Unknown}, Server: ServerTimes{-1, ms(35.382), ms(123.872)},
		}},
		{"llamacpp_v1_completions_stream", completions, reply{
			Text: words, Tokens: 43, Visible: 43, Finish: "stop", Done: true,
			Usage: Usage{2, 1, 45, Unknown}, Server: ServerTimes{-1, ms(31.628), ms(6342.537)},
		}},
		{"ollama_v1_responses_stream", responses, reply{
			Text: words, Tokens: 43, Visible: 43, Finish: "stop", Done: true, Usage: Usage{21, 0, 45, 0}, Server: none,
		}},
		{"llamacpp_v1_responses_stream", responses, reply{
			Text: " zero one two three four five six seven", Tokens: 8, Visible: 8, Finish: "stop", Done: true,
			Usage: Usage{20, 19, 8, Unknown}, Server: ServerTimes{-1, 5977 * time.Microsecond, 8200 * time.Microsecond},
		}},
		// The prompt is 1 token in message_start, 21 in message_delta.
		{"ollama_v1_messages_stream", anthropic, reply{
			Text: words, Tokens: 43, Visible: 43, Finish: "stop", Done: true, Usage: Usage{21, Unknown, 45, Unknown}, Server: none,
		}},
		// 19 cached tokens and 1 other in message_start, none in message_delta.
		{"llamacpp_v1_messages_stream", anthropic, reply{
			Text: words, Tokens: 43, Visible: 43, Finish: "stop", Done: true, Usage: Usage{20, 19, 45, Unknown}, Server: none,
		}},
		{"ollama_api_chat", "ollama", reply{
			Text: words, Tokens: 43, Visible: 43, Finish: "stop", Done: true,
			Usage: Usage{21, Unknown, 45, Unknown}, Server: ServerTimes{-1, 6356234, 1305632741},
		}},
		{"ollama_think_api_chat", "ollama", reply{
			Reasoning: "thinking tzero tone ttwo tthree tfour tfive tsix tseven teight tnine", Text: words[1:],
			Tokens: 54, Visible: 43, Finish: "stop", Done: true,
			Usage: Usage{21, Unknown, 59, Unknown}, Server: ServerTimes{-1, 181267459, 1457167090},
		}},
		{"ollama_api_generate", "ollama-generate", reply{
			Text: words, Tokens: 43, Visible: 43, Finish: "stop", Done: true,
			Usage: Usage{21, Unknown, 45, Unknown}, Server: ServerTimes{-1, 7527370, 797038016},
		}},
		// Two tokens make the smiley, the last is the end token, and the final
		// event repeats the count.
		{"llamacpp_completion_stream", "llamacpp", reply{
			Text: words, Tokens: 43, Visible: 43, Counts: append(upTo(45, 23), 45), Finish: "stop", Done: true,
			Usage: Usage{2, 0, 45, Unknown}, Server: ServerTimes{-1, ms(346.253), ms(3293.728)},
		}},
	} {
		t.Run(c.file, func(t *testing.T) { checkGolden(t, c.file, c.api, c.want) })
	}
}

// checkGolden decodes a file whole, byte by byte, in random pieces and with
// every end of line.
func checkGolden(t *testing.T, file, api string, want reply) {
	t.Helper()
	body := readCapture(t, file)
	checkReads(t, api, body, want)
	lf := strings.ReplaceAll(string(body), "\r\n", "\n")
	for _, end := range []string{"\n", "\r\n", "\r"} {
		if d := cmp.Diff(want, decodeReply(t, api, strings.NewReader(strings.ReplaceAll(lf, "\n", end)))); d != "" {
			t.Errorf("lines end with %q (-want +got):\n%s", end, d)
		}
	}
}

func TestCapturedErrors(t *testing.T) {
	f := func(file string, status int, want ServerError) {
		t.Helper()
		if d := cmp.Diff(&want, ParseHTTPError(status, readCapture(t, file))); d != "" {
			t.Errorf("%s (-want +got):\n%s", file, d)
		}
	}
	f("llamacpp_err_badjson", 500, ServerError{Status: 500, Type: "server_error", Message: "[json.exception.parse_error.101] parse error at line 1, column 10: syntax error while parsing value - unexpected end of input; expected '[', '{', or a literal"})
	f("llamacpp_err_ctx", 400, ServerError{Status: 400, Type: "exceed_context_size_error", Message: "request (6018 tokens) exceeds the available context size (2048 tokens), try increasing it"})
	f("ollama_err_404_model_api", 404, ServerError{Status: 404, Type: "", Message: "model 'nope' not found"})
	f("ollama_err_404_model_v1", 404, ServerError{Status: 404, Type: "api_error", Message: "model 'nope' not found"})
	f("ollama_err_badjson", 400, ServerError{Status: 400, Type: "invalid_request_error", Message: "unexpected EOF"})
}

func TestCapturedModels(t *testing.T) {
	f := func(file string, want ...ModelInfo) {
		t.Helper()
		got, err := ParseModels(readCapture(t, file))
		if d := cmp.Diff(want, got); d != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", file, err, d)
		}
	}
	f("ollama_v1_models", ModelInfo{ID: "slow:latest", OwnedBy: "library", MaxModelLen: Unknown}, ModelInfo{ID: "think:latest", OwnedBy: "library", MaxModelLen: Unknown}, ModelInfo{ID: "tiny:latest", OwnedBy: "library", MaxModelLen: Unknown})
	f("llamacpp_v1_models", ModelInfo{ID: "gguf/tiny.gguf", OwnedBy: "llamacpp", MaxModelLen: 2048})
}

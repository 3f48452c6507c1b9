package api

import (
	"bytes"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// upTo returns the counts from 1 to n but for those left out.
func upTo(n int, without ...int) []int {
	var counts []int
	for i := range n {
		if len(without) > 0 && i+1 == without[0] {
			without = without[1:]
			continue
		}
		counts = append(counts, i+1)
	}
	return counts
}

// TestNativeStreams decodes replies in the engines' own protocols: recordings
// of Ollama and llama.cpp, counted with grep, and, named composed, what the
// sources of the other servers make them send, counted by hand.
func TestNativeStreams(t *testing.T) {
	none := ServerTimes{-1, -1, -1}
	const ms = time.Millisecond
	for _, c := range []struct {
		file, api string
		want      reply
	}{
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
			Usage: Usage{2, 0, 45, Unknown}, Server: ServerTimes{-1, 346253 * time.Microsecond, 3293728 * time.Microsecond},
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
		t.Run(c.file, func(t *testing.T) {
			body := readCapture(t, c.file)
			check := func(how string, r io.Reader) {
				t.Helper()
				if d := cmp.Diff(c.want, decodeReply(t, c.api, r)); d != "" {
					t.Errorf("%s (-want +got):\n%s", how, d)
				}
			}
			check("whole", bytes.NewReader(body))
			check("byte by byte", iotest.OneByteReader(bytes.NewReader(body)))
			for seed := range uint64(20) {
				check("random pieces", &cutter{body, rand.New(rand.NewPCG(seed, 0))})
			}
			check("CRLF", strings.NewReader(strings.ReplaceAll(string(body), "\n", "\r\n")))
		})
	}
}

func TestNativeModels(t *testing.T) {
	f := func(api, body string, want ...ModelInfo) {
		t.Helper()
		p, _ := Lookup(api)
		got, err := p.Models.Parse([]byte(body))
		if d := cmp.Diff(want, got); d != "" || (err != nil) != (want == nil) || err != nil && !isProtocolError(err) {
			t.Errorf("%s, %s: %v (-want +got):\n%s", api, body, err, d)
		}
	}
	const u = Unknown
	f("ollama", string(readCapture(t, "ollama_api_tags")), ModelInfo{"slow:latest", "", u}, ModelInfo{"think:latest", "", u}, ModelInfo{"tiny:latest", "", u})
	f("ollama-generate", `{"models":[{"name":"m:1b"},{"name":""},{},7]}`, ModelInfo{"m:1b", "", u})
	f("ollama", `{"data":[]}`)
	f("tgi", `{"model_id":"meta-llama/Llama-3.1-8B-Instruct","model_sha":"0e9e39f","max_input_tokens":4095,"max_total_tokens":4096,"router":"text-generation-router"}`,
		ModelInfo{"meta-llama/Llama-3.1-8B-Instruct", "", 4096})
	f("tgi", `{"model_id":"m"}`, ModelInfo{"m", "", u})
	f("tgi", `{"model_id":null}`)
	f("tgi", `{"model_id":"`+strings.Repeat("x", 257)+`"}`)
	f("tgi", "<html>")
	f("tgi", "[]")
	f("llamacpp", string(readCapture(t, "llamacpp_v1_models")), ModelInfo{"gguf/tiny.gguf", "llamacpp", 2048})
	f("sglang", `{"object":"list","data":[{"id":"m","object":"model","owned_by":"sglang","root":"m","max_model_len":8192}]}`, ModelInfo{"m", "sglang", 8192})
	if p, _ := Lookup("triton"); p.Models != nil || p.ModelOptional {
		t.Error("Triton lists models that cannot be asked, so that the model must be configured")
	}
}

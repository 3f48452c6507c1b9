package api

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// fuzzReply decodes a whole body: it must not panic, what comes out must keep
// the bounds, and how the body is cut into reads must not show.
func fuzzReply(f *testing.F, api string, files ...string) {
	p, _ := Lookup(api)
	for _, file := range files {
		body := readCapture(f, file)
		f.Add(body[:min(len(body), 2000)], uint64(1))
		f.Add(body[max(0, len(body)-2000):], uint64(2))
	}
	for _, frame := range []string{
		`{}`, `null`, `[DONE]`, `{"error":"x","error_type":"y"}`, `{"error":{"message":"m","code":500}}`,
		`{"message":{"content":"a","thinking":"b","tool_calls":[{"function":{"name":"f","arguments":{"a":[1]}}}]},"done":true,"done_reason":"load","eval_count":-1}`,
		`{"token":{"text":"a","special":false},"generated_text":"","details":{"finish_reason":"length","generated_tokens":1e9}}`,
		`{"text":"a","meta_info":{"completion_tokens":2,"finish_reason":{"type":"abort"},"queue_time":1e300,"forward_entry_time":1,"prefill_finished_time":1e300,"decode_throughput":1e-300}}`,
		`{"content":"a","stop":true,"stop_type":"eos","tokens_predicted":99999999,"tokens_evaluated":0.5,"timings":{"prompt_ms":-1,"cache_n":1}}`,
		`{"text_output":["a"],"finish_reason":"None","num_output_tokens":100000000,"arrival_time_ns":-9223372036854775808,"first_scheduled_time_ns":9223372036854775807}`,
	} {
		if p.Framing == stream.SSE {
			frame = "data: " + frame + "\n"
		}
		f.Add([]byte(frame+"\n"+frame+"\n"), uint64(3))
	}
	f.Fuzz(func(t *testing.T, body []byte, seed uint64) {
		want := decodeReply(t, api, bytes.NewReader(body))
		for _, r := range []io.Reader{&cutter{body, rand.New(rand.NewPCG(seed, 0))}, &cutter{body, rand.New(rand.NewPCG(seed, 1))}} {
			if d := cmp.Diff(want, decodeReply(t, api, r)); d != "" {
				t.Fatalf("a split changes the reply (-whole +split):\n%s", d)
			}
		}
		var d Delta
		frames, decoder := stream.New(p.Framing, bytes.NewReader(body), stream.DefaultLimits()), p.NewDecoder()
		for {
			frame, err := frames.Next()
			if err != nil {
				return
			}
			given := bytes.Clone(frame.Data)
			checkDelta(t, &d, decoder.Decode(frame.Event, frame.Data, &d))
			if !bytes.Equal(given, frame.Data) {
				t.Fatal("the input was changed")
			}
		}
	})
}

func FuzzOllama(f *testing.F) { fuzzReply(f, "ollama", "ollama_api_chat", "ollama_think_api_chat") }
func FuzzOllamaGenerate(f *testing.F) {
	fuzzReply(f, "ollama-generate", "ollama_api_generate")
}
func FuzzTGI(f *testing.F) { fuzzReply(f, "tgi", "composed_tgi_generate_stream") }
func FuzzSGLang(f *testing.F) {
	fuzzReply(f, "sglang", "composed_sglang_generate", "composed_sglang_generate_increments")
}
func FuzzLlamacpp(f *testing.F) { fuzzReply(f, "llamacpp", "llamacpp_completion_stream") }
func FuzzTriton(f *testing.F) {
	fuzzReply(f, "triton", "composed_triton_vllm", "composed_triton_trtllm", "composed_triton_trtllm_whole")
}

func FuzzGrowingText(f *testing.F) {
	f.Add("Hi there, you all", uint64(7), false)
	f.Add("\n\n\nHa ha ha ha", uint64(1), true)
	f.Fuzz(func(t *testing.T, text string, seed uint64, whole bool) {
		// A text that grows comes out in the pieces that it grew by.
		rng := rand.New(rand.NewPCG(seed, 0))
		g := growingText{whole: true}
		var got string
		for end := 0; end < len(text); {
			end = min(len(text), end+rng.IntN(4))
			got += string(g.next([]byte(text[:end])))
		}
		if got != text {
			t.Fatalf("%q came out as %q", text, got)
		}
		// Pieces come out as they are once one does not fit the one before.
		g = growingText{whole: whole}
		g.next([]byte("x"))
		g.next([]byte("y"))
		if piece := g.next([]byte(text)); string(piece) != text {
			t.Fatalf("the piece %q came out as %q", text, piece)
		}
	})
}

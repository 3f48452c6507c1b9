package api

import (
	"bytes"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// identity is what the frames of a reply report of its model, one after the
// other.
type identity struct{ Models, Fingerprints []string }

func decodeIdentity(t testing.TB, p Protocol, body io.Reader) (got identity) {
	t.Helper()
	var d Delta
	frames, decoder := stream.New(p.Framing, body, stream.DefaultLimits()), p.NewDecoder()
	for {
		f, err := frames.Next()
		if err == io.EOF {
			return got
		}
		if err == nil {
			err = decoder.Decode(f.Event, f.Data, &d)
		}
		if err != nil {
			t.Fatal(err)
		}
		if d.Model != nil {
			got.Models = append(got.Models, string(d.Model))
		}
		if d.Fingerprint != nil {
			got.Fingerprints = append(got.Fingerprints, string(d.Fingerprint))
		}
	}
}

// TestIdentity reads the names in recorded and composed replies, which were
// found in them with grep.
func TestIdentity(t *testing.T) {
	f := func(api, file, model, fingerprint string) {
		t.Helper()
		var want identity
		if model != "" {
			want.Models = []string{model}
		}
		if fingerprint != "" {
			want.Fingerprints = []string{fingerprint}
		}
		p, _ := Lookup(api)
		if d := cmp.Diff(want, decodeIdentity(t, *p, bytes.NewReader(readCapture(t, file)))); d != "" {
			t.Errorf("%s (-want +got):\n%s", file, d)
		}
	}
	const chat = "openai-chat"
	f(chat, "composed_openai_chat", "gpt-5.4-mini", "fp_1")
	f(chat, "composed_azure_chat", "gpt-4o-2024-11-20", "fp_2") // the first chunk has an empty name
	f(chat, "composed_groq_chat", "qwen/qwen3-32b", "fp_3")
	f(chat, "composed_deepseek_chat", "deepseek-reasoner", "fp_4")
	f(chat, "composed_tgi_chat", "m", "3.3.6-native")
	f(chat, "vllm_v1_chat_stream_reasoning", "first", "vllm-0.32.0-ff9c5e0d")
	f(chat, "composed_sglang_chat", "m", "")
	f(chat, "llamacpp_v1_chat_stream_usage", "gguf/tiny.gguf", "b1-de3ff81")
	f(chat, "ollama_v1_chat_stream_usage", "tiny", "fp_ollama")
	f(chat, "recorded_crusoe_chat", "meta-llama/Llama-3.3-70B-Instruct", "vllm-0.24.0-tp4-6d31f84d") // in the last chunk of all
	f("openai-completions", "llamacpp_v1_completions_stream", "gguf/tiny.gguf", "b1-de3ff81")
	f("openai-completions", "ollama_v1_completions_stream", "tiny", "fp_ollama")
	f("openai-responses", "llamacpp_v1_responses_stream", "gguf/tiny.gguf", "")
	f("anthropic", "composed_anthropic", "claude-opus-4-7", "")
	f("anthropic", "llamacpp_v1_messages_stream", "gguf/tiny.gguf", "")
	f("anthropic", "ollama_v1_messages_stream", "tiny", "")
	f("gemini", "composed_gemini", "gemini-2.5-flash", "")
	f("cohere", "composed_cohere", "", "")
	f("ollama", "ollama_think_api_chat", "think", "")
	f("ollama-generate", "ollama_api_generate", "tiny", "")
	f("tgi", "composed_tgi_generate_stream", "", "")
	f("sglang", "composed_sglang_generate", "", "default")
	f("sglang", "composed_sglang_generate_increments", "", "")
	f("llamacpp", "llamacpp_completion_stream", "gguf/tiny.gguf", "") // in the last event
	f("triton", "composed_triton_vllm", "llama", "1")
	f("triton", "composed_triton_trtllm", "ensemble", "1")

	// Responses reports it at both ends.
	p, _ := Lookup("openai-responses")
	want := identity{Models: []string{"gpt-5.4", "gpt-5.4"}}
	if d := cmp.Diff(want, decodeIdentity(t, *p, bytes.NewReader(readCapture(t, "composed_openai_responses")))); d != "" {
		t.Errorf("responses (-want +got):\n%s", d)
	}
}

func TestOddIdentity(t *testing.T) {
	f := func(name, frames string, want identity) {
		t.Helper()
		if d := cmp.Diff(want, decodeIdentity(t, chat(), strings.NewReader(events(frames)))); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	long := strings.Repeat("x", 257)
	f("of other types", `{"model":null,"system_fingerprint":null}`+"\n"+`{"model":7,"system_fingerprint":{}}`+"\n"+`{"model":["m"]}`, identity{})
	f("a name that is too long", `{"model":"`+long+`","system_fingerprint":"`+long+`"}`, identity{})
	f("the longest name", `{"model":"`+long[1:]+`"}`, identity{Models: []string{long[1:]}})
	f("not UTF-8", `{"model":"`+"\xff"+`"}`, identity{})
	f("later", "{}\n"+`{"model":"m","system_fingerprint":"f"}`, identity{[]string{"m"}, []string{"f"}})
	f("the fingerprint later than the model", `{"model":"m"}`+"\n"+`{"model":"m","system_fingerprint":""}`+"\n"+`{"model":"m","system_fingerprint":"f"}`+"\n"+`{"model":"m","system_fingerprint":"g"}`, identity{[]string{"m"}, []string{"f"}})
	f("the fingerprint before the model", `{"model":"","system_fingerprint":"f"}`+"\n"+`{"model":"m","system_fingerprint":"f"}`, identity{[]string{"m"}, []string{"f"}})
	f("with an error", `{"model":"m","error":{"message":"boom"}}`, identity{Models: []string{"m"}})
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

// TestFinishReason maps what servers send: the values of their documentation,
// and those of recorded streams that are spelled otherwise.
func TestFinishReason(t *testing.T) {
	f := func(want string, reasons ...string) {
		t.Helper()
		for _, reason := range reasons {
			if got := finishReason(fastjson.MustParse(reason)); got != want {
				t.Errorf("%s: %q, want %q", reason, got, want)
			}
		}
	}
	for _, s := range FinishReasons() {
		f(s, `"`+s+`"`)
	}
	f("", `""`, "null", "false", "{}", "[]", `"None"`, `"null"`, `"FINISH_REASON_UNSPECIFIED"`)
	f("stop", `"STOP"`, `"eos"`, `"eos_token"`, `"stop_sequence"`, `"STOP_SEQUENCE"`, `"word"`, `"COMPLETE"`, `"end_turn"`)
	f("length", `"MAX_TOKENS"`, `"max_tokens"`, `"limit"`, `"model_length"`, `"model_context_window_exceeded"`, `"max_output_tokens"`)
	f("tool_calls", `"TOOL_CALL"`, `"tool_use"`, `"TOOL_CALLS"`)
	f("content_filter", `"SAFETY"`, `"guardrail_intervened"`, `"refusal"`)
	f("error", `"ERROR"`, `"insufficient_system_resource"`)
	f("other", `"load"`, `"STOP!"`, `"pause_turn"`, "7", "true", `{"type":"stop"}`)
}

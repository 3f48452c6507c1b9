package api

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// BenchmarkNativeChunk runs framing and decoding of an event of each engine's
// own protocol against bare encoding/json of its payload, into what a program
// would declare that reads no more than a probe needs, and prints the ratio.
// An event of SGLang holds the whole text so far, here of 64 tokens.
func BenchmarkNativeChunk(b *testing.B) {
	type counts struct {
		PromptTokens     int     `json:"prompt_tokens"`
		CompletionTokens int     `json:"completion_tokens"`
		CachedTokens     int     `json:"cached_tokens"`
		FinishReason     *string `json:"finish_reason"`
	}
	for _, c := range []struct {
		api, chunk string
		peer       any
	}{
		{"ollama", `{"model":"llama3.1:8b-instruct-q4_K_M","created_at":"2026-11-21T07:39:50.359975778Z","message":{"role":"assistant","content":" token"},"done":false}`, new(struct {
			Message struct{ Content, Thinking string }
			Done    bool
		})},
		{"ollama-generate", `{"model":"llama3.1:8b-instruct-q4_K_M","created_at":"2026-11-21T07:39:50.359975778Z","response":" token","done":false}`, new(struct {
			Response, Thinking string
			Done               bool
		})},
		{"tgi", `{"index":17,"token":{"id":13347,"text":" token","logprob":-0.25634766,"special":false},"generated_text":null,"details":null}`, new(struct {
			Token struct {
				Text    string
				Special bool
			}
			GeneratedText *string `json:"generated_text"`
		})},
		{"sglang", `{"text":"` + strings.Repeat(" token", 64) + `","meta_info":{"id":"5d4ffbb05d4ffbb05d4ffbb05d4ffbb0","finish_reason":null,"prompt_tokens":256,"completion_tokens":64,"cached_tokens":0}}`, new(struct {
			Text     string
			MetaInfo counts `json:"meta_info"`
		})},
		{"llamacpp", `{"index":0,"content":" token","tokens":[13347],"stop":false,"id_slot":-1,"tokens_predicted":17,"tokens_evaluated":256}`, new(struct {
			Content         string
			Stop            bool
			TokensPredicted int `json:"tokens_predicted"`
			TokensEvaluated int `json:"tokens_evaluated"`
		})},
		{"triton", `{"finish_reason":"None","model_name":"llama","model_version":"1","num_input_tokens":256,"num_output_tokens":1,"text_output":" token"}`, new(struct {
			FinishReason    string `json:"finish_reason"`
			TextOutput      string `json:"text_output"`
			NumInputTokens  int    `json:"num_input_tokens"`
			NumOutputTokens int    `json:"num_output_tokens"`
		})},
	} {
		b.Run(c.api, func(b *testing.B) {
			p, _ := Lookup(c.api)
			event := c.chunk + "\n"
			if p.Framing == stream.SSE {
				event = "data: " + event + "\n"
			}
			limits := stream.Limits{Line: 1 << 20, Event: 1 << 20, Body: 1 << 62, Events: 1 << 62}
			frames, decoder := stream.New(p.Framing, repeated(event), limits), p.NewDecoder()
			var d Delta
			step := func() {
				f, err := frames.Next()
				if err == nil {
					err = decoder.Decode(f.Event, f.Data, &d)
				}
				if err != nil || d.Finish != "" {
					b.Fatalf("%+v, %v", d, err)
				}
			}
			step() // the buffers are there from here on
			b.ReportAllocs()
			for b.Loop() {
				step()
			}
			own := b.Elapsed() / time.Duration(b.N)
			start := time.Now()
			for range b.N {
				if err := json.Unmarshal([]byte(c.chunk), c.peer); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(own)/float64(time.Since(start)/time.Duration(b.N)), "of-encoding/json")
		})
	}
}

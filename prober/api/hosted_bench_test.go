package api

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// BenchmarkHostedEvent runs framing and decoding of an event of each hosted
// service's protocol against bare encoding/json of its payload, into what a
// program would declare that reads no more than a probe needs, and prints the
// ratio.
func BenchmarkHostedEvent(b *testing.B) {
	type text struct{ Text, Thinking string }
	for _, c := range []struct {
		api, event, payload string
		peer                any
	}{
		{
			"openai-responses", "event: response.output_text.delta\n",
			`{"type":"response.output_text.delta","sequence_number":17,"item_id":"msg_0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071","output_index":0,"content_index":0,"delta":" token","logprobs":[],"obfuscation":"kT8Zq2xLw0"}`,
			new(struct{ Type, Delta string }),
		},
		{
			"anthropic", "event: content_block_delta\n",
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" token"}}`,
			new(struct {
				Type  string
				Delta text
			}),
		},
		{
			"gemini", "",
			`{"candidates": [{"content": {"parts": [{"text": " token"}],"role": "model"},"index": 0}],"usageMetadata": {"promptTokenCount": 20,"candidatesTokenCount": 3,"totalTokenCount": 23},"modelVersion": "gemini-2.5-flash","responseId": "r1"}`,
			new(struct {
				Candidates []struct {
					Content      struct{ Parts []text }
					FinishReason string
				}
				UsageMetadata struct{ PromptTokenCount, CandidatesTokenCount, ThoughtsTokenCount, CachedContentTokenCount int }
			}),
		},
		{
			"cohere", "event: content-delta\n",
			`{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":" token"}}}}`,
			new(struct {
				Type  string
				Delta struct{ Message struct{ Content text } }
			}),
		},
	} {
		b.Run(c.api, func(b *testing.B) {
			p, _ := Lookup(c.api)
			limits := stream.Limits{Line: 1 << 20, Event: 1 << 20, Body: 1 << 62, Events: 1 << 62}
			frames, decoder := stream.New(p.Framing, repeated(c.event+"data: "+c.payload+"\n\n"), limits), p.NewDecoder()
			var d Delta
			step := func() {
				f, err := frames.Next()
				if err == nil {
					err = decoder.Decode(f.Event, f.Data, &d)
				}
				if err != nil || string(d.Text) != " token" {
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
				if err := json.Unmarshal([]byte(c.payload), c.peer); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(own)/float64(time.Since(start)/time.Duration(b.N)), "of-encoding/json")
		})
	}
}

package api

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/prober/stream"
)

const (
	chatChunk = `{"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1760000000,"model":"meta-llama/Llama-3.1-8B-Instruct",` +
		`"system_fingerprint":"fp_0123456","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}]}`
	completionChunk = `{"id":"cmpl-0123456789abcdef0123","object":"text_completion","created":1760000000,"model":"meta-llama/Llama-3.1-8B-Instruct",` +
		`"system_fingerprint":"fp_0123456789ab","choices":[{"index":0,"text":" token","logprobs":null,"finish_reason":null}],"usage":null}`
)

// jsonChunk is the chunk as a program that reads no more than a probe needs
// would declare it for encoding/json.
type jsonChunk struct {
	ID      string `json:"id"`
	Model   string `json:"model"`
	Choices []struct {
		Index int    `json:"index"`
		Text  string `json:"text"`
		Delta struct {
			Role             string `json:"role"`
			Content          string `json:"content"`
			ReasoningContent string `json:"reasoning_content"`
		} `json:"delta"`
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

// repeated gives one event per Read call for ever.
type repeated []byte

func (r repeated) Read(p []byte) (int, error) { return copy(p, r), nil }

// BenchmarkChunk runs framing and decoding of a 250-byte chunk against bare
// encoding/json of its payload and prints the ratio, the target of which is at
// most 0.7.
func BenchmarkChunk(b *testing.B) {
	for _, c := range []struct {
		api, chunk string
	}{{"openai-chat", chatChunk}, {"openai-completions", completionChunk}} {
		b.Run(c.api, func(b *testing.B) {
			p, _ := Lookup(c.api)
			limits := stream.Limits{Line: 1 << 20, Event: 1 << 20, Body: 1 << 62, Events: 1 << 62}
			var body io.Reader = repeated("data: " + c.chunk + "\n\n")
			frames, decoder := stream.NewSSE(body, limits), p.NewDecoder()
			var d Delta
			step := func() {
				f, err := frames.Next()
				if err == nil {
					err = decoder.Decode(f.Event, f.Data, &d)
				}
				if err != nil || string(d.Text) != " token" {
					b.Fatalf("%q, %v", d.Text, err)
				}
			}
			step() // the buffers are there from here on
			b.ReportAllocs()
			for b.Loop() {
				step()
			}
			own := b.Elapsed() / time.Duration(b.N)
			b.ReportMetric(float64(own)/float64(timeJSON(b, c.chunk, b.N)), "of-encoding/json")
		})
	}
}

// timeJSON returns what encoding/json takes for one chunk.
func timeJSON(b *testing.B, chunk string, n int) time.Duration {
	data := []byte(chunk)
	start := time.Now()
	for range n {
		var v jsonChunk
		if err := json.Unmarshal(data, &v); err != nil || len(v.Choices) != 1 {
			b.Fatal(err)
		}
	}
	return time.Since(start) / time.Duration(n)
}

// BenchmarkReply decodes a whole captured reply with a new reader and decoder,
// as one probe does.
func BenchmarkReply(b *testing.B) {
	body := readCapture(b, "ollama_v1_chat_stream_usage")
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if r := decodeReply(b, "openai-chat", bytes.NewReader(body)); r.Tokens != 43 {
			b.Fatalf("%+v", r)
		}
	}
}

package api

import (
	"bytes"
	"encoding/json"
	"strings"
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

// chunkCase is an event of a protocol, and what a program would declare for
// encoding/json that reads no more of it than a probe needs.
type chunkCase struct {
	api, event, payload string
	adds                string // the text
	peer                func() any
}

// fresh returns where a program decodes one payload.
func fresh[T any]() any { return new(T) }

func chunkCases() []chunkCase {
	const token = " token"
	type text struct{ Text, Thinking string }
	type counts struct {
		PromptTokens     int     `json:"prompt_tokens"`
		CompletionTokens int     `json:"completion_tokens"`
		CachedTokens     int     `json:"cached_tokens"`
		FinishReason     *string `json:"finish_reason"`
	}
	return []chunkCase{
		{"openai-chat", "", chatChunk, token, fresh[jsonChunk]},
		{"openai-completions", "", completionChunk, token, fresh[jsonChunk]},
		{
			"openai-responses", "event: response.output_text.delta\n",
			`{"type":"response.output_text.delta","sequence_number":17,"item_id":"msg_0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f6071","output_index":0,"content_index":0,"delta":" token","logprobs":[],"obfuscation":"kT8Zq2xLw0"}`,
			token, fresh[struct{ Type, Delta string }],
		},
		{
			"anthropic", "event: content_block_delta\n",
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" token"}}`,
			token, fresh[struct {
				Type  string
				Delta text
			}],
		},
		{
			"gemini", "",
			`{"candidates": [{"content": {"parts": [{"text": " token"}],"role": "model"},"index": 0}],"usageMetadata": {"promptTokenCount": 20,"candidatesTokenCount": 3,"totalTokenCount": 23},"modelVersion": "gemini-2.5-flash","responseId": "r1"}`,
			token, fresh[struct {
				Candidates []struct {
					Content      struct{ Parts []text }
					FinishReason string
				}
				UsageMetadata struct{ PromptTokenCount, CandidatesTokenCount, ThoughtsTokenCount, CachedContentTokenCount int }
			}],
		},
		{
			"cohere", "event: content-delta\n",
			`{"type":"content-delta","index":0,"delta":{"message":{"content":{"text":" token"}}}}`,
			token, fresh[struct {
				Type  string
				Delta struct{ Message struct{ Content text } }
			}],
		},
		{
			"ollama", "",
			`{"model":"llama3.1:8b-instruct-q4_K_M","created_at":"2026-11-21T07:39:50.359975778Z","message":{"role":"assistant","content":" token"},"done":false}`,
			token, fresh[struct {
				Message struct{ Content, Thinking string }
				Done    bool
			}],
		},
		{
			"ollama-generate", "",
			`{"model":"llama3.1:8b-instruct-q4_K_M","created_at":"2026-11-21T07:39:50.359975778Z","response":" token","done":false}`,
			token, fresh[struct {
				Response, Thinking string
				Done               bool
			}],
		},
		{
			"tgi", "",
			`{"index":17,"token":{"id":13347,"text":" token","logprob":-0.25634766,"special":false},"generated_text":null,"details":null}`,
			token, fresh[struct {
				Token struct {
					Text    string
					Special bool
				}
				GeneratedText *string `json:"generated_text"`
			}],
		},
		// An event of SGLang holds the whole text so far, here of 64 tokens, and
		// adds nothing to the same one before.
		{
			"sglang", "",
			`{"text":"` + strings.Repeat(" token", 64) + `","meta_info":{"id":"5d4ffbb05d4ffbb05d4ffbb05d4ffbb0","finish_reason":null,"prompt_tokens":256,"completion_tokens":64,"cached_tokens":0}}`,
			"", fresh[struct {
				Text     string
				MetaInfo counts `json:"meta_info"`
			}],
		},
		{
			"llamacpp", "",
			`{"index":0,"content":" token","tokens":[13347],"stop":false,"id_slot":-1,"tokens_predicted":17,"tokens_evaluated":256}`,
			token, fresh[struct {
				Content         string
				Stop            bool
				TokensPredicted int `json:"tokens_predicted"`
				TokensEvaluated int `json:"tokens_evaluated"`
			}],
		},
		{
			"triton", "",
			`{"finish_reason":"None","model_name":"llama","model_version":"1","num_input_tokens":256,"num_output_tokens":1,"text_output":" token"}`,
			token, fresh[struct {
				FinishReason    string `json:"finish_reason"`
				TextOutput      string `json:"text_output"`
				NumInputTokens  int    `json:"num_input_tokens"`
				NumOutputTokens int    `json:"num_output_tokens"`
			}],
		},
	}
}

// BenchmarkChunk runs framing and decoding of one event of each protocol against
// bare encoding/json of its payload and prints the ratio. For the chat chunk of
// 250 bytes the target is at most 0.7.
func BenchmarkChunk(b *testing.B) {
	for _, c := range chunkCases() {
		b.Run(c.api, func(b *testing.B) {
			p, _ := Lookup(c.api)
			body := c.payload + "\n"
			if p.Framing == stream.SSE {
				body = c.event + "data: " + body + "\n"
			}
			limits := stream.Limits{Line: 1 << 20, Event: 1 << 20, Body: 1 << 62, Events: 1 << 62}
			frames, decoder := stream.New(p.Framing, repeated(body), limits), p.NewDecoder()
			var d Delta
			step := func() {
				f, err := frames.Next()
				if err == nil {
					err = decoder.Decode(f.Event, f.Data, &d)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			step() // the buffers are there from here on
			b.ReportAllocs()
			for b.Loop() {
				if step(); string(d.Text) != c.adds || d.Finish != "" {
					b.Fatalf("%+v", d)
				}
			}
			own := b.Elapsed() / time.Duration(b.N)
			b.ReportMetric(float64(own)/float64(timeJSON(b, c.payload, c.peer, b.N)), "of-encoding/json")
		})
	}
}

// timeJSON returns what encoding/json takes for one payload.
func timeJSON(b *testing.B, payload string, peer func() any, n int) time.Duration {
	data := []byte(payload)
	start := time.Now()
	for range n {
		if err := json.Unmarshal(data, peer()); err != nil {
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

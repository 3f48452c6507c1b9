package stream

import "testing"

const (
	// chunk is an event of 265 bytes as chat completions send it.
	chunk = `data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1760000000,"model":"meta-llama/Llama-3.1-8B-Instruct","system_fingerprint":"fp_0123456789","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	// line is an object of 265 bytes, as a native API might send it.
	line = `{"model":"meta-llama/Llama-3.1-8B-Instruct","created_at":"2026-11-21T07:39:50.359975778Z","message":{"role":"assistant","content":" token","thinking":"","padding":"0123456789012345678901234567890123456789012345678901234567890123456789012345"},"done":false,"n":1}` + "\n"
)

// again gives the same bytes from each Read call.
type again string

func (r again) Read(p []byte) (int, error) { return copy(p, r), nil }

// benchmarkFrame frames one event for each Read call.
func benchmarkFrame(b *testing.B, f Framing, event string) {
	limits := DefaultLimits()
	limits.Body, limits.Events = 1<<62, 1<<62
	s := New(f, again(event), limits)
	if _, err := s.Next(); err != nil { // the buffers are there from here on
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(event)))
	for b.Loop() {
		if _, err := s.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSSE(b *testing.B)    { benchmarkFrame(b, SSE, chunk) }
func BenchmarkNDJSON(b *testing.B) { benchmarkFrame(b, NDJSON, line) }
func BenchmarkEventStream(b *testing.B) {
	benchmarkFrame(b, EventStream, plainEvent("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":" token"},"p":"abcdefghijklmnopqrstuvwxyz"}`))
}

package stream

import (
	"io"
	"testing"
)

// chunk is an event of 265 bytes as chat completions send it.
const chunk = `data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1760000000,"model":"meta-llama/Llama-3.1-8B-Instruct","system_fingerprint":"fp_0123456789","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}]}` + "\n\n"

// oneEach gives one event per Read call, n times.
type oneEach struct{ n int }

func (r *oneEach) Read(p []byte) (int, error) {
	if r.n == 0 {
		return 0, io.EOF
	}
	r.n--
	return copy(p, chunk), nil
}

func BenchmarkSSE(b *testing.B) {
	limits := DefaultLimits()
	limits.Body, limits.Events = 1<<62, 1<<62
	s := NewSSE(&oneEach{n: 1 << 62}, limits)
	if _, err := s.Next(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(chunk)))
	for b.Loop() {
		if _, err := s.Next(); err != nil {
			b.Fatal(err)
		}
	}
}

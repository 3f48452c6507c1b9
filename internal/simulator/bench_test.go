//go:build unix

package simulator

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"
)

// BenchmarkServe streams at 50 tokens/s over the loopback, to clients that only
// read, and prints the CPU time of the whole process per token; beside it that
// of bare writes of the same size from one goroutine, which is what the kernel
// and the clients cost, and the ratio of both.
func BenchmarkServe(b *testing.B) {
	sizes := []int{100, 500}
	if testing.Short() {
		sizes = []int{20}
	}
	for _, streams := range sizes {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			const tokens = 100
			var served, bare time.Duration
			for b.Loop() {
				served += benchServed(b, streams, tokens)
				bare += benchBare(b, streams, tokens)
			}
			n := float64(b.N * streams * tokens)
			b.ReportMetric(served.Seconds()*1e6/n, "cpu-µs/token")
			b.ReportMetric(bare.Seconds()*1e6/n, "bare-µs/token")
			b.ReportMetric(served.Seconds()/bare.Seconds(), "ratio")
		})
	}
}

func benchServed(b *testing.B, streams, tokens int) time.Duration {
	b.Helper()
	s := New(Options{Slots: streams, Replicas: 10, DecodeStepPerSequence: -1, PrefillTokensPerSecond: 1e6})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Serve(ctx, l) }()
	body := fmt.Sprintf(chatRequest, tokens)
	request := fmt.Sprintf("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	begin := cpuTime(b)
	var clients sync.WaitGroup
	for range streams {
		clients.Go(func() { readUntil(b, l.Addr().String(), request, "[DONE]") })
	}
	clients.Wait()
	spent := cpuTime(b) - begin
	cancel()
	if err := <-ended; err != nil {
		b.Error(err)
	}
	return spent
}

func benchBare(b *testing.B, streams, tokens int) time.Duration {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	begin := cpuTime(b)
	var clients sync.WaitGroup
	for range streams {
		clients.Go(func() { readUntil(b, l.Addr().String(), "x", "[DONE]") })
	}
	conns := make([]net.Conn, streams)
	for i := range conns {
		if conns[i], err = l.Accept(); err != nil {
			b.Fatal(err)
		}
	}
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	chunk := bytes.Repeat([]byte("x"), 240)
	for i := range tokens {
		<-ticker.C
		for _, c := range conns {
			if i == tokens-1 {
				chunk = []byte("[DONE]")
			}
			if _, err := c.Write(chunk); err != nil {
				b.Fatal(err)
			}
		}
	}
	clients.Wait()
	spent := cpuTime(b) - begin
	for _, c := range conns {
		_ = c.Close()
	}
	return spent
}

// readUntil sends a request and reads until mark ends what was read.
func readUntil(b *testing.B, address, request, mark string) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		b.Error(err)
		return
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Write([]byte(request)); err != nil {
		b.Error(err)
		return
	}
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		if err != nil {
			b.Error(err)
			return
		}
		if bytes.Contains(buf[:n], []byte(mark)) {
			return
		}
	}
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkEvent is the part of a token that is the simulator's own: from the
// event to the framed bytes.
func BenchmarkEvent(b *testing.B) {
	x := &exchange{
		s: New(Options{}), frame: sseFrame("data: ", "\n"), rec: &record{},
		reply: &reply{p: protocolAt("/v1/chat/completions"), ID: trace, Model: jsonText("simulated-8b"), Created: 1795246795, Path: "/v1/chat/completions"},
	}
	x.w, x.fault = discard{}, &Fault{}
	x.flush, x.conn = http.NewResponseController(x.w), &stampedConn{} // which takes the time itself
	var e event
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		e = event{kind: Answer, text: x.appendToken(e.text[:0], i), tokens: 1}
		if err := x.put(&e); err != nil {
			b.Fatal(err)
		}
		if i%1000 == 0 {
			x.rec = &record{}
		}
	}
	b.SetBytes(int64(len(x.framed)))
}

type discard struct{}

func (discard) Header() http.Header         { return http.Header{} }
func (discard) WriteHeader(int)             {}
func (discard) Write(b []byte) (int, error) { return len(b), nil }
func (discard) Flush()                      {}

// BenchmarkStep is the engine alone: one step of a full batch, per token.
func BenchmarkStep(b *testing.B) {
	const slots = 500
	o := Options{Slots: slots, Blocks: 1 << 20, ContextLength: 1 << 24}.withDefaults()
	r := newReplica(&o, 0, nil, new(gate))
	for i := range slots {
		q := newSequence(promptOf(i, 10), 1<<23, finishLength)
		q.hashes = extendHashes(nil, q.tokens, o.BlockSize)
		r.waiting = append(r.waiting, q)
	}
	for len(r.waiting) > 0 {
		r.plan(time.Now())
		r.commit(time.Now())
	}
	b.ReportAllocs()
	b.ResetTimer()
	for i := 0; i < b.N; i += slots {
		now := time.Now()
		r.plan(now)
		r.commit(now)
	}
}

func protocolAt(path string) *protocol {
	for _, p := range protocols() {
		if p.Paths[0] == path {
			return p
		}
	}
	return nil
}

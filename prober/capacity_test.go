package prober

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
	"github.com/inference-exporter/inference_exporter/prober/stream"
)

// A reply of an unusual pace waits while another is decoded; a usual one does
// not.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &capacity{memory: semaphore.NewWeighted(1), decoding: semaphore.NewWeighted(1)}
		read := func(ctx context.Context, size int, pause time.Duration) (*share, *pacedBody, error) {
			s := &share{capacity: c, ctx: ctx}
			b := &pacedBody{r: strings.NewReader(strings.Repeat("x", size)), share: s}
			for p := make([]byte, 4<<10); ; time.Sleep(pause) {
				if _, err := b.Read(p); err != nil {
					return s, b, err
				}
				if s.decoding {
					return s, b, nil
				}
			}
		}
		flood, body, err := read(t.Context(), 1<<20, 0)
		if err != nil || !flood.decoding {
			t.Fatalf("a flood is decoded: %t, %v", flood.decoding, err)
		}
		// 4 KiB each 20 ms is 200 KiB/s.
		if usual, _, err := read(t.Context(), 1<<20, 20*time.Millisecond); err != io.EOF || usual.decoding {
			t.Errorf("a usual reply: %v, waited: %t", err, usual.decoding)
		}
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("its limit"))
		defer cancel()
		if _, _, err := read(ctx, 1<<20, 0); err == nil || err.Error() != "its limit" {
			t.Errorf("a second flood: %v", err)
		}
		_, _ = body.Read(make([]byte, 1)) // rests and goes on
		flood.release()
		if second, _, err := read(t.Context(), 1<<20, 0); err != nil || !second.decoding {
			t.Errorf("after the first flood: %v", err)
		}
	})
}

func TestReserveMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCapacity()
		share := func(k api.Kind) *share { return &share{capacity: c, ctx: t.Context(), kind: k} }
		var all []interface{ release() }
		for range 4 {
			s := share(api.Generation)
			for _, size := range []int{32 << 10, 4 << 20, 64 << 10} { // grows, and asks for less
				if err := s.reserve(size); err != nil {
					t.Fatal(err)
				}
			}
			all = append(all, s)
		}
		late := share(api.Generation)
		var ours errNoMemory
		if err := late.reserve(32 << 10); !errors.As(err, &ours) {
			t.Fatalf("beside four events of 4 MiB, four times each: %v", err)
		}
		time.AfterFunc(memoryPatience/2, all[0].release)
		if err := late.reserve(1 << 20); err != nil {
			t.Fatalf("while another ends: %v", err)
		}
		for _, s := range all[1:] {
			s.release()
		}
		values := []byte(strings.Repeat("[0],", 50_000)) // 100,000 by their brackets and commas, of 160 bytes
		if err := late.parse(values); err != nil || late.parser != 16_000_000 {
			t.Fatalf("%d bytes for the parser: %v", late.parser, err)
		}
		// The vectors of an embedding take no more than their text.
		vectors := share(api.Embedding)
		if err := vectors.parse(values); err != nil || vectors.parser != 0 {
			t.Fatalf("%d bytes for the vectors of an embedding: %v", vectors.parser, err)
		}
		// 4 bytes for each are more than there are for all.
		if err := share(api.Embedding).reserve(replyMemory/4 + 1); !errors.Is(err, stream.ErrTooLarge) {
			t.Fatalf("an event that never fits: %v", err)
		}
	})
}

// The head of a reply is bounded, whatever it is made of, and however it comes.
func TestEndlessHeads(t *testing.T) {
	for name, head := range map[string]string{
		"many headers":  "HTTP/1.1 200 OK\r\n" + strings.Repeat("a:\r\n", 30_000),
		"a long header": "HTTP/1.1 200 OK\r\na: " + strings.Repeat("x", 100_000),
		"early answers": strings.Repeat("HTTP/1.1 103 Early Hints\r\na: b\r\n\r\n", 4_000),
		"long and whole": "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\na: " + strings.Repeat("x", 70_000) +
			"\r\nConnection: close\r\n\r\ndata: [DONE]\n\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				c, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					return
				}
				defer c.Close()
				_, _ = io.WriteString(c, head)
			}))
			t.Cleanup(s.Close)
			r := newProber(t, newEndpoint(t, s.URL), newModule()).one(t.Context(), time.Time{})
			if r.Outcome != result.TooLarge || !strings.Contains(r.Err.Error(), "headers") {
				t.Errorf("outcome %s: %v", r.Outcome, r.Err)
			}
			cfg := newEndpoint(t, s.URL) // questions too
			cfg.API, cfg.Model = "", ""
			if r := newFreshProber(t, cfg, newModule()).one(t.Context(), time.Time{}); r.Outcome != result.TooLarge {
				t.Errorf("when asked what it is: outcome %s: %v", r.Outcome, r.Err)
			}
		})
	}
}

// An event that finds the memory for it taken by other replies is no failure of
// the endpoint; one that finds it free is read.
func TestLongEventsShareMemory(t *testing.T) {
	bubble(t, func(t *testing.T) {
		body := `data: {"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("x", 100<<10) + `"}}]}` + "\n\n" +
			"data: " + stop + "\n\ndata: " + endMarker + "\n\n"
		n := &fakeNet{serve: pages(func(path string) (int, string) {
			if strings.HasSuffix(path, "/models") {
				return http.StatusOK, `{"object":"list","data":[{"id":"m","owned_by":"vllm"}]}`
			}
			return http.StatusOK, body
		})}
		e, m := newDefaultEndpoint(t, n)
		p := newProberOf(t, e, m)
		if r := p.one(t.Context(), time.Time{}); r.Outcome != result.Success {
			t.Fatalf("outcome %s: %v", r.Outcome, r.Err)
		}
		memory := p.endpoint.options.Dialer.capacity.memory
		if !memory.TryAcquire(replyMemory) {
			t.Fatal("the memory was not given back")
		}
		results, why := p.Run(t.Context(), time.Time{})
		if len(results) > 0 || why == nil || why.Reason != result.SkipResources || !strings.Contains(why.Text, "no memory for an event") {
			t.Errorf("%d results, skip %v", len(results), why)
		}
		memory.Release(replyMemory)
		if r := p.one(t.Context(), time.Time{}); r.Outcome != result.Success {
			t.Errorf("afterwards: outcome %s: %v", r.Outcome, r.Err)
		}
	})
}

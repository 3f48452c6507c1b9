package testlab

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/simulator"
)

// patience is how long a witness waits for requests to end before it gives up.
const patience = 30 * time.Second

// Quick is a healthy server that answers a probe within milliseconds.
func Quick() simulator.Options {
	return simulator.Options{DecodeStep: time.Millisecond, PrefillTokensPerSecond: 1e6, Seed: 1}
}

// Brisk is a healthy server: each token takes 5 ms, 1000 tokens of a prompt
// 25 ms.
func Brisk() simulator.Options {
	return simulator.Options{PrefillTokensPerSecond: 40_000, DecodeStep: 5 * time.Millisecond, DecodeStepPerSequence: -1, Seed: 1}
}

// Swift is a server whose answers of some words take no time to speak of.
func Swift() simulator.Options {
	return simulator.Options{PrefillTokensPerSecond: 1e6, DecodeStep: time.Millisecond, DecodeStepPerSequence: -1, Seed: 1}
}

// Serve serves h until the test ends. To be called before start, so that
// its goroutines are not taken for the program's.
func Serve(t *testing.T, h http.Handler) (url string) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// ServeSimulator serves s on a port of its own until the test ends. To be
// called before start, so that its goroutines are not taken for the program's.
func ServeSimulator(t *testing.T, s *simulator.Server) (base string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return "http://" + l.Addr().String(), stop
}

// Witness is a simulated server that knows the requests of probes in the order
// of their arrival.
type Witness struct {
	*simulator.Server
	t   testing.TB
	URL string

	mu  sync.Mutex
	ids []string
}

// NewWitness serves a simulated server until the test ends.
func NewWitness(t *testing.T, o simulator.Options) *Witness {
	t.Helper()
	w := &Witness{Server: simulator.New(o), t: t}
	w.URL = Serve(t, w)
	return w
}

// ServeHTTP passes a request on, and remembers those of probes.
func (w *Witness) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	if parts := strings.Split(r.Header.Get("Traceparent"), "-"); len(parts) == 4 {
		w.mu.Lock()
		w.ids = append(w.ids, parts[1])
		w.mu.Unlock()
	}
	w.Handler().ServeHTTP(rw, r)
}

// Requests is how many requests of probes have arrived.
func (w *Witness) Requests() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.ids)
}

// Records returns the truth about all requests of probes, when all have ended.
func (w *Witness) Records() []simulator.Record {
	w.t.Helper()
	w.mu.Lock()
	ids := slices.Clone(w.ids)
	w.mu.Unlock()
	all := make([]simulator.Record, len(ids))
	for i, id := range ids {
		deadline := time.Now().Add(patience)
		for {
			record, ok := w.Request(id)
			if all[i] = record; ok && record.Complete {
				break
			}
			if time.Now().After(deadline) {
				w.t.Fatalf("request %d of %d has not ended, known: %t", i, len(ids), ok)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return all
}

// Tokens is what the requests of probes took from the server, prompts and answers
// together.
func (w *Witness) Tokens() (sum int) {
	w.t.Helper()
	for _, r := range w.Records() {
		sum += r.PromptTokens + r.OutputTokens
	}
	return sum
}

// Counts serves chat completions whose usage is what count returns for the number
// of words of the prompt.
func Counts(t *testing.T, count func(words int) int) (url string) {
	t.Helper()
	return Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ Messages []struct{ Content string } }
		if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&body) != nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"one\"},\"finish_reason\":\"stop\"}]}\n\n"+
			"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n",
			count(len(strings.Fields(body.Messages[0].Content))))
	}))
}

// Truncating is a server whose model has a context of 4096 tokens, to which it cuts
// longer prompts in silence, as Ollama does. A word is a token.
func Truncating(t *testing.T) (url string) {
	return Counts(t, func(words int) int { return min(words, 4096) })
}

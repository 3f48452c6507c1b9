// Package simulator is a simulated inference server: queueing, continuous batching, chunked prefill, a prefix cache by
// blocks, the wire protocols of real servers, their metrics page, and faults on demand. It keeps the truth of what it
// did, down to the instant before each write, so that a client's measurements can be compared with it.
//
// A request passes three parts that know little of each other: a protocol (faces.go) reads it and writes the reply, an
// engine (engine.go, step.go) decides when each token exists, and an exchange (exchange.go, stream.go) joins
// the two and lets a fault distort the reply.
package simulator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/internal/workload/answers"
)

// Server is a simulated inference server. It has no goroutine while it has no request, apart from those of Serve.
type Server struct {
	o         Options
	software  *software
	metrics   *livePage // nil of an engine without
	gate      gate
	replicas  []*replica
	records   latest[record]
	questions []answers.Question // those that the model may know the answers to; constant
	weights   atomic.Pointer[weights]
	routed    atomic.Uint64 // requests that took their turn
	started   time.Time
	rng       *rand.Rand // safe for concurrent use
}

// New returns a server.
func New(o Options) *Server {
	s := &Server{
		o:         o.withDefaults(),
		questions: answers.Questions(),
		started:   time.Now(),
		rng:       newRand(o.Seed, 0),
	}
	s.SetWeights(s.o.WeightsVersion, s.o.LogprobShift, s.o.Quality)
	if s.software = softwareOf(s.o.Engine); s.software.Live != "" {
		s.metrics = newLivePage(s.software.Live, &s.o, s.o.Replicas, s.pageData)
	}
	for i := range s.o.Replicas {
		s.replicas = append(s.replicas, newReplica(&s.o, i, s.metrics, &s.gate))
	}
	return s
}

// Handler serves the protocols, the engine's own metrics page and the truth:
//
//	GET /simulator/requests/{traceid}  a Record, as JSON
//	GET /simulator/state               a list of State, one per replica
//	POST /simulator/hang?on=true       the engine hangs, until on=false
//	POST /simulator/weights            SetWeights by version=, shift=, quality=
//	/fault/NAME/...                    any path of the server; generation shows the fault
//
// Outside Serve, the instants in a Record are those before a write to the http.ResponseWriter.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	faces := make(map[string]*protocol)
	for _, p := range protocols() {
		for _, path := range p.Paths {
			if p.Engine == s.software.Name || p.Engine == "" && faces[path] == nil {
				faces[path] = p
			}
		}
	}
	for path, p := range faces {
		mux.HandleFunc("POST "+path, s.generate(p, path))
	}
	s.servePages(mux)
	handle(mux, "GET /simulator/requests/{traceid}", func(r *http.Request) (any, error) { return found(s.Request(r.PathValue("traceid"))) })
	handle(mux, "GET /simulator/state", func(*http.Request) (any, error) { return s.State(), nil })
	handle(mux, "POST /simulator/weights", func(r *http.Request) (any, error) { return nil, s.changeWeights(r.URL.Query()) })
	handle(mux, "POST /simulator/hang", func(r *http.Request) (any, error) {
		on, err := strconv.ParseBool(r.URL.Query().Get("on"))
		if err != nil {
			return nil, badRequest("on must be true or false")
		}
		s.Hang(on)
		return nil, nil
	})

	outer := http.NewServeMux()
	outer.Handle("/", mux)
	outer.HandleFunc("/fault/{name}/", func(w http.ResponseWriter, r *http.Request) {
		f, ok := FaultNamed(r.PathValue("name"))
		if !ok {
			http.Error(w, "no such fault", http.StatusNotFound)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), faultKey{}, &f))
		http.StripPrefix("/fault/"+f.Name, mux).ServeHTTP(w, r)
	})
	return outer
}

type faultKey struct{}

// faultOf returns the fault that a request asks for by its path, or one drawn by the options, or one without effect.
func (s *Server) faultOf(r *http.Request) *Fault {
	if f, ok := r.Context().Value(faultKey{}).(*Fault); ok {
		return f
	}
	if len(s.o.Faults) > 0 && s.rng.Float64() < s.o.FaultRatio {
		return &s.o.Faults[s.rng.IntN(len(s.o.Faults))]
	}
	return &Fault{}
}

// Serve answers on l until ctx ends, then resets every connection and returns when all that it started has ended. It
// returns nil after ctx ended. While it runs, the instants in a Record are those just before the write system call.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	var background sync.WaitGroup
	for i := range s.o.Background {
		background.Go(func() { s.keepBusy(ctx, i) })
	}
	defer background.Wait()
	defer cancel()
	return serveUntilDone(ctx, stampedListener{l, ctx}, &http.Server{
		Handler:     s.Handler(),
		IdleTimeout: 5 * time.Second, // as uvicorn, which serves vLLM
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
		ErrorLog: slog.NewLogLogger(s.o.Logger.Handler(), slog.LevelWarn),
	})
}

// serveUntilDone answers on l until ctx ends, and returns when all handlers have ended too.
func serveUntilDone(ctx context.Context, l net.Listener, server *http.Server) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.RWMutex
	next := server.Handler
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		running.RLock()
		defer running.RUnlock()
		if r.Context().Err() != nil {
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
	server.ReadHeaderTimeout = time.Minute
	server.BaseContext = func(net.Listener) context.Context { return ctx }
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	err := server.Serve(l)
	cancel()
	running.Lock() // those that come later see the end of ctx
	defer running.Unlock()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve a simulation: %w", err)
}

// Request returns the truth about the last request with the given W3C trace id (32 lower-case hex digits), of the last
// few thousand. It is known from its arrival on; an event is in the record before a client can have seen it.
func (s *Server) Request(traceID string) (Record, bool) {
	if rec := s.records.find(traceID); rec != nil {
		return rec.snapshot(), true
	}
	return Record{}, false
}

// State returns what each replica holds and has done.
func (s *Server) State() []State {
	return stats.Map(s.replicas, (*replica).state)
}

func found[T any](record T, ok bool) (any, error) {
	if !ok {
		return nil, refusal{status: http.StatusNotFound, message: "no such request"}
	}
	return record, nil
}

// handle answers requests with what f returns in JSON, with no content, or with a refusal in words.
func handle(mux *http.ServeMux, pattern string, f func(r *http.Request) (any, error)) {
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		v, err := f(r)
		if no, ok := errors.AsType[refusal](err); ok {
			http.Error(w, no.message, no.status)
			return
		}
		if v == nil {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v) // the client is gone
	})
}

// lockedSource makes a rand.Rand, which has no other state, safe for concurrent use.
type lockedSource struct {
	mu  sync.Mutex
	pcg *rand.PCG
}

// Uint64 returns the next number.
func (s *lockedSource) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pcg.Uint64()
}

func newRand(seed1, seed2 uint64) *rand.Rand {
	return rand.New(&lockedSource{pcg: rand.NewPCG(seed1, seed2)})
}

func hashText(texts ...string) uint64 {
	h := fnv.New64a()
	for _, t := range texts {
		_, _ = h.Write([]byte(t)) // never fails
		_, _ = h.Write([]byte{0})
	}
	return mix(h.Sum64(), 0)
}

// keepBusy runs one background sequence after another until ctx ends.
func (s *Server) keepBusy(ctx context.Context, index int) {
	rng := rand.New(rand.NewPCG(s.o.Seed, uint64(index)+1))
	r := s.replicas[index%len(s.replicas)]
	for ctx.Err() == nil {
		output := max(1, min(around(rng, s.o.BackgroundOutput), s.o.ContextLength/2))
		q := newSequence(s.backgroundPrompt(rng), output, finishLength)
		q.quiet = true
		if !r.submit(q) { // the queue is full of users
			_ = sleep(ctx, s.o.DecodeStep) // the loop sees the end of ctx
			continue
		}
		select {
		case <-q.ready:
		case <-ctx.Done():
			r.abort(q)
		}
	}
}

// backgroundPrompt is random tokens after a beginning that all share.
func (s *Server) backgroundPrompt(rng *rand.Rand) []token {
	prompt := make([]token, max(1, min(around(rng, s.o.BackgroundInput), s.o.ContextLength/2)))
	for i := range prompt {
		prompt[i] = randomToken | token(i)
		if i >= s.o.BackgroundInput/4 {
			prompt[i] = randomToken | token(rng.Uint64N(1<<40))
		}
	}
	return prompt
}

// around draws evenly from half to one and a half of mean.
func around(rng *rand.Rand, mean int) int { return mean/2 + rng.IntN(mean+1) }

// Options say what server to simulate. The zero value is a healthy one.
//
// On an idle replica a request of P tokens that are not in its prefix cache has its first token FixedDelay + n x
// (P/PrefillTokensPerSecond + DecodeStep) after its arrival, where n is its PrefillNoise, and each further one a
// DecodeStep later. Replica i of N, counted from 0, begins i/N of a DecodeStep later.
type Options struct {
	Model string // the name of the one model served; default "simulated-8b"
	// Engine is the server software to show where nothing is generated, and whose metrics page the server has; one of
	// Engines; default "vllm".
	Engine string
	// Replicas is the number of engines behind the address, each with a step loop and a KV cache of its own; default 1.
	Replicas     int
	Routing      string // how a request finds its replica, one of Routings; default LeastLoaded
	StickyHeader string // the header that Sticky looks at; default "X-Session-Id"
	Slots        int    // how many sequences a replica batches at once; default 32
	QueueLimit   int    // how many requests may wait at a replica; one more is answered 503; 0 is no limit
	// PrefillTokensPerSecond is the speed of a replica on uncached prompt tokens; default 8000. FixedDelay is the time
	// before a request reaches its replica: the network, tokenising. PrefillNoise is the relative standard deviation of the
	// time from entering a batch to the first token: a factor drawn for each request, log-normal with mean 1.
	PrefillTokensPerSecond float64
	FixedDelay             time.Duration
	PrefillNoise           float64
	// LongPrefill is how many tokens of one prompt a step computes at most, as long_prefill_token_threshold of vLLM, so that
	// short prompts pass long ones; default 512, all that a step computes.
	LongPrefill int
	// DecodeStep is how long a step takes that samples one token; default 20ms. DecodeStepPerSequence is added to it
	// for each further sequence that samples a token in it; default 100µs, negative is none.
	DecodeStep, DecodeStepPerSequence time.Duration
	// TokensPerEvent is the mean number of tokens in the events of a stream after the first one, as speculative
	// decoding sends them, 1 to 5; default 1. The pace of the tokens remains what the steps make it.
	TokensPerEvent  float64
	BlockSize       int // the number of tokens in a block of the KV cache; default 16
	Blocks          int // the number of blocks of a replica's KV cache; default 4096
	ContextLength   int // bounds prompt plus output, in tokens; default 8192, at most what the KV cache holds
	ReasoningTokens int // how many of the output tokens of a chat reply are reasoning, before the answer starts
	// WeightsVersion names the weights. Where it is set, it decides the text of greedy answers, the log-probabilities,
	// a part of embeddings and scores, and the system_fingerprint of the OpenAI protocols; without it the model counts,
	// and there is no fingerprint.
	WeightsVersion string
	// Quality is the share of the questions that the model knows the answer to, and of the sampled answers that are
	// right; default 1, negative is none. BadCalls is the share of the calls of functions, and of the answers in JSON,
	// that are not valid. GreedyFlips is the share of the greedy answers, to other prompts than questions, that differ
	// from some token on although nothing changed.
	Quality, BadCalls, GreedyFlips float64
	// LogprobShift is added to the log-probability of each token of a text that is scored, LogprobNoise is the standard
	// deviation of what is drawn for each request and added too; in nats. The mean over a long text is about -2.3
	// without them, and no token gets above 0, so that a shift of 0.4 still holds.
	LogprobShift, LogprobNoise float64
	// QuantizeAfter is the time from the start after which the weights are as if they were quantized, to be seen in the
	// log-probabilities of first tokens, in embeddings and in scores. 0 is never.
	QuantizeAfter time.Duration
	// Background is how many sequences Serve itself keeps running or queued, over all replicas, BackgroundInput and
	// BackgroundOutput their mean lengths in tokens; default 512 and 128. A quarter of each prompt is common to all.
	Background, BackgroundInput, BackgroundOutput int
	// Faults are shown unasked, one drawn evenly for FaultRatio of the generation requests whose path names none.
	Faults     []Fault
	FaultRatio float64
	Seed       uint64       // makes ids, lengths and draws repeatable
	Logger     *slog.Logger // gets one debug line per generation request; default none
}

func (o Options) withDefaults() Options {
	o.Model = cmp.Or(o.Model, "simulated-8b")
	o.Replicas = cmp.Or(o.Replicas, 1)
	o.Routing = cmp.Or(o.Routing, LeastLoaded)
	o.StickyHeader = cmp.Or(o.StickyHeader, "X-Session-Id")
	o.Slots = cmp.Or(o.Slots, 32)
	o.PrefillTokensPerSecond = cmp.Or(o.PrefillTokensPerSecond, 8000)
	o.LongPrefill = cmp.Or(o.LongPrefill, prefillChunk)
	o.DecodeStep = cmp.Or(o.DecodeStep, 20*time.Millisecond)
	o.DecodeStepPerSequence = max(0, cmp.Or(o.DecodeStepPerSequence, 100*time.Microsecond))
	o.TokensPerEvent = min(o.TokensPerEvent, maxTokensPerEvent)
	o.Quality = max(0, cmp.Or(o.Quality, 1))
	o.BlockSize = cmp.Or(o.BlockSize, 16)
	o.Blocks = cmp.Or(o.Blocks, 4096)
	o.ContextLength = min(cmp.Or(o.ContextLength, 8192), o.Blocks*o.BlockSize)
	o.BackgroundInput = cmp.Or(o.BackgroundInput, 512)
	o.BackgroundOutput = cmp.Or(o.BackgroundOutput, 128)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

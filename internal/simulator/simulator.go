// Package simulator is a simulated inference server: queueing, continuous
// batching, chunked prefill, a prefix cache by blocks, the wire protocols of
// real servers, their metrics page, and faults on demand. It keeps the truth of
// what it did, down to the instant before each write, so that a client's
// measurements can be compared with it.
//
// A request passes three parts that know little of each other: a protocol
// (openai.go) reads it and writes the reply, an engine (engine.go, step.go,
// blocks.go) decides when each token exists, and an exchange (exchange.go,
// stream.go) joins the two and lets a fault distort the reply.
package simulator

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Options say what server to simulate. The zero value is a healthy one.
type Options struct {
	// Model is the name of the one model served; default "simulated-8b".
	Model string
	// Engine is the server software to show where nothing is generated, and
	// whose metrics page the server has; one of Engines; default "vllm".
	Engine string
	// Replicas is the number of engines behind the address, each with a step
	// loop of its own; a request goes to the least loaded; default 1.
	Replicas int
	// Slots is how many sequences a replica batches at once; default 32.
	Slots int
	// QueueLimit is how many requests may wait at a replica whose slots are
	// taken; one more is answered 503. 0 is no limit.
	QueueLimit int
	// PrefillTokensPerSecond is the speed of a replica on uncached prompt
	// tokens; default 8000.
	PrefillTokensPerSecond float64
	// DecodeStep is how long a step takes that samples one token; default
	// 20ms.
	DecodeStep time.Duration
	// DecodeStepPerSequence is added to a step for each further sequence that
	// samples a token in it; default 100µs, negative is none.
	DecodeStepPerSequence time.Duration
	// BlockSize is the number of tokens in a block of the KV cache; default 16.
	BlockSize int
	// Blocks is the number of blocks of a replica's KV cache; default 4096.
	Blocks int
	// ContextLength bounds prompt plus output, in tokens; default 8192, at
	// most what the KV cache holds.
	ContextLength int
	// ReasoningTokens is how many of the output tokens of a chat reply are
	// reasoning, before the answer starts.
	ReasoningTokens int
	// StopProbability is the chance after each token that the model ends its
	// answer by itself. At 0 an answer is as long as max_tokens says.
	StopProbability float64
	// Background is how many sequences Serve itself keeps running or queued,
	// over all replicas.
	Background int
	// BackgroundInput and BackgroundOutput are their mean lengths in tokens;
	// default 512 and 128. A quarter of each prompt is common to all.
	BackgroundInput, BackgroundOutput int
	// Faults are what the server shows by itself, one drawn evenly for
	// FaultRatio of the generation requests whose path names none.
	Faults     []Fault
	FaultRatio float64
	// Seed makes ids, lengths and draws repeatable.
	Seed uint64
	// Logger gets one debug line per generation request; default none.
	Logger *slog.Logger
}

func (o Options) withDefaults() Options {
	o.Model = cmp.Or(o.Model, "simulated-8b")
	o.Replicas = cmp.Or(o.Replicas, 1)
	o.Slots = cmp.Or(o.Slots, 32)
	o.PrefillTokensPerSecond = cmp.Or(o.PrefillTokensPerSecond, 8000)
	o.DecodeStep = cmp.Or(o.DecodeStep, 20*time.Millisecond)
	o.DecodeStepPerSequence = max(0, cmp.Or(o.DecodeStepPerSequence, 100*time.Microsecond))
	o.BlockSize = cmp.Or(o.BlockSize, 16)
	o.Blocks = cmp.Or(o.Blocks, 4096)
	o.ContextLength = min(cmp.Or(o.ContextLength, 8192), o.Blocks*o.BlockSize)
	o.BackgroundInput = cmp.Or(o.BackgroundInput, 512)
	o.BackgroundOutput = cmp.Or(o.BackgroundOutput, 128)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Server is a simulated inference server. It has no goroutine while it has no
// request, apart from those of Serve.
type Server struct {
	o        Options
	identity identity
	gate     *gate
	inputs   *inputStats
	replicas []*replica
	records  *recorder
	faults   map[string]*Fault
	words    vocabulary
	started  time.Time
	handler  http.Handler
	// iterationReads counts readings of the JSON statistics of trtllm-serve.
	iterationReads atomic.Uint64

	mu  sync.Mutex
	rng *rand.Rand // guarded by mu
}

// New returns a server.
func New(o Options) *Server {
	s := &Server{
		o:       o.withDefaults(),
		gate:    new(gate),
		inputs:  newInputStats(),
		records: newRecorder(),
		faults:  make(map[string]*Fault),
		words:   newVocabulary(),
		started: time.Now(),
		rng:     rand.New(rand.NewPCG(o.Seed, 0)),
	}
	s.identity = identityOf(s.o.Engine)
	var page *metricsPage // nil is a server without one
	var b bounds
	if s.identity.metrics != nil {
		page = s.identity.metrics(&s.o)
		b = page.bounds
	}
	for i := range s.o.Replicas {
		s.replicas = append(s.replicas, newReplica(&s.o, i, b, s.gate))
	}
	for _, f := range Faults() {
		s.faults[f.Name] = &f
	}
	s.handler = s.routes(page)
	return s
}

// Handler serves the protocols, the engine's own metrics page and the truth:
//
//	GET /simulator/requests/{traceid}  a Record, as JSON
//	GET /simulator/state               a list of State, one per replica
//	POST /simulator/hang?on=true       the engine hangs, until on=false
//	/fault/NAME/...                    any path of the server; generation shows the fault
//
// Outside Serve, the instants in a Record are those before a write to the
// http.ResponseWriter.
func (s *Server) Handler() http.Handler { return s.handler }

func (s *Server) routes(page *metricsPage) http.Handler {
	mux := http.NewServeMux()
	for _, p := range protocols() {
		mux.HandleFunc("POST "+p.path, s.generate(p))
	}
	mux.HandleFunc("GET /v1beta/models", s.geminiModels)
	if page != nil {
		mux.Handle("GET "+page.path, newPageHandler(s, page))
	}
	mux.HandleFunc("GET /simulator/requests/{traceid}", func(w http.ResponseWriter, r *http.Request) {
		record, ok := s.Request(r.PathValue("traceid"))
		if !ok {
			http.NotFound(w, r)
			return
		}
		writeJSON(w, http.StatusOK, record)
	})
	mux.HandleFunc("POST /simulator/hang", s.hangOn)
	mux.HandleFunc("GET /simulator/state", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, s.State())
	})

	face := s.identify(mux)
	outer := http.NewServeMux()
	outer.Handle("/", face)
	outer.HandleFunc("/fault/{name}/", func(w http.ResponseWriter, r *http.Request) {
		f, ok := s.faults[r.PathValue("name")]
		if !ok {
			http.Error(w, "no such fault", http.StatusNotFound)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), faultKey{}, f))
		http.StripPrefix("/fault/"+f.Name, face).ServeHTTP(w, r)
	})
	return outer
}

type faultKey struct{}

// faultOf returns the fault that a request asks for by its path, or one drawn
// by the options, or one that changes nothing.
func (s *Server) faultOf(r *http.Request) *Fault {
	if f, ok := r.Context().Value(faultKey{}).(*Fault); ok {
		return f
	}
	if len(s.o.Faults) > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.rng.Float64() < s.o.FaultRatio {
			return &s.o.Faults[s.rng.IntN(len(s.o.Faults))]
		}
	}
	return &Fault{}
}

// Serve answers on l until ctx ends, then closes every connection and returns
// when all that it started has ended. It returns nil after ctx ended. While it
// runs, the instants in a Record are those just before the write system call.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var handlers inFlight
	server := &http.Server{
		Handler:           handlers.wrap(s.handler),
		ReadHeaderTimeout: time.Minute,
		IdleTimeout:       5 * time.Second, // as uvicorn, which serves vLLM
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
		ErrorLog: slog.NewLogLogger(s.o.Logger.Handler(), slog.LevelWarn),
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()

	var background sync.WaitGroup
	for i := range s.o.Background {
		background.Go(func() { s.keepBusy(ctx, i) })
	}
	err := server.Serve(stampedListener{l})
	cancel()
	handlers.wait()
	background.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("serve simulated server: %w", err)
}

// inFlight counts running handlers; http.Server.Close does not wait for them.
type inFlight struct {
	mu     sync.Mutex
	closed bool
	count  sync.WaitGroup
}

func (f *inFlight) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		if f.closed {
			f.mu.Unlock()
			panic(http.ErrAbortHandler)
		}
		f.count.Add(1)
		f.mu.Unlock()
		defer f.count.Done()
		next.ServeHTTP(w, r)
	})
}

func (f *inFlight) wait() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.count.Wait()
}

// Request returns the truth about the last request with the given W3C trace id
// (32 lower-case hex digits). A request is known from its arrival on; an event
// is in the record before a client can have seen it. The last few thousand
// requests are kept.
func (s *Server) Request(traceID string) (Record, bool) { return s.records.find(traceID) }

// State returns what each replica holds and has done.
func (s *Server) State() []State {
	states := make([]State, len(s.replicas))
	for i, r := range s.replicas {
		states[i] = r.state()
	}
	return states
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client is gone
}

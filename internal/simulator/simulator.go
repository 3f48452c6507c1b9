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
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/check"
)

// Server is a simulated inference server. It has no goroutine while it has no
// request, apart from those of Serve.
type Server struct {
	o        Options
	software *software
	metrics  *livePage // nil of an engine without
	gate     *gate
	replicas []*replica
	records  latest[record]
	// questions are those that the model may know the answers to; constant.
	questions []check.Question
	faults    map[string]*Fault
	words     vocabulary
	weights   atomic.Pointer[weights]
	routed    atomic.Uint64 // requests that took their turn
	started   time.Time
	handler   http.Handler

	mu     sync.Mutex
	rng    *rand.Rand // guarded by mu, as is:
	counts Counts
	conns  map[*stampedConn]bool // those that Serve has open
}

// New returns a server.
func New(o Options) *Server {
	s := &Server{
		o:         o.withDefaults(),
		gate:      new(gate),
		counts:    Counts{Verdicts: make(map[result.Verdict]uint64)},
		questions: check.Questions(),
		faults:    make(map[string]*Fault),
		conns:     make(map[*stampedConn]bool),
		words:     newVocabulary(),
		started:   time.Now(),
		rng:       rand.New(rand.NewPCG(o.Seed, 0)),
	}
	for _, v := range result.Verdicts() {
		s.counts.Verdicts[v] = 0
	}
	s.SetWeights(s.o.WeightsVersion, s.o.LogprobShift, s.o.Quality)
	if s.software = softwareOf(s.o.Engine); s.software.Live != "" {
		s.metrics = newLivePage(s.software.Live, pageData{O: &s.o}, s.o.Replicas, s.pageData)
	}
	for i := range s.o.Replicas {
		s.replicas = append(s.replicas, newReplica(&s.o, i, s.metrics, s.gate))
	}
	for _, f := range Faults() {
		s.faults[f.Name] = &f
	}
	s.handler = s.routes()
	return s
}

// Handler serves the protocols, the engine's own metrics page and the truth:
//
//	GET /simulator/requests/{traceid}  a Record, as JSON
//	GET /simulator/state               a list of State, one per replica
//	GET /simulator/counts              Counts, over all replicas
//	POST /simulator/hang?on=true       the engine hangs, until on=false
//	POST /simulator/weights            SetWeights by version=, shift=, quality=
//	/fault/NAME/...                    any path of the server; generation shows the fault
//
// Outside Serve, the instants in a Record are those before a write to the
// http.ResponseWriter.
func (s *Server) Handler() http.Handler { return s.handler }

func (s *Server) routes() http.Handler {
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
	mux.HandleFunc("GET /v1beta/models", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, jsonMap{"models": []jsonMap{{
			"name": "models/" + s.o.Model, "inputTokenLimit": s.o.ContextLength, "outputTokenLimit": s.o.ContextLength,
			"supportedGenerationMethods": []string{"generateContent"},
		}}})
	})
	if path := s.software.Metrics; path != "" {
		mux.HandleFunc("GET "+path, servePage(s.metricsPage))
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
	mux.HandleFunc("POST /simulator/weights", s.setWeights)
	mux.HandleFunc("GET /simulator/counts", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, s.Counts())
	})
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
	var background sync.WaitGroup
	for i := range s.o.Background {
		background.Go(func() { s.keepBusy(ctx, i) })
	}
	defer background.Wait()
	defer cancel()
	return serveUntilDone(ctx, stampedListener{l}, &http.Server{
		Handler:     s.handler,
		IdleTimeout: 5 * time.Second, // as uvicorn, which serves vLLM
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
		ConnState: s.noteConn,
		ErrorLog:  slog.NewLogLogger(s.o.Logger.Handler(), slog.LevelWarn),
	})
}

// serveUntilDone answers on l until ctx ends, then closes every connection, and returns when
// all handlers have ended, for which http.Server.Close does not wait.
func serveUntilDone(ctx context.Context, l net.Listener, server *http.Server) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
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

// noteConn keeps the open connections, for reset.
func (s *Server) noteConn(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.conns[c.(*stampedConn)] = true
	case http.StateClosed, http.StateHijacked:
		delete(s.conns, c.(*stampedConn))
	}
}

// reset resets all connections.
func (s *Server) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.reset()
	}
}

// Request returns the truth about the last request with the given W3C trace id
// (32 lower-case hex digits). A request is known from its arrival on; an event
// is in the record before a client can have seen it. The last few thousand
// requests are kept.
func (s *Server) Request(traceID string) (Record, bool) {
	if rec := s.records.find(traceID); rec != nil {
		return rec.snapshot(), true
	}
	return Record{}, false
}

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

// The ways by which a request finds its replica.
const (
	// LeastLoaded is to the replica with the fewest requests, of equal ones the
	// first: on an idle server always the first.
	LeastLoaded = "least-loaded"
	// RoundRobin is to each replica in turn.
	RoundRobin = "round-robin"
	// Sticky is by the value of a header: equal values meet at one replica. A
	// request without it takes its turn.
	Sticky = "sticky"
	// Random is to any replica, each as likely as another.
	Random = "random"
	// PrefixAware is to the replica whose cache holds most of the prompt, of equal
	// ones to the least loaded.
	PrefixAware = "prefix-aware"
)

// Routings lists the values of Options.Routing, the default first.
func Routings() []string { return []string{LeastLoaded, RoundRobin, Sticky, Random, PrefixAware} }

// hashText returns a hash of texts in their order.
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
		if !r.submit(q) {
			// The queue is full of users; wait for as long as a step.
			if sleep(ctx, s.o.DecodeStep) != nil {
				return
			}
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

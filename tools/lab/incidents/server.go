package main

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/tools/lab/process"
)

// fault is what is wrong with a server. Its zero value is nothing.
type fault struct {
	gone  bool          // nothing listens any more
	show  string        // what of the simulator's faults requests show
	share float64       // of the requests that show it; 0 is all
	delay time.Duration // until a request is taken up
	model string        // that answers instead

	// Of a server with users: a tenant asks with long prompts; so many more users ask without a pause; a share of
	// the users' requests is answered 500; the engine hangs; its page shows that it sleeps, or that nothing is admitted; so many
	// requests wait in the gateway before it; and it has just started.
	tenant, hangs, asleep, admitsNone bool
	crowded, queued                   int
	refused                           float64
	started                           bool
}

// server is a simulated inference server that fails on demand.
type server struct {
	target
	address string
	http    *http.Server // nil while nothing listens
	next    http.Handler // the simulation
	crowd   *crowd       // nil is no users

	mu     sync.Mutex
	fault  fault
	random *rand.Rand
	places int // of users that come when it is crowded
	asked  int // by probes
}

// startServer starts a server on a free port of the host of the target.
func startServer(t target, seed uint64) (*server, error) {
	address, err := process.FreeAddress(t.host)
	if err != nil {
		return nil, err
	}
	s := &server{target: t, address: address, random: rand.New(rand.NewPCG(1, seed))}
	if t.cluster == "users" {
		s.crowd = newCrowd(s, seed)
		s.next = http.HandlerFunc(s.crowd.serve)
	} else {
		s.next = simulator.New(simulator.Options{Model: t.endpoint, DecodeStep: 5 * time.Millisecond}).Handler()
	}
	return s, s.listen()
}

// shown returns the fault that the server shows.
func (s *server) shown() fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault
}

// takePlace returns the place of a user among those that come when it is crowded.
func (s *server) takePlace() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places++
	return s.places - 1
}

// asks returns how many requests of probes there were.
func (s *server) asks() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *server) listen() error {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", s.address)
	if err != nil {
		return err
	}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func(h *http.Server) { _ = h.Serve(l) }(s.http)
	return nil
}

// set makes the server fail, or well again. One that is gone resets its connections, as a
// process does that is killed.
func (s *server) set(f fault) error {
	s.mu.Lock()
	s.fault = f
	s.mu.Unlock()
	if s.crowd != nil {
		s.crowd.set(f)
	}
	switch {
	case f.gone && s.http != nil:
		err := s.http.Close()
		s.http = nil
		return err
	case !f.gone && s.http == nil:
		return s.listen()
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	f := s.fault
	shows := f.show != "" && (f.share == 0 || s.random.Float64() < f.share)
	s.mu.Unlock()
	if r.Method == http.MethodPost {
		s.mu.Lock()
		s.asked++
		s.mu.Unlock()
		select {
		case <-r.Context().Done():
			return
		case <-time.After(f.delay):
		}
		if shows {
			r.URL.Path = "/fault/" + f.show + r.URL.Path
		}
	}
	if f.model != "" {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		// It takes both names, as servers do that load whatever there is.
		body = bytes.ReplaceAll(body, quoted(f.model), quoted(s.endpoint))
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		w = renamed{w, s.endpoint, f.model}
	}
	s.next.ServeHTTP(w, r)
}

// renamed replaces the name of the model in what is written.
type renamed struct {
	http.ResponseWriter
	from, to string
}

// Write implements io.Writer.
func (w renamed) Write(p []byte) (int, error) {
	if _, err := w.ResponseWriter.Write(bytes.ReplaceAll(p, quoted(w.from), quoted(w.to))); err != nil {
		return 0, err
	}
	return len(p), nil
}

func quoted(name string) []byte { return []byte(`"` + name + `"`) }

// Unwrap is for http.ResponseController.
func (w renamed) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// target is an endpoint as exporters reach it.
type target struct {
	cluster, endpoint, host string
	// from is the one exporter that reaches it here; "" is all of the cluster.
	from string
}

// name is that of the endpoint in its cluster.
func (t target) name() string { return t.cluster + "/" + t.endpoint }

// key tells the servers of an endpoint apart.
func (t target) key() string { return strings.TrimSuffix(t.name()+"@"+t.from, "@") }

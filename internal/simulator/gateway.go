package simulator

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/foreign"
)

// GatewayOptions say what gateway to simulate in front of engines.
type GatewayOptions struct {
	// Limit is how many requests are at the engines at once; others wait in the order of their arrival. 0 is no limit.
	Limit int
	// Routing is how a request finds its engine: Random, which is the default, or PrefixAware, by its first bytes.
	Routing string
	// NetworkDelay is the round trip between the client and the gateway: all of a reply comes later by it. A connection
	// is set up without it, as the kernel does that.
	NetworkDelay time.Duration
	NoticeAfter  time.Duration // after which no more requests are sent to an engine that is down; default 5s
	Seed         uint64        // makes draws repeatable
	Logger       *slog.Logger  // gets one debug line per request that found no engine; default none
}

// Gateway is a simulated gateway: a reverse proxy with a queue of its own in front of engines, with the metrics page of
// the endpoint picker of the Gateway API Inference Extension, and the truth about each request.
type Gateway struct {
	o        GatewayOptions
	replicas []*Replica
	slots    chan struct{}            // holds one of each request at the engines
	proxies  []*httputil.ReverseProxy // to each engine
	client   *http.Transport
	metrics  *livePage
	records  latest[GatewayRecord]
	rng      *rand.Rand // safe for concurrent use
}

// GatewayRecord is the truth about where the time to the first token of a request went.
type GatewayRecord struct {
	Replica int `json:"replica"` // the index of the engine
	// Network is the round trip between client and gateway, Queue the time in the queue of the gateway, EngineQueue
	// that in the queue of the engine, and Prefill from then to its first token. Rest is what the gateway and the
	// engine spent beside these until the engine wrote the first token.
	Network     time.Duration `json:"network"`
	Queue       time.Duration `json:"gateway_queue"`
	EngineQueue time.Duration `json:"engine_queue"`
	Prefill     time.Duration `json:"prefill"`
	Rest        time.Duration `json:"rest"`

	arrival time.Time
	source  *Server // has the engine's part of the truth
}

// NewGateway returns a gateway in front of replicas, which must be served by the caller.
func NewGateway(o GatewayOptions, replicas []*Replica) *Gateway {
	o.Routing = cmp.Or(o.Routing, Random)
	o.NoticeAfter = cmp.Or(o.NoticeAfter, 5*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	g := &Gateway{
		o: o, replicas: replicas, client: &http.Transport{DialContext: foreign.Limits{}.Dial, DisableCompression: true, MaxIdleConnsPerHost: 64},
		rng: newRand(o.Seed, 1), slots: make(chan struct{}, cmp.Or(o.Limit, 1<<30)),
	}
	served := &Options{}
	if len(replicas) > 0 {
		served.Model = replicas[0].o.withDefaults().Model
	}
	g.metrics = newLivePage("pages/gateway.yml", served, 1, func() []pageData { return []pageData{{O: served, Ready: len(g.ready())}} })
	for _, r := range replicas {
		target := &url.URL{Scheme: "http", Host: r.address}
		g.proxies = append(g.proxies, &httputil.ReverseProxy{
			Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
			Transport:     g.client,
			FlushInterval: -1,
			ErrorHandler:  g.fail,
			ErrorLog:      slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
		})
	}
	return g
}

// Close drops the connections to the engines.
func (g *Gateway) Close() { g.client.CloseIdleConnections() }

// Serve answers on l until ctx ends, and returns nil when all that it started has ended.
func (g *Gateway) Serve(ctx context.Context, l net.Listener) error {
	defer g.Close()
	return serveUntilDone(ctx, l, &http.Server{Handler: g.Handler(), ErrorLog: slog.NewLogLogger(g.o.Logger.Handler(), slog.LevelWarn)})
}

// Handler serves what the engines serve, and:
//
//	GET /metrics                         the page of the gateway
//	GET /simulator/requests/{traceid}    a GatewayRecord, as JSON
//	GET /simulator/replicas              the engines: URL and whether each is up
//	POST /simulator/replicas/{index}     up=false drops an engine, up=true starts it again
func (g *Gateway) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /", http.HandlerFunc(g.generate))
	mux.Handle("/", http.HandlerFunc(g.forward))
	mux.HandleFunc("GET /metrics", servePage(g.metrics.text))
	handle(mux, "GET /simulator/requests/{traceid}", func(r *http.Request) (any, error) { return found(g.Request(r.PathValue("traceid"))) })
	handle(mux, "GET /simulator/replicas", func(*http.Request) (any, error) {
		all := []map[string]any{}
		for _, r := range g.replicas {
			up, _ := r.isUp()
			all = append(all, map[string]any{"url": r.URL(), "up": up})
		}
		return all, nil
	})
	handle(mux, "POST /simulator/replicas/{index}", func(r *http.Request) (any, error) {
		return nil, g.drill(r.PathValue("index"), r.URL.Query().Get("up"))
	})
	return mux
}

// drill drops an engine, or starts it again.
func (g *Gateway) drill(replica, up string) error {
	index, err := strconv.Atoi(replica)
	switch {
	case err != nil || index < 0 || index >= len(g.replicas):
		return refusal{status: http.StatusNotFound, message: fmt.Sprintf("no such replica; there are %d, counted from 0", len(g.replicas))}
	case up == "false":
		g.replicas[index].Drop()
	case up != "true":
		return badRequest("up must be true or false")
	default:
		if err := g.replicas[index].Start(); err != nil {
			return refusal{status: http.StatusConflict, message: err.Error()}
		}
	}
	return nil
}

// forward passes a request that generates nothing on to an engine.
func (g *Gateway) forward(w http.ResponseWriter, r *http.Request) {
	index, err := g.pick(nil)
	if err != nil {
		g.fail(w, r, err)
		return
	}
	g.proxies[index].ServeHTTP(w, r)
}

// generate takes a request through the queue to an engine.
func (g *Gateway) generate(w http.ResponseWriter, r *http.Request) {
	if sleep(r.Context(), g.o.NetworkDelay) != nil {
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "read request: "+err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	arrival := time.Now()
	g.count("requests", "", 1)
	g.count("waiting", "", 1)
	outcome := "EvictedContextCancelled"
	select { // those who wait go on in their order
	case g.slots <- struct{}{}:
		outcome = "Dispatched"
		defer func() { <-g.slots }()
	case <-r.Context().Done():
	}
	g.count("waiting", "", -1)
	queue := time.Since(arrival)
	if g.count("queue", outcome, queue.Seconds()); r.Context().Err() != nil {
		return
	}
	index, err := g.pick(body)
	if err != nil {
		g.count("attempts", "failure", 1)
		g.fail(w, r, err)
		return
	}
	g.count("attempts", "success", 1)
	g.records.put(traceID(r.Header.Get("Traceparent")), &GatewayRecord{
		Replica: index, Network: g.o.NetworkDelay, Queue: queue, arrival: arrival, source: g.replicas[index].Server(),
	})
	defer func() { g.count("duration", "", time.Since(arrival).Seconds()) }() // also of a reply that is cut
	g.proxies[index].ServeHTTP(w, r)
}

// count reports an observation to the metrics page.
func (g *Gateway) count(of, what string, v float64) { g.metrics.observe(of, 0, what, v) }

// fail answers a request that no engine answered.
func (g *Gateway) fail(w http.ResponseWriter, r *http.Request, err error) {
	g.o.Logger.Debug("no answer", "path", r.URL.Path, "err", err)
	if r.Context().Err() == nil {
		g.count("errors", "ServiceUnavailable", 1)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write(openaiFailure(refusal{http.StatusServiceUnavailable, "ServiceUnavailableError", "no engine answers"}))
}

// ready returns the engines that requests are sent to: those that are up, or whose end the gateway has not noticed.
func (g *Gateway) ready() []int {
	var all []int
	for i, r := range g.replicas {
		if up, since := r.isUp(); up || time.Since(since) < g.o.NoticeAfter {
			all = append(all, i)
		}
	}
	return all
}

const affinityBytes = 512 // of the beginning of a request, which decide where it goes

// pick returns the engine for a request.
func (g *Gateway) pick(body []byte) (int, error) {
	all := g.ready()
	switch {
	case len(all) == 0:
		return 0, errors.New("no ready replica")
	case g.o.Routing != PrefixAware:
		return all[g.rng.IntN(len(all))], nil
	}
	// By rendezvous hashing, so that the loss of an engine moves only its own requests.
	prefix := string(body[:min(len(body), affinityBytes)])
	weight := func(i int) uint64 { return hashText(prefix, strconv.Itoa(i)) }
	return slices.MaxFunc(all, func(a, b int) int { return cmp.Compare(weight(a), weight(b)) }), nil
}

// Request returns the truth about the last request with the given trace id that has its first token.
func (g *Gateway) Request(traceID string) (GatewayRecord, bool) {
	rec := g.records.find(traceID)
	if rec == nil {
		return GatewayRecord{}, false
	}
	now := *rec
	own, _ := now.source.Request(traceID)
	first := slices.IndexFunc(own.Events, func(e Event) bool { return e.Tokens > 0 })
	if first < 0 || own.Events[first].At.IsZero() {
		return GatewayRecord{}, false
	}
	now.EngineQueue, now.Prefill = own.Queue, own.Prefill
	now.Rest = own.Events[first].At.Sub(now.arrival) - now.Queue - now.EngineQueue - now.Prefill
	return now, true
}

// Replica is a simulated server on an address of its own that can be dropped, as with its machine, and started again.
type Replica struct {
	o       Options
	listen  func(network, address string) (net.Listener, error)
	address string

	mu      sync.Mutex
	server  *Server
	stop    func()    // nil while it is down
	changed time.Time // when it went up or down
}

// NewReplica starts a server on a free port of the loopback, which listen opens. It must be dropped in the end.
func NewReplica(o Options, listen func(network, address string) (net.Listener, error)) (*Replica, error) {
	r := &Replica{o: o, listen: listen, address: "127.0.0.1:0"}
	if err := r.Start(); err != nil {
		return nil, err
	}
	return r, nil
}

// URL is where it is, also while it is down.
func (r *Replica) URL() string { return "http://" + r.address }

// Server returns the server that runs, or ran last.
func (r *Replica) Server() *Server {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.server
}

// isUp reports whether it is up, and since when or since when not.
func (r *Replica) isUp() (bool, time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stop != nil, r.changed
}

// Start starts it again as a new process does: on the same port, with nothing in its caches and counters.
func (r *Replica) Start() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop != nil {
		return errors.New("the replica is up")
	}
	l, err := r.listen("tcp", r.address)
	if err != nil {
		return fmt.Errorf("start a replica: %w", err)
	}
	r.address = l.Addr().String()
	server := New(r.o)
	r.server, r.changed = server, time.Now()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = server.Serve(ctx, l) }) // ends by the context
	r.stop = func() {
		cancel()
		running.Wait()
	}
	return nil
}

// Drop ends it: its connections are reset, what runs and waits is lost, and new connections are refused.
func (r *Replica) Drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop == nil {
		return
	}
	r.stop()
	r.stop, r.changed = nil, time.Now()
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/tools/lab/process"
)

// scenario is a kind of stream. All have 50 tokens a second.
type scenario struct {
	Name string `json:"name"`
	What string `json:"what"`
	// path goes before that of the protocol, and chooses a fault.
	path      string
	reasoning int
	// pause stops all streams for as long, every two seconds.
	pause time.Duration
}

func scenarios() []scenario {
	return []scenario{
		{Name: "plain", What: "one token in each event"},
		{Name: "several", What: "four tokens in each event", path: "/fault/many_tokens_per_event"},
		{Name: "reasoning", What: "the first half of the tokens is reasoning", reasoning: tokens / 2},
		{Name: "role", What: "an event with the role alone, a second before the first token", path: "/fault/early_role"},
		{Name: "pauses", What: "all streams stop for 300 ms every 2 s", pause: 300 * time.Millisecond},
	}
}

// The simulated server of all runs: a first token after 120 ms, then one every 20 ms.
const (
	model      = "simulated-8b"
	tokens     = 64
	fixedDelay = 100 * time.Millisecond
	step       = 20 * time.Millisecond
	recordPath = "/peers/records"
)

// serve runs the simulated server on a free port until ctx ends, and prints its
// address. It is a process of its own, so that its CPU time is not the tool's.
func serve(ctx context.Context, s scenario) error {
	sim := simulator.New(simulator.Options{
		Model: model, Slots: 256, FixedDelay: fixedDelay, DecodeStep: step, DecodeStepPerSequence: -1,
		PrefillTokensPerSecond: 1e6, ReasoningTokens: s.reasoning, Blocks: 1 << 16, ContextLength: 8192,
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if s.pause > 0 {
		go pauses(ctx, sim, s.pause)
	}
	server := &http.Server{Handler: recorded(sim), ReadHeaderTimeout: time.Minute}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	fmt.Println(l.Addr())
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

func pauses(ctx context.Context, sim *simulator.Server, pause time.Duration) {
	for ctx.Err() == nil {
		time.Sleep(2*time.Second - pause)
		sim.Hang(true)
		time.Sleep(pause)
		sim.Hang(false)
	}
}

// recorded gives each request a trace id, as most tools send none, and answers
// recordPath with the truth about all requests since it was last asked.
func recorded(sim *simulator.Server) http.Handler {
	var mu sync.Mutex
	var ids []string
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == recordPath {
			mu.Lock()
			taken := ids
			ids = nil
			mu.Unlock()
			records := make([]simulator.Record, 0, len(taken))
			for _, id := range taken {
				if record, ok := sim.Request(id); ok {
					records = append(records, record)
				}
			}
			_ = json.NewEncoder(w).Encode(records) // the client is this program
			return
		}
		if r.Method == http.MethodPost {
			parts := strings.Split(r.Header.Get("traceparent"), "-")
			if len(parts) != 4 {
				parts = []string{"00", fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()|1), "0000000000000001", "01"}
				r.Header.Set("traceparent", strings.Join(parts, "-"))
			}
			mu.Lock()
			ids = append(ids, parts[1])
			mu.Unlock()
		}
		sim.Handler().ServeHTTP(w, r)
	})
}

// server is a simulated server in a process of its own.
type server struct {
	scenario scenario
	address  string
	*process.Process
}

// startServer starts this program once more as the server of a scenario.
func startServer(ctx context.Context, dir string, s scenario) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p, err := process.Start(context.WithoutCancel(ctx), process.Options{Dir: dir}, self, "-serve", s.Name)
	if err != nil {
		return nil, err
	}
	address, err := p.Find(ctx, regexp.MustCompile(`(?m)^(\S+:\d+)$`))
	if err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	return &server{scenario: s, address: address, Process: p}, nil
}

// url is the base of the protocol's paths.
func (s *server) url() string {
	return (&url.URL{Scheme: "http", Host: s.address, Path: s.scenario.path}).String()
}

// take returns the truth about all requests since the last call.
func (s *server) take(ctx context.Context) ([]simulator.Record, error) {
	var records []simulator.Record
	return records, getJSON(ctx, "http://"+s.address+recordPath, &records)
}

// getJSON decodes the answer at a URL.
func getJSON(ctx context.Context, url string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("get %s: %s", url, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(into)
}

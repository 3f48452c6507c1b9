package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/simulator"
)

// objective is the TTFT that is promised of servers with users, a bound of their histograms.
const objective = 2500 * time.Millisecond

const (
	// usersEvery and tenantEvery are the mean times between two requests of the users, and of the tenant with long
	// prompts, whose prefill is most of what a replica can do. Beside it others ask once in so many times.
	usersEvery, tenantEvery = 2 * time.Second, 3500 * time.Millisecond
	tenantTokens, others    = 2900, 7
	// By these sessions the requests of the tenant are at a replica of their own.
	usersSession, tenantSession = "users", "a"
)

// crowd are the users of a server, who ask it on a way of their own, and what they met.
type crowd struct {
	of     *server
	sim    *simulator.Server
	random *rand.Rand
	asking sync.WaitGroup

	mu      sync.Mutex
	met     []met
	answers map[string]int // all of the server, by class of status
}

// met is what a request of a user met.
type met struct {
	at     time.Time // its end
	ttft   time.Duration
	failed bool
}

func newCrowd(of *server, seed uint64) *crowd {
	return &crowd{of: of, sim: newBusySimulation(of.endpoint), random: rand.New(rand.NewPCG(2, seed)), answers: map[string]int{}}
}

// newBusySimulation returns a server of two replicas, which users and tenant have for themselves.
func newBusySimulation(model string) *simulator.Server {
	return simulator.New(simulator.Options{
		Model: model, Replicas: 2, Routing: simulator.Sticky, Slots: 8, DecodeStep: 20 * time.Millisecond, PrefillTokensPerSecond: 1000,
	})
}

// run has users come until ctx ends.
func (c *crowd) run(ctx context.Context) {
	every := func(mean time.Duration, ask func(fault)) {
		c.asking.Go(func() {
			for sleep(ctx, time.Duration(c.exponential()*float64(mean))) == nil {
				c.asking.Go(func() { ask(c.of.shown()) })
			}
		})
	}
	every(usersEvery, func(f fault) {
		if !f.tenant || c.draw() < 1./others {
			c.ask(ctx, f, usersSession, 100, 16)
		}
	})
	every(tenantEvery, func(f fault) {
		if f.tenant {
			c.ask(ctx, f, tenantSession, tenantTokens, 16)
		}
	})
	for range maxCrowded {
		c.asking.Go(func() { c.wait(ctx) })
	}
}

func (c *crowd) exponential() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.ExpFloat64()
}

// maxCrowded is how many users more there may be.
const maxCrowded = 48

// wait is a user more, who comes when it is crowded and asks without a pause.
func (c *crowd) wait(ctx context.Context) {
	place := c.of.takePlace()
	for sleep(ctx, time.Second) == nil {
		for f := c.of.shown(); place < f.crowded && ctx.Err() == nil; f = c.of.shown() {
			c.ask(ctx, f, usersSession, 100, 100)
		}
	}
}

// ask sends a request on the users' way, and writes down what came of it.
func (c *crowd) ask(ctx context.Context, f fault, session string, input, output int) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	body := fmt.Sprintf(`{"model": %q, "stream": true, "max_tokens": %d, "messages": [{"role": "user", "content": %q}]}`,
		c.of.endpoint, output, fmt.Sprint(c.exponential())+strings.Repeat(" word", input))
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Session-Id", session)
	w := &reply{header: http.Header{}, sent: time.Now(), status: http.StatusOK}
	if c.draw() < f.refused {
		c.count(http.StatusInternalServerError)
		w.status = http.StatusInternalServerError
	} else {
		c.reach(w, r)
	}
	if ctx.Err() != nil && w.first == 0 {
		return // the end of all
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.met = append(c.met, met{at: time.Now(), ttft: w.first, failed: w.status != http.StatusOK})
}

// reach has a request answered, or broken off as a server of net/http does.
func (c *crowd) reach(w *reply, r *http.Request) {
	defer func() {
		switch broken := recover(); broken {
		case nil:
		case http.ErrAbortHandler:
			w.status = http.StatusInternalServerError
		default:
			panic(broken)
		}
	}()
	c.serve(w, r)
}

func (c *crowd) draw() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.Float64()
}

// serve answers a request of a user or of a probe.
func (c *crowd) serve(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/metrics":
		c.page(w, r)
		return
	case "/gateway":
		c.gatewayPage(w)
		return
	}
	if r.Header.Get("X-Session-Id") == "" {
		r.Header.Set("X-Session-Id", usersSession)
	}
	status := &statusWriter{ResponseWriter: w, status: http.StatusOK}
	c.simulation().Handler().ServeHTTP(status, r)
	if r.Method == http.MethodPost {
		c.count(status.status)
	}
}

func (c *crowd) simulation() *simulator.Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sim
}

func (c *crowd) count(status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[fmt.Sprintf("%dxx", status/100)]++
}

// page writes the metrics page of the simulation, with what vLLM counts beside that, and with what the fault shows.
func (c *crowd) page(w http.ResponseWriter, r *http.Request) {
	recorded := &reply{header: http.Header{}, keep: true}
	c.simulation().Handler().ServeHTTP(recorded, r)
	text := recorded.text.String()
	f := c.of.shown()
	switch {
	case f.asleep:
		text += "# TYPE vllm:engine_sleep_state gauge\n"
		for i := range 2 {
			for state, is := range map[string]int{"awake": 0, "weights_offloaded": 1, "discard_all": 0} {
				text += fmt.Sprintf("vllm:engine_sleep_state{engine=\"%d\",model_name=%q,sleep_state=%q} %d\n", i, c.of.endpoint, state, is)
			}
		}
	case f.admitsNone:
		text = running.ReplaceAllString(waiting.ReplaceAllString(text, "${1}5"), "${1}0")
	}
	c.mu.Lock()
	text += "# TYPE http_requests_total counter\n"
	for class, n := range c.answers {
		text += fmt.Sprintf("http_requests_total{handler=\"/v1/chat/completions\",method=\"POST\",status=%q} %d\n", class, n)
	}
	c.mu.Unlock()
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	_, _ = io.WriteString(w, text)
}

// gatewayPage writes the page of llm-d's endpoint picker with flow control, before this server.
func (c *crowd) gatewayPage(w http.ResponseWriter) {
	n := c.of.shown().queued
	saturation := 0.3
	if n > 0 {
		saturation = 1.4
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	_, _ = fmt.Fprintf(w, `# TYPE llm_d_epp_ready_endpoints gauge
llm_d_epp_ready_endpoints{name="pool"} 1
# TYPE llm_d_epp_request_total counter
llm_d_epp_request_total{model_name=%[1]q} 10
# TYPE llm_d_epp_flow_control_queue_size gauge
llm_d_epp_flow_control_queue_size{inference_pool="pool",model_name=%[1]q} %[2]d
# TYPE llm_d_epp_flow_control_pool_saturation gauge
llm_d_epp_flow_control_pool_saturation{inference_pool="pool"} %[3]g
`, c.of.endpoint, n, saturation)
}

var (
	running = regexp.MustCompile(`(?m)^(vllm:num_requests_running\{.*\} ).*$`)
	waiting = regexp.MustCompile(`(?m)^(vllm:num_requests_waiting\{engine="0".*\} |vllm:num_requests_waiting\{.*engine="0"\} ).*$`)
)

// set has the engine hang, or start again, as a fault says.
func (c *crowd) set(f fault) {
	c.simulation().Hang(f.hangs)
	if f.started {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.sim, c.answers = newBusySimulation(c.of.endpoint), map[string]int{}
	}
}

// truth says what users met in a time.
func (c *crowd) truth(from, to time.Time) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var n, late, failed int
	for _, m := range c.met {
		switch {
		case m.at.Before(from) || m.at.After(to):
			continue
		case m.failed:
			failed++
		case m.ttft > objective:
			late++
		}
		n++
	}
	return fmt.Sprintf("%d requests, %d late, %d failed", n, late, failed)
}

// reply is the answer to a user, of which the time of the first byte is noted, or the text kept.
type reply struct {
	header http.Header
	sent   time.Time
	first  time.Duration // until the first event
	status int
	keep   bool
	text   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (r *reply) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *reply) WriteHeader(status int) { r.status = status }

// Write implements http.ResponseWriter.
func (r *reply) Write(p []byte) (int, error) {
	if r.first == 0 && bytes.Contains(p, []byte(`"content":"`)) && !bytes.Contains(p, []byte(`"content":""`)) {
		r.first = time.Since(r.sent)
	}
	if r.keep {
		r.text.Write(p)
	}
	return len(p), nil
}

// Flush implements http.Flusher.
func (r *reply) Flush() {}

// statusWriter notes the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

package fleet

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/foreign"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// scenario is a fault that is injected over the wire, or none.
type scenario struct {
	name string
	want explain.Cause
	// also are causes that the report must name beside it.
	also []explain.Cause
	// endpoint is what the configuration says of the endpoint beside its name and URL.
	endpoint string
	url      string // instead of that of the server
	tls      bool   // with a certificate that nobody trusts
	options  simulator.Options
	before   int                       // probes before the fault; 0 is 12
	inject   func(s *stage)            // the fault
	after    int                       // probes after it; 0 is 6
	others   func(*stage) string       // more endpoints
	gateway  *simulator.GatewayOptions // in front of two servers; nil is none
}

// stage is an endpoint with a server that can be replaced.
type stage struct {
	*lab
	scenario
	server *httptest.Server
	sim    *simulator.Server
	pool   []*simulator.Replica // behind a gateway
	now    atomic.Pointer[http.Handler]
	extra  []*httptest.Server
	load   context.Context
	done   context.CancelFunc
	asking sync.WaitGroup
}

const wireModules = `
global: {interval: 1s, timeout: 4s}
modules:
  interactive:
    input_tokens: 64
    output_tokens: 8
    timeouts: {connect: 1s, headers: 2500ms, first_token: 2500ms, stall: 1s}
    slo: {ttft: 600ms, tpot: 60ms}
  other: {input_tokens: 64, output_tokens: 8}
  watched: {prompt: "How are you?", output_tokens: 8, fingerprint: true}
  expects: {prompt: "How are you?", output_tokens: 8, expect: {matches: "no such text"}}
endpoints:
`

// newStage starts the server of a scenario.
func newStage(t *testing.T, sc scenario) *stage {
	t.Helper()
	s := &stage{scenario: sc}
	o := sc.options
	if o.Seed == 0 {
		o = steady()
	}
	s.sim = simulator.New(o)
	s.serve(s.sim.Handler())
	s.server = testlab.NewServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*s.now.Load()).ServeHTTP(w, r) }))
	s.server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	if sc.tls {
		s.server.StartTLS()
	} else {
		s.server.Start()
	}
	s.load, s.done = context.WithCancel(testlab.Context(t))
	t.Cleanup(func() {
		s.done()
		s.sim.Hang(false)
		s.asking.Wait()
		for _, server := range append(s.extra, s.server) {
			server.CloseClientConnections()
			server.Close()
		}
	})
	s.lab = newLab(t)
	s.Scraping = schedule.New(schedule.Options{})
	url := s.server.URL
	if sc.url != "" {
		url = sc.url
	}
	if sc.gateway != nil {
		s.putBehindGateway(o)
	}
	text := fmt.Sprintf("  - {name: e, url: %q%s}\n", url, s.filled(s.endpoint))
	if sc.others != nil {
		text += sc.others(s)
	}
	if sc.gateway != nil {
		text += fmt.Sprintf("gateways: {g: {urls: [%q], interval: 2s}}\n", s.server.URL)
	}
	if err := s.Apply(planOf(parse(t, wireModules+text))); err != nil {
		t.Fatal(err)
	}
	return s
}

// putBehindGateway serves a gateway in front of two servers of their own.
func (s *stage) putBehindGateway(o simulator.Options) {
	var pages []string
	for range 2 {
		r, err := simulator.NewReplica(o, testlab.Listener(s.t))
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(r.Drop)
		s.pool, pages = append(s.pool, r), append(pages, r.URL()+"/metrics")
	}
	g := simulator.NewGateway(*s.gateway, s.pool)
	s.t.Cleanup(g.Close)
	s.serve(g.Handler())
	if s.endpoint == "" {
		s.endpoint = fmt.Sprintf("servers: {urls: [%s], interval: 2s}", strings.Join(pages, ", "))
	}
	s.endpoint += ", gateway: g"
}

// filled puts the address of the server into a text.
func (s *stage) filled(text string) string {
	if !strings.Contains(text, "servers:") {
		text += ", servers: {interval: 2s}"
	}
	text = strings.Replace(text, "SELF", s.server.URL+"/metrics", 1)
	for strings.Contains(text, "PAGE") {
		text = strings.Replace(text, "PAGE", s.another(simulator.New(testlab.Swift()).Handler())+"/metrics", 1)
	}
	return ", " + strings.TrimPrefix(text, ", ")
}

// serve makes h the server from now on.
func (s *stage) serve(h http.Handler) { s.now.Store(&h) }

// another starts one more server.
func (s *stage) another(h http.Handler) (url string) {
	server := testlab.NewServer(s.t, h)
	server.Start()
	s.extra = append(s.extra, server)
	return server.URL
}

// runs probes all modules n times, one after the other and a second apart, and reads the pages meanwhile and after each
// probe.
func (s *stage) runs(n int) {
	for range n {
		time.Sleep(time.Second)
		for _, g := range s.active.Load().gateways.byName {
			g.read(s.load, schedule.Run{})
		}
		for _, m := range s.active.Load().endpoints {
			for _, t := range m.tasks {
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					t.probe(s.load, schedule.Run{Scheduled: time.Now()})
				}()
				for probing := true; probing; {
					select {
					case <-ended:
						probing = false
					case <-time.After(time.Second):
					}
					m.scrape.read(s.load, schedule.Run{})
				}
			}
		}
	}
}

// play returns what is reported of the endpoint in the end. Between two failures an
// endpoint may be up; then it goes on for a while.
func (s *stage) play() *explain.Report {
	n := s.before
	if n == 0 {
		n = 12
	}
	s.runs(n)
	if s.inject != nil {
		s.inject(s)
	}
	n = s.after
	if n == 0 {
		n = 6
	}
	s.runs(n)
	report, _ := s.Explain("e")
	for range 10 {
		if report.State != string(health.Up) || s.want == explain.Healthy || report.Findings[0].Cause == s.want {
			break
		}
		s.t.Logf("%s: %v; once more", s.name, report.Findings)
		s.runs(1)
		report, _ = s.Explain("e")
	}
	return report
}

// between puts a handler before the server, for what generates.
func (s *stage) between(h func(next http.Handler, w http.ResponseWriter, r *http.Request)) {
	next := *s.now.Load()
	s.serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			next.ServeHTTP(w, r)
			return
		}
		h(next, w, r)
	}))
}

// fault returns what has the server show a fault of the simulator, in turns where there
// are several; "" is none.
func fault(names ...string) func(*stage) {
	return func(s *stage) {
		var n atomic.Int64
		s.between(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			if name := names[int(n.Add(1)-1)%len(names)]; name != "" {
				r = r.Clone(r.Context())
				r.URL.Path, r.URL.RawPath = "/fault/"+name+r.URL.Path, ""
			}
			next.ServeHTTP(w, r)
		})
	}
}

// replaced returns what puts another simulated server in place of the first.
func replaced(o simulator.Options) func(*stage) {
	return func(s *stage) { s.serve(simulator.New(o).Handler()) }
}

// delayed has something between hold requests back.
func delayed(by time.Duration) func(*stage) {
	return func(s *stage) {
		s.between(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(by):
				next.ServeHTTP(w, r)
			case <-r.Context().Done():
			}
		})
	}
}

// asks has clients ask the server for answers of so many tokens, one after the other.
func asks(clients, words, tokens int) func(*stage) {
	return func(s *stage) {
		for c := range clients {
			s.asking.Go(func() {
				for i := 0; s.load.Err() == nil; i++ {
					prompt := strings.Repeat(fmt.Sprintf("words %d %d ", c, i), words/3)
					s.ask(fmt.Sprintf(`{"model": "simulated-8b", "max_tokens": %d, "prompt": %q}`, tokens, prompt))
				}
			})
		}
		time.Sleep(100 * time.Millisecond) // the clients' first requests; what is probed does not depend on it
	}
}

func (s *stage) ask(body string) {
	req, err := http.NewRequestWithContext(s.load, http.MethodPost, s.server.URL+"/v1/completions", strings.NewReader(body))
	if err != nil {
		return
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := foreign.NewClient(foreign.Limits{}).Do(req)
	if err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
}

// both injects two faults.
func both(first, second func(*stage)) func(*stage) {
	return func(s *stage) {
		first(s)
		second(s)
	}
}

// lose drops so many of the servers behind the gateway.
func lose(n int) func(*stage) {
	return func(s *stage) {
		for _, r := range s.pool[:n] {
			r.Drop()
		}
	}
}

// forget has the gateway know no server any more.
func forget(s *stage) { s.serve(simulator.NewGateway(*s.gateway, nil).Handler()) }

// otherFront adds an endpoint at another address of the same gateway, and one elsewhere.
func otherFront(s *stage) string {
	front := s.another(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*s.now.Load()).ServeHTTP(w, r) }))
	other := s.another(simulator.New(testlab.Swift()).Handler())
	return fmt.Sprintf("  - {name: f, url: %q, gateway: g, servers: {find: false}}\n  - {name: h, url: %q}\n", front, other)
}

// loading answers as llama.cpp does while it loads its model.
func loading(s *stage) {
	s.serve(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"error":{"message":"Loading model","type":"unavailable_error","code":503}}`)
	}))
}

func stopped(s *stage) { s.server.CloseClientConnections(); s.server.Close() }

func pageStopped(s *stage) { s.extra[0].Close() }

// hang makes the engine hang while a request runs.
func hang(s *stage) {
	asks(1, 30, 4000)(s)
	s.sim.Hang(true)
}

// steady is a healthy server of 50 tokens/s.
func steady() simulator.Options {
	o := testlab.Swift()
	o.DecodeStep = 20 * time.Millisecond
	return o
}

// like returns a server that differs from the usual one of a scenario.
func like(change func(*simulator.Options)) simulator.Options {
	o := steady()
	change(&o)
	return o
}

// scenarios lists the faults, single and in pairs, and what is none.
func scenarios() []scenario {
	const noPage = "servers: {find: false}"
	const withKey = "http: {authorization: {credentials: sk-test}}"
	slowPrefill := like(func(o *simulator.Options) { o.PrefillTokensPerSecond = 55 })
	slowDecode := like(func(o *simulator.Options) { o.DecodeStep = 120 * time.Millisecond })
	narrow := like(func(o *simulator.Options) { o.Slots, o.DecodeStep = 2, 10*time.Millisecond })
	tight := like(func(o *simulator.Options) {
		o.Slots, o.DecodeStep, o.Blocks, o.ContextLength = 8, 4*time.Millisecond, 48, 700
	})
	version := like(func(o *simulator.Options) { o.WeightsVersion = "v1" })
	newModel := func(s *stage) { s.sim.SetWeights("v2", 0, 1) }
	twoPages := "servers: {urls: [PAGE, PAGE], interval: 2s}"
	prompt := &simulator.GatewayOptions{NoticeAfter: time.Millisecond}
	return []scenario{
		{name: "host name that does not resolve", want: explain.DNS, url: "http://endpoint.invalid:8000", before: 1},
		{name: "certificate of an unknown authority", want: explain.Certificate, tls: true, before: 1},
		{name: "process stopped", want: explain.ProcessGone, inject: stopped},
		{name: "status 401", want: explain.Credentials, endpoint: withKey, inject: fault("status_401")},
		{name: "status 403", want: explain.Credentials, endpoint: withKey, inject: fault("status_403")},
		{name: "status 401, no key configured", want: explain.KeyMissing, inject: fault("status_401")},
		{name: "status 429", want: explain.Quota, inject: fault("status_429")},
		{name: "status 404, model unknown", want: explain.Request, inject: fault("status_404")},
		{name: "status 400", want: explain.Request, inject: fault("status_400")},
		{name: "redirect to another host", want: explain.Request, inject: fault("redirect_other_host")},
		{name: "web page instead of an API, from the beginning", want: explain.Request, inject: fault("html_200"), before: -1},
		{name: "login page in front, after successes", want: explain.GatewayFault, inject: fault("html_200")},
		{name: "status 502, servers up", want: explain.GatewayFault, inject: fault("status_502")},
		{name: "status 504, servers up", want: explain.GatewayFault, inject: fault("status_504")},
		{name: "gateway adds 1.1 s", want: explain.GatewayFault, inject: delayed(1100 * time.Millisecond)},
		{name: "requests do not reach the engine", want: explain.GatewayFault, inject: fault("stall_before_headers"), after: 3},
		{name: "engine hangs with requests running", want: explain.Hung, inject: hang, after: 3},
		{name: "no headers, no server's page", want: explain.Hung, endpoint: noPage, inject: fault("stall_before_headers"), after: 3},
		{name: "silence in mid-stream, no server's page", want: explain.Hung, endpoint: noPage, inject: fault("stall_midstream"), after: 4},
		{name: "status 503", want: explain.QueueFull, inject: fault("status_503")},
		{name: "status 529", want: explain.QueueFull, inject: fault("status_529")},
		{name: "more requests than slots", want: explain.QueueFull, options: narrow, inject: asks(6, 30, 48)},
		{name: "KV cache too small for the load", want: explain.KVCacheFull, options: tight, inject: asks(16, 30, 200)},
		{name: "prompts computed slowly", want: explain.PrefillSlow, inject: replaced(slowPrefill)},
		{name: "tokens generated slowly", want: explain.DecodeSlow, inject: replaced(slowDecode)},
		{name: "stream buffered", want: explain.Buffered, inject: fault("buffered")},
		{name: "one of two servers stopped", want: explain.ReplicaLost, endpoint: twoPages, inject: pageStopped},
		{name: "status 500", want: explain.ServerError, inject: fault("status_500")},
		{name: "status 500 from the beginning, when the server is identified", want: explain.ServerError, inject: fault("status_500"), before: -1},
		{name: "error in mid-stream", want: explain.ServerError, inject: fault("error_event_midstream")},
		{name: "connection closed without a reply", want: explain.ServerError, inject: fault("close_before_headers")},
		{name: "empty answers", want: explain.AnswersBroken, inject: fault("empty_stream")},
		{name: "answers cut", want: explain.AnswersBroken, inject: fault("cut_before_finish")},
		{name: "answers that miss what is expected", want: explain.AnswersBroken, endpoint: "modules: [expects]"},
		{name: "weights replaced", want: explain.ModelChanged, options: version, endpoint: "modules: [watched]", before: 22, inject: newModel},
		{name: "budget used up", want: explain.ProbesThrottled, endpoint: "budget: {tokens_per_hour: 400}", before: 8, inject: untilStale},

		{
			name: "half of the probes: status 500; the others buffered", want: explain.ServerError, also: []explain.Cause{explain.Buffered},
			inject: fault("buffered", "status_500"), after: 12,
		},
		{
			name: "one of two servers stopped; the other has more requests than slots", want: explain.ReplicaLost, also: []explain.Cause{explain.QueueFull},
			options: narrow, endpoint: "servers: {urls: [SELF, PAGE], interval: 2s}", inject: both(pageStopped, asks(6, 30, 48)),
		},
		{
			name: "gateway adds 1.1 s; tokens generated slowly", want: explain.GatewayFault, also: []explain.Cause{explain.DecodeSlow},
			inject: both(replaced(slowDecode), delayed(800*time.Millisecond)),
		},
		{
			name: "weights replaced; then the process stopped", want: explain.ProcessGone, options: version, endpoint: "modules: [watched]", before: 22,
			inject: func(s *stage) { newModel(s); s.runs(4); stopped(s) },
		},
		{name: "key refused; and tokens generated slowly", want: explain.Credentials, endpoint: withKey, inject: both(replaced(slowDecode), fault("status_401"))},
		{
			name: "gateway of two endpoints: status 502; a third is well", want: explain.SharedCause, also: []explain.Cause{explain.GatewayFault},
			inject: fault("status_502"), others: behindTheSame,
		},
		{name: "status 503: Loading model", want: explain.Loading, inject: loading},

		{name: "gateway stopped, servers up", want: explain.GatewayLost, gateway: prompt, inject: stopped},
		{name: "gateway with no ready backend, servers up", want: explain.GatewayBackends, gateway: prompt, inject: forget},
		{name: "gateway with no ready backend, both servers stopped", want: explain.ProcessGone, also: []explain.Cause{explain.GatewayBackends}, gateway: prompt, inject: lose(2)},
		{
			name: "gateway with one of two backends, which has more requests than slots; no server's page", want: explain.GatewayBackends,
			gateway: prompt, endpoint: noPage, options: narrow, inject: both(lose(1), asks(6, 30, 48)),
		},
		{name: "more requests than the gateway passes on", want: explain.GatewayQueue, gateway: &simulator.GatewayOptions{Limit: 2}, inject: asks(5, 30, 36)},
		{
			name: "gateway of two addresses stopped; a third endpoint is well", want: explain.SharedCause, also: []explain.Cause{explain.GatewayLost},
			gateway: prompt, inject: both(stopped, pageStopped), others: otherFront,
		},

		{name: "nothing", want: explain.Healthy},
		{name: "nothing, behind a gateway", want: explain.Healthy, gateway: prompt},
		{name: "nothing, no server's page", want: explain.Healthy, endpoint: noPage},
		{name: "nothing, a load within the objectives", want: explain.Healthy, inject: asks(3, 30, 60)},
		{name: "nothing, after an outage", want: explain.Healthy, inject: recovered, after: 24},
		{name: "a quarter each: status 401, empty answers, status 404, status 500", want: explain.Unknown, inject: fault("status_401", "empty_stream", "status_404", "status_500"), after: 12},
		{name: "first tokens late, no server's page", want: explain.Unknown, endpoint: noPage, inject: delayed(1100 * time.Millisecond)},
	}
}

// behindTheSame adds an endpoint at the same address, and one at another.
func behindTheSame(s *stage) string {
	other := s.another(simulator.New(testlab.Swift()).Handler())
	return fmt.Sprintf("  - {name: f, url: %q}\n  - {name: g, url: %q}\n", s.server.URL+"/v1", other)
}

// untilStale waits until the last result is too old.
func untilStale(s *stage) {
	for range 100 {
		if r, _ := s.Explain("e"); r.State == string(health.Stale) {
			return
		}
		time.Sleep(100 * time.Millisecond)
		s.runs(1)
	}
}

// recovered is an outage that is over.
func recovered(s *stage) {
	before := *s.now.Load()
	fault("status_500")(s)
	s.runs(4)
	s.serve(before)
}

var update = flag.Bool("update", false, "rewrite the table in docs/explain.md")

// TestFaultsAreExplained injects each fault into a server of its own.
func TestFaultsAreExplained(t *testing.T) {
	for _, sc := range scenarios() {
		t.Run(sc.name, func(t *testing.T) {
			testlab.Virtual(t, func(t *testing.T) {
				report := newStage(t, sc).play()
				got := causesOf(report)
				if got[0] != sc.want {
					t.Errorf("got %+v, want %s", report, sc.want)
				}
				for _, also := range sc.also {
					if !slices.Contains(got, also) {
						t.Errorf("%s is missing: %+v", also, report)
					}
				}
			})
		})
	}
}

// TestFaultsAreDocumented holds the table in docs/explain.md to the faults that are tested.
func TestFaultsAreDocumented(t *testing.T) {
	var b strings.Builder
	b.WriteString("| over the wire | first | also |\n| --- | --- | --- |\n")
	for _, sc := range scenarios() {
		var also []string
		for _, cause := range sc.also {
			also = append(also, "`"+string(cause)+"`")
		}
		fmt.Fprintf(&b, "| %s | `%s` | %s |\n", sc.name, sc.want, strings.Join(also, ", "))
	}
	testlab.Section(t, "../../docs/explain.md", "wire", b.String(), *update)
}

func causesOf(r *explain.Report) []explain.Cause {
	var all []explain.Cause
	for _, f := range r.Findings {
		all = append(all, f.Cause)
	}
	return all
}

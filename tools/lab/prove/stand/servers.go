package stand

import (
	"context"
	"fmt"
	"net"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/simulator"
)

// Main is the endpoint of the stand that has everything: TLS, objectives,
// servers, GPUs, some failures.
const Main = "main"

// configHead probes often, for a stand has minutes. The bound of a 99th
// percentile needs 299 probes: one module comes to those in a minute, or in three
// on a busy machine.
const configHead = `
global: {interval: 1s, timeout: 5s, budget: {tokens_per_hour: 1000000000, usd_per_day: 10000}}
tracing: {otlp_endpoint: "http://127.0.0.1:1"} # nobody takes the spans
modules:
  interactive: {input_tokens: 128, output_tokens: 8, timeouts: {stall: 1s}}
  warm: {input_tokens: 512, output_tokens: 8, prefix: warm, timeouts: {stall: 1s}}
  quick: {interval: 200ms, input_tokens: 16, output_tokens: 2}
  ladder: {input_tokens: [64, 512], output_tokens: 2}
  same: {interval: 200ms, prompt: Say something., output_tokens: 8, fingerprint: true}
  users: {interval: 5s, input_tokens: 16, output_tokens: 2, concurrency: [4], arrivals: {process: poisson, rate: 20}}
endpoints:
`

// servers are the simulated servers of a stand.
type servers struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup
	tls    *httptest.Server
}

// simulated is a simulated server, and the endpoint that it is.
type simulated struct {
	name    string
	keys    string // of its configuration
	options simulator.Options
}

// simulatedServers returns those beside Main: two models with it, several
// engines, and one that fails often.
func simulatedServers() []simulated {
	const model, step = "simulated-8b", 5 * time.Millisecond
	const both = "modules: [interactive, warm]"
	// By an answer without a first token and one that stalls, flaky misses all of
	// its objectives at times.
	return []simulated{
		{"steady", "modules: [interactive, warm, quick, ladder, same], " + costs, simulator.Options{Model: model, Seed: 1, DecodeStep: step, WeightsVersion: "v0"}},
		{"flaky", both + ", " + objectives, simulator.Options{
			Model: model, Seed: 2, DecodeStep: step, FaultRatio: 0.3,
			Faults: faults("status_503", "error_event_midstream", "cut_before_finish", "empty_stream", "stall_midstream"),
		}},
		{"sglang", "modules: [interactive, warm, users]", simulator.Options{Model: model, Seed: 3, DecodeStep: step, Engine: "sglang", TokensPerEvent: 2}},
		{"ollama", both + ", api: ollama", simulator.Options{Model: model, Seed: 4, DecodeStep: step, Engine: "ollama"}},
	}
}

// startServers starts the servers and returns the configuration of an exporter
// that probes them, and an endpoint where nobody listens.
func startServers(ctx context.Context) (*servers, string, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &servers{cancel: cancel}
	config := configHead
	for _, o := range simulatedServers() {
		url, err := s.serve(ctx, o.options)
		if err != nil {
			s.Close()
			return nil, "", err
		}
		config += fmt.Sprintf("  - {name: %s, url: %q, %s, servers: {interval: 1s}}\n", o.name, url, o.keys)
	}
	busy, err := s.serve(ctx, simulator.Options{
		Model: "simulated-70b", Seed: 5, Slots: 8, Background: 6, BackgroundOutput: 32, DecodeStep: 10 * time.Millisecond, Blocks: 1024,
		FaultRatio: 0.05, Faults: faults("cut_before_finish"), // after the first token: TTFT keeps its upper bound
	})
	if err != nil {
		s.Close()
		return nil, "", err
	}
	s.tls = newTLSFront(busy)
	return s, config + mainEndpoint(s.tls.URL, busy) + deadEndpoint, nil
}

// objectives are those of endpoints that have all of them.
const objectives = "slo: {objective: 0.9, ttft: 500ms, tpot: 50ms, e2e: 2s, fluidity: 0.9}"

// costs are what an endpoint has that is paid for, and watched on a budget.
const costs = "price: {gpu_hour_usd: 2, input_usd: 1, cached_input_usd: 0.1, output_usd: 2}, budget: {tokens_per_hour: 1000000000, usd_per_day: 10000}"

// redeployEvery is how long a server with named weights keeps them. Probes need
// twenty looks at them to know what is usual.
const redeployEvery = 30 * time.Second

// mainEndpoint returns the configuration of Main.
func mainEndpoint(url, server string) string {
	return fmt.Sprintf(`  - name: %s
    url: %q
    modules: [interactive, warm]
    http: {tls_config: {insecure_skip_verify: true}}
    %s
    servers: {urls: [%q], interval: 1s}
    hardware: {gpu: H100 SXM, weights: 16GB, weights_precision: bf16, total_weights: 16GB, kv_cache_per_token: 128KiB, uuids: [GPU-simulated-0]}
`, Main, url, objectives, server+"/metrics")
}

// deadEndpoint is where nobody listens. API and model can be detected only from a
// reply, so they are configured here.
const deadEndpoint = `  - {name: dead, url: "http://127.0.0.1:1", api: openai-chat, model: simulated-8b, modules: [interactive]}
`

// serve starts one simulated server and returns its URL.
func (s *servers) serve(ctx context.Context, o simulator.Options) (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("open a simulated server: %w", err)
	}
	server := simulator.New(o)
	s.ended.Go(func() { _ = server.Serve(ctx, l) })
	if o.WeightsVersion != "" {
		s.ended.Go(func() { redeploy(ctx, server) })
	}
	return "http://" + l.Addr().String(), nil
}

// redeploy gives a server other weights again and again, which answer as well.
func redeploy(ctx context.Context, server *simulator.Server) {
	every := time.NewTicker(redeployEvery)
	defer every.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-every.C:
			server.SetWeights(fmt.Sprintf("v%d", n), 0, 1)
		}
	}
}

// Close ends the servers.
func (s *servers) Close() {
	if s.tls != nil {
		s.tls.Close()
	}
	s.cancel()
	s.ended.Wait()
}

// faults returns the faults of the given names.
func faults(names ...string) []simulator.Fault {
	var all []simulator.Fault
	for _, name := range names {
		f, ok := simulator.FaultNamed(name)
		if !ok {
			panic("no fault " + name)
		}
		all = append(all, f)
	}
	return all
}

package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// ask has a server answer one prompt; it returns when the answer has ended or
// ctx does.
func ask(ctx context.Context, base, prompt string, maxTokens int) error {
	body, err := json.Marshal(map[string]any{
		"model": "simulated-8b", "max_tokens": maxTokens, "prompt": prompt,
	})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/completions", strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", resp.Status)
	}
	return nil
}

// seen reports whether a server's page was read completely after an instant.
func seen(p metricsPage, after time.Time) bool {
	const family = "inference_server_last_scrape_timestamp_seconds"
	return p.Has(family) && p.Sum(family) > float64(after.UnixNano())/1e9 && p.Sum("inference_server_up") == 1
}

// done is what the simulator did, over all replicas.
func done(s *simulator.Server) (sum simulator.State) {
	for _, r := range s.State() {
		sum.Running += r.Running
		sum.Waiting += r.Waiting
		sum.Blocks += r.Blocks
		sum.BlocksInUse += r.BlocksInUse
		sum.PrefixQueries += r.PrefixQueries
		sum.PrefixHits += r.PrefixHits
		sum.PromptTokens += r.PromptTokens
		sum.GeneratedTokens += r.GeneratedTokens
	}
	return sum
}

// What the pages that move with the simulated server show, in our words, is
// what it knows of itself: first in the middle of work that is paused, then
// when all of it is done.
func TestServersAgainstTheSimulator(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"vllm", "sglang"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			s := simulator.New(simulator.Options{
				Engine: engine, Seed: 1, Slots: 4, Blocks: 512, DecodeStep: 2 * time.Millisecond, PrefillTokensPerSecond: 1e6,
			})
			base, _ := testlab.ServeSimulator(t, s)
			load, stopLoad := context.WithCancel(context.Background())
			defer stopLoad()
			p := start(t, "--web.listen-address=127.0.0.1:0", "--no-collector.probe", "--config.file="+writeFile(t, "exporter.yml",
				fmt.Sprintf("endpoints: [{name: e, url: %s, servers: {interval: 1s}}]", base)))
			begun := time.Now()
			p.waitFor("the first reading", func(got metricsPage) bool { return seen(got, begun) })

			shared := strings.Repeat("the same words again and again ", 40)
			var group sync.WaitGroup
			for i := range 6 {
				group.Go(func() { _ = ask(load, base, fmt.Sprintf("%s and question %d", shared, i), 400) })
			}
			waitUntil(t, func() bool { st := done(s); return st.Running == 4 && st.Waiting == 2 })
			s.Hang(true)
			still := time.Now()
			got, _ := p.waitFor("a reading of the work", func(got metricsPage) bool { return seen(got, still) })
			want := done(s)
			testlab.WantSum(t, got, "inference_server_requests_running", float64(want.Running))
			testlab.WantSum(t, got, "inference_server_requests_waiting", float64(want.Waiting))
			testlab.WantSum(t, got, "inference_server_kv_cache_usage_ratio", float64(want.BlocksInUse)/float64(want.Blocks))
			s.Hang(false)
			group.Wait()

			waitUntil(t, func() bool { st := done(s); return st.Running+st.Waiting == 0 })
			still = time.Now()
			got, _ = p.waitFor("a reading of the end", func(got metricsPage) bool { return seen(got, still) })
			want = done(s)
			testlab.WantSum(t, got, "inference_server_prompt_tokens_total", float64(want.PromptTokens))
			testlab.WantSum(t, got, "inference_server_generation_tokens_total", float64(want.GeneratedTokens))
			if want.PrefixHits == 0 {
				t.Error("the load has no hits")
			}
			testlab.WantSum(t, got, "inference_server_prefix_cache_hit_ratio", float64(want.PrefixHits)/float64(want.PrefixQueries))
			if !got.Has("inference_server_up", "engine", engine) {
				t.Errorf("taken for another engine: %v", got["inference_server_up"])
			}
		})
	}
}

// What the sample page of each other engine shows is what package page must
// read from it, as NAME.want.yml has it; what is not there is missing.
func TestServersWithSamplePages(t *testing.T) {
	t.Parallel()
	for engine, name := range map[string]string{
		"tgi": "tgi", "trtllm": "trtllm-1.2", "triton": "triton-trtllm", "nim": "nim", "llamacpp": "llamacpp",
		"lmdeploy": "lmdeploy-0.16", "dynamo": "dynamo-frontend", "tei": "tei", "litellm": "litellm",
	} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			var want struct {
				Engine, Model string
				Values        map[string]float64
			}
			data, err := os.ReadFile(filepath.Join("..", "page", "testdata", "pages", "servers", name+".want.yml"))
			if err != nil {
				t.Fatal(err)
			}
			if err := yaml.Unmarshal(data, &want); err != nil {
				t.Fatal(err)
			}
			server := testlab.Serve(t, simulator.New(simulator.Options{Engine: engine, Model: want.Model}).Handler())
			begun := time.Now()
			p := start(t, "--web.listen-address=127.0.0.1:0", "--no-collector.probe", "--config.file="+writeFile(t, "exporter.yml",
				fmt.Sprintf("endpoints: [{name: e, url: %s, model: %q, servers: {interval: 1s}}]", server, cmp.Or(want.Model, "simulated-8b"))))
			got, _ := p.waitFor("a reading", func(got metricsPage) bool { return seen(got, begun) })
			for value, family := range map[string]string{
				"requests_running": "inference_server_requests_running", "requests_waiting": "inference_server_requests_waiting",
				"kv_cache_usage_ratio": "inference_server_kv_cache_usage_ratio", "prompt_tokens": "inference_server_prompt_tokens_total",
				"generation_tokens": "inference_server_generation_tokens_total",
			} {
				if n, ok := want.Values[value]; ok {
					testlab.WantSum(t, got, family, n)
				} else if got.Has(family) {
					t.Errorf("%s is on the page", family)
				}
			}
			if !got.Has("inference_server_up", "engine", want.Engine) {
				t.Errorf("taken for another engine: %v", got["inference_server_up"])
			}
		})
	}
}

func waitUntil(t *testing.T, is func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for tick := time.Tick(5 * time.Millisecond); !is(); {
		select {
		case <-tick:
		case <-deadline:
			t.Fatal("waited in vain")
		}
	}
}

// Ollama's list of loaded models is found at the address of the API without any configuration.
func TestOllamaShowsItsModels(t *testing.T) {
	t.Parallel()
	server := testlab.Serve(t, simulator.New(simulator.Options{Engine: "ollama", DecodeStep: time.Millisecond}).Handler())
	p := start(t, "--web.listen-address=127.0.0.1:0", "--config.file="+writeFile(t, "exporter.yml", fmt.Sprintf(`
global: {interval: 1s}
modules: {interactive: {input_tokens: 16, output_tokens: 4}}
endpoints: [{name: e, url: %s, servers: {interval: 1s}}]`, server)))
	got, _ := p.waitFor("its page", func(got metricsPage) bool {
		return got.Sum("inference_server_up", "endpoint", "e", "engine", "ollama") == 1
	})
	for name, want := range map[string]float64{ // of internal/simulator/software.yml
		"models_loaded": 1, "loaded_models_bytes": 5137025024, "loaded_models_gpu_bytes": 5137025024,
		"model_unload_timestamp_seconds": float64(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).Unix()),
	} {
		if v := got.Sum("inference_server_"+name, "endpoint", "e", "engine", "ollama"); v != want {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
}

// One replica of three is lost, and comes back as none.
func TestReplicaLossIsVisible(t *testing.T) {
	t.Parallel()
	var urls []string
	var stops []func()
	for range 3 {
		base, stop := testlab.ServeSimulator(t, simulator.New(testlab.Quick()))
		urls, stops = append(urls, base+"/metrics"), append(stops, stop)
	}
	p := start(t, "--web.listen-address=127.0.0.1:0", "--no-collector.probe", "--config.file="+writeFile(t, "exporter.yml",
		fmt.Sprintf("endpoints: [{name: e, url: http://127.0.0.1:1, servers: {interval: 1s, urls: [%s]}}]", strings.Join(urls, ", "))))
	states := func(up, down float64) func(metricsPage) bool {
		return func(got metricsPage) bool {
			return got.Sum("inference_endpoint_servers", "endpoint", "e", "state", "up") == up &&
				got.Sum("inference_endpoint_servers", "endpoint", "e", "state", "down") == down
		}
	}
	p.waitFor("all replicas", states(3, 0))
	stops[1]()
	got, _ := p.waitFor("the loss of a replica", states(2, 1))
	lost, _ := url.Parse(urls[1])
	if !got.Has("inference_server_up", "server", lost.Host) || got.Sum("inference_server_up", "server", lost.Host) != 0 {
		t.Errorf("the lost server is not shown as down: %v", got["inference_server_up"])
	}
	if got.Has("inference_server_requests_running", "server", lost.Host) {
		t.Error("the lost server has a queue")
	}
	if len(p.stderr.lines("cannot read the server's page")) != 1 {
		t.Errorf("want one line on the loss:\n%s", p.stderr)
	}
}

// A server that hangs answers its page and its health check; one that is
// saturated goes on.
func TestHungIsNotBusy(t *testing.T) {
	t.Parallel()
	s := simulator.New(simulator.Options{Slots: 2, Background: 6, BackgroundOutput: 500, DecodeStep: 2 * time.Millisecond})
	base, stop := testlab.ServeSimulator(t, s)
	defer stop()
	p := start(t, "--web.listen-address=127.0.0.1:0", "--config.file="+writeFile(t, "exporter.yml", fmt.Sprintf(`
global: {interval: 1s, timeout: 5s}
modules: {interactive: {input_tokens: 16, output_tokens: 4}}
endpoints: [{name: e, url: %s, servers: {interval: 1s}}]`, base)))
	const family = "inference_server_last_progress_timestamp_seconds"
	after := func(at time.Time) func(metricsPage) bool {
		return func(got metricsPage) bool { return got.Sum(family) > float64(at.UnixNano())/1e9 }
	}
	p.waitFor("progress under load", after(time.Now()))
	p.waitFor("more progress under load", after(time.Now()))
	s.Hang(true)
	hung := time.Now()
	late := hung.Add(3 * time.Second) // a probe of the queue comes meanwhile
	got, _ := p.waitFor("readings of the hung server", func(got metricsPage) bool { return seen(got, late) })
	if last := got.Sum(family); last > float64(hung.Add(2*time.Second).UnixNano())/1e9 {
		t.Errorf("progress %v s after the server hung", last-float64(hung.UnixNano())/1e9)
	}
	if got.Sum("inference_server_requests_running") == 0 || got.Sum("inference_server_up") != 1 {
		t.Error("the hung server does not look busy")
	}
	if resp, _ := get(t, p.client, base+"/health"); resp.StatusCode != http.StatusOK {
		t.Errorf("health check: %s", resp.Status)
	}
	s.Hang(false)
	p.waitFor("progress again", after(late))
}

// newProxy passes requests on, without connections that stay.
func newProxy(to *url.URL) *httputil.ReverseProxy {
	proxy := httputil.NewSingleHostReverseProxy(to)
	proxy.Transport = &http.Transport{DisableKeepAlives: true}
	proxy.FlushInterval = -1
	return proxy
}

// What the user sees when a new version of an engine renames a series, and how
// a few lines of configuration correct it.
func TestRenamedSeries(t *testing.T) {
	t.Parallel()
	to, _ := url.Parse(testlab.Serve(t, simulator.New(testlab.Quick()).Handler()))
	proxy := newProxy(to)
	proxy.ModifyResponse = func(r *http.Response) error {
		body, err := io.ReadAll(r.Body)
		text := strings.ReplaceAll(string(body), "vllm:num_requests_waiting", "vllm:queue_length")
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
		r.Header.Del("Content-Length")
		return err
	}
	server := testlab.Serve(t, proxy)
	file := fmt.Sprintf("endpoints: [{name: e, url: %s, servers: {interval: 1s}}]\n", server)

	p := start(t, "--web.listen-address=127.0.0.1:0", "--no-collector.probe", "--config.file="+writeFile(t, "exporter.yml", file))
	got, _ := p.waitFor("a reading", func(got metricsPage) bool { return seen(got, time.Time{}) })
	if got.Has("inference_server_requests_waiting") || !got.Has("inference_server_requests_running") {
		t.Error("want all but the renamed series")
	}
	if got.Sum("inference_server_quantity_missing", "quantity", "requests_waiting") != 1 {
		t.Errorf("the missing series is not reported: %v", got["inference_server_quantity_missing"])
	}
	if n := len(p.stderr.lines("missing=[requests_waiting]")); n != 1 {
		t.Errorf("%d lines report the missing series:\n%s", n, p.stderr)
	}
	p.stop()

	mended := file + `engines: {vllm: {values: {requests_waiting: [{series: "vllm:queue_length"}]}}}`
	p = start(t, "--web.listen-address=127.0.0.1:0", "--no-collector.probe", "--config.file="+writeFile(t, "exporter.yml", mended))
	got, _ = p.waitFor("a reading", func(got metricsPage) bool { return seen(got, time.Time{}) })
	if !got.Has("inference_server_requests_waiting") || got.Has("inference_server_quantity_missing") {
		t.Error("the mapping of the configuration is not used")
	}
}

// The model is a label of the servers' series, which begin with it.
func TestServersBeginWithTheModel(t *testing.T) {
	t.Parallel()
	server := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	p := start(t, "--web.listen-address=127.0.0.1:0", "--config.file="+writeFile(t, "exporter.yml", fmt.Sprintf(`
global: {interval: 2s}
modules: {interactive: {input_tokens: 16, output_tokens: 4}}
endpoints: [{name: e, url: %s, servers: {interval: 1s}}]`, server)))
	p.waitFor("the servers", func(got metricsPage) bool {
		if got.Has("inference_server_up") && !got.Has("inference_server_up", "model", "simulated-8b") {
			t.Errorf("without the model: %v", got["inference_server_up"])
			return true
		}
		return got.Has("inference_server_up")
	})
}

// A page of no engine that is known is said to be one.
func TestUnmappedPage(t *testing.T) {
	t.Parallel()
	server := testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = io.WriteString(w, "# TYPE homegrown_queue gauge\nhomegrown_queue 3\n")
	}))
	file := fmt.Sprintf("endpoints: [{name: e, url: %s, servers: {interval: 1s, urls: [%[1]s/metrics]}}]\n", server)
	p := start(t, "--web.listen-address=127.0.0.1:0", "--no-collector.probe", "--config.file="+writeFile(t, "exporter.yml", file))
	p.waitFor("the unmapped page", func(got metricsPage) bool {
		return got.Sum("inference_endpoint_servers", "state", "unmapped") == 1 &&
			got.Sum("inference_server_scrape_failures_total", "reason", "unmapped") > 0
	})
	if n := len(p.stderr.lines("homegrown_queue")); n != 1 {
		t.Errorf("%d lines name the unknown series:\n%s", n, p.stderr)
	}
	p.stop()

	own := file + "engines: {homegrown: {sentinels: [homegrown_queue], values: {requests_waiting: [{series: homegrown_queue}]}}}"
	p = start(t, "--web.listen-address=127.0.0.1:0", "--no-collector.probe", "--config.file="+writeFile(t, "exporter.yml", own))
	p.waitFor("the own mapping", func(got metricsPage) bool {
		return got.Sum("inference_server_requests_waiting", "engine", "homegrown") == 3
	})
}

// A page of metrics that nobody configured and no mapping knows is that of a
// gateway: it is logged, and no server is said to be down.
func TestPageOfAGateway(t *testing.T) {
	t.Parallel()
	server := testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = io.WriteString(w, "# TYPE gateway_requests_total counter\ngateway_requests_total 3\n")
	}))
	file := fmt.Sprintf("endpoints: [{name: e, url: %s, servers: {interval: 1s}}]\n", server)
	p := start(t, "--web.listen-address=127.0.0.1:0", "--no-collector.probe", "--config.file="+writeFile(t, "exporter.yml", file))
	p.waitFor("the reading to be logged", func(metricsPage) bool { return len(p.stderr.lines("gateway_requests_total")) > 0 })
	got, _ := p.waitFor("a page after it", func(metricsPage) bool { return true })
	for name := range got {
		if strings.HasPrefix(name, "inference_server_") || name == "inference_endpoint_servers" {
			t.Errorf("%s of a gateway", name)
		}
	}
}

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	names "github.com/prometheus/common/model"

	"github.com/inference-exporter/inference_exporter/tools/lab/process"
)

// daemon runs a daemon until done says that it has measured enough, and then
// calls collect, whose cost does not count.
func (b *bench) daemon(ctx context.Context, argv, env []string, done func(ctx context.Context) (bool, error), collect func(ctx context.Context) error) (cost, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	p, err := start(ctx, b.dir, append(b.lab.env(), env...), argv)
	if err != nil {
		return cost{}, err
	}
	pause := 2 * time.Second // a look has a cost too
	if b.requests == 1 {
		pause = 200 * time.Millisecond // the first figure
	}
	for {
		select {
		case <-p.ended:
			return p.cost, fmt.Errorf("it ended: %w: %s", p.Err(), p.Tail())
		case <-time.After(pause):
		}
		ok, err := done(ctx)
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %s", ctx.Err(), p.Tail())
		}
		if err == nil && !ok {
			continue
		}
		c := p.so()
		if err == nil {
			err = collect(ctx)
		}
		p.Stop()
		return c, err
	}
}

// runExporter has an endpoint for each stream, and reads the probes from the API.
func runExporter(ctx context.Context, b *bench) (result, error) {
	address, err := process.FreeAddress("127.0.0.1")
	if err != nil {
		return result{}, err
	}
	var config strings.Builder
	fmt.Fprintf(&config, "global: {limits: {in_flight_per_host: %d}}\n", 2*b.streams)
	fmt.Fprintf(&config, "modules:\n  peers: {interval: 2s, input_tokens: 64, output_tokens: %d}\nendpoints:\n", tokens)
	for i := range b.streams {
		fmt.Fprintf(&config, "  - {name: e%d, url: %q, model: %s, api: openai-chat, modules: [peers]}\n", i, b.server.url(), model)
	}
	file := filepath.Join(b.dir, "config.yml")
	if err := os.WriteFile(file, []byte(config.String()), 0o644); err != nil {
		return result{}, err
	}
	argv := []string{b.lab.exporter, "--config.file=" + file, "--web.listen-address=" + address, "--no-collector.gpu", "--no-collector.server", "--state.path="}
	found := map[string]probe{}
	c, err := b.daemon(ctx, argv, nil, func(ctx context.Context) (bool, error) {
		page, err := scrape(ctx, "http://"+address+"/metrics")
		if err != nil {
			return false, nil // not up yet
		}
		n := 0.0
		for _, m := range page["inference_probe_results_total"].GetMetric() {
			n += m.GetCounter().GetValue()
		}
		return n >= float64(b.requests), nil
	}, func(ctx context.Context) error {
		for i := range b.streams {
			if err := takeProbes(ctx, fmt.Sprintf("http://%s/api/v1/endpoints/e%d", address, i), found); err != nil {
				return err
			}
		}
		return nil
	})
	var lines []timeline
	for _, p := range found {
		lines = append(lines, p.timeline())
	}
	return result{figuresOf(lines), c, found}, err
}

// probe is a probe as the API has it.
type probe struct {
	TraceID string  `json:"trace_id"`
	Outcome string  `json:"outcome"`
	TTFT    float64 `json:"ttft_seconds"`
	Events  []event `json:"events"`
	Tokens  int     `json:"output_tokens"`
}

// event is an event with tokens. Of a merged one only a bound of its arrival is
// known.
type event struct {
	At     float64 `json:"at_seconds"`
	Merged bool    `json:"merged"`
}

// timeline spreads the tokens that the server counted over the events.
func (p probe) timeline() timeline {
	l := timeline{ttft: p.TTFT, unknown: map[int]bool{}}
	left := p.Tokens
	for i, e := range p.Events {
		n := left / (len(p.Events) - i)
		left -= n
		l.at, l.tokens, l.unknown[i] = append(l.at, e.At), append(l.tokens, n), e.Merged
	}
	return l
}

// takeProbes adds the latest probes of an endpoint that succeeded.
func takeProbes(ctx context.Context, url string, into map[string]probe) error {
	var answer struct {
		Series []struct {
			Probes []probe `json:"probes"`
		} `json:"series"`
	}
	if err := getJSON(ctx, url, &answer); err != nil {
		return err
	}
	for _, s := range answer.Series {
		for _, p := range s.Probes {
			if p.Outcome == "success" && p.TTFT > 0 {
				into[p.TraceID] = p
			}
		}
	}
	return nil
}

// runLatenzy has a model for each stream.
func runLatenzy(ctx context.Context, b *bench) (result, error) {
	address, err := process.FreeAddress("127.0.0.1")
	if err != nil {
		return result{}, err
	}
	_, port, _ := net.SplitHostPort(address)
	var config strings.Builder
	config.WriteString("providers:\n")
	for i := range b.streams {
		fmt.Fprintf(&config, "  - {provider: openai, models: [%s], endpoint: e%d, base_url: %q}\n", model, i, b.server.url())
	}
	fmt.Fprintf(&config, "probe: {interval_seconds: 10, max_output_tokens: %d, concurrency: %d}\nexporter: {port: %s}\n", tokens, b.streams, port)
	file := filepath.Join(b.dir, "config.yml")
	if err := os.WriteFile(file, []byte(config.String()), 0o644); err != nil {
		return result{}, err
	}
	requests := min(b.requests, 5*b.streams) // one in ten seconds
	var f figures
	argv := []string{filepath.Join(b.bin, "latenzy"), "run", "--config", file}
	c, err := b.daemon(ctx, argv, []string{"OPENAI_API_KEY=none"}, func(ctx context.Context) (bool, error) {
		page, err := scrape(ctx, "http://"+address+"/metrics")
		if err != nil {
			return false, nil // not up yet
		}
		f = latenzyFigures(page)
		return f.Requests >= requests, nil
	}, nothing)
	return result{figures: f, cost: c}, err
}

// nothing collects nothing.
func nothing(context.Context) error { return nil }

// scrape returns the families of a page.
func scrape(ctx context.Context, url string) (map[string]*dto.MetricFamily, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	parser := expfmt.NewTextParser(names.UTF8Validation)
	return parser.TextToMetricFamilies(resp.Body)
}

func latenzyFigures(page map[string]*dto.MetricFamily) figures {
	var f figures
	bounds := map[float64]float64{}
	for _, m := range page["latenzy_ttft_seconds"].GetMetric() {
		f.Requests += int(m.GetHistogram().GetSampleCount())
		for _, b := range m.GetHistogram().GetBucket() {
			bounds[b.GetUpperBound()] += float64(b.GetCumulativeCount())
		}
	}
	if f.Requests > 0 {
		f.TTFT = &quantiles{bucketQuantile(0.5, bounds), bucketQuantile(0.99, bounds)}
	}
	return f
}

// bucketQuantile is histogram_quantile of Prometheus: linear within a bucket.
func bucketQuantile(q float64, cumulative map[float64]float64) float64 {
	total := cumulative[math.Inf(1)]
	lower, before := 0.0, 0.0
	for len(cumulative) > 0 {
		upper := math.Inf(1)
		for b := range cumulative {
			upper = min(upper, b)
		}
		count := cumulative[upper]
		if math.IsInf(upper, 1) {
			break
		}
		if count >= q*total {
			return lower + (upper-lower)*(q*total-before)/(count-before)
		}
		delete(cumulative, upper)
		lower, before = upper, count
	}
	return lower
}

// prompt is the body of a request for tools that have none of their own.
func prompt() string {
	return fmt.Sprintf(`{"model":%q,"stream":true,"max_tokens":%d,"messages":[{"role":"user","content":"w1 w2 w3"}]}`, model, tokens)
}

// runCloudprober sends as many requests in each probe as there are streams.
func runCloudprober(ctx context.Context, b *bench) (result, error) {
	address, err := process.FreeAddress("127.0.0.1")
	if err != nil {
		return result{}, err
	}
	_, port, _ := net.SplitHostPort(address)
	_, target, _ := net.SplitHostPort(b.server.address)
	config := fmt.Sprintf(`host: "127.0.0.1"
port: %s
surfacer { type: PROMETHEUS }
probe {
  name: "chat"
  type: HTTP
  interval_msec: 3000
  timeout_msec: 2900
  targets { host_names: "127.0.0.1" }
  http_probe {
    port: %s
    relative_url: "/v1/chat/completions"
    method: POST
    body: %q
    header { key: "Content-Type" value: "application/json" }
    requests_per_probe: %d
  }
}
`, port, target, prompt(), b.streams)
	file := filepath.Join(b.dir, "cloudprober.cfg")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		return result{}, err
	}
	done := 0
	argv := []string{b.lab.cloudprober, "--config_file=" + file}
	c, err := b.daemon(ctx, argv, nil, func(ctx context.Context) (bool, error) {
		page, err := scrape(ctx, "http://"+address+"/metrics")
		if err != nil {
			return false, nil // not up yet
		}
		done = 0
		for _, m := range page["success"].GetMetric() {
			done += int(m.GetUntyped().GetValue() + m.GetCounter().GetValue())
		}
		return done >= b.requests, nil
	}, nothing)
	return result{figures: figures{Requests: done}, cost: c}, err
}

// runBlackbox lets as many scrapes as there are streams post a prompt each.
func runBlackbox(ctx context.Context, b *bench) (result, error) {
	address, err := process.FreeAddress("127.0.0.1")
	if err != nil {
		return result{}, err
	}
	config := fmt.Sprintf("modules:\n  chat: {prober: http, timeout: 30s, http: {method: POST, headers: {Content-Type: application/json}, body: %q, fail_if_body_not_matches_regexp: ['DONE']}}\n", prompt())
	file := filepath.Join(b.dir, "config.yml")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		return result{}, err
	}
	target := "http://" + address + "/probe?module=chat&target=" + url.QueryEscape(b.server.url()+"/v1/chat/completions")
	argv := []string{b.lab.blackbox, "--config.file=" + file, "--web.listen-address=" + address}
	done := 0
	c, err := b.daemon(ctx, argv, nil, func(ctx context.Context) (bool, error) {
		n, err := together(ctx, b.streams, target)
		done += n
		return done >= b.requests, err
	}, nothing)
	return result{figures: figures{Requests: done}, cost: c}, err
}

// together gets a URL so often at the same time, and counts the probes that
// succeeded; none while nothing listens.
func together(ctx context.Context, streams int, target string) (int, error) {
	var group sync.WaitGroup
	texts, errs := make([][]byte, streams), make([]error, streams)
	for i := range streams {
		group.Go(func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
			if err != nil {
				errs[i] = err
				return
			}
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				return
			}
			defer resp.Body.Close()
			texts[i], errs[i] = io.ReadAll(resp.Body)
		})
	}
	group.Wait()
	n := 0
	for _, text := range texts {
		switch {
		case bytes.Contains(text, []byte("\nprobe_success 1\n")):
			n++
		case len(text) > 0:
			return n, fmt.Errorf("a probe failed: %s", process.Tail(string(text)))
		}
	}
	return n, errors.Join(errs...)
}

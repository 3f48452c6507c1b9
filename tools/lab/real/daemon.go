package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/tools/lab/process"
)

// daemonRuns is how long the daemon probes before it is looked at.
const daemonRuns = 90 * time.Second

// daemon is the exporter as it runs for months.
type daemon struct {
	*process.Process
	url string
}

const modules = `
modules:
  short: {input_tokens: 64, output_tokens: 8, interval: 5s}
  long: {input_tokens: 64, output_tokens: 3000, interval: 1h, timeout: 3m, timeouts: {headers: 8s, first_token: 8s, stall: 5s}}
  pairs: {input_tokens: 512, output_tokens: 8, prefix: paired, interval: 6s}
  lengths: {input_tokens: [64, 256, 1024], output_tokens: 8, interval: 15s}
  bursts: {concurrency: [1, 2, 4, 8], input_tokens: 64, output_tokens: 32, interval: 30s}
  quality: {questions: true, output_tokens: 32, interval: 10s}
  batch: {input_tokens: 64, batch_size: 8, interval: 5s}
  watched: {questions: true, fingerprint: true, output_tokens: 8, interval: 1h}
`

// writeConfig writes the exporter's configuration for the server: probes and
// readings go through the relays.
func (b *bench) writeConfig() error {
	b.config = filepath.Join(b.work, b.server.name+"-exporter.yml")
	var y strings.Builder
	y.WriteString("global: {interval: 10s, limits: {in_flight_per_host: 16}}" + modules + "endpoints:\n")
	fmt.Fprintf(&y, "  - name: real\n    url: %s\n    api: %s\n    modules: [%s]\n", b.front.tee.url(), b.server.apis[0], strings.Join(b.modules(), ", "))
	if b.server.model != "" {
		fmt.Fprintf(&y, "    model: %s\n", b.server.model)
	}
	if b.server.key != "" {
		fmt.Fprintf(&y, "    http: {authorization: {credentials: %s}}\n", b.server.key)
	}
	if b.server.omit != "" {
		fmt.Fprintf(&y, "    request: {omit: [%s]}\n", b.server.omit)
	}
	y.WriteString("    servers:\n      interval: 2s\n")
	if pages := b.pages(); len(b.behind) > 0 && len(pages) > 0 {
		y.WriteString("      urls:\n")
		for _, p := range pages {
			fmt.Fprintf(&y, "        - %s%s\n", p.tee.url(), p.server.page)
		}
	}
	return os.WriteFile(b.config, []byte(y.String()), 0o644)
}

// modules are the names of those that the daemon probes with.
func (b *bench) modules() []string {
	if !b.generates() {
		return []string{"batch"}
	}
	return []string{"short", "pairs", "lengths", "bursts", "quality"}
}

// pages are the processes whose page of metrics the exporter reads: those that
// have one that it knows.
func (b *bench) pages() []*running {
	var all []*running
	for _, p := range append([]*running{b.front}, b.behind...) {
		if p.server.quantities != nil {
			all = append(all, p)
		}
	}
	return all
}

// startDaemon starts the exporter, unless a check before has.
func (b *bench) startDaemon(ctx context.Context) (err error) {
	if b.daemon == nil {
		b.daemon, err = b.exporterWith(ctx, b.config)
	}
	return err
}

// exporterWith starts the exporter with a configuration.
func (b *bench) exporterWith(ctx context.Context, config string) (*daemon, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	p, err := process.Start(
		ctx, process.Options{Log: strings.TrimSuffix(config, ".yml") + ".log"}, b.exporter,
		"--config.file="+config, "--web.listen-address=127.0.0.1:"+port, "--no-collector.gpu", "--state.path=",
	)
	if err != nil {
		return nil, err
	}
	return &daemon{p, "http://127.0.0.1:" + port}, nil
}

// page scrapes the exporter.
func (d *daemon) page() (page, error) {
	text, err := get(d.url + "/metrics")
	if err != nil {
		return nil, err
	}
	return readPage(text)
}

func get(url string) ([]byte, error) {
	response, err := http.Get(url)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, errors.New(response.Status)
	}
	return io.ReadAll(response.Body)
}

// eventually runs a comparison of two things that move until it holds, for two
// minutes at most: a slow server rarely has nothing to do.
func eventually(ctx context.Context, compare func() (string, error)) (text string, err error) {
	for range 240 {
		if text, err = compare(); err == nil || ctx.Err() != nil {
			return text, err
		}
		time.Sleep(500 * time.Millisecond)
	}
	return "", err
}

// daemonModules lets the daemon probe with every module.
func daemonModules(ctx context.Context, b *bench) (string, error) {
	for _, p := range append(b.pages(), b.front) {
		p.tee.forget()
	}
	if err := b.startDaemon(ctx); err != nil {
		return "", err
	}
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case <-time.After(daemonRuns):
	}
	p, err := b.daemon.page()
	if err != nil {
		return "", err
	}
	var said, wrong []string
	for _, module := range b.modules() {
		all, _ := p.sum("inference_probe_results_total", "module", module)
		good, _ := p.sum("inference_probe_results_total", "module", module, "outcome", "success")
		said = append(said, fmt.Sprintf("%s %g", module, good))
		if good == 0 || good != all {
			wrong = append(wrong, fmt.Sprintf("%s: %g of %g succeeded%s", module, good, all, outcomes(p, module)))
		}
	}
	if knee, ok := p.sum("inference_probe_burst_knee_concurrency"); ok {
		said = append(said, fmt.Sprintf("the knee at %g", knee))
	}
	if len(wrong) > 0 {
		return "", errors.New(strings.Join(wrong, "; "))
	}
	return fmt.Sprintf("successes in %s: %s", daemonRuns, strings.Join(said, ", ")), nil
}

// outcomes are the failures of a module, for a report.
func outcomes(p page, module string) string {
	var b strings.Builder
	for _, m := range p["inference_probe_results_total"].GetMetric() {
		outcome := ""
		for _, l := range m.Label {
			if l.GetName() == "outcome" {
				outcome = l.GetValue()
			}
		}
		if hasLabels(m, []string{"module", module}) && outcome != "success" && m.Counter.GetValue() > 0 {
			fmt.Fprintf(&b, ", %g %s", m.Counter.GetValue(), outcome)
		}
	}
	return b.String()
}

// daemonTokens compares the counters of tokens with the sums over all replies
// that went through the relay to their end. They are equal once no run is under
// way: a burst and a pair are counted when the last of their requests has ended.
func daemonTokens(ctx context.Context, b *bench) (string, error) {
	if err := b.startDaemon(ctx); err != nil {
		return "", err
	}
	return eventually(ctx, func() (string, error) {
		var prompt, output int
		for _, e := range b.front.tee.exchanges() {
			if raw := readReply(e); e.header.Get("Traceparent") != "" && e.status == http.StatusOK && !e.ended.IsZero() {
				prompt += max(0, raw.prompt)
				if raw.output == unknown {
					raw.output = len(raw.tokens)
				}
				output += raw.output
			}
		}
		p, err := b.daemon.page()
		if err != nil {
			return "", err
		}
		gotPrompt, _ := p.sum("inference_probe_prompt_tokens_total")
		gotOutput, _ := p.sum("inference_probe_output_tokens_total")
		if gotPrompt != float64(prompt) || b.generates() && gotOutput != float64(output) {
			return "", fmt.Errorf("%g tokens of prompts and %g of output, in the replies %d and %d", gotPrompt, gotOutput, prompt, output)
		}
		return fmt.Sprintf("%d tokens of prompts and %d of output, as in the replies", prompt, output), nil
	})
}

// daemonValues compares what is shown of each server with the page that was
// read.
func daemonValues(ctx context.Context, b *bench) (string, error) {
	if len(b.pages()) == 0 {
		return "", notOffered{"it shows no page of metrics that the exporter knows"}
	}
	if err := b.startDaemon(ctx); err != nil {
		return "", err
	}
	return eventually(ctx, func() (string, error) {
		p, err := b.daemon.page()
		if err != nil {
			return "", err
		}
		checked := 0
		for _, s := range b.pages() {
			n, page, err := s.compareValues(p)
			if err != nil {
				return "", err
			}
			b.keep(s.server.name+"-metrics", page)
			checked += n
		}
		return fmt.Sprintf("%d values as on the page that was read", checked), nil
	})
}

// compareValues compares the exporter's page with the latest page of the
// server that it can have read.
func (s *running) compareValues(p page) (int, *exchange, error) {
	label := []string{"server", strings.TrimPrefix(s.tee.url(), "http://")}
	at, ok := p.sum("inference_server_last_scrape_timestamp_seconds", label...)
	if !ok {
		return 0, nil, errors.New("no page was read")
	}
	var nearest *exchange
	apart := math.Inf(1)
	for _, e := range s.tee.exchanges() {
		if d := math.Abs(float64(e.sent.UnixNano())/1e9 - at); e.path == s.server.page && e.status == http.StatusOK && d < apart {
			nearest, apart = e, d
		}
	}
	if nearest == nil {
		return 0, nil, errors.New("no page went through the relay")
	}
	raw, err := readPage([]byte(nearest.text()))
	if err != nil {
		return 0, nil, fmt.Errorf("read the server's page: %w", err)
	}
	checked, wrong := differences(p, raw, s.server.quantities, label...)
	if len(wrong) > 0 {
		return 0, nil, errors.New(strings.Join(wrong, "; "))
	}
	return checked, nearest, nil
}

// daemonCache compares the hit ratio of pairs with the replies. Those beside a
// burst of the exporter's own count in neither; which they were only the exporter
// knows, and it says how many.
func daemonCache(ctx context.Context, b *bench) (string, error) {
	if !b.server.cached {
		return "", notOffered{"its replies do not count cached tokens"}
	}
	if err := b.startDaemon(ctx); err != nil {
		return "", err
	}
	return eventually(ctx, func() (string, error) {
		p, err := b.daemon.page()
		if err != nil {
			return "", err
		}
		got, ok := p.sum("inference_probe_prefix_cache_hit_ratio", "module", "pairs")
		if !ok {
			return "", errors.New("no inference_probe_prefix_cache_hit_ratio")
		}
		disturbed, _ := p.sum("inference_probe_disturbed_total", "module", "pairs", "prefix", "warm")
		replies := warmReplies(b.front.tee.exchanges())
		if !ratioWithout(replies, int(disturbed), got) {
			return "", fmt.Errorf("hit ratio of pairs %.4f, %g replies left out; the replies: %v", got, disturbed, replies)
		}
		return fmt.Sprintf("hit ratio of pairs %.1f %%, as by the replies, without %g beside a burst", 100*got, disturbed), nil
	})
}

// cacheCount is what a reply says of its prompt: cached tokens, and all.
type cacheCount struct{ cached, prompt int }

// warmReplies are the counts of the requests that repeat the body of one before.
func warmReplies(all []*exchange) (warm []cacheCount) {
	seen := map[string]bool{}
	for _, e := range all {
		body := string(e.body)
		if raw := readReply(e); seen[body] && raw.cached != unknown && len(body) > 1000 {
			warm = append(warm, cacheCount{raw.cached, raw.prompt})
		}
		seen[body] = true
	}
	return warm
}

// ratioWithout reports whether cached over prompt tokens is the ratio given once
// some n of the replies are left out.
func ratioWithout(replies []cacheCount, n int, ratio float64) bool {
	var all cacheCount
	for _, r := range replies {
		all.cached += r.cached
		all.prompt += r.prompt
	}
	var leaveOut func(from, n int, rest cacheCount) bool
	leaveOut = func(from, n int, rest cacheCount) bool {
		if n == 0 {
			return math.Abs(float64(rest.cached)/float64(rest.prompt)-ratio) <= 1e-9
		}
		for i := from; i <= len(replies)-n; i++ {
			if leaveOut(i+1, n-1, cacheCount{rest.cached - replies[i].cached, rest.prompt - replies[i].prompt}) {
				return true
			}
		}
		return false
	}
	return leaveOut(0, n, all)
}

// outcomeOf is the outcome that the raw reply stands for.
func outcomeOf(e *exchange) string {
	switch {
	case e.err != nil && len(readReply(e).tokens) == 0 && strings.Contains(e.text(), "[DONE]"):
		return "empty"
	case e.err != nil:
		return "truncated"
	case e.status == 429:
		return "rate_limited"
	case e.status == 503 || e.status == 529:
		return "overloaded"
	case e.status != 200:
		return "http_error"
	}
	return "success"
}

// post sends the request of a probe once more, past the relay.
func (b *bench) post(ctx context.Context) int {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:"+b.front.port+b.path, bytes.NewReader(b.body))
	if err != nil {
		return 0
	}
	request.Header.Set("Content-Type", "application/json")
	if b.server.key != "" {
		request.Header.Set("Authorization", "Bearer "+b.server.key)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// anotherModel restarts the server under another model's name while the daemon
// probes.
func anotherModel(ctx context.Context, b *bench) (string, error) {
	if err := b.startDaemon(ctx); err != nil {
		return "", err
	}
	defer func() {
		b.daemon.Stop()
		b.daemon = nil
	}()
	if b.server.model != "" {
		return "", notOffered{"the model is configured"}
	}
	if b.server.echoes {
		return "", notOffered{"it answers to any name and repeats it"}
	}
	const second = "second"
	b.front.Stop()
	for _, p := range b.behind {
		p.Stop()
	}
	b.behind = nil
	if err := b.start(ctx, second); err != nil {
		return "", err
	}
	started := time.Now()
	for time.Since(started) < 3*time.Minute {
		p, err := b.daemon.page()
		if err != nil {
			return "", err
		}
		good, _ := p.sum("inference_probe_results_total", "model", second, "outcome", "success")
		if _, old := p.sum("inference_probe_success", "model", "first"); good > 0 && !old {
			return fmt.Sprintf("series of the new name %s after it was back, none of the old one", time.Since(started).Round(time.Second)), nil
		}
		time.Sleep(time.Second)
	}
	return "", errors.New("no series of the new model after 3 minutes")
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// What the users of a server ask for: so many requests, some of which have a long prompt, behind which others wait.
const (
	userRequests = 240
	userRate     = 4 // a second
	longEvery    = 20
	shortText    = 300 // bytes of a prompt
	longText     = 16000
	userOutput   = 16 // tokens
)

// The objectives of users. The first is a bound of vLLM's histogram, and the second is between two of them.
const (
	ttftObjective = 250 * time.Millisecond
	e2eObjective  = 1200 * time.Millisecond
)

// clientAdds is how much later than the server, on a machine with other work, its client may see a token: the
// connection, the decoding, and the client's own work for the requests beside it.
const clientAdds = 50 * time.Millisecond

// users compares what the exporter shows of users' requests with the figures of the load tool that is part of
// vLLM's package. The exporter's own few probes are among the requests.
func users(ctx context.Context, b *bench) (string, error) {
	bin, err := b.environment(ctx, find("vllm"))
	if err != nil {
		return "", cannot("the load tool cannot be installed: %v", err)
	}
	b.front.tee.forget()
	d, err := b.usersDaemon(ctx)
	if err != nil {
		return "", err
	}
	defer d.Stop()
	started, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	if err := d.Await(started, d.hasProbed); err != nil {
		return "", err
	}
	l, err := b.load(ctx, bin)
	if err != nil {
		return "", err
	}
	ended := time.Now()
	return eventually(ctx, func() (string, error) {
		p, err := d.page()
		if err != nil {
			return "", err
		}
		if at, _ := p.sum("inference_server_last_scrape_timestamp_seconds"); at < float64(ended.Unix()+1) {
			return "", errors.New("no page was read after the load")
		}
		return l.compare(p, b.own())
	})
}

// usersDaemon starts an exporter that has objectives for the server and hardly probes it.
func (b *bench) usersDaemon(ctx context.Context) (*daemon, error) {
	config := fmt.Sprintf(`
modules:
  rare: {input_tokens: 64, output_tokens: %d, interval: 1m}
endpoints:
  - name: real
    url: %s
    api: %s
    modules: [rare]
    slo: {ttft: %dms, e2e: %dms}
    servers: {interval: 5s}
`, userOutput, b.front.tee.url(), b.server.apis[0], ttftObjective.Milliseconds(), e2eObjective.Milliseconds())
	file := filepath.Join(b.work, b.server.name+"-users.yml")
	if err := os.WriteFile(file, []byte(config), 0o644); err != nil {
		return nil, err
	}
	return b.exporterWith(ctx, file)
}

// hasProbed reports whether the first probe has succeeded, and a page was read since.
func (d *daemon) hasProbed() bool {
	p, err := d.page()
	if err != nil {
		return false
	}
	probe, _ := p.sum("inference_probe_last_success_timestamp_seconds")
	read, _ := p.sum("inference_server_last_scrape_timestamp_seconds")
	return probe > 0 && read > probe
}

// own returns how many requests the exporter itself has sent.
func (b *bench) own() (n int) {
	for _, e := range b.front.tee.exchanges() {
		if e.method == http.MethodPost {
			n++
		}
	}
	return n
}

// prompts writes the users' prompts, parts of the documentation that begin in different places, so that none is in the
// prefix cache, in the format of the load tool.
func (l *lab) prompts(file string) error {
	var text strings.Builder
	documents, err := filepath.Glob(filepath.Join(l.root, "docs", "*.md"))
	if err != nil {
		return err
	}
	for _, d := range documents {
		part, err := os.ReadFile(d)
		if err != nil {
			return err
		}
		text.Write(part)
	}
	var out strings.Builder
	for i := range userRequests {
		size := shortText
		if i%longEvery == 0 {
			size = longText
		}
		start := i * (text.Len() - size) / userRequests
		line, err := json.Marshal(map[string]any{
			"prompt": strings.ToValidUTF8(text.String()[start:start+size], ""), "output_tokens": userOutput,
		})
		if err != nil {
			return err
		}
		out.Write(append(line, '\n'))
	}
	return os.WriteFile(file, []byte(out.String()), 0o644)
}

// load is what the load tool says of its requests.
type load struct {
	Completed int       `json:"completed"`
	Seconds   float64   `json:"duration"`
	P50       float64   `json:"p50_ttft_ms"`
	P99       float64   `json:"p99_ttft_ms"`
	TTFTs     []float64 `json:"ttfts"`     // in seconds
	Latencies []float64 `json:"latencies"` // in seconds, until the last token
}

// load runs the load tool, past the relay.
func (b *bench) load(ctx context.Context, bin string) (*load, error) {
	models, err := b.models(ctx)
	if err != nil {
		return nil, err
	}
	prompts, result := filepath.Join(b.work, "prompts.jsonl"), b.server.name+"-load.json"
	if err := b.prompts(prompts); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(
		ctx, filepath.Join(bin, "vllm"), "bench", "serve", "--backend", "openai-chat", "--endpoint", "/v1/chat/completions",
		"--base-url", "http://127.0.0.1:"+b.front.port, "--model", b.model, "--tokenizer", filepath.Join(models, "hf"),
		"--dataset-name", "custom", "--dataset-path", prompts, "--custom-output-len", "-1", "--skip-chat-template",
		"--num-prompts", strconv.Itoa(userRequests), "--request-rate", strconv.Itoa(userRate), "--ignore-eos", "--disable-tqdm",
		"--percentile-metrics", "ttft", "--metric-percentiles", "50,99",
		"--save-result", "--save-detailed", "--result-dir", b.work, "--result-filename", result,
	)
	cmd.Env = append(os.Environ(), "HF_HUB_OFFLINE=1", "DO_NOT_TRACK=1")
	if output, err := cmd.CombinedOutput(); err != nil {
		return nil, cannot("the load tool failed: %v: %s", err, lastLine(string(output)))
	}
	text, err := os.ReadFile(filepath.Join(b.work, result))
	if err != nil {
		return nil, err
	}
	l := &load{}
	if err := json.Unmarshal(text, l); err != nil {
		return nil, fmt.Errorf("read the load tool's result: %w", err)
	}
	if l.Completed != userRequests || len(l.TTFTs) != userRequests || len(l.Latencies) != userRequests {
		return nil, cannot("the load tool has completed %d of %d requests", l.Completed, userRequests)
	}
	return l, nil
}

// compare compares the exporter's page with the figures of the load tool. own is how many requests the exporter sent.
func (l *load) compare(p page, own int) (string, error) {
	said := []string{fmt.Sprintf(
		"%d requests in %.0f s by vllm bench serve %s, beside %d of the exporter", l.Completed, l.Seconds, find("vllm").version, own,
	)}
	for _, o := range []struct {
		slo   string
		limit time.Duration
		times []float64
	}{{"ttft", ttftObjective, l.TTFTs}, {"e2e", e2eObjective, l.Latencies}} {
		text, err := compareCounts(p, o.slo, o.limit, o.times, own)
		if err != nil {
			return "", err
		}
		said = append(said, text)
	}
	for _, q := range []struct {
		name string
		ms   float64
	}{{"p50", l.P50}, {"p99", l.P99}} {
		text, err := compareQuantile(p, q.name, seconds(q.ms/1000))
		if err != nil {
			return "", err
		}
		said = append(said, text)
	}
	return strings.Join(said, "; "), nil
}

// compareCounts compares the counts of an objective with the times of the load tool's requests. The exporter's own
// requests may be among those that it counts. The first ones it may leave out, until there are more than twice as many as
// it sends itself.
func compareCounts(p page, slo string, limit time.Duration, times []float64, own int) (string, error) {
	eligible, ok := p.sum("inference_users_slo_eligible_total", "slo", slo)
	bad, _ := p.sum("inference_users_slo_bad_total", "slo", slo)
	possible, _ := p.sum("inference_users_slo_possibly_bad_total", "slo", slo)
	n, over, farOver := float64(len(times)), over(times, limit), over(times, limit+clientAdds)
	text := fmt.Sprintf("%s: %g counted, of which %g to %g took longer than %s, by the tool %d, and %d longer than %s",
		slo, eligible, bad, possible, limit, over, farOver, limit+clientAdds)
	leftOut := n + float64(own) - eligible
	switch {
	case !ok:
		return "", fmt.Errorf("no inference_users_slo_eligible_total of %s", slo)
	case leftOut < 0 || leftOut > float64(own+2*(own+1)):
		return "", fmt.Errorf("%s; the tool has %g requests, and the exporter sent %d", text, n, own)
	case bad > possible, bad > float64(over+own), possible < float64(farOver)-leftOut:
		return "", errors.New(text)
	}
	return text, nil
}

// over returns how many times are above a limit.
func over(times []float64, limit time.Duration) (n int) {
	for _, t := range times {
		if t > limit.Seconds() {
			n++
		}
	}
	return n
}

// compareQuantile compares the bounds of a quantile of the TTFT with what the load tool says it is.
func compareQuantile(p page, name string, tool time.Duration) (string, error) {
	lower, ok := p.sum("inference_users_ttft_window_seconds", "stat", name+"_lower")
	upper, bounded := p.sum("inference_users_ttft_window_seconds", "stat", name+"_upper")
	text := fmt.Sprintf("%s of the TTFT from %s to %s, by the tool %s", name, seconds(lower), seconds(upper), tool.Round(time.Millisecond))
	switch {
	case !ok:
		return "", fmt.Errorf("no inference_users_ttft_window_seconds of %s", name)
	case tool < seconds(lower), bounded && tool > seconds(upper)+clientAdds:
		return "", errors.New(text)
	}
	return text, nil
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// tool is something that measures streams.
type tool struct {
	name, version string
	// definition is what the tool takes for TTFT.
	definition string
	// packages are those of Python that it is installed from; environment is a
	// folder where it is installed already, below the repository.
	packages    []string
	environment string
	// missing says why it cannot be had.
	missing string
	// most is the highest number of streams that it can be asked for; 0 is any.
	most int
	// only restricts it to scenarios by name; none for all.
	only []string
	// run measures requests in as many streams, and ends.
	run func(ctx context.Context, b *bench) (result, error)
}

// bench is one run of a tool.
type bench struct {
	lab      *lab
	server   *server
	streams  int
	requests int
	bin      string // of the tool's environment
	dir      string // empty, for the run
}

// result is what a tool found, and what it took. probes are its requests by their
// trace ids, where it reports them.
type result struct {
	figures figures
	cost    cost
	probes  map[string]probe
}

// toolList are all tools in the order of the table.
func toolList() []tool {
	return []tool{
		{
			name: "inference_exporter", run: runExporter,
			definition: "from the request sent on a ready connection to the first event with text of any kind, by the kernel's receive stamp",
		},
		{
			name: "AIPerf", version: "0.13.0", packages: []string{"aiperf==0.13.0"}, run: runAIPerf,
			definition: "from the start of the request, with a new connection where there is none, to the first event with text or reasoning",
		},
		{
			name: "guidellm", version: "0.8.1", packages: []string{"guidellm==0.8.1"}, run: runGuidellm,
			definition: "from the start of the request to the first event with text or reasoning; it reports the gaps as a mean of each request only",
		},
		{
			name: "vllm bench serve", version: "0.32.0", run: runVLLM,
			environment: ".tools/real/vllm",
			definition:  "from the start of the request to the first event with a delta, by the code of its OpenAI chat backend",
		},
		{
			name: "latenzy", version: "0.2.0", packages: []string{"latenzy==0.2.0"}, run: runLatenzy, most: 10,
			definition: "from the start of the request to the first event with text, without reasoning; in a histogram, the bucket of these streams is from 0.1 to 0.2 s",
		},
		{
			name: "blackbox_exporter", version: "0.28.0", run: runBlackbox, only: []string{"plain"},
			definition: "none: it has the first byte and the end of a reply, and is here for what it costs",
		},
		{
			name: "Cloudprober", version: "0.14.2", run: runCloudprober, only: []string{"plain"},
			definition: "none: it has the duration of a whole reply, and is here for what it costs",
		},
		{name: "genai-perf", version: "0.0.16", missing: "no package has the perf_analyzer that it starts; its authors point to AIPerf"},
		{name: "inference-perf", missing: "no package for the Python of this machine"},
		{name: "llmperf", missing: "it has no package (the one of that name is another program)"},
	}
}

// tokenizerName is that of a tokenizer in the lab's cache: one token for each word, as
// the simulated server has it.
const tokenizerName = "peers/words"

// writeTokenizer puts the tokenizer into a cache of Hugging Face's form, as tools
// without a network take it from there.
func writeTokenizer(home string) error {
	vocabulary := map[string]int{"[UNK]": 0}
	for i := range 2000 {
		vocabulary["w"+strconv.Itoa(i)] = i + 1
	}
	return cacheModel(home, tokenizerName, map[string]any{
		"tokenizer.json": map[string]any{
			"version": "1.0", "truncation": nil, "padding": nil, "added_tokens": []string{}, "normalizer": nil,
			"pre_tokenizer": map[string]string{"type": "WhitespaceSplit"}, "post_processor": nil, "decoder": nil,
			"model": map[string]any{"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
		},
		"tokenizer_config.json": map[string]any{
			"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "[UNK]", "eos_token": "w0", "pad_token": "w1", "model_max_length": 8192,
		},
		"config.json": map[string]string{"model_type": "gpt2"},
	})
}

// cacheModel puts the files of a model into a cache under its name.
func cacheModel(home, name string, files map[string]any) error {
	const revision = "0000000000000000000000000000000000000000"
	dir := filepath.Join(home, "hub", "models--"+strings.ReplaceAll(name, "/", "--"))
	for name, content := range files {
		if err := writeJSON(filepath.Join(dir, "snapshots", revision, name), content); err != nil {
			return err
		}
	}
	ref := filepath.Join(dir, "refs", "main")
	if err := os.MkdirAll(filepath.Dir(ref), 0o755); err != nil {
		return err
	}
	return os.WriteFile(ref, []byte(revision), 0o644)
}

// writeJSON writes a file and the folders above it.
func writeJSON(name string, content any) error {
	text, err := json.MarshalIndent(content, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, append(text, '\n'), 0o644)
}

// command runs a benchmark to its end and reads the file that it wrote.
func (b *bench) command(ctx context.Context, parse func(text []byte) (figures, error), file string, argv ...string) (result, error) {
	argv[0] = filepath.Join(b.bin, argv[0])
	p, err := start(ctx, b.dir, b.lab.env(), argv)
	if err != nil {
		return result{}, err
	}
	c, err := p.wait()
	if err != nil {
		return result{}, err
	}
	text, err := os.ReadFile(filepath.Join(b.dir, file))
	if err != nil {
		return result{}, fmt.Errorf("read what it wrote: %w", err)
	}
	f, err := parse(text)
	return result{figures: f, cost: c}, err
}

func runGuidellm(ctx context.Context, b *bench) (result, error) {
	return b.command(
		ctx, parseGuidellm, "out.json", "guidellm", "run", "--disable-console",
		"--backend", "kind=openai_http,target="+b.server.url()+",model="+model,
		"--profile", fmt.Sprintf("kind=concurrent,streams=%d", b.streams),
		"--constraint", fmt.Sprintf("kind=max_requests,count=%d", b.requests),
		"--data", fmt.Sprintf("kind=synthetic_text,prompt_tokens=64,output_tokens=%d", tokens),
		"--tokenizer", "kind=hf_auto,model="+tokenizerName,
		"--output", "kind=json,path=out.json",
	)
}

// parseGuidellm takes the mean gap of each request for its TPOT: the TPOT of
// guidellm has the first token in it.
func parseGuidellm(text []byte) (figures, error) {
	type distribution struct {
		Successful struct {
			Sum         float64            `json:"total_sum"`
			Percentiles map[string]float64 `json:"percentiles"`
		} `json:"successful"`
	}
	var file struct {
		Benchmarks []struct {
			Metrics struct {
				Requests struct {
					Successful int `json:"successful"`
				} `json:"request_totals"`
				TTFT   distribution `json:"time_to_first_token_ms"`
				ITL    distribution `json:"inter_token_latency_ms"`
				Tokens distribution `json:"output_token_count"`
			} `json:"metrics"`
		} `json:"benchmarks"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return figures{}, fmt.Errorf("read the report of guidellm: %w", err)
	}
	if len(file.Benchmarks) != 1 {
		return figures{}, fmt.Errorf("the report of guidellm has %d benchmarks, want 1", len(file.Benchmarks))
	}
	m := file.Benchmarks[0].Metrics
	of := func(d distribution) *quantiles {
		return &quantiles{d.Successful.Percentiles["p50"] / 1000, d.Successful.Percentiles["p99"] / 1000}
	}
	sum := int(m.Tokens.Successful.Sum)
	return figures{Requests: m.Requests.Successful, TTFT: of(m.TTFT), TPOT: of(m.ITL), Tokens: &sum}, nil
}

func runAIPerf(ctx context.Context, b *bench) (result, error) {
	return b.command(
		ctx, parseAIPerf, "out/profile_export_aiperf.json", "aiperf", "profile", "--model", model, "--url", b.server.url(),
		"--endpoint-type", "chat", "--streaming", "--concurrency", strconv.Itoa(b.streams), "--request-count", strconv.Itoa(b.requests),
		"--tokenizer", tokenizerName, "--synthetic-input-tokens-mean", "64", "--output-tokens-mean", strconv.Itoa(tokens),
		"--use-legacy-max-tokens", "--artifact-dir", "out", "--ui", "none",
	)
}

func parseAIPerf(text []byte) (figures, error) {
	type metric struct{ P50, P99, Sum, Avg float64 }
	var file struct {
		Requests metric `json:"request_count"`
		TTFT     metric `json:"time_to_first_token"`
		ITL      metric `json:"inter_token_latency"`
		Gap      metric `json:"inter_chunk_latency"`
		Tokens   metric `json:"total_osl"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return figures{}, fmt.Errorf("read the report of AIPerf: %w", err)
	}
	of := func(m metric) *quantiles { return &quantiles{m.P50 / 1000, m.P99 / 1000} }
	sum := int(file.Tokens.Avg)
	return figures{Requests: int(file.Requests.Avg), TTFT: of(file.TTFT), TPOT: of(file.ITL), Gap: of(file.Gap), Tokens: &sum}, nil
}

func runVLLM(ctx context.Context, b *bench) (result, error) {
	return b.command(
		ctx, parseVLLM, "out.json", "vllm", "bench", "serve", "--backend", "openai-chat", "--base-url", b.server.url(),
		"--endpoint", "/v1/chat/completions", "--model", model, "--tokenizer", tokenizerName, "--dataset-name", "random",
		"--random-input-len", "64", "--random-output-len", strconv.Itoa(tokens), "--num-prompts", strconv.Itoa(b.requests),
		"--max-concurrency", strconv.Itoa(b.streams), "--percentile-metrics", "ttft,tpot,itl", "--metric-percentiles", "50,99",
		"--save-result", "--result-filename", "out.json", "--disable-tqdm",
	)
}

func parseVLLM(text []byte) (figures, error) {
	var file struct {
		Completed int     `json:"completed"`
		Tokens    int     `json:"total_output_tokens"`
		TTFT50    float64 `json:"p50_ttft_ms"`
		TTFT99    float64 `json:"p99_ttft_ms"`
		TPOT50    float64 `json:"p50_tpot_ms"`
		TPOT99    float64 `json:"p99_tpot_ms"`
		ITL50     float64 `json:"p50_itl_ms"`
		ITL99     float64 `json:"p99_itl_ms"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return figures{}, fmt.Errorf("read the result of vllm bench serve: %w", err)
	}
	return figures{
		Requests: file.Completed, Tokens: &file.Tokens,
		TTFT: &quantiles{file.TTFT50 / 1000, file.TTFT99 / 1000},
		TPOT: &quantiles{file.TPOT50 / 1000, file.TPOT99 / 1000},
		Gap:  &quantiles{file.ITL50 / 1000, file.ITL99 / 1000},
	}, nil
}

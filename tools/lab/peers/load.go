package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/inference-exporter/inference_exporter/tools/lab/process"
)

// loadFile has the figures of load tools on real servers.
const loadFile = "load.json"

// What each user of a load asks for, and for how long.
const (
	loadSeconds = 25
	loadInput   = 256
	loadOutput  = 16
)

// loadServer is a server of tools/lab/real that each load tool asks as so many users at once, one number after the other.
type loadServer struct {
	name, title string
	users       []int
	page        bool // it shows the requests that wait
}

func loadServers() []loadServer {
	return []loadServer{
		{"vllm", "vLLM 0.32.0 on CPU, which runs four requests at once", []int{4, 8}, true},
		{"llama-cpp-python", "llama-cpp-python 0.3.36, which runs one request at once", []int{4}, false},
	}
}

// loadRow is what one tool measured of one server with so many users. Latencies are in seconds.
type loadRow struct {
	Server          string             `json:"server"`
	Tool            string             `json:"tool"`
	Version         string             `json:"version,omitempty"`
	Users           int                `json:"users"`
	Requests        float64            `json:"requests"`
	TTFT            map[string]between `json:"ttft,omitempty"`
	TPOT            map[string]between `json:"tpot,omitempty"`
	TokensPerSecond float64            `json:"output_tokens_per_second"`
	Cost            cost               `json:"cost"`
	Error           string             `json:"error,omitempty"`
}

// between is a quantile and the bounds that the tool states of it, with 95 % confidence; nil where it states none.
type between struct {
	Value float64  `json:"value"`
	Lower *float64 `json:"lower,omitempty"`
	Upper *float64 `json:"upper,omitempty"`
}

// loadEvidence is what was measured of all servers on one machine.
type loadEvidence struct {
	Date    string    `json:"date"`
	Machine string    `json:"machine"`
	Rows    []loadRow `json:"rows"`
}

// loadTool is how a tool is asked for a load, and where its report has the figures: paths of keys and indices, in which
// %s is a quantile such as p99. All but requests and speed are in units of which so many are a second.
type loadTool struct {
	name                         string
	argv                         func(l *lab, r *loadRun) []string
	file                         string
	unit                         float64
	requests, speed              string
	ttft, tpot, lowerOf, upperOf string // the last two follow the path of a latency without its last part
}

// loadRun is one run of a load tool.
type loadRun struct {
	url     string
	users   int
	prompts int // that suffice for the time, for a tool that takes no time
	page    bool
}

func loadTools() []loadTool {
	return []loadTool{
		{
			name: "inference_exporter", file: "out.json", unit: 1,
			requests: "load_test.levels.0.requests", speed: "load_test.levels.0.output_tokens_per_second",
			ttft: "load_test.levels.0.ttft_seconds.%s.value", tpot: "load_test.levels.0.tpot_seconds.%s.value", lowerOf: "lower", upperOf: "upper",
			argv: func(l *lab, r *loadRun) []string {
				argv := []string{
					l.exporter, "load", r.url, "--api=openai-chat", "--model=first", "--users=" + strconv.Itoa(r.users), fmt.Sprintf("--for=%ds", loadSeconds),
					"--input-tokens=" + strconv.Itoa(loadInput), "--output-tokens=" + strconv.Itoa(loadOutput), "--output=json",
				}
				if !r.page {
					argv = append(argv, "--without-page")
				}
				return argv
			},
		},
		{
			name: "AIPerf", file: "out/profile_export_aiperf.json", unit: 1000,
			requests: "request_count.avg", speed: "output_token_throughput.avg", ttft: "time_to_first_token.%s", tpot: "inter_token_latency.%s",
			argv: func(_ *lab, r *loadRun) []string {
				return []string{
					"aiperf", "profile", "--model", "first", "--url", r.url, "--endpoint-type", "chat", "--streaming", "--concurrency", strconv.Itoa(r.users),
					"--benchmark-duration", strconv.Itoa(loadSeconds), "--num-dataset-entries", "2000", "--tokenizer", realName, "--synthetic-input-tokens-mean", strconv.Itoa(loadInput),
					"--output-tokens-mean", strconv.Itoa(loadOutput), "--extra-inputs", "ignore_eos:true", "--use-legacy-max-tokens", "--artifact-dir", "out", "--ui", "none",
				}
			},
		},
		{
			name: "guidellm", file: "out.json", unit: 1000,
			requests: "benchmarks.0.metrics.request_totals.successful", speed: "benchmarks.0.metrics.output_tokens_per_second.successful.mean",
			ttft: "benchmarks.0.metrics.time_to_first_token_ms.successful.percentiles.%s", tpot: "benchmarks.0.metrics.inter_token_latency_ms.successful.percentiles.%s",
			argv: func(_ *lab, r *loadRun) []string {
				return []string{
					"guidellm", "run", "--disable-console", "--backend", "kind=openai_http,validate_backend=false,target=" + r.url + ",model=first",
					"--profile", fmt.Sprintf("kind=concurrent,streams=%d", r.users), "--constraint", fmt.Sprintf("kind=max_duration,seconds=%d", loadSeconds),
					"--data", fmt.Sprintf("kind=synthetic_text,prompt_tokens=%d,output_tokens=%d", loadInput, loadOutput),
					"--tokenizer", "kind=hf_auto,model=" + realName, "--output", "kind=json,path=out.json",
				}
			},
		},
		{
			name: "vllm bench serve", file: "out.json", unit: 1000,
			requests: "completed", speed: "output_throughput", ttft: "%s_ttft_ms", tpot: "%s_tpot_ms",
			argv: func(_ *lab, r *loadRun) []string {
				return []string{
					"vllm", "bench", "serve", "--backend", "openai-chat", "--base-url", r.url, "--endpoint", "/v1/chat/completions", "--model", "first",
					"--tokenizer", realName, "--dataset-name", "random", "--random-input-len", strconv.Itoa(loadInput), "--random-output-len", strconv.Itoa(loadOutput),
					"--ignore-eos", "--seed", strconv.Itoa(r.users), "--num-prompts", strconv.Itoa(r.prompts), "--max-concurrency", strconv.Itoa(r.users), "--percentile-metrics", "ttft,tpot",
					"--metric-percentiles", "50,90,99", "--save-result", "--result-filename", "out.json", "--disable-tqdm",
				}
			},
		},
	}
}

// load measures the servers of these names with the tools of these names, all if there is none, and keeps what is known
// of the others. The document is written by run.
func load(ctx context.Context, names, tools string) error {
	l, err := newLab(ctx)
	if err != nil {
		return err
	}
	var e loadEvidence
	if err := readJSON(loadFile, &e); err != nil {
		return err
	}
	for _, s := range loadServers() {
		if !slices.Contains(strings.Split(names, ","), s.name) {
			continue
		}
		rows, err := l.loadServer(ctx, s, tools)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		e.put(rows)
		e.Date, e.Machine = time.Now().UTC().Format(time.DateOnly), fmt.Sprintf("%s/%s, %d processors", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
		if err := writeJSON(loadFile, e); err != nil {
			return err
		}
	}
	return run(ctx, "", "", false, true)
}

// put replaces what is known of the same tools, servers and users; rows are in the order of the table.
func (e *loadEvidence) put(rows []loadRow) {
	for _, r := range rows {
		e.Rows = append(slices.DeleteFunc(e.Rows, func(o loadRow) bool { return o.Server == r.Server && o.Tool == r.Tool && o.Users == r.Users }), r)
	}
	order := func(r loadRow) int {
		server := slices.IndexFunc(loadServers(), func(s loadServer) bool { return s.name == r.Server })
		tool := slices.IndexFunc(loadTools(), func(t loadTool) bool { return t.name == r.Tool })
		return (server*10_000+r.Users)*10 + tool
	}
	slices.SortFunc(e.Rows, func(a, b loadRow) int { return order(a) - order(b) })
}

// loadServer runs tools against one server, which is started for them.
func (l *lab) loadServer(ctx context.Context, s loadServer, tools string) (rows []loadRow, err error) {
	directory, real := filepath.Join(l.root, "tools", "lab", "real"), filepath.Join(l.work, "real")
	if err := l.command(ctx, directory, "go", "build", "-o", real, "."); err != nil {
		return nil, err
	}
	server := append(onHalf(0), real, "-serve", s.name)
	p, err := process.Start(context.WithoutCancel(ctx), process.Options{Dir: directory, Log: filepath.Join(l.work, "real.log")}, server[0], server[1:]...)
	if err != nil {
		return nil, err
	}
	defer p.Stop()
	url, err := p.Find(ctx, regexp.MustCompile(`(?m)^(http://\S+)$`))
	if err != nil {
		return nil, err
	}
	if err := l.cacheReal(); err != nil {
		return nil, err
	}
	for _, users := range s.users {
		run := &loadRun{url: url, users: users, page: s.page, prompts: 100 * users}
		for _, t := range loadTools() {
			if tools != "" && !slices.Contains(strings.Split(tools, ","), t.name) {
				continue
			}
			r := loadRow{Server: s.name, Tool: t.name, Users: users}
			if err := l.loadOnce(ctx, &t, run, &r); err != nil {
				r.Error = err.Error()
			}
			if t.name == "inference_exporter" && r.Requests > 0 {
				run.prompts = int(r.Requests)
			}
			fmt.Printf("%+v\n", r)
			rows = append(rows, r)
		}
	}
	return rows, ctx.Err()
}

// onHalf starts what runs a command on the first or on the second half of the processors: a server that computes on all of
// them would leave none to the tool.
func onHalf(which int) []string {
	n := runtime.NumCPU() / 2
	return []string{"taskset", "--cpu-list", fmt.Sprintf("%d-%d", which*n, (which+1)*n-1)}
}

// realName is that of the model of the real servers in the lab's cache.
const realName = "peers/real"

// cacheReal puts the tokenizer of the real servers' model into the cache.
func (l *lab) cacheReal() error {
	files := map[string]any{}
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json", "config.json"} {
		var content json.RawMessage
		if err := readJSON(filepath.Join(l.root, ".tools", "real", "models", "hf", name), &content); err != nil {
			return err
		}
		files[name] = content
	}
	return cacheModel(l.cache(), realName, files)
}

// loadOnce runs one tool, and reads its report.
func (l *lab) loadOnce(ctx context.Context, t *loadTool, run *loadRun, r *loadRow) error {
	tools := toolList()
	of := tools[slices.IndexFunc(tools, func(o tool) bool { return o.name == t.name })]
	r.Version = of.version
	bin, err := l.install(ctx, of)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(l.work, "load")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	argv := t.argv(l, run)
	if t.name == "inference_exporter" { // its report is its output
		argv = append([]string{"sh", "-c", `"$@" >` + t.file, "sh"}, argv...)
	} else {
		argv[0] = filepath.Join(bin, argv[0])
	}
	argv = append(onHalf(1), argv...)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	p, err := start(ctx, dir, append(l.env(), "VLLM_NO_USAGE_STATS=1"), argv)
	if err != nil {
		return err
	}
	if r.Cost, err = p.wait(); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, t.file))
	if err != nil {
		return err
	}
	return t.read(text, r)
}

// read takes the figures from a report.
func (t *loadTool) read(text []byte, r *loadRow) (err error) {
	var report any
	if err := json.Unmarshal(text, &report); err != nil {
		return fmt.Errorf("read the report: %w", err)
	}
	number := func(path string) float64 {
		v, ok := lookup(report, path)
		if !ok {
			err = errors.Join(err, fmt.Errorf("the report has no %s", path))
		}
		return v
	}
	r.Requests, r.TokensPerSecond = number(t.requests), number(t.speed)
	r.TTFT, r.TPOT = map[string]between{}, map[string]between{}
	for _, q := range []string{"p50", "p90", "p99"} {
		for path, into := range map[string]map[string]between{t.ttft: r.TTFT, t.tpot: r.TPOT} {
			path = strings.Replace(path, "%s", q, 1)
			var b between
			base := path[:strings.LastIndexByte(path, '.')+1]
			if v, ok := lookup(report, base+t.lowerOf); ok {
				b.Lower = new(v / t.unit)
			}
			if v, ok := lookup(report, base+t.upperOf); ok {
				b.Upper = new(v / t.unit)
			}
			if _, ok := lookup(report, path); ok || b.Lower == nil { // ours has the bound alone where requests are few
				b.Value = number(path) / t.unit
			}
			into[q] = b
		}
	}
	if r.Requests == 0 {
		err = errors.Join(err, errors.New("no request succeeded"))
	}
	return err
}

// lookup returns the number at a path of keys and indices, with dots between them.
func lookup(v any, path string) (float64, bool) {
	for key := range strings.SplitSeq(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			v = at[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(at) {
				return 0, false
			}
			v = at[i]
		}
	}
	n, ok := v.(float64)
	return n, ok && !math.IsNaN(n)
}

// The tables of loads are between these lines of the document.
const (
	beginLoad = "<!-- tables of tools/lab/peers: go run . -load -->\n"
	endLoad   = "<!-- end of the tables of loads -->\n"
)

// loadTables are the tables of loads of the document.
func loadTables(e loadEvidence) string {
	if len(e.Rows) == 0 {
		return "Not measured yet.\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Measured on %s on %s, %d s each, prompts of %d and answers of %d tokens. Times are in ms, in brackets the bounds that a tool\nstates with 95 %% confidence.\n",
		e.Date, e.Machine, loadSeconds, loadInput, loadOutput)
	for _, s := range loadServers() {
		fmt.Fprintf(&b, "\n%s:\n\n| users | tool | requests | TTFT p50 | TTFT p90 | TTFT p99 | TPOT p50 | TPOT p99 | tokens/s | CPU | memory |\n", s.title)
		b.WriteString("| ---: | --- | ---: | --- | --- | --- | --- | --- | ---: | ---: | ---: |\n")
		for _, r := range e.Rows {
			switch {
			case r.Server != s.name:
			case r.Error != "":
				fmt.Fprintf(&b, "| %d | %s | not measured: %s | | | | | | | | |\n", r.Users, strings.TrimSpace(r.Tool+" "+r.Version), r.Error)
			default:
				fmt.Fprintf(&b, "| %d | %s | %.0f | %s | %s | %s | %s | %s | %.0f | %.1f s | %s MB |\n", r.Users, strings.TrimSpace(r.Tool+" "+r.Version), r.Requests,
					r.TTFT["p50"], r.TTFT["p90"], r.TTFT["p99"], r.TPOT["p50"], r.TPOT["p99"], r.TokensPerSecond, r.Cost.CPU.Seconds(), megabytes(r.Cost.Memory))
			}
		}
	}
	return b.String()
}

// String is in milliseconds, with the bounds where there are any.
func (b between) String() string {
	ms := func(v float64) string { return strconv.FormatFloat(1000*v, 'g', 3, 64) }
	text := ms(b.Value)
	if b.Value == 0 {
		text = none
	}
	if b.Lower != nil && b.Upper != nil {
		text += fmt.Sprintf(" (%s to %s)", ms(*b.Lower), ms(*b.Upper))
	}
	return text
}

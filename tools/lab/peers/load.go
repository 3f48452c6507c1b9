package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
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

// What each user of a load asks for, and for how long. Answers are of loadOutput tokens, or of loadLeast to loadMost with the same mean.
const (
	loadSeconds         = 15
	loadRise            = loadSeconds / 10. // of this exporter's load, and of users where a tool can
	loadInput           = 256
	loadOutput          = 16
	loadLeast, loadMost = 9, 23
	// What the server counts of a prompt beside what a tool is asked for: of the chat template, of what guidellm puts before each
	// prompt, and of this exporter, which learns the template by itself and stays a little below.
	templateTokens, guidellmTokens, ownTokens = 3, 3, -3
)

// loadServer is a server of tools/lab/real that each load tool asks, one load after the other.
type loadServer struct {
	name, title string
	loads       []loadOf
	page        bool // it shows the requests that wait
}

// loadOf is a closed loop of so many users without think time, or an open loop.
type loadOf struct {
	// Users start one after the other over the first tenth of the time; those of vllm bench serve at once.
	Users int `json:"users,omitempty"`
	// Rate is requests per second, the times between them exponentially distributed.
	Rate float64 `json:"rate,omitempty"`
	// Mixed is that answers are of many lengths.
	Mixed bool `json:"mixed,omitempty"`
}

func loadServers() []loadServer {
	return []loadServer{
		{"vllm", "vLLM 0.32.0 on CPU, which runs four requests at once", []loadOf{{Rate: 7}, {Users: 8, Mixed: true}}, true},
		{"llama-cpp-python", "llama-cpp-python 0.3.36, which runs one request at once", []loadOf{{Users: 4}}, false},
	}
}

// loadRow is what one tool measured of one load of a server, once in each round.
type loadRow struct {
	Server  string `json:"server"`
	Tool    string `json:"tool"`
	Version string `json:"version,omitempty"`
	loadOf
	Runs  []loadFigures `json:"runs,omitempty"`
	Error string        `json:"error,omitempty"`
}

// loadFigures are those of one run. Latencies are in seconds.
type loadFigures struct {
	Requests        float64            `json:"requests"`
	TTFT            map[string]between `json:"ttft"`
	TPOT            map[string]between `json:"tpot"`
	MeanTTFT        float64            `json:"mean_ttft"`
	MeanTPOT        float64            `json:"mean_tpot"`
	TokensPerSecond float64            `json:"output_tokens_per_second"`
	Cost            cost               `json:"cost"`
	Served          *served            `json:"served,omitempty"`
}

// served is what the server's own page counted during a run: tokens of a request on average, how many requests it
// prefilled in one step where it did any, and the means of its histograms in seconds. Of this exporter it is
// from when its load had risen on, as its figures are.
type served struct {
	Prompt   float64 `json:"prompt_tokens"`
	Cached   float64 `json:"cached_tokens"`
	Output   float64 `json:"output_tokens"`
	Together float64 `json:"prefilled_together"`
	TTFT     float64 `json:"mean_ttft"`
	TPOT     float64 `json:"mean_tpot"`
	ITL      float64 `json:"mean_itl"` // of the gaps between tokens
}

// alike reports whether a run put the same load on the server by its page: prompts within 3 % of the length asked for, at most a
// tenth of them cached, and answers within 8 % of theirs (three standard errors of 130 mixed lengths).
func (f loadFigures) alike() bool {
	s := f.Served
	near := func(v, want, share float64) bool { return math.Abs(v-want) <= share*want }
	return f.Requests > 0 && (s == nil || near(s.Prompt, loadInput, 0.03) && s.Cached <= s.Prompt/10 && near(s.Output, loadOutput, 0.08))
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
// %s is a quantile such as p99. Latencies are in units of which so many are a second.
type loadTool struct {
	name                         string
	argv                         func(l *lab, r *loadRun) []string
	file                         string
	unit                         float64
	requests, speed              string
	meanTTFT, meanTPOT           string
	ttft, tpot, lowerOf, upperOf string // the last two follow the path of a latency without its last part
}

// loadRun is one run of a load tool.
type loadRun struct {
	url string
	loadOf
	prompts int // that suffice for the time, for a tool that takes no time
	page    bool
	seed    int64 // another for each run, so that no prompt is in a cache
}

// loop returns what a tool is given for the load: by a form of the users, or by one of the rate.
func (r *loadRun) loop(users, rate string) string {
	if r.Rate > 0 {
		return fmt.Sprintf(rate, r.Rate)
	}
	return fmt.Sprintf(users, r.Users)
}

// output returns what a tool is given for the lengths of answers: by one form, or of many by another.
func (r *loadRun) output(one, many string) string {
	if r.Mixed {
		return many
	}
	return one
}

// oneWorker lets guidellm send from one process: each of several draws the same times between requests, so that ten requests in turn
// come after the same time.
const oneWorker = "GUIDELLM__MAX_WORKER_PROCESSES=1"

// watching is this exporter when it reads the page of the server meanwhile, as it does unless told otherwise.
const watching = "inference_exporter watching the page"

// own is this exporter.
func own(name string, flags ...string) loadTool {
	return loadTool{
		name: name, file: "out.json", unit: 1,
		requests: "load_test.levels.0.requests", speed: "load_test.levels.0.output_tokens_per_second",
		meanTTFT: "load_test.levels.0.ttft_seconds.mean", meanTPOT: "load_test.levels.0.tpot_seconds.mean",
		ttft: "load_test.levels.0.ttft_seconds.%s.value", tpot: "load_test.levels.0.tpot_seconds.%s.value", lowerOf: "lower", upperOf: "upper",
		argv: func(l *lab, r *loadRun) []string {
			return append([]string{
				l.exporter, "load", r.url, "--api=openai-chat", "--model=first", r.loop("--users=%d", "--rate=%g"), fmt.Sprintf("--for=%ds", loadSeconds),
				"--input-tokens=" + strconv.Itoa(loadInput-ownTokens), "--output-tokens=" + r.output(strconv.Itoa(loadOutput), "{"+eachLength("%d: 1", ", ")+"}"), "--output=json",
			}, flags...)
		},
	}
}

func (t *loadTool) own() bool { return strings.HasPrefix(t.name, "inference_exporter") }

func loadTools() []loadTool {
	return []loadTool{
		own("inference_exporter", "--without-page"),
		own(watching),
		{
			name: "AIPerf", file: "out/profile_export_aiperf.json", unit: 1000,
			requests: "request_count.avg", speed: "output_token_throughput.avg", meanTTFT: "time_to_first_token.avg", meanTPOT: "inter_token_latency.avg", ttft: "time_to_first_token.%s", tpot: "inter_token_latency.%s",
			argv: func(_ *lab, r *loadRun) []string {
				argv := []string{
					"aiperf", "profile", "--model", "first", "--url", r.url, "--endpoint-type", "chat", "--streaming",
					"--benchmark-duration", strconv.Itoa(loadSeconds), "--num-dataset-entries", "600", "--random-seed", strconv.FormatInt(r.seed, 10), "--tokenizer", realName,
					"--extra-inputs", "ignore_eos:true", "--use-server-token-count", "--use-legacy-max-tokens", "--artifact-dir", "out", "--ui", "none",
				}
				argv = append(argv, strings.Fields(r.loop(fmt.Sprintf("--concurrency %%d --concurrency-ramp-duration %g", loadRise), "--request-rate %g --arrival-pattern poisson"))...)
				if r.Mixed {
					pair := fmt.Sprintf("%d,%%d:%.6f", loadInput-templateTokens, 100/float64(loadMost-loadLeast+1))
					return append(argv, "--seq-dist", eachLength(pair, ";"))
				}
				return append(argv, "--synthetic-input-tokens-mean", strconv.Itoa(loadInput-templateTokens), "--output-tokens-mean", strconv.Itoa(loadOutput))
			},
		},
		{
			name: "guidellm", file: "out.json", unit: 1000,
			requests: "benchmarks.0.metrics.request_totals.successful", speed: "benchmarks.0.metrics.output_tokens_per_second.successful.mean",
			meanTTFT: "benchmarks.0.metrics.time_to_first_token_ms.successful.mean", meanTPOT: "benchmarks.0.metrics.inter_token_latency_ms.successful.mean",
			ttft: "benchmarks.0.metrics.time_to_first_token_ms.successful.percentiles.%s", tpot: "benchmarks.0.metrics.inter_token_latency_ms.successful.percentiles.%s",
			argv: func(_ *lab, r *loadRun) []string {
				return []string{
					"guidellm", "run", "--disable-console", "--backend", "kind=openai_http,validate_backend=false,target=" + r.url + ",model=first",
					"--profile", r.loop(fmt.Sprintf("kind=concurrent,streams=%%d,rampup_duration=%g", loadRise), "kind=poisson,rate=%g"), "--seed", fmt.Sprintf("kind=static,value=%d", r.seed), "--constraint", fmt.Sprintf("kind=max_duration,seconds=%d", loadSeconds),
					"--data", fmt.Sprintf("kind=synthetic_text,prompt_tokens=%d,output_tokens=%d", loadInput-templateTokens-guidellmTokens, loadOutput) +
						r.output("", fmt.Sprintf(",output_tokens_min=%d,output_tokens_max=%d", loadLeast, loadMost)),
					"--tokenizer", "kind=hf_auto,model=" + realName, "--output", "kind=json,path=out.json",
				}
			},
		},
		{
			name: "vllm bench serve", file: "out.json", unit: 1000,
			requests: "completed", speed: "output_throughput", meanTTFT: "mean_ttft_ms", meanTPOT: "mean_tpot_ms", ttft: "%s_ttft_ms", tpot: "%s_tpot_ms",
			argv: func(_ *lab, r *loadRun) []string {
				return append([]string{
					"vllm", "bench", "serve", "--backend", "openai-chat", "--base-url", r.url, "--endpoint", "/v1/chat/completions", "--model", "first",
					"--tokenizer", realName, "--dataset-name", "random", "--random-input-len", strconv.Itoa(loadInput - templateTokens), "--random-output-len", strconv.Itoa(loadOutput),
					"--random-range-ratio", r.output("0", fmt.Sprintf(`{"input": 0, "output": %g}`, float64(loadOutput-loadLeast)/loadOutput)), "--ignore-eos", "--seed", strconv.FormatInt(r.seed, 10), "--num-prompts", strconv.Itoa(r.prompts), "--percentile-metrics", "ttft,tpot",
					"--metric-percentiles", "50,90,99", "--save-result", "--result-filename", "out.json", "--disable-tqdm",
				}, strings.Fields(r.loop("--max-concurrency %d", "--request-rate %g"))...)
			},
		},
	}
}

// eachLength lists all lengths of mixed answers by a form.
func eachLength(form, between string) string {
	var all []string
	for n := loadLeast; n <= loadMost; n++ {
		all = append(all, fmt.Sprintf(form, n))
	}
	return strings.Join(all, between)
}

// load measures the servers of these names with the tools of these names, all if there is none, in so many rounds, and keeps
// what is known of the others. The document is written by run.
func load(ctx context.Context, names, tools, at string, rounds int) error {
	l, err := newLab(ctx)
	if err != nil {
		return err
	}
	var e loadEvidence
	if err := readJSON(loadFile, &e); err != nil {
		return err
	}
	for _, s := range loadServers() {
		if slices.Contains(strings.Split(names, ","), s.name) {
			if err := l.loadServer(ctx, s, tools, at, rounds, &e); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	return run(ctx, "", "", false, true)
}

// put replaces what is known of the same tools, servers and loads; rows are in the order of the table.
func (e *loadEvidence) put(rows []loadRow) {
	for _, r := range rows {
		e.Rows = append(slices.DeleteFunc(e.Rows, func(o loadRow) bool { return o.Server == r.Server && o.Tool == r.Tool && o.loadOf == r.loadOf }), r)
	}
	order := func(r loadRow) int {
		server := slices.IndexFunc(loadServers(), func(s loadServer) bool { return s.name == r.Server })
		load := slices.Index(loadServers()[server].loads, r.loadOf)
		tool := slices.IndexFunc(loadTools(), func(t loadTool) bool { return t.name == r.Tool })
		return (server*100+load)*100 + tool
	}
	slices.SortFunc(e.Rows, func(a, b loadRow) int { return order(a) - order(b) })
}

// serveReal starts a server of tools/lab/real, and returns its URL and what stops it.
func (l *lab) serveReal(ctx context.Context, name string) (url string, stop func(), err error) {
	directory, real := filepath.Join(l.root, "tools", "lab", "real"), filepath.Join(l.work, "real")
	if err := l.command(ctx, directory, "go", "build", "-o", real, "."); err != nil {
		return "", nil, err
	}
	argv := append(onHalf(0), real, "-serve", name)
	p, err := process.Start(context.WithoutCancel(ctx), process.Options{Dir: directory, Log: filepath.Join(l.work, "real.log")}, argv[0], argv[1:]...)
	if err != nil {
		return "", nil, err
	}
	if url, err = p.Find(ctx, regexp.MustCompile(`(?m)^(http://\S+)$`)); err != nil {
		p.Stop()
	}
	return url, p.Stop, err
}

// loadServer measures each load of a server, which is started for it unless it runs.
func (l *lab) loadServer(ctx context.Context, s loadServer, tools, url string, rounds int, e *loadEvidence) error {
	if url == "" {
		var stop func()
		var err error
		if url, stop, err = l.serveReal(ctx, s.name); err != nil {
			return err
		}
		defer stop()
	}
	if err := l.cacheReal(); err != nil {
		return err
	}
	for _, load := range s.loads {
		e.put(l.loadRounds(ctx, &loadRun{url: url, loadOf: load, page: s.page, prompts: 100*load.Users + int(loadSeconds*load.Rate)}, s.name, tools, rounds))
		if ctx.Err() != nil {
			return ctx.Err()
		}
		e.Date, e.Machine = time.Now().UTC().Format(time.DateOnly), fmt.Sprintf("%s/%s, %d processors", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
		if err := writeJSON(loadFile, e); err != nil {
			return err
		}
	}
	return nil
}

// loadRounds runs all tools one after the other in each round, so that what changes on the machine meets each alike.
func (l *lab) loadRounds(ctx context.Context, run *loadRun, server, only string, rounds int) (rows []loadRow) {
	for _, t := range loadTools() {
		if only == "" || slices.Contains(strings.Split(only, ","), t.name) {
			rows = append(rows, loadRow{Server: server, Tool: t.name, loadOf: run.loadOf})
		}
	}
	for range rounds {
		for i := range rows {
			r := &rows[i]
			tools := loadTools()
			t := tools[slices.IndexFunc(tools, func(t loadTool) bool { return t.name == r.Tool })]
			f, err := l.loadOnce(ctx, &t, run, r)
			if err != nil {
				f = loadFigures{} // keeps the place of the round
				r.Error = err.Error()
				fmt.Println(run.loadOf, r.Tool, err)
			} else if t.own() && run.Rate == 0 {
				run.prompts = int(f.Requests)
			}
			fmt.Printf("%+v %s: %.0f requests, %.0f tokens/s, mean TTFT %.4f, TPOT %.4f, p50 %.4f, %.4f, served %+v, CPU %s, wall %s\n",
				run.loadOf, t.name, f.Requests, f.TokensPerSecond, f.MeanTTFT, f.MeanTPOT, f.TTFT["p50"].Value, f.TPOT["p50"].Value, f.Served, f.Cost.CPU, f.Cost.Wall)
			r.Runs = append(r.Runs, f)
		}
	}
	return rows
}

// onHalf starts what runs a command on the first or on the second half of the processors: a server that computes on all of
// them would leave none to the tool.
func onHalf(which int) []string {
	n := runtime.NumCPU() / 2
	// Each is a session, which the kernel gives a share of the processors of its own: the nice value counts only within it.
	first := `echo -19 2>/dev/null >/proc/self/autogroup; exec taskset --cpu-list "$@"`
	return []string{"sh", "-c", first, "sh", fmt.Sprintf("%d-%d", which*n, (which+1)*n-1)}
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
func (l *lab) loadOnce(ctx context.Context, t *loadTool, run *loadRun, r *loadRow) (f loadFigures, err error) {
	tools := toolList()
	of := tools[slices.IndexFunc(tools, func(o tool) bool { return strings.HasPrefix(t.name, o.name) })]
	r.Version = of.version
	bin, err := l.install(ctx, of)
	if err != nil {
		return f, err
	}
	dir, err := os.MkdirTemp(l.work, "load")
	if err != nil {
		return f, err
	}
	defer os.RemoveAll(dir)
	run.seed = time.Now().Unix()
	argv := t.argv(l, run)
	if t.own() { // its report is its output
		argv = append([]string{"sh", "-c", `"$@" >` + t.file + ` || test -s ` + t.file, "sh"}, argv...)
	} else {
		argv[0] = filepath.Join(bin, argv[0])
	}
	argv = append(onHalf(1), argv...)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	before := counters(run)
	p, err := start(ctx, dir, append(l.env(), "VLLM_NO_USAGE_STATS=1", oneWorker), argv)
	if err != nil {
		return f, err
	}
	if t.own() {
		time.Sleep(time.Duration((loadRise + 0.5) * float64(time.Second)))
		before = counters(run)
	}
	cost, err := p.wait()
	if err != nil {
		return f, err
	}
	text, err := os.ReadFile(filepath.Join(dir, t.file))
	if err != nil {
		return f, err
	}
	f, err = t.read(text)
	f.Cost, f.Served = cost, servedBetween(before, counters(run))
	return f, err
}

// counters returns the sums of the series of the server's page over all their labels, and those of buckets by their bound; nil
// where there is no page.
func counters(run *loadRun) map[string]float64 {
	if !run.page {
		return nil
	}
	response, err := http.Get(run.url + "/metrics")
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	all := map[string]float64{}
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if m := sampleLine.FindStringSubmatch(lines.Text()); m != nil {
			v, _ := strconv.ParseFloat(m[3], 64)
			all[m[1]+m[2]] += v
		}
	}
	return all
}

// sampleLine is a line of the text format: a name, the bound of a bucket, and a value.
var sampleLine = regexp.MustCompile(`^(\w+:\w+)(?:\{(?:[^}]*(le="[^"]+"))?[^}]*\})? (\S+)$`)

// servedBetween returns what a page of vLLM counted between two readings; nil where nothing.
func servedBetween(before, after map[string]float64) *served {
	of := func(name string) float64 { return after["vllm:"+name] - before["vllm:"+name] }
	n := of("request_success_total")
	if n == 0 {
		return nil
	}
	// A step with more tokens than requests can run decodes and prefills.
	prefills := of("iteration_tokens_total_count") - of(`iteration_tokens_total_bucketle="8.0"`)
	mean := func(name string) float64 { return of(name+"_sum") / of(name+"_count") }
	return &served{
		of("prompt_tokens_total") / n, of("prefix_cache_hits_total") / n, of("generation_tokens_total") / n, n / prefills,
		mean("time_to_first_token_seconds"), mean("request_time_per_output_token_seconds"), mean("inter_token_latency_seconds"),
	}
}

// read takes the figures from a report.
func (t *loadTool) read(text []byte) (f loadFigures, err error) {
	var report any
	if err := json.Unmarshal(text, &report); err != nil {
		return f, fmt.Errorf("read the report: %w", err)
	}
	number := func(path string) float64 {
		v, ok := lookup(report, path)
		if !ok {
			err = errors.Join(err, fmt.Errorf("the report has no %s", path))
		}
		return v
	}
	f = loadFigures{Requests: number(t.requests), TokensPerSecond: number(t.speed), TTFT: map[string]between{}, TPOT: map[string]between{}}
	f.MeanTTFT, f.MeanTPOT = number(t.meanTTFT)/t.unit, number(t.meanTPOT)/t.unit
	for _, q := range []string{"p50", "p90", "p99"} {
		for path, into := range map[string]map[string]between{t.ttft: f.TTFT, t.tpot: f.TPOT} {
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
	if f.Requests == 0 {
		err = errors.Join(err, errors.New("no request succeeded"))
	}
	return f, err
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

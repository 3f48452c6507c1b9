//go:build linux

package app

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/status"
)

// hourVariable is the environment variable with the duration of BenchmarkHour.
const hourVariable = "INFERENCE_EXPORTER_HOUR"

// hourModule asks as the built-in module does, for 64 tokens every 30 s.
const hourModule = "global: {interval: 30s}\nmodules: {interactive: {input_tokens: 256, output_tokens: 64}}\n"

// BenchmarkHour is a daemon with 10,000 discovered endpoints that are probed every 30 s
// for an hour, against simulated servers in processes of their own. Each minute it logs
// the daemon's memory and processor time, missed runs, how late runs began, and how far
// sampled probes are from the instants at which the servers wrote the tokens; before, the
// last of a few endpoints alone. It runs with INFERENCE_EXPORTER_HOUR=1h alone, and
// needs -benchtime 1x -timeout 2h.
func BenchmarkHour(b *testing.B) {
	text := os.Getenv(hourVariable)
	if text == "" {
		b.Skip("set " + hourVariable + "=1h: this is no benchmark to run beside others")
	}
	duration, err := time.ParseDuration(text)
	if err != nil {
		b.Fatal(err)
	}
	var servers []string
	for range 2 {
		_, server := startProgram(b, "simulate", "--web.listen-address=127.0.0.1:0", "--replicas=50", "--slots=64",
			"--decode-step=20ms", "--decode-step-per-sequence=-1ns", "--prefill-rate=1000000")
		servers = append(servers, server)
	}
	for b.Loop() {
		atRest := newHour(b, servers, 20)
		time.Sleep(time.Minute)
		errors := atRest.errors(1)
		b.Logf("at rest, 20 endpoints: %s", &errors)
		errors.report(b, "rest")

		busy := newHour(b, servers, 10_000)
		for end := time.Now().Add(duration); time.Now().Before(end); {
			time.Sleep(time.Until(busy.at.Add(time.Minute)))
			busy.minute()
		}
		busy.total.report(b, "hour")
		busy.report()
	}
	b.ReportMetric(0, "ns/op")
}

// hour watches a daemon.
type hour struct {
	b         *testing.B
	base      string
	pid       int
	endpoints int
	client    *http.Client
	at        time.Time
	began     time.Time
	seen      hourMetrics
	cpu       float64
	total     hourErrors
	memory    []float64
}

// newHour starts a daemon with endpoints at the servers in turn.
func newHour(b *testing.B, servers []string, endpoints int) *hour {
	b.Helper()
	dir := b.TempDir()
	writeTargets(b, dir, servers, endpoints)
	name := filepath.Join(dir, "exporter.yml")
	text := hourModule + `discovery: [{file_sd_configs: [{files: [targets.json]}], model: simulated-8b, api: openai-chat}]
`
	text = strings.Replace(text, "interval: 30s", "interval: 30s, limits: {in_flight_per_host: 1000}", 1)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	address := unusedAddress(b)
	daemon := launchBuilt(b, "serve", "--config.file="+name, "--web.listen-address="+address, "--log.level=error", "--no-collector.server")
	now := time.Now()
	return &hour{
		b: b, base: "http://" + address, pid: daemon.Pid, endpoints: endpoints,
		client: &http.Client{Timeout: 5 * time.Minute}, at: now, began: now,
	}
}

// minute logs the time since the latest call.
func (h *hour) minute() {
	now := time.Now()
	passed := now.Sub(h.at).Seconds()
	h.at = now
	m := h.metrics()
	scrape := time.Since(now).Seconds()
	cpu := processorTime(h.b, h.pid)
	errors := h.errors(100)
	h.total.add(&errors)
	h.memory = append(h.memory, residentMemory(h.b, h.pid))
	fmt.Fprintf(os.Stderr, "%s minute %.0f: RSS %.0f MB, heap %.0f MB, goroutines %.0f, CPU %.1f %%, probes %.1f/s, missed %s, imprecise %.0f, scrape %.1f s, lag %s, %s\n",
		now.UTC().Format("15:04:05"), now.Sub(h.began).Minutes(), h.memory[len(h.memory)-1], m.heap/1e6, m.goroutines, 100*(cpu-h.cpu)/passed,
		(m.probes-h.seen.probes)/passed, changed(h.seen.missed, m.missed), m.imprecise-h.seen.imprecise, scrape, m.lag.since(h.seen.lag), &errors)
	h.seen, h.cpu = m, cpu
}

// report reports the whole time.
func (h *hour) report() {
	h.b.Helper()
	m := h.metrics()
	var missed float64
	for _, n := range m.missed {
		missed += n
	}
	h.b.ReportMetric(slices.Max(h.memory), "MB-RSS-max")
	h.b.ReportMetric(h.memory[len(h.memory)-1], "MB-RSS-in-the-end")
	h.b.ReportMetric(missed, "missed-runs")
	h.b.ReportMetric(m.imprecise, "imprecise-probes")
	h.b.ReportMetric(m.probes, "probes")
	h.b.ReportMetric(100*processorTime(h.b, h.pid)/time.Since(h.began).Seconds(), "cpu-%")
	h.b.Logf("missed: %v, lag: %s", m.missed, m.lag)
}

// hourMetrics are those of a page that are watched.
type hourMetrics struct {
	missed                              map[string]float64 // by reason
	imprecise, goroutines, heap, probes float64
	lag                                 lagBuckets
}

// metrics reads the page line by line, as it has more than two million.
func (h *hour) metrics() hourMetrics {
	h.b.Helper()
	resp, err := h.client.Get(h.base + "/metrics")
	if err != nil {
		h.b.Fatal(err)
	}
	defer resp.Body.Close()
	m := hourMetrics{missed: map[string]float64{}, lag: lagBuckets{}}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		name, text, _ := strings.Cut(lines.Text(), " ")
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			continue
		}
		label := func() string { _, after, _ := strings.Cut(name, `="`); return strings.TrimSuffix(after, `"}`) }
		switch {
		case strings.HasPrefix(name, "inference_exporter_missed_runs_total{"):
			m.missed[label()] = value
		case strings.HasPrefix(name, "inference_exporter_schedule_lag_seconds_bucket{"):
			bound, _ := strconv.ParseFloat(label(), 64)
			m.lag[bound] = value
		case strings.HasPrefix(name, "inference_exporter_schedule_lag_seconds_count"):
			m.probes = value
		case name == "inference_exporter_imprecise_probes_total":
			m.imprecise = value
		case name == "go_goroutines":
			m.goroutines = value
		case name == "go_memstats_heap_alloc_bytes":
			m.heap = value
		}
	}
	return m
}

// changed lists what has grown.
func changed(before, after map[string]float64) string {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if n := after[name] - before[name]; n > 0 {
			all = append(all, fmt.Sprintf("%s %.0f", name, n))
		}
	}
	if all == nil {
		return "none"
	}
	return strings.Join(all, ", ")
}

// lagBuckets are cumulative counts by upper bound.
type lagBuckets map[float64]float64

// since returns what was counted after an earlier reading.
func (l lagBuckets) since(before lagBuckets) lagBuckets {
	counted := lagBuckets{}
	for bound, n := range l {
		counted[bound] = n - before[bound]
	}
	return counted
}

// String returns below which bounds the median, and all but a hundredth, are.
func (l lagBuckets) String() string {
	bound := func(share float64) float64 {
		for _, b := range slices.Sorted(maps.Keys(l)) {
			if l[b] >= share*l[math.Inf(1)] {
				return b
			}
		}
		return math.Inf(1)
	}
	return fmt.Sprintf("p50 <= %g s, p99 <= %g s", bound(0.5), bound(0.99))
}

// hourErrors are errors in microseconds.
type hourErrors struct{ ttft, gap []float64 }

func (e *hourErrors) add(more *hourErrors) {
	e.ttft, e.gap = append(e.ttft, more.ttft...), append(e.gap, more.gap...)
}

// quantiles returns the median and the 99th percentile.
func quantiles(v []float64) (p50, p99 float64) {
	if len(v) == 0 {
		return math.NaN(), math.NaN()
	}
	slices.Sort(v)
	return v[len(v)/2], v[len(v)*99/100]
}

func (e *hourErrors) String() string {
	t50, t99 := quantiles(e.ttft)
	g50, g99 := quantiles(e.gap)
	return fmt.Sprintf("errors of %d probes: TTFT p50 %.0f us, p99 %.0f us, gaps p50 %.0f us, p99 %.0f us", len(e.ttft), t50, t99, g50, g99)
}

func (e *hourErrors) report(b *testing.B, when string) {
	b.Helper()
	for name, v := range map[string][]float64{"ttft": e.ttft, "gap": e.gap} {
		p50, p99 := quantiles(v)
		b.ReportMetric(p50, when+"-"+name+"-p50-us")
		b.ReportMetric(p99, when+"-"+name+"-p99-us")
	}
}

// errors compares the latest probe of one in so many endpoints with what its server
// still knows of it.
func (h *hour) errors(oneIn int) (e hourErrors) {
	h.b.Helper()
	for i := rand.IntN(oneIn); i < h.endpoints; i += oneIn {
		var d status.Detail
		if !h.json(fmt.Sprintf("%s/api/v1/endpoints/endpoint-%05d", h.base, i), &d) || len(d.Series) == 0 || len(d.Series[0].Probes) == 0 {
			continue
		}
		probe := d.Series[0].Probes[0]
		var truth simulator.Record
		if probe.Outcome != result.Success || probe.Clock != result.ClockKernel || probe.Imprecise || !h.json(d.URL+"/simulator/requests/"+probe.TraceID, &truth) {
			continue
		}
		e.compare(probe, &truth)
	}
	return e
}

// json gets a document; false where there is none.
func (h *hour) json(url string, v any) bool {
	resp, err := h.client.Get(url)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK && json.NewDecoder(resp.Body).Decode(v) == nil
}

// compare adds the errors of a probe. Its first token came so long after its start, whose
// place in time is that of the request.
func (e *hourErrors) compare(probe *result.Document, truth *simulator.Record) {
	var written []int64
	for _, event := range truth.Events {
		if event.Tokens > 0 {
			written = append(written, event.At.UnixNano())
		}
	}
	if len(written) == 0 || len(written) != len(probe.Events) {
		return
	}
	at := func(i int) float64 { return float64(probe.Time.UnixNano()-written[0]) + 1e9*probe.Events[i].At }
	e.ttft = append(e.ttft, math.Abs(at(0))/1e3)
	for i := 1; i < len(written); i++ {
		if !probe.Events[i].Merged && !probe.Events[i-1].Merged {
			e.gap = append(e.gap, math.Abs(at(i)-at(i-1)-float64(written[i]-written[i-1]))/1e3)
		}
	}
}

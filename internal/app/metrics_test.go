package app

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

var update = flag.Bool("update", false, "rewrite golden files")

// startProbing runs the daemon against a healthy and a refusing endpoint. It
// returns the first page that shows all of both.
func startProbing(t *testing.T) (p *program, server string, text []byte) {
	t.Helper()
	o := testlab.Quick()
	// The parts of TTFT are absent where the server's own exceed it by a twentieth, as they do
	// on a busy machine when all of them are a few milliseconds.
	o.FixedDelay = 100 * time.Millisecond
	server = testlab.Serve(t, simulator.New(o).Handler())
	// What there is of GPUs is up to the machine.
	p = start(t, "--web.listen-address=127.0.0.1:0", "--no-collector.gpu", "--config.file="+writeFile(t, "exporter.yml", fmt.Sprintf(`
global:
  interval: 500ms
  timeout: 10s
  labels: {location: fra1, team: none}
modules:
  interactive: {input_tokens: 64, output_tokens: 8}
  chat: {input_tokens: 64, output_tokens: 8, prefix: warm, connection: reuse}
endpoints:
  - name: healthy
    url: %[1]s
    modules: [interactive, chat]
    labels: {team: search}
    servers: {interval: 1s}
    hardware: {gpu: H100 SXM, weights: 16GB}
    slo: {ttft: 500ms, tpot: 50ms, e2e: 20s}
  - name: refusing
    url: %[1]s/fault/status_503/v1
    servers: {find: false}
`, server)))
	_, text = p.waitFor("probes of both endpoints", func(got metricsPage) bool {
		for _, module := range []string{"interactive", "chat"} {
			// The last gauge of a success: it needs a TPOT.
			if !got.Has("inference_probe_last_output_tokens_per_second", "endpoint", "healthy", "module", module) {
				return false
			}
		}
		for _, family := range []string{"inference_server_prefix_cache_hit_ratio", "inference_endpoint_ttft_overhead_seconds", "inference_endpoint_ttft_part_seconds"} {
			if !got.Has(family) { // these need several readings of the server's page
				return false
			}
		}
		return got.Sum("inference_probe_results_total", "endpoint", "refusing", "outcome", "overloaded") > 0
	})
	return p, server, text
}

// The golden file has every series and no value that the clock decides.
func TestMetricsGolden(t *testing.T) {
	t.Parallel()
	_, server, text := startProbing(t)
	got := maskPage(string(text), server)
	const file = "testdata/metrics.golden"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("the page is not %s (-want +got); -update rewrites it:\n%s", file, diff)
	}
}

// maskPage leaves out the families of the runtime, the median of the window, which needs ten probes that a slow machine may
// have made, and stalls, which one that is busy causes; it masks addresses and all values but those of descriptions.
func maskPage(text, server string) string {
	u, _ := url.Parse(server)
	text = strings.ReplaceAll(text, u.Host, "127.0.0.1:PORT")
	foreign := regexp.MustCompile(`^(# \w+ )?(go|process|inference_probe_stalls)_|stat="p50"`)
	description := regexp.MustCompile(`^\w+_info\{`)
	build := regexp.MustCompile(`^(inference_exporter_build_info)\{.*\}`)
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case foreign.MatchString(line):
			continue
		case strings.HasPrefix(line, "#"):
		case description.MatchString(line):
			line = build.ReplaceAllString(line, "$1{...}")
		default:
			line = line[:strings.LastIndexByte(line, ' ')] + " #"
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// The rules are those of promtool check metrics.
func TestMetricsLint(t *testing.T) {
	t.Parallel()
	_, _, text := startProbing(t)
	problems, err := promlint.New(bytes.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}

// Accept headers of Prometheus 3: without and with native histograms.
const (
	acceptsText = `application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,` +
		`application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,` +
		`text/plain;version=0.0.4;q=0.2,*/*;q=0.1`
	acceptsProto = `application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,` + acceptsText
)

func TestMetricsFormats(t *testing.T) {
	t.Parallel()
	p, _, _ := startProbing(t)
	f := func(accept string, want expfmt.FormatType, parse func([]byte) metricsPage) {
		t.Helper()
		resp, body := p.get("/metrics", "Accept", accept)
		if got := expfmt.Format(resp.Header.Get("Content-Type")).FormatType(); got != want {
			t.Errorf("Accept %q: content type %q", accept, resp.Header.Get("Content-Type"))
			return
		}
		got := parse(body)
		for _, module := range []string{"interactive", "chat"} {
			if !got.Has("inference_probe_ttft_seconds", "endpoint", "healthy", "module", module, "model", "simulated-8b", "team", "search") {
				t.Errorf("Accept %q: no TTFT of the module %s", accept, module)
			}
		}
		if !got.Has("go_goroutines") {
			t.Errorf("Accept %q: nothing of the registry", accept)
		}
	}
	text := func(b []byte) metricsPage { return testlab.ParsePage(t, b) }
	f("", expfmt.TypeTextPlain, text)
	f("text/html", expfmt.TypeTextPlain, text)
	f(acceptsText, expfmt.TypeOpenMetrics, func(b []byte) metricsPage { return parseOpenMetrics(t, b) })
	f(acceptsProto, expfmt.TypeProtoDelim, func(b []byte) metricsPage {
		got := parseProto(t, b)
		if h := got["inference_probe_ttft_seconds"].GetMetric()[0].GetHistogram(); h.Schema == nil || len(h.Bucket) == 0 {
			t.Error("the histogram is not native and classic at once")
		}
		return got
	})
}

var (
	exemplar = regexp.MustCompile(`(?m)^([^#\n].*) # \{trace_id="[0-9a-f]{32}"\} \S+ \S+$`)
	// Without its suffix the counter go_memstats_alloc_bytes_total has the name
	// of a gauge beside it.
	runtimeComment = regexp.MustCompile(`(?m)^# \w+ go_.*\n`)
)

// parseOpenMetrics reads what the format has in common with the older text
// format.
func parseOpenMetrics(t *testing.T, text []byte) metricsPage {
	t.Helper()
	if !bytes.HasSuffix(text, []byte("\n# EOF\n")) {
		t.Error("an OpenMetrics page without its end")
	}
	if !exemplar.Match(text) {
		t.Error("an OpenMetrics page without an exemplar")
	}
	text = exemplar.ReplaceAll(text, []byte("$1"))
	return testlab.ParsePage(t, runtimeComment.ReplaceAll(text, nil))
}

func parseProto(t *testing.T, body []byte) metricsPage {
	t.Helper()
	got := metricsPage{}
	decoder := expfmt.NewDecoder(bytes.NewReader(body), expfmt.NewFormat(expfmt.TypeProtoDelim))
	for {
		f := &dto.MetricFamily{}
		err := decoder.Decode(f)
		if errors.Is(err, io.EOF) {
			return got
		}
		if err != nil {
			t.Fatal(err)
		}
		got[f.GetName()] = f
	}
}

func TestMetricsCompression(t *testing.T) {
	t.Parallel()
	p, _, _ := startProbing(t)
	f := func(accept, want string, unpack func(io.Reader) (io.Reader, error)) {
		t.Helper()
		resp, body := p.get("/metrics", "Accept-Encoding", accept)
		if got := resp.Header.Get("Content-Encoding"); got != want || resp.StatusCode != http.StatusOK {
			t.Errorf("Accept-Encoding %q: status %d, encoding %q, want %q", accept, resp.StatusCode, got, want)
			return
		}
		r, err := unpack(bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if !testlab.ParsePage(t, text).Has("inference_endpoint_info") || want != "" && len(body) > len(text)/3 {
			t.Errorf("Accept-Encoding %q: %d bytes for a page of %d", accept, len(body), len(text))
		}
	}
	plain := func(r io.Reader) (io.Reader, error) { return r, nil }
	f("identity", "", plain)
	f("br", "", plain)
	f("gzip", "gzip", func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) })
	f("zstd", "zstd", func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r, zstd.WithDecoderConcurrency(1)) })
}

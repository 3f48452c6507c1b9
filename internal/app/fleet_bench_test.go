//go:build linux

package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/inference-exporter/inference_exporter/internal/status"
)

// BenchmarkFleet is a daemon with 10,000 discovered endpoints, each with several
// results: its resident memory, and how long a scrape, the table of the status page
// as JSON, and reloads take: one that changes nothing and one that changes every
// endpoint, whose processor time includes that of the probes beside it.
func BenchmarkFleet(b *testing.B) {
	endpoints, interval, settles := 10_000, "30s", 10*time.Second
	if testing.Short() {
		endpoints, interval, settles = 100, "1s", 0
	}
	_, server := startProgram(b, "simulate", "--web.listen-address=127.0.0.1:0", "--replicas=8", "--slots=64",
		"--decode-step=1ms", "--decode-step-per-sequence=-1ns", "--prefill-rate=10000000")
	dir := b.TempDir()
	writeTargets(b, dir, []string{server}, endpoints)
	name := filepath.Join(dir, "exporter.yml")
	configure := func(more string) {
		b.Helper()
		text := `
global: {interval: ` + interval + `, limits: {in_flight: 256, in_flight_per_host: 256}}
modules: {interactive: {input_tokens: 64, output_tokens: 8}}
discovery:
  - {file_sd_configs: [{files: [targets.json]}], model: simulated-8b` + more + "}\n"
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	configure("")
	address := unusedAddress(b)
	base := "http://" + address
	daemon := launchBuilt(b, "serve", "--config.file="+name, "--web.listen-address="+address, "--log.level=error",
		"--web.enable-lifecycle", "--no-collector.server")
	for b.Loop() {
		awaitOutcomes(b, base, endpoints, 3)
		b.ReportMetric(residentMemory(b, daemon.Pid), "MB-RSS")
		b.ReportMetric(seconds(b, http.MethodGet, base+"/metrics"), "s/scrape")
		b.ReportMetric(seconds(b, http.MethodGet, base+"/api/v1/endpoints"), "s/table")
		b.ReportMetric(seconds(b, http.MethodPost, base+"/-/reload"), "s/reload-same")
		configure(", slo: {ttft: 5s}")
		before := processorTime(b, daemon.Pid)
		b.ReportMetric(seconds(b, http.MethodPost, base+"/-/reload"), "s/reload-all")
		b.ReportMetric(processorTime(b, daemon.Pid)-before, "CPU-s/reload-all")
		time.Sleep(settles) // what the reload took is returned meanwhile
		b.ReportMetric(residentMemory(b, daemon.Pid), "MB-RSS-in-the-end")
	}
	b.ReportMetric(0, "ns/op")
}

// writeTargets writes a file of discovered targets at the servers in turn.
func writeTargets(b *testing.B, dir string, servers []string, n int) {
	b.Helper()
	type group struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	groups := make([]group, n)
	for i := range groups {
		groups[i] = group{
			Targets: []string{servers[i%len(servers)][len("http://"):]},
			Labels:  map[string]string{"__endpoint__": fmt.Sprintf("endpoint-%05d", i), "team": fmt.Sprint("team-", i%20)},
		}
	}
	text, err := json.Marshal(groups)
	if err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "targets.json"), text, 0o600); err != nil {
		b.Fatal(err)
	}
}

// seconds returns how long a request and the reading of its answer take, with the decompression of Prometheus.
func seconds(b *testing.B, method, url string) float64 {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), method, url, nil)
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "gzip")
	began := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	body := io.Reader(resp.Body)
	if resp.Header.Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(resp.Body); err != nil {
			b.Fatal(err)
		}
	}
	if _, err := io.Copy(io.Discard, body); err != nil || resp.StatusCode != http.StatusOK {
		b.Fatalf("%s: status %d, %v", url, resp.StatusCode, err)
	}
	return time.Since(began).Seconds()
}

// awaitOutcomes waits until each of so many endpoints has so many results.
func awaitOutcomes(b *testing.B, base string, endpoints, outcomes int) {
	b.Helper()
	for deadline := time.Now().Add(6 * time.Minute); time.Now().Before(deadline); time.Sleep(2 * time.Second) {
		resp, err := http.Get(base + "/api/v1/endpoints")
		if err != nil {
			continue // not listening yet
		}
		var fleet status.Fleet
		err = json.NewDecoder(resp.Body).Decode(&fleet)
		resp.Body.Close()
		if err != nil {
			b.Fatal(err)
		}
		done := 0
		for _, row := range fleet.Endpoints {
			if len(row.Outcomes) >= outcomes {
				done++
			}
		}
		if done == endpoints {
			return
		}
	}
	b.Fatal("the endpoints were not probed within six minutes")
}

// residentMemory returns that of a process, in megabytes.
func residentMemory(b *testing.B, pid int) float64 {
	b.Helper()
	return float64(statOf(b, pid).ResidentMemory()) / 1e6
}

// statOf returns what the kernel shows of a process.
func statOf(b *testing.B, pid int) procfs.ProcStat {
	b.Helper()
	p, err := procfs.NewProc(pid)
	if err != nil {
		b.Fatal(err)
	}
	stat, err := p.Stat()
	if err != nil {
		b.Fatal(err)
	}
	return stat
}

// BenchmarkMemory is the resident memory of a daemon with 1,000 endpoints,
// each with several results in every latency family, scraped each second: with
// the probes alone, and with a reading of a vLLM server's page for each too.
func BenchmarkMemory(b *testing.B) {
	endpoints, interval := 1000, "5s"
	if testing.Short() {
		endpoints, interval = 50, "1s"
	}
	_, server := startProgram(b, "simulate", "--web.listen-address=127.0.0.1:0", "--replicas=8", "--slots=64",
		"--decode-step=5ms", "--decode-step-per-sequence=-1ns", "--prefill-rate=1000000")
	_, page := startProgram(b, "simulate", "--web.listen-address=127.0.0.1:0")
	var file bytes.Buffer
	fmt.Fprintf(&file, "global: {interval: %s, limits: {in_flight: 128, in_flight_per_host: 128}}\n", interval)
	fmt.Fprintln(&file, "modules: {interactive: {input_tokens: 64, output_tokens: 8}}\nendpoints:")
	for i := range endpoints {
		fmt.Fprintf(&file, "  - {name: endpoint-%04d, url: %q, labels: {team: search}, servers: {urls: [%q]}}\n",
			i, server, page)
	}
	name := filepath.Join(b.TempDir(), "config.yml")
	if err := os.WriteFile(name, file.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	for _, pages := range []string{"--no-collector.server", "--collector.server"} {
		b.Run(strings.TrimLeft(pages, "-"), func(b *testing.B) {
			address := unusedAddress(b)
			launchBuilt(b, "serve", "--config.file="+name, "--web.listen-address="+address, "--log.level=error", pages)
			for b.Loop() {
				b.ReportMetric(memoryWhenProbed(b, "http://"+address+"/metrics", uint64(3*endpoints)), "MB-RSS")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkCPU is the processor time of a daemon with 50 endpoints at the default intervals
// over a minute, in percent of a core: with probes of 64 tokens every 30 s alone, with a
// recorded page of vLLM 0.32 for each endpoint every 15 s alone, and with both. With -short it
// only shows that it runs.
func BenchmarkCPU(b *testing.B) {
	const endpoints = 50
	begun, lasts := 40*time.Second, time.Minute // first, each endpoint has been identified, probed and read
	if testing.Short() {
		begun, lasts = time.Second, 2*time.Second
	}
	_, server := startProgram(b, "simulate", "--web.listen-address=127.0.0.1:0", "--slots=64")
	page, err := os.ReadFile("../page/testdata/pages/servers/vllm-0.32.txt")
	if err != nil {
		b.Fatal(err)
	}
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(page) }))
	b.Cleanup(pages.Close)
	var file bytes.Buffer
	fmt.Fprintln(&file, "endpoints:")
	for i := range endpoints {
		fmt.Fprintf(&file, "  - {name: endpoint-%02d, url: %q, servers: {urls: [%q]}}\n", i, server, pages.URL)
	}
	name := filepath.Join(b.TempDir(), "config.yml")
	if err := os.WriteFile(name, file.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct{ what, flag string }{
		{"probes", "--no-collector.server"}, {"pages", "--no-collector.probe"}, {"both", "--collector.server"},
	} {
		b.Run(c.what, func(b *testing.B) {
			daemon := launchBuilt(b, "serve", "--config.file="+name, "--web.listen-address="+unusedAddress(b), "--log.level=error", c.flag)
			time.Sleep(begun)
			for b.Loop() {
				before := processorTime(b, daemon.Pid)
				time.Sleep(lasts)
				b.ReportMetric(100*(processorTime(b, daemon.Pid)-before)/lasts.Seconds(), "%-core")
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

// processorTime returns that of a process, in seconds.
func processorTime(b *testing.B, pid int) float64 {
	b.Helper()
	p, err := procfs.NewProc(pid)
	if err != nil {
		b.Fatal(err)
	}
	stat, err := p.Stat()
	if err != nil {
		b.Fatal(err)
	}
	return stat.CPUTime()
}

// launchBuilt runs the program as it is built from the sources until the benchmark ends, and
// returns its process. Its file is read from the disk, as after a boot: of a file that was just
// written the page cache holds large pieces, all of whose pages count as resident where one is
// used, which were 4 to 9 MB more.
func launchBuilt(b *testing.B, args ...string) *os.Process {
	b.Helper()
	program, err := built()
	if err != nil {
		b.Fatal(err)
	}
	dropFromPageCache(b, program)
	cmd := exec.Command(program, args...)
	runUntilEnd(b, cmd)
	return cmd.Process
}

// built builds the program when it is asked first and returns its path, in a directory that is
// removed at the end of this process.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "inference_exporter")
	if err != nil {
		return "", err
	}
	atEnd = func() { _ = os.RemoveAll(dir) }
	program := filepath.Join(dir, "inference_exporter")
	build := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-o", program, "../..")
	if u, err := user.Current(); err == nil {
		build.Env = append(os.Environ(), "HOME="+u.HomeDir) // where the build cache is
	}
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return program, nil
})

// dropFromPageCache has the kernel write a file to the disk and forget its pages, see
// posix_fadvise(2).
func dropFromPageCache(b *testing.B, name string) {
	b.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		b.Fatal(err)
	}
}

// memoryWhenProbed scrapes until that many probes have a TPOT, and returns the
// daemon's resident memory in megabytes.
func memoryWhenProbed(b *testing.B, url string, probes uint64) float64 {
	b.Helper()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(time.Second) {
		resp, err := http.Get(url)
		if err != nil {
			continue // not listening yet
		}
		parser := expfmt.NewTextParser(model.UTF8Validation)
		families, err := parser.TextToMetricFamilies(resp.Body)
		resp.Body.Close()
		if err != nil {
			b.Fatal(err)
		}
		if samples(families["inference_probe_tpot_seconds"]) >= probes {
			return families["process_resident_memory_bytes"].Metric[0].GetGauge().GetValue() / 1e6
		}
	}
	b.Fatal("the endpoints were not probed within five minutes")
	return 0
}

// samples returns how many values the histograms of a family have observed.
func samples(f *dto.MetricFamily) (n uint64) {
	for _, m := range f.GetMetric() {
		n += m.GetHistogram().GetSampleCount()
	}
	return n
}

func unusedAddress(b *testing.B) string {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

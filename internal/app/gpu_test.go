//go:build linux && cgo

package app

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/cli"
	"github.com/inference-exporter/inference_exporter/internal/fakenvml"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// mostDelay is half of what a driver that hangs would cost a scrape: the poller itself waits 10 s for that.
const mostDelay = 5 * time.Second

// TestDriverHoldsNothingUp runs the daemon on a driver that hangs before its
// first answer, loses a GPU, goes away, comes back and hangs for good.
func TestDriverHoldsNothingUp(t *testing.T) {
	// The dynamic linker learns where to look when the process starts.
	libraries := "LD_LIBRARY_PATH=" + t.TempDir()
	fakenvml.Alone(t, fakenvml.Full, func(t *testing.T, p fakenvml.Process) {
		link := filepath.Join(os.Getenv("LD_LIBRARY_PATH"), filepath.Base(p.Library))
		if err := os.Symlink(p.Library, link); err != nil {
			t.Fatal(err)
		}
		t.Setenv(fakenvml.EnvCalls, "") // nobody reads the list
		holdNothingUp(t, p)
	}, libraries)
}

func holdNothingUp(t *testing.T, p fakenvml.Process) {
	machine := fakenvml.Machine(2)
	driver := func(keys ...string) {
		now := maps.Clone(machine)
		for i := 0; i < len(keys); i += 2 {
			now[keys[i]] = keys[i+1]
		}
		now.Write(t, p.State)
	}
	driver("nvmlInit_v2.sleep", "3600")
	server := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	d := &watchedProgram{start(t, "--web.listen-address=127.0.0.1:0", "--config.file="+writeFile(t, "exporter.yml", fmt.Sprintf(`
global: {interval: 200ms, timeout: 10s}
modules: {interactive: {input_tokens: 64, output_tokens: 8}}
endpoints: [{name: sim, url: %s}]
`, server)))}
	d.client.Timeout = patience
	t.Cleanup(func() { driver() }) // lets a call that hangs return, before the end of the program is checked

	d.until(t, "probes while the driver hangs in its first call", func(got metricsPage) bool {
		return isState(got, "starting") && !got.Has("inference_gpu_up") && got.Probes("sim") > 4
	})
	driver()
	d.until(t, "two GPUs", func(got metricsPage) bool { return isState(got, "up") && got.Sum("inference_gpu_device_up") == 2 })
	driver("device1.lost", "1")
	d.until(t, "one GPU and a lost one", func(got metricsPage) bool {
		return isState(got, "up") && got.Sum("inference_gpu_device_up") == 1 && len(got["inference_gpu_power_watts"].GetMetric()) == 1
	})
	driver("nvmlDeviceGetMemoryInfo_v2.return", "1", "nvmlInit_v2.return", "9")
	d.until(t, "a driver that went away", func(got metricsPage) bool {
		return isState(got, "no_driver") && got.Sum("inference_gpu_up") == 0 && !got.Has("inference_gpu_power_watts")
	})
	driver()
	d.until(t, "the driver back", func(got metricsPage) bool { return isState(got, "up") && got.Sum("inference_gpu_device_up") == 2 })
	driver("nvmlDeviceGetPowerUsage.sleep", "3600")
	d.until(t, "a driver that hangs", func(got metricsPage) bool {
		return isState(got, "stuck") && got.Sum("inference_gpu_up") == 0 && !got.Has("inference_gpu_power_watts") &&
			got.Has("inference_gpu_info")
	})
	scrapes := 0
	got := d.until(t, "more scrapes while it hangs", func(metricsPage) bool { scrapes++; return scrapes >= 20 })
	if ok := got.Sum("inference_probe_results_total", "endpoint", "sim", "outcome", "success"); ok != got.Probes("sim") {
		t.Errorf("%v probes of %v succeeded", ok, got.Probes("sim"))
	}
	if code := d.stop(); code != cli.ExitOK {
		t.Errorf("stopped with %d while the driver hangs", code)
	}
}

func isState(got metricsPage, state string) bool {
	return got.Sum("inference_gpu_state", "state", state) == 1
}

// watchedProgram is a program whose every scrape is timed.
type watchedProgram struct{ *program }

// until scrapes until the page is as wanted and two more probes have ended, and returns it. Scrapes may not be delayed: a
// driver that hangs would delay all of them, a busy machine one now and then.
func (d *watchedProgram) until(t *testing.T, what string, wanted func(metricsPage) bool) metricsPage {
	t.Helper()
	first, slowest, inARow := -1.0, time.Duration(0), 0
	for begin := time.Now(); time.Since(begin) < patience; time.Sleep(100 * time.Millisecond) {
		sent := time.Now()
		_, body := d.get("/metrics")
		took := time.Since(sent)
		slowest = max(slowest, took)
		if inARow++; took <= mostDelay {
			inARow = 0
		}
		if inARow == 4 {
			t.Errorf("%s: four scrapes in a row took more than %v, the last one %v", what, mostDelay, took)
		}
		got := testlab.ParsePage(t, body)
		if first < 0 {
			first = got.Probes("sim")
		}
		if !wanted(got) || got.Probes("sim") < first+2 {
			continue
		}
		t.Logf("%s: after %v; the slowest scrape took %v", what, time.Since(begin), slowest)
		return got
	}
	t.Fatalf("waited in vain for %s; the log:\n%s", what, d.stderr)
	return nil
}

// An exporter for the GPUs of a node needs no endpoint. It complains where there
// is no driver, as it has nothing else to do.
func TestGPUsAlone(t *testing.T) {
	t.Parallel()
	p := start(t, "--no-collector.probe", "--no-collector.server", "--collector.gpu", "--web.listen-address=127.0.0.1:0")
	got, _ := p.waitFor("an answer of the driver", func(got metricsPage) bool { return got.Has("inference_gpu_up") })
	if got.Sum("inference_exporter_endpoints") != 0 {
		t.Error("there are endpoints")
	}
	complaints := len(p.stderr.lines("level=error")) + len(p.stderr.lines("level=warn"))
	if up := got.Sum("inference_gpu_up"); up+float64(complaints) != 1 {
		t.Errorf("inference_gpu_up is %v, and %d complaints:\n%s", up, complaints, p.stderr)
	}
}

// For one that looks at servers too, a machine without a driver is a normal one.
func TestGPUsBesideServers(t *testing.T) {
	t.Parallel()
	p := start(t, "--no-collector.probe", "--collector.gpu", "--web.listen-address=127.0.0.1:0", "--endpoint=http://127.0.0.1:1")
	got, _ := p.waitFor("the state of the driver", func(got metricsPage) bool {
		return got.Sum("inference_gpu_state", "state", "starting") == 0
	})
	if driver := got.Sum("inference_gpu_state", "state", "up") == 1; got.Has("inference_gpu_up") != driver {
		t.Errorf("inference_gpu_up is %v", got.Sum("inference_gpu_up"))
	}
	for _, line := range p.stderr.lines("state=no_library") {
		if !strings.Contains(line, "level=info") {
			t.Errorf("a complaint of a machine without a driver: %s", line)
		}
	}
}

func TestDemoShowsSimulatedGPUs(t *testing.T) {
	t.Parallel()
	p := start(t, "demo", "--web.listen-address=127.0.0.1:0")
	got, _ := p.waitFor("simulated GPUs", func(got metricsPage) bool { return got.Sum("inference_gpu_devices") == 2 })
	if got.Sum("inference_gpu_simulated") != 1 {
		t.Error("the GPUs are not marked as simulated")
	}
	for _, m := range got["inference_gpu_info"].GetMetric() {
		if !testlab.HasLabels(m, []string{"name", "Simulated H100"}) {
			t.Errorf("GPU without the mark in its name: %v", m)
		}
	}
}

// What the DaemonSet of the examples starts is a command line of this program.
func TestDaemonSetArguments(t *testing.T) {
	text, err := os.ReadFile("../../examples/kubernetes/gpu/gpu-daemonset.yml")
	if err != nil {
		t.Fatal(err)
	}
	var args []string
	for _, m := range regexp.MustCompile(`(?m)^(?:#\+)? +- (--\S+)$`).FindAllSubmatch(text, -1) {
		args = append(args, string(m[1]))
	}
	if len(args) != 5 {
		t.Errorf("found %q, want 5 arguments", args)
	}
	if _, err := newCommandLine(Options{Stdout: io.Discard, Stderr: io.Discard}).parse(args); err != nil {
		t.Errorf("%q: %v", args, err)
	}
}

package app

import (
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/cli"
)

// What a configuration refers to must be there, and an error names the place as
// any other.
func TestCheckReferences(t *testing.T) {
	const head = "endpoints:\n  - url: http://host:8000\n"
	for _, tc := range []struct{ name, file, want string }{
		{"engine", head + "    servers: {engine: steam}\n", ":3: endpoints[0].servers.engine: unknown engine \"steam\"; known: "},
		{"mapping", head + "engines:\n  steam: {values: {requests_running: [{series: wheels}]}}\n", ":4: engines.steam: no sentinels; "},
		{"product", head + "    hardware: {gpu: Voodoo 2}\n", ":3: endpoints[0].hardware.gpu: unknown product \"Voodoo 2\"; "},
		{"product with its bandwidth", head + "    hardware: {gpu: Voodoo 2, memory_bandwidth: 2GB}\n", ""},
		{
			"two bandwidths", head + "    hardware: {uuids: [GPU-a, GPU-b], memory_bandwidth: 2TB}\n" +
				"  - url: http://other:8000\n    hardware: {uuids: [GPU-c]}\n" +
				"  - url: http://third:8000\n    hardware: {uuids: [GPU-c, GPU-b], memory_bandwidth: 3TB}\n",
			":7: endpoints[2].hardware.memory_bandwidth: 3TB is that of GPU-b, which has 2TB at endpoints[0]",
		},
		{"the same bandwidth twice", head + "    hardware: {uuids: [GPU-a], memory_bandwidth: 2TB}\n" +
			"  - url: http://other:8000\n    hardware: {uuids: [GPU-a, GPU-b], memory_bandwidth: 2000GB}\n", ""},
		{"changed mapping", head + "engines:\n  vllm: {values: {requests_running: [{series: wheels}]}}\n", ""},
		{"own mapping", head + "    servers: {engine: steam}\nengines:\n  steam: {sentinels: [wheels]}\n", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			name := writeFile(t, "exporter.yml", tc.file)
			got := runToEnd(t, "check", "--config.file="+name)
			if tc.want == "" {
				if got.code != cli.ExitOK {
					t.Errorf("exit code %d: %s", got.code, got.stderr)
				}
				return
			}
			if got.code != cli.ExitUsage || !strings.HasPrefix(got.stderr, name+tc.want) {
				t.Errorf("exit code %d, want 2 and a line that begins with %q: %s", got.code, tc.want, got.stderr)
			}
		})
	}
}

// An exporter for the GPUs of a node needs no endpoint. It complains where there
// is no driver, as it has nothing else to do.
func TestGPUsAlone(t *testing.T) {
	p := start(t, "--no-collector.probe", "--no-collector.server", "--collector.gpu", "--web.listen-address=127.0.0.1:0")
	got, _ := p.waitFor("an answer of the driver", func(got page) bool { return got.has("inference_gpu_up") })
	if got.sum("inference_exporter_endpoints") != 0 {
		t.Error("there are endpoints")
	}
	complaints := len(p.stderr.lines("level=error")) + len(p.stderr.lines("level=warn"))
	if up := got.sum("inference_gpu_up"); up+float64(complaints) != 1 {
		t.Errorf("inference_gpu_up is %v, and %d complaints:\n%s", up, complaints, p.stderr)
	}
}

// For one that looks at servers too, a machine without a driver is a normal one.
func TestGPUsBesideServers(t *testing.T) {
	p := start(t, "--no-collector.probe", "--collector.gpu", "--web.listen-address=127.0.0.1:0", "--endpoint=http://127.0.0.1:1")
	got, _ := p.waitFor("the state of the driver", func(got page) bool {
		return got.sum("inference_gpu_state", "state", "starting") == 0
	})
	if driver := got.sum("inference_gpu_state", "state", "up") == 1; got.has("inference_gpu_up") != driver {
		t.Errorf("inference_gpu_up is %v", got.sum("inference_gpu_up"))
	}
	for _, line := range p.stderr.lines("state=no_library") {
		if !strings.Contains(line, "level=info") {
			t.Errorf("a complaint of a machine without a driver: %s", line)
		}
	}
}

func TestDemoShowsSimulatedGPUs(t *testing.T) {
	p := start(t, "demo", "--web.listen-address=127.0.0.1:0")
	got, _ := p.waitFor("simulated GPUs", func(got page) bool { return got.sum("inference_gpu_devices") == 2 })
	if got.sum("inference_gpu_simulated") != 1 {
		t.Error("the GPUs are not marked as simulated")
	}
	for _, m := range got["inference_gpu_info"].GetMetric() {
		if !hasLabels(m, []string{"name", "Simulated H100"}) {
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
	if _, _, err := newCommandLine(Options{Stdout: io.Discard, Stderr: io.Discard}).parse(args); err != nil {
		t.Errorf("%q: %v", args, err)
	}
}

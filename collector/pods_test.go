package collector

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/expfmt"

	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/gpu/pods"
)

// nodeGPUs are a GPU that is whole, one that is split and one that is lost. The
// driver counts them in another order than their device files.
func nodeGPUs() gpu.Snapshots {
	return gpu.Snapshots{{State: gpu.StateUp, Devices: []gpu.DeviceSnapshot{
		{Vendor: gpu.NVIDIA, UUID: "GPU-whole", Index: 0, Minor: 1, Up: true},
		{Vendor: gpu.NVIDIA, UUID: "GPU-split", Index: 1, Minor: 0, Up: true, MIG: []gpu.MIGSnapshot{
			{UUID: "MIG-1", GPUInstance: 1, ComputeInstance: 0},
			{UUID: "MIG-2a", GPUInstance: 2, ComputeInstance: 0},
			{UUID: "MIG-2b", GPUInstance: 2, ComputeInstance: 1},
		}},
		{Vendor: gpu.NVIDIA, UUID: "GPU-lost", Index: 2, Minor: -1},
	}}}
}

// podPage returns the page of one collector in a registry that checks it.
func podPage(t *testing.T, c prometheus.Collector) string {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func TestPods(t *testing.T) {
	const (
		upHead   = "# HELP inference_gpu_pods_up %s\n# TYPE inference_gpu_pods_up gauge\n"
		infoHead = "# HELP inference_gpu_pod_info %s\n# TYPE inference_gpu_pod_info gauge\n"

		failures = "# HELP inference_gpu_pods_failures_total %s\n# TYPE inference_gpu_pods_failures_total counter\n" +
			"inference_gpu_pods_failures_total{state=\"denied\"} 2\n" +
			"inference_gpu_pods_failures_total{state=\"failed\"} 0\n" +
			"inference_gpu_pods_failures_total{state=\"unreachable\"} 7\n"
	)
	info := func(uuid, index, mig, pod string) string {
		return fmt.Sprintf("inference_gpu_pod_info{container=\"c\",gpu=%q,mig_uuid=%q,namespace=\"n\",pod=%q,uuid=%q,vendor=\"nvidia\"} 1\n", index, mig, pod, uuid)
	}
	given := func(uuid string, minor, gi, ci int, pod string) pods.Assignment {
		return pods.Assignment{UUID: uuid, Minor: minor, GPUInstance: gi, ComputeInstance: ci, Namespace: "n", Pod: pod, Container: "c"}
	}
	whole, split := info("GPU-whole", "0", "", "p"), info("GPU-split", "1", "", "p")
	for _, tt := range []struct {
		name  string
		state pods.State
		list  []pods.Assignment
		up    string
		want  string
	}{
		{"not asked yet", pods.StateStarting, nil, "", ""},
		{"no pod", pods.StateUp, nil, "1", ""},
		{"by UUID", pods.StateUp, []pods.Assignment{given("GPU-whole", -1, -1, -1, "p")}, "1", whole},
		{"by number", pods.StateUp, []pods.Assignment{given("", 1, -1, -1, "p")}, "1", whole},
		{"number zero", pods.StateUp, []pods.Assignment{given("", 0, -1, -1, "p")}, "1", split},
		{"in both ways", pods.StateUp, []pods.Assignment{given("GPU-whole", -1, -1, -1, "p"), given("", 1, -1, -1, "p")}, "1", whole},
		{"lost, but known", pods.StateUp, []pods.Assignment{given("GPU-lost", -1, -1, -1, "p")}, "1", info("GPU-lost", "2", "", "p")},
		{"an unknown number is no number", pods.StateUp, []pods.Assignment{given("", -1, -1, -1, "p")}, "1", ""},
		{"not here", pods.StateUp, []pods.Assignment{given("GPU-other", -1, -1, -1, "p"), given("MIG-other", -1, -1, -1, "p"), given("", 7, -1, -1, "p")}, "1", ""},
		{"MIG by UUID", pods.StateUp, []pods.Assignment{given("MIG-2b", -1, -1, -1, "p")}, "1", info("GPU-split", "1", "MIG-2b", "p")},
		{"MIG by number", pods.StateUp, []pods.Assignment{given("", 0, 1, -1, "p")}, "1", info("GPU-split", "1", "MIG-1", "p")},
		{
			"a GPU instance is all in it", pods.StateUp,
			[]pods.Assignment{given("", 0, 2, -1, "p")},
			"1",
			info("GPU-split", "1", "MIG-2a", "p") + info("GPU-split", "1", "MIG-2b", "p"),
		},
		{"one compute instance", pods.StateUp, []pods.Assignment{given("GPU-split", -1, 2, 1, "p")}, "1", info("GPU-split", "1", "MIG-2b", "p")},
		{"no such instance", pods.StateUp, []pods.Assignment{given("GPU-split", -1, 5, 0, "p"), given("", 1, 1, -1, "p")}, "1", ""},
		{
			"shared", pods.StateUp,
			[]pods.Assignment{given("GPU-whole", -1, -1, -1, "p"), given("GPU-whole", -1, -1, -1, "q")},
			"1",
			whole + info("GPU-whole", "0", "", "q"),
		},
		{"failed, and not stale yet", pods.StateUnreachable, []pods.Assignment{given("GPU-whole", -1, -1, -1, "p")}, "0", whole},
		{"denied", pods.StateDenied, nil, "0", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := NewPods(func() *pods.Snapshot {
				return &pods.Snapshot{
					State: tt.state, At: time.Now(), Assignments: tt.list,
					Failures: map[pods.State]uint64{pods.StateUnreachable: 7, pods.StateDenied: 2},
				}
			}, nodeGPUs)
			want := ""
			if tt.want != "" {
				want = fmt.Sprintf(infoHead, sections()["pods"][2].Help) + tt.want
			}
			if tt.up != "" {
				want += fmt.Sprintf(failures, sections()["pods"][1].Help)
				want += fmt.Sprintf(upHead, sections()["pods"][0].Help) + "inference_gpu_pods_up " + tt.up + "\n"
			}
			if d := cmp.Diff(want, podPage(t, c)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// Without GPUs the kubelet alone makes no series of a GPU.
func TestPodsWithoutGPUs(t *testing.T) {
	c := NewPods(onePod, func() gpu.Snapshots { return gpu.Snapshots{{State: gpu.StateStarting}} })
	page := podPage(t, c)
	if strings.Contains(page, "inference_gpu_pod_info") || !strings.Contains(page, "\ninference_gpu_pods_up 1\n") {
		t.Errorf("page:\n%s", page)
	}
}

// onePod is a pod with a MIG device.
func onePod() *pods.Snapshot {
	return &pods.Snapshot{State: pods.StateUp, Assignments: []pods.Assignment{
		{UUID: "MIG-1", Minor: -1, GPUInstance: -1, ComputeInstance: -1, Namespace: "n", Pod: "p", Container: "c"},
	}}
}

// The families are those that are collected, and the linter has nothing to say.
func TestPodFamilies(t *testing.T) {
	page := podPage(t, NewPods(onePod, nodeGPUs))
	problems, err := promlint.New(strings.NewReader(page)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v, %v", problems, err)
	}
	families := sections()["pods"]
	if len(families) != 3 {
		t.Errorf("%d families are described, 3 are collected", len(families))
	}
	for _, f := range families {
		head := fmt.Sprintf("# HELP %s %s\n# TYPE %s %s\n", f.Name, f.Help, f.Name, f.Type)
		if !strings.Contains(page, head) {
			t.Errorf("%s is not on the page as described:\n%s", f.Name, page)
		}
	}
}

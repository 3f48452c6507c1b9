package cluster

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// value returns that of a series without labels; -1 where the page has none.
func value(page, name string) float64 {
	_, rest, _ := strings.Cut(page, "\n"+name+" ")
	line, _, _ := strings.Cut(rest, "\n")
	v, err := strconv.ParseFloat(line, 64)
	if err != nil {
		return -1
	}
	return v
}

// peak returns the most memory that a process had resident, in bytes.
func peak(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	kib, err := strconv.Atoi(string(regexp.MustCompile(`VmHWM:\s+(\d+)`).FindSubmatch(text)[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kib * 1024
}

// mostMemory is twice what 5,000 endpoints took, in MB.
const mostMemory = 450

// 5,000 pods are found by one list and one watch of each resource, which go on while pods come and go: what the API
// server has to do does not grow with the pods, nor with time.
func TestManyPods(t *testing.T) {
	const namespace, models, pods = "many", "many-models", 5000
	account := installForDiscovery(t, namespace)
	newNamespace(t, models, "privileged")
	new(output).run(t, "simulate", "--web.listen-address=0.0.0.0:8000")
	scale := func(n int) {
		t.Helper()
		// A node is named, so that the scheduler does not have to place each.
		text := strings.Replace(string(deployment(n)), "containers:", "nodeName: node-0\n      containers:", 1)
		if err := apply(t.Context(), models, []byte(text)); err != nil {
			t.Fatal(err)
		}
		eventually(t, fmt.Sprintf("%d pods", n), func() string {
			d, err := client(t).AppsV1().Deployments(models).Get(t.Context(), "vllm", metav1.GetOptions{})
			if err != nil {
				return err.Error()
			}
			if d.Status.Replicas != int32(n) || d.Status.ReadyReplicas != int32(n) {
				return fmt.Sprintf("%d, of which %d are ready", d.Status.Replicas, d.Status.ReadyReplicas)
			}
			return ""
		})
	}
	scale(pods)
	token := tokenOf(t, namespace, account)
	for role, resources := range map[string][]string{"pod": {"pods"}, "endpointslice": {"endpointslices", "pods", "services"}} {
		t.Run(role, func(t *testing.T) {
			g := startGate(t)
			began := time.Now()
			d := startDaemon(t, strings.Replace(g.config(discoveryConfig(t, token, role, models)), "interval: 1s", "interval: 1h", 1))
			var probed time.Duration
			known := func(n int) {
				t.Helper()
				eventually(t, fmt.Sprintf("%d endpoints", n), func() string {
					page := d.page()
					if probed == 0 && successLine.MatchString(page) {
						probed = time.Since(began)
					}
					if found := value(page, "inference_exporter_endpoints"); found != float64(n) || probed == 0 {
						return fmt.Sprintf("%v; the log:\n%.2000s", found, d)
					}
					return ""
				})
			}
			known(pods)
			all, page := time.Since(began), d.page()
			t.Logf("first probe seen after %v, all %d endpoints after %v; %.1f s of processor time; %.0f MB resident, %d MB at most; a page of %d MB; %v, %d MB",
				probed.Round(100*time.Millisecond), pods, all.Round(100*time.Millisecond), value(page, "process_cpu_seconds_total"),
				value(page, "process_resident_memory_bytes")/1e6, peak(t, d.cmd.Process.Pid)/1e6, len(page)/1e6, g.asked(), g.bytes.Load()/1e6)
			if most := peak(t, d.cmd.Process.Pid) / 1e6; most > mostMemory {
				t.Errorf("%d MB resident, want at most %d", most, mostMemory)
			}
			before := g.asked()
			for _, resource := range resources {
				if before["watch "+resource] != 1 || before["list "+resource] > 1 {
					t.Errorf("%v, want one watch of %s and at most one list", before, resource)
				}
			}
			scale(pods - 100)
			known(pods - 100)
			scale(pods)
			known(pods)
			if after := g.asked(); !maps.Equal(after, before) {
				t.Errorf("asked %v while pods came and went, %v before", after, before)
			}
		})
	}
}

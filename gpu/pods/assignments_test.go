//go:build pod_resources

package pods

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// pod returns a pod with one container, which has devices of one resource.
func pod(namespace, name, container, resource string, ids ...string) *podresources.PodResources {
	return &podresources.PodResources{Namespace: namespace, Name: name, Containers: []*podresources.ContainerResources{
		{Name: container, Devices: []*podresources.ContainerDevices{{ResourceName: resource, DeviceIds: ids}}},
	}}
}

func reply(pods ...*podresources.PodResources) *podresources.ListPodResourcesResponse {
	return &podresources.ListPodResourcesResponse{PodResources: pods}
}

// byUUID is an assignment of a whole GPU or a MIG device.
func byUUID(uuid, namespace, pod, container string) Assignment {
	return Assignment{uuid, -1, -1, -1, namespace, pod, container}
}

// byID is what an id says of an assignment.
func byID(uuid string, minor, gpuInstance, computeInstance int) Assignment {
	return Assignment{UUID: uuid, Minor: minor, GPUInstance: gpuInstance, ComputeInstance: computeInstance}
}

func TestAssignments(t *testing.T) {
	twoContainers := pod("b", "shared", "first", "nvidia.com/gpu.shared", gpuA+"::1", gpuA+"::0")
	twoContainers.Containers = append(twoContainers.Containers,
		pod("", "", "second", "nvidia.com/gpu", gpuB).Containers[0], &podresources.ContainerResources{Name: "third"})
	for _, tt := range []struct {
		name    string
		reply   *podresources.ListPodResourcesResponse
		want    []Assignment
		strange string
	}{
		{name: "nothing", reply: reply()},
		{
			name: "sorted, each container once for all its shares of a GPU",
			reply: reply(
				twoContainers,
				pod("a", "vllm-1", "vllm", "nvidia.com/gpu", gpuB, gpuA),
				pod("a", "vllm-0", "vllm", "nvidia.com/mig-1g.10gb", migA),
			),
			want: []Assignment{
				byUUID(migA, "a", "vllm-0", "vllm"),
				byUUID(gpuB, "a", "vllm-1", "vllm"),
				byUUID(gpuA, "a", "vllm-1", "vllm"),
				byUUID(gpuA, "b", "shared", "first"),
				byUUID(gpuB, "b", "shared", "second"),
			},
		},
		{
			name: "by number",
			reply: reply(
				pod("a", "b", "c", "nvidia.com/gpu", "nvidia1/gi2", "nvidia1", "nvidia0"),
				pod("a", "d", "c", "nvidia.com/gpu", "MIG-"+gpuA+"/3/1"),
			),
			want: []Assignment{
				{"", 0, -1, -1, "a", "b", "c"},
				{"", 1, -1, -1, "a", "b", "c"},
				{"", 1, 2, -1, "a", "b", "c"},
				{gpuA, -1, 3, 1, "a", "d", "c"},
			},
		},
		{
			name: "other resources",
			reply: reply(
				pod("a", "b", "c", "rdma/hca", "mlx5_0"), pod("a", "b", "c", "nvidia.com/gpus", gpuA),
				pod("a", "b", "c", "nvidia.com/mig", gpuA), pod("a", "b", "c", "", gpuA),
			),
		},
		{
			name:  "unknown form",
			reply: reply(pod("a", "b", "c", "nvidia.com/gpu", "tegra", gpuA)),
			want:  []Assignment{byUUID(gpuA, "a", "b", "c")}, strange: "tegra",
		},
		{
			name: "names that Kubernetes does not allow",
			reply: reply(
				pod("", "b", "c", "nvidia.com/gpu", gpuA), pod("a", "", "c", "nvidia.com/gpu", gpuA), pod("a", "b", "", "nvidia.com/gpu", gpuA),
				pod("a", strings.Repeat("b", 254), "c", "nvidia.com/gpu", gpuA),
				pod("a", strings.Repeat("b", 253), "c", "nvidia.com/gpu", gpuA),
				nil,
			),
			want: []Assignment{byUUID(gpuA, "a", strings.Repeat("b", 253), "c")},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, strange, err := assignmentsIn(tt.reply, nil)
			if err != nil {
				t.Fatal(err)
			}
			slices.SortStableFunc(tt.want, compare) // the order is that of compare, tested below
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if strange != tt.strange {
				t.Errorf("strange = %q, want %q", strange, tt.strange)
			}
		})
	}
}

// The order does not depend on that of the reply.
func TestAssignmentsOrder(t *testing.T) {
	p := []*podresources.PodResources{
		pod("b", "a", "a", "nvidia.com/gpu", gpuA), pod("a", "b", "a", "nvidia.com/gpu", gpuA),
		pod("a", "a", "b", "nvidia.com/gpu", gpuB, gpuA), pod("a", "a", "a", "nvidia.com/gpu", gpuB),
	}
	want := []Assignment{
		byUUID(gpuB, "a", "a", "a"), byUUID(gpuB, "a", "a", "b"), byUUID(gpuA, "a", "a", "b"),
		byUUID(gpuA, "a", "b", "a"), byUUID(gpuA, "b", "a", "a"),
	}
	for range 2 {
		got, _, err := assignmentsIn(reply(p...), nil)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		slices.Reverse(p)
	}
}

// A reply with more than is shown is refused as a whole.
func TestAssignmentsAreBounded(t *testing.T) {
	many := reply()
	for i := range 4096 {
		many.PodResources = append(many.PodResources, pod("a", fmt.Sprint("pod-", i), "c", "nvidia.com/gpu", gpuA, gpuA+"::1"))
	}
	if got, _, err := assignmentsIn(many, nil); err != nil || len(got) != 4096 {
		t.Errorf("%d assignments, %v, want 4096", len(got), err)
	}
	many.PodResources = append(many.PodResources, pod("a", "one-more", "c", "nvidia.com/gpu", gpuA))
	if got, _, err := assignmentsIn(many, nil); err == nil || got != nil {
		t.Errorf("%d assignments, %v, want an error", len(got), err)
	}
}

// BenchmarkAssignments reads the reply of a full node.
func BenchmarkAssignments(b *testing.B) {
	full := reply()
	for i := range 256 {
		full.PodResources = append(full.PodResources, pod("a", fmt.Sprint("pod-", i), "c", "nvidia.com/gpu", fmt.Sprint(gpuA, "::", i)))
	}
	for b.Loop() {
		if _, _, err := assignmentsIn(full, nil); err != nil {
			b.Fatal(err)
		}
	}
}

const (
	gpuA = "GPU-8f6ee2b5-9e5c-4b0c-8a3f-0d1a6cf11d2a"
	gpuB = "GPU-11111111-2222-3333-4444-555555555555"
	migA = "MIG-6f0ac9e1-3b0f-5d3c-9a54-1f4f2f2d6a10"
)

func TestParseID(t *testing.T) {
	for _, tt := range []struct {
		id   string
		want Assignment
	}{
		{gpuA, byID(gpuA, -1, -1, -1)},
		{migA, byID(migA, -1, -1, -1)},
		// Shared in time, or by MPS.
		{gpuA + "::0", byID(gpuA, -1, -1, -1)},
		{gpuA + "::11", byID(gpuA, -1, -1, -1)},
		{migA + "::3", byID(migA, -1, -1, -1)},
		// GKE.
		{"nvidia0", byID("", 0, -1, -1)},
		{"nvidia15", byID("", 15, -1, -1)},
		{"nvidia0/gi1", byID("", 0, 1, -1)},
		{"nvidia3/gi13", byID("", 3, 13, -1)},
		{"nvidia0/vgpu0", byID("", 0, -1, -1)},
		{"nvidia2/gi1/vgpu7", byID("", 2, 1, -1)},
		{"nvidia0::1", byID("", 0, -1, -1)},
		// Drivers before R470.
		{"MIG-" + gpuA + "/7/0", byID(gpuA, -1, 7, 0)},
		{"MIG-" + gpuA + "/1/2::4", byID(gpuA, -1, 1, 2)},
	} {
		if got, ok := parseID(tt.id); !ok || got != tt.want {
			t.Errorf("parseID(%q) = %v, %v, want %v", tt.id, got, ok, tt.want)
		}
	}
	for _, id := range []string{
		"", "::", "::0", "0", "tegra", "vfio0", "nvidia", "nvidia-1", "nvidia0/", "nvidia0/gi", "nvidia0/ci1", "nvidia00",
		"nvidia123456", "nvidia99999999999999999999", "nvidia0/gi1/gi2", "xnvidia0", "nvidia0\n",
		"GPU-", "gpu-8f6ee2b5-9e5c-4b0c-8a3f-0d1a6cf11d2a", gpuA + "0", gpuA[:len(gpuA)-1], gpuA + "::", gpuA + "::a", gpuA + "\n",
		"GPU-8f6ee2b59e5c4b0c8a3f0d1a6cf11d2a", "GPU-8f6ee2b5-9e5c-4b0c-8a3f-0d1a6cf11d2g",
		"MIG-" + gpuA, "MIG-" + gpuA + "/1", "MIG-" + gpuA + "/1/2/3", "MIG-" + migA + "/1/2",
		gpuA + "::" + strings.Repeat("0", 200),
	} {
		if got, ok := parseID(id); ok {
			t.Errorf("parseID(%q) = %v, want nothing", id, got)
		}
	}
}

// An id names a GPU in exactly one way, is short, and means the same when it is
// written again from what was read, alone or as one of several of a shared GPU.
func FuzzParseID(f *testing.F) {
	for _, id := range []string{
		gpuA, migA, gpuA + "::1", "nvidia0", "nvidia1/gi2", "nvidia1/gi2/vgpu3", "nvidia1/vgpu3", "MIG-" + gpuA + "/1/0", "::", "nvidia0/gi00",
	} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		d, ok := parseID(id)
		if !ok {
			if d != (Assignment{}) {
				t.Fatalf("parseID(%q) = %v and not ok", id, d)
			}
			return
		}
		if len(id) > maxIDBytes || (d.UUID == "") == (d.Minor < 0) || d.ComputeInstance >= 0 && d.GPUInstance < 0 {
			t.Fatalf("parseID(%q) = %v", id, d)
		}
		written := d.UUID
		switch {
		case d.ComputeInstance >= 0:
			written = "MIG-" + d.UUID + "/" + strconv.Itoa(d.GPUInstance) + "/" + strconv.Itoa(d.ComputeInstance)
		case d.GPUInstance >= 0:
			written = "nvidia" + strconv.Itoa(d.Minor) + "/gi" + strconv.Itoa(d.GPUInstance)
		case d.UUID == "":
			written = "nvidia" + strconv.Itoa(d.Minor)
		}
		for _, same := range []string{written, written + "::7"} {
			if got, ok := parseID(same); !ok || got != d {
				t.Fatalf("parseID(%q) = %v, but parseID(%q) = %v, %v", id, d, same, got, ok)
			}
		}
		if !strings.HasPrefix(id, written) {
			t.Fatalf("parseID(%q) = %v, which is %q", id, d, written)
		}
	})
}

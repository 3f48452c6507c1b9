package pods

import (
	"fmt"
	"slices"
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

func TestAssignments(t *testing.T) {
	twoContainers := pod("b", "shared", "first", "nvidia.com/gpu.shared", gpuA+"::1", gpuA+"::0")
	twoContainers.Containers = append(twoContainers.Containers,
		pod("", "", "second", "nvidia.com/gpu", gpuB).Containers[0], &podresources.ContainerResources{Name: "third"})
	for _, tt := range []struct {
		name      string
		resources []string
		reply     *podresources.ListPodResourcesResponse
		want      []Assignment
		strange   string
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
			name: "configured resources", resources: []string{"example.com/h100*", "x"},
			reply: reply(
				pod("a", "b", "c", "nvidia.com/gpu", gpuA), pod("a", "b", "d", "example.com/h100-half", gpuA),
				pod("a", "b", "e", "x", gpuA), pod("a", "b", "f", "xy", gpuA),
			),
			want: []Assignment{byUUID(gpuA, "a", "b", "d"), byUUID(gpuA, "a", "b", "e")},
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
			if tt.resources == nil {
				tt.resources = DefaultResources()
			}
			got, strange, err := assignmentsIn(tt.reply, tt.resources)
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
		got, _, err := assignmentsIn(reply(p...), DefaultResources())
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
	if got, _, err := assignmentsIn(many, DefaultResources()); err != nil || len(got) != 4096 {
		t.Errorf("%d assignments, %v, want 4096", len(got), err)
	}
	many.PodResources = append(many.PodResources, pod("a", "one-more", "c", "nvidia.com/gpu", gpuA))
	if got, _, err := assignmentsIn(many, DefaultResources()); err == nil || got != nil {
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
		if _, _, err := assignmentsIn(full, DefaultResources()); err != nil {
			b.Fatal(err)
		}
	}
}

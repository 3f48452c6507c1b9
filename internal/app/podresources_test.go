//go:build pod_resources

package app

import (
	"context"
	"net"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// poisonedKubelet serves a kubelet whose pods have names with the key in a form, and returns
// the flags by which it is asked.
func poisonedKubelet(t *testing.T, form func(string) string) (flags []string) {
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(s, kubelet{name: form(canary)})
	go s.Serve(l)
	t.Cleanup(s.Stop)
	return []string{"--gpu.pod-resources", "--gpu.pod-resources-socket=" + socket}
}

type kubelet struct {
	podresources.UnimplementedPodResourcesListerServer
	name string
}

func (k kubelet) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	devices := []*podresources.ContainerDevices{{ResourceName: "nvidia.com/gpu", DeviceIds: []string{"nvidia0", k.name}}}
	return &podresources.ListPodResourcesResponse{PodResources: []*podresources.PodResources{{
		Name: k.name, Namespace: k.name, Containers: []*podresources.ContainerResources{{Name: k.name, Devices: devices}},
	}}}, nil
}

//go:build pod_resources

package pods

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// Bounds of a reply, in bytes. A device takes about 100 of them, so that the largest reply is one of some 40,000
// devices of all kinds.
const (
	maxReplyBytes  = 4 << 20
	maxHeaderBytes = 64 << 10
)

// newLister returns what asks the kubelet behind the socket of o.
func newLister(o Options) (lister, error) {
	return func(ctx context.Context) ([]Assignment, string, error) {
		reply, err := list(ctx, o.Socket)
		if err != nil {
			return nil, "", err
		}
		return assignmentsIn(reply, o.Secrets)
	}, nil
}

// list asks the kubelet behind a socket for the devices of all containers. Each question has a connection of its own:
// there is nothing to keep alive, and a kubelet that restarts is asked again without the pauses that a client takes.
func list(ctx context.Context, socket string) (*podresources.ListPodResourcesResponse, error) {
	var noConnection atomic.Pointer[error]
	conn, err := grpc.NewClient("passthrough:///kubelet",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, "unix", socket)
			if err != nil {
				noConnection.Store(&err)
			}
			return c, err
		}),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the file system says who may ask
		grpc.WithAuthority("localhost"),
		grpc.WithDisableRetry(),
		grpc.WithMaxHeaderListSize(maxHeaderBytes),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxReplyBytes)),
	)
	if err != nil {
		return nil, err
	}
	reply, err := podresources.NewPodResourcesListerClient(conn).List(ctx, &podresources.ListPodResourcesRequest{})
	if closed := conn.Close(); err == nil && closed != nil {
		err = closed
	}
	if why := noConnection.Load(); err != nil && why != nil {
		err = *why // the client keeps only its text
	}
	return reply, err
}

// stateOf returns the state that follows from a failed question.
func stateOf(err error) State {
	code := status.Code(err)
	_, network := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, fs.ErrPermission), code == codes.PermissionDenied, code == codes.Unauthenticated:
		return StateDenied
	case network, code == codes.Unavailable, code == codes.DeadlineExceeded:
		return StateUnreachable
	}
	return StateFailed
}

// Bounds of what is taken from a reply.
const (
	maxAssignments = 4096
	maxNameBytes   = 253 // the longest name that Kubernetes allows
)

// assignmentsIn returns who has which GPU, sorted, and one id of a GPU that is of no known form, "" for none. A reply
// with more than maxAssignments is an error: to show some of them would say that the others have none. Names are
// without the secrets.
func assignmentsIn(reply *podresources.ListPodResourcesResponse, secrets *safetext.Secrets) (list []Assignment, strange string, err error) {
	found := map[Assignment]struct{}{}
	for id, container := range devicesIn(reply) {
		a, ok := parseID(id)
		if !ok {
			strange = id
			continue
		}
		a.Namespace = secrets.Line(container.Namespace, maxNameBytes)
		a.Pod = secrets.Line(container.Pod, maxNameBytes)
		a.Container = secrets.Line(container.Container, maxNameBytes)
		found[a] = struct{}{}
		if len(found) > maxAssignments {
			return nil, strange, fmt.Errorf("more than %d containers with a GPU", maxAssignments)
		}
	}
	return slices.SortedFunc(maps.Keys(found), compare), strange, nil
}

// devicesIn returns the id of each GPU in a reply, with the names of who has it.
func devicesIn(reply *podresources.ListPodResourcesResponse) iter.Seq2[string, Assignment] {
	return func(yield func(string, Assignment) bool) {
		for _, pod := range reply.GetPodResources() {
			for _, c := range pod.GetContainers() {
				a := Assignment{Namespace: pod.GetNamespace(), Pod: pod.GetName(), Container: c.GetName()}
				if !fits(a.Namespace) || !fits(a.Pod) || !fits(a.Container) {
					continue
				}
				for _, devices := range c.GetDevices() {
					for _, id := range devices.GetDeviceIds() {
						if isGPU(devices.GetResourceName()) && !yield(id, a) {
							return
						}
					}
				}
			}
		}
	}
}

// fits reports whether a name is one that Kubernetes allows, by its length.
func fits(name string) bool { return name != "" && len(name) <= maxNameBytes }

// isGPU reports whether a resource is one that the device plugin of NVIDIA gives out.
func isGPU(resource string) bool {
	return resource == "nvidia.com/gpu" || resource == "nvidia.com/gpu.shared" || strings.HasPrefix(resource, "nvidia.com/mig-")
}

func compare(a, b Assignment) int {
	return cmp.Or(
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Container, b.Container),
		cmp.Compare(a.UUID, b.UUID), cmp.Compare(a.Minor, b.Minor),
		cmp.Compare(a.GPUInstance, b.GPUInstance), cmp.Compare(a.ComputeInstance, b.ComputeInstance),
	)
}

// The forms of the id of a device. A shared GPU has several ids: its own with ::N after it, or /vgpuN on GKE.
var (
	uuidID = regexp.MustCompile(`^((?:GPU|MIG)-` + uuidForm + `)` + replica + `$`)
	// partID is how drivers before R470 named a MIG device.
	partID = regexp.MustCompile(`^MIG-(GPU-` + uuidForm + `)/` + number + `/` + number + replica + `$`)
	// numberID is how the device plugin of GKE names GPUs and MIG devices.
	numberID = regexp.MustCompile(`^nvidia` + number + `(?:/gi` + number + `)?(?:/vgpu[0-9]+)?` + replica + `$`)
)

const (
	uuidForm = `[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}`
	number   = `(0|[1-9][0-9]{0,4})`
	replica  = `(?:::[0-9]+)?`
)

// parseID reads the id of a device: what it says of an assignment. It is not ok for an id of no known form.
func parseID(id string) (a Assignment, ok bool) {
	if len(id) > maxIDBytes {
		return a, false
	}
	if m := uuidID.FindStringSubmatch(id); m != nil {
		return Assignment{UUID: m[1], Minor: -1, GPUInstance: -1, ComputeInstance: -1}, true
	}
	if m := partID.FindStringSubmatch(id); m != nil {
		return Assignment{UUID: m[1], Minor: -1, GPUInstance: ordinal(m[2]), ComputeInstance: ordinal(m[3])}, true
	}
	if m := numberID.FindStringSubmatch(id); m != nil {
		return Assignment{Minor: ordinal(m[1]), GPUInstance: ordinal(m[2]), ComputeInstance: -1}, true
	}
	return a, false
}

// ordinal returns the value of a number of an id, -1 for none.
func ordinal(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return -1
	}
	return n
}

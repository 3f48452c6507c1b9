// Package pods finds out which pod has which GPU of this node. It asks the
// kubelet, over its pod-resources socket, again and again and publishes
// immutable snapshots; nothing else ever waits for the kubelet.
//
// The kubelet tells what its device plugins handed out. It does not tell of
// processes that use a GPU without having been given it, and it tells nothing
// useful of devices that come from a dynamic resource claim. Before Kubernetes
// 1.34 it may still list a pod that has ended, until that is deleted, beside
// the one that has its GPU now.
package pods

import (
	"log/slog"
	"time"
)

// DefaultSocket is where the kubelet listens.
const DefaultSocket = "/var/lib/kubelet/pod-resources/kubelet.sock"

// DefaultResources returns the names of the resources that the device plugin of
// NVIDIA gives out, in the form of Options.Resources.
func DefaultResources() []string {
	return []string{"nvidia.com/gpu", "nvidia.com/mig-*", "nvidia.com/gpu.shared"}
}

// Options are the settings of a Watcher.
type Options struct {
	// Socket is the path of the kubelet's socket; "" is DefaultSocket.
	Socket string
	// Interval is the time from one question to the next; 0 is 30 seconds.
	Interval time.Duration
	// Timeout is how long an answer may take; 0 is 10 seconds.
	Timeout time.Duration
	// Resources are the names of the resources that are GPUs. One that ends
	// with * stands for all that begin so. None is DefaultResources.
	Resources []string
	// Logger is told of changes; nil discards.
	Logger *slog.Logger
}

// Snapshot is what the kubelet told. It is immutable.
type Snapshot struct {
	// State tells how the latest question went.
	State State
	// Err is why, where it is not StateUp.
	Err error
	// At is when the latest question began that was answered; zero before the
	// first one.
	At time.Time
	// Assignments are sorted and without duplicates. They outlive questions
	// that failed, for three intervals.
	Assignments []Assignment
	// Failures counts questions that failed, by state.
	Failures map[State]uint64
}

// Assignment is one GPU, or one part of one, that one container was given.
// Several containers can share a GPU.
type Assignment struct {
	// UUID is that of the GPU (GPU-...) or of the MIG device (MIG-...); "" where
	// the kubelet knows the GPU by its number only.
	UUID string
	// Minor is N of /dev/nvidiaN; -1 where UUID tells.
	Minor int
	// GPUInstance and ComputeInstance are the part of the GPU that UUID or Minor
	// names; -1 where it is the whole of it, or all of the instance.
	GPUInstance, ComputeInstance int
	// Namespace, Pod and Container are the names of who has it.
	Namespace, Pod, Container string
}

// State tells how the Watcher stands with the kubelet. The set is closed.
type State string

// The states.
const (
	StateStarting    State = "starting"    // no question has ended yet
	StateUp          State = "up"          // the kubelet answers
	StateUnreachable State = "unreachable" // there is no socket, nobody behind it, or no answer in time
	StateDenied      State = "denied"      // no permission to ask
	StateFailed      State = "failed"      // anything else
)

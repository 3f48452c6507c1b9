// Package pods finds which pod has which GPU of this node. It asks the kubelet, over its pod-resources socket, again
// and again and publishes immutable snapshots; nothing else ever waits for the kubelet.
//
// The kubelet reports what its device plugins handed out. It does not report processes that use a GPU without having
// been given it, and it reports nothing useful about devices that come from a dynamic resource claim. Before Kubernetes
// 1.34 it may still list a pod that has ended, until that is deleted, beside the one that has its GPU now.
package pods

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// DefaultSocket is where the kubelet listens.
const DefaultSocket = "/var/lib/kubelet/pod-resources/kubelet.sock"

const (
	interval       = 30 * time.Second // from one question to the next
	answerWithin   = 10 * time.Second
	staleIntervals = 3 // after which assignments are dropped
)

// Options are the settings of a Watcher.
type Options struct {
	Socket  string            // the path of the kubelet's socket; "" is DefaultSocket
	Logger  *slog.Logger      // logs changes; nil discards
	Secrets *safetext.Secrets // what no name may repeat
}

// Snapshot is what the kubelet reported. It is immutable.
type Snapshot struct {
	State State     // the result of the latest question
	Err   error     // why, where it is not StateUp
	At    time.Time // when the latest question began that was answered; zero before the first one
	// Assignments are sorted and without duplicates. They outlive questions that failed, for three intervals.
	Assignments []Assignment
	Failures    map[State]uint64 // questions that failed, by state
}

// Assignment is one GPU, or one part of one, that one container was given. Several containers can share a GPU.
type Assignment struct {
	UUID  string // of the GPU (GPU-...) or of the MIG device (MIG-...); "" where the kubelet knows the GPU by its number
	Minor int    // N of /dev/nvidiaN; -1 where UUID is set
	// GPUInstance and ComputeInstance are the part of the GPU that UUID or Minor names; -1 where it is the whole of it,
	// or all of the instance.
	GPUInstance, ComputeInstance int
	Namespace, Pod, Container    string // the names of who has it
}

// State is the state of the connection to the kubelet. The set is closed.
type State string

const (
	StateStarting    State = "starting"    // no question has ended yet
	StateUp          State = "up"          // the kubelet answers
	StateUnreachable State = "unreachable" // there is no socket, no listener, or no answer in time
	StateDenied      State = "denied"      // no permission to ask
	StateFailed      State = "failed"      // anything else
)

// maxIDBytes bounds the id of a device; the longest form that is known has 60.
const maxIDBytes = 128

// Watcher asks the kubelet again and again. Its Snapshot never waits for it.
type Watcher struct {
	options Options
	log     *slog.Logger
	list    lister
	timeout time.Duration // of a question
	current atomic.Pointer[Snapshot]
	warned  bool // of an id of no known form
}

// lister asks the kubelet. strange is one id of a GPU that is of no known form.
type lister func(context.Context) (assignments []Assignment, strange string, err error)

// New returns a Watcher that has not asked yet. The error is that of a build without the kubelet's API.
func New(o Options) (*Watcher, error) {
	o.Socket = cmp.Or(o.Socket, DefaultSocket)
	list, err := newLister(o)
	w := &Watcher{options: o, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), list: list, timeout: answerWithin}
	w.current.Store(&Snapshot{State: StateStarting})
	return w, err
}

// Snapshot returns what the kubelet reported, without assignments that are too old. It never blocks and is never nil.
func (w *Watcher) Snapshot() *Snapshot {
	s := w.current.Load()
	if len(s.Assignments) == 0 || time.Since(s.At) <= staleIntervals*interval {
		return s
	}
	old := *s
	old.Assignments = nil
	return &old
}

// Run, which is called once, asks at once and then at each interval, until ctx ends; it then returns nil.
func (w *Watcher) Run(ctx context.Context) error {
	next := time.NewTicker(interval)
	defer next.Stop()
	for {
		w.ask(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
		}
	}
}

func (w *Watcher) ask(ctx context.Context) {
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	assignments, strange, err := w.list(bounded)
	if ctx.Err() != nil {
		return // not the kubelet's fault
	}
	if strange != "" && !w.warned {
		w.warned = true
		w.log.Warn("skipping GPU with unknown ID format (logged once)", "id", strange[:min(len(strange), maxIDBytes)])
	}
	before := w.current.Load()
	now := *before
	now.State, now.Err = StateUp, nil
	if err == nil {
		now.At, now.Assignments = began, assignments
	} else {
		now.State, now.Err = stateOf(err), fmt.Errorf("list pod resources: %w", err)
		now.Failures = map[State]uint64{}
		maps.Copy(now.Failures, before.Failures)
		now.Failures[now.State]++
	}
	w.current.Store(&now)
	switch {
	case now.State == before.State:
	case err == nil:
		w.log.Info("reading which pod has which GPU", "socket", w.options.Socket, "assignments", len(assignments))
	default:
		w.log.Warn("cannot read which pod has which GPU", "state", now.State, "err", now.Err)
	}
}

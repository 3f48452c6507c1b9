//go:build pod_resources

package pods

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// kubelet answers with what list returns.
type kubelet struct {
	podresources.UnimplementedPodResourcesListerServer
	list func(context.Context) (*podresources.ListPodResourcesResponse, error)
}

func (k *kubelet) List(ctx context.Context, _ *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	return k.list(ctx)
}

// listen opens a socket in a directory of its own.
func listen(t *testing.T, socket string) net.Listener {
	t.Helper()
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// serve serves the kubelet's service on a socket until stop is called.
func serve(t *testing.T, socket string, service podresources.PodResourcesListerServer) (stop func()) {
	t.Helper()
	l := listen(t, socket)
	s := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(s, service)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.Serve(l)
	}()
	stop = func() {
		s.Stop()
		<-ended
	}
	t.Cleanup(stop)
	return stop
}

// answer serves one answer to all questions.
func answer(t *testing.T, socket string, r *podresources.ListPodResourcesResponse, err error) (stop func()) {
	return serve(t, socket, &kubelet{list: func(context.Context) (*podresources.ListPodResourcesResponse, error) { return r, err }})
}

// asked returns what a Watcher publishes after one question.
func asked(t *testing.T, socket string, timeout time.Duration) *Snapshot {
	t.Helper()
	w := newWatcher(Options{Socket: socket})
	w.timeout = timeout
	w.ask(t.Context())
	return w.Snapshot()
}

func TestKubelet(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	answer(t, socket, reply(pod("ml", "vllm-0", "vllm", "nvidia.com/gpu", gpuA)), nil)
	before := time.Now()
	s := asked(t, socket, time.Minute)
	if s.State != StateUp || s.Err != nil || s.At.Before(before) || s.At.After(time.Now()) || s.Failures != nil {
		t.Errorf("snapshot = %+v", s)
	}
	if d := cmp.Diff([]Assignment{byUUID(gpuA, "ml", "vllm-0", "vllm")}, s.Assignments); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// hang waits for the end of the question.
func hang(ctx context.Context) (*podresources.ListPodResourcesResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestKubeletFails(t *testing.T) {
	padding := reply(pod("a", "b", "c", "example.com/x", strings.Repeat("x", 4<<20)))
	for name, tt := range map[string]struct {
		start   func(t *testing.T, socket string)
		timeout time.Duration
		state   State
		is      error  // what errors.Is finds
		text    string // what the error names
	}{
		"no socket": {
			start: func(*testing.T, string) {}, state: StateUnreachable, is: fs.ErrNotExist, text: "kubelet.sock",
		},
		"no socket but a file": {
			start: func(t *testing.T, socket string) {
				if err := os.WriteFile(socket, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}, state: StateUnreachable, is: syscall.ECONNREFUSED, text: "kubelet.sock",
		},
		"nobody speaks": {
			start: func(t *testing.T, socket string) {
				l := listen(t, socket)
				t.Cleanup(func() { _ = l.Close() })
			}, timeout: 50 * time.Millisecond, state: StateUnreachable,
		},
		"hangs": {
			start:   func(t *testing.T, socket string) { serve(t, socket, &kubelet{list: hang}) },
			timeout: 50 * time.Millisecond, state: StateUnreachable,
		},
		"refuses": {
			start: func(t *testing.T, socket string) {
				answer(t, socket, nil, status.Error(codes.PermissionDenied, "not you"))
			}, state: StateDenied, text: "not you",
		},
		"too fast for it": {
			start: func(t *testing.T, socket string) {
				answer(t, socket, nil, status.Error(codes.ResourceExhausted, "rejected by rate limit"))
			}, state: StateFailed, text: "rejected by rate limit",
		},
		"too old": {
			start: func(t *testing.T, socket string) {
				serve(t, socket, podresources.UnimplementedPodResourcesListerServer{})
			}, state: StateFailed, text: "not implemented",
		},
		"too large": {
			start: func(t *testing.T, socket string) { answer(t, socket, padding, nil) },
			state: StateFailed, text: "4194304",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.timeout == 0 {
				tt.timeout = time.Minute
			}
			socket := filepath.Join(t.TempDir(), "kubelet.sock")
			tt.start(t, socket)
			s := asked(t, socket, tt.timeout)
			if s.State != tt.state || s.Failures[tt.state] != 1 || len(s.Failures) != 1 || !s.At.IsZero() || s.Assignments != nil {
				t.Errorf("snapshot = %+v, want state %s", s, tt.state)
			}
			if tt.is != nil && !errors.Is(s.Err, tt.is) || s.Err == nil || !strings.Contains(s.Err.Error(), tt.text) {
				t.Errorf("error = %v, want %v with %q", s.Err, tt.is, tt.text)
			}
		})
	}
}

// A kubelet that restarts is found again at the next question.
func TestKubeletRestarts(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	w := newWatcher(Options{Socket: socket})
	expect := func(want State, failures uint64) {
		t.Helper()
		w.ask(t.Context())
		if s := w.Snapshot(); s.State != want || s.Failures[StateUnreachable] != failures {
			t.Errorf("state %s after %d failures, want %s after %d: %v", s.State, s.Failures[StateUnreachable], want, failures, s.Err)
		}
	}
	expect(StateUnreachable, 1)
	for range 2 {
		stop := answer(t, socket, reply(pod("ml", "vllm-0", "vllm", "nvidia.com/gpu", gpuA)), nil)
		expect(StateUp, w.Snapshot().Failures[StateUnreachable])
		stop()
		expect(StateUnreachable, w.Snapshot().Failures[StateUnreachable]+1)
	}
}

func TestKubeletDenied(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may open everything; TestStateOf has the error")
	}
	dir := t.TempDir()
	socket := filepath.Join(dir, "kubelet.sock")
	answer(t, socket, reply(), nil)
	if err := os.Chmod(dir, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
	if s := asked(t, socket, time.Minute); s.State != StateDenied || !errors.Is(s.Err, fs.ErrPermission) {
		t.Errorf("state %s, %v, want %s", s.State, s.Err, StateDenied)
	}
}

func TestStateOf(t *testing.T) {
	dial := func(errno syscall.Errno) error {
		return &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", errno)}
	}
	for _, tt := range []struct {
		err  error
		want State
	}{
		{dial(syscall.EACCES), StateDenied},
		{dial(syscall.EPERM), StateDenied},
		{dial(syscall.ENOENT), StateUnreachable},
		{dial(syscall.ECONNREFUSED), StateUnreachable},
		{context.DeadlineExceeded, StateUnreachable},
		{status.Error(codes.DeadlineExceeded, ""), StateUnreachable},
		{status.Error(codes.Unavailable, "permission denied"), StateUnreachable}, // text does not count
		{status.Error(codes.PermissionDenied, ""), StateDenied},
		{status.Error(codes.Unauthenticated, ""), StateDenied},
		{status.Error(codes.Internal, ""), StateFailed},
		{errors.New("anything"), StateFailed},
	} {
		if got := stateOf(fmt.Errorf("list: %w", tt.err)); got != tt.want {
			t.Errorf("stateOf(%v) = %s, want %s", tt.err, got, tt.want)
		}
	}
}

// Run against a kubelet that hangs ends at once and leaves nothing behind.
func TestRunEndsWhileKubeletHangs(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	ctx, cancel := context.WithCancel(t.Context())
	serve(t, socket, &kubelet{list: func(ctx context.Context) (*podresources.ListPodResourcesResponse, error) {
		cancel()
		return hang(ctx)
	}})
	w := newWatcher(Options{Socket: socket})
	w.timeout = time.Hour
	if err := w.Run(ctx); err != nil {
		t.Error(err)
	}
	if s := w.Snapshot(); s.State != StateStarting {
		t.Errorf("state %s, want %s: the end is no failure", s.State, StateStarting)
	}
}

// BenchmarkList asks a real server for the pods of a full node.
func BenchmarkList(b *testing.B) {
	full := reply()
	for i := range 256 {
		full.PodResources = append(full.PodResources, pod("a", fmt.Sprint("pod-", i), "c", "nvidia.com/gpu", gpuA))
	}
	socket := filepath.Join(b.TempDir(), "kubelet.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		b.Fatal(err)
	}
	s := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(s, &kubelet{list: func(context.Context) (*podresources.ListPodResourcesResponse, error) { return full, nil }})
	go func() { _ = s.Serve(l) }()
	defer s.Stop()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := list(b.Context(), socket); err != nil {
			b.Fatal(err)
		}
	}
}

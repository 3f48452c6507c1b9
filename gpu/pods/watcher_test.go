package pods

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// script makes a Watcher whose questions get answers, one after the other, the
// last one for ever.
func script(o Options, answers ...func() (*podresources.ListPodResourcesResponse, error)) (w *Watcher, asked *[]time.Duration) {
	w = New(o)
	began := time.Now()
	asked = new([]time.Duration)
	w.list = func(context.Context) (*podresources.ListPodResourcesResponse, error) {
		n := min(len(*asked), len(answers)-1)
		*asked = append(*asked, time.Since(began))
		return answers[n]()
	}
	return w, asked
}

func works() (*podresources.ListPodResourcesResponse, error) {
	return reply(pod("ml", "vllm-0", "vllm", "nvidia.com/gpu", gpuA)), nil
}
func fails() (*podresources.ListPodResourcesResponse, error) { return nil, errors.New("no") }
func late() (*podresources.ListPodResourcesResponse, error)  { return nil, context.DeadlineExceeded }

func strange() (*podresources.ListPodResourcesResponse, error) {
	return reply(pod("ml", "vllm-0", "vllm", "nvidia.com/gpu", "tegra")), nil
}

// run runs a Watcher in the background of a bubble; stop ends it.
func run(t *testing.T, w *Watcher) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	synctest.Wait()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestRunAsksAtOnceAndThenAtEachInterval(t *testing.T) {
	for _, tt := range []struct{ interval, want time.Duration }{{0, 30 * time.Second}, {time.Minute, time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			w, asked := script(Options{Interval: tt.interval}, works)
			if s := w.Snapshot(); s == nil || s.State != StateStarting || !s.At.IsZero() {
				t.Errorf("snapshot before Run = %+v", s)
			}
			stop := run(t, w)
			pass(2*tt.want + time.Second)
			stop()
			if want := []time.Duration{0, tt.want, 2 * tt.want}; !slices.Equal(*asked, want) {
				t.Errorf("asked at %v, want %v", *asked, want)
			}
			if s := w.Snapshot(); time.Since(s.At) != time.Second {
				t.Errorf("At is %v ago, want 1s", time.Since(s.At))
			}
			if err := w.Run(t.Context()); err == nil {
				t.Error("a second Run is no error")
			}
		})
	}
}

// A question has its own limit of time.
func TestQuestionIsBounded(t *testing.T) {
	for _, tt := range []struct{ timeout, want time.Duration }{{0, 10 * time.Second}, {time.Second, time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			w := New(Options{Timeout: tt.timeout})
			w.list = func(ctx context.Context) (*podresources.ListPodResourcesResponse, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			began := time.Now()
			w.ask(t.Context())
			if got := time.Since(began); got != tt.want {
				t.Errorf("gave up after %v, want %v", got, tt.want)
			}
			if s := w.Snapshot(); s.State != StateUnreachable || s.Failures[StateUnreachable] != 1 {
				t.Errorf("snapshot = %+v", s)
			}
		})
	}
}

// Assignments outlive failures for three intervals and then go; the time they
// are from stays.
func TestStaleness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := script(Options{Interval: 10 * time.Second}, works, fails, late, fails, late, fails, works)
		began := time.Now()
		stop := run(t, w)
		defer stop()
		for _, tt := range []struct {
			at       time.Duration
			state    State
			n        int
			read     time.Duration
			failures map[State]uint64
		}{
			{5 * time.Second, StateUp, 1, 0, nil},
			{15 * time.Second, StateFailed, 1, 0, map[State]uint64{StateFailed: 1}},
			{25 * time.Second, StateUnreachable, 1, 0, map[State]uint64{StateFailed: 1, StateUnreachable: 1}},
			{30 * time.Second, StateFailed, 1, 0, map[State]uint64{StateFailed: 2, StateUnreachable: 1}},
			{30*time.Second + 1, StateFailed, 0, 0, map[State]uint64{StateFailed: 2, StateUnreachable: 1}},
			{55 * time.Second, StateFailed, 0, 0, map[State]uint64{StateFailed: 3, StateUnreachable: 2}},
			{65 * time.Second, StateUp, 1, 60 * time.Second, map[State]uint64{StateFailed: 3, StateUnreachable: 2}},
		} {
			pass(time.Until(began.Add(tt.at)))
			s := w.Snapshot()
			if s.State != tt.state || len(s.Assignments) != tt.n || s.At.Sub(began) != tt.read || (s.Err == nil) != (tt.state == StateUp) {
				t.Errorf("at %v: %+v, want %s and %d of %v", tt.at, s, tt.state, tt.n, tt.read)
			}
			for _, state := range []State{StateUnreachable, StateDenied, StateFailed} {
				if s.Failures[state] != tt.failures[state] {
					t.Errorf("at %v: %d failures %s, want %d", tt.at, s.Failures[state], state, tt.failures[state])
				}
			}
		}
	})
}

// A snapshot that was taken does not change.
func TestSnapshotIsImmutable(t *testing.T) {
	w, _ := script(Options{}, fails, fails, works)
	w.ask(t.Context())
	first := w.Snapshot()
	w.ask(t.Context())
	w.ask(t.Context())
	if first.State != StateFailed || first.Failures[StateFailed] != 1 || len(first.Assignments) != 0 {
		t.Errorf("snapshot became %+v", first)
	}
	if s := w.Snapshot(); s.Failures[StateFailed] != 2 || s.Err != nil {
		t.Errorf("snapshot = %+v", s)
	}
}

// A change of state is one line, what stays the same none, and an id of no
// known form is told once.
func TestLog(t *testing.T) {
	var b bytes.Buffer
	log := slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	w, asked := script(Options{Socket: "/s", Logger: log}, fails, fails, late, late, works, works, strange, strange, fails)
	for len(*asked) < 9 {
		w.ask(t.Context())
	}
	want := strings.Join([]string{
		`level=WARN msg="cannot read which pod has which GPU" state=failed err="list pod resources: no"`,
		`level=WARN msg="cannot read which pod has which GPU" state=unreachable err="list pod resources: context deadline exceeded"`,
		`level=INFO msg="reading which pod has which GPU" socket=/s assignments=1`,
		`level=WARN msg="left out a GPU whose id has no known form (logged once)" id=tegra`,
		`level=WARN msg="cannot read which pod has which GPU" state=failed err="list pod resources: no"`,
		"",
	}, "\n")
	if got := b.String(); got != want {
		t.Errorf("log:\n%swant:\n%s", got, want)
	}
}

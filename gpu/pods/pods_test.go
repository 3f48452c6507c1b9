//go:build pod_resources

package pods

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gopkg.in/yaml.v3"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

func newWatcher(o Options) *Watcher {
	w, err := New(o)
	if err != nil {
		panic(err)
	}
	return w
}

// script makes a Watcher whose questions get answers, one after the other, the
// last one for ever.
func script(o Options, answers ...func() (*podresources.ListPodResourcesResponse, error)) (w *Watcher, asked *[]time.Duration) {
	w = newWatcher(o)
	began := time.Now()
	asked = new([]time.Duration)
	w.list = func(context.Context) ([]Assignment, string, error) {
		n := min(len(*asked), len(answers)-1)
		*asked = append(*asked, time.Since(began))
		answer, err := answers[n]()
		if err != nil {
			return nil, "", err
		}
		return assignmentsIn(answer, nil)
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
	synctest.Test(t, func(t *testing.T) {
		w, asked := script(Options{}, works)
		if s := w.Snapshot(); s == nil || s.State != StateStarting || !s.At.IsZero() {
			t.Errorf("snapshot before Run = %+v", s)
		}
		stop := run(t, w)
		pass(61 * time.Second)
		stop()
		if want := []time.Duration{0, 30 * time.Second, time.Minute}; !slices.Equal(*asked, want) {
			t.Errorf("asked at %v, want %v", *asked, want)
		}
		if s := w.Snapshot(); time.Since(s.At) != time.Second {
			t.Errorf("At is %v ago, want 1s", time.Since(s.At))
		}
	})
}

// A question has its own limit of time.
func TestQuestionIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatcher(Options{})
		w.list = func(ctx context.Context) ([]Assignment, string, error) {
			<-ctx.Done()
			return nil, "", ctx.Err()
		}
		began := time.Now()
		w.ask(t.Context())
		if got := time.Since(began); got != 10*time.Second {
			t.Errorf("gave up after %v, want 10s", got)
		}
		if s := w.Snapshot(); s.State != StateUnreachable || s.Failures[StateUnreachable] != 1 {
			t.Errorf("snapshot = %+v", s)
		}
	})
}

// Assignments outlive failures for three intervals and then go; the time they
// are from stays.
func TestStaleness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := script(Options{}, works, fails, late, fails, late, fails, works)
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
			{15 * time.Second, StateUp, 1, 0, nil},
			{45 * time.Second, StateFailed, 1, 0, map[State]uint64{StateFailed: 1}},
			{75 * time.Second, StateUnreachable, 1, 0, map[State]uint64{StateFailed: 1, StateUnreachable: 1}},
			{90 * time.Second, StateFailed, 1, 0, map[State]uint64{StateFailed: 2, StateUnreachable: 1}},
			{90*time.Second + 1, StateFailed, 0, 0, map[State]uint64{StateFailed: 2, StateUnreachable: 1}},
			{165 * time.Second, StateFailed, 0, 0, map[State]uint64{StateFailed: 3, StateUnreachable: 2}},
			{195 * time.Second, StateUp, 1, 180 * time.Second, map[State]uint64{StateFailed: 3, StateUnreachable: 2}},
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
// known form is logged once.
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
		`level=WARN msg="skipping GPU with unknown ID format (logged once)" id=tegra`,
		`level=WARN msg="cannot read which pod has which GPU" state=failed err="list pod resources: no"`,
		"",
	}, "\n")
	if got := b.String(); got != want {
		t.Errorf("log:\n%swant:\n%s", got, want)
	}
}

// manifests decodes all documents of a file; a key that is there twice is an
// error.
func manifests(t *testing.T, text string) (list []map[string]any) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(text))
	for {
		var m map[string]any
		err := decoder.Decode(&m)
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, m)
	}
}

// at follows keys (string) and indexes (int) into a manifest; nil is nothing.
func at(value any, steps ...any) any {
	for _, step := range steps {
		switch s := step.(type) {
		case string:
			m, _ := value.(map[string]any)
			value = m[s]
		case int:
			l, _ := value.([]any)
			if s >= len(l) {
				return nil
			}
			value = l[s]
		}
	}
	return value
}

// The example says what its comments say, with and without its variants.
func TestDaemonSet(t *testing.T) {
	data, err := os.ReadFile("../../examples/kubernetes/gpu/gpu-daemonset.yml")
	if err != nil {
		t.Fatal(err)
	}
	base := string(data)
	variants := regexp.MustCompile(`(?m)^#\+ `).ReplaceAllString(base, "")
	if strings.Count(base, "\n#+ ") != 6 {
		t.Errorf("%d lines of variants, want 6", strings.Count(base, "\n#+ "))
	}
	for name, text := range map[string]string{"base": base, "variants": variants} {
		t.Run(name, func(t *testing.T) {
			list := manifests(t, text)
			if len(list) != 3 {
				t.Fatalf("%d manifests, want 3", len(list))
			}
			for i, kind := range []string{"Namespace", "ServiceAccount", "DaemonSet"} {
				if list[i]["kind"] != kind {
					t.Errorf("manifest %d is a %v, want a %s", i, list[i]["kind"], kind)
				}
				if namespace := at(list[i], "metadata", "namespace"); i > 0 && namespace != at(list[0], "metadata", "name") {
					t.Errorf("%s is in namespace %v", kind, namespace)
				}
			}
			checkDaemonSet(t, list[2], at(list[1], "metadata", "name"), name == "variants")
		})
	}
}

func checkDaemonSet(t *testing.T, set map[string]any, account any, variants bool) {
	t.Helper()
	pod := at(set, "spec", "template", "spec")
	container := at(pod, "containers", 0)
	env := map[any]any{}
	list, _ := at(container, "env").([]any)
	for _, e := range list {
		env[at(e, "name")] = at(e, "value")
	}
	only := func(value any) any { // in the variants
		if variants {
			return value
		}
		return nil
	}
	for name, c := range map[string]struct{ got, want any }{
		"labels":     {at(set, "spec", "template", "metadata", "labels", "app.kubernetes.io/name"), at(set, "spec", "selector", "matchLabels", "app.kubernetes.io/name")},
		"account":    {at(pod, "serviceAccountName"), account},
		"token":      {at(pod, "automountServiceAccountToken"), false},
		"runtime":    {at(pod, "runtimeClassName"), "nvidia"},
		"GPUs":       {env["NVIDIA_VISIBLE_DEVICES"], "all"},
		"driver":     {env["NVIDIA_DRIVER_CAPABILITIES"], "utility"},
		"MIG":        {env["NVIDIA_MIG_MONITOR_DEVICES"], only("all")},
		"host PIDs":  {at(pod, "hostPID"), only(true)},
		"user":       {at(container, "securityContext", "runAsUser"), 0},
		"root":       {at(container, "securityContext", "readOnlyRootFilesystem"), true},
		"escalation": {at(container, "securityContext", "allowPrivilegeEscalation"), false},
		"privileged": {at(container, "securityContext", "privileged"), only(true)},
		"drop":       {at(container, "securityContext", "capabilities", "drop", 0), "ALL"},
		"add":        {at(container, "securityContext", "capabilities", "add", 0), only("SYS_ADMIN")},
		"liveness":   {at(container, "livenessProbe", "httpGet", "path"), "/-/healthy"},
		"port":       {at(container, "livenessProbe", "httpGet", "port"), at(container, "ports", 0, "name")},
		"mount":      {at(container, "volumeMounts", 0, "mountPath"), path.Dir(DefaultSocket)},
		"read-only":  {at(container, "volumeMounts", 0, "readOnly"), true},
		"volume":     {at(container, "volumeMounts", 0, "name"), at(pod, "volumes", 0, "name")},
		"host path":  {at(pod, "volumes", 0, "hostPath", "path"), path.Dir(DefaultSocket)},
		"GPU limit":  {at(container, "resources", "limits", "nvidia.com/gpu"), nil},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	args := []any{"--no-collector.probe", "--no-collector.server", "--collector.gpu", "--gpu.pod-resources"}
	if variants {
		args = append(args, "--gpu.processes")
	}
	if got, _ := at(container, "args").([]any); !slices.Equal(got, args) {
		t.Errorf("args: %v, want %v", got, args)
	}
}

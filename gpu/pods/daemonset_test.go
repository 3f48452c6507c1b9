package pods

import (
	"errors"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

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

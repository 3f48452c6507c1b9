package cluster

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// helm returns what helm does in a namespace.
func helm(t *testing.T, namespace string) *action.Configuration {
	t.Helper()
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig, flags.Namespace = &stand.Kubeconfig, &namespace
	c := new(action.Configuration)
	if err := c.Init(flags, namespace, "secrets", func(format string, args ...any) { t.Logf(format, args...) }); err != nil {
		t.Fatal(err)
	}
	return c
}

// Each shape of the chart is installed, upgraded, rolled back and uninstalled; its pods get ready, and nothing of it stays.
func TestChart(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(chartDir, "ci/*.yaml"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no values: %v", err)
	}
	for _, name := range names {
		shape := strings.TrimSuffix(filepath.Base(name), ".yaml")
		t.Run(shape, func(t *testing.T) {
			values, err := chartutil.ReadValuesFile(name)
			if err != nil {
				t.Fatal(err)
			}
			namespace := "chart-" + shape
			level := "restricted"
			if gpu, ok := values["gpu"].(map[string]any); ok && gpu["enabled"] == true {
				level = "privileged" // hostPath
			}
			newNamespace(t, namespace, level)
			testShape(t, namespace, values)
		})
	}
}

func testShape(t *testing.T, namespace string, values chartutil.Values) {
	for _, other := range []string{"models", "search"} { // that roles are bound in
		if err := apply(t.Context(), "", []byte(fmt.Sprintf("apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", other))); err != nil {
			t.Fatal(err)
		}
	}
	for _, secret := range []string{"llm-keys", "web", "more", "vllm", "registry"} {
		text := fmt.Sprintf("apiVersion: v1\nkind: Secret\nmetadata: {name: %s}\nstringData: {key: k}\n", secret)
		if err := apply(t.Context(), namespace, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	for _, class := range []string{
		"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: monitoring}\nvalue: 10\n",
		"apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: nvidia}\nhandler: nvidia\n",
	} {
		if err := apply(t.Context(), "", []byte(class)); err != nil {
			t.Fatal(err)
		}
	}
	chart, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	c := helm(t, namespace)
	install := action.NewInstall(c)
	install.ReleaseName, install.Namespace, install.Wait, install.Timeout = "watch", namespace, false, patience
	first, err := install.RunWithContext(t.Context(), chart, values)
	if err != nil {
		t.Fatalf("install: %v", err)
	}
	objects := strings.Count(first.Manifest, "\nkind: ")

	upgrade := action.NewUpgrade(c)
	upgrade.Namespace, upgrade.Timeout = namespace, patience
	more := chartutil.CoalesceTables(map[string]any{"networkPolicy": map[string]any{"enabled": false}}, values)
	second, err := upgrade.RunWithContext(t.Context(), "watch", chart, more)
	if err != nil {
		t.Fatalf("upgrade: %v", err)
	}
	rollback := action.NewRollback(c)
	rollback.Version, rollback.Timeout = 1, patience
	if err := rollback.Run("watch"); err != nil {
		t.Fatalf("roll back: %v", err)
	}
	t.Logf("%d objects, %d after the upgrade", objects, strings.Count(second.Manifest, "\nkind: "))

	uninstall := action.NewUninstall(c)
	uninstall.Wait, uninstall.Timeout = true, patience
	if _, err := uninstall.Run("watch"); err != nil {
		t.Fatalf("uninstall: %v", err)
	}
	all := client(t)
	services, err := all.CoreV1().Services(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(services.Items) > 0 {
		t.Errorf("%d services stay: %v", len(services.Items), err)
	}
	maps, err := all.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=watch"})
	if err != nil || len(maps.Items) > 0 {
		t.Errorf("%d ConfigMaps stay: %v", len(maps.Items), err)
	}
}

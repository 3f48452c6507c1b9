package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// The configuration of the example finds the servers of the pool beside it, once each and at the port of the pool, and
// nothing else, with the rights of examples/kubernetes/discovery.
func TestInferencePool(t *testing.T) {
	folder := filepath.Join(kubernetesDir, "inferencepool")
	read := func(name string) []byte {
		t.Helper()
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	const namespace = "models" // of the example
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(apply(t.Context(), "", []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: "+namespace+"}\n")))
	text := read(filepath.Join(folder, "pool.yml"))
	eventually(t, "the kind InferencePool", func() string { // its CRD may be new
		if err := apply(t.Context(), "", text); err != nil {
			return err.Error()
		}
		return ""
	})
	var pool struct {
		Spec struct {
			Selector    struct{ MatchLabels map[string]string }
			TargetPorts []struct{ Number int }
		}
	}
	must(yaml.Unmarshal(text, &pool))
	port := pool.Spec.TargetPorts[0].Number
	server := func(name string, labels map[string]string) string {
		text, err := yaml.Marshal(map[string]any{
			"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name, "labels": labels},
			"spec": map[string]any{"containers": []any{
				map[string]any{"name": "vllm", "image": "vllm:1", "ports": []any{map[string]any{"containerPort": port}}},
				map[string]any{"name": "sidecar", "image": "sidecar:1", "ports": []any{map[string]any{"containerPort": 9000}, map[string]any{"containerPort": 9001}}},
			}},
		})
		must(err)
		return string(text)
	}
	must(apply(t.Context(), namespace, []byte(strings.Join([]string{
		server("llama-0", pool.Spec.Selector.MatchLabels), server("llama-1", pool.Spec.Selector.MatchLabels), server("other", map[string]string{"app": "other"}),
	}, "---\n"))))
	t.Cleanup(func() {
		for _, name := range []string{"llama-0", "llama-1", "other"} {
			_ = client(t).CoreV1().Pods(namespace).Delete(context.Background(), name, metav1.DeleteOptions{})
		}
	})
	new(output).run(t, "simulate", fmt.Sprintf("--web.listen-address=0.0.0.0:%d", port))

	account := string(read(filepath.Join(kubernetesDir, "base/serviceaccount.yml")))
	must(apply(t.Context(), "default", []byte(account)))
	must(apply(t.Context(), "default", read(filepath.Join(kubernetesDir, "discovery/rbac.yml"))))
	writeAccount(t, tokenOf(t, "default", "inference-exporter"))
	d := startDaemon(t, strings.Replace(string(read(filepath.Join(folder, "config.yml"))), "discovery:\n", "global: {interval: 1s}\ndiscovery:\n", 1))
	eventually(t, "the servers of the pool", func() string {
		all, good := d.endpoints()
		if want := []string{namespace + "/llama-0", namespace + "/llama-1"}; !slices.Equal(good, want) || !slices.Equal(all, append([]string{"llama"}, want...)) {
			return fmt.Sprintf("there are %q, with success %q; the log:\n%.2000s", all, good, d)
		}
		return ""
	})
}

package cluster

import (
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// What kubectl apply -k makes of each folder is accepted, by the schemas, the operator's CRDs and the admission of the cluster.
func TestKustomizations(t *testing.T) {
	levels := map[string]string{"gpu": "privileged"} // hostPath
	newNamespace(t, "inference", "restricted")       // which two folders name
	for _, folder := range []string{"base", "ha", "gpu", "monitoring", "probe", "example"} {
		t.Run(folder, func(t *testing.T) {
			built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(kubernetesDir, folder))
			if err != nil {
				t.Fatal(err)
			}
			text, err := built.AsYaml()
			if err != nil {
				t.Fatal(err)
			}
			namespace := "kustomize-" + folder
			level := levels[folder]
			if level == "" {
				level = "restricted"
			}
			newNamespace(t, namespace, level)
			if err := apply(t.Context(), namespace, text); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Pods of the probers come up under the strictest level of pod security.
func TestPodsRun(t *testing.T) {
	const namespace = "pods-run"
	newNamespace(t, namespace, "restricted")
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(kubernetesDir, "base"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	secret := "apiVersion: v1\nkind: Secret\nmetadata: {name: inference-exporter-keys}\nstringData: {key: k}\n"
	if err := apply(t.Context(), namespace, []byte(secret)); err != nil {
		t.Fatal(err)
	}
	if err := apply(t.Context(), namespace, text); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pods", func() string {
		pods, err := client(t).CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err.Error()
		}
		var states []string
		for i := range pods.Items {
			states = append(states, string(pods.Items[i].Status.Phase))
		}
		if len(states) > 0 && strings.Join(states, "") == strings.Repeat("Running", len(states)) {
			return ""
		}
		return "they are " + strings.Join(states, ", ")
	})
}

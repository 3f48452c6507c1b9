package deploy

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// kustomize builds a folder of the examples, as kubectl apply -k does.
func kustomize(t *testing.T, folder string) objects {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).
		Run(filesys.MakeFsOnDisk(), filepath.Join(kubernetesDir, folder))
	if err != nil {
		t.Fatal(err)
	}
	text, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return mustDecode(t, text)
}

func TestKustomize(t *testing.T) {
	for folder, kinds := range map[string]string{
		"base": "ConfigMap NetworkPolicy PodDisruptionBudget Service ServiceAccount StatefulSet",
		"ha": "ConfigMap ConfigMap NetworkPolicy NetworkPolicy PodDisruptionBudget PodDisruptionBudget " +
			"Service Service ServiceAccount ServiceAccount StatefulSet StatefulSet",
		"gpu":        "DaemonSet Namespace ServiceAccount",
		"monitoring": "PodMonitor PrometheusRule ServiceMonitor",
		"example": "ClusterRole ClusterRoleBinding ConfigMap Namespace NetworkPolicy PodDisruptionBudget PodMonitor " +
			"PrometheusRule Secret Service ServiceAccount ServiceMonitor StatefulSet",
	} {
		t.Run(folder, func(t *testing.T) {
			all := kustomize(t, folder)
			var got []string
			for _, o := range all {
				got = append(got, o.GetObjectKind().GroupVersionKind().Kind)
			}
			slices.Sort(got)
			if strings.Join(got, " ") != kinds {
				t.Errorf("built %s\nwant %s", strings.Join(got, " "), kinds)
			}
			testFit(t, all)
			testConfig(t, all, nil)
		})
	}
}

// The configuration of an overlay takes the place of that of the base.
func TestExampleConfig(t *testing.T) {
	maps := of[*corev1.ConfigMap](kustomize(t, "example"))
	if len(maps) != 1 || maps[0].Data["config.yml"] != readFile(t, kubernetesDir, "example/config.yml") {
		t.Errorf("the configuration is not that of the example: %v", maps)
	}
}

// Where pods are restricted, the level is that of the namespace, not the hope of
// the author.
func TestExampleNamespace(t *testing.T) {
	all := kustomize(t, "example")
	ns := of[*corev1.Namespace](all)[0]
	if ns.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
		t.Errorf("labels of the namespace: %v", ns.Labels)
	}
	for _, o := range all {
		if o.GetNamespace() != ns.Name && o.GetNamespace() != "" {
			t.Errorf("%s is in namespace %s", title(o), o.GetNamespace())
		}
	}
}

// The sets of the pair keep away from each other, and not from themselves.
func TestPairIsApart(t *testing.T) {
	sets := of[*appsv1.StatefulSet](kustomize(t, "ha"))
	if len(sets) != 2 {
		t.Fatalf("%d sets, want 2", len(sets))
	}
	for _, set := range sets {
		term := set.Spec.Template.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm
		if !slices.Equal(term.MismatchLabelKeys, []string{"app.kubernetes.io/instance"}) || set.Spec.Template.Labels["app.kubernetes.io/instance"] == "" {
			t.Errorf("%s: keeps away from itself", set.Name)
		}
		for _, other := range sets {
			if !selects(term.LabelSelector, other.Spec.Template.Labels) {
				t.Errorf("%s does not keep away from %s", set.Name, other.Name)
			}
		}
	}
}

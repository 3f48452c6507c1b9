package deploy

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The checks find each mistake, and only it.
func TestMistakesAreFound(t *testing.T) {
	right := kustomize(t, "example")
	for want, spoil := range map[string]func(all objects, set *appsv1.StatefulSet, c *corev1.Container){
		"SHARD_COUNT is": func(_ objects, set *appsv1.StatefulSet, _ *corev1.Container) { *set.Spec.Replicas++ },
		"SHARD_INDEX is not": func(_ objects, _ *appsv1.StatefulSet, c *corev1.Container) {
			c.Env = slices.DeleteFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "SHARD_INDEX" })
		},
		"the selector does not match": func(_ objects, set *appsv1.StatefulSet, _ *corev1.Container) {
			set.Spec.Selector.MatchLabels["app.kubernetes.io/name"] = "other"
		},
		"no ServiceAccount other": func(_ objects, set *appsv1.StatefulSet, _ *corev1.Container) {
			set.Spec.Template.Spec.ServiceAccountName = "other"
			*set.Spec.Template.Spec.AutomountServiceAccountToken = false // it has no rights
		},
		"no ConfigMap other": func(_ objects, set *appsv1.StatefulSet, _ *corev1.Container) {
			set.Spec.Template.Spec.Volumes[0].ConfigMap.Name = "other"
		},
		"no Service other": func(_ objects, set *appsv1.StatefulSet, _ *corev1.Container) { set.Spec.ServiceName = "other" },
		"files of Secret": func(_ objects, set *appsv1.StatefulSet, _ *corev1.Container) {
			*set.Spec.Template.Spec.Volumes[1].Secret.DefaultMode = 0o444
		},
		"volumes [config keys], mounted [config other]": func(_ objects, _ *appsv1.StatefulSet, c *corev1.Container) {
			c.VolumeMounts[1].Name = "other"
		},
		"is mounted writable": func(_ objects, _ *appsv1.StatefulSet, c *corev1.Container) { c.VolumeMounts[0].ReadOnly = false },
		"the root file system is": func(_ objects, _ *appsv1.StatefulSet, c *corev1.Container) {
			c.SecurityContext.ReadOnlyRootFilesystem = nil
		},
		"runAsNonRoot != true": func(_ objects, set *appsv1.StatefulSet, _ *corev1.Container) {
			set.Spec.Template.Spec.SecurityContext.RunAsNonRoot = nil
		},
		"allowPrivilegeEscalation": func(_ objects, _ *appsv1.StatefulSet, c *corev1.Container) {
			c.SecurityContext.AllowPrivilegeEscalation = nil
		},
		"a probe of the port web": func(_ objects, _ *appsv1.StatefulSet, c *corev1.Container) {
			c.LivenessProbe.HTTPGet.Port = intstr.FromString("web")
		},
		"no probe of /-/healthy": func(_ objects, _ *appsv1.StatefulSet, c *corev1.Container) { c.LivenessProbe.HTTPGet.Path = "/" },
		"no probe of /-/ready":   func(_ objects, _ *appsv1.StatefulSet, c *corev1.Container) { c.ReadinessProbe = nil },
		"resources are not set":  func(_ objects, _ *appsv1.StatefulSet, c *corev1.Container) { c.Resources.Requests = nil },
		"a limit of CPU": func(_ objects, _ *appsv1.StatefulSet, c *corev1.Container) {
			c.Resources.Limits["cpu"] = resource.MustParse("1")
		},
		"token false, rights true": func(_ objects, set *appsv1.StatefulSet, _ *corev1.Container) {
			*set.Spec.Template.Spec.AutomountServiceAccountToken = false
		},
		"more than reading": func(all objects, _ *appsv1.StatefulSet, _ *corev1.Container) {
			of[*rbacv1.ClusterRole](all)[0].Rules[0].Verbs = []string{"*"}
		},
		"no ClusterRole other": func(all objects, _ *appsv1.StatefulSet, _ *corev1.Container) {
			of[*rbacv1.ClusterRoleBinding](all)[0].RoleRef.Name = "other"
		},
		"Service inference-exporter: sel": func(all objects, _ *appsv1.StatefulSet, _ *corev1.Container) {
			of[*corev1.Service](all)[0].Spec.Selector["a"] = "b"
		},
		"Service inference-exporter: port web is none": func(all objects, _ *appsv1.StatefulSet, _ *corev1.Container) {
			of[*corev1.Service](all)[0].Spec.Ports[0].TargetPort = intstr.FromString("web")
		},
		"NetworkPolicy inference-exporter: port 80 is none": func(all objects, _ *appsv1.StatefulSet, _ *corev1.Container) {
			*of[*networkingv1.NetworkPolicy](all)[0].Spec.Ingress[0].Ports[0].Port = intstr.FromInt32(80)
		},
		"PodDisruptionBudget inference-exporter: selects the pods of 0": func(all objects, _ *appsv1.StatefulSet, _ *corev1.Container) {
			of[*policyv1.PodDisruptionBudget](all)[0].Spec.Selector.MatchLabels["a"] = "b"
		},
		"label a=": func(all objects, _ *appsv1.StatefulSet, _ *corev1.Container) {
			of[*corev1.Service](all)[0].Labels["a"] = strings.Repeat("a", 64)
		},
	} {
		t.Run(want, func(t *testing.T) {
			var all objects
			for _, o := range right {
				all = append(all, o.DeepCopyObject().(object))
			}
			set := of[*appsv1.StatefulSet](all)[0]
			spoil(all, set, &set.Spec.Template.Spec.Containers[0])
			got := slices.Concat(checkFit(all), checkRestricted(all))
			if len(got) != 1 || !strings.Contains(got[0], want) {
				t.Errorf("found %q", got)
			}
		})
	}
	if got := checkFit(append(right, right[0])); len(got) == 0 || !strings.Contains(got[0], "is there twice") {
		t.Errorf("an object twice: found %q", got)
	}
}

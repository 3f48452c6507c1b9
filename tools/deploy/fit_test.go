package deploy

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
)

// workload is what StatefulSets and DaemonSets have in common.
type workload struct {
	object
	selector *metav1.LabelSelector
	template corev1.PodTemplateSpec
	claims   []corev1.PersistentVolumeClaim
}

func (all objects) workloads() (found []workload) {
	for _, o := range of[*appsv1.StatefulSet](all) {
		found = append(found, workload{o, o.Spec.Selector, o.Spec.Template, o.Spec.VolumeClaimTemplates})
	}
	for _, o := range of[*appsv1.DaemonSet](all) {
		found = append(found, workload{o, o.Spec.Selector, o.Spec.Template, nil})
	}
	return found
}

func selects(selector *metav1.LabelSelector, set map[string]string) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && !s.Empty() && s.Matches(labels.Set(set))
}

func hasPort(pod corev1.PodTemplateSpec, port intstr.IntOrString) bool {
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if port.Type == intstr.String && p.Name == port.StrVal || port.Type == intstr.Int && p.ContainerPort == port.IntVal {
				return true
			}
		}
	}
	return false
}

// checkFit returns what does not fit together. One line for each mistake.
func checkFit(all objects) (mistakes []string) {
	wrong := func(o object, format string, args ...any) {
		mistakes = append(mistakes, title(o)+": "+fmt.Sprintf(format, args...))
	}
	seen := map[string]bool{}
	for _, o := range all {
		key := title(o) + " in " + o.GetNamespace()
		if seen[key] {
			wrong(o, "is there twice")
		}
		seen[key] = true
		if errs := validation.IsDNS1123Subdomain(o.GetName()); len(errs) > 0 {
			wrong(o, "name: %s", errs)
		}
		for name, value := range o.GetLabels() {
			if errs := slices.Concat(validation.IsQualifiedName(name), validation.IsValidLabelValue(value)); len(errs) > 0 {
				wrong(o, "label %s=%s: %s", name, value, errs)
			}
		}
	}
	for _, w := range all.workloads() {
		checkWorkload(all, w, func(format string, args ...any) { wrong(w, format, args...) })
	}
	for _, o := range of[*appsv1.StatefulSet](all) {
		checkShards(all, o, func(format string, args ...any) { wrong(o, format, args...) })
	}
	checkSelectors(all, wrong)
	checkRights(all, wrong)
	return mistakes
}

func checkWorkload(all objects, w workload, wrong func(string, ...any)) {
	pod := w.template.Spec
	if !selects(w.selector, w.template.Labels) {
		wrong("the selector does not match the labels of its pods")
	}
	for _, other := range all.workloads() {
		if other.object != w.object && other.GetNamespace() == w.GetNamespace() && selects(w.selector, other.template.Labels) {
			wrong("selects the pods of %s", title(other))
		}
	}
	if _, ok := named[*corev1.ServiceAccount](all, w.GetNamespace(), pod.ServiceAccountName); !ok && pod.ServiceAccountName != "default" {
		wrong("no ServiceAccount %s", pod.ServiceAccountName)
	}
	volumes := map[string]bool{}
	own := map[string]bool{} // of the pod or the set, which it may write
	for _, c := range w.claims {
		volumes[c.Name], own[c.Name] = true, true
	}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
		own[v.Name] = v.EmptyDir != nil && !v.EmptyDir.SizeLimit.IsZero()
		if v.Secret != nil && (v.Secret.DefaultMode == nil || *v.Secret.DefaultMode != 0o440) {
			wrong("files of Secret %s are not those of their group alone", v.Secret.SecretName)
		}
		if v.ConfigMap != nil {
			if _, ok := named[*corev1.ConfigMap](all, w.GetNamespace(), v.ConfigMap.Name); !ok {
				wrong("no ConfigMap %s", v.ConfigMap.Name)
			}
		}
	}
	mounted := map[string]bool{}
	for _, c := range pod.Containers {
		for _, m := range c.VolumeMounts {
			mounted[m.Name] = true
			if !m.ReadOnly && !own[m.Name] {
				wrong("volume %s is mounted writable", m.Name)
			}
		}
		for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe} {
			if probe != nil && !hasPort(w.template, probe.HTTPGet.Port) {
				wrong("a probe of the port %s, which is none of the container", probe.HTTPGet.Port.String())
			}
		}
		checkContainer(c, wrong)
	}
	if !maps.Equal(volumes, mounted) {
		wrong("volumes %v, mounted %v", slices.Sorted(maps.Keys(volumes)), slices.Sorted(maps.Keys(mounted)))
	}
}

func checkContainer(c corev1.Container, wrong func(string, ...any)) {
	if s := c.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
		wrong("the root file system is writable")
	}
	if c.LivenessProbe == nil || c.LivenessProbe.HTTPGet.Path != "/-/healthy" {
		wrong("no probe of /-/healthy")
	}
	if c.Resources.Limits.Memory().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Requests.Cpu().IsZero() {
		wrong("resources are not set")
	}
	if !c.Resources.Limits.Cpu().IsZero() {
		wrong("a limit of CPU, which would falsify the measurement")
	}
}

// checkShards holds what makes shards of the pods of a StatefulSet.
func checkShards(all objects, set *appsv1.StatefulSet, wrong func(string, ...any)) {
	if _, ok := named[*corev1.Service](all, set.Namespace, set.Spec.ServiceName); !ok {
		wrong("no Service %s", set.Spec.ServiceName)
	}
	for _, c := range set.Spec.Template.Spec.Containers {
		env := map[string]corev1.EnvVar{}
		for _, e := range c.Env {
			env[e.Name] = e
		}
		if from := env["SHARD_INDEX"].ValueFrom; from == nil || from.FieldRef == nil || from.FieldRef.FieldPath != "metadata.labels['apps.kubernetes.io/pod-index']" {
			wrong("SHARD_INDEX is not the number of the pod")
		}
		if want := strconv.Itoa(int(*set.Spec.Replicas)); env["SHARD_COUNT"].Value != want {
			wrong("SHARD_COUNT is %q with %s replicas", env["SHARD_COUNT"].Value, want)
		}
		if c.ReadinessProbe == nil || c.ReadinessProbe.HTTPGet.Path != "/-/ready" {
			wrong("no probe of /-/ready")
		}
	}
}

// checkSelectors holds that what selects pods selects those of one workload,
// and names a port that they have.
func checkSelectors(all objects, wrong func(object, string, ...any)) {
	one := func(o object, selector *metav1.LabelSelector, ports ...intstr.IntOrString) {
		var found []workload
		for _, w := range all.workloads() {
			if w.GetNamespace() == o.GetNamespace() && selects(selector, w.template.Labels) {
				found = append(found, w)
			}
		}
		if len(found) != 1 {
			wrong(o, "selects the pods of %d workloads, want 1", len(found))
			return
		}
		for _, p := range ports {
			if !hasPort(found[0].template, p) {
				wrong(o, "port %s is none of the pods", p.String())
			}
		}
	}
	for _, o := range of[*corev1.Service](all) {
		one(o, &metav1.LabelSelector{MatchLabels: o.Spec.Selector}, o.Spec.Ports[0].TargetPort)
	}
	for _, o := range of[*policyv1.PodDisruptionBudget](all) {
		one(o, o.Spec.Selector)
	}
	for _, o := range of[*networkingv1.NetworkPolicy](all) {
		if len(o.Spec.PolicyTypes) != 2 || len(o.Spec.Ingress) != 1 || len(o.Spec.Ingress[0].Ports) != 1 {
			wrong(o, "want both directions, and one port from outside")
			continue
		}
		one(o, &o.Spec.PodSelector, *o.Spec.Ingress[0].Ports[0].Port)
	}
}

// checkRights holds that rights go to accounts that are there, and that a pod
// has a token if and only if its account has rights.
func checkRights(all objects, wrong func(object, string, ...any)) {
	type account struct{ namespace, name string }
	bound := map[account]bool{}
	bind := func(o object, ref rbacv1.RoleRef, subjects []rbacv1.Subject) {
		if _, ok := named[*rbacv1.ClusterRole](all, "", ref.Name); !ok || ref.Kind != "ClusterRole" {
			wrong(o, "no %s %s", ref.Kind, ref.Name)
		}
		for _, s := range subjects {
			if _, ok := named[*corev1.ServiceAccount](all, s.Namespace, s.Name); !ok {
				wrong(o, "no ServiceAccount %s in %s", s.Name, s.Namespace)
			}
			bound[account{s.Namespace, s.Name}] = true
		}
	}
	for _, o := range of[*rbacv1.ClusterRoleBinding](all) {
		bind(o, o.RoleRef, o.Subjects)
	}
	for _, o := range of[*rbacv1.RoleBinding](all) {
		bind(o, o.RoleRef, o.Subjects)
	}
	for _, o := range of[*rbacv1.ClusterRole](all) {
		for _, rule := range o.Rules {
			if !slices.Equal(rule.Verbs, []string{"get", "list", "watch"}) || slices.Contains(rule.Resources, "secrets") {
				wrong(o, "more than reading: %v of %v", rule.Verbs, rule.Resources)
			}
		}
	}
	for _, w := range all.workloads() {
		token := w.template.Spec.AutomountServiceAccountToken
		if got, want := token == nil || *token, bound[account{w.GetNamespace(), w.template.Spec.ServiceAccountName}]; got != want {
			wrong(w, "token %v, rights %v", got, want)
		}
	}
}

func testFit(t *testing.T, all objects) {
	t.Helper()
	for _, m := range slices.Concat(checkFit(all), checkRestricted(all)) {
		t.Error(m)
	}
}

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
		"volumes [config keys state], mounted [config other state]": func(_ objects, _ *appsv1.StatefulSet, c *corev1.Container) {
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

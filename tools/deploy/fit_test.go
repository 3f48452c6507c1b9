package deploy

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// workload is what StatefulSets and DaemonSets have in common.
type workload struct {
	object
	selector *metav1.LabelSelector
	template corev1.PodTemplateSpec
}

func (all objects) workloads() (found []workload) {
	for _, o := range of[*appsv1.StatefulSet](all) {
		found = append(found, workload{o, o.Spec.Selector, o.Spec.Template})
	}
	for _, o := range of[*appsv1.DaemonSet](all) {
		found = append(found, workload{o, o.Spec.Selector, o.Spec.Template})
	}
	return found
}

func selects(selector *metav1.LabelSelector, set map[string]string) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && !s.Empty() && s.Matches(labels.Set(set))
}

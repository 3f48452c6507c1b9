package deploy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"testing"

	rollouts "github.com/argoproj/argo-rollouts/pkg/apis/rollouts/v1alpha1"
	flagger "github.com/fluxcd/flagger/pkg/apis/flagger/v1beta1"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// object is a decoded manifest.
type object interface {
	runtime.Object
	metav1.Object
}

// objects are the manifests that are applied together.
type objects []object

// newObject returns an empty object of what users apply here, or nil.
func newObject(kind metav1.TypeMeta) object {
	switch kind.APIVersion + " " + kind.Kind {
	case "v1 Namespace":
		return new(corev1.Namespace)
	case "v1 ServiceAccount":
		return new(corev1.ServiceAccount)
	case "v1 ConfigMap":
		return new(corev1.ConfigMap)
	case "v1 Secret":
		return new(corev1.Secret)
	case "v1 Service":
		return new(corev1.Service)
	case "apps/v1 StatefulSet":
		return new(appsv1.StatefulSet)
	case "apps/v1 DaemonSet":
		return new(appsv1.DaemonSet)
	case "networking.k8s.io/v1 NetworkPolicy":
		return new(networkingv1.NetworkPolicy)
	case "policy/v1 PodDisruptionBudget":
		return new(policyv1.PodDisruptionBudget)
	case "rbac.authorization.k8s.io/v1 ClusterRole":
		return new(rbacv1.ClusterRole)
	case "rbac.authorization.k8s.io/v1 ClusterRoleBinding":
		return new(rbacv1.ClusterRoleBinding)
	case "rbac.authorization.k8s.io/v1 RoleBinding":
		return new(rbacv1.RoleBinding)
	case "autoscaling/v2 HorizontalPodAutoscaler":
		return new(autoscalingv2.HorizontalPodAutoscaler)
	case "argoproj.io/v1alpha1 AnalysisTemplate":
		return new(rollouts.AnalysisTemplate)
	case "argoproj.io/v1alpha1 Rollout":
		return new(rollouts.Rollout)
	case "flagger.app/v1beta1 MetricTemplate":
		return new(flagger.MetricTemplate)
	case "flagger.app/v1beta1 Canary":
		return new(flagger.Canary)
	case "monitoring.coreos.com/v1 ServiceMonitor":
		return new(monitoringv1.ServiceMonitor)
	case "monitoring.coreos.com/v1 PodMonitor":
		return new(monitoringv1.PodMonitor)
	case "monitoring.coreos.com/v1 PrometheusRule":
		return new(monitoringv1.PrometheusRule)
	}
	return nil
}

// decode reads manifests. An unknown kind, an unknown field, a field that is
// there twice and a value of a wrong type are errors.
func decode(text []byte) (objects, error) {
	var all objects
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("split manifests: %w", err)
		}
		var content any
		if err := yaml.Unmarshal(document, &content); err != nil {
			return nil, fmt.Errorf("parse manifest: %w", err)
		}
		if content == nil {
			continue // comments only
		}
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			return nil, fmt.Errorf("read the kind of a manifest: %w", err)
		}
		o := newObject(kind)
		if o == nil {
			return nil, fmt.Errorf("unexpected manifest of %s %s", kind.APIVersion, kind.Kind)
		}
		if err := decodeStrict(document, o); err != nil {
			return nil, fmt.Errorf("decode %s: %w", kind.Kind, err)
		}
		all = append(all, o)
	}
}

// decodeStrict decodes as an API server does that is asked to be strict. The YAML
// library on its own would take a number for a text.
func decodeStrict(document []byte, o object) error {
	text, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return err
	}
	strict, err := json.UnmarshalStrict(text, o)
	return errors.Join(append(strict, err)...)
}

// of returns the objects of one type.
func of[T object](all objects) (found []T) {
	for _, o := range all {
		if o, ok := o.(T); ok {
			found = append(found, o)
		}
	}
	return found
}

// named returns the object of that type, namespace and name, if there is one.
func named[T object](all objects, namespace, name string) (T, bool) {
	list := of[T](all)
	i := slices.IndexFunc(list, func(o T) bool { return o.GetNamespace() == namespace && o.GetName() == name })
	if i < 0 {
		var none T
		return none, false
	}
	return list[i], true
}

func title(o object) string {
	return o.GetObjectKind().GroupVersionKind().Kind + " " + o.GetName()
}

func mustDecode(t *testing.T, text []byte) objects {
	t.Helper()
	all, err := decode(text)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// testRestricted holds that the probers run where the pod security level "restricted" is
// enforced.
func testRestricted(t *testing.T, all objects) {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for _, set := range of[*appsv1.StatefulSet](all) {
		pod := set.Spec.Template
		for _, r := range evaluator.EvaluatePod(level, &pod.ObjectMeta, &pod.Spec) {
			if !r.Allowed {
				t.Errorf("%s: %s: %s", title(set), r.ForbiddenReason, r.ForbiddenDetail)
			}
		}
	}
}

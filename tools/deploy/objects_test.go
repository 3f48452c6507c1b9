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
	monitoringv1alpha1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

// object is a decoded manifest.
type object interface {
	runtime.Object
	metav1.Object
}

// objects are the manifests that are applied together.
type objects []object

// decoder decodes as an API server does that is asked to be strict: an unknown kind, an unknown
// field, a field that is there twice and a value of a wrong type are errors.
var decoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme,
		autoscalingv2.AddToScheme, rollouts.AddToScheme, flagger.AddToScheme, monitoringv1.AddToScheme, monitoringv1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	return serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
}()

// decode reads manifests.
func decode(text []byte) (objects, error) {
	var all objects
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("split manifests: %w", err)
		}
		var content any
		if err := yaml.Unmarshal(document, &content); err == nil && content == nil {
			continue // comments only
		}
		decoded, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("decode manifest: %w", err)
		}
		all = append(all, decoded.(object))
	}
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

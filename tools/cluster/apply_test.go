package cluster

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"
)

// apply has the API server apply manifests, as kubectl apply --server-side does, with strict validation. Objects
// without a namespace go into the given one.
func apply(ctx context.Context, namespace string, text []byte) error {
	dyn, err := dynamic.NewForConfig(stand.Admin)
	if err != nil {
		return err
	}
	disco, err := discovery.NewDiscoveryClientForConfig(stand.Admin)
	if err != nil {
		return err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(disco))
	for reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var content map[string]any
		if err := yaml.Unmarshal(document, &content); err != nil || content == nil {
			continue // comments only
		}
		o := &unstructured.Unstructured{Object: content}
		if err := applyObject(ctx, dyn, mapper, namespace, o); err != nil {
			return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
}

func applyObject(ctx context.Context, dyn dynamic.Interface, mapper *restmapper.DeferredDiscoveryRESTMapper, namespace string, o *unstructured.Unstructured) error {
	kind := o.GroupVersionKind()
	mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return err
	}
	var to dynamic.ResourceInterface = dyn.Resource(mapping.Resource)
	if mapping.Scope.Name() == "namespace" {
		if o.GetNamespace() == "" {
			o.SetNamespace(namespace)
		}
		to = dyn.Resource(mapping.Resource).Namespace(o.GetNamespace())
	}
	data, err := o.MarshalJSON()
	if err != nil {
		return err
	}
	force := true
	_, err = to.Patch(ctx, o.GetName(), "application/apply-patch+yaml", data,
		metav1.PatchOptions{FieldManager: "cluster-test", Force: &force, FieldValidation: "Strict"})
	return err
}

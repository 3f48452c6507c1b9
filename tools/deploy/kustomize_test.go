package deploy

import (
	"path/filepath"
	"testing"

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
	for _, folder := range []string{"base", "ha", "gpu", "monitoring", "example"} {
		t.Run(folder, func(t *testing.T) {
			all := kustomize(t, folder)
			testRestricted(t, all)
			testConfig(t, all, nil)
		})
	}
}

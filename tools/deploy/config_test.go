package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/inference-exporter/inference_exporter/config"
)

const etc = "/etc/inference-exporter/"

// testConfig reads the configuration that the pods of each StatefulSet are started with, from
// the files that are mounted into them. Secrets that are not among the objects have the given keys.
func testConfig(t *testing.T, all objects, secrets map[string][]string) {
	t.Helper()
	for _, set := range of[*appsv1.StatefulSet](all) {
		t.Run("configuration of "+set.Name, func(t *testing.T) {
			pod := set.Spec.Template.Spec
			root := t.TempDir()
			for _, m := range pod.Containers[0].VolumeMounts {
				for _, v := range pod.Volumes {
					if v.Name == m.Name {
						writeFiles(t, filepath.Join(root, m.MountPath), volumeFiles(all, set.Namespace, v, secrets))
					}
				}
			}
			for _, e := range pod.Containers[0].Env {
				if e.Value != "" || e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
					t.Setenv(e.Name, e.Value+"x")
				}
			}
			_, args, ok := strings.Cut(strings.Join(pod.Containers[0].Args, "\n"), "--config.file=")
			if !ok {
				t.Fatal("no --config.file")
			}
			name, _, _ := strings.Cut(args, "\n")
			name = filepath.Join(root, name)
			text := strings.ReplaceAll(readFile(t, name), etc, root+etc)
			_, err := config.Parse([]byte(text), name)
			if err != nil && strings.Contains(err.Error(), "; the container image and the releases") {
				t.Skip("NOT CHECKED: a configuration with Kubernetes discovery needs -tags kubernetes_sd")
			}
			if err != nil {
				t.Fatalf("%v in\n%s", err, text)
			}
		})
	}
}

// volumeFiles returns the files of a volume with their contents.
func volumeFiles(all objects, namespace string, v corev1.Volume, secrets map[string][]string) map[string]string {
	files := map[string]string{}
	if v.ConfigMap != nil {
		if m, ok := named[*corev1.ConfigMap](all, namespace, v.ConfigMap.Name); ok {
			return m.Data
		}
	}
	if v.Secret != nil {
		if s, ok := named[*corev1.Secret](all, namespace, v.Secret.SecretName); ok {
			for key, value := range s.Data {
				files[key] = string(value)
			}
		}
		for _, key := range secrets[v.Secret.SecretName] {
			files[key] = "secret"
		}
	}
	return files
}

func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

package cluster

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	corev1 "k8s.io/api/core/v1"
)

const (
	chartDir      = "../../examples/helm/inference-exporter"
	kubernetesDir = "../../examples/kubernetes"
)

// stand is the cluster of all tests; nil where none can be started.
var stand *Cluster

// exporter is the path of the program.
var exporter = os.Getenv("EXPORTER")

// TestMain starts the cluster that all tests share: check.sh builds its programs and names them.
func TestMain(m *testing.M) {
	flag.Parse()
	programs := Programs{Control: os.Getenv("CONTROL"), Kwok: os.Getenv("KWOK"), Stages: os.Getenv("KWOK_STAGES")}
	if programs.Control == "" || programs.Kwok == "" {
		fmt.Println("CONTROL and KWOK name no programs: run tools/cluster/check.sh")
		return
	}
	os.Exit(run(m, programs))
}

func run(m *testing.M, p Programs) int {
	folder, err := os.MkdirTemp("", "cluster")
	if err == nil {
		defer os.RemoveAll(folder)
		stand, err = Start(context.Background(), p, folder, 3)
	}
	if err == nil {
		defer stand.Stop()
		err = installCRDs()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		for _, name := range []string{"etcd", "apiserver", "controller-manager", "scheduler", "kwok"} {
			log, _ := os.ReadFile(filepath.Join(folder, name+".log"))
			fmt.Fprintf(os.Stderr, "=== %s\n%.4000s\n", name, log[max(0, len(log)-4000):])
		}
		return 1
	}
	return m.Run()
}

// installCRDs installs those of the Prometheus Operator and of the gateway API's extension for inference.
func installCRDs() error {
	for _, folder := range filepath.SplitList(os.Getenv("CRDS")) {
		names, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
		if err != nil || len(names) == 0 {
			return fmt.Errorf("no CRDs in %q: %w", folder, err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			if err := apply(context.Background(), "", text); err != nil {
				return fmt.Errorf("%s: %w", filepath.Base(name), err)
			}
		}
	}
	return nil
}

// client returns a client of the administrator.
func client(t *testing.T) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(stand.Admin)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newNamespace makes a namespace for a test, which ends with it. level is the pod security that is enforced in it.
func newNamespace(t *testing.T, name, level string) {
	t.Helper()
	all := client(t)
	_, err := all.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": level},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = all.CoreV1().Namespaces().Delete(context.Background(), name, metav1.DeleteOptions{}) })
}

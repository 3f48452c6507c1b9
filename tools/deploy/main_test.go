package deploy

import (
	"flag"
	"io"
	"log"
	"os"
	"path/filepath"
	"testing"
)

// update writes the generated files: go test . -run TestGenerated -update.
var update = flag.Bool("update", false, "write generated files")

func TestMain(m *testing.M) {
	// The loader of charts logs each symbolic link each time.
	log.SetOutput(io.Discard)
	m.Run()
}

const (
	kubernetesDir = "../../examples/kubernetes"
	chartDir      = "../../examples/helm/inference-exporter"
	systemdDir    = "../../examples/systemd"
	stackDir      = "../../examples/stack"
)

func readFile(t *testing.T, elements ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// checkGenerated compares a generated file with what it should be.
func checkGenerated(t *testing.T, name, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if readFile(t, name) != want {
		t.Errorf("%s is not current: make generate", name)
	}
}

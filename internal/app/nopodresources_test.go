//go:build !pod_resources

package app

import (
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/cli"
)

// poisonedKubelet returns no flags: this build asks no kubelet.
func poisonedKubelet(*testing.T, func(string) string) []string { return nil }

func TestPodResourcesNeedTheirBuild(t *testing.T) {
	refused(t, cli.ExitUsage, []string{"inference_exporter: --gpu.pod-resources: .*build with -tags pod_resources"}, "--gpu.pod-resources", "--endpoint=http://127.0.0.1:9")
}

package cluster

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

var lastRunLine = regexp.MustCompile(`(?m)^inference_probe_last_run_timestamp_seconds\{[^}]*\bendpoint="([^"]+)"[^}]*\} (\S+)`)

// phases returns where in its interval each endpoint was probed last, in seconds.
func (d *daemon) phases(interval time.Duration) map[string]float64 {
	all := map[string]float64{}
	for _, m := range lastRunLine.FindAllStringSubmatch(d.page(), -1) {
		at, _ := strconv.ParseFloat(m[2], 64)
		all[m[1]] = math.Mod(at, interval.Seconds())
	}
	return all
}

// renderedConfig returns the configuration that the chart makes of values, as a release of its own.
func renderedConfig(t *testing.T, namespace, release, config string) string {
	t.Helper()
	chart, err := loader.Load(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal([]byte(config), &values); err != nil {
		t.Fatal(err)
	}
	install := action.NewInstall(helm(t, namespace))
	install.ReleaseName, install.Namespace = release, namespace
	if _, err := install.RunWithContext(t.Context(), chart, map[string]any{"config": values, "discovery": map[string]any{"enabled": true}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := action.NewUninstall(helm(t, namespace)).Run(release); err != nil {
			t.Error(err)
		}
	})
	m, err := client(t).CoreV1().ConfigMaps(namespace).Get(t.Context(), release+"-inference-exporter", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m.Data["config.yml"]
}

// Two releases of the chart with one configuration are a pair: both probe every endpoint, at times of their own, and an
// incident that both see has the same labels in both, of which the rules make one page.
func TestPair(t *testing.T) {
	t.Parallel()
	const namespace, models, interval, n = "pair", "pair-models", 10 * time.Second, 6
	token := tokenOf(t, namespace, installForDiscovery(t, namespace))
	newNamespace(t, models, "privileged")
	k := startKubelet(t, models)
	text := fmt.Sprintf(`
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: vllm}
spec:
  replicas: %d
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: vllm}}
  template:
    metadata: {labels: {app: vllm}, annotations: {kubelet: test}}
    spec:
      containers: [{name: vllm, image: "vllm:1", ports: [{containerPort: %d, name: http}]}]
`, n, kubeletPort)
	if err := apply(t.Context(), models, []byte(text)); err != nil {
		t.Fatal(err)
	}
	var pair []*daemon
	for _, release := range []string{"a", "b"} {
		config := strings.Replace(rolloutConfig(t, token, "pod", models, release, ""), "interval: "+rolloutInterval.String(), "interval: "+interval.String(), 1)
		config = strings.Replace(config, "/"+release+"/v1", "/any/v1", 1) // they are the same
		pair = append(pair, startDaemonOn(t, release+"-inference-exporter-0", renderedConfig(t, namespace, release, config)))
	}
	for _, d := range pair {
		d.wantEndpoints(n)
	}
	// The names of hosts and endpoints are given, and so are the times: a tenth of the interval apart would be chance.
	apart, b := 0, pair[1].phases(interval)
	for name, at := range pair[0].phases(interval) {
		difference := math.Abs(at - b[name])
		difference = min(difference, interval.Seconds()-difference)
		t.Logf("%s: %.2f s apart", name, difference)
		if difference > interval.Seconds()/20 {
			apart++
		}
	}
	if apart < n-1 {
		t.Errorf("%d of %d endpoints are probed at different times", apart, n)
	}

	k.crash(t, "vllm-2")
	within(t, 2*patience, "an incident of both", func() string {
		var labels [2][]string
		for i, d := range pair {
			for _, m := range incidentLine.FindAllStringSubmatch(d.page(), -1) {
				labels[i] = append(labels[i], m[1])
			}
		}
		if len(labels[0]) != 1 || !slices.Equal(labels[0], labels[1]) || !strings.Contains(labels[0][0], `endpoint="vllm-2"`) {
			return fmt.Sprintf("they have %q", labels)
		}
		t.Logf("both have %s", labels[0][0])
		return ""
	})
}

package deploy

import (
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	kubeyaml "sigs.k8s.io/yaml"

	"github.com/inference-exporter/inference_exporter/config"
)

// kubeVersion is the oldest Kubernetes that the chart is for.
const kubeVersion = "v1.28.0"

// render does what helm template does: the schema, the templates, and what is
// in no template.
func render(values map[string]any) (all objects, notes string, err error) {
	chart, err := loader.Load(chartDir)
	if err != nil {
		return nil, "", fmt.Errorf("load chart: %w", err)
	}
	version, err := chartutil.ParseKubeVersion(kubeVersion)
	if err != nil {
		return nil, "", err
	}
	if !chartutil.IsCompatibleRange(chart.Metadata.KubeVersion, version.Version) {
		return nil, "", fmt.Errorf("chart for Kubernetes %s, not %s", chart.Metadata.KubeVersion, version)
	}
	capabilities := chartutil.DefaultCapabilities.Copy()
	capabilities.KubeVersion = *version
	release := chartutil.ReleaseOptions{Name: "watch", Namespace: "inference", Revision: 1, IsInstall: true}
	top, err := chartutil.ToRenderValues(chart, values, release, capabilities)
	if err != nil {
		return nil, "", err
	}
	files, err := engine.Engine{Strict: true}.Render(chart, top)
	if err != nil {
		return nil, "", err
	}
	for name, text := range files {
		switch path.Base(name) {
		case "NOTES.txt":
			notes = text
		default:
			list, err := decode([]byte(text))
			if err != nil {
				return nil, "", fmt.Errorf("%s: %w", name, err)
			}
			all = append(all, list...)
		}
	}
	return all, notes, nil
}

// valueFiles are the default values and those of the folder ci of the chart.
func valueFiles(t *testing.T) map[string]map[string]any {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(chartDir, "ci/*.yaml"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no values in ci: %v", err)
	}
	files := map[string]map[string]any{}
	for _, name := range names {
		files[strings.TrimSuffix(filepath.Base(name), ".yaml")] = parseValues(t, readFile(t, name))
	}
	return files
}

// parseValues reads values as helm does, with its numbers.
func parseValues(t *testing.T, text string) map[string]any {
	t.Helper()
	values := map[string]any{}
	if err := kubeyaml.Unmarshal([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

func mustRender(t *testing.T, values map[string]any) objects {
	t.Helper()
	all, _, err := render(values)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestChart(t *testing.T) {
	secrets := map[string][]string{"llm-keys": {"key"}}
	for name, values := range valueFiles(t) {
		t.Run(name, func(t *testing.T) {
			all, notes, err := render(values)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range all {
				_, cluster := o.(*rbacv1.ClusterRole)
				_, foreign := o.(*rbacv1.RoleBinding)
				if !cluster && !foreign && o.GetNamespace() != "inference" {
					t.Errorf("%s is in namespace %q", title(o), o.GetNamespace())
				}
			}
			if strings.TrimSpace(notes) == "" {
				t.Error("no notes")
			}
			testRestricted(t, all)
			testMonitors(t, all)
			testConfig(t, all, secrets)
		})
	}
}

// The rules and the dashboards of the chart are those of the repository.
func TestChartFiles(t *testing.T) {
	all := mustRender(t, valueFiles(t)["everything"])
	testRules(t, all)
	boards, err := filepath.Glob("../../dashboards/*.json")
	if err != nil || len(boards) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	for _, name := range boards {
		base := filepath.Base(name)
		m, ok := named[*corev1.ConfigMap](all, "inference", "watch-inference-exporter-"+strings.TrimSuffix(base, ".json"))
		if !ok {
			t.Errorf("no ConfigMap with %s", base)
			continue
		}
		if want := readFile(t, name); strings.TrimSpace(m.Data["inference-"+base]) != strings.TrimSpace(want) {
			t.Errorf("%s is not that of the repository", base)
		}
		if m.Labels["grafana_dashboard"] != "1" || m.Annotations["grafana_folder"] != "Inference" {
			t.Errorf("%s: labels %v, annotations %v", base, m.Labels, m.Annotations)
		}
	}
}

func TestChartWithoutEndpoints(t *testing.T) {
	if _, _, err := render(nil); err == nil || !strings.Contains(err.Error(), "nothing to probe: set config.endpoints") {
		t.Errorf("error %v, want one that says what to set", err)
	}
}

func TestLint(t *testing.T) {
	version, err := chartutil.ParseKubeVersion(kubeVersion)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range valueFiles(t) {
		for _, m := range lint.AllWithKubeVersion(chartDir, values, "inference", version).Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s: %s", name, m.Error())
			}
		}
	}
}

// What the chart makes of a configuration is that configuration: helm reads
// every number as a floating-point one, and every key as a text.
func TestChartKeepsConfig(t *testing.T) {
	for _, key := range []string{"LLM_API_KEY", "METRICS_PASSWORD", "LLM_AWS_KEY", "OTLP_TENANT"} {
		t.Setenv(key, "secret")
	}
	for _, example := range []string{"full.yml", "workloads.yml"} {
		name := filepath.Join("../../examples", example)
		text := readFile(t, name)
		all := mustRender(t, map[string]any{"config": parseValues(t, text)})
		want := canonical(t, text, name)
		got := canonical(t, of[*corev1.ConfigMap](all)[0].Data["config.yml"], name)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", example, diff)
		}
	}
}

func canonical(t *testing.T, text, name string) string {
	t.Helper()
	c, err := config.Parse([]byte(text), name)
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// What operators set beside what the program needs is in the objects.
func TestChartHabits(t *testing.T) {
	all := mustRender(t, valueFiles(t)["everything"])
	probers, nodes := of[*appsv1.StatefulSet](all)[0], of[*appsv1.DaemonSet](all)[0]
	for _, o := range all {
		_, extra := named[*corev1.ConfigMap](objects{o}, "inference", "more")
		_, text := named[*corev1.ConfigMap](objects{o}, "inference", "text")
		if !extra && !text && o.GetLabels()["department"] != "platform" {
			t.Errorf("%s has labels %v", title(o), o.GetLabels())
		}
	}
	for _, pod := range []corev1.PodTemplateSpec{probers.Spec.Template, nodes.Spec.Template} {
		if pod.Labels["department"] != "platform" || pod.Annotations["checksum/config"] != "" {
			t.Errorf("a pod has labels %v and annotations %v", pod.Labels, pod.Annotations)
		}
	}
	if more, ok := named[*corev1.ConfigMap](all, "inference", "more"); !ok || more.Data["release"] != "watch" {
		t.Errorf("the further object is %v", more)
	}
	pod := probers.Spec.Template.Spec
	main := pod.Containers[0]
	if !slices.Contains(main.Args, "--config.auto-reload-interval=30s") {
		t.Errorf("arguments %v", main.Args)
	}
	if got := *pod.SecurityContext; *got.RunAsUser != 1234 || *got.RunAsGroup != 65532 || !*got.RunAsNonRoot || got.SupplementalGroups[0] != 4321 {
		t.Errorf("security context %+v", got)
	}
	if got := pod.TopologySpreadConstraints; len(got) != 1 || got[0].TopologyKey != "topology.kubernetes.io/zone" {
		t.Errorf("spread %+v", got)
	}
	if len(pod.InitContainers) != 1 || len(pod.Containers) != 2 || pod.Volumes[len(pod.Volumes)-1].Name != "prompts" || main.VolumeMounts[len(main.VolumeMounts)-1].Name != "prompts" {
		t.Errorf("%d init containers, %d containers, volumes %v, mounts %v", len(pod.InitContainers), len(pod.Containers), pod.Volumes, main.VolumeMounts)
	}
	node := nodes.Spec.Template.Spec
	if node.PriorityClassName != "system-node-critical" || node.Affinity == nil || nodes.Spec.Template.Labels["team"] != "gpu" || len(node.Volumes) != 2 {
		t.Errorf("the pods on nodes: %+v", node)
	}
	image := func(values string) string {
		all := mustRender(t, parseValues(t, "config: {endpoints: [{url: http://a}]}\nimage: {"+values+"}"))
		return of[*appsv1.StatefulSet](all)[0].Spec.Template.Spec.Containers[0].Image
	}
	digest := "sha256:" + strings.Repeat("ab", 32)
	for values, want := range map[string]string{
		"": "inference_exporter:0.1.0", "registry: r.example.com, repository: a/b, tag: v1": "r.example.com/a/b:v1", "tag: v1, digest: '" + digest + "'": "inference_exporter@" + digest,
	} {
		if got := image(values); got != want {
			t.Errorf("image: {%s} is %s, want %s", values, got, want)
		}
	}
}

// A change of the configuration changes the pods, and nothing else does.
func TestChangeRestarts(t *testing.T) {
	sum := func(config string, more string) string {
		all := mustRender(t, parseValues(t, "config: {endpoints: [{url: "+config+"}]}\n"+more))
		return of[*appsv1.StatefulSet](all)[0].Spec.Template.Annotations["checksum/config"]
	}
	a := sum("http://a", "")
	if b := sum("http://b", ""); a == b || a == "" {
		t.Errorf("checksums %q and %q of different configurations", a, b)
	}
	if b := sum("http://a", "monitor: {enabled: true}"); a != b {
		t.Error("the monitor restarts the pods")
	}
	if b := sum("http://a", "prober: {configReload: 1m}"); b != "" {
		t.Error("a pod that reloads is restarted")
	}
}

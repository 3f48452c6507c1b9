package deploy

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	monitoringv1alpha1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/inference-exporter/inference_exporter/config"
)

// ruleFiles are all sets of rules: those of records and alerts of the default one first.
var ruleFiles = []string{
	"../../alerts/recording.yml", "../../alerts/alerts.yml",
	"../../alerts/servers.yml", "../../alerts/gpu.yml", "../../alerts/quality.yml", "../../alerts/budgets.yml",
}

// testMonitors holds that each monitor finds what it is to scrape, under a job
// that the rules on exporters know, and leaves the labels of the exporter alone.
func testMonitors(t *testing.T, all objects) {
	t.Helper()
	job := regexp.MustCompile(`\bup\{job=~"([^"]+)"\} == 0`).FindStringSubmatch(readFile(t, ruleFiles[1]))
	if job == nil {
		t.Fatal("no rule on exporters that are down")
	}
	jobs := regexp.MustCompile("^(?:" + job[1] + ")$")
	found := map[string]bool{}
	scraped := func(monitor, port, wantPort, job string) {
		found[monitor] = true
		if port != wantPort || !jobs.MatchString(job) {
			t.Errorf("%s: port %s, want %s; job %q, which %s does not match", monitor, port, wantPort, job, jobs)
		}
	}
	for _, m := range of[*monitoringv1.ServiceMonitor](all) {
		for _, s := range of[*corev1.Service](all) {
			if selects(&m.Spec.Selector, s.Labels) && (s.Namespace == m.Namespace || m.Spec.NamespaceSelector.Any) {
				scraped(title(m), s.Spec.Ports[0].Name, m.Spec.Endpoints[0].Port, s.Labels[m.Spec.JobLabel])
			}
		}
		testScrape(t, title(m), m.Spec.Endpoints[0].HonorLabels, m.Spec.Endpoints[0].RelabelConfigs)
	}
	for _, m := range of[*monitoringv1.PodMonitor](all) {
		for _, w := range all.workloads() {
			if selects(&m.Spec.Selector, w.template.Labels) {
				port := w.template.Spec.Containers[0].Ports[0].Name
				scraped(title(m), port, *m.Spec.PodMetricsEndpoints[0].Port, w.template.Labels[m.Spec.JobLabel])
			}
		}
		testScrape(t, title(m), m.Spec.PodMetricsEndpoints[0].HonorLabels, m.Spec.PodMetricsEndpoints[0].RelabelConfigs)
	}
	if want := len(of[*monitoringv1.ServiceMonitor](all)) + len(of[*monitoringv1.PodMonitor](all)); len(found) != want {
		t.Errorf("of %d monitors only these find something: %v", want, found)
	}
}

// The operator gives every target a label "endpoint", the name of the port.
// Without both of these, what is probed would be found as exported_endpoint.
func testScrape(t *testing.T, name string, honor bool, relabel []monitoringv1.RelabelConfig) {
	t.Helper()
	dropped := slices.ContainsFunc(relabel, func(c monitoringv1.RelabelConfig) bool {
		return c.Action == "labeldrop" && c.Regex == "endpoint"
	})
	if !honor || !dropped {
		t.Errorf("%s changes the label endpoint: honorLabels %v, dropped %v", name, honor, dropped)
	}
}

func TestKustomizeMonitors(t *testing.T) {
	all := slices.Concat(kustomize(t, "base"), kustomize(t, "gpu"), kustomize(t, "monitoring"))
	testMonitors(t, all)
	testMonitors(t, slices.Concat(kustomize(t, "ha"), kustomize(t, "gpu"), kustomize(t, "monitoring")))
}

// What has Prometheus probe asks the Service of the exporter for a built-in module, with the target as its URL.
func TestKustomizeProbes(t *testing.T) {
	service := of[*corev1.Service](kustomize(t, "example"))[0]
	address := fmt.Sprintf("%s.%s.svc:%d", service.Name, service.Namespace, service.Spec.Ports[0].Port)
	all := kustomize(t, "probe")
	probe, scrape := of[*monitoringv1.Probe](all)[0], of[*monitoringv1alpha1.ScrapeConfig](all)[0]
	modules := config.None().Modules
	if p := probe.Spec; p.ProberSpec.URL != address || p.ProberSpec.Path != "/probe" || modules[p.Module] == nil {
		t.Errorf("the Probe asks %s%s for module %s, want %s/probe", p.ProberSpec.URL, p.ProberSpec.Path, p.Module, address)
	}
	s := scrape.Spec
	last := s.RelabelConfigs[len(s.RelabelConfigs)-1]
	if *s.MetricsPath != "/probe" || *last.Replacement != address || last.TargetLabel != "__address__" || modules[s.Params["module"][0]] == nil {
		t.Errorf("the ScrapeConfig asks %s for %v, want %s/probe", *last.Replacement, s.Params, address)
	}
}

// testRules holds that the PrometheusRules have the groups of alerts/, neither
// more nor less.
func testRules(t *testing.T, all objects) {
	t.Helper()
	var want, got []any
	for _, name := range ruleFiles {
		want = append(want, groups(t, []byte(readFile(t, name)))...)
	}
	rules := of[*monitoringv1.PrometheusRule](all)
	if len(rules) != 1 {
		t.Fatalf("%d PrometheusRules, want 1", len(rules))
	}
	text, err := yaml.Marshal(rules[0].Spec)
	if err != nil {
		t.Fatal(err)
	}
	got = groups(t, text)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rules differ from alerts/: (-want +got)\n%s", diff)
	}
}

func groups(t *testing.T, text []byte) []any {
	t.Helper()
	var file struct{ Groups []any }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Groups) == 0 {
		t.Fatal("no groups of rules")
	}
	return file.Groups
}

// The manifest is the files of alerts/, indented.
func TestGeneratedRules(t *testing.T) {
	var b strings.Builder
	b.WriteString(`# Made from alerts/ by the tests in tools/deploy: change the rules there.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: inference-exporter
  labels:
    app.kubernetes.io/name: inference-exporter
spec:
  groups:
`)
	for _, name := range ruleFiles {
		_, list, ok := strings.Cut(readFile(t, name), "\ngroups:\n")
		if !ok {
			t.Fatalf("%s: no groups", name)
		}
		for line := range strings.Lines(list) {
			if line != "\n" {
				b.WriteString("  ")
			}
			b.WriteString(line)
		}
	}
	checkGenerated(t, kubernetesDir+"/monitoring/prometheusrule.yml", b.String())
}

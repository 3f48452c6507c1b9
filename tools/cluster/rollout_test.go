package cluster

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// incidentLine is an incident that pages.
var incidentLine = regexp.MustCompile(`(?m)^inference_endpoint_incident_start_timestamp_seconds(\{[^}]*\bendpoint="([^"]+)"[^}]*\})`)

// paged returns the endpoints with an incident that pages.
func (d *daemon) paged() (names []string) {
	for _, m := range incidentLine.FindAllStringSubmatch(d.page(), -1) {
		names = append(names, m[2])
	}
	return names
}

// servers is a Deployment whose pods a kubelet of the tests runs.
func servers(name string, replicas, version int, start, drain time.Duration) []byte {
	return fmt.Appendf(nil, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: %[2]d
  strategy: {rollingUpdate: {maxSurge: 100%%, maxUnavailable: 0}}
  selector: {matchLabels: {name: %[1]s}}
  template:
    metadata:
      labels: {app: vllm, name: %[1]s}
      annotations: {kubelet: test, version: "%[3]d", start: %[4]s, drain: %[5]s}
    spec:
      terminationGracePeriodSeconds: 600
      containers: [{name: vllm, image: "vllm:1", ports: [{containerPort: %[6]d, name: http}]}]
---
apiVersion: v1
kind: Service
metadata: {name: vllm}
spec:
  selector: {app: vllm}
  ports: [{port: %[6]d, name: http}]
`, name, replicas, version, start, drain, kubeletPort)
}

const rolloutInterval = 2 * time.Second

// rolloutConfig finds the pods of a namespace as who, with a rule that says which.
func rolloutConfig(t *testing.T, token, role, namespace, who, rule string) string {
	config := discoveryConfig(t, token, role, namespace)
	config, _, _ = strings.Cut(config, "      - {source_labels: [__address__]")
	config = strings.Replace(config, "interval: 1s", "interval: "+rolloutInterval.String(), 1)
	return config + rule + fmt.Sprintf(`
      - {source_labels: [__meta_kubernetes_pod_name], target_label: __endpoint__}
      - {target_label: __path__, replacement: /%s/v1}
`, who)
}

// Servers load their models and end for longer than an outage may last without a page: a rolling update, one whose new
// pods take long, and a scale-down. With the rules that the documentation has, no incident pages, each server that is
// ready is an endpoint, and is probed once in an interval. Without them, both the ones that load and the ones that end page.
func TestRollout(t *testing.T) {
	t.Parallel()
	const namespace, models = "rollout", "rollout-models"
	token := tokenOf(t, namespace, installForDiscovery(t, namespace))
	newNamespace(t, models, "privileged")
	k := startKubelet(t, models)
	set := func(name string, replicas, version int, start, drain time.Duration) {
		t.Helper()
		if err := apply(t.Context(), models, servers(name, replicas, version, start, drain)); err != nil {
			t.Fatal(err)
		}
	}
	const long = 160 * time.Second // an outage of two minutes pages
	set("quick", 3, 1, time.Second, long)
	probers := map[string]*daemon{}
	for who, rule := range map[string]string{
		"endpointslice": `      - {source_labels: [__meta_kubernetes_endpointslice_endpoint_conditions_ready], regex: "true", action: keep}`,
		"pod":           `      - {source_labels: [__meta_kubernetes_pod_ready], regex: "true", action: keep}`,
		"every":         "",
	} {
		role := who
		if who == "every" {
			role = "endpointslice"
		}
		probers[who] = startDaemon(t, rolloutConfig(t, token, role, models, who, rule))
	}
	for _, d := range probers {
		d.wantEndpoints(3)
	}
	set("quick", 3, 2, time.Second, long)
	set("slow", 2, 1, long, time.Second)
	probers["pod"].wantNamed("quick", 3, k)
	set("quick", 1, 2, time.Second, long)

	looked := 0
	within(t, 2*long, "incidents of the prober without a rule", func() string {
		for _, who := range []string{"endpointslice", "pod"} {
			if names := probers[who].paged(); len(names) > 0 {
				t.Fatalf("%s: pages for %q", who, names)
			}
		}
		looked++
		names := strings.Join(probers["every"].paged(), " ")
		if !strings.Contains(names, "slow-") || !strings.Contains(names, "quick-") {
			return fmt.Sprintf("there are %q", names)
		}
		return ""
	})
	t.Logf("looked %d times at the pages", looked)
	for _, who := range []string{"endpointslice", "pod"} {
		probers[who].wantNamed("slow", 2, k)
		probers[who].wantNamed("quick", 1, k)
		if names := probers[who].paged(); len(names) > 0 {
			t.Errorf("%s: pages for %q", who, names)
		}
		for pod, times := range k.asked(who) {
			span := times[len(times)-1].Sub(times[0])
			if most := int(span/rolloutInterval) + 2; len(times) > most {
				t.Errorf("%s: %s was probed %d times in %v, want at most %d", who, pod, len(times), span, most)
			}
		}
	}
}

// wantNamed waits until the endpoints with a prefix are those of the pods that are ready, so many, each with a good probe.
func (d *daemon) wantNamed(prefix string, n int, k *kubelet) {
	d.t.Helper()
	eventually(d.t, fmt.Sprintf("%d endpoints of %s", n, prefix), func() string {
		all, good := d.endpoints()
		other := func(name string) bool { return !strings.HasPrefix(name, prefix+"-") }
		all, good = slices.DeleteFunc(all, other), slices.DeleteFunc(good, other)
		if want := k.ready(d.t, prefix); !slices.Equal(all, want) || !slices.Equal(good, want) || len(want) != n {
			return fmt.Sprintf("%q are ready, %q are endpoints, of %q a probe succeeded", want, all, good)
		}
		return ""
	})
}

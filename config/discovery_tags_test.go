package config

import (
	"slices"
	"strings"
	"testing"

	promdiscovery "github.com/prometheus/prometheus/discovery"
)

// TestTaggedSources reads the sources that only some builds have; the others say
// so.
func TestTaggedSources(t *testing.T) {
	f := func(mechanism, item string) {
		t.Helper()
		text := "discovery:\n  - " + mechanism + "_sd_configs: [" + item + "]\n"
		c, err := Parse([]byte(text), "f.yml")
		if !slices.Contains(promdiscovery.RegisteredConfigNames(), mechanism) {
			want := "f.yml:2: discovery[0]." + mechanism + "_sd_configs: this build has no discovery by " + mechanism +
				"; the container image and the releases have it; build with -tags kubernetes_sd,consul_sd"
			if err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
			return
		}
		if err != nil {
			t.Error(err)
			return
		}
		if got := c.Discovery[0].Sources(); len(got) != 1 || got[0].Name() != mechanism {
			t.Errorf("got %v", got)
		}
		checkRoundTrip(t, c, "f.yml")
		_, err = Parse([]byte(strings.Replace(text, "[{", "[{rolle: x, ", 1)), "f.yml")
		want := "f.yml:2: discovery[0]." + mechanism + `_sd_configs[0]: unknown key` // which may be a secret
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	f("kubernetes", "{role: endpointslice, namespaces: {names: [llm]}, selectors: [{role: endpointslice, label: app=vllm}]}")
	f("kubernetes", "{role: pod, api_server: 'https://k8s:6443', authorization: {credentials: a}}")
	f("consul", "{server: 'consul:8500', services: [vllm], token: a}")
}

package config

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

const gatewayConfig = `
gateways:
  epp: {urls: ["http://epp:9090"], interval: 5s}
  router: {dns: ["http://router:29000/metrics"], software: sglang-router, http: {authorization: {credentials: key}}}
endpoints:
  - {url: "http://a", gateway: epp}
discovery:
  - {static_configs: [{targets: [b]}], gateway: router}
`

// Defaults, what the pages are read with, and which gateway an endpoint has.
func TestGateways(t *testing.T) {
	c, err := Parse([]byte(gatewayConfig), "f.yml")
	if err != nil {
		t.Fatal(err)
	}
	epp := c.Gateways["epp"]
	if epp.Interval != model.Duration(5*time.Second) || epp.Timeout != epp.Interval {
		t.Errorf("interval %s, timeout %s", epp.Interval, epp.Timeout)
	}
	router := c.Gateways["router"].Endpoint("router")
	if router.Name != "router" || router.URL.String() != "http://router:29000/metrics" || router.Servers.Engine != "sglang-router" ||
		router.Servers.Find || router.Servers.HTTP.Authorization.Credentials != "key" || router.Servers.Interval != model.Duration(15*time.Second) {
		t.Errorf("read as %v", router)
	}
	if !slices.Contains(Secrets(router), "key") {
		t.Error("the key of the page is not known as a secret")
	}
	got := []string{c.Endpoints[0].Gateway}
	for _, target := range []labels.Labels{labels.FromStrings("__address__", "b"), labels.FromStrings("__address__", "b", "__gateway__", "epp")} {
		e, err := c.Discovery[0].Endpoint(target)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Gateway)
	}
	if d := cmp.Diff([]string{"epp", "router", "epp"}, got); d != "" {
		t.Errorf("gateways of endpoints (-want +got):\n%s", d)
	}
	if _, err := c.Discovery[0].Endpoint(labels.FromStrings("__address__", "b", "__gateway__", "x")); err == nil || err.Error() != `__gateway__: unknown gateway "x"; known under gateways: epp, router` {
		t.Errorf("a target of an unknown gateway: %v", err)
	}
	without, err := Parse([]byte(strings.Replace(gatewayConfig, "epp:", "other:", 1)+"\n"), "f.yml")
	if err == nil {
		t.Fatalf("an endpoint of an unknown gateway: %v", without)
	}
}

// A target that names a gateway which a reload adds is an endpoint from then on.
func TestGatewaysOfDiscoveryChange(t *testing.T) {
	a, errA := Parse([]byte("gateways: {g: {urls: [\"http://g\"]}}\ndiscovery: [{static_configs: [{targets: [b]}]}]"), "f.yml")
	b, errB := Parse([]byte("discovery: [{static_configs: [{targets: [b]}]}]"), "f.yml")
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	if a.Discovery[0].MakesSame(b.Discovery[0]) {
		t.Error("the same endpoints with other gateways")
	}
}

func TestGPUPages(t *testing.T) {
	t.Setenv("KEY", "s3cret-of-the-page")
	c, err := Parse([]byte(`gpus:
  pages:
    nodes:
      dns: ["http://dcgm.svc:9400"]
      urls: ["http://a:9400/metrics"]
      software: dcgm-exporter
      interval: 5s
      http: {authorization: {credentials: "${KEY}"}}
`), "exporter.yml")
	if err != nil {
		t.Fatal(err)
	}
	page := c.GPUs.Pages["nodes"]
	if page.Interval != model.Duration(5*time.Second) || page.Timeout != page.Interval {
		t.Errorf("interval %s and timeout %s, want 5s each", page.Interval, page.Timeout)
	}
	e := page.Endpoint("nodes")
	if e.Name != "nodes" || len(e.Servers.URLs) != 1 || len(e.Servers.DNS) != 1 || e.Servers.HTTP == nil {
		t.Errorf("the endpoint of the page is %v", e)
	}
	if got := Secrets(e); len(got) == 0 || got[0] != "s3cret-of-the-page" {
		t.Errorf("secrets: got %q", got)
	}
	text, err := c.Marshal()
	if err != nil || strings.Contains(string(text), "s3cret") {
		t.Errorf("the printed configuration has the secret: %v", err)
	}
}

func TestGPUsExample(t *testing.T) {
	t.Setenv("LLM_API_KEY", "x")
	text, err := os.ReadFile("../examples/gpus.yml")
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse(text, "gpus.yml")
	if err != nil {
		t.Fatal(err)
	}
	if len(c.GPUs.Pages) != 4 {
		t.Errorf("%d pages, want 4", len(c.GPUs.Pages))
	}
}

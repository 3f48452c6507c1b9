package config

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
)

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

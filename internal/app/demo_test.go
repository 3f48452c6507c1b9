package app

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/cli"
)

func TestDemo(t *testing.T) {
	t.Parallel()
	p := start(t, "demo")
	if !strings.Contains(p.stdout.String(), p.base+"/metrics") {
		t.Errorf("nothing says where to look:\n%s", p.stdout)
	}
	p.waitFor("all of what the demo shows", func(got metricsPage) bool {
		for _, name := range []string{"healthy", "saturated", "altered"} {
			for _, family := range []string{"ttft_seconds", "tpot_seconds", "output_tokens_total"} {
				if got.Sum("inference_probe_"+family, "endpoint", name) == 0 {
					return false
				}
			}
			if got.Sum("inference_probe_results_total", "endpoint", name, "outcome", "success") == 0 {
				return false
			}
		}
		return got.Probes("failing") > 0
	})
	if code := p.stop(); code != cli.ExitOK {
		t.Errorf("exit code %d:\n%s", code, p.stderr)
	}
}

// Bursts run where they disturb no other probe.
func TestDemoBurstsApart(t *testing.T) {
	cfg, err := demoConfig(demoFile, slices.Repeat([]string{"http://127.0.0.1:1"}, len(demoServers())))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range cfg.Endpoints {
		for _, m := range e.Modules {
			if len(cfg.Modules[m].Concurrency) > 0 && len(e.Modules) > 1 {
				t.Errorf("%s is asked in bursts by %s, beside other modules", e.Name, m)
			}
		}
	}
}

func TestSimulate(t *testing.T) {
	t.Parallel()
	p := start(t, "simulate", "--web.listen-address=127.0.0.1:0", "--model=tiny")
	if !strings.Contains(p.stdout.String(), p.base) {
		t.Errorf("nothing says where to look:\n%s", p.stdout)
	}
	resp, body := p.get("/v1/models")
	var list struct{ Data []struct{ ID string } }
	if err := json.Unmarshal(body, &list); err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || len(list.Data) != 1 || list.Data[0].ID != "tiny" {
		t.Errorf("status %d, models %+v", resp.StatusCode, list.Data)
	}
	if code := p.stop(); code != cli.ExitOK {
		t.Errorf("exit code %d:\n%s", code, p.stderr)
	}
}

// A gateway has a page of its own, and its replicas have theirs, until one is dropped.
func TestSimulateGateway(t *testing.T) {
	t.Parallel()
	p := start(t, "simulate", "--web.listen-address=127.0.0.1:0", "--gateway", "--gateway-limit=4", "--replicas=2", "--routing=prefix-aware")
	if _, page := p.get("/metrics"); !strings.Contains(string(page), `inference_pool_ready_pods{name="simulated-pool"} 2`) {
		t.Errorf("page of the gateway:\n%s", page)
	}
	if resp, _ := p.get("/v1/models"); resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
	resp, err := http.Post(p.base+"/simulator/replicas/1?up=false", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	_, list := p.get("/simulator/replicas")
	var replicas []struct {
		URL string
		Up  bool
	}
	if err := json.Unmarshal(list, &replicas); err != nil || len(replicas) != 2 || !replicas[0].Up || replicas[1].Up {
		t.Fatalf("replicas %s, %v", list, err)
	}
	if !strings.Contains(p.stdout.String(), replicas[1].URL) {
		t.Errorf("nothing says where the replicas are:\n%s", p.stdout)
	}
	if code := p.stop(); code != cli.ExitOK {
		t.Errorf("exit code %d:\n%s", code, p.stderr)
	}
}

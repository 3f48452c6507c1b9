package fleet

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/gpu"
	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
	"github.com/inference-exporter/inference_exporter/internal/status"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// gatewayLines returns the lines of the page of gateways.
func gatewayLines(t *testing.T, f *Fleet) string {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(collector.NewGateways(f.Gateways, f.BehindGateways))
	var b bytes.Buffer
	if err := collector.NewExposition(r).Write(&b, expfmt.FmtText); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A gateway of two endpoints is read once, with its own credentials; a reload keeps
// what did not change, and what is gone is gone from the page.
func TestGateways(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		var reads, keyed atomic.Int32
		var down atomic.Bool
		router := testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			reads.Add(1)
			if r.URL.Path == "/metrics" && r.Header.Get("Authorization") == "Bearer gateway-key" {
				keyed.Add(1)
			}
			if down.Load() {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			fmt.Fprint(w, "vllm_router_worker_health{worker=\"a\"} 1\nvllm_router_worker_health{worker=\"b\"} 0\nvllm_router_requests_total 7\n")
		}))
		l := newLab(t)
		l.Scraping = schedule.New(schedule.Options{})
		text := func(gateways string) string {
			return fmt.Sprintf("gateways: {%s}\nendpoints: [{name: e1, url: %q, gateway: r}, {name: e2, url: %q, gateway: r}]",
				gateways, "http://127.0.0.1:1", "http://127.0.0.1:2")
		}
		apply := func(text string) {
			t.Helper()
			if err := l.Apply(planOf(parse(t, text))); err != nil {
				t.Fatal(err)
			}
		}
		r := fmt.Sprintf("r: {urls: [%q], http: {authorization: {credentials: gateway-key}}}", router)
		apply(text(r))
		first := l.active.Load().gateways.byName["r"]
		first.read(testlab.Context(t), schedule.Run{})
		lines := gatewayLines(t, l.Fleet)
		name := strings.TrimPrefix(router, "http://")
		for _, line := range []string{
			`inference_endpoint_gateway_info{endpoint="e1",gateway="r"} 1`,
			`inference_endpoint_gateway_info{endpoint="e2",gateway="r"} 1`,
			`inference_gateway_up{gateway="r",server="` + name + `",software="vllm-router"} 1`,
			`inference_gateway_backends{gateway="r",server="` + name + `",software="vllm-router"} 2`,
			`inference_gateway_backends_ready{gateway="r",server="` + name + `",software="vllm-router"} 1`,
			`inference_gateway_backend_ready{backend="b",gateway="r",server="` + name + `",software="vllm-router"} 0`,
		} {
			if !strings.Contains(lines, line+"\n") {
				t.Errorf("no line %s", line)
			}
		}
		if reads.Load() != 1 || keyed.Load() != 1 {
			t.Errorf("%d readings, %d with the gateway's own key at its page, want 1 and 1", reads.Load(), keyed.Load())
		}
		if got := len(first.gateway.Latest()); got != 1 {
			t.Errorf("%d statuses, want 1", got)
		}

		// While its page is down its series keep the software.
		down.Store(true)
		first.read(testlab.Context(t), schedule.Run{})
		if line, lines := `inference_gateway_up{gateway="r",server="`+name+`",software="vllm-router"} 0`, gatewayLines(t, l.Fleet); !strings.Contains(lines, line+"\n") {
			t.Errorf("no line %s in\n%s", line, lines)
		}

		before := reads.Load()
		apply(text(r + ", s: {urls: [\"http://127.0.0.1:3\"]}"))
		if l.active.Load().gateways.byName["r"] != first {
			t.Error("a reload replaced a gateway that did not change")
		}
		if jobs := l.active.Load().gateways.jobs(""); len(jobs) != 2 {
			t.Errorf("%d jobs, want 2", len(jobs))
		}
		apply("endpoints: [{name: e1, url: \"http://127.0.0.1:1\"}]")
		if page := gatewayLines(t, l.Fleet); page != "" {
			t.Errorf("without gateways:\n%s", page)
		}
		first.read(testlab.Context(t), schedule.Run{})
		if reads.Load() != before {
			t.Error("a gateway that is gone was read")
		}
	})
}

// Pages of accelerators are read by their scheduler; a reload keeps those that did not
// change, and what is gone is gone from what is shown.
func TestGPUPages(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		var reads atomic.Int32
		dcgm := testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			reads.Add(1)
			fmt.Fprint(w, "# TYPE DCGM_FI_DEV_GPU_TEMP gauge\nDCGM_FI_DEV_GPU_TEMP{gpu=\"0\",UUID=\"GPU-a\",Hostname=\"n1\"} 40\n")
		}))
		l := newLab(t)
		l.GPUPages = page.NewGPUPages(nil, nil)
		apply := func(format string) {
			t.Helper()
			if err := l.Apply(planOf(parse(t, fmt.Sprintf("gpus: {pages: {"+format+"}}", dcgm)))); err != nil {
				t.Fatal(err)
			}
		}
		apply("a: {urls: [%q]}")
		first := l.active.Load().gpuPages.byName["a"]
		if s := l.GPUPages.Snapshots(); len(s) != 1 || s[0].State != gpu.StateStarting {
			t.Errorf("before the first reading: %+v", s)
		}
		first.read(testlab.Context(t), schedule.Run{})
		apply("a: {urls: [%q]}, b: {urls: [\"http://127.0.0.1:1\"]}")
		if l.active.Load().gpuPages.byName["a"] != first || len(l.active.Load().gpuPages.jobs("")) != 2 {
			t.Error("the reader of an unchanged page was replaced")
		}
		if s := l.GPUPages.Snapshots(); len(s) != 2 || s[0].State != gpu.StateUp || len(s[0].Devices) != 1 || s[1].State != gpu.StateStarting {
			t.Errorf("after a reload: %+v", s)
		}
		apply("b: {urls: [%q]}")
		first.read(testlab.Context(t), schedule.Run{})
		if s := l.GPUPages.Snapshots(); reads.Load() != 1 || len(s) != 1 || s[0].Source != "b" || !s[0].Remote {
			t.Errorf("%d readings, snapshots %+v, want 1 and that of b", reads.Load(), s)
		}
	})
}

// A mapping that does not exist is a mistake of the configuration.
func TestGatewayMistakes(t *testing.T) {
	cfg := parse(t, "gateways: {g: {urls: [\"http://g\"], software: nosuch}}\ngateway_mappings: {m: {}}\nendpoints: [{url: \"http://h\"}]")
	var got []string
	for _, m := range check(cfg) {
		got = append(got, m.Path+": "+m.Msg)
	}
	want := "gateway_mappings.m: no sentinels; a new mapping needs series that no other engine has\ngateways.g.software: unknown gateway software \"nosuch\"; known: "
	if text := strings.Join(got, "\n"); !strings.HasPrefix(text, want) {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

// readyBackends is a reading of a gateway's page that reports so many ready backends of
// three.
func readyBackends(at time.Time, ready float64) []page.Status {
	return []page.Status{{Server: "g", At: at, State: page.Up, Snapshot: &page.Snapshot{
		At: at, Engine: "acme", Values: map[config.Quantity]float64{config.Backends: 3, config.BackendsReady: ready},
	}}}
}

// How many backends are usually ready is known after five readings of the past, and is
// that of most of them.
func TestUsuallyReadyBackends(t *testing.T) {
	g := explain.NewGateway("g")
	usuallyReady := func() (usual *float64, why string) {
		g.View(func(statuses []page.Status, uses *page.GatewayUses, ready *float64) {
			usual, why = ready, status.NewGateway("g", "", statuses, uses, ready).Why
		})
		return usual, why
	}
	if usual, _ := usuallyReady(); usual != nil {
		t.Error("usual before the first reading")
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i, ready := range []float64{3, 3, 2, 3, 3} {
		g.Add(readyBackends(at.Add(time.Duration(i)*15*time.Second), ready))
		if usual, _ := usuallyReady(); usual != nil {
			t.Errorf("usual with %d earlier readings", i)
		}
	}
	g.Add(readyBackends(at.Add(75*time.Second), 2))
	usual, why := usuallyReady()
	if usual == nil || *usual != 3 {
		t.Fatalf("usually %v, want 3", usual)
	}
	if want := "2 of 3 backends ready, usually 3"; why != want {
		t.Errorf("%q, want %q", why, want)
	}
}

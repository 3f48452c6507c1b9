//go:build consul_sd

package discovery

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestConsul asks a catalog with one service, which has one instance.
func TestConsul(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("index") == "7" { // a question for changes: there are none
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Consul-Index", "7")
		switch r.URL.Path {
		case "/v1/agent/self":
			fmt.Fprint(w, `{"Config": {"Datacenter": "dc1"}}`)
		case "/v1/catalog/services":
			fmt.Fprint(w, `{"vllm": ["llm"]}`)
		case "/v1/health/service/vllm":
			fmt.Fprint(w, `[{"Node": {"Node": "n", "Address": "10.0.0.9", "Datacenter": "dc1"},
				"Service": {"ID": "vllm-1", "Service": "vllm", "Tags": ["llm"], "Address": "10.0.0.1", "Port": 8000}, "Checks": []}]`)
		default:
			t.Errorf("asked for %s", r.URL)
		}
	}))
	defer server.Close()
	text := fmt.Sprintf(`
discovery:
  - consul_sd_configs: [{server: '%s', services: [vllm]}]
    relabel_configs: [{source_labels: [__meta_consul_service_id], target_label: __endpoint__}]
`, strings.TrimPrefix(server.URL, "http://"))
	l := newLab(t, parse(t, "", text))
	l.await("vllm-1")
	if got := l.Endpoints(l.cfg).Endpoints[0].URL.String(); got != "http://10.0.0.1:8000" {
		t.Errorf("got %s", got)
	}
}

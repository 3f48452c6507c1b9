package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// A reload that changes an endpoint keeps what is known of the modules that stay, and
// nothing where it is another target.
func TestMemoryOutlastsAReload(t *testing.T) {
	l := newLab(t)
	url := testlab.Serve(t, simulator.New(testlab.Quick()).Handler())
	probes := func(want int, succeeded bool, settings string) {
		t.Helper()
		l.mustApply(fmt.Sprintf("{name: e, url: %s%s, model: simulated-8b}", url, settings))
		m := l.endpoint("e")
		well := m.memory.LastWell()
		if n := len(m.evidence(explain.Condition{}, time.Now(), nil).Probes); n != want || well.IsZero() == succeeded {
			t.Errorf("with %q: %d probes are known, want %d; the latest success was at %s", settings, n, want, well)
		}
	}
	probes(0, false, "")
	l.probe()
	probes(1, true, "")
	probes(1, true, ", labels: {team: search}")
	probes(0, false, "/v1")
	l.probe()
	probes(0, true, "/v1, modules: [rag]")
}

// Endpoints have their gateway in common by its name, and those without one the host.
func TestFactorOfAGateway(t *testing.T) {
	cfg := parse(t, "gateways: {router: {urls: [\"http://router:9090\"]}}\nendpoints: [{url: \"http://a:8000\", gateway: router}, {url: \"http://b:8000\"}]")
	for i, want := range []string{"router", "b:8000"} {
		if got := factorsOf(cfg.Endpoints[i]); got[0] != (explain.Factor{Kind: "gateway", Value: want}) {
			t.Errorf("got %+v, want the gateway %s", got, want)
		}
	}
}

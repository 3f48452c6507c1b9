package fleet

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/health"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/series"
	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

// A reload that changes an endpoint keeps what is known of the modules that stay, and
// nothing where it is another target.
func TestMemoryOutlastsAReload(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
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
	})
}

// Endpoints have their gateway in common by its name, and those without one the port.
func TestFactorOfAGateway(t *testing.T) {
	cfg := parse(t, "gateways: {router: {urls: [\"http://router:9090\"]}}\nendpoints: [{url: \"http://a:8000\", gateway: router}, {url: \"http://b:8000\"}]")
	for i, want := range []string{"[host a gateway router]", "[host b host b:8000]"} {
		if got := fmt.Sprint(factorsOf(cfg.Endpoints[i])); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// What a tenth of the probes fail with is named from when the objective is missed until the clean run after the last of
// them, also where the latest probes all succeeded.
func TestPartialFailuresAreExplained(t *testing.T) {
	missed := 0
	for seed := range uint64(5) {
		l := workLab(t, seldom+"endpoints: [{name: e, url: 'http://127.0.0.1:9', modules: [m]}]")
		task, random := l.endpoint("e").tasks[0], rand.New(rand.NewPCG(seed, 1))
		begin := time.Now().Add(-150 * time.Minute)
		for i := range 480 { // every 15 s, the first half of them well
			r := served(begin.Add(time.Duration(i)*15*time.Second), time.Second/5)
			if i > 240 && random.Float64() < 0.1 {
				r.Outcome, r.Status, r.Err = result.HTTPError, 500, errors.New("status 500: EngineCore encountered an issue")
			}
			task.take(r, false, false)
			if !l.endpoint("e").health.Status().Missed.Has(series.Availability) {
				continue
			}
			missed++
			document, _ := l.Explain("e")
			if document.State == string(health.Up) || document.Findings[0].Cause != explain.ServerError {
				t.Fatalf("seed %d: probe %d: %+v", seed, i, document)
			}
		}
	}
	if missed < 500 {
		t.Errorf("the objective was missed for %d probes", missed)
	}
}

package fleet

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/simulator"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

const (
	changesFamily = "inference_probe_identity_changes_total"
	changedFamily = "inference_probe_identity_last_change_timestamp_seconds"
	logprobFamily = "inference_probe_reference_logprob"
)

// canaryLab is a fleet that watches the answer to a fixed prompt.
func canaryLab(t *testing.T, url string) *lab {
	t.Helper()
	return workLab(t, fmt.Sprintf(`
modules: {canary: {prompt: Count upwards in words., output_tokens: 12, fingerprint: true}}
endpoints: [{name: e, url: %s, modules: [canary]}]`, url))
}

// wantChanges compares the counters of a module by their source.
func wantChanges(t *testing.T, p metricsPage, module string, want map[string]float64) {
	t.Helper()
	for source, n := range want {
		labels := []string{"module", module, "source", source}
		if got := p.Sum(changesFamily, labels...); got != n || !p.Has(changesFamily, labels...) {
			t.Errorf("%s: %v changes of %s (there: %t), want %v", module, got, source, p.Has(changesFamily, labels...), n)
		}
		if p.Has(changedFamily, labels...) != (n > 0) {
			t.Errorf("%s: time of the change of %s on the page: %t", module, source, n == 0)
		}
	}
}

// Other weights change the answers and the system's name once, and not again.
func TestNewWeightsAreNoticed(t *testing.T) {
	t.Parallel()
	testlab.Virtual(t, func(t *testing.T) {
		o := testlab.Swift()
		o.WeightsVersion = "v1"
		w := testlab.NewWitness(t, o)
		l := canaryLab(t, w.URL)
		none := map[string]float64{"answer": 0, "system_fingerprint": 0, "model": 0}
		wantChanges(t, l.times(30, "e"), "canary", none)
		w.SetWeights("v2", 0, 1)
		at := time.Now()
		once := map[string]float64{"answer": 1, "system_fingerprint": 1, "model": 0}
		p := l.times(5, "e")
		wantChanges(t, p, "canary", once)
		if last := p.Sum(changedFamily, "source", "answer"); last < float64(at.Unix()) || last > float64(time.Now().Unix()+1) {
			t.Errorf("changed at %v, want %v", last, at.Unix())
		}
		wantChanges(t, l.times(40, "e"), "canary", once)
		if p.Has(changesFamily, "source", "logprob") {
			t.Error("changes of a score that is not asked for")
		}
	})
}

// Behind a balancer with two versions of the weights both are usual.
func TestFlappingFingerprintsAreNoChange(t *testing.T) {
	t.Parallel()
	testlab.Virtual(t, func(t *testing.T) {
		var versions []http.Handler
		for _, v := range []string{"v1", "v2"} {
			o := testlab.Swift()
			o.WeightsVersion, o.GreedyFlips = v, 0.02
			versions = append(versions, simulator.New(o).Handler())
		}
		turns := rand.New(rand.NewPCG(1, 2)) // one request at a time
		url := testlab.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			versions[turns.IntN(len(versions))].ServeHTTP(w, r)
		}))
		l := canaryLab(t, url)
		wantChanges(t, l.times(90, "e"), "canary", map[string]float64{"answer": 0, "system_fingerprint": 0, "model": 0})
	})
}

// A shift of the score by 0.02 nats per token is found within 20 probes, with the
// noise that batches bring.
func TestLogprobShiftIsFound(t *testing.T) {
	t.Parallel()
	testlab.Virtual(t, func(t *testing.T) {
		o := testlab.Swift()
		o.LogprobNoise = 0.002
		w := testlab.NewWitness(t, o)
		l := workLab(t, fmt.Sprintf(`
modules: {reference: {reference_logprob: true}}
endpoints: [{name: e, url: %s, modules: [reference]}]`, w.URL))
		quiet := map[string]float64{"logprob": 0}
		p := l.times(80, "e")
		wantChanges(t, p, "reference", quiet)
		latest := func(p metricsPage) {
			t.Helper()
			all := w.Records()
			if got, want := p.Sum(logprobFamily), all[len(all)-1].Logprob; math.Abs(got-want) > 1e-9 || want > -1 {
				t.Errorf("the score is %v, the server's %v", got, want)
			}
		}
		latest(p)
		w.SetWeights("", -0.02, 1)
		probes := 0
		for ; probes < 20 && p.Sum(changesFamily) == 0; probes++ {
			p = l.times(1, "e")
		}
		t.Logf("found after %d probes", probes)
		wantChanges(t, p, "reference", map[string]float64{"logprob": 1})
		latest(p)
		wantChanges(t, l.times(30, "e"), "reference", map[string]float64{"logprob": 1})
		if p.Has("inference_probe_ttft_seconds", "module", "reference") {
			t.Error("a time to first token of a score")
		}
	})
}

package fleet

import (
	"fmt"
	"math"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

const (
	similarityFamily = "inference_probe_embedding_cosine_similarity"
	orderFamily      = "inference_probe_rerank_order_correlation"
	distanceFamily   = "inference_probe_reference_distance_ratio"
)

// Other weights at run time change embeddings and scores once; the way back counts
// again.
func TestOtherWeightsDrift(t *testing.T) {
	t.Parallel()
	testlab.Virtual(t, func(t *testing.T) {
		for api, same := range map[string]string{"openai-embeddings": similarityFamily, "rerank": orderFamily} {
			source := map[string]string{"openai-embeddings": "embedding", "rerank": "rerank"}[api]
			o := testlab.Swift()
			o.WeightsVersion = "v1"
			w := testlab.NewWitness(t, o)
			l := workLab(t, fmt.Sprintf(`
modules: {drift: {reference_texts: true}}
endpoints: [{name: e, url: "%s/v1", api: %s, model: simulated-8b, modules: [drift]}]`, w.URL, api))
			is := func(p metricsPage, unchanged bool) {
				t.Helper()
				if (p.Sum(same) == 1) != unchanged || !p.Has(same) || (p.Sum(distanceFamily) == 0) != unchanged || !p.Has(distanceFamily) {
					t.Errorf("%s: %s %v, distance %v; unchanged: %t", api, same, p.Sum(same), p.Sum(distanceFamily), unchanged)
				}
			}
			p := l.times(20, "e")
			wantChanges(t, p, "drift", map[string]float64{source: 0})
			is(p, true)
			w.SetWeights("v2", 0, 1)
			p = l.times(4, "e")
			wantChanges(t, p, "drift", map[string]float64{source: 0})
			is(p, false)
			if got := p.Sum(same); math.Abs(got) > 0.999 {
				t.Errorf("%s: %s %v of other weights", api, same, got)
			}
			wantChanges(t, l.times(1, "e"), "drift", map[string]float64{source: 1})
			wantChanges(t, l.times(15, "e"), "drift", map[string]float64{source: 1})
			w.SetWeights("v1", 0, 1)
			p = l.times(5, "e")
			wantChanges(t, p, "drift", map[string]float64{source: 2})
			is(p, true)
			for _, family := range []string{similarityFamily, orderFamily} {
				if p.Has(family) != (family == same) {
					t.Errorf("%s: %s on the page: %t", api, family, p.Has(family))
				}
			}
		}
	})
}

// After a failure nothing is said of the vectors.
func TestNoDriftOfFailures(t *testing.T) {
	t.Parallel()
	testlab.Virtual(t, func(t *testing.T) {
		w := testlab.NewWitness(t, testlab.Swift())
		var broken atomic.Bool
		front := testlab.Serve(t, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
			if broken.Load() {
				http.Error(out, "out of memory", http.StatusInternalServerError)
				return
			}
			w.Handler().ServeHTTP(out, r)
		}))
		l := workLab(t, fmt.Sprintf(`
modules: {drift: {reference_texts: true}}
endpoints: [{name: e, url: "%s/v1", api: openai-embeddings, model: simulated-8b, modules: [drift]}]`, front))
		if p := l.times(3, "e"); p.Sum(similarityFamily) != 1 {
			t.Errorf("the similarity is %v", p.Sum(similarityFamily))
		}
		broken.Store(true)
		if p := l.times(1, "e"); p.Has(similarityFamily) || p.Has(distanceFamily) || !p.Has(changesFamily, "source", "embedding") {
			t.Errorf("after a failure: similarity %t, distance %t, changes %t", p.Has(similarityFamily), p.Has(distanceFamily), p.Has(changesFamily))
		}
	})
}

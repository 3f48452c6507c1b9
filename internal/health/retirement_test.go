package health

import (
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// A success says all that is known by then. A failure, which may be of something between, takes no date away.
func TestRetirementIsLearned(t *testing.T) {
	var facts workload.Facts
	f := func(o result.Outcome, of, want api.Retirement) {
		t.Helper()
		Learn(&facts, &result.Result{Outcome: o, Retirement: of})
		if got, _ := workload.In[Retirement](facts.Latest()); got.Retirement != want {
			t.Errorf("after %s with %+v: %+v, want %+v", o, of, got, want)
		}
	}
	f(result.Success, api.Retirement{Header: 10, Listed: 20, Deprecated: 5}, api.Retirement{Header: 10, Listed: 20, Deprecated: 5})
	f(result.ConnectError, api.Retirement{Listed: 20}, api.Retirement{Header: 10, Listed: 20, Deprecated: 5})
	f(result.HTTPError, api.Retirement{Header: 12}, api.Retirement{Header: 12, Listed: 20, Deprecated: 5})
	f(result.Success, api.Retirement{Listed: 20}, api.Retirement{Listed: 20})
	f(result.Success, api.Retirement{}, api.Retirement{})
}

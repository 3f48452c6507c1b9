package health

import (
	"cmp"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/users"
	"github.com/inference-exporter/inference_exporter/internal/workload"
	"github.com/inference-exporter/inference_exporter/internal/workload/drift"
	"github.com/inference-exporter/inference_exporter/internal/workload/loadtest"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Facts lists the kinds of facts of an endpoint.
func Facts() []workload.Fact {
	return []workload.Fact{page.ReplicaFact(), loadtest.LossFact(), page.TTFTFact(), users.Fact(), drift.ChangeFact(), startFact(), wakeFact(), retirementFact()}
}

// Start is how long the latest start of the server of an endpoint took until a probe succeeded, a fact of the endpoint.
type Start struct {
	workload.NoFigures
	Took time.Duration `json:"-"`
}

func startFact() workload.Fact {
	return workload.FactOf[Start](workload.One("endpoint_start_seconds", "", "", func(s Start) float64 { return s.Took.Seconds() }))
}

// Wake is what the latest drill of an endpoint came to, a fact of the endpoint.
type Wake struct {
	workload.NoFigures
	// Took is how long the model took to wake, 0 where it did not, and Missed whether it did not, or took too long.
	Took   time.Duration `json:"-"`
	Missed bool          `json:"-"`
}

func wakeFact() workload.Fact {
	return workload.FactOf[Wake](
		workload.One("endpoint_wake_seconds", "", "", func(w Wake) float64 { return workload.Positive(w.Took.Seconds()) }),
		workload.One("endpoint_wake_missed", "", "", func(w Wake) float64 { return workload.Number(w.Missed) }),
	)
}

// Retirement is when the API or the model of an endpoint is said to end, a fact of the endpoint.
type Retirement struct {
	workload.NoFigures
	api.Retirement `json:"-"`
}

func retirementFact() workload.Fact {
	return workload.FactOf[Retirement](
		workload.Metric{Name: "endpoint_retirement_timestamp_seconds", Values: []string{"header", "model_list"}, Value: workload.Of(func(r Retirement, i int) float64 {
			return workload.Positive(float64([]int64{r.Header, r.Listed}[i]))
		})},
		workload.One("endpoint_deprecation_timestamp_seconds", "", "", func(r Retirement) float64 { return workload.Positive(float64(r.Deprecated)) }),
	)
}

// Learn takes over what a result says of the endpoint: what answers there, and when it is said to end. What the result lacks stays.
func Learn(facts *workload.Facts, of *result.Result) {
	workload.ChangeFact(facts, func(k page.Known) page.Known {
		return page.Known{Engine: cmp.Or(of.Engine, k.Engine), Model: cmp.Or(of.Model, k.Model)}
	})
	workload.ChangeFact(facts, func(r Retirement) Retirement {
		r.Learn(of.Retirement, of.Outcome == result.Success)
		return r
	})
}

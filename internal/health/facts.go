package health

import (
	"github.com/inference-exporter/inference_exporter/internal/page"
	"github.com/inference-exporter/inference_exporter/internal/users"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

// Facts lists the kinds of facts of an endpoint.
func Facts() []workload.Fact {
	return []workload.Fact{page.ReplicaFact(), page.TTFTFact(), users.Fact()}
}

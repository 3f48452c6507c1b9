package tracing

import (
	"cmp"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// isGeneration tells whether the probe asked for text. Until the protocol is
// found out, a probe counts as one that does.
func isGeneration(r *result.Result) bool {
	return r.Kind == api.Generation || r.Kind == ""
}

// operationOf returns gen_ai.operation.name.
func operationOf(r *result.Result) string {
	p, _ := api.Lookup(r.API)
	return cmp.Or(p.Operation, api.OperationChat)
}

// providerOf returns gen_ai.provider.name of a hosted service by its host name;
// "" is not known, as with a server of one's own.
func providerOf(host string) string {
	h, _ := api.LookupHost(host)
	return h.Provider
}

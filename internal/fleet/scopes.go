package fleet

import (
	"slices"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/explain"
)

// setScopes completes the incidents that have begun to page with what their endpoints share with others. It is used by one goroutine.
func (f *Fleet) setScopes() {
	var young []*endpoint
	open := map[string]bool{} // the scopes of incidents that page
	for _, e := range f.active.Load().endpoints {
		switch p := e.health.Status().Paging; {
		case p == nil:
		case p.Scope == "":
			young = append(young, e)
		default:
			open[p.Scope] = true
		}
	}
	if len(young) == 0 {
		return
	}
	now := f.compare(time.Now(), true) // the first of several that fail is certain when others look like it
	for _, e := range young {
		e.health.SetScope(e.scope(open, now))
	}
}

// scope returns what an endpoint whose incident begins to page shares with others: with those that page already, or else with those
// that fail now. That is one of explain.Kinds with its value, explain.Everything, or the endpoint alone.
func (e *endpoint) scope(open map[string]bool, now *causes) string {
	name := e.cfg.Name
	factors := factorsOf(e.cfg)
	slices.SortStableFunc(factors, func(a, b explain.Factor) int {
		return slices.Index(explain.Kinds(), a.Kind) - slices.Index(explain.Kinds(), b.Kind)
	})
	for _, factor := range factors {
		if scope := factor.String(); open[scope] && factor.Explains(now.alone[name]) {
			return scope
		}
	}
	if s := now.shared[name]; s != nil {
		return s.Factor.String()
	}
	return "endpoint " + name
}

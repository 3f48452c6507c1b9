package collector

import (
	"strconv"

	"github.com/inference-exporter/inference_exporter/internal/estimate"
)

// turnFamilies are what the turns of conversations show.
func turnFamilies() []*findingsFamily {
	return []*findingsFamily{
		turnGauge("prefix_cache_hit_ratio", "ratio",
			"Ratio of prompt tokens of this turn of the latest 60 conversations that were read from the prefix cache, as reported in the replies. affinity is session for conversations with request.sticky_header and none for those without. Only for prefix: conversation; absent with fewer than 6 conversations, and if replies do not report cached tokens, or report 0 although later turns are faster than the first by a quarter or more, which only a cache explains.",
			func(t *estimate.Turn) gauge { return known(t.HitRatio) }),
		turnGauge("ttft_seconds", "seconds",
			"Median TTFT of this turn of the latest 60 conversations. Absent with fewer than 6 conversations.",
			func(t *estimate.Turn) gauge { return known(t.TTFT) }),
		turnGauge("same_replica_ratio", "ratio",
			"Ratio of the latest 60 conversations of which this turn was answered by the replica that answered the turn before, by request.replica_header. Absent for the first turn, and if replies do not name their replica.",
			func(t *estimate.Turn) gauge { return known(t.SameReplica) }),
	}
}

// turnGauge returns a family of one gauge for each affinity and turn.
func turnGauge(name, unit, help string, get func(t *estimate.Turn) gauge) *findingsFamily {
	f := Family{Name: "probe_turn_" + name, Group: GroupProbe, Type: Gauge, Unit: unit, Help: help}
	return &findingsFamily{
		newFamily(f, []string{"endpoint", "model", "module", "affinity", "turn"}, nil),
		func(e encoder, _ *family, v *findingsValues) {
			for i := range v.Turns {
				e.labels(v.turns[i], v.created)
				emitFinite(e, 0, get(&v.Turns[i]))
			}
		},
	}
}

// turnLabels renders the labels of one turn.
func (s *FindingsSeries) turnLabels(model string, t *estimate.Turn) *labelBlock {
	return s.store.labels.block([]pair{
		{"endpoint", s.id.Endpoint},
		{"model", model},
		{"module", s.id.Module},
		{"affinity", string(t.Affinity)},
		{"turn", strconv.Itoa(t.Number)},
	}, s.id.Labels)
}

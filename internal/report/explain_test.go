package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/internal/explain"
)

// The likeliest cause is whole, of the others the evidence alone. What a server wrote has
// no control characters.
func TestExplain(t *testing.T) {
	r := &explain.Report{
		At: 1_700_000_090, Since: 1_700_000_000, Endpoint: "llama-prod", State: "degraded",
		Findings: []explain.Finding{
			{
				Cause: explain.QueueFull, Title: "requests wait in the queue of the servers", Evidence: []string{"waiting requests: 14, usually 0", "TTFT: 2 s\x1b[31m"},
				Against: []string{"a queue that was as long"}, Do: []string{"Who sends more than usual?", "Add replicas."}, Runbook: "InferenceQueueSaturated",
			},
			{Cause: explain.Buffered, Title: "answers arrive in one piece", Evidence: []string{"3 of 5"}, Against: []string{"x"}, Do: []string{"y"}, Runbook: "Z"},
		},
	}
	want := strings.ReplaceAll(`llama-prod: degraded since 2023-11-14 22:13:20 UTC (1m30s)

requests wait in the queue of the servers (queue_full)
  evidence     waiting requests: 14, usually 0
               TTFT: 2 s\uFFFD[31m
  do           Who sends more than usual?
               Add replicas.
  refuted by   a queue that was as long
  runbook      docs/runbooks/InferenceQueueSaturated.md

also: answers arrive in one piece (buffered)
  evidence     3 of 5
`, `\uFFFD`, "\uFFFD")
	var got bytes.Buffer
	if err := Explain(&got, r, Options{}); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got.String()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

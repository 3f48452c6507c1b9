package explain_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"github.com/inference-exporter/inference_exporter/internal/explain"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
)

var update = flag.Bool("update", false, "rewrite the tables in docs/explain.md")

const document = "../../docs/explain.md"

// TestReference holds the table of rules in docs/explain.md to the code.
func TestReference(t *testing.T) {
	var b strings.Builder
	b.WriteString("| cause | named | when | weight | refuted by | runbook |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, r := range explain.Rules() {
		weight := fmt.Sprint(r.Weight)
		if r.AtStep > 0 {
			weight += fmt.Sprintf(", %d at a step", r.AtStep)
		}
		if r.WhileUp {
			weight += ", also while up"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | [%s](runbooks/%s.md) |\n", r.Cause, r.Title, r.When, weight, r.Against, r.Runbook, r.Runbook)
	}
	testlab.Section(t, document, "rules", b.String(), *update)
}

// TestFaultsAreDocumented holds the table of the constructed faults to those tested.
func TestFaultsAreDocumented(t *testing.T) {
	testlab.Section(t, document, "constructed", explain.Faults(), *update)
}

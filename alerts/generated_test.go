package alerts

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGeneratedRulesAreCurrent checks that testdata/generated, which promtool evaluates,
// is what Sloth and Pyrra made of what is printed now. If it is not, they have to
// generate the rules again from files that this test writes with -update.
func TestGeneratedRulesAreCurrent(t *testing.T) {
	slos := []SLO{
		{Endpoint: "chat", Module: "interactive", SLO: "ttft", Objective: 0.99, Good: "have their first token within 2s"},
		{Endpoint: "chat", Module: "interactive", SLO: "availability", Objective: 0.99, Good: "succeed"},
		{Endpoint: `Größe "a/b" \ {{x}}`, Module: "long_context", SLO: "availability", Objective: 0.999, Good: "succeed"},
		{Endpoint: "rare", Module: "slow", SLO: "e2e", Objective: 0.8, Good: "end within 1m0s"},
	}
	for _, tool := range []string{"sloth", "pyrra"} {
		text, err := SLOs(tool, slos)
		if err != nil {
			t.Fatal(err)
		}
		spec := filepath.Join("testdata", "generated", tool+".slos.yml")
		if *update {
			if err := os.WriteFile(spec, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		written, err := os.ReadFile(spec)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(written), string(text)); d != "" {
			t.Errorf("%s: generate the rules again (-written +printed):\n%s", spec, d)
		}
		rules, err := os.ReadFile(filepath.Join("testdata", "generated", tool+".rules.yml"))
		if err != nil {
			t.Error(err)
		}
		for _, s := range slos {
			for _, part := range []string{s.name(), "module=" + strconv.Quote(s.Module), strconv.FormatFloat(s.Objective, 'f', -1, 64)} {
				if !strings.Contains(string(rules), part) {
					t.Errorf("%s has no rules of %s with %s", tool, s.name(), part)
				}
			}
		}
	}
}

package prove

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/collector"
	"github.com/inference-exporter/inference_exporter/tools/lab/prove/query"
	"github.com/inference-exporter/inference_exporter/tools/lab/prove/stand"
)

const (
	// patience is how long a query may take until it has data. The longest wait
	// is for 299 probes, five a second.
	patience = 5 * time.Minute
	// limit is how long everything may take.
	limit = 15 * time.Minute
	// enoughProbes is how many probes are in before anything is asked.
	enoughProbes = 60
	// renamed is a metric that dashboards and rules cannot do without.
	renamed = "inference_probe_results_total"
)

// rig is what the queries are put to.
type rig struct {
	stand *stand.Stand
	// classic and native store one form of histograms each. In renamed, one
	// metric has another name.
	classic, native, renamed stand.Client
	rules                    []rule
	names                    *query.Names
}

// TestProof puts every query of the dashboards and every rule to real Prometheus
// servers that scrape real exporters, for both forms of histograms. Then it makes
// sure that it would have noticed: by queries that cannot have data, and by a
// server for which one metric was renamed.
func TestProof(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	r := newRig(ctx, t)
	boards := readBoards(t, "../../../dashboards/*.json")
	// What the variables list is fixed from here on: every exporter has been scraped.
	waitFor(ctx, t, r.classic, fmt.Sprintf("count(inference_exporter_build_info) >= %d", len(r.stand.Targets())))
	waitFor(ctx, t, r.classic, "count(inference_gpu_state)")
	// One that is asked in bursts alone is known by its model only after the first.
	waitFor(ctx, t, r.classic, `absent(inference_endpoint_info{model=""})`)
	waitFor(ctx, t, r.classic, fmt.Sprintf("sum(%s) >= %d", renamed, enoughProbes))
	if err := r.stand.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	checks, err := ruleChecks(r.rules, r.names)
	if err != nil {
		t.Error(err)
	}
	for _, b := range boards {
		more, err := boardChecks(ctx, r.classic, b, r.names)
		if err != nil {
			t.Error(err)
		}
		checks = append(checks, more...)
	}
	t.Logf("%d checks", len(checks))
	leaveOut(checks, readAllowed(t, "allow.yml", checks))
	failed := r.testSettings(ctx, t, checks)
	t.Run("renamed", func(t *testing.T) { r.testRenamed(ctx, t, checks, failed) })
	t.Run("broken", func(t *testing.T) { r.testBroken(ctx, t) })
}

// testSettings runs the checks in both settings. It returns the names of those
// that had no data somewhere.
func (r *rig) testSettings(ctx context.Context, t *testing.T, checks []*check) map[string]bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	allowed := readAllowed(t, "allow.yml", checks)
	wanted := slices.DeleteFunc(slices.Clone(checks), func(c *check) bool {
		_, ok := excuse(allowed, c)
		return ok
	})
	excused := slices.DeleteFunc(slices.Clone(checks), func(c *check) bool { return slices.Contains(wanted, c) })
	settings := map[string]stand.Client{"classic": r.classic, "native": r.native}
	results := make(chan failures, len(settings))
	for setting, client := range settings {
		go func() {
			named := failures{}
			for c, err := range walk(ctx, client, wanted) {
				named[c] = fmt.Errorf("%s histograms: %w", setting, err)
			}
			results <- named
		}()
	}
	failed := map[string]bool{}
	for range settings {
		for c, err := range <-results {
			failed[c.name] = true
			t.Errorf("%s: %v", c.name, err)
		}
	}
	needed := map[string]bool{}
	for _, client := range settings {
		for c := range once(t.Context(), client, excused) {
			a, _ := excuse(allowed, c)
			failed[c.name], needed[a.Query] = true, true
		}
	}
	for name := range allowed {
		if !needed[name] {
			t.Errorf("allow.yml excuses %q, which has data", name)
		}
	}
	return failed
}

// testRenamed sees to it that queries fail for which a metric was renamed, and
// only those.
func (r *rig) testRenamed(ctx context.Context, t *testing.T, checks []*check, failed map[string]bool) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	uses := readers(t, r.rules, renamed)
	var rules, panels int
	var others []*check
	for c := range once(ctx, r.renamed, checks) {
		switch {
		case failed[c.name]:
		case !slices.ContainsFunc(slices.Concat(c.alternatives...), uses):
			others = append(others, c)
		case c.rule:
			rules++
		default:
			panels++
		}
	}
	for c, err := range walk(ctx, r.renamed, others) {
		t.Errorf("%s does not need %s: %v", c.name, renamed, err)
	}
	if rules == 0 || panels == 0 {
		t.Errorf("without %s, %d rules and %d panels have no data; want some", renamed, rules, panels)
	}
	t.Logf("without %s, %d rules and %d panels have no data", renamed, rules, panels)
}

// testBroken sees to it that each query of a dashboard and of rules that are
// wrong, each in its own way, is found, and that those called sound are not.
func (r *rig) testBroken(ctx context.Context, t *testing.T) {
	found := map[string]bool{}
	for _, b := range readBoards(t, "testdata/broken.json") {
		for _, q := range b.Queries {
			only := *b
			only.Queries = append(b.Queries[:0:0], q)
			checks, err := boardChecks(ctx, r.classic, &only, r.names)
			found[queryName(b, q)] = err != nil || len(once(ctx, r.classic, checks)) > 0
		}
	}
	rules, err := readRules([]string{"testdata/broken.yml"})
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range rules {
		checks, err := ruleChecks(append(rules[:0:0], rule), r.names)
		found[rule.name()] = err != nil || len(once(ctx, r.classic, checks)) > 0
	}
	sound := 0
	for name, wrong := range found {
		isSound := strings.Contains(name, "Sound")
		if isSound {
			sound++
		}
		if wrong == isSound {
			t.Errorf("%s: found to be wrong: %t", name, wrong)
		}
	}
	if sound != 2 {
		t.Errorf("%d sound queries, want one of a panel and one of a rule", sound)
	}
}

// newRig starts everything. The end of the test stops it.
func newRig(ctx context.Context, t *testing.T) *rig {
	s, err := stand.Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, s.Close)
	files := glob(t, "../../../alerts/*.yml")
	rules, err := readRules(files)
	if err != nil {
		t.Fatal(err)
	}
	start := func(native bool, targets []stand.Target) stand.Client {
		p, err := stand.StartPrometheus(ctx, stand.PrometheusOptions{
			Program: tool(t, "prometheus"), Native: native, Targets: targets, Rules: files,
		})
		if err != nil {
			t.Fatal(err)
		}
		closeAtEnd(t, p.Close)
		return p.Client
	}
	return &rig{
		stand: s, rules: rules,
		classic: start(false, s.Targets()), native: start(true, s.Targets()),
		renamed: start(false, s.Renamed(renamed, "inference_probe_outcomes_total")),
		names:   query.NewNames(collector.Catalogue(), recordedBy(rules)),
	}
}

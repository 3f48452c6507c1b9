package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/schedule"
	"github.com/inference-exporter/inference_exporter/internal/testlab"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// TestCallsAgainstTheSimulator asks every protocol that has them for calls of a tool
// and for JSON, of a server that is as it should be and of servers that are not, in
// each way that has a verdict.
func TestCallsAgainstTheSimulator(t *testing.T) {
	t.Parallel()
	testlab.Virtual(t, func(t *testing.T) {
		w := testlab.NewWitness(t, testlab.Swift())
		faults := map[result.Verdict]string{result.VerdictValid: ""}
		for _, v := range result.ToolCallVerdicts()[1:] {
			faults[v] = "/fault/call_" + string(v)
		}
		var file strings.Builder
		file.WriteString("modules: {call: {tool_call: true, output_tokens: 256}, json: {structured: true, output_tokens: 256}}\nendpoints:\n")
		want := map[string]map[string]result.Verdict{} // by endpoint and module
		add := func(p api.Protocol, module string, v result.Verdict) {
			name := p.Name + " " + module + " " + string(v)
			fmt.Fprintf(&file, "  - {name: %s, api: %s, model: simulated-8b, url: %q, modules: [%s]}\n", name, p.Name, w.URL+faults[v], module)
			want[name] = map[string]result.Verdict{module: v}
		}
		for _, name := range api.Names() {
			p, _ := api.Lookup(name)
			for _, v := range result.ToolCallVerdicts() {
				if p.Tools {
					add(*p, "call", v)
				}
				if p.Structured && slices.Contains(result.StructuredVerdicts(), v) {
					add(*p, "json", v)
				}
			}
		}
		l := workLab(t, file.String())
		for endpoint := range want {
			l.run(endpoint, schedule.Run{Scheduled: time.Now()})
		}
		page := l.page()
		for endpoint, modules := range want {
			for module, v := range modules {
				if got := verdicts(page, "endpoint", endpoint, "module", module); got[v] != 1 {
					t.Errorf("%s: %v", endpoint, got)
				}
				if v != result.VerdictValid && page.Sum("inference_probe_complete_call_seconds", "endpoint", endpoint) != 0 {
					t.Errorf("%s: the time of a call that is not valid", endpoint)
				}
				if page.Has("inference_probe_complete_call_seconds", "endpoint", endpoint) != (module == "call") {
					t.Errorf("%s: times of calls on the page: %t", endpoint, module != "call")
				}
			}
			if got := page.Sum("inference_probe_results_total", "endpoint", endpoint, "outcome", "success"); got != 1 {
				t.Errorf("%s: %v successes, want 1: a verdict is no failure", endpoint, got)
			}
		}
		if diff := cmp.Diff(told(w), verdicts(page)); diff != "" {
			t.Errorf("verdicts (-server +page):\n%s", diff)
		}
	})
}

// TestBadCallsAgainstTheSimulator has a share of the calls spoilt, as a broken parser
// does.
func TestBadCallsAgainstTheSimulator(t *testing.T) {
	t.Parallel()
	testlab.Virtual(t, func(t *testing.T) {
		o := testlab.Swift()
		o.BadCalls = 0.5
		w := testlab.NewWitness(t, o)
		l := workLab(t, fmt.Sprintf(`
modules: {call: {tool_call: true, output_tokens: 256}}
endpoints: [{name: e, url: %s, modules: [call]}]`, w.URL))
		const n = 60
		page := l.times(n, "e")
		got := verdicts(page)
		if diff := cmp.Diff(told(w), got); diff != "" {
			t.Errorf("verdicts (-server +page):\n%s", diff)
		}
		// Half of them, within 4 standard deviations of a draw of 60.
		if bad := n - got[result.VerdictValid]; bad < 15 || bad > 45 {
			t.Errorf("%d of %d calls are bad, want about half", bad, n)
		}
	})
}

// TestTimesOfCalls checks the order of what is measured of a call: reasoning, the
// name, the arguments. The times themselves are held against given instants in
// prober.
func TestTimesOfCalls(t *testing.T) {
	testlab.Virtual(t, func(t *testing.T) {
		o := testlab.Brisk()
		o.ReasoningTokens = 4
		w := testlab.NewWitness(t, o)
		l := workLab(t, fmt.Sprintf(`
modules: {call: {tool_call: true, output_tokens: 256}}
endpoints: [{name: e, url: %s, modules: [call]}]`, w.URL))
		p := l.times(1, "e")
		sum := func(family string) float64 { return p[family].GetMetric()[0].GetHistogram().GetSampleSum() }
		ttft, first, complete := sum("inference_probe_ttft_seconds"), sum("inference_probe_first_argument_seconds"), sum("inference_probe_complete_call_seconds")
		if !(0 < ttft && ttft < first && first < complete) {
			t.Errorf("first token after %v s, first argument after %v, complete after %v", ttft, first, complete)
		}
	})
}

package main

import (
	"strings"
	"testing"
	"time"
)

// at is so many seconds after the onset of the first incident of scenario.
func at(seconds int) time.Time { return time.Unix(1_700_000_000+int64(seconds), 0) }

// scenario is a run in which all is as wanted.
func scenario() ([]*incident, []note) {
	single := &incident{name: "single", endpoints: []string{"single"}, onset: at(0), end: at(200)}
	node := &incident{name: "node", endpoints: []string{"node-0", "node-1"}, common: true, onset: at(200), end: at(380)}
	return []*incident{single, node}, []note{
		{at(160), "pager", "s", []alert{{"EndpointDown", "single"}}},
		{at(170), "chat", "s", []alert{{"ProbeFailing", "single"}}},
		{at(260), "pager", "s", nil},
		{at(365), "pager", "many", []alert{{manyDown, ""}}},
		{at(430), "pager", "many", nil},
	}
}

func TestJudge(t *testing.T) {
	incidents, notes := scenario()
	if misses := judge(incidents, notes); len(misses) > 0 || !allResolved(incidents, notes) {
		t.Errorf("misses %q", misses)
	}
	want := "| single | 1 | 160 | 60 | 0 |\n| node | 1 | 165 | 50 | 0 |\n"
	if got := table(incidents, notes); !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s\nwant at its end\n%s", got, want)
	}
	for name, c := range map[string]struct {
		change func([]note) []note
		want   string
	}{
		"no page":       {func(n []note) []note { return n[3:] }, "single: 0 pages, want 1"},
		"late":          {func(n []note) []note { n[0].at = at(181); return n }, "first page came after 181 s"},
		"not resolved":  {func(n []note) []note { return n[:4] }, "node: not resolved"},
		"resolved late": {func(n []note) []note { n[2].at = at(501); return n }, "resolved 301 s after its end"},
		"paged twice":   {func(n []note) []note { n[1].receiver = "pager"; return n }, "single: 2 pages"},
		"after the end": {func(n []note) []note { return append(n, note{at(500), "pager", "s", notes[0].firing}) }, "single: paged 300 s after its end"},
		"one too many": {func(n []note) []note {
			n[1] = note{at(360), "pager", "n", []alert{{"EndpointDown", "node-1"}}}
			return n
		}, "node: 2 pages"},
		"of a healthy": {func(n []note) []note {
			n[1] = note{at(360), "pager", "h", []alert{{"EndpointDown", "other"}}}
			return n
		}, "a page of no incident"},
		"of other parts": {func(n []note) []note { n[1] = note{at(360), "hardware-pager", "h", []alert{{"GPULost", ""}}}; return n }, "a page of no incident"},
	} {
		_, fresh := scenario()
		misses := strings.Join(judge(incidents, c.change(fresh)), "\n")
		if !strings.Contains(misses, c.want) {
			t.Errorf("%s: misses %q, want %q", name, misses, c.want)
		}
	}
}

func TestReadNote(t *testing.T) {
	n, err := readNote(strings.NewReader(`{"receiver":"pager","groupKey":"k","status":"firing","alerts":[
		{"status":"firing","labels":{"alertname":"InferenceEndpointDown","endpoint":"e"}},
		{"status":"resolved","labels":{"alertname":"InferenceReplicaLost","endpoint":"e"}}]}`))
	if err != nil || n.String() != "pager: EndpointDown(e)" || !n.pages() || n.group != "k" {
		t.Errorf("%+v, %v", n, err)
	}
	if _, err := readNote(strings.NewReader(`{`)); err == nil {
		t.Error("half of a message was read")
	}
}

// Each receiver of the routes gets the webhook, and nothing else changes.
func TestWithWebhooks(t *testing.T) {
	got, err := withWebhooks("route:\n  receiver: chat\nreceivers:\n  - name: pager\n  - name: chat\n", "http://127.0.0.1:1/")
	want := "route:\n  receiver: chat\nreceivers:\n" +
		"  - name: pager\n    webhook_configs: [{url: \"http://127.0.0.1:1/\", send_resolved: true}]\n" +
		"  - name: chat\n    webhook_configs: [{url: \"http://127.0.0.1:1/\", send_resolved: true}]\n"
	if err != nil || got != want {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := withWebhooks("route: {}\n", ""); err == nil {
		t.Error("routes without receivers were taken")
	}
}

// Counters grew as fast before as since the start, gauges were as they are, and
// histograms are left out.
func TestPast(t *testing.T) {
	const page = `# HELP a_total Help.
# TYPE a_total counter
a_total{endpoint="e, f"} 4
# TYPE g gauge
g 7
# TYPE h histogram
h_bucket{le="1"} 3
h_sum 3
h_count 3
# TYPE process_start_time_seconds gauge
process_start_time_seconds 1.69999996e+09
`
	got, err := past(page, "x:1", at(0))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(got, "\n")
	n := int(pastLength/pastStep) + 1
	for i, want := range map[int]string{
		0:       `a_total{endpoint="e, f",job="inference_exporter",instance="x:1"} 0 1699995800.000`,
		n - 1:   `a_total{endpoint="e, f",job="inference_exporter",instance="x:1"} 420 1700000000.000`,
		n:       `g{job="inference_exporter",instance="x:1"} 7 1699995800.000`,
		3 * n:   "# EOF",
		3*n + 1: "",
		3*n - 1: `process_start_time_seconds{job="inference_exporter",instance="x:1"} 1.69999996e+09 1700000000.000`,
	} {
		if i >= len(lines) || lines[i] != want {
			t.Errorf("line %d of %d: %q, want %q", i, len(lines), lines[min(i, len(lines)-1)], want)
		}
	}
	if _, err := past("g 7\n", "x:1", at(0)); err == nil {
		t.Error("a page without a start was taken")
	}
}

package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/simulator"
)

// The files are cut from what the tools wrote of six requests of 64 tokens in two
// streams.
func TestReports(t *testing.T) {
	for _, c := range []struct {
		file                   string
		parse                  func([]byte) (figures, error)
		ttft50, ttft99         float64
		tpot50, tpot99         float64
		gap                    bool
		gap50, gap99           float64
		requestCount, tokenSum int
	}{
		{"aiperf.json", parseAIPerf, 0.1359558865, 0.25286959595, 0.020098977277774, 0.02012548415, true, 0.0203060615, 0.06442901841, 6, 384},
		{"guidellm.json", parseGuidellm, 0.12770676612854, 0.15303325653076, 0.02010600907462, 0.02013917953249, false, 0, 0, 6, 384},
		{"vllm.json", parseVLLM, 0.141951866667, 0.165532870100, 0.020117324611, 0.020309938552, true, 0.020287924500, 0.026762980588, 6, 384},
	} {
		text, err := os.ReadFile(filepath.Join("testdata", c.file))
		if err != nil {
			t.Fatal(err)
		}
		f, err := c.parse(text)
		if err != nil {
			t.Fatal(err)
		}
		close := func(what string, got *quantiles, p50, p99 float64) {
			if got == nil || got.P50 < p50-1e-6 || got.P50 > p50+1e-6 || got.P99 < p99-1e-6 || got.P99 > p99+1e-6 {
				t.Errorf("%s: %s %+v, want %v and %v", c.file, what, got, p50, p99)
			}
		}
		close("TTFT", f.TTFT, c.ttft50, c.ttft99)
		close("TPOT", f.TPOT, c.tpot50, c.tpot99)
		if c.gap {
			close("gap", f.Gap, c.gap50, c.gap99)
		} else if f.Gap != nil {
			t.Errorf("%s: a gap of %+v, which it does not report", c.file, f.Gap)
		}
		if f.Requests != c.requestCount || *f.Tokens != c.tokenSum {
			t.Errorf("%s: %d requests with %d tokens", c.file, f.Requests, *f.Tokens)
		}
		if _, err := c.parse([]byte("{")); err == nil {
			t.Errorf("%s: no error for half a file", c.file)
		}
	}
}

// Every tool says what it takes for TTFT, or why it cannot be had.
func TestToolList(t *testing.T) {
	for _, tool := range toolList() {
		if (tool.missing == "") != (tool.run != nil && tool.definition != "") {
			t.Errorf("%s: missing %q, definition %q", tool.name, tool.missing, tool.definition)
		}
		runs := plan(tool, false)
		if first := runs[0]; first.Streams != 1 || first.Requests != 1 {
			t.Errorf("%s: the first run is %+v", tool.name, first)
		}
		for _, r := range runs {
			if tool.most > 0 && r.Streams > tool.most || !slices.ContainsFunc(scenarios(), func(s scenario) bool { return s.Name == r.Scenario }) {
				t.Errorf("%s: run %+v", tool.name, r)
			}
		}
	}
}

// The processor time and the memory of a child count as well.
func TestCost(t *testing.T) {
	shell, err := exec.LookPath("sh")
	if err != nil {
		t.Skip(err)
	}
	p, err := start(t.Context(), t.TempDir(), nil, []string{shell, "-c", "sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; exit 3'"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := p.wait()
	if err == nil || !strings.Contains(err.Error(), "3") {
		t.Errorf("error %v, want the exit status", err)
	}
	if c.CPU < 10*time.Millisecond || c.Memory < 100_000 || c.Wall < c.CPU/2 {
		t.Errorf("cost %+v", c)
	}
}

func TestStat(t *testing.T) {
	// The name may have spaces and parentheses.
	const text = "42 (a) b) S 1 40 41 0 -1 4194560 1 2 3 4 70 30 5 6 20 0 1 0 100 1000000 250 18446744073709551615"
	pid, u, of, ok := parseStat(text)
	if !ok || pid != 42 || of != 41 || u.cpu != time.Second || u.memory != 250*int64(os.Getpagesize()) {
		t.Errorf("pid %d, session %d, %+v, %t", pid, of, u, ok)
	}
	if _, _, _, ok := parseStat("42 (cut"); ok {
		t.Error("half a line is taken")
	}
}

// The tables of the document are those of the evidence.
func TestTablesAreCurrent(t *testing.T) {
	var e evidence
	var loads loadEvidence
	text, err := os.ReadFile(document)
	if err := errors.Join(err, readJSON(evidenceFile, &e), readJSON(loadFile, &loads)); err != nil {
		t.Fatal(err)
	}
	want, err := withTables(text, e, loads)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(text) {
		t.Error("the tables are not those of the evidence: go run . -table")
	}
}

func TestTables(t *testing.T) {
	tokens := func(n int) *int { return &n }
	alone := measured{Scenario: "plain", Streams: 1, Requests: 1, Truth: figures{Tokens: tokens(64)}, Cost: cost{CPU: time.Second, Wall: 2 * time.Second}}
	many := measured{
		Scenario: "plain", Streams: 10, Requests: 65,
		Measured: figures{Requests: 10, TTFT: &quantiles{0.1502, 0.16}, Tokens: tokens(640)},
		Truth:    figures{Requests: 10, TTFT: &quantiles{0.15, 0.172}, Tokens: tokens(664)},
		Cost:     cost{CPU: 1600 * time.Millisecond, Memory: 50e6},
	}
	text := tables(evidence{Tools: []outcome{
		{Tool: "x", Version: "1", Definition: "first byte", Runs: []measured{alone, many}},
		{Tool: "y", NotChecked: "no package"},
	}})
	for _, want := range []string{
		"| x | 10 | +0.2 / -12 | – | – | 1000 µs | 50 MB |", "| x 1 | first byte | 2.0 s | 1.0 s |", "| y | not checked: no package | | |",
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no line %q in\n%s", want, text)
		}
	}
	if got := many.tokens(); got != "64.0 of 66.4" {
		t.Errorf("tokens %s", got)
	}
}

// The server keeps the truth about requests, with a trace id and without, until it
// is asked for it.
func TestRecords(t *testing.T) {
	sim := simulator.New(simulator.Options{DecodeStep: time.Millisecond})
	s := httptest.NewServer(recorded(sim))
	defer s.Close()
	const id = "0af7651916cd43dd8448eb211c80319c"
	for _, parent := range []string{"", "00-" + id + "-b7ad6b7169203331-01"} {
		body := strings.NewReader(`{"stream":true,"max_tokens":8,"messages":[{"role":"user","content":"w1"}]}`)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+scenarios()[1].path+"/v1/chat/completions", body)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("traceparent", parent)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	at := server{address: strings.TrimPrefix(s.URL, "http://")}
	records, err := at.take(t.Context())
	if err != nil || len(records) != 2 || records[1].TraceID != id {
		t.Fatalf("%d records, %v", len(records), err)
	}
	if f := truth(records, nil); f.Requests != 2 || *f.Tokens != 16 || f.Gap == nil {
		t.Errorf("truth %+v, want two requests of 8 tokens in two events", f)
	}
	if records, err = at.take(t.Context()); err != nil || len(records) > 0 {
		t.Errorf("%d records are returned twice, %v", len(records), err)
	}
}

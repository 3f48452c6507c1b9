package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	evidenceFile = "evidence.json"
	document     = "../../../docs/comparison.md"
)

// evidence is what the tools measured on one machine.
type evidence struct {
	Date    string    `json:"date"`
	Machine string    `json:"machine"`
	Tools   []outcome `json:"tools"`
}

// outcome is what became of one tool.
type outcome struct {
	Tool       string     `json:"tool"`
	Version    string     `json:"version,omitempty"`
	Definition string     `json:"definition,omitempty"`
	NotChecked string     `json:"not_checked,omitempty"`
	Runs       []measured `json:"runs,omitempty"`
}

// measured is one run of a tool, with the truth about its requests.
type measured struct {
	Scenario string  `json:"scenario"`
	Streams  int     `json:"streams"`
	Requests int     `json:"requests"`
	Measured figures `json:"measured"`
	Truth    figures `json:"truth"`
	Cost     cost    `json:"cost"`
	Error    string  `json:"error,omitempty"`
}

// readJSON reads a file of evidence; where there is none, into stays as it is.
func readJSON(name string, into any) error {
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

// put replaces what is known of a tool; tools stay in the order of toolList.
func (e *evidence) put(o outcome) {
	e.Tools = slices.DeleteFunc(e.Tools, func(old outcome) bool { return old.Tool == o.Tool })
	e.Tools = append(e.Tools, o)
	order := func(name string) int {
		return slices.IndexFunc(toolList(), func(t tool) bool { return t.name == name })
	}
	slices.SortFunc(e.Tools, func(a, b outcome) int { return order(a.Tool) - order(b.Tool) })
}

// run returns the run of a tool that measured requests in so many streams; nil
// for none, or where it failed.
func (o *outcome) run(scenario string, streams int) *measured {
	for i, r := range o.Runs {
		if r.Scenario == scenario && r.Streams == streams && r.Requests > 1 && r.Error == "" {
			return &o.Runs[i]
		}
	}
	return nil
}

// String is a line for who waits.
func (r measured) String() string {
	if r.Error != "" {
		return fmt.Sprintf("%s %d: %s", r.Scenario, r.Streams, r.Error)
	}
	return fmt.Sprintf(
		"%s, %d streams, %d of %d requests: TTFT %s, TPOT %s, gap %s ms, tokens %s; CPU %v, %s MB, %v", r.Scenario, r.Streams, r.Measured.Requests, r.Truth.Requests,
		errorOf(r.Measured.TTFT, r.Truth.TTFT), errorOf(r.Measured.TPOT, r.Truth.TPOT), errorOf(r.Measured.Gap, r.Truth.Gap), r.tokens(),
		r.Cost.CPU.Round(time.Millisecond), megabytes(r.Cost.Memory), r.Cost.Wall.Round(100*time.Millisecond),
	)
}

// none is shown for what a tool does not measure.
const none = "–"

// errorOf is what was measured less the truth, in milliseconds: of the median and
// of the 99th percentile.
func errorOf(measured, truth *quantiles) string {
	if measured == nil || truth == nil {
		return none
	}
	return signed(1000*(measured.P50-truth.P50)) + " / " + signed(1000*(measured.P99-truth.P99))
}

// signed has two significant digits, from a microsecond up.
func signed(ms float64) string {
	switch abs := max(ms, -ms); {
	case abs < 0.0005:
		return "0"
	case abs < 0.095:
		return fmt.Sprintf("%+.3f", ms)
	case abs < 9.5:
		return fmt.Sprintf("%+.1f", ms)
	default:
		return fmt.Sprintf("%+.0f", ms)
	}
}

// tokens is the tokens that were counted, by those that were sent in the requests
// that were counted.
func (r measured) tokens() string {
	if r.Measured.Tokens == nil || r.Measured.Requests == 0 || r.Truth.Tokens == nil || r.Truth.Requests == 0 {
		return none
	}
	each := float64(*r.Measured.Tokens) / float64(r.Measured.Requests)
	sent := float64(*r.Truth.Tokens) / float64(r.Truth.Requests)
	return fmt.Sprintf("%.1f of %.1f", each, sent)
}

func megabytes(n int64) string { return fmt.Sprintf("%.0f", float64(n)/1e6) }

// perToken is the processor time for each streamed token: what a run took more
// than that of one request, if it did.
func (o *outcome) perToken(r *measured) string {
	alone := &o.Runs[0]
	if alone.Error != "" || alone.Truth.Tokens == nil || r.Truth.Tokens == nil || *r.Truth.Tokens <= *alone.Truth.Tokens || r.Cost.CPU <= alone.Cost.CPU {
		return none
	}
	d := (r.Cost.CPU - alone.Cost.CPU) / time.Duration(*r.Truth.Tokens-*alone.Truth.Tokens)
	return fmt.Sprintf("%d µs", d.Microseconds())
}

// tables are the tables of the document.
func tables(e evidence) string {
	if len(e.Tools) == 0 {
		return "Not measured yet.\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Measured on %s on %s, each tool alone. Errors are in ms: what a tool reported less what the server wrote, of the median and of the\n99th percentile over the same requests. A dash is what a tool does not report.\n\n", e.Date, e.Machine)
	b.WriteString("| tool | streams | TTFT p50 / p99 | TPOT p50 / p99 | gap p50 / p99 | CPU per token | memory |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, o := range e.Tools {
		for _, streams := range []int{1, 10, 100} {
			if r := o.run("plain", streams); r != nil {
				fmt.Fprintf(&b, "| %s | %d | %s | %s | %s | %s | %s MB |\n", o.Tool, streams, errorOf(r.Measured.TTFT, r.Truth.TTFT),
					errorOf(r.Measured.TPOT, r.Truth.TPOT), errorOf(r.Measured.Gap, r.Truth.Gap), o.perToken(r), megabytes(r.Cost.Memory))
			}
		}
	}
	b.WriteString("\nTen streams that are not plain:\n\n| tool | stream | TTFT p50 / p99 | TPOT p50 / p99 | gap p50 / p99 | tokens of each answer |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, o := range e.Tools {
		for _, s := range scenarios()[1:] {
			if r := o.run(s.Name, 10); r != nil {
				fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", o.Tool, s.What, errorOf(r.Measured.TTFT, r.Truth.TTFT),
					errorOf(r.Measured.TPOT, r.Truth.TPOT), errorOf(r.Measured.Gap, r.Truth.Gap), r.tokens())
			}
		}
	}
	b.WriteString("\nWhat each takes for TTFT, and what its start costs: a run of one request, or a daemon up to its first figure.\n\n| tool | TTFT | first figure after | CPU of the start |\n| --- | --- | --- | --- |\n")
	for _, o := range e.Tools {
		switch {
		case o.NotChecked != "":
			fmt.Fprintf(&b, "| %s | not checked: %s | | |\n", strings.TrimSpace(o.Tool+" "+o.Version), o.NotChecked)
		case len(o.Runs) > 0 && o.Runs[0].Error == "":
			fmt.Fprintf(&b, "| %s | %s | %.1f s | %.1f s |\n", strings.TrimSpace(o.Tool+" "+o.Version), o.Definition, o.Runs[0].Cost.Wall.Seconds(), o.Runs[0].Cost.CPU.Seconds())
		}
	}
	for _, o := range e.Tools {
		for _, r := range o.Runs {
			if r.Error != "" {
				fmt.Fprintf(&b, "\n%s failed at %d streams (%s): %s\n", o.Tool, r.Streams, r.Scenario, r.Error)
			}
		}
	}
	return b.String()
}

// The tables stand between these lines of the document.
const (
	begin = "<!-- tables of tools/lab/peers: make peers -->\n"
	end   = "<!-- end of the tables -->\n"
)

// writeTables replaces the tables in a document.
func writeTables(name string, e evidence, loads loadEvidence) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	text, err = withTables(text, e, loads)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(name, text, 0o644)
}

// withTables returns a document with the tables.
func withTables(text []byte, e evidence, loads loadEvidence) ([]byte, error) {
	text, err := replaced(text, begin, end, tables(e))
	if err != nil {
		return nil, err
	}
	return replaced(text, beginLoad, endLoad, loadTables(loads))
}

func replaced(text []byte, begin, end, tables string) ([]byte, error) {
	before, rest, ok := bytes.Cut(text, []byte(begin))
	_, after, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		return nil, fmt.Errorf("no lines %q and %q", strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return slices.Concat(before, []byte(begin), []byte("\n"), []byte(tables), []byte("\n"), []byte(end), after), nil
}

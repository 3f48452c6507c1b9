package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"gopkg.in/yaml.v3"
)

func TestRungs(t *testing.T) {
	type rung struct {
		in, out                 Lengths
		inputLabel, outputLabel string
	}
	mix := Lengths{Mix: []WeightedLength{{Tokens: 5, Weight: 2}, {Tokens: 9, Weight: 0.5}}}
	f := func(in, out Lengths, want ...rung) {
		t.Helper()
		m := &Module{InputTokens: in, OutputTokens: out, BatchSize: 3}
		var got []rung
		for _, r := range m.Rungs() {
			got = append(got, rung{r.InputTokens, r.OutputTokens, r.InputLabel, r.OutputLabel})
			if r.BatchSize != 3 {
				t.Errorf("batch size of a rung: got %d, want 3", r.BatchSize)
			}
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(rung{})); diff != "" {
			t.Errorf("%v and %v (-want +got):\n%s", in, out, diff)
		}
		if diff := cmp.Diff(in, m.InputTokens); diff != "" {
			t.Errorf("the module itself was changed:\n%s", diff)
		}
	}
	f(Tokens(7), Tokens(8), rung{Tokens(7), Tokens(8), "", ""})
	f(Tokens(7), mix, rung{Tokens(7), mix, "", ""})
	f(Lengths{}, Tokens(8), rung{Lengths{}, Tokens(8), "", ""})
	f(Lengths{Ladder: []int{32000, 8000}}, mix, rung{Tokens(32000), mix, "32000", ""}, rung{Tokens(8000), mix, "8000", ""})
	f(Lengths{Ladder: []int{1, 2}}, Lengths{Ladder: []int{3, 4}},
		rung{Tokens(1), Tokens(3), "1", "3"}, rung{Tokens(1), Tokens(4), "1", "4"},
		rung{Tokens(2), Tokens(3), "2", "3"}, rung{Tokens(2), Tokens(4), "2", "4"})
}

func TestLengths(t *testing.T) {
	f := func(text string, want Lengths, longest int) {
		t.Helper()
		c, err := Parse([]byte("modules: {a: {input_tokens: "+text+"}}\nendpoints: [{url: http://h}]\n"), "f.yml")
		if err != nil {
			t.Error(err)
			return
		}
		got := c.Modules["a"].InputTokens
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
		if got.Max() != longest || got.IsZero() {
			t.Errorf("%s: longest %d and none %t, want %d and false", text, got.Max(), got.IsZero(), longest)
		}
		checkRoundTrip(t, c, "f.yml")
	}
	f("300", Lengths{Ladder: []int{300}}, 300)
	f("[300]", Lengths{Ladder: []int{300}}, 300)
	f("[300, 20, 2000000]", Lengths{Ladder: []int{300, 20, 2000000}}, 2000000)
	f("{300: 1}", Lengths{Mix: []WeightedLength{{300, 1}}}, 300)
	f("{2048: 1e3, 256: 2.5}", Lengths{Mix: []WeightedLength{{256, 2.5}, {2048, 1000}}}, 2048)
	if none := (Lengths{}); !none.IsZero() || none.Max() != 0 {
		t.Errorf("no length: got %v", none)
	}
}

// A schema is checked as JSON Schema 2020-12 says, with its formats.
func TestSchema(t *testing.T) {
	f := func(schema map[string]any, value any, want bool) {
		t.Helper()
		s, err := (&Expect{JSONSchema: schema}).Schema()
		if err != nil {
			t.Error(err)
			return
		}
		if err := s.Validate(value); (err == nil) != want {
			t.Errorf("%v against %v: got %v, want %t", value, schema, err, want)
		}
	}
	number := object{"type": "object", "required": []any{"x"}, "properties": object{"x": object{"type": "integer", "minimum": 5}}}
	f(number, object{"x": 5.0}, true)
	f(number, object{"x": 5.5}, false)
	f(number, object{"x": 4.0}, false)
	f(number, object{}, false)
	f(object{"format": "date"}, "2024-02-29", true)
	f(object{"format": "date"}, "2023-02-29", false)
	f(object{"prefixItems": []any{object{"const": 1}}, "items": false}, []any{1.0}, true) // new in 2020-12
	f(object{"prefixItems": []any{object{"const": 1}}, "items": false}, []any{1.0, 2.0}, false)
	f(object{"$ref": "#/$defs/a", "$defs": object{"a": object{"type": "null"}}}, nil, true)
}

func TestLanguages(t *testing.T) {
	all := Languages()
	if !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != len(all) {
		t.Errorf("not sorted, or not unique: %v", all)
	}
	for _, code := range []string{"ar", "de", "en", "es", "fr", "hi", "ja", "ko", "ru", "zh"} {
		if !slices.Contains(all, code) {
			t.Errorf("no %s in %v", code, all)
		}
	}
	for _, code := range all {
		if len(code) != 2 {
			t.Errorf("%q is no ISO 639-1 code", code)
		}
	}
}

// TestTrackedAnswers is a day's answers within bounds.
func TestTrackedAnswers(t *testing.T) {
	t.Parallel()
	for interval, want := range map[time.Duration]int{
		time.Hour: 96, 15 * time.Minute: 96, 10 * time.Minute: 144, 3 * time.Minute: 480, time.Millisecond: 480, 0: 480,
	} {
		if got := (&Module{Interval: model.Duration(interval)}).TrackedAnswers(); got != want {
			t.Errorf("interval %v: %d answers, want %d", interval, got, want)
		}
	}
}

// TestAsking checks that nothing is left of what a module asks otherwise, and that what is
// asked instead is a module that a file may hold.
func TestAsking(t *testing.T) {
	c, err := Parse([]byte(`
modules:
  burst: {input_tokens: 512, output_tokens: 7, concurrency: [1, 8], timeout: 9s}
  checked: {prompt: a, expect: {equals: b}, log_answers: true, fingerprint: true}
  tracked: {track_model: true}
  scored: {reference_logprob: true}
  turns: {prefix: conversation, turns: 3}
endpoints: [{url: http://a}]
`), "f.yml")
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range c.Modules {
		own, err := m.Asking("text")
		if err != nil {
			t.Fatal(err)
		}
		if asked := own.Ask().Key; asked != "prompt" || own.Prompt != "text" {
			t.Errorf("%s: asks %s %q", name, asked, own.Prompt)
		}
		r := newReport("f.yml")
		own.check(r, path("modules").key(name))
		if err := r.err(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if own.OutputTokens.IsZero() || own.ChecksAnswers() || !own.KeepAnswer || own.Timeout != m.Timeout {
			t.Errorf("%s: %+v", name, own)
		}
	}
	burst, _ := c.Modules["burst"].Asking("text")
	if burst.OutputTokens.Max() != 7 || len(burst.Concurrency) != 2 {
		t.Errorf("a burst lost its cap or its levels: %+v", burst)
	}
	for _, text := range []string{"", strings.Repeat("a", maxPromptBytes+1), "\xff"} {
		if _, err := c.Modules["burst"].Asking(text); err == nil {
			t.Errorf("%.10q is asked", text)
		}
	}
}

// plain is a module without a value of its own, from the specification.
func plain() *Module { return shape(30, 60, 256, 64) }

// shape is a cold module of one length with an interval and a timeout in seconds.
func shape(interval, timeout, input, output int) *Module {
	return &Module{
		Interval: seconds(interval), Timeout: seconds(timeout),
		Timeouts: Timeouts{
			Connect: seconds(min(10, timeout)), Stall: seconds(min(15, timeout)),
			Headers: seconds(min(30, timeout)), FirstToken: seconds(min(30, timeout)),
		},
		InputTokens: Tokens(input), OutputTokens: Tokens(output), BatchSize: 8, Prefix: "cold", Connection: "new",
	}
}

// builtIn are the built-in modules with a global interval and timeout in
// seconds, from the specification and not from the code.
func builtIn(interval, timeout int) map[string]*Module {
	limits := func(ttft, tpot, e2e int) *SLO {
		return &SLO{Objective: 0.99, TTFT: milliseconds(ttft), TPOT: milliseconds(tpot), E2E: milliseconds(e2e)}
	}
	all := map[string]*Module{
		"interactive":     shape(interval, timeout, 256, 64),
		"rag":             shape(60, timeout, 4000, 128),
		"agent":           shape(120, timeout, 8000, 128),
		"code-completion": shape(interval, timeout, 1500, 32),
		"batch":           shape(900, timeout, 1000, 256),
		"long-context":    shape(1800, 300, 1000, 32),
		"embedding":       shape(interval, timeout, 256, 64),
	}
	for name, module := range map[string]Module{"tool-call": {ToolCall: true}, "structured": {Structured: true}} {
		asks := shape(300, timeout, 1, 256)
		asks.InputTokens, asks.BatchSize, asks.Prefix = Lengths{}, 0, "warm"
		asks.ToolCall, asks.Structured = module.ToolCall, module.Structured
		all[name] = asks
	}
	all["agent"].Prefix = "paired"
	all["batch"].Concurrency = []int{1, 8, 32}
	all["long-context"].InputTokens = Lengths{Ladder: []int{1000, 8000, 32000, 128000}}
	all["long-context"].Timeouts.FirstToken, all["long-context"].Timeouts.Headers = seconds(240), seconds(240)
	all["interactive"].PresetSLO = limits(2000, 200, 0)
	all["rag"].PresetSLO = limits(2000, 100, 0)
	all["agent"].PresetSLO = limits(2000, 80, 0)
	all["code-completion"].PresetSLO = limits(0, 0, 2000)
	return all
}

func TestPresets(t *testing.T) {
	var names []string
	for _, p := range Presets() {
		names = append(names, p.Name)
		if p.Purpose == "" || len(p.Purpose) > 80 {
			t.Errorf("purpose of %s: %q", p.Name, p.Purpose)
		}
	}
	want := slices.Sorted(maps.Keys(builtIn(30, 60)))
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(names))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(None().Modules))); diff != "" {
		t.Errorf("without a file: %s", diff)
	}
}

// The file changes a built-in module key by key; what asks for something else
// takes the keys along that would mean nothing.
func TestPresetOverrides(t *testing.T) {
	f := func(name, text string, change func(*Module)) {
		t.Helper()
		c, err := Parse([]byte("modules: {"+name+": {"+text+"}}\nendpoints: [{url: http://h}]\n"), "f.yml")
		if err != nil {
			t.Error(err)
			return
		}
		want := builtIn(30, 60)
		change(want[name])
		if diff := cmp.Diff(want, c.Modules); diff != "" {
			t.Errorf("%s: %s\n%s", name, text, diff)
		}
		checkRoundTrip(t, c, "f.yml")
	}
	f("rag", "", func(*Module) {})
	f("rag", "output_tokens: 16", func(m *Module) { m.OutputTokens = Tokens(16) })
	f("rag", "slo: {e2e: 9s}", func(m *Module) { m.SLO = &SLO{Objective: 0.99, E2E: seconds(9)} })
	f("batch", "concurrency: [2]", func(m *Module) { m.Concurrency = []int{2} })
	f("long-context", "timeout: 100s", func(m *Module) {
		m.Timeout = seconds(100)
		m.Timeouts.FirstToken, m.Timeouts.Headers = seconds(100), seconds(100)
	})
	f("long-context", "input_tokens: {9: 1}", func(m *Module) {
		m.InputTokens = Lengths{Mix: []WeightedLength{{9, 1}}}
	})
	f("long-context", "prompt: Hello.", func(m *Module) {
		m.Prompt, m.Prefix, m.InputTokens, m.BatchSize = "Hello.", "warm", Lengths{}, 0
	})
	f("agent", "questions: true", func(m *Module) {
		m.Questions, m.Prefix, m.InputTokens, m.BatchSize = true, "warm", Lengths{}, 0
	})
	f("agent", "reference_logprob: true", func(m *Module) {
		m.ReferenceLogprob, m.Prefix = true, "warm"
		m.InputTokens, m.OutputTokens, m.BatchSize = Lengths{}, Lengths{}, 0
	})
	f("agent", "track_model: true", func(m *Module) {
		m.TrackModel, m.Prefix, m.Interval = true, "warm", model.Duration(15*60e9)
		m.InputTokens, m.OutputTokens, m.BatchSize = Lengths{}, Tokens(1), 0
	})
	f("agent", "track_model: true, interval: 1h", func(m *Module) {
		m.TrackModel, m.Prefix, m.Interval = true, "warm", model.Duration(3600e9)
		m.InputTokens, m.OutputTokens, m.BatchSize = Lengths{}, Tokens(1), 0
	})
	f("agent", "reference_texts: true", func(m *Module) {
		m.ReferenceTexts, m.Prefix = true, "warm"
		m.InputTokens, m.OutputTokens, m.BatchSize = Lengths{}, Lengths{}, 0
	})
	f("agent", "tool_call: true", func(m *Module) {
		m.ToolCall, m.Prefix, m.InputTokens, m.BatchSize = true, "warm", Lengths{}, 0
	})
	f("structured", "log_answers: true", func(m *Module) { m.LogAnswers = true })
	f("agent", "timeouts: {stall: 1s}, interval: 7m", func(m *Module) {
		m.Timeouts.Stall, m.Interval = seconds(1), model.Duration(420e9)
	})
}

// presetTable shows the built-in modules as the reference does: what they have
// otherwise than any module.
func presetTable() string {
	var b strings.Builder
	b.WriteString("| module | purpose | `input_tokens` | `output_tokens` | besides | objectives |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, p := range Presets() {
		m := presetOf(p.Name)
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", p.Name, p.Purpose,
			inputOf(m), flow(m.OutputTokens), listed(besides(m)), listed(objectives(m.PresetSLO)))
	}
	return b.String()
}

// inputOf is the lengths of the prompts of a module; nothing where they are not made
// to length.
func inputOf(m *Module) string {
	if !m.Ask().ToLength() {
		return ""
	}
	return flow(m.InputTokens)
}

// presetOf returns the built-in module of that name with nothing from `global`.
func presetOf(name string) *Module {
	m := newItem(reflect.TypeFor[*Module]()).Interface().(*Module)
	m.usePreset(name)
	m.Ask().complete(m, newReport(""), "")
	return m
}

func besides(m *Module) []string {
	var all []string
	add := func(key string, value any, is bool) {
		if is {
			all = append(all, key+": "+flow(value))
		}
	}
	def := presetOf("")
	add("interval", m.Interval, m.Interval != 0)
	add("timeout", m.Timeout, m.Timeout != 0)
	add("timeouts.first_token", m.Timeouts.FirstToken, m.Timeouts.FirstToken != def.Timeouts.FirstToken)
	add("prefix", m.Prefix, m.Prefix != def.Prefix)
	add("tool_call", true, m.ToolCall)
	add("structured", true, m.Structured)
	add("concurrency", m.Concurrency, m.Concurrency != nil)
	return all
}

func objectives(s *SLO) []string {
	var all []string
	if s != nil {
		for _, limit := range []struct {
			key string
			v   model.Duration
		}{{"ttft", s.TTFT}, {"tpot", s.TPOT}, {"e2e", s.E2E}} {
			if limit.v > 0 {
				all = append(all, limit.key+": "+limit.v.String())
			}
		}
	}
	return all
}

// flow is a value as one writes it in a line of the file.
func flow(v any) string {
	var n yaml.Node
	if err := n.Encode(v); err != nil {
		panic(err)
	}
	n.Style = yaml.FlowStyle
	text, err := yaml.Marshal(&n)
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(text))
}

func listed(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return "`" + strings.Join(words, "`, `") + "`"
}

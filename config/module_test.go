package config

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
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

package answers

import (
	"slices"
	"strings"
	"testing"

	"github.com/inference-exporter/inference_exporter/config"
	"github.com/inference-exporter/inference_exporter/internal/result"
	"github.com/inference-exporter/inference_exporter/internal/workload"
)

func mustNew(t testing.TB, c config.Expect) *Expectation {
	t.Helper()
	e, err := newExpectation(&c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func schema(keywords map[string]any) config.Expect { return config.Expect{JSONSchema: keywords} }

var person = schema(map[string]any{
	"type": "object", "required": []any{"name", "age"},
	"properties": map[string]any{
		"name": map[string]any{"type": "string", "minLength": 1},
		"age":  map[string]any{"type": "integer", "minimum": 0, "maximum": 150},
	},
})

func TestExpectation(t *testing.T) {
	f := func(c config.Expect, a workload.Answer, want result.Verdict, reason string) {
		t.Helper()
		verdict, got := mustNew(t, c).Judge(a)
		if verdict != want || got != reason {
			t.Errorf("%+v of %+v: %s, %q; want %s, %q", c, a, verdict, got, want, reason)
		}
	}
	text := func(s string) workload.Answer { return workload.Answer{Text: s, Finish: "stop"} }

	f(config.Expect{}, text(""), result.VerdictCorrect, "")
	f(config.Expect{Equals: "42"}, text("42"), result.VerdictCorrect, "")
	f(config.Expect{Equals: " 42\n"}, text("\n42 "), result.VerdictCorrect, "")
	f(config.Expect{Equals: "42"}, text("42."), result.VerdictWrong, "the answer is not what is expected")
	f(config.Expect{Equals: "yes"}, text("Yes"), result.VerdictWrong, "the answer is not what is expected")

	f(config.Expect{Matches: `^\d+$`}, text("42"), result.VerdictCorrect, "")
	f(config.Expect{Matches: `\b42\b`}, text("It is 42."), result.VerdictCorrect, "")
	f(config.Expect{Matches: `^\d+$`}, text("It is 42."), result.VerdictWrong, "the answer does not match the expected pattern")

	f(config.Expect{MinLength: 3}, text("äöü"), result.VerdictCorrect, "")
	f(config.Expect{MinLength: 4}, text("äöü"), result.VerdictWrongFormat, "the answer has 3 characters, want at least 4")
	f(config.Expect{MaxLength: 3}, text("äöü"), result.VerdictCorrect, "")
	f(config.Expect{MaxLength: 2}, text("äöü"), result.VerdictWrongFormat, "the answer has 3 characters, want at most 2")

	f(config.Expect{FinishReason: []string{"stop", "length"}}, workload.Answer{Finish: "length"}, result.VerdictCorrect, "")
	f(config.Expect{FinishReason: []string{"stop", "tool_calls"}}, workload.Answer{Finish: "length"}, result.VerdictWrongFormat,
		`the finish reason is "length", want stop or tool_calls`)
	f(config.Expect{FinishReason: []string{"stop"}}, workload.Answer{}, result.VerdictWrongFormat, `the finish reason is "", want stop`)

	// The form comes first.
	f(config.Expect{Equals: "42", FinishReason: []string{"stop"}}, workload.Answer{Text: "4", Finish: "length"}, result.VerdictWrongFormat,
		`the finish reason is "length", want stop`)
	f(config.Expect{Equals: "42", MaxLength: 5}, text("forty-two"), result.VerdictWrongFormat, "the answer has 9 characters, want at most 5")
	// All that is written must hold.
	f(config.Expect{Matches: "4", Equals: "42"}, text("42"), result.VerdictCorrect, "")
	f(config.Expect{Matches: "5", Equals: "42"}, text("42"), result.VerdictWrong, "the answer does not match the expected pattern")

	// Refusals and loops are called that, unless they are what is expected.
	f(config.Expect{Equals: "42"}, text("I'm sorry, I can't say."), result.VerdictRefused, "the answer declines to answer")
	f(person, text("I'm sorry, I can't say."), result.VerdictRefused, "the answer declines to answer")
	f(config.Expect{Matches: "can't"}, text("I'm sorry, I can't say."), result.VerdictCorrect, "")
	loop := strings.Repeat("again and ", 50)
	f(config.Expect{MaxLength: 100}, text(loop), result.VerdictRepetition, "the answer repeats one phrase again and again")
	f(config.Expect{Matches: "again"}, text(loop), result.VerdictCorrect, "")
}

func TestExpectationOfJSON(t *testing.T) {
	f := func(c config.Expect, answer string, want result.Verdict, reason string) {
		t.Helper()
		verdict, got := mustNew(t, c).Judge(workload.Answer{Text: answer})
		if verdict != want || got != reason {
			t.Errorf("%v of %q: %s, %q; want %s, %q", c.JSONSchema, answer, verdict, got, want, reason)
		}
	}
	const unmet = "the answer does not meet the JSON schema: "
	f(person, `{"name": "Ida", "age": 30}`, result.VerdictCorrect, "")
	f(person, "\n{\"name\": \"Ida\", \"age\": 30.0, \"x\": []}\n", result.VerdictCorrect, "")
	f(person, "```json\n{\"name\": \"Ida\", \"age\": 30}\n```", result.VerdictWrongFormat, "the answer is in a code block, want JSON alone")
	f(person, `Here it is: {"name": "Ida", "age": 30}`, result.VerdictWrongFormat, "the answer is not JSON")
	f(person, `{"name": "Ida", "age": 30`, result.VerdictWrongFormat, "the answer is not JSON")
	f(person, `{"name": "Ida", "age": 30} and more`, result.VerdictWrongFormat, "the answer is not JSON")
	f(person, ``, result.VerdictWrongFormat, "the answer is not JSON")
	f(person, `{"name": "Ida"}`, result.VerdictWrongFormat, unmet+`"/required" is not met`)
	f(person, `{"name": "Ida", "age": "30"}`, result.VerdictWrongFormat, unmet+`"/properties/age/type" is not met`)
	f(person, `{"name": "Ida", "age": 30.5}`, result.VerdictWrongFormat, unmet+`"/properties/age/type" is not met`)
	f(person, `{"name": "Ida", "age": 151}`, result.VerdictWrongFormat, unmet+`"/properties/age/maximum" is not met`)
	f(person, `{"name": "", "age": -1}`, result.VerdictWrongFormat, unmet+`"/properties/age/minimum" is not met`) // the first by name
	f(person, `["secret"]`, result.VerdictWrongFormat, unmet+`"/type" is not met`)
	f(person, `{"name": "Ida", "age": 1e999999999}`, result.VerdictWrongFormat, "the answer is not JSON")
	// A schema from a file may have whole numbers of any type.
	f(schema(map[string]any{"type": "array", "maxItems": 2, "items": map[string]any{"enum": []any{1, 2.5, "x"}}}), `[1, 2.5]`, result.VerdictCorrect, "")
	f(schema(map[string]any{"type": "array", "maxItems": 2}), `[1, 2, 3]`, result.VerdictWrongFormat, unmet+`"/maxItems" is not met`)
	f(schema(map[string]any{"format": "date"}), `"2026-02-30"`, result.VerdictWrongFormat, unmet+`"/format" is not met`)
	f(schema(map[string]any{"$ref": "#/$defs/n", "$defs": map[string]any{"n": map[string]any{"type": "number"}}}), `"x"`, result.VerdictWrongFormat, unmet+`"/$defs/n/type" is not met`)
}

func TestExpectationOfLanguage(t *testing.T) {
	const english = "The train to the north leaves at seven in the morning, and the tickets are sold at the small window beside the main door."
	const german = "Der Zug nach Norden fährt um sieben Uhr morgens ab, und die Fahrkarten werden an dem kleinen Schalter neben der Tür verkauft."
	const french = "Le train pour le nord part à sept heures du matin, et les billets sont vendus au petit guichet à côté de la porte principale."
	f := func(language, answer string, want result.Verdict, reason string) {
		t.Helper()
		verdict, got := mustNew(t, config.Expect{Language: language}).Judge(workload.Answer{Text: answer})
		if verdict != want || got != reason {
			t.Errorf("%s of %q: %s, %q; want %s, %q", language, answer, verdict, got, want, reason)
		}
	}
	f("en", english, result.VerdictCorrect, "")
	f("de", german, result.VerdictCorrect, "")
	f("fr", french, result.VerdictCorrect, "")
	f("zh", "春天来了，河边的树开始发芽。", result.VerdictCorrect, "")
	f("en", german, result.VerdictWrongFormat, "the language of the answer is de, want en")
	f("de", french, result.VerdictWrongFormat, "the language of the answer is fr, want de")
	for _, unclear := range []string{"", "42", "ok", "no"} {
		f("en", unclear, result.VerdictWrongFormat, "the language of the answer is not recognised, want en")
	}
}

func TestNewRefusesWhatDoesNotCompile(t *testing.T) {
	f := func(c config.Expect, want string) {
		t.Helper()
		_, err := newExpectation(&c)
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", c, err, want)
		}
	}
	f(config.Expect{Matches: "("}, "compile the expected pattern: ")
	f(schema(map[string]any{"type": "text"}), "compile the expected schema: ")
	f(schema(map[string]any{"$ref": "file:///etc/hostname"}), "compile the expected schema: ")
}

func FuzzExpectation(f *testing.F) {
	expectations := []*Expectation{
		mustNew(f, config.Expect{Equals: "42"}), mustNew(f, config.Expect{Matches: `(a+)+$`}), mustNew(f, person),
		mustNew(f, config.Expect{Language: "en"}), mustNew(f, config.Expect{MinLength: 2, MaxLength: 10, FinishReason: []string{"stop"}}),
		mustNew(f, schema(map[string]any{"uniqueItems": true, "items": map[string]any{"multipleOf": 0.1}})),
	}
	for _, text := range hostile(200) {
		f.Add(text, "stop")
	}
	f.Add(`{"name": "Ida", "age": 30}`, "length")
	f.Add(`[1e308, 1e-308, 1E400]`, "")
	f.Fuzz(func(t *testing.T, text, finish string) {
		for _, e := range expectations {
			v, reason := e.Judge(workload.Answer{Text: text, Finish: finish})
			if !slices.Contains(result.Verdicts(), v) || (v == result.VerdictCorrect) != (reason == "") || len(reason) > 300 {
				t.Fatalf("%s, %q", v, reason)
			}
			if again, because := e.Judge(workload.Answer{Text: text, Finish: finish}); again != v || because != reason {
				t.Fatalf("%s, %q; then %s, %q", v, reason, again, because)
			}
			if len(text) > 30 && strings.Contains(reason, text) {
				t.Fatalf("the answer is in %q", reason)
			}
		}
	})
}

func BenchmarkExpectation(b *testing.B) {
	for name, c := range map[string]config.Expect{
		"equals": {Equals: shortAnswer}, "matches": {Matches: `\b42\b`}, "language": {Language: "en"},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			e := mustNew(b, c)
			for b.Loop() {
				e.Judge(workload.Answer{Text: shortAnswer})
			}
		})
	}
	b.Run("json", func(b *testing.B) {
		b.ReportAllocs()
		e := mustNew(b, person)
		for b.Loop() {
			e.Judge(workload.Answer{Text: `{"name": "Ida", "age": 30}`})
		}
	})
}

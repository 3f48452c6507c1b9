package config

import (
	"slices"
	"testing"
)

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

package gpu

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// No text of a snapshot is shown as it came, whatever field it is in, and the snapshot
// that a reader still has of the same devices does not change.
func TestEveryTextIsCleaned(t *testing.T) {
	const key = "sk-0123456789abcdef"
	poison := "\x1b[31m\u009b\u202e" + key + "\n" + strings.Repeat("x", 10_000)
	var s Snapshot
	poisonTexts(reflect.ValueOf(&s).Elem(), poison)
	s.Err = errors.New(poison)
	before := s.Devices[0].MIG[0].UUID
	shared := s.Devices[0].MIG
	s.Clean(safetext.NewSecrets(key))
	cleaned := 0
	eachText(reflect.ValueOf(&s).Elem(), func(field, text string) {
		if cleaned++; !strings.HasPrefix(text, "[31m "+safetext.Placeholder+" xxx") || len(text) > maxTextBytes {
			t.Errorf("%s is %.60q of %d bytes", field, text, len(text))
		}
	})
	if text := s.Err.Error(); !safetext.Printable(text) || strings.Contains(text, key) || len(text) > 2*maxTextBytes {
		t.Errorf("the error is %.60q", text)
	}
	if cleaned != 22 {
		t.Errorf("%d texts, want 22: is one of a new field left out?", cleaned)
	}
	if shared[0].UUID != before {
		t.Error("a part that others share was changed")
	}
}

// poisonTexts gives each slice an element and each text of a driver a value.
func poisonTexts(v reflect.Value, poison string) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && v.Field(i).Type() != reflect.TypeFor[time.Time]() {
				poisonTexts(v.Field(i), poison)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		poisonTexts(v.Index(0), poison)
	case reflect.String:
		v.SetString(poison)
	}
}

// eachText calls f with each text of a driver, and the field that has it. Source, Label
// and what has a type of its own are from closed sets.
func eachText(v reflect.Value, f func(field, text string)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			switch field := v.Type().Field(i); {
			case field.Type == reflect.TypeFor[time.Time]() || field.Name == "Source" || field.Name == "Label":
			case field.Type == reflect.TypeFor[string]():
				f(v.Type().Name()+"."+field.Name, v.Field(i).String())
			default:
				eachText(v.Field(i), f)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachText(v.Index(i), f)
		}
	}
}

package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/prober/api"
)

// TestSchemaFile holds the JSON schema equal to the code: keys, types and bounds by reflection, meanings from the comments.
func TestSchemaFile(t *testing.T) {
	s := schemaMaker{newReference(t), map[string]any{"set": map[string]any{"not": map[string]any{"enum": []any{nil, false, 0, "", []any{}, map[string]any{}}}}}}
	root := s.object(reflect.TypeFor[Config]())
	root["$schema"], root["$id"] = "https://json-schema.org/draft/2020-12/schema", SchemaURL
	root["title"], root["$defs"] = "Configuration of inference_exporter", s.defs
	var want bytes.Buffer
	e := json.NewEncoder(&want)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(root); err != nil {
		t.Fatal(err)
	}
	golden(t, "schema.json", want.String())
}

// schemaMaker renders types of the configuration as JSON schema, own structs under a name each.
type schemaMaker struct {
	*reference
	defs map[string]any
}

// nullable has a value left out by a null, as the decoder does.
func nullable(schema map[string]any) map[string]any {
	switch kind := schema["type"].(type) {
	case string:
		schema["type"] = []string{kind, "null"}
	case []string:
		schema["type"] = append(slices.Clone(kind), "null")
	}
	if all, ok := schema["enum"].([]any); ok {
		schema["enum"] = append(slices.Clone(all), nil)
	}
	if _, ok := schema["$ref"]; ok {
		return map[string]any{"anyOf": []any{schema, map[string]any{"type": "null"}}}
	}
	return schema
}

// scalar is a text as the decoder takes it: whatever is written plainly.
func scalar() map[string]any { return map[string]any{"type": []string{"string", "number", "boolean"}} }

func (s *schemaMaker) of(t reflect.Type, o option) map[string]any {
	switch t {
	case reflect.TypeFor[model.Duration]():
		return map[string]any{"type": "string", "pattern": `^([0-9]+(y|w|d|h|m|s|ms))+$`}
	case reflect.TypeFor[Bytes]():
		return map[string]any{"type": []string{"string", "integer"}, "pattern": bytesForm.String()}
	case reflect.TypeFor[Lengths]():
		length := s.bounded(map[string]any{"type": "integer"}, o)
		return map[string]any{"anyOf": []any{
			length,
			map[string]any{"type": "array", "items": length, "minItems": 1, "maxItems": maxLengths},
			map[string]any{
				"type": "object", "propertyNames": map[string]any{"pattern": "^[1-9][0-9]*$"}, "minProperties": 1, "maxProperties": maxLengths,
				"additionalProperties": map[string]any{"type": "number"},
			},
			map[string]any{"type": "null"},
		}}
	case reflect.TypeFor[URL](), reflect.TypeFor[PageURL](), reflect.TypeFor[promconfig.URL]():
		return map[string]any{"type": "string"}
	case reflect.TypeFor[promconfig.Secret](), reflect.TypeFor[promconfig.TLSVersion]():
		return scalar()
	case reflect.TypeFor[promconfig.Headers]():
		return map[string]any{"type": "object", "additionalProperties": s.object(reflect.TypeFor[promconfig.Header]())}
	case reflect.TypeFor[Sources]():
		return map[string]any{"type": "array", "items": map[string]any{"type": "object"}} // Prometheus' own
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem(), o)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Pointer && !isOwn(t.Elem().Elem()) {
			return map[string]any{"type": "array", "items": map[string]any{"type": "object"}} // Prometheus' own
		}
		list := map[string]any{"type": "array", "items": s.of(t.Elem(), o)}
		if o.some {
			list["minItems"] = 1
		}
		if o.unique {
			list["uniqueItems"] = true
		}
		return list
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": nullable(s.of(t.Elem(), option{}))}
	case reflect.Struct:
		if !isOwn(t) {
			return s.object(t)
		}
		if _, ok := s.defs[t.Name()]; !ok {
			s.defs[t.Name()] = true // breaks circles
			s.defs[t.Name()] = s.object(t)
		}
		return map[string]any{"$ref": "#/$defs/" + t.Name()}
	case reflect.Int:
		return s.bounded(map[string]any{"type": "integer"}, o)
	case reflect.Float64:
		return s.bounded(map[string]any{"type": "number"}, o)
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.String:
		return s.text(o)
	}
	return map[string]any{} // anything
}

func (s *schemaMaker) bounded(schema map[string]any, o option) map[string]any {
	i := o.interval
	if i == nil {
		return schema
	}
	set := func(text, open, closed string, value float64, isOpen bool) {
		switch {
		case text == "":
		case isOpen:
			schema[open] = value
		default:
			schema[closed] = value
		}
	}
	set(i.from, "exclusiveMinimum", "minimum", i.low, i.openLow)
	set(i.to, "exclusiveMaximum", "maximum", i.high, i.openHigh)
	return schema
}

func (s *schemaMaker) text(o option) map[string]any {
	values := o.oneOf
	switch o.form {
	case "protocol":
		values = api.Names()
	case "precision":
		values = Precisions()
	case "finish reason":
		values = api.FinishReasons()
	case "finish":
		values = MappedFinishes()
	}
	if values != nil {
		var all []any
		for _, v := range values {
			all = append(all, v)
		}
		return map[string]any{"enum": all}
	}
	schema := scalar()
	if o.maxText > 0 {
		schema["minLength"], schema["maxLength"] = 1, o.maxText
	}
	return schema
}

// object renders a struct, key by key.
func (s *schemaMaker) object(t reflect.Type) map[string]any {
	structure, properties := structureOf(t), map[string]any{}
	var required []string
	var conditions []any
	comments := map[string]string{}
	if isOwn(t) {
		var err error
		if comments, err = s.comments(t.Name()); err != nil {
			panic(err)
		}
	}
	for key, index := range structure.keys {
		f, o := t.FieldByIndex(index), structure.option(key)
		schema := nullable(s.of(f.Type, o))
		if meaning := comments[f.Name]; meaning != "" {
			schema["description"] = sentence(meaning, f.Name)
		}
		properties[key] = schema
		if o.required != "" && structure.defaults.FieldByIndex(index).IsZero() {
			required = append(required, key)
		}
		if o.excludes != nil {
			without := both(key, term{})
			var others []any
			for _, other := range o.excludes {
				others = append(others, both("", other))
			}
			without["anyOf"] = others
			conditions = append(conditions, map[string]any{"not": without})
		}
		for _, terms := range o.requires {
			if t == reflect.TypeFor[Module]() {
				continue // which may come from a built-in one
			}
			var met []any
			for _, other := range terms {
				met = append(met, both("", other))
				if !structure.defaults.FieldByIndex(other.index).IsZero() {
					met = append(met, map[string]any{"not": map[string]any{"required": []string{other.key}}})
				}
			}
			conditions = append(conditions, map[string]any{"if": both(key, term{}), "then": map[string]any{"anyOf": met}})
		}
	}
	object := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if slices.Sort(required); required != nil {
		object["required"] = required
	}
	if conditions != nil {
		slices.SortFunc(conditions, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		object["allOf"] = conditions
	}
	return object
}

// both is an object with a key, "" is any, and a term that holds, the zero term is any.
func both(key string, other term) map[string]any {
	set := map[string]any{"$ref": "#/$defs/set"}
	required, properties := []string{}, map[string]any{}
	if key != "" {
		required, properties[key] = append(required, key), set
	}
	if other.key != "" {
		required, properties[other.key] = append(required, other.key), set
		if other.value != "" {
			properties[other.key] = map[string]any{"const": other.value}
		}
	}
	return map[string]any{"required": required, "properties": properties}
}

// A validator that knows nothing of this program accepts every good file, and refuses each bad one whose mistake is in a
// key, a type, a bound or a combination of two keys; what takes more than that to see is left to the program.
func TestSchemaAgainstFiles(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader([]byte(Schema)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(SchemaURL, doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile(SchemaURL)
	if err != nil {
		t.Fatal(err)
	}
	good, err := filepath.Glob("testdata/*.good.yml")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Glob("../examples/*.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(good, examples...) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(schema, text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}

	data, err := os.ReadFile(badGolden)
	if err != nil {
		t.Fatal(err)
	}
	seen := []string{
		`unknown key`, `must be (between|at least|at most|above|below|openai-chat)`,
		`expected (a mapping|a list|a whole|true|a finite|a string, got a)`,
	}
	for _, structure := range newReference(t).structures {
		for _, o := range structure.options {
			for _, other := range o.excludes {
				seen = append(seen, regexp.QuoteMeta(o.key+" and "+other.String()+" are mutually exclusive"))
			}
		}
	}
	simple := regexp.MustCompile(`(?m)^=> :\d*: [^ ]+: (` + strings.Join(seen, "|") + `)`)
	refused, bad := 0, 0
	for _, file := range readBadFiles(t) {
		_, after, _ := strings.Cut(string(data), "=== "+file.name+"\n")
		mistakes, _, _ := strings.Cut(after, "\n=== ")
		err := validate(schema, []byte(file.text))
		bad++
		if err != nil {
			refused++
		}
		if err == nil && simple.MatchString(mistakes) {
			t.Errorf("%s: the schema accepts it:\n%s", file.name, mistakes)
		}
	}
	t.Logf("refuses %d of %d bad files", refused, bad)
}

// validate returns what is wrong with a file by a schema.
func validate(schema *jsonschema.Schema, text []byte) error {
	var v any
	if err := yaml.Unmarshal(text, &v); err != nil {
		return err
	}
	return schema.Validate(asJSON(v))
}

// asJSON returns a value as an editor hands it to a validator: keys are texts, and so is what JSON has no type for.
func asJSON(v any) any {
	switch v := v.(type) {
	case map[any]any:
		all := map[string]any{}
		for key, value := range v {
			all[fmt.Sprint(key)] = asJSON(value)
		}
		return all
	case map[string]any:
		all := maps.Clone(v)
		for key, value := range all {
			all[key] = asJSON(value)
		}
		return all
	case []any:
		for i := range v {
			v[i] = asJSON(v[i])
		}
	case time.Time:
		return v.Format(time.DateOnly)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Sprint(v)
		}
	}
	return v
}

package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"gopkg.in/yaml.v3"
)

const badGolden = "testdata/bad.golden"

// badFile is a file with mistakes.
type badFile struct{ name, text string }

// readBadFiles returns the files in the golden: each is a line "=== name", its text, and
// a line "=> line: path: message" for each mistake.
func readBadFiles(t testing.TB) []badFile {
	t.Helper()
	data, err := os.ReadFile(badGolden)
	if err != nil {
		t.Fatal(err)
	}
	var all []badFile
	for _, section := range strings.Split("\n"+string(data), "\n=== ")[1:] {
		name, rest, _ := strings.Cut(section, "\n")
		text, _, _ := strings.Cut("\n"+rest, "\n=> ")
		all = append(all, badFile{name, strings.TrimPrefix(text, "\n") + "\n"})
	}
	return all
}

// TestBadFiles holds the mistakes of each bad file, of which none repeats a password.
func TestBadFiles(t *testing.T) {
	dir, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	var got strings.Builder
	for _, file := range readBadFiles(t) {
		name := "testdata/" + file.name + ".yml"
		_, err := Parse([]byte(file.text), name)
		if err == nil {
			t.Errorf("%s: no error", file.name)
			continue
		}
		got.WriteString("=== " + file.name + "\n" + file.text)
		for line := range strings.Lines(err.Error() + "\n") {
			got.WriteString("=> " + strings.ReplaceAll(strings.TrimPrefix(line, name), dir, "$DIR"))
		}
		got.WriteString("\n")
		if strings.Contains(strings.ReplaceAll(err.Error(), "password", ""), "pass") {
			t.Errorf("%s: the error has the password: %v", file.name, err)
		}
	}
	golden(t, badGolden, got.String())
}

// rareOptions has the structs that no example has.
const rareOptions = `
endpoints: [{url: http://h, cloud_identity: {provider: google}}]
engines:
  e:
    sentinels: [a]
    progress: [{series: a}]
    info: {precision: [{series: a}]}
    histograms: {ttft: [{series: a}]}
    prefix_cache: [{hits: {series: a}, queries: {series: b}, unit: tokens}]
    requests: [{series: a}]
gateway_mappings: {m: {ready: [{series: a}]}}
`

// TestBadByTag makes a bad value of each tag of each option, in a file that has the struct
// of the option: its mistake must have the line, the path and what the tag says.
func TestBadByTag(t *testing.T) {
	setEnv(t)
	b := badMaker{t, nil, map[string]bool{}}
	for _, name := range []string{"full", "discovery", "gpus", ""} {
		text, err := []byte(rareOptions), error(nil)
		if name != "" {
			text, err = os.ReadFile("../examples/" + name + ".yml")
		}
		if err != nil {
			t.Fatal(err)
		}
		b.root = parseYAML(text, "", newReport(name))
		b.walk(b.root, "", reflect.TypeFor[Config]())
	}
	for name, s := range newReference(t).structures {
		for _, o := range s.options {
			if !b.done[name+"."+o.key] {
				t.Errorf("%s.%s: no file has its struct", name, o.key)
			}
		}
	}
}

// badMaker makes the files of TestBadByTag of one that is right.
type badMaker struct {
	*testing.T
	root *yaml.Node
	done map[string]bool // the options by the name of their struct
}

// walk tries the options of each struct in n, which is of type t.
func (b *badMaker) walk(n *yaml.Node, p path, t reflect.Type) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if isOwn(t) && n.Kind == yaml.MappingNode {
		s := structureOf(t)
		for _, o := range s.options {
			if id := t.Name() + "." + o.key; !b.done[id] {
				b.done[id] = true
				b.option(n, p, s, o)
			}
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i].Value
			b.walk(n.Content[i+1], p.key(key), t.FieldByIndex(s.keys[key]).Type)
		}
		return
	}
	for i, c := range n.Content {
		switch {
		case t.Kind() == reflect.Slice:
			b.walk(c, p.index(i), t.Elem())
		case t.Kind() == reflect.Map && i%2 == 1:
			b.walk(c, p.key(n.Content[i-1].Value), t.Elem())
		}
	}
}

// option tries each tag of an option of the struct s, which n holds.
func (b *badMaker) option(n *yaml.Node, p path, s *structure, o option) {
	f := s.defaults.FieldByIndex(s.keys[o.key])
	wrap := func(value string) string {
		switch f.Kind() {
		case reflect.Slice:
			return "[" + value + "]"
		case reflect.Map:
			if f.Type().Elem().Kind() == reflect.Pointer {
				return "{" + value + ": {}}"
			}
			return "{" + value + ": a}"
		}
		return value
	}
	bad := func(value, want string, others ...string) {
		b.Helper()
		b.try(n, p.key(o.key), append([]string{o.key, value}, others...), want)
	}
	if i := o.interval; i != nil {
		step, unit := 1.0, ""
		if f.Type() == reflect.TypeFor[model.Duration]() {
			step, unit = 1, "ms"
		}
		if i.openLow {
			step = 0
		}
		if i.from != "" && unit == "" {
			bad(wrap(fmt.Sprint(i.low-step)), "must be "+i.String())
		} else if i.from != "" {
			bad("1ms", "must be "+i.String())
		}
		if i.to != "" && unit != "" {
			bad(fmt.Sprintf("%.0fms", i.high/1e6+1), "must be "+i.String())
		} else if i.to != "" {
			bad(wrap(fmt.Sprintf("%.0f", i.high+1)), "must be "+i.String())
		}
	}
	if o.oneOf != nil {
		bad(wrap("bogus"), "must be "+enumerate(o.oneOf, "or")+`, got "bogus"`)
	}
	if o.maxText > 0 {
		bad(wrap(strings.Repeat("x", o.maxText+1)), fmt.Sprintf("must have at most %d bytes, got %d", o.maxText, o.maxText+1))
		bad(wrap(`"a\tb"`), "must have no control characters")
	}
	if o.form != "" && o.form != "finish reason" {
		bad(wrap(`"\x01 /:"`), "")
	}
	if o.some {
		bad("[]", "must not be empty")
	}
	if o.required != "" {
		bad("", "missing; want "+o.required)
	}
	for _, any := range o.requires {
		want, others := "requires "+any[0].key, []string{any[0].key, ""}
		if any[0].value != "" {
			other := slices.DeleteFunc(slices.Clone(s.option(any[0].key).oneOf), func(v string) bool { return v == any[0].value })
			want, others = "only valid with "+any[0].String(), []string{any[0].key, other[0]}
		}
		bad(sample(o, f), want, others...)
	}
	for _, t := range o.excludes {
		value := t.value
		if value == "" {
			value = sample(s.option(t.key), s.defaults.FieldByIndex(t.index))
		}
		bad(sample(o, f), "are mutually exclusive", t.key, value)
	}
}

// sample returns a value that an option may have.
func sample(o option, f reflect.Value) string {
	switch f.Interface().(type) {
	case model.Duration:
		return "1s"
	case Bytes:
		return "1GB"
	case URL:
		return "http://h"
	}
	switch {
	case f.Kind() == reflect.Bool:
		return "true"
	case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Int:
		return "[1]"
	case f.Kind() == reflect.Slice:
		return "[a]"
	case f.Kind() == reflect.Map:
		return "{a: stop}"
	case f.Kind() == reflect.Pointer:
		return "{}"
	case f.Kind() == reflect.Int && o.interval != nil:
		return cmp.Or(o.interval.to, o.interval.from)
	case f.Kind() != reflect.String:
		return "1"
	case isFileKey(o.key):
		return "arrivals.csv"
	case o.form == "currency":
		return "EUR"
	case o.form == "precision":
		return "fp8"
	}
	return "a"
}

// try sets keys of a mapping to values, "" to take one out, and expects a mistake at p, or in
// it, that contains want.
func (b *badMaker) try(n *yaml.Node, p path, keysAndValues []string, want string) {
	b.Helper()
	before := n.Content
	defer func() { n.Content = before }()
	for i := 0; i < len(keysAndValues); i += 2 {
		key, value := keysAndValues[i], keysAndValues[i+1]
		var kept []*yaml.Node
		for j := 0; j+1 < len(n.Content); j += 2 {
			if n.Content[j].Value != key {
				kept = append(kept, n.Content[j], n.Content[j+1])
			}
		}
		if value != "" {
			var pair yaml.Node
			if err := yaml.Unmarshal([]byte(key+": "+value), &pair); err != nil {
				b.Fatal(err)
			}
			kept = append(kept, pair.Content[0].Content...)
		}
		n.Content = kept
	}
	text, err := yaml.Marshal(b.root)
	if err != nil {
		b.Fatal(err)
	}
	_, err = Parse(text, "../examples/bad.yml")
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		b.Errorf("%s: %q: got %v, want %q", p, keysAndValues, err, want)
		return
	}
	lines := strings.Split(string(text), "\n")
	for _, err := range joined.Unwrap() {
		e, ok := errors.AsType[*Error](err)
		if !ok || !path(e.Path).isUnder(p) || !strings.Contains(e.Msg, want) {
			continue
		}
		if key := keysAndValues[0]; e.Line > 0 && (keysAndValues[1] == "" || strings.Contains(lines[e.Line-1]+lines[max(0, e.Line-2)], key)) {
			return
		}
	}
	b.Errorf("%s: %q: got %v, want %q", p, keysAndValues, err, want)
}

// golden compares got with a file, which -update writes.
func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is not current; run: go test ./config -update\n%s", name, diff)
	}
}

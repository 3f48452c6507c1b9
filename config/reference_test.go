package config

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/prober/api"
)

// TestReference holds docs/configuration.md equal to the code: keys and types
// by reflection, meanings from the comments, defaults from a resolved
// configuration.
func TestReference(t *testing.T) {
	ref := newReference(t)
	page, err := template.New("reference.md.tmpl").Funcs(template.FuncMap{
		"file":          ref.file,
		"table":         ref.table,
		"doc":           ref.doc,
		"httpKeys":      ref.httpKeys,
		"schema":        func() string { return SchemaURL },
		"reserved":      ref.reserved,
		"delicate":      func() string { return codes(reserved().Hosts) + ", " + codes(addressTexts()) },
		"apis":          ref.apis,
		"presets":       presetTable,
		"languages":     func() string { return codes(Languages()) },
		"finishes":      func() string { return codes(api.FinishReasons()) },
		"numbers":       func() string { return codes(named(ServerSoftware, isNumber)) },
		"distributions": func() string { return codes(named(ServerSoftware, isDistribution)) },

		"gatewayNumbers":       func() string { return codes(named(GatewaySoftware, isNumber)) },
		"gatewayDistributions": func() string { return codes(named(GatewaySoftware, isDistribution)) },
	}).ParseFiles("testdata/reference.md.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := page.Execute(&want, nil); err != nil {
		t.Fatal(err)
	}

	golden(t, "../docs/configuration.md", want.String())
}

// TestFullExample holds the examples to what the page says of them: together they have every
// key, in a comment those that exclude others or need another build.
func TestFullExample(t *testing.T) {
	written := map[string]bool{}
	for _, name := range []string{"full", "discovery", "gpus"} {
		text, err := os.ReadFile("../examples/" + name + ".yml")
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\b([a-z0-9_]+):( |\n)`).FindAllSubmatch(text, -1) {
			written[string(m[1])] = true
		}
	}
	for name, structure := range newReference(t).structures {
		for key := range structure.keys {
			tagged := key == "kubernetes_sd_configs" || key == "consul_sd_configs" // not in every build
			mapping := strings.HasPrefix(name, "Mapping") || name == "Config" && strings.HasSuffix(key, "_mappings")
			if !written[key] && !tagged && !mapping && name != "Discovery" {
				t.Errorf("%s: no key %s", name, key)
			}
		}
	}
}

var update = flag.Bool("update", false, "rewrite the files that the tests compare with")

// reference renders the parts of the page.
type reference struct {
	pkg        *doc.Package
	structures map[string]*structure // of each type
}

func newReference(t *testing.T) *reference {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	pkg, err := doc.NewFromFiles(fset, files, "config")
	if err != nil {
		t.Fatal(err)
	}
	r := &reference{pkg: pkg, structures: map[string]*structure{}}
	r.add(reflect.TypeFor[Config]())
	return r
}

// add adds the structs of this package in a type.
func (r *reference) add(t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		r.add(t.Elem())
	case reflect.Struct:
		if !isOwn(t) || r.structures[t.Name()] != nil {
			return
		}
		r.structures[t.Name()] = structureOf(t)
		for i := range t.NumField() {
			r.add(t.Field(i).Type)
		}
	}
}

func (r *reference) file(name string) (string, error) {
	text, err := os.ReadFile(filepath.Join("../examples", name))
	return string(text), err
}

func (r *reference) typ(name string) (*doc.Type, error) {
	for _, t := range r.pkg.Types {
		if t.Name == name {
			return t, nil
		}
	}
	return nil, fmt.Errorf("no type %s", name)
}

// doc is the comment of a type, which is Markdown too, without its first word.
func (r *reference) doc(name string) (string, error) {
	t, err := r.typ(name)
	if err != nil {
		return "", err
	}
	return sentence(t.Doc, name), nil
}

// comments maps the fields of a type to their comments.
func (r *reference) comments(name string) (map[string]string, error) {
	t, err := r.typ(name)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, f := range t.Decl.Specs[0].(*ast.TypeSpec).Type.(*ast.StructType).Fields.List {
		for _, name := range f.Names {
			out[name.Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
		}
	}
	return out, nil
}

// table lists the options of a type; of a Mapping, those of some software.
func (r *reference) table(name string, of ...Software) (string, error) {
	comments, err := r.comments(name)
	if err != nil {
		return "", err
	}
	structure := r.structures[name]
	if structure == nil {
		return "", fmt.Errorf("no type %s in the configuration", name)
	}
	v := structure.defaults
	var b strings.Builder
	b.WriteString("| key | type | default | meaning |\n| --- | --- | --- | --- |\n")
	for _, f := range reflect.VisibleFields(v.Type()) {
		key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if key == "-" || key == "" {
			continue
		}
		meaning, def, written := strings.Cut(comments[f.Name], " Default: ")
		if meaning == "" {
			return "", fmt.Errorf("no comment on %s.%s", name, f.Name)
		}
		o := structure.option(key)
		if o.of != "" && !slices.Contains(of, o.of) {
			continue
		}
		switch before, after, required := strings.Cut(meaning, " Required"); {
		case required:
			meaning, def = before, "required"+after
		case o.required != "":
			def = "required"
		case !written:
			if def, err = defaultOf(v.FieldByIndex(f.Index)); err != nil {
				return "", err
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s%s |\n", key, o.bounded(typeName(key, f.Type)), strings.TrimSuffix(def, "."), sentence(meaning, f.Name), o.conditions())
	}
	return b.String(), nil
}

// option returns what the tags of a field say; the zero option is nothing.
func (s *structure) option(key string) option {
	for _, o := range s.options {
		if o.key == key {
			return o
		}
	}
	return option{}
}

// bounded adds to the name of a type what the tags say of its values.
func (o option) bounded(name string) string {
	oneOf := o.oneOf
	if o.form == "precision" {
		oneOf = Precisions()
	}
	switch {
	case o.interval != nil:
		return name + ", " + regexp.MustCompile(`(\d)((?:\d{3})+)\b`).ReplaceAllStringFunc(o.interval.String(), thousands)
	case oneOf != nil:
		return strings.ReplaceAll(codes(oneOf), ", `"+oneOf[len(oneOf)-1]+"`", " or `"+oneOf[len(oneOf)-1]+"`")
	case o.maxText > 0 && strings.HasSuffix(name, "text"):
		return fmt.Sprintf("%s, at most %d bytes", name, o.maxText)
	}
	return name
}

// thousands writes a number with commas.
func thousands(digits string) string {
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// conditions returns sentences on what an option requires and excludes.
func (o option) conditions() string {
	var all, none []string
	for _, any := range o.requires {
		var names []string
		for _, t := range any {
			names = append(names, "`"+t.String()+"`")
		}
		all = append(all, enumerate(names, "or"))
	}
	for _, t := range o.excludes {
		none = append(none, "`"+t.String()+"`")
	}
	text := ""
	if all != nil {
		text += " Requires " + enumerate(all, "and") + "."
	}
	if none != nil {
		text += " Excludes " + enumerate(none, "and") + "."
	}
	return text
}

// defaultOf shows a resolved value.
func defaultOf(v reflect.Value) (string, error) {
	if v.IsZero() && v.Kind() != reflect.Bool {
		return "none", nil
	}
	if _, ok := v.Interface().(Lengths); !ok && v.Kind() == reflect.Struct {
		return "see below", nil
	}
	var n yaml.Node
	if err := n.Encode(v.Interface()); err != nil {
		return "", err
	}
	n.Style = yaml.FlowStyle
	text, err := yaml.Marshal(&n)
	return "`" + strings.TrimSpace(string(text)) + "`", err
}

// sentence turns "Interval is the time" into "The time".
func sentence(comment, name string) string {
	s := strings.TrimPrefix(comment, name+" ")
	s = strings.TrimPrefix(strings.TrimPrefix(s, "is "), "are ")
	return strings.ToUpper(s[:1]) + s[1:]
}

// typeName is the name of a type for the reader of the page.
func typeName(key string, t reflect.Type) string {
	switch t {
	case reflect.TypeFor[model.Duration]():
		return "duration"
	case reflect.TypeFor[Lengths]():
		return "lengths"
	case reflect.TypeFor[Bytes]():
		return "size"
	case reflect.TypeFor[promconfig.Secret]():
		return "secret"
	case reflect.TypeFor[URL](), reflect.TypeFor[PageURL](), reflect.TypeFor[promconfig.URL]():
		return "URL"
	case reflect.TypeFor[Sources]():
		return "list of mapping"
	case reflect.TypeFor[promconfig.TLSVersion]():
		return "`TLS10` to `TLS13`"
	}
	switch t.Kind() {
	case reflect.Int:
		return "integer"
	case reflect.Float64:
		return "number"
	case reflect.Bool:
		return "boolean"
	case reflect.Slice:
		return "list of " + typeName(key, t.Elem())
	case reflect.Map:
		if t.Elem().Kind() == reflect.Interface {
			return "mapping"
		}
		switch t.Key() {
		case reflect.TypeFor[Quantity]():
			return typeName(key, t.Elem()) + " by quantity"
		case reflect.TypeFor[Setting]():
			return typeName(key, t.Elem()) + " by setting"
		}
		return typeName(key, t.Elem()) + " by name"
	case reflect.Pointer:
		return typeName(key, t.Elem())
	case reflect.Struct:
		return "mapping"
	case reflect.Interface:
		return "anything"
	case reflect.String:
		if isFileKey(key) {
			return "file name"
		}
		return "text"
	}
	panic("no name for, and no decoding of, " + t.String())
}

// httpKeys lists the keys of Prometheus' HTTP client that have a value.
func (r *reference) httpKeys() string {
	var b strings.Builder
	b.WriteString("| key | type |\n| --- | --- |\n")
	listKeys(&b, reflect.TypeFor[promconfig.HTTPClientConfig](), "")
	return b.String()
}

func listKeys(b *strings.Builder, t reflect.Type, prefix string) {
	keys := keysOf(t)
	for _, f := range reflect.VisibleFields(t) {
		key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if keys[key] == nil {
			continue
		}
		ft := f.Type
		if ft.Kind() == reflect.Pointer {
			ft = ft.Elem()
		}
		switch {
		case ft == reflect.TypeFor[promconfig.Headers]():
			listKeys(b, reflect.TypeFor[promconfig.Header](), prefix+key+".NAME.")
		case ft.Kind() == reflect.Struct && ft != reflect.TypeFor[promconfig.URL]():
			listKeys(b, ft, prefix+key+".")
		default:
			fmt.Fprintf(b, "| `%s%s` | %s |\n", prefix, key, typeName(key, ft))
		}
	}
}

// apis lists the wire protocols.
func (r *reference) apis() string { return codes(api.Names()) }

// reserved lists the label names that are refused.
func (r *reference) reserved() string { return codes(reserved().Labels) }

// addressTexts lists the addresses that only a list of hosts allows.
func addressTexts() []string {
	var all []string
	for _, n := range reserved().Addresses {
		text := n.String()
		if n.IsSingleIP() {
			text = n.Addr().String()
		}
		all = append(all, text)
	}
	return all
}

// codes lists words as code.
func codes[T ~string](words []T) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString("`" + string(w) + "`")
	}
	return b.String()
}

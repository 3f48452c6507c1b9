package config

import (
	"bytes"
	"errors"
	"io"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/relabel"
	"gopkg.in/yaml.v3"
)

// Limits on what a file may expand to: an alias can repeat a large part of it, or itself, in a few bytes.
const (
	maxValues = 1_000_000
	maxDepth  = 64
)

// decoder fills Go values from YAML nodes. Unlike yaml's own it reports every mistake, with its path and in our words.
type decoder struct {
	*report
	dir    string // for file names that are relative
	secret bool   // messages must not repeat values
	values int    // visited so far
	depth  int
}

// enter counts the parts of n against the limits; each true needs its leave.
func (d *decoder) enter(n *yaml.Node, p path) bool {
	d.values += 1 + len(n.Content)
	if d.values > maxValues {
		d.errorf("", "more than %d values, aliases included", maxValues)
		return false
	}
	if d.depth == maxDepth {
		d.errorf(p, "nested more than %d levels deep", maxDepth)
		return false
	}
	d.depth++
	return true
}

func (d *decoder) leave() { d.depth-- }

// value decodes n into v, which is addressable. A null leaves v as it is.
func (d *decoder) value(n *yaml.Node, p path, v reflect.Value) {
	n = target(n)
	if isNull(n) && v.Type() == reflect.TypeFor[*relabel.Config]() {
		d.is(yaml.MappingNode, n, p) // Prometheus' zero rule has no action: applying it panics
		return
	}
	if isNull(n) || !d.enter(n, p) {
		return
	}
	defer d.leave()
	switch out := v.Addr().Interface().(type) {
	case *model.Duration:
		d.duration(n, p, out)
	case *Bytes:
		d.bytes(n, p, out)
	case *Lengths:
		d.lengths(n, p, out)
	case *URL:
		out.URL = d.url(n, p, parseURL)
	case *PageURL:
		out.URL = d.url(n, p, parsePageURL)
	case *HTTPClient:
		d.http(n, p, out)
	case *SigV4, *CloudIdentity, *Tracing, *Metrics:
		d.inSecret(func() { d.structure(n, p, v) })
	case *promconfig.Secret:
		d.secretText(n, p, out)
	case *promconfig.URL:
		d.proxyURL(n, p, out)
	case *promconfig.TLSVersion:
		d.tlsVersion(n, p, out)
	case *promconfig.Headers:
		d.value(n, p, reflect.ValueOf(&out.Headers).Elem())
	case *Sources:
		d.sources(n, p, out)
	case *relabel.Config:
		d.relabel(n, p, out)
	default:
		d.kind(n, p, v)
	}
}

func (d *decoder) kind(n *yaml.Node, p path, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(newItem(v.Type()))
		}
		d.value(n, p, v.Elem())
	case reflect.Struct:
		d.structure(n, p, v)
	case reflect.Map:
		d.mapping(n, p, v)
	case reflect.Slice:
		d.list(n, p, v)
	case reflect.String:
		if s, ok := d.text(n, p); ok {
			v.SetString(s)
		}
	case reflect.Int:
		d.plainValue(n, p, v.Addr().Interface(), "a whole number", "!!int")
	case reflect.Float64:
		v.SetFloat(d.decimal(n, p))
	case reflect.Bool:
		d.plainValue(n, p, v.Addr().Interface(), "true or false", "!!bool")
	case reflect.Interface:
		d.free(n, p, v)
	default:
		panic("config: no decoding for " + v.Type().String())
	}
}

func (d *decoder) structure(n *yaml.Node, p path, v reflect.Value) {
	if !d.is(yaml.MappingNode, n, p) {
		return
	}
	keys := structureOf(v.Type()).keys
	for _, e := range d.pairs(n, p) {
		at := p.key(e.key)
		index, ok := keys[e.key]
		if !ok {
			d.unknownKey(e, p, keys)
			continue
		}
		d.entry(e, at, v.FieldByIndex(index))
		if isFileKey(e.key) && !d.failed[at] {
			d.files(e.key, at, v.FieldByIndex(index))
		}
	}
}

func (d *decoder) entry(e pair, p path, v reflect.Value) {
	if !isNull(target(e.value)) {
		d.lines[p] = e.line
	}
	d.value(e.value, p, v)
}

// keysOf maps the keys of a struct, those of inlined ones included, to its fields.
func keysOf(t reflect.Type) map[string][]int {
	keys := map[string][]int{}
	for _, f := range reflect.VisibleFields(t) {
		key, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case !f.IsExported():
		case option == "inline" && !f.Anonymous:
			for inner, index := range keysOf(f.Type) {
				keys[inner] = slices.Concat(f.Index, index)
			}
		case key != "" && key != "-" && !isRefused(key):
			keys[key] = f.Index
		}
	}
	return keys
}

func (d *decoder) mapping(n *yaml.Node, p path, v reflect.Value) {
	if !d.is(yaml.MappingNode, n, p) {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for i, e := range d.pairs(n, p) {
		item := newItem(v.Type().Elem())
		if m, ok := item.Interface().(*Module); ok {
			m.usePreset(e.key)
		}
		d.hideName(p, i, e, item.Kind())
		switch none := isNull(target(e.value)); {
		case none && d.secret && item.Kind() != reflect.Interface:
			d.errorAt(e.line, p.key(e.key), "missing; want a value")
			continue
		case none && item.Kind() == reflect.Slice:
			continue // counts as left out: a built-in mapping supplies it
		}
		d.entry(e, p.key(e.key), item)
		v.SetMapIndex(reflect.ValueOf(e.key).Convert(v.Type().Key()), item)
	}
}

func (d *decoder) list(n *yaml.Node, p path, v reflect.Value) {
	if !d.is(yaml.SequenceNode, n, p) {
		return
	}
	out := reflect.MakeSlice(v.Type(), 0, len(n.Content))
	for i, c := range n.Content {
		item := newItem(v.Type().Elem())
		d.lines[p.index(i)] = c.Line
		d.value(c, p.index(i), item)
		out = reflect.Append(out, item)
	}
	v.Set(out)
}

// newItem is an item of a list or mapping with its defaults, never a nil pointer.
func newItem(t reflect.Type) reflect.Value {
	item := reflect.New(t).Elem()
	own := item
	if t.Kind() == reflect.Pointer {
		item.Set(reflect.New(t.Elem()))
		own = item.Elem()
	}
	if isOwn(own.Type()) {
		own.Set(structureOf(own.Type()).defaults)
	}
	return item
}

// newOf returns a value with its defaults.
func newOf[T any]() *T { return newItem(reflect.TypeFor[*T]()).Interface().(*T) }

// is reports whether n is a mapping or list, which is wanted; it is a mistake at p where it is not.
func (d *decoder) is(kind yaml.Kind, n *yaml.Node, p path) bool {
	if n.Kind != kind {
		d.errorf(p, "expected %s, got %s", got(&yaml.Node{Kind: kind}), got(n))
	}
	return n.Kind == kind
}

// got describes a value of the wrong kind without repeating it: it may be a URL with a password.
func got(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case isNull(n):
		return "nothing"
	default:
		return "a plain value"
	}
}

// gotValue is got for values that are shown, since they are no secrets.
func (d *decoder) gotValue(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode || d.secret {
		return got(n)
	}
	return quote(n.Value)
}

// text returns a plain value as it is written, whatever its type: a label value 1.10 stays "1.10".
func (d *decoder) text(n *yaml.Node, p path) (string, bool) {
	if n.Kind != yaml.ScalarNode {
		d.errorf(p, "expected a string, got %s", got(n))
		return "", false
	}
	switch n.ShortTag() {
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp", "!!merge":
		return n.Value, true
	}
	d.errorf(p, "expected a string without a YAML tag")
	return "", false
}

// duration decodes a time span. None of the file's may be 0.
func (d *decoder) duration(n *yaml.Node, p path, out *model.Duration) {
	v, err := model.ParseDuration(n.Value) // "" of what is no plain value
	switch {
	case err != nil:
		d.errorf(p, "expected a duration like 30s, got %s", d.gotValue(n))
	case v <= 0:
		d.errorf(p, "want a duration above 0")
	default:
		*out = v
	}
}

// plainValue decodes a value with one of the tags into what out points to.
func (d *decoder) plainValue(n *yaml.Node, p path, out any, want string, tags ...string) bool {
	if n.Kind != yaml.ScalarNode || !slices.Contains(tags, n.ShortTag()) || n.Decode(out) != nil {
		d.errorf(p, "expected %s, got %s", want, d.gotValue(n))
		return false
	}
	return true
}

func (d *decoder) decimal(n *yaml.Node, p path) (f float64) {
	if d.plainValue(n, p, &f, "a finite number", "!!int", "!!float") && (math.IsNaN(f) || math.IsInf(f, 0)) {
		d.errorf(p, "expected a finite number, got %s", d.gotValue(n))
		return 0
	}
	return f
}

// free decodes what has no fixed type into what JSON can hold.
func (d *decoder) free(n *yaml.Node, p path, v reflect.Value) {
	var out reflect.Value
	switch n.Kind {
	case yaml.MappingNode:
		out = reflect.New(reflect.TypeFor[map[string]any]()).Elem()
		d.mapping(n, p, out)
	case yaml.SequenceNode:
		out = reflect.New(reflect.TypeFor[[]any]()).Elem()
		d.list(n, p, out)
	default:
		var x any
		err := n.Decode(&x)
		x, ok := jsonValue(x)
		if err != nil || !ok {
			d.errorf(p, "expected a string, a finite number or a boolean; put a date in quotes")
			return
		}
		out = reflect.ValueOf(x)
	}
	v.Set(out)
}

// jsonValue returns a plain value as JSON has it, with one kind of number: YAML prints 1.0 as 1,
// and large ones with an exponent. It reports whether JSON has such a value at all.
func jsonValue(x any) (any, bool) {
	switch x := x.(type) {
	case string, int, int64, uint64, bool:
		return x, true
	case float64:
		if x == math.Trunc(x) && math.Abs(x) <= math.MaxInt32 {
			return int(x), true
		}
		return x, !math.IsNaN(x) && !math.IsInf(x, 0)
	}
	return nil, false
}

// limit cuts the default of a duration at p to that at another path, which a written one may not exceed.
func (r *report) limit(p path, v *model.Duration, other path, most model.Duration) {
	switch {
	case !r.written(p):
		*v = min(*v, most)
	case *v > most && !r.failed[other]:
		r.errorf(p, "%s exceeds %s of %s", *v, other, most)
	}
}

// orDefault sets *v to the default, unless the file sets p.
func orDefault[T any](r *report, p path, v *T, def T) {
	if !r.written(p) {
		*v = def
	}
}

// parseYAML returns the only document in data; nil with a mistake. key is one that an empty document lacks.
func parseYAML(data []byte, key string, r *report) *yaml.Node {
	if len(data) > maxFileBytes {
		r.errorf("", "the file is larger than %d MiB", maxFileBytes>>20)
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF) || err == nil && isNull(doc.Content[0]):
		r.errorf("", "the file is empty; want at least %s", key)
		return nil
	case err != nil:
		reportSyntax(r, data, err)
		return nil
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		r.errorAt(second.Content[0].Line, "", "a second YAML document; want one")
		return nil
	case !errors.Is(err, io.EOF):
		reportSyntax(r, data, err)
		return nil
	}
	r.lines[""] = doc.Content[0].Line
	return doc.Content[0]
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// reportSyntax reports an error of the YAML parser in the words of this package.
func reportSyntax(r *report, data []byte, err error) {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1 // the parser leaves the first line out
	if m := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(msg); m != nil {
		line, _ = strconv.Atoi(m[1])
		msg = msg[len(m[0]):]
		expected := []string{"key", "'-' indicator", "',' or ']'", "',' or '}'", "node content", "<document start>"} // by the parser, not its scanner
		if slices.Contains(expected, strings.TrimPrefix(msg, "did not find expected ")) {
			line++ // these count from 0
		}
	}
	if strings.HasPrefix(msg, "unknown anchor") {
		// The parser repeats the name, which may be a password that begins with an asterisk.
		line = 0
		msg = "an alias (*name) without its anchor (&name); put a value that begins with * in quotes"
	}
	if strings.Contains(msg, "tab character") && !isIndentedByTab(data, line) {
		line++
	}
	if isIndentedByTab(data, line) {
		msg = "a tab at the beginning of the line; want spaces"
	}
	r.errorAt(line, "", "not valid YAML: %s", msg)
}

// isIndentedByTab reports whether a line, counted from 1, has a tab before its text.
func isIndentedByTab(data []byte, line int) bool {
	lines := bytes.SplitN(data, []byte("\n"), line+1)
	if line < 1 || line > len(lines) {
		return false
	}
	own := lines[line-1]
	return bytes.IndexByte(own[:len(own)-len(bytes.TrimLeft(own, " \t"))], '\t') >= 0
}

// pair is one entry of a mapping.
type pair struct {
	key   string
	line  int
	value *yaml.Node
}

// pairs lists the entries of a mapping, those merged with << last and where no other has the key.
func (d *decoder) pairs(n *yaml.Node, p path) []pair {
	if !d.enter(n, p) {
		return nil
	}
	defer d.leave()
	var out []pair
	var merges []*yaml.Node
	first := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := target(n.Content[i]), n.Content[i+1]
		line, dup := first[k.Value]
		switch {
		case k.Kind != yaml.ScalarNode:
			d.errorAt(n.Content[i].Line, p, "expected plain keys, got %s as a key", got(k))
		case k.Value == "<<": // quoted too: the encoder writes it without
			merges = append(merges, v)
		case dup:
			if !isPlain(k.Value) || d.secret && !d.isKeyLike(k.Value) {
				d.hidden[p.key(k.Value)] = p
			}
			d.errorAt(n.Content[i].Line, p.key(k.Value), "duplicate key, the first is on line %d", line)
		default:
			first[k.Value] = n.Content[i].Line
			out = append(out, pair{k.Value, n.Content[i].Line, v})
		}
	}
	for _, m := range merges {
		for _, e := range d.merged(m, p) {
			if _, ok := first[e.key]; !ok {
				first[e.key] = e.line
				out = append(out, e)
			}
		}
	}
	return out
}

// merged lists the entries that << adds: those of a mapping or of each mapping in a list.
func (d *decoder) merged(n *yaml.Node, p path) (all []pair) {
	items, want := []*yaml.Node{n}, "a mapping"
	if list := target(n); list.Kind == yaml.SequenceNode {
		items, want = list.Content, "mappings"
	}
	for _, item := range items {
		if item = target(item); item.Kind != yaml.MappingNode {
			d.errorAt(n.Line, p.key("<<"), "expected %s to merge, got %s", want, got(item))
			continue
		}
		all = append(all, d.pairs(item, p)...)
	}
	return all
}

// target follows an alias.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

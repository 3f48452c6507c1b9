package config

import (
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"golang.org/x/net/http/httpguts"
	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/internal/stats"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// An option is a field of a struct of the file. Its tags, beside the key under yaml, are:
//
//	default:"8"              its value where the file gives none, as the file writes it
//	range:"[1,2048]"         the interval of a number, of the numbers in a list, or of
//	                         lengths; (0,1] is above 0 and at most 1, [1s,) at least 1s
//	oneof:"cold,warm"        the values of a text, or of the texts in a list
//	text:"256"               a text, the texts in a list or the keys of a mapping: not
//	                         empty, of at most so many bytes, no control characters
//	form:"series"            a text, the texts in a list or the keys of a mapping, in one
//	                         of forms
//	items:"some,unique"      a list that has items, and none of them twice; or rising: each above the one before
//	required:"a path"        it must be written; the tag says what is missing
//	of:"gateway"             the software whose mappings alone may have it
//	requires:"ttft,tpot"     other options of the mapping that must be set with it, or one
//	                         of them (prompt|questions), or the value of one (process: poisson)
//	excludes:"weights"       other options of the mapping that may not be set with it, or
//	                         not with that value (connection: reuse)
//
// What no tag can say is in the method check of the struct.
type option struct {
	key      string
	index    []int
	interval *interval
	oneOf    []string
	maxText  int
	form     string
	is       form // that form
	some     bool
	unique   bool
	rising   bool
	required string
	requires [][]term
	excludes []term
	of       Software // whose mappings may have it; "" is any
	own      bool     // its value is of this package and has options, or items with options, itself
	inline   bool
}

// term is an option that is set, or that has a value.
type term struct {
	key, value string
	index      []int
}

func (t term) holds(v reflect.Value) bool {
	f := v.FieldByIndex(t.index)
	if t.value == "" {
		return !f.IsZero()
	}
	return fmt.Sprint(f) == t.value
}

func (t term) String() string {
	if t.value == "" {
		return t.key
	}
	return t.key + ": " + t.value
}

// structure is what the decoder knows of a struct.
type structure struct {
	keys     map[string][]int // the fields by their keys, those of inlined structs included
	options  []option
	defaults reflect.Value
}

// checker is a struct whose tags do not say all.
type checker interface{ check(r *report, p path) }

// completer is a struct with defaults that depend on other options, which complete sets before any check.
type completer interface{ complete(r *report, p path) }

// structures are what the tags of structs say by reflect.Type, each a *structure: constants that are found out once.
var structures sync.Map

// structureOf returns what the tags of a struct say, which is not to be changed.
func structureOf(t reflect.Type) *structure {
	s, ok := structures.Load(t)
	if !ok {
		s, _ = structures.LoadOrStore(t, newStructure(t))
	}
	return s.(*structure)
}

func newStructure(t reflect.Type) *structure {
	s := &structure{keys: keysOf(t), defaults: reflect.New(t).Elem()}
	if !isOwn(t) {
		return s
	}
	for i := range t.NumField() {
		f := t.Field(i)
		key, yamlOption, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		inline := yamlOption == "inline"
		if !f.IsExported() || key == "-" || key == "" && !inline {
			continue
		}
		setDefault(f, s.defaults.Field(i))
		o := newOption(t, f, key)
		o.inline = inline
		s.options = append(s.options, o)
	}
	return s
}

// isOwn reports whether a type is a struct of this package that is decoded key by key.
func isOwn(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t.PkgPath() == reflect.TypeFor[Config]().PkgPath() && t != reflect.TypeFor[HTTPClient]()
}

// setDefault sets the default of a field: that of its tag, or those of its own fields.
func setDefault(f reflect.StructField, v reflect.Value) {
	if isOwn(f.Type) {
		v.Set(structureOf(f.Type).defaults)
	}
	text, ok := f.Tag.Lookup("default")
	if !ok {
		return
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		panic("config: default of " + f.Name + ": " + err.Error())
	}
	own := &decoder{report: newReport(f.Name)}
	own.value(doc.Content[0], "default", v)
	if err := own.err(); err != nil {
		panic("config: " + err.Error())
	}
}

func newOption(t reflect.Type, f reflect.StructField, key string) option {
	o := option{key: key, index: f.Index, form: f.Tag.Get("form"), is: formOf(f.Tag.Get("form")), required: f.Tag.Get("required"), of: Software(f.Tag.Get("of"))}
	item := f.Type
	for item.Kind() == reflect.Pointer || item.Kind() == reflect.Slice || item.Kind() == reflect.Map {
		item = item.Elem()
	}
	o.own = isOwn(item)
	if text := f.Tag.Get("range"); text != "" {
		o.interval = newInterval(text, item)
	}
	if text := f.Tag.Get("oneof"); text != "" {
		o.oneOf = strings.Split(text, ",")
	}
	o.maxText, _ = strconv.Atoi(f.Tag.Get("text")) // 0 without
	items := strings.Split(f.Tag.Get("items"), ",")
	o.some, o.unique, o.rising = slices.Contains(items, "some"), slices.Contains(items, "unique"), slices.Contains(items, "rising")
	if text := f.Tag.Get("requires"); text != "" {
		o.requires = stats.Map(strings.Split(text, ","), func(any string) []term { return newTerms(t, any, "|") })
	}
	if text := f.Tag.Get("excludes"); text != "" {
		o.excludes = newTerms(t, text, ",")
	}
	return o
}

func newTerms(t reflect.Type, text, separator string) []term {
	keys := keysOf(t)
	var all []term
	for one := range strings.SplitSeq(text, separator) {
		key, value, _ := strings.Cut(one, ": ")
		if keys[key] == nil {
			panic("config: " + t.Name() + " has no option " + key)
		}
		all = append(all, term{key, value, keys[key]})
	}
	return all
}

// interval is where a number must be, from a bound on; to "" is without end.
type interval struct {
	from, to          string
	low, high         float64
	openLow, openHigh bool
}

func newInterval(text string, t reflect.Type) *interval {
	from, to, ok := strings.Cut(text[1:len(text)-1], ",")
	i := &interval{from: from, to: to, openLow: text[0] == '(', openHigh: text[len(text)-1] == ')'}
	if !ok {
		panic("config: not an interval: " + text)
	}
	i.low, i.high = boundOf(from, t), boundOf(to, t)
	return i
}

// boundOf returns a bound of values of a type as a number.
func boundOf(s string, t reflect.Type) float64 {
	if t == reflect.TypeFor[model.Duration]() && s != "" {
		v, err := model.ParseDuration(s)
		if err != nil {
			panic("config: " + err.Error())
		}
		return float64(v)
	}
	v, _ := strconv.ParseFloat(s, 64)
	return v
}

func (i *interval) contains(v float64) bool {
	return (v > i.low || v == i.low && !i.openLow) && (i.to == "" || v < i.high || v == i.high && !i.openHigh)
}

// String returns the interval in words that follow "must be".
func (i *interval) String() string {
	low, high := "at least ", "at most "
	if i.openLow {
		low = "above "
	}
	if i.openHigh {
		high = "below "
	}
	switch {
	case i.to == "":
		return low + i.from
	case i.openLow || i.openHigh:
		return low + i.from + " and " + high + i.to
	}
	return "between " + i.from + " and " + i.to
}

// finish checks what was decoded, the inner values first, by tags and by the methods check.
func (d *decoder) finish(p path, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			d.finish(p, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			d.finish(p.index(i), v.Index(i))
		}
	case reflect.Map:
		for _, key := range sortedKeys(v) {
			d.finish(p.key(key.String()), v.MapIndex(key))
		}
	case reflect.Struct:
		if d.failed[p] {
			return // not of this form at all
		}
		if c, ok := v.Addr().Interface().(completer); ok {
			c.complete(d.report, p)
		}
		for _, o := range structureOf(v.Type()).options {
			f := v.FieldByIndex(o.index)
			if o.inline {
				d.finish(p, f)
				continue
			}
			d.checkOption(&o, p, v, f)
			if o.own && (!f.IsZero() || d.written(p.key(o.key))) {
				d.finish(p.key(o.key), f)
			}
		}
		if c, ok := v.Addr().Interface().(checker); ok {
			c.check(d.report, p)
		}
	}
}

// checkOption checks the value f of an option of the struct v, whose path is p.
func (d *decoder) checkOption(o *option, p path, v, f reflect.Value) {
	if o.required != "" && f.IsZero() {
		if at := p.key(o.key); !d.written(at) {
			d.errorf(at, "missing; want %s", o.required)
		}
	}
	d.checkValues(o, p, f)
	if f.IsZero() {
		return
	}
	for _, any := range o.requires {
		if slices.ContainsFunc(any, func(t term) bool { return t.holds(v) || d.failed[p.key(t.key)] }) {
			continue
		}
		names := enumerate(stats.Map(any, term.String), "or")
		switch at := p.key(o.key); {
		case !d.written(at):
			f.SetZero() // a default that does not apply
		case any[0].value != "":
			d.errorf(at, "only valid with %s", names)
		default:
			d.errorf(at, "requires %s", names)
		}
	}
	for _, t := range o.excludes {
		switch at := p.key(o.key); {
		case !t.holds(v):
		case f.Comparable() && f.Equal(structureOf(v.Type()).defaults.FieldByIndex(o.index)) && !d.written(at):
			f.SetZero() // a default that does not apply
		default:
			d.errorf(at, "%s and %s are mutually exclusive", o.key, t)
		}
	}
}

// checkValues checks a plain value, the items of a list, or the keys of a mapping.
func (d *decoder) checkValues(o *option, p path, f reflect.Value) {
	switch f.Kind() {
	case reflect.Slice:
		at := p.key(o.key)
		if o.some && f.Len() == 0 && d.written(at) {
			d.errorf(at, "must not be empty; leave the key out for the default")
		}
		seen := map[string]bool{}
		for i := range f.Len() {
			item := f.Index(i)
			d.mistake(at.index(i), o.problem(item))
			switch {
			case d.failed[at.index(i)]:
			case o.rising && i > 0 && numberOf(item) <= numberOf(f.Index(i-1)):
				d.errorf(at.index(i), "expected rising numbers, got %v after %v", item, f.Index(i-1))
			case o.unique && seen[item.String()]:
				d.errorf(at.index(i), "%s is listed twice", quote(item.String()))
			case o.unique:
				seen[item.String()] = true
			}
		}
	case reflect.Map:
		for _, key := range sortedKeys(f) {
			at := p.key(o.key).key(key.String())
			d.mistake(at, o.problem(key))
			if secret, ok := f.MapIndex(key).Interface().(promconfig.Secret); ok {
				if secret == "" {
					d.errorf(at, "missing; want a value")
				}
				d.checkHeader(at, string(secret))
			}
		}
	case reflect.Struct:
		if l, ok := f.Interface().(Lengths); ok {
			l.validate(d.report, p.key(o.key), o.interval)
		}
	default:
		if at := p.key(o.key); !f.IsZero() || d.written(at) {
			d.mistake(at, o.problem(f))
		}
	}
}

// problem returns what is wrong with a value; nil if nothing is.
func (o *option) problem(v reflect.Value) error {
	if o.interval != nil {
		if !o.interval.contains(numberOf(v)) {
			return fmt.Errorf("must be %s, got %v", o.interval, v)
		}
		return nil
	}
	if v.Kind() != reflect.String {
		return nil
	}
	s := v.String()
	if o.oneOf != nil && !slices.Contains(o.oneOf, s) {
		return fmt.Errorf("must be %s, got %s", enumerate(o.oneOf, "or"), quote(s))
	}
	if o.maxText > 0 {
		if err := labelProblem(s, o.maxText); err != nil {
			return err
		}
	}
	return o.is.problem(s)
}

func numberOf(v reflect.Value) float64 {
	if v.CanInt() {
		return float64(v.Int())
	}
	return v.Float()
}

// labelProblem returns what is wrong with a text that becomes a label value or goes into a request.
func labelProblem(s string, limit int) error {
	switch {
	case s == "":
		return errors.New("must not be empty")
	case len(s) > limit:
		return fmt.Errorf("must have at most %d bytes, got %d", limit, len(s))
	case !utf8.ValidString(s):
		return errors.New("must be valid UTF-8")
	case strings.ContainsFunc(s, unicode.IsControl):
		return fmt.Errorf("must have no control characters, got %s", quote(s))
	}
	return nil
}

// form is a form that a text may have.
type form struct {
	is   func(string) bool
	want string // follows "must be"
	// secret says that a text is not repeated, as it is among secrets.
	secret bool
}

// forms are the forms by name; "" is any text.
var forms = sync.OnceValue(func() map[string]form {
	among := func(all []string) form {
		return form{is: func(s string) bool { return slices.Contains(all, s) }, want: enumerate(all, "or")}
	}
	return map[string]form{
		"":               {is: func(string) bool { return true }},
		"protocol":       among(api.Names()),
		"precision":      among(Precisions()),
		"finish reason":  among(api.FinishReasons()),
		"finish":         among(MappedFinishes()),
		"series":         {is: model.LegacyValidation.IsValidMetricName, want: "of the form [a-zA-Z_:][a-zA-Z0-9_:]*"},
		"label":          {is: model.LegacyValidation.IsValidLabelName, want: "of the form [a-zA-Z_][a-zA-Z0-9_]*"},
		"language":       {is: among(Languages()).is, want: "a known language as an ISO 639-1 code like en"},
		"currency":       {is: currencyCode.MatchString, want: "an ISO 4217 code of three capital letters"},
		"hours":          {is: isHours, want: "a part of the day in UTC such as 22:00-06:00"},
		"day":            {is: isDay, want: "a day such as 2026-01-31"},
		"GPU":            {is: gpuUUID.MatchString, want: "a UUID as inference_gpu_info shows it, such as GPU-..."},
		"host":           {is: isHost, want: "a host like vllm.internal, *.internal or 10.0.0.7:8000"},
		"body key":       {is: isBodyKey, want: "the name of a key, like stream_options.include_usage"},
		"page":           {is: isPage, want: "a path like /metrics, or a port and a path like :8002/metrics", secret: true},
		"path":           {is: isPath, want: "a path like /custom/chat, without query and fragment", secret: true},
		"header":         {is: httpguts.ValidHeaderFieldName, want: "the name of a header", secret: true},
		"request header": {is: isFreeHeader, want: "the name of a header that HTTP does not reserve, such as X-Session-Id", secret: true},
		"region":         {is: isPlain, want: "a region like us-east-1", secret: true},
		"service":        {is: isPlain, want: "a service like bedrock", secret: true},
		"role":           {is: roleARN.MatchString, want: "the ARN of a role, like arn:aws:iam::123456789012:role/prober", secret: true},
	}
})

func formOf(name string) form {
	f, ok := forms()[name]
	if !ok {
		panic("config: no form " + name)
	}
	return f
}

// problem returns what is wrong with a text that must have the form; nil if nothing is.
func (f form) problem(s string) error {
	switch {
	case f.is(s):
		return nil
	case f.secret:
		return errors.New("must be " + f.want)
	}
	return fmt.Errorf("must be %s, got %s", f.want, quote(s))
}

func isBodyKey(s string) bool { return !slices.Contains(strings.Split(s, "."), "") }

func isFreeHeader(s string) bool {
	_, reserved := promconfig.ReservedHeaders[http.CanonicalHeaderKey(s)]
	return !reserved && httpguts.ValidHeaderFieldName(s)
}

// sortedKeys returns the keys of a mapping in their order.
func sortedKeys(m reflect.Value) []reflect.Value {
	keys := m.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	return keys
}

// Schema is the JSON schema of the configuration (2020-12), for editors.
//
//go:embed schema.json
var Schema string

// SchemaURL is where the schema of the newest release is.
const SchemaURL = "https://raw.githubusercontent.com/inference-exporter/inference_exporter/main/config/schema.json"

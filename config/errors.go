package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	promconfig "github.com/prometheus/common/config"
	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// Error is one mistake in a configuration.
type Error struct {
	// File is the name of the file as it was given.
	File string
	// Line counts from 1; 0 is unknown.
	Line int
	// Path names the value, such as endpoints[2].modules[0]; "" is the file.
	Path string
	// Msg says what is wrong. It never holds a secret.
	Msg string
}

// Error returns "file:line: path: message", without the parts that are unknown.
func (e *Error) Error() string {
	at := e.File
	if e.Line > 0 {
		at += ":" + strconv.Itoa(e.Line)
	}
	if e.Path != "" {
		at += ": " + e.Path
	}
	return at + ": " + e.Msg
}

type path string

func (p path) key(k string) path {
	switch {
	case !isPlain(k):
		return p + "[" + path(quote(k)) + "]"
	case p == "":
		return path(k)
	}
	return p + "." + path(k)
}

func (p path) index(i int) path { return p + "[" + path(strconv.Itoa(i)) + "]" }

// Key returns the path of the value under key k of the mapping at a path, as an Error names it.
func Key(at, k string) string { return string(path(at).key(k)) }

// isPlain reports whether k needs no quotes in a path; quotes keep paths unambiguous.
func isPlain(k string) bool {
	for _, c := range []byte(k) {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '_' && c != '-' {
			return false
		}
	}
	return k != ""
}

// maxQuoted bounds what a message repeats of the file, in bytes: more than any valid name has.
const maxQuoted = 160

// quote returns the start of a text of the file in quotes.
func quote(s string) string { return strconv.Quote(safetext.Cut(s, maxQuoted)) }

// report collects the mistakes of one file and knows the lines of its values.
type report struct {
	file   string
	lines  map[path]int // the line of each value that is written
	failed map[path]bool
	hidden map[path]path // what messages show instead of paths whose last key may be a secret
	errs   []*Error

	missing        map[*Error]bool   // those of errs that are a missing secret
	read           map[string]uint64 // Config.Files
	missingSecrets MissingSecrets    // takes the place of Global.MissingSecrets, unless it is ""
}

func newReport(file string) *report {
	return &report{file: file, lines: map[path]int{}, failed: map[path]bool{}, hidden: map[path]path{}, missing: map[*Error]bool{}}
}

// written reports whether the file gives p a value of the right type. What is written wrongly gets its
// default too, so that one mistake does not cause a second message elsewhere.
func (r *report) written(p path) bool {
	_, ok := r.lines[p]
	return ok && !r.failed[p]
}

func (r *report) failedUnder(p path) bool {
	for at := range r.failed {
		if at.isUnder(p) {
			return true
		}
	}
	return false
}

// errorf reports a mistake at p; only the first one of a value counts.
func (r *report) errorf(p path, format string, args ...any) {
	if !r.failed[p] {
		r.errorAt(r.line(p), p, format, args...)
	}
}

// mistake reports what is wrong with p, as errorf does; nil is nothing.
func (r *report) mistake(p path, err error) {
	if err != nil {
		r.errorf(p, "%v", err)
	}
}

// errorAt reports a mistake of p on another line than that of p itself.
func (r *report) errorAt(line int, p path, format string, args ...any) {
	r.failed[p] = true
	r.errs = append(r.errs, &Error{File: r.file, Line: line, Path: string(r.shown(p)), Msg: fmt.Sprintf(format, args...)})
}

// missingSecretf reports, as errorf does, that a secret is missing at p.
func (r *report) missingSecretf(p path, format string, args ...any) {
	before := len(r.errs)
	r.errorf(p, format, args...)
	for _, e := range r.errs[before:] {
		r.missing[e] = true
	}
}

// line returns the line of p, or of what contains it where p is not written.
func (r *report) line(p path) int {
	for {
		if line, ok := r.lines[p]; ok {
			return line
		}
		i := strings.LastIndexAny(string(p), ".[")
		if i < 0 {
			return r.lines[""]
		}
		p = p[:i]
	}
}

// err joins the mistakes in the order of the file; nil without any.
func (r *report) err() error {
	slices.SortStableFunc(r.errs, func(a, b *Error) int { return a.Line - b.Line })
	return errors.Join(stats.Map(r.errs, func(e *Error) error { return e })...)
}

// inSecret runs decode for a part of the file with secrets: anything misplaced there may be one, so that
// messages repeat no values, names of files or unknown keys.
func (d *decoder) inSecret(decode func()) {
	before := d.secret
	d.secret = true
	decode()
	d.secret = before
}

// maxKeyLike bounds an unknown key that is repeated, in bytes.
const maxKeyLike = 40

var (
	// keyLike is the form of a key. A secret in its place, as in {password:secret}, is rarely of that form.
	keyLike = regexp.MustCompile(`^[a-z][a-z_]*$`)
	// headerLike is the form of the name of a header, in words of letters.
	headerLike = regexp.MustCompile(`^[A-Za-z]+([-_][A-Za-z]+)*$`)
	// variableLike is the form of the name of an environment variable; its first word has no digit.
	variableLike = regexp.MustCompile(`^[A-Z]+(_[A-Z0-9]+)*$`)
)

// isKeyLike reports whether messages may repeat an unknown key: among secrets, only one of the HTTP client.
func (d *decoder) isKeyLike(key string) bool {
	if d.secret {
		return clientKeys(reflect.TypeFor[promconfig.HTTPClientConfig]())[key]
	}
	return len(key) <= maxKeyLike && keyLike.MatchString(key)
}

func clientKeys(t reflect.Type) map[string]bool {
	keys := map[string]bool{}
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[promconfig.URL]() {
		return keys
	}
	for _, f := range reflect.VisibleFields(t) {
		key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if key != "" && key != "-" {
			keys[key] = true
		}
		maps.Copy(keys, clientKeys(f.Type))
	}
	return keys
}

// hideName keeps the name of item i of a mapping out of messages where it is among secrets and may be one
// itself: it is not of letters, or has no value of the kind that the mapping wants.
func (d *decoder) hideName(p path, i int, e pair, want reflect.Kind) {
	kind := yaml.ScalarNode
	switch want {
	case reflect.Struct, reflect.Map:
		kind = yaml.MappingNode
	case reflect.Slice:
		kind = yaml.SequenceNode
	}
	value := target(e.value)
	right := want == reflect.Interface || value.Kind == kind && !isNull(value)
	if d.secret && !(right && len(e.key) <= maxKeyLike && headerLike.MatchString(e.key)) {
		d.hidden[p.key(e.key)] = p.index(i)
	}
}

func (d *decoder) unknownKey(e pair, p path, keys map[string][]int) {
	at, known := p.key(e.key), slices.Sorted(maps.Keys(keys))
	name, _, joined := strings.Cut(e.key, ":")
	switch {
	case joined && keys[name] != nil: // the rest is the value, or a part of it
		d.hidden[at] = p.key(name)
		d.errorAt(e.line, at, "want a space after the colon")
	case d.isKeyLike(e.key):
		d.errorAt(e.line, at, "unknown key %s%s", quote(e.key), Hint(e.key, "known here", known))
	default:
		d.hidden[at] = p
		d.errorAt(e.line, at, "unknown key%s", Hint(e.key, "known here", known))
	}
}

func (r *report) shown(p path) path {
	for end := len(p); end > 0; end-- {
		if end < len(p) && p[end] != '.' && p[end] != '[' {
			continue
		}
		if shown, ok := r.hidden[p[:end]]; ok {
			return r.shown(shown + p[end:])
		}
	}
	return p
}

// isUnder reports whether p is the path above, or inside it.
func (p path) isUnder(above path) bool {
	rest, ok := strings.CutPrefix(string(p), string(above))
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

const (
	maxWord      = 128 // bounds what is compared of a word, in bytes: longer than any name
	minContained = 3   // bytes of a name are taken for the name
)

// NearestNames returns the n of known that differ least from a word, the nearest first: those
// that contain it or that it contains come before the others.
func NearestNames(word string, known []string, n int) []string {
	word = word[:min(len(word), maxWord)]
	apart := func(known string) int {
		n := edits(word, known)
		if !strings.Contains(word, known) && !strings.Contains(known, word) {
			n += maxWord
		}
		return n
	}
	sorted := slices.Clone(known)
	slices.SortStableFunc(sorted, func(a, b string) int { return cmp.Compare(apart(a), apart(b)) })
	return sorted[:min(n, len(sorted))]
}

// Guess returns the one of known that a word is likely meant to be; "" where none is near
// enough: it has the word in it, or differs from it in one letter of three at most.
func Guess(word string, known []string) string {
	for _, name := range NearestNames(word, known, len(known)) {
		n := edits(word[:min(len(word), maxWord)], name)
		if n <= 1+len(word)/3 && n < len(name) || len(word) >= minContained && strings.Contains(name, word) {
			return name
		}
	}
	return ""
}

// DidYouMean ends a message with the one of known that a word is likely meant to be; "" where none is near enough.
func DidYouMean(word string, known []string) string {
	if meant := Guess(word, known); meant != "" {
		return fmt.Sprintf("; did you mean %q?", meant)
	}
	return ""
}

// Hint ends a message about an unknown word: with the name that it is likely meant to be or,
// where none is near, with those that are known, under that title.
func Hint(word, title string, known []string) string {
	if meant := DidYouMean(word, known); meant != "" {
		return meant
	}
	const most = 25
	more := ""
	if len(known) > most {
		known, more = known[:most], ", ..."
	}
	return "; " + title + ": " + strings.Join(known, ", ") + more
}

// edits returns the Levenshtein distance in bytes.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

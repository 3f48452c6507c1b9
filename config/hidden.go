package config

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	promconfig "github.com/prometheus/common/config"
	"gopkg.in/yaml.v3"
)

// inSecret runs decode for a part of the file that holds secrets: whatever stands
// in a wrong place there may be one, so that messages repeat neither values nor
// names of files, nor keys that are not known.
func (d *decoder) inSecret(decode func()) {
	before := d.secret
	d.secret = true
	decode()
	d.secret = before
}

// maxKeyLike bounds an unknown key that is repeated, in bytes.
const maxKeyLike = 40

var (
	// keyLike is the form of a key of the file. A secret that stands where a key
	// should, as in {password:secret}, is rarely of that form.
	keyLike = regexp.MustCompile(`^[a-z][a-z_]*$`)
	// headerLike is the form of the name of a header, in words of letters.
	headerLike = regexp.MustCompile(`^[A-Za-z]+([-_][A-Za-z]+)*$`)
	// variableLike is the form of the name of an environment variable, in words of
	// which the first has no digit.
	variableLike = regexp.MustCompile(`^[A-Z]+(_[A-Z0-9]+)*$`)
)

// isKeyLike tells whether messages may repeat a key that is unknown. Among secrets
// only the keys of the HTTP client are.
func (d *decoder) isKeyLike(key string) bool {
	if d.secret {
		return clientKeys(reflect.TypeFor[promconfig.HTTPClientConfig]())[key]
	}
	return len(key) <= maxKeyLike && keyLike.MatchString(key)
}

// clientKeys are all keys in a type of Prometheus' HTTP client.
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
		for inner := range clientKeys(f.Type) {
			keys[inner] = true
		}
	}
	return keys
}

// hideName keeps the name of item i of a mapping out of the paths of messages
// where it stands among secrets and may be one itself: a name that is not of
// letters, or that has no value of the kind that the mapping wants.
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
		d.hide(p.key(e.key), p.index(i))
	}
}

// unknownKey reports a key that is not one of keys.
func (d *decoder) unknownKey(e pair, p path, keys map[string][]int) {
	at, known := p.key(e.key), joinSome(slices.Sorted(maps.Keys(keys)))
	name, _, joined := strings.Cut(e.key, ":")
	switch {
	case joined && keys[name] != nil: // the rest is the value, or a part of it
		d.hide(at, p.key(name))
		d.errorAt(e.line, at, "want a space after the colon")
	case d.isKeyLike(e.key):
		d.errorAt(e.line, at, "unknown key %s; known here: %s", quote(e.key), known)
	default:
		d.hide(at, p)
		d.errorAt(e.line, at, "unknown key; known here: %s", known)
	}
}

// hide has messages say shown where they would say p, a path whose last key may be
// a secret.
func (r *report) hide(p, shown path) { r.hidden[p] = shown }

// shown is p as messages may say it.
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

// isUnder tells whether p is the path above, or inside it.
func (p path) isUnder(above path) bool {
	rest, ok := strings.CutPrefix(string(p), string(above))
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

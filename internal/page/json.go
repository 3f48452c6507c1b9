package page

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

const mediaJSON = "application/json"

// Bounds of a page of JSON, which takes several times its length in memory, and of which a text is repeated for each
// number of its object.
const (
	maxJSON      = 1 << 20
	maxJSONDepth = 16
	maxJSONText  = 256 // longer ones are no labels
)

// flatten returns a page of JSON in the text format, as Mapping.Format of package config says: without order, types
// and what has no number.
func flatten(page []byte) ([]byte, error) {
	if len(page) > maxJSON {
		return nil, pageErrorf(ReasonTooLarge, "a page of JSON of more than %d MiB", maxJSON>>20)
	}
	var value any
	if err := json.Unmarshal(page, &value); err != nil {
		return nil, pageErrorf(ReasonFormat, "content type %s: %w", quoted([]byte(mediaJSON)), err)
	}
	var f flattened
	f.add("", "", "", value, 0)
	if f.text.Len()+f.copied > maxPage {
		return nil, pageErrorf(ReasonTooLarge, "a page of JSON of more than %d MiB as series", maxPage>>20)
	}
	return f.text.Bytes(), nil
}

// flattened is a page of JSON on its way into the text format.
type flattened struct {
	text   bytes.Buffer
	copied int // bytes of labels
}

// add adds the samples of a value at a path of keys, with the labels of the objects in lists that it is in; list is the
// path of the outermost one.
func (f *flattened) add(path, list, labels string, value any, depth int) {
	if depth > maxJSONDepth || f.text.Len()+f.copied > maxPage {
		return
	}
	switch v := value.(type) {
	case float64:
		f.sample(path, labels, v)
	case bool:
		f.sample(path, labels, map[bool]float64{true: 1}[v])
	case string:
		if at, err := time.Parse(time.RFC3339, v); err == nil {
			f.sample(path, labels, float64(at.UnixMilli())/1e3)
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			f.add(joined(path, key), list, labels, v[key], depth+1)
		}
	case []any:
		f.sample(path, labels, float64(len(v)))
		if labels == "" {
			list = path
		}
		for _, item := range v {
			if object, ok := item.(map[string]any); ok {
				in := strings.TrimPrefix(strings.TrimPrefix(path, list), "_")
				if texts := labels + textsOf(in, object, depth+1); len(texts) <= maxSeriesBytes { // else no series with them is read
					f.copied += len(texts)
					f.add(path, list, texts, object, depth+1)
				}
			}
		}
	}
}

func (f *flattened) sample(name, labels string, v float64) {
	if name == "" { // of no key
		return
	}
	f.text.WriteString(name)
	if labels != "" {
		f.text.WriteString("{" + labels[1:] + "}")
	}
	f.text.WriteString(" " + strconv.FormatFloat(v, 'g', -1, 64) + "\n")
}

// joined returns the name of a key in an object at a path. What no name of a series may have becomes a `_`.
func joined(path, key string) string {
	name := strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' {
			return r
		}
		return '_'
	}, key)
	if path != "" {
		return path + "_" + name
	}
	if name == "" || name[0] <= '9' {
		return "_" + name
	}
	return name
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\x00", "")

// textsOf returns the texts of an object and of those in it as labels, each after a comma, by their paths.
func textsOf(path string, object map[string]any, depth int) (labels string) {
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if len(labels) > maxSeriesBytes { // no series with them is read
			break
		}
		name := joined(path, key)
		switch v := object[key].(type) {
		case string:
			if _, err := time.Parse(time.RFC3339, v); err != nil && len(v) <= maxJSONText {
				labels += "," + name + `="` + escapes.Replace(v) + `"`
			}
		case map[string]any:
			if depth < maxJSONDepth {
				labels += textsOf(name, v, depth+1)
			}
		}
	}
	return labels
}

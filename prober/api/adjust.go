package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Adjustment says how the request bodies for one endpoint differ from those
// that its protocol builds.
type Adjustment struct {
	// MaxTokensField is the new name of the key that caps the answer; "" keeps
	// the protocol's own.
	MaxTokensField string
	// Omit names keys to leave out, nested ones with dots. A key that a body
	// does not have is no error.
	Omit []string
	// Extra is merged into the body: objects key by key, while any other value
	// replaces what is there. It must be representable in JSON.
	Extra map[string]any
}

// Adjuster applies an Adjustment to bodies: it renames the cap, then omits,
// then merges, and leaves the order of the other keys and the text of their
// values as they are. The zero value changes nothing. It is safe for
// concurrent use.
type Adjuster struct {
	maxTokens      keyPath // the protocol's own key, nil where it keeps its name
	maxTokensField string
	omit           []keyPath
	extra          orderedObject
}

// keyPath is the way to a key through nested objects.
type keyPath []string

func parsePath(s string) keyPath { return strings.Split(s, ".") }

func (p keyPath) String() string { return strings.Join(p, ".") }

// NewAdjuster prepares an adjustment for the bodies of one protocol.
// maxTokens is the key that caps the answer there, a nested one with dots; ""
// is a protocol without. An error is an adjustment that cannot be made there.
func NewAdjuster(a Adjustment, maxTokens string) (*Adjuster, error) {
	j := new(Adjuster)
	if a.MaxTokensField != "" {
		if maxTokens == "" {
			return nil, errors.New("max_tokens_field: the protocol has no key that caps the answer")
		}
		j.maxTokens, j.maxTokensField = parsePath(maxTokens), a.MaxTokensField
	}
	for _, s := range a.Omit {
		j.omit = append(j.omit, parsePath(s))
	}
	if len(a.Extra) > 0 {
		text, err := encodeJSON(a.Extra)
		if err != nil {
			return nil, fmt.Errorf("extra: %w", err)
		}
		if j.extra, err = parseOrdered(text); err != nil {
			return nil, fmt.Errorf("extra: %w", err)
		}
	}
	return j, nil
}

// Apply returns the body as adjusted, or body itself where there is nothing to
// adjust. Errors name the key.
func (j *Adjuster) Apply(body []byte) ([]byte, error) {
	if j.maxTokens == nil && len(j.omit) == 0 && len(j.extra) == 0 {
		return body, nil
	}
	o, err := parseOrdered(body)
	if err == nil {
		o, err = j.adjust(o)
	}
	if err != nil {
		return nil, fmt.Errorf("adjust request body: %w", err)
	}
	return o.appendTo(make([]byte, 0, len(body)+64)), nil
}

func (j *Adjuster) adjust(o orderedObject) (orderedObject, error) {
	var err error
	if j.maxTokens != nil {
		if o, err = j.renameCap(o); err != nil {
			return nil, fmt.Errorf("rename %s to %s: %w", j.maxTokens, j.maxTokensField, err)
		}
	}
	for _, p := range j.omit {
		if o, err = o.edit(p, orderedObject.without); err != nil {
			return nil, fmt.Errorf("omit %s: %w", p, err)
		}
	}
	return o.merged(j.extra)
}

// renameCap renames the key that caps the answer. A body without it would ask
// for an answer without end.
func (j *Adjuster) renameCap(o orderedObject) (orderedObject, error) {
	found := false
	o, err := o.edit(j.maxTokens, func(o orderedObject, key string) (orderedObject, error) {
		i := o.index(key)
		if i < 0 {
			return o, nil
		}
		found = true
		if key != j.maxTokensField && o.index(j.maxTokensField) >= 0 {
			return nil, errors.New("the body has that key already")
		}
		o[i].key = j.maxTokensField
		return o, nil
	})
	if err == nil && !found {
		err = errors.New("the body has no such key")
	}
	return o, err
}

// orderedObject is a JSON object whose members keep their order and whose
// values keep their text. Each key is in it once.
//
// Neither fastjson, which writes texts and numbers in its own form, nor
// tidwall/sjson serves: that renames no key in its place, merges no objects, drops
// only the first of two equal keys, and takes some keys for patterns.
type orderedObject []member

type member struct {
	key   string
	value json.RawMessage // without white space around it
}

// errNoObject is another JSON value where an object is wanted.
var errNoObject = errors.New("not an object")

// parseOrdered reads an object. Of a key that is in it twice the last value
// counts, as encoding/json has it.
func parseOrdered(text []byte) (orderedObject, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return nil, errNoObject
	}
	var o orderedObject
	for dec.More() {
		t, err := dec.Token()
		key, ok := t.(string)
		if err != nil || !ok {
			return nil, errNoObject
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, errNoObject
		}
		o = o.with(key, value)
	}
	if _, err := dec.Token(); err != nil {
		return nil, errNoObject
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errNoObject
	}
	return o, nil
}

// appendTo appends the object as JSON.
func (o orderedObject) appendTo(dst []byte) []byte {
	dst = append(dst, '{')
	for i, m := range o {
		if i > 0 {
			dst = append(dst, ',')
		}
		key, _ := encodeJSON(m.key) // a text has no errors
		dst = append(dst, key...)
		dst = append(dst, ':')
		dst = append(dst, m.value...)
	}
	return append(dst, '}')
}

// index returns the place of a key; -1 is none.
func (o orderedObject) index(key string) int {
	return slices.IndexFunc(o, func(m member) bool { return m.key == key })
}

// with sets the value of a key, in its place or at the end.
func (o orderedObject) with(key string, value json.RawMessage) orderedObject {
	if i := o.index(key); i >= 0 {
		o[i].value = value
		return o
	}
	return append(o, member{key, value})
}

// without drops a key. The error is always nil.
func (o orderedObject) without(key string) (orderedObject, error) {
	return slices.DeleteFunc(o, func(m member) bool { return m.key == key }), nil
}

// edit changes the object that holds the last key of the path. Where an object
// on the way is missing it changes nothing.
func (o orderedObject) edit(p keyPath, change func(o orderedObject, key string) (orderedObject, error)) (orderedObject, error) {
	if len(p) == 1 {
		return change(o, p[0])
	}
	i := o.index(p[0])
	if i < 0 {
		return o, nil
	}
	inner, err := parseOrdered(o[i].value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p[0], err)
	}
	if inner, err = inner.edit(p[1:], change); err != nil {
		return nil, err
	}
	o[i].value = inner.appendTo(nil)
	return o, nil
}

// merged adds extra: objects on both sides key by key, while any other value
// replaces what is there.
func (o orderedObject) merged(extra orderedObject) (orderedObject, error) {
	for _, m := range extra {
		i := o.index(m.key)
		if i < 0 || !isObject(o[i].value) || !isObject(m.value) {
			o = o.with(m.key, m.value)
			continue
		}
		inner, err := parseOrdered(o[i].value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.key, err)
		}
		more, err := parseOrdered(m.value)
		if err != nil {
			return nil, fmt.Errorf("extra %s: %w", m.key, err)
		}
		if inner, err = inner.merged(more); err != nil {
			return nil, fmt.Errorf("%s: %w", m.key, err)
		}
		o[i].value = inner.appendTo(nil)
	}
	return o, nil
}

// isObject reports whether a value is an object.
func isObject(value json.RawMessage) bool { return len(value) > 0 && value[0] == '{' }

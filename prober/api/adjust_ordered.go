package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// orderedObject is a JSON object whose members keep their order and whose
// values keep their text. No key stands twice.
type orderedObject []member

type member struct {
	key   string
	value json.RawMessage // without white space around it
}

// errNoObject is another JSON value where an object is wanted.
var errNoObject = errors.New("not an object")

// parseOrdered reads an object. Of a key that stands twice the last value
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

// index is where key stands; -1 is nowhere.
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

// isObject tells an object from other values.
func isObject(value json.RawMessage) bool { return len(value) > 0 && value[0] == '{' }

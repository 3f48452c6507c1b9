package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Adjustment says how the request bodies for one endpoint differ from those of its protocol: the cap is
// renamed, then keys are omitted, then others come. The zero value changes nothing.
type Adjustment struct {
	// MaxTokensField is the new name of the key that caps the answer; "" keeps the protocol's own.
	MaxTokensField string
	// Omit names keys to leave out, nested ones with dots. A key that a body does not have is no error.
	Omit []string
	// Extra is merged into the body: objects key by key, while any other value
	// replaces what is there. It must be representable in JSON.
	Extra map[string]any
}

// Check returns why the adjustment cannot be made to the bodies of a protocol.
func (a *Adjustment) Check(p *Protocol) error {
	if a.MaxTokensField != "" && p.MaxTokens == "" {
		return errors.New("max_tokens_field: the protocol has no key that caps the answer")
	}
	if _, err := encodeJSON(a.Extra); err != nil {
		return fmt.Errorf("extra: %w", err)
	}
	return nil
}

// errNoKey is a key to edit that a body does not have.
var errNoKey = errors.New("the body has no such key")

// apply adjusts a body whose answer is capped by a key, and returns it. Errors name the key.
func (a *Adjustment) apply(body fields, maxTokens string) (fields, error) {
	if a.MaxTokensField != "" {
		renamed, err := body.edit(maxTokens, a.rename)
		if err != nil {
			return nil, fmt.Errorf("rename %s to %s: %w", maxTokens, a.MaxTokensField, err)
		}
		body = renamed
	}
	for _, path := range a.Omit {
		left, err := body.edit(path, func(f fields, i int) (fields, error) { return slices.Delete(f, i, i+1), nil })
		switch {
		case err == nil:
			body = left
		case !errors.Is(err, errNoKey):
			return nil, fmt.Errorf("omit %s: %w", path, err)
		}
	}
	if len(a.Extra) == 0 {
		return body, nil
	}
	return body.merged(a.Extra), nil
}

// rename renames the key that caps the answer. A body without it would ask for an answer without end.
func (a *Adjustment) rename(f fields, i int) (fields, error) {
	if f[i].key != a.MaxTokensField && f.index(a.MaxTokensField) >= 0 {
		return nil, errors.New("the body has that key already")
	}
	f[i].key = a.MaxTokensField
	return f, nil
}

// index returns the place of a key; -1 is none.
func (f fields) index(key string) int {
	return slices.IndexFunc(f, func(m field) bool { return m.key == key })
}

// objectOf returns a value as an object; false where it is none.
func objectOf(v any) (f fields, ok bool) {
	switch v := v.(type) {
	case fields:
		return v.present(), true
	case map[string]any:
		return f.merged(v), true
	case json.RawMessage:
		var object map[string]any
		ok = json.Unmarshal(v, &object) == nil && object != nil
		return f.merged(object), ok
	}
	return nil, false
}

// edit changes the object that holds the last key of the path, given the place of that key; errNoKey is none.
func (f fields) edit(path string, change func(f fields, i int) (fields, error)) (fields, error) {
	f = f.present()
	key, rest, nested := strings.Cut(path, ".")
	i := f.index(key)
	switch {
	case i < 0:
		return nil, errNoKey
	case !nested:
		return change(f, i)
	}
	inner, ok := objectOf(f[i].value)
	if !ok {
		return nil, fmt.Errorf("%s: not an object", key)
	}
	inner, err := inner.edit(rest, change)
	f[i].value = inner
	return f, err
}

// merged adds extra: objects on both sides key by key, while any other value replaces what is there.
func (f fields) merged(extra map[string]any) fields {
	f = f.present()
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		i := f.index(key)
		if i < 0 {
			f = append(f, field{key, extra[key]})
			continue
		}
		old, isObject := objectOf(f[i].value)
		if more, both := extra[key].(map[string]any); isObject && both {
			f[i].value = old.merged(more)
		} else {
			f[i].value = extra[key]
		}
	}
	return f
}

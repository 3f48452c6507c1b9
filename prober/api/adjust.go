package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Adjustment says how the request bodies for one endpoint differ from those
// that its protocol builds: the cap is renamed, then keys are omitted, then others come. The
// zero value changes nothing.
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

// apply adjusts a body in place, whose answer is capped by a key, and returns it. Errors name the key.
func (a *Adjustment) apply(body fields, maxTokens string) (fields, error) {
	if a.MaxTokensField == "" && len(a.Omit)+len(a.Extra) == 0 {
		return body, nil
	}
	var err error
	if a.MaxTokensField != "" {
		if body, err = a.renameCap(body, maxTokens); err != nil {
			return nil, fmt.Errorf("rename %s to %s: %w", maxTokens, a.MaxTokensField, err)
		}
	}
	for _, path := range a.Omit {
		body, err = body.edit(path, func(f fields, key string) (fields, error) {
			return slices.DeleteFunc(f, func(m field) bool { return m.key == key }), nil
		})
		if err != nil {
			return nil, fmt.Errorf("omit %s: %w", path, err)
		}
	}
	return body.merged(a.Extra), nil
}

// renameCap renames the key that caps the answer. A body without it would ask
// for an answer without end.
func (a *Adjustment) renameCap(body fields, maxTokens string) (fields, error) {
	found := false
	body, err := body.edit(maxTokens, func(f fields, key string) (fields, error) {
		i := f.index(key)
		switch {
		case i < 0:
			return f, nil
		case key != a.MaxTokensField && f.index(a.MaxTokensField) >= 0:
			return nil, errors.New("the body has that key already")
		}
		found = true
		f[i].key = a.MaxTokensField
		return f, nil
	})
	if err == nil && !found {
		err = errors.New("the body has no such key")
	}
	return body, err
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

// edit changes the object that holds the last key of the path. Where an object
// on the way is missing it changes nothing.
func (f fields) edit(path string, change func(f fields, key string) (fields, error)) (fields, error) {
	f = f.present()
	key, rest, nested := strings.Cut(path, ".")
	if !nested {
		return change(f, key)
	}
	i := f.index(key)
	if i < 0 {
		return f, nil
	}
	inner, ok := objectOf(f[i].value)
	if !ok {
		return nil, fmt.Errorf("%s: not an object", key)
	}
	inner, err := inner.edit(rest, change)
	f[i].value = inner
	return f, err
}

// merged adds extra: objects on both sides key by key, while any other value
// replaces what is there.
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

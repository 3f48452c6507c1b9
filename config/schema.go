package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// schemaURL stands for the schema in the messages of the library.
const schemaURL = "urn:json_schema"

// Schema compiles JSONSchema. Nothing is read or fetched for it: a reference to
// another document is an error.
func (e *Expect) Schema() (*jsonschema.Schema, error) {
	text, err := json.Marshal(e.JSONSchema)
	if err != nil {
		return nil, fmt.Errorf("write JSON schema: %w", err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("read JSON schema: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(jsonschema.SchemeURLLoader{})
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, fmt.Errorf("compile JSON schema: %w", err)
	}
	return c.Compile(schemaURL)
}

func (e *Expect) validateSchema(r *report, p path) {
	if !r.written(p) {
		return
	}
	if len(e.JSONSchema) == 0 {
		r.errorf(p, "an empty schema; want at least one keyword, like type: object")
		return
	}
	_, err := e.Schema()
	if err == nil {
		return
	}
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		err = invalid.Err // which it does not unwrap to
	}
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		at, message := firstMistake(invalid)
		r.errorf(pathIn(e.JSONSchema, p, at), "not a valid JSON schema: %s", message)
		return
	}
	if _, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		r.errorf(p, "a reference to another document, which is never fetched")
		return
	}
	r.errorf(p, "not a valid JSON schema: %s", oneLine(strings.ReplaceAll(err.Error(), schemaURL, "")))
}

// firstMistake is where a schema is wrong, and what is wrong there: the first
// place in the order of the places' names.
func firstMistake(err *jsonschema.ValidationError) (at []string, message string) {
	if len(err.Causes) == 0 {
		leaf := *err
		leaf.InstanceLocation = nil
		return err.InstanceLocation, oneLine(strings.TrimPrefix(leaf.Error(), "at '': "))
	}
	for i, cause := range err.Causes {
		place, what := firstMistake(cause)
		if i == 0 || slices.Compare(place, at) < 0 {
			at, message = place, what
		}
	}
	return at, message
}

// pathIn is the path of a place in v, which stands at p.
func pathIn(v any, p path, place []string) path {
	for _, name := range place {
		switch x := v.(type) {
		case map[string]any:
			v, p = x[name], p.key(name)
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(x) {
				return p
			}
			v, p = x[i], p.index(i)
		}
	}
	return p
}

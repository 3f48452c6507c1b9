package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/inference-exporter/inference_exporter/internal/safetext"
)

// Expect says what the answer to a prompt must be, in every respect that is
// written. A probe whose answer is otherwise ends as `check_failed`.
type Expect struct {
	// Equals is the whole answer, white space at its ends aside.
	Equals string `yaml:"equals,omitempty"`
	// Matches is a regular expression (RE2) that the answer must contain a match of.
	Matches string `yaml:"matches,omitempty"`
	// JSONSchema is a JSON schema (2020-12, formats included) that the answer,
	// read as JSON, must meet. It may refer to its own parts only.
	JSONSchema map[string]any `yaml:"json_schema,omitempty"`
	// MinLength is the fewest characters of the answer. Default: no limit.
	MinLength int `yaml:"min_length,omitempty" range:"[1,65536]"`
	// MaxLength is the most characters of the answer. Default: no limit.
	MaxLength int `yaml:"max_length,omitempty" range:"[1,65536]"`
	// Language is the language of the answer as an ISO 639-1 code such as `en`. It
	// is recognised by its script and by frequent words: an answer of a few words in a
	// script that several languages share, as Latin, fails.
	Language string `yaml:"language,omitempty" form:"language"`
	// FinishReason lists the finish reasons that are right, such as `stop`.
	// Default: any.
	FinishReason []string `yaml:"finish_reason,omitempty" form:"finish reason" items:"some,unique"`
}

func (e *Expect) check(r *report, p path) {
	if !r.writtenUnder(p, keysOf(reflect.TypeFor[Expect]())) {
		r.errorf(p, "expects nothing; want at least one of equals, matches, json_schema, min_length, max_length, language and finish_reason")
	}
	if equals := p.key("equals"); r.written(equals) && strings.TrimSpace(e.Equals) == "" {
		r.errorf(equals, "an empty text")
	}
	if matches := p.key("matches"); r.written(matches) {
		if e.Matches == "" {
			r.errorf(matches, "an empty text")
		} else if _, err := regexp.Compile(e.Matches); err != nil {
			r.errorf(matches, "want a regular expression: %s", safetext.Line(err.Error(), maxQuoted))
		}
	}
	e.validateSchema(r, p.key("json_schema"))
	if !r.failed[p.key("min_length")] && e.MaxLength > 0 && e.MaxLength < e.MinLength {
		r.errorf(p.key("max_length"), "%d is less than min_length of %d", e.MaxLength, e.MinLength)
	}
}

// schemaURL names the schema in the messages of the library.
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
	r.errorf(p, "not a valid JSON schema: %s", safetext.Line(strings.ReplaceAll(err.Error(), schemaURL, ""), maxQuoted))
}

// firstMistake returns the place of a mistake in a schema and what is wrong there:
// the first place in the order of their names.
func firstMistake(err *jsonschema.ValidationError) (at []string, message string) {
	if len(err.Causes) == 0 {
		leaf := *err
		leaf.InstanceLocation = nil
		return err.InstanceLocation, safetext.Line(strings.TrimPrefix(leaf.Error(), "at '': "), maxQuoted)
	}
	for i, cause := range err.Causes {
		place, what := firstMistake(cause)
		if i == 0 || slices.Compare(place, at) < 0 {
			at, message = place, what
		}
	}
	return at, message
}

// pathIn returns the path of a place in v, whose own path is p.
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

package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/inference-exporter/inference_exporter/internal/safetext"
	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// Ask is what the requests of a module ask: one of the workloads, each of which a module
// asks for by one key. All that depends on it, and not on the server, is in its row.
type Ask struct {
	// Key is the key of the module that asks for it; "" is prompts that are generated to a length.
	Key string

	set   func(m *Module) bool
	words func(m *Module) string // what is asked, in a few words
	// right reports whether it is known what a right answer is; nil is never.
	right func(m *Module) bool
	// NoAnswer is a workload that asks only for what the endpoint makes of a fixed text.
	NoAnswer bool
	// alone is a workload whose requests are no burst.
	alone bool
	// steady is a workload whose answers may be watched for changes; else watched says why
	// that has no effect where it is more than that other answers differ each time.
	steady  bool
	watched string
	// interval and output are the defaults of interval and output_tokens; 0 is that of all modules.
	interval time.Duration
	output   int
}

// lengths are prompts that are generated to a length: what a module asks without a key.
var lengths = Ask{words: func(m *Module) string { return m.InputTokens.Words() + " tokens, " + string(m.Prefix) }}

// asks are the workloads with a key, in the order in which mistakes name them.
var asks = []Ask{
	{
		Key: "prompt", set: func(m *Module) bool { return m.Prompt != "" }, words: plainly("a prompt"),
		right: func(m *Module) bool { return m.Expect != nil }, steady: true,
	},
	{
		Key: "prompts_file", set: func(m *Module) bool { return m.PromptsFile != "" },
		words: func(m *Module) string { return fmt.Sprintf("%d prompts", len(m.Prompts)) },
		right: func(m *Module) bool {
			return slices.ContainsFunc(m.Prompts, func(p Prompt) bool { return p.Expected != "" })
		},
	},
	{Key: "questions", set: func(m *Module) bool { return m.Questions }, words: plainly("the built-in questions"), right: always, steady: true},
	{
		Key: "reference_logprob", set: func(m *Module) bool { return m.ReferenceLogprob }, words: plainly("the score of a passage"),
		NoAnswer: true, alone: true, watched: "which is watched without it",
	},
	{
		Key: "track_model", set: func(m *Module) bool { return m.TrackModel }, words: plainly("one word"),
		alone: true, watched: "which watches what the reply says about its model without it", interval: 15 * time.Minute, output: 1,
	},
	{
		Key: "reference_texts", set: func(m *Module) bool { return m.ReferenceTexts }, words: plainly("the reference texts"),
		NoAnswer: true, alone: true, watched: "which is watched without it",
	},
	{Key: "tool_call", set: func(m *Module) bool { return m.ToolCall }, words: plainly("a call of a tool"), right: always},
	{Key: "structured", set: func(m *Module) bool { return m.Structured }, words: plainly("JSON by a schema"), right: always},
}

func always(*Module) bool { return true }

func plainly(text string) func(*Module) string { return func(*Module) string { return text } }

// Ask returns what the module asks.
func (m *Module) Ask() *Ask {
	for i := range asks {
		if asks[i].set(m) {
			return &asks[i]
		}
	}
	return &lengths
}

func asksWith(wanted func(a *Ask) bool) (keys []string) {
	for i := range asks {
		if wanted(&asks[i]) {
			keys = append(keys, asks[i].Key)
		}
	}
	return keys
}

// enumerate joins keys, at least one, with a word before the last.
func enumerate(keys []string, word string) string {
	last := len(keys) - 1
	if last == 0 {
		return keys[0]
	}
	return strings.Join(keys[:last], ", ") + " " + word + " " + keys[last]
}

// ToLength reports whether the prompts are generated to the wanted length.
func (a *Ask) ToLength() bool { return a.Key == "" }

// WhatIsAsked returns what a module sends, in a few words.
func (m *Module) WhatIsAsked() string {
	asked := m.Ask().words(m)
	switch {
	case m.Interference > 0:
		asked += fmt.Sprintf(", beside one of %d", m.Interference)
	case len(m.Concurrency) > 0:
		asked += ", bursts of " + joinInts(m.Concurrency)
	}
	if m.Load != nil {
		asked += ", load of " + m.Load.Kind().Words(m.Load.Levels()...)
	}
	return asked
}

// ChecksAnswers reports whether the module knows what its answers should be.
func (m *Module) ChecksAnswers() bool {
	right := m.Ask().right
	return right != nil && right(m)
}

// WatchesModel reports whether the module watches what should stay the same for changes.
func (m *Module) WatchesModel() bool { return m.Fingerprint || m.Ask().watched != "" }

// Requests returns how many requests a run makes at most.
func (m *Module) Requests() int {
	switch {
	case m.Prefix == PrefixPaired:
		return 2
	case m.Prefix == PrefixConversation:
		return m.Turns
	case m.Bursts() == nil:
		return 1
	}
	return stats.Sum(m.Bursts(), func(level int) int { return level })
}

// complete sets the defaults of m that depend on what is asked.
func (a *Ask) complete(m *Module, r *report, p path) {
	if a.interval > 0 {
		orDefault(r, p.key("interval"), &m.Interval, model.Duration(a.interval))
	}
	switch output := p.key("output_tokens"); {
	case a.NoAnswer:
		orDefault(r, output, &m.OutputTokens, Lengths{})
	case a.output > 0:
		orDefault(r, output, &m.OutputTokens, Tokens(a.output))
	}
	if !a.ToLength() {
		orDefault(r, p.key("input_tokens"), &m.InputTokens, Lengths{})
		orDefault(r, p.key("batch_size"), &m.BatchSize, 0)
		orDefault(r, p.key("prefix"), &m.Prefix, PrefixWarm)
	}
}

// validateAsk checks what is asked, and that the other keys have a meaning with it.
func (m *Module) validateAsk(r *report, p path) {
	if prompt := p.key("prompt"); r.written(prompt) {
		r.mistake(prompt, textProblem(m.Prompt))
	}
	if r.written(p.key("prompts_file")) && m.PromptsFile == "" {
		r.errorf(p.key("prompts_file"), "an empty file name")
	}
	a := m.Ask()
	if a.ToLength() {
		return
	}
	for _, other := range asksWith(func(a *Ask) bool { return a.set(m) })[1:] {
		r.errorf(p.key(other), "%s and %s are mutually exclusive", a.Key, other)
	}
	for _, key := range []string{"input_tokens", "batch_size"} {
		if r.written(p.key(key)) {
			r.errorf(p.key(key), "has no effect with %s", a.Key)
		}
	}
	if m.Prefix != PrefixWarm {
		r.errorf(p.key("prefix"), "want warm with %s, or leave the key out: the same text is sent again", a.Key)
	}
	switch at := p.key("output_tokens"); {
	case !r.written(at):
	case a.NoAnswer:
		r.errorf(at, "has no effect with %s, which asks for no answer", a.Key)
	case a.output == 1 && m.OutputTokens.Max() != 1:
		r.errorf(at, "has no effect with %s, which asks for one token", a.Key)
	}
	if a.alone && len(m.Concurrency) > 0 {
		r.errorf(p.key("concurrency"), "concurrency and %s are mutually exclusive", a.Key)
	}
}

func (m *Module) validateAnswers(r *report, p path) {
	a := m.Ask()
	if m.Expect != nil && m.Prompt == "" && !r.failed[p.key("prompt")] {
		own := asksWith(func(a *Ask) bool { return a.right != nil && a.Key != "prompt" })
		r.errorf(p.key("expect"), "requires prompt; %s have answers of their own", enumerate(own, "and"))
	}
	switch fingerprint := p.key("fingerprint"); {
	case !m.Fingerprint:
	case a.watched != "":
		r.errorf(fingerprint, "has no effect with %s, %s", a.Key, a.watched)
	case !a.steady && !r.failed[p.key("prompt")]:
		r.errorf(fingerprint, "requires %s: other answers differ each time", enumerate(asksWith(func(a *Ask) bool { return a.steady }), "or"))
	case len(m.OutputTokens.Ladder) > 1 || len(m.OutputTokens.Mix) > 1:
		r.errorf(fingerprint, "requires a single output_tokens: answers of other lengths differ")
	}
}

// TrackedAnswers returns how many of the latest answers without log-probabilities
// track_model compares with those before them: a day's, at least 96 and at most 480.
func (m *Module) TrackedAnswers() int {
	const least, most = 96, 480
	interval := max(time.Duration(m.Interval), time.Second)
	return min(max(int(24*time.Hour/interval), least), most)
}

// Asking returns a module like m that asks a text, expects nothing of the answers, and keeps them in the
// results. It keeps the cap of the answer where it has one, the timeouts, and the bursts.
func (m *Module) Asking(text string) (*Module, error) {
	if err := textProblem(text); err != nil {
		return nil, err
	}
	own := Module{
		Interval: m.Interval, Timeout: m.Timeout, Timeouts: m.Timeouts,
		Prompt: text, Prefix: PrefixWarm, OutputTokens: m.OutputTokens,
		Concurrency: m.Concurrency, Arrivals: m.Arrivals, Connection: m.Connection,
		SLO: m.SLO, PresetSLO: m.PresetSLO, KeepAnswer: true,
	}
	if a := m.Ask(); a.NoAnswer || a.output > 0 {
		own.OutputTokens = None().Modules[Interactive].OutputTokens
	}
	return &own, nil
}

// Asks lists the keys of all workloads, "" first.
func Asks() []string { return append([]string{""}, asksWith(func(*Ask) bool { return true })...) }

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
	// Language is the language of the answer as an ISO 639-1 code such as `en`. It is recognised by its script and by
	// frequent words: an answer of a few words in a script that several languages share, as Latin, fails.
	Language string `yaml:"language,omitempty" form:"language"`
	// FinishReason lists the finish reasons that are right, such as `stop`. Default: any.
	FinishReason []string `yaml:"finish_reason,omitempty" form:"finish reason" items:"some,unique"`
}

func (e *Expect) check(r *report, p path) {
	written := false
	for at := range r.lines {
		written = written || strings.HasPrefix(string(at), string(p)+".")
	}
	if !written {
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

// Schema compiles JSONSchema. A reference to another document is an error: nothing is fetched.
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

// firstMistake returns the first place of a mistake in a schema, by its name, and what is wrong there.
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

package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
	"github.com/valyala/fastjson"

	"github.com/inference-exporter/inference_exporter/internal/foreign"
	"github.com/inference-exporter/inference_exporter/prober/api"
)

// Bounds of a file with prompts.
const (
	maxPromptsLines    = 100_000
	maxPromptsMistakes = 10 // that are reported
)

// Prompt is a prompt of the user's own: one line of a file with prompts.
type Prompt struct {
	// Messages are the conversation, which ends with a message of the user.
	Messages []api.Message
	// Expected is what a right answer is or contains; "" is not known.
	Expected string
	// Weight is how often the prompt is asked relative to the others.
	Weight float64
}

// loadLines reads a regular file that the option at p names, "" is none, and reports its mistakes.
func (r *report) loadLines(p path, name string, parse func(data []byte) []lineError) {
	if name == "" || r.failed[p] {
		return
	}
	data, err := foreign.ReadFile(name, maxRecordsBytes)
	if err != nil {
		r.errorf(p, "cannot read: %v", err)
		return
	}
	if r.read == nil {
		r.read = map[string]uint64{}
	}
	r.read[name] = xxhash.Sum64(data)
	for _, mistake := range parse(data) {
		r.errorAt(r.line(p), p, "%s:%d: %v", name, mistake.line, mistake.err)
	}
}

// lineError is a mistake in a line of a file.
type lineError struct {
	line int
	err  error
}

// parsePrompts reads one prompt from each line that is not empty, up to the first few mistakes.
func parsePrompts(data []byte) (prompts []Prompt, mistakes []lineError) {
	line := 0
	for text := range bytes.Lines(data) {
		line++
		if line > maxPromptsLines {
			return prompts, append(mistakes, lineError{line, fmt.Errorf("more than %d lines", maxPromptsLines)})
		}
		text = bytes.TrimSpace(text)
		if len(text) == 0 {
			continue
		}
		prompt, err := parsePrompt(text)
		if err != nil {
			mistakes = append(mistakes, lineError{line, err})
		}
		if len(mistakes) == maxPromptsMistakes {
			return prompts, mistakes
		}
		prompts = append(prompts, prompt)
	}
	if len(prompts) == 0 {
		mistakes = append(mistakes, lineError{max(1, line), errors.New("no prompts; want at least one")})
	}
	return prompts, mistakes
}

func parsePrompt(text []byte) (Prompt, error) {
	prompt := Prompt{Weight: 1}
	// The parser accepts more than JSON.
	if !utf8.Valid(text) || !json.Valid(text) {
		return prompt, errors.New("not valid JSON; want one object in each line")
	}
	v, err := fastjson.ParseBytes(text)
	if err != nil {
		return prompt, errors.New("nested too deep")
	}
	keys, err := keysIn(v, "prompt", "messages", "expected", "weight")
	if err != nil {
		return prompt, err
	}
	if prompt.Messages, err = parseMessages(keys); err != nil {
		return prompt, err
	}
	if prompt.Expected, err = textAt(keys, "expected"); err != nil {
		return prompt, err
	}
	if weight := keys["weight"]; weight != nil {
		if prompt.Weight, err = weight.Float64(); err != nil || !isWeight(prompt.Weight) {
			return prompt, fmt.Errorf("weight: want a number above 0 and up to %d", maxWeight)
		}
	}
	return prompt, nil
}

// parseMessages returns what is asked: the text of one message, or a list.
func parseMessages(keys map[string]*fastjson.Value) ([]api.Message, error) {
	list := keys["messages"]
	switch {
	case keys["prompt"] != nil && list != nil:
		return nil, errors.New("messages: excludes prompt")
	case keys["prompt"] != nil:
		text, err := textAt(keys, "prompt")
		return []api.Message{{Role: "user", Content: text}}, err
	case list == nil:
		return nil, errors.New("no prompt; want prompt or messages")
	case list.Type() != fastjson.TypeArray:
		return nil, errors.New("messages: want a list")
	}
	var all []api.Message
	size := 0
	for i, v := range list.GetArray() {
		message, err := parseMessage(v)
		if err == nil && message.Role == "system" && i > 0 {
			err = errors.New("role: system may only be the first")
		}
		if err != nil {
			return nil, fmt.Errorf("messages[%d]: %w", i, err)
		}
		size += len(message.Content)
		all = append(all, message)
	}
	if size > maxPromptBytes {
		return nil, errors.New("messages: more than 1 MiB")
	}
	if len(all) == 0 || all[len(all)-1].Role != "user" {
		return nil, errors.New("messages: want a message of the user at the end")
	}
	return all, nil
}

func parseMessage(v *fastjson.Value) (api.Message, error) {
	keys, err := keysIn(v, "role", "content")
	if err != nil {
		return api.Message{}, err
	}
	var m api.Message
	if keys["role"] != nil {
		m.Role = string(keys["role"].GetStringBytes())
	}
	if !slices.Contains([]string{"system", "user", "assistant"}, m.Role) {
		return api.Message{}, errors.New("role: want system, user or assistant")
	}
	if keys["content"] == nil {
		return api.Message{}, errors.New("content: missing")
	}
	m.Content, err = textAt(keys, "content")
	return m, err
}

// textAt returns the text under a key, which may not be empty; "" without the key.
func textAt(keys map[string]*fastjson.Value, key string) (string, error) {
	v := keys[key]
	if v == nil {
		return "", nil
	}
	text, err := string(v.GetStringBytes()), errors.New("expected a string")
	if v.Type() == fastjson.TypeString {
		err = textProblem(text)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", key, err)
	}
	return text, nil
}

// keysIn returns the values of an object that are not null, by key. Other keys than known ones are an error.
func keysIn(v *fastjson.Value, known ...string) (map[string]*fastjson.Value, error) {
	object, err := v.Object()
	if err != nil {
		return nil, errors.New("want an object")
	}
	seen := map[string]bool{}
	values := map[string]*fastjson.Value{}
	object.Visit(func(k []byte, v *fastjson.Value) {
		key := string(k)
		switch {
		case err != nil:
		case !slices.Contains(known, key):
			err = fmt.Errorf("unknown key %s%s", quote(key), Hint(key, "known here", known))
		case seen[key]:
			err = fmt.Errorf("%s: duplicate key", key)
		}
		seen[key] = true
		if v.Type() != fastjson.TypeNull {
			values[key] = v
		}
	})
	return values, err
}

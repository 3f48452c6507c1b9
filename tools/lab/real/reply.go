package main

import (
	"encoding/json"
	"strings"
	"time"
)

// unknown is a count that a reply does not have.
const unknown = -1

// reply is what a raw capture says, read without the exporter's code.
type reply struct {
	tokens                 []time.Time // when each event with generated text arrived
	prompt, cached, output int
	items                  int // vectors or scores
}

// readReply reads the lines of a body: server-sent events, lines of JSON or one
// document.
func readReply(e *exchange) reply {
	r := reply{prompt: unknown, cached: unknown, output: unknown}
	if e.contentType != "text/event-stream" && !strings.Contains(e.contentType, "ndjson") {
		r.event(e.ended, e.text())
		return r
	}
	for _, l := range e.lines {
		text, isData := strings.CutPrefix(l.text, "data:")
		if isData || strings.HasPrefix(text, "{") {
			r.event(l.at, text)
		}
	}
	return r
}

func (r *reply) event(at time.Time, text string) {
	var v any
	if json.Unmarshal([]byte(text), &v) != nil {
		return
	}
	o, isObject := v.(map[string]any)
	if !isObject {
		if list, isList := v.([]any); isList {
			r.items = len(list)
		}
		return
	}
	before := r.output
	r.counts(o)
	if usage, _ := o["usage"].(map[string]any); r.prompt == unknown && r.output == unknown {
		r.prompt = number(usage, "total_tokens") // of a ranking
	}
	choices, _ := o["choices"].([]any)
	_, isSGLang := o["meta_info"]
	grows := r.output > max(0, before) && (before != unknown || isSGLang)
	if generated(o) || grows && (len(choices) > 0 || isSGLang) { // a token without text of its own
		r.tokens = append(r.tokens, at)
	}
	for _, key := range []string{"data", "results", "embeddings"} {
		switch list := o[key].(type) {
		case []any:
			r.items = len(list)
		case map[string]any: // by the type of their numbers
			floats, _ := list["float"].([]any)
			r.items = len(floats)
		}
	}
}

// generated reports whether an event carries text that the model made.
func generated(o map[string]any) bool {
	kind, _ := o["type"].(string)
	switch {
	case strings.HasPrefix(kind, "response."):
		return strings.HasSuffix(kind, ".delta") && has(o, "delta")
	case kind != "":
		delta, _ := o["delta"].(map[string]any)
		return kind == "content_block_delta" && has(delta, "text", "thinking", "partial_json")
	}
	if message, isOllama := o["message"].(map[string]any); isOllama {
		return has(message, "content", "thinking")
	}
	choices, isOpenAI := o["choices"].([]any)
	if candidates, isGemini := o["candidates"].([]any); isGemini {
		return geminiText(candidates)
	}
	if !isOpenAI {
		return has(o, "content", "response", "text_output")
	}
	for _, c := range choices {
		choice, _ := c.(map[string]any)
		delta, _ := choice["delta"].(map[string]any)
		if has(choice, "text") || has(delta, "content", "reasoning", "reasoning_content") {
			return true
		}
	}
	return false
}

// geminiText reports whether a part of a candidate is a text.
func geminiText(candidates []any) bool {
	for _, c := range candidates {
		candidate, _ := c.(map[string]any)
		content, _ := candidate["content"].(map[string]any)
		parts, _ := content["parts"].([]any)
		for _, p := range parts {
			if part, _ := p.(map[string]any); has(part, "text") {
				return true
			}
		}
	}
	return false
}

func has(o map[string]any, keys ...string) bool {
	for _, key := range keys {
		if s, _ := o[key].(string); s != "" {
			return true
		}
	}
	return false
}

// counts takes the counts of tokens from wherever they are in an event; later
// ones win. In Anthropic's protocol the cached tokens are not among those of
// the input.
func (r *reply) counts(o map[string]any) {
	uncached, read, written := number(o, "input_tokens"), number(o, "cache_read_input_tokens"), number(o, "cache_creation_input_tokens")
	apart := uncached != unknown && (read != unknown || written != unknown)
	if apart {
		r.prompt = uncached + max(0, read) + max(0, written)
	}
	if read != unknown {
		r.cached = read
	}
	for key, v := range o {
		switch v := v.(type) {
		case map[string]any:
			r.counts(v)
		case float64:
			switch key {
			case "prompt_tokens", "prompt_eval_count", "tokens_evaluated", "promptTokenCount":
				r.prompt = int(v)
			case "input_tokens":
				if !apart {
					r.prompt = int(v)
				}
			case "completion_tokens", "output_tokens", "eval_count", "tokens_predicted", "candidatesTokenCount":
				r.output = int(v)
			case "cached_tokens", "cache_n", "cachedContentTokenCount":
				r.cached = int(v)
			}
		}
	}
}

func number(o map[string]any, key string) int {
	if f, ok := o[key].(float64); ok {
		return int(f)
	}
	return unknown
}

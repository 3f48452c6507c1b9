package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// object reads a JSON object in the order of its members. Of a key that is in it twice the last
// value counts, as encoding/json has it.
func object(text []byte) (fields, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') || !json.Valid(text) {
		return nil, errNoObject
	}
	var f fields
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return nil, err
		}
		var value any = raw
		if inner, err := object(raw); err == nil {
			value = inner
		}
		f = slices.DeleteFunc(f, func(m field) bool { return m.key == key })
		f = append(f, field{key.(string), value})
	}
	return f, nil
}

var errNoObject = errors.New("not an object")

// adjust makes an adjustment to a body.
func adjust(a *Adjustment, maxTokens, body string) (string, error) {
	f, err := object([]byte(body))
	if err != nil {
		return "", err
	}
	if f, err = a.apply(f, maxTokens); err != nil {
		return "", err
	}
	text, err := encodeJSON(f)
	return string(text), err
}

func TestAdjust(t *testing.T) {
	type object = map[string]any
	f := func(a Adjustment, maxTokens, body, want string) {
		t.Helper()
		for range 2 { // nothing stays behind
			got, err := adjust(&a, maxTokens, body)
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%+v: %v (-want +got):\n%s", a, err, diff)
			}
		}
	}
	const chat = `{"model":"m","messages":[{"role":"user","content":"a <b>\n"}],"max_tokens":64,"temperature":0,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`

	f(Adjustment{}, "max_tokens", ` {"any" : "text" }`, `{"any":"text"}`)
	f(Adjustment{Omit: []string{"temperature", "stream_options.continuous_usage_stats"}}, "", chat,
		`{"model":"m","messages":[{"role":"user","content":"a <b>\n"}],"max_tokens":64,"stream_options":{"include_usage":true}}`)
	f(Adjustment{Omit: []string{"seed", "options.seed", "a.b.c"}}, "", ` { "a" : { "x" : [ 1 , 2.50 ] } } `, `{"a":{"x":[1,2.50]}}`)
	f(Adjustment{Omit: []string{"a.b.c"}}, "", `{"a":{"b":{"c":1,"d":1e2}}}`, `{"a":{"b":{"d":1e2}}}`)
	f(Adjustment{Omit: []string{"a.b"}}, "", `{"a":{"b":1}}`, `{"a":{}}`)
	f(Adjustment{Omit: []string{"a"}}, "", `{"a":1}`, `{}`)
	f(Adjustment{Omit: []string{"a"}}, "", `{"\u0061":1,"a":2,"b":"\ud83d\ude42"}`, `{"b":"\ud83d\ude42"}`)

	f(Adjustment{MaxTokensField: "max_completion_tokens"}, "max_tokens", `{"a":1,"max_tokens":64,"b":2}`, `{"a":1,"max_completion_tokens":64,"b":2}`)
	f(Adjustment{MaxTokensField: "limit"}, "options.num_predict", `{"options":{"seed":1,"num_predict":64},"b":2}`, `{"options":{"seed":1,"limit":64},"b":2}`)
	f(Adjustment{MaxTokensField: "max_tokens"}, "max_tokens", `{"max_tokens":64}`, `{"max_tokens":64}`)

	f(Adjustment{Extra: object{"z": nil, "b": []any{1, "<&>"}, "a": false}}, "", `{"m":0}`, `{"m":0,"a":false,"b":[1,"<&>"],"z":null}`)
	f(Adjustment{Extra: object{"chat_template_kwargs": object{"enable_thinking": false}}}, "", `{}`, `{"chat_template_kwargs":{"enable_thinking":false}}`)
	f(Adjustment{Extra: object{"a": object{"b": object{"d": 3}, "e": 4}}}, "", `{"a":{"x":0,"b":{"c":1,"d":2}},"y":9}`, `{"a":{"x":0,"b":{"c":1,"d":3},"e":4},"y":9}`)
	f(Adjustment{Extra: object{"a": 1, "b": object{"c": 1}, "d": nil}}, "", `{"a":{"x":0},"b":[0],"d":{"x":0}}`, `{"a":1,"b":{"c":1},"d":null}`)
	f(Adjustment{Extra: object{"a": object{}}}, "", `{"a":{"x":0}}`, `{"a":{"x":0}}`)
	f(Adjustment{Extra: object{"quo\"te": 1, "dot.ted": 2}}, "", `{"dot":{"ted":1}}`, `{"dot":{"ted":1},"dot.ted":2,"quo\"te":1}`)

	// First the cap is renamed, then keys are omitted, then others come.
	f(Adjustment{MaxTokensField: "limit", Omit: []string{"limit"}}, "cap", `{"cap":1}`, `{}`)
	f(Adjustment{Omit: []string{"a"}, Extra: object{"a": object{"new": 1}}}, "", `{"a":{"old":1},"b":2}`, `{"b":2,"a":{"new":1}}`)
}

// A schema comes as a text from whoever asks.
func TestAdjustInsideASchema(t *testing.T) {
	p, _ := Lookup("ollama-generate")
	a := &Adjustment{Omit: []string{"format.b"}, Extra: map[string]any{"format": map[string]any{"c": 3}}}
	got, err := p.Body(Params{Model: "m", Prompt: "p", OutputTokens: 1, Schema: json.RawMessage(`{"a":1,"b":2}`)}, a)
	if err != nil || !strings.HasSuffix(string(got), `,"format":{"a":1,"c":3}}`) {
		t.Errorf("%s, %v", got, err)
	}
}

func TestAdjustErrors(t *testing.T) {
	f := func(a Adjustment, maxTokens, body, want string) {
		t.Helper()
		err := a.Check(&Protocol{MaxTokens: maxTokens})
		if err == nil {
			_, err = adjust(&a, maxTokens, body)
		}
		if err == nil || err.Error() != want {
			t.Errorf("%+v: got %v, want %s", a, err, want)
		}
	}
	f(Adjustment{MaxTokensField: "x"}, "", "{}", "max_tokens_field: the protocol has no key that caps the answer")
	f(Adjustment{Extra: map[string]any{"a": func() {}}}, "", "{}", "extra: build request body: json: unsupported type: func()")
	f(Adjustment{MaxTokensField: "x"}, "a.cap", `{"b":1}`, "rename a.cap to x: the body has no such key")
	f(Adjustment{MaxTokensField: "x"}, "a.cap", `{"a":{"b":1}}`, "rename a.cap to x: the body has no such key")
	f(Adjustment{MaxTokensField: "model"}, "cap", `{"model":"m","cap":1}`, "rename cap to model: the body has that key already")
	f(Adjustment{Omit: []string{"messages.role"}}, "", `{"messages":[{"role":"user"}]}`, "omit messages.role: messages: not an object")
	f(Adjustment{Omit: []string{"a.b.c"}}, "", `{"a":{"b":null}}`, "omit a.b.c: b: not an object")
}

// TestAdjustEveryProtocol checks that what a protocol builds can be adjusted.
func TestAdjustEveryProtocol(t *testing.T) {
	asked := Params{Model: "m", Prompt: "a", Inputs: []string{"a", "b"}, OutputTokens: 8}
	for _, name := range Names() {
		p, _ := Lookup(name)
		body, err := p.Body(asked, new(Adjustment))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := strings.TrimSuffix(string(body), "}") + `,"added":true}`
		if got, err := p.Body(asked, &Adjustment{Extra: map[string]any{"added": true}}); err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", name, got, err, want)
		}
		if p.Kind != Generation {
			continue
		}
		if got, err := p.Body(asked, &Adjustment{MaxTokensField: "renamed"}); err != nil || !strings.Contains(string(got), `"renamed":8`) {
			t.Errorf("%s: got %s, %v, want the cap of 8 renamed", name, got, err)
		}
	}
}

// FuzzAdjust compares with the same changes made on maps.
func FuzzAdjust(f *testing.F) {
	f.Add([]byte(`{"max_tokens":1,"a":{"b":{"c":1}},"d":"\u00e9\ud83d\ude42"}`), "a.b,d", []byte(`{"a":{"b":{"e":2}},"max":null}`), "max_completion_tokens")
	f.Add([]byte(`{"a":1,"a":{"b":2,"b":3}}`), "a.b", []byte(`{"a":{"b":0.0}}`), "")
	f.Add([]byte(`{"a":1e400,"b":"`+"\xff"+`"," ":[{}]}`), "", []byte(`{"a":[1,2],"<":">"}`), "")
	f.Add([]byte(`[]`), "x", []byte(`{}`), "x")
	f.Fuzz(func(t *testing.T, body []byte, omit string, extra []byte, field string) {
		a := Adjustment{MaxTokensField: field}
		if omit != "" {
			a.Omit = strings.Split(omit, ",")
		}
		if decodeNumbers(extra, &a.Extra) != nil || !utf8.ValidString(field) {
			return
		}
		text, err := adjust(&a, "max_tokens", string(body))
		if err != nil {
			return
		}
		var want, got map[string]any
		if err := decodeNumbers(body, &want); err != nil {
			t.Fatalf("accepted %q: %v", body, err)
		}
		if field != "" {
			v := want["max_tokens"]
			delete(want, "max_tokens")
			want[field] = v
		}
		for _, p := range a.Omit {
			omitFrom(want, strings.Split(p, "."))
		}
		mergeInto(want, a.Extra)
		if err := decodeNumbers([]byte(text), &got); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%+v of %q (-want +got):\n%s", a, body, diff)
		}
	})
}

// decodeNumbers reads JSON with its numbers as they are written.
func decodeNumbers(text []byte, v *map[string]any) error {
	if !json.Valid(text) {
		return errNoObject
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return dec.Decode(v)
}

func omitFrom(m map[string]any, path []string) {
	if len(path) == 1 {
		delete(m, path[0])
	} else if inner, ok := m[path[0]].(map[string]any); ok {
		omitFrom(inner, path[1:])
	}
}

func mergeInto(m, extra map[string]any) {
	for key, v := range extra {
		more, ok := v.(map[string]any)
		old, both := m[key].(map[string]any)
		if !ok || !both {
			m[key] = v
			continue
		}
		inner := maps.Clone(old)
		mergeInto(inner, more)
		m[key] = inner
	}
}

// BenchmarkAdjust adjusts a body with a prompt of some 8,000 tokens.
func BenchmarkAdjust(b *testing.B) {
	p, _ := Lookup("openai-chat")
	asked := Params{Model: "m", Prompt: strings.Repeat("word ", 8000), OutputTokens: 64}
	a := &Adjustment{
		MaxTokensField: "max_completion_tokens",
		Omit:           []string{"temperature", "stream_options.continuous_usage_stats"},
		Extra:          map[string]any{"chat_template_kwargs": map[string]any{"enable_thinking": false}},
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(asked.Prompt)))
	for b.Loop() {
		if _, err := p.Body(asked, a); err != nil {
			b.Fatal(err)
		}
	}
}

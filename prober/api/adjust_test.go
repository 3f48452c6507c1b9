package api

import (
	"bytes"
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestAdjust(t *testing.T) {
	type object = map[string]any
	f := func(a Adjustment, maxTokens, body, want string) {
		t.Helper()
		j, err := NewAdjuster(a, maxTokens)
		if err != nil {
			t.Error(err)
			return
		}
		given := []byte(body)
		for range 2 { // nothing stays behind
			got, err := j.Apply(given)
			if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
				t.Errorf("%+v: %v (-want +got):\n%s", a, err, diff)
			}
		}
		if string(given) != body {
			t.Errorf("%+v changed the body given to %s", a, given)
		}
	}
	const chat = `{"model":"m","messages":[{"role":"user","content":"a <b>\n"}],"max_tokens":64,"temperature":0,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`

	f(Adjustment{}, "max_tokens", ` {"any" : "text" `, ` {"any" : "text" `)
	f(Adjustment{Omit: []string{"temperature", "stream_options.continuous_usage_stats"}}, "", chat,
		`{"model":"m","messages":[{"role":"user","content":"a <b>\n"}],"max_tokens":64,"stream_options":{"include_usage":true}}`)
	f(Adjustment{Omit: []string{"seed", "options.seed", "a.b.c"}}, "", ` { "a" : { "x" : [ 1 , 2.50 ] } } `, `{"a":{"x":[ 1 , 2.50 ]}}`)
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

func TestAdjustErrors(t *testing.T) {
	f := func(a Adjustment, maxTokens, body, want string) {
		t.Helper()
		j, err := NewAdjuster(a, maxTokens)
		if err == nil {
			_, err = j.Apply([]byte(body))
		}
		if err == nil || err.Error() != want {
			t.Errorf("%+v: got %v, want %s", a, err, want)
		}
	}
	f(Adjustment{MaxTokensField: "x"}, "", "{}", "max_tokens_field: the protocol has no key that caps the answer")
	f(Adjustment{Extra: map[string]any{"a": func() {}}}, "", "{}", "extra: build request body: json: unsupported type: func()")
	f(Adjustment{MaxTokensField: "x"}, "a.cap", `{"b":1}`, "adjust request body: rename a.cap to x: the body has no such key")
	f(Adjustment{MaxTokensField: "x"}, "a.cap", `{"a":{"b":1}}`, "adjust request body: rename a.cap to x: the body has no such key")
	f(Adjustment{MaxTokensField: "model"}, "cap", `{"model":"m","cap":1}`, "adjust request body: rename cap to model: the body has that key already")
	f(Adjustment{Omit: []string{"messages.role"}}, "", `{"messages":[{"role":"user"}]}`, "adjust request body: omit messages.role: messages: not an object")
	f(Adjustment{Omit: []string{"a.b.c"}}, "", `{"a":{"b":null}}`, "adjust request body: omit a.b.c: b: not an object")
	for _, body := range []string{"", "[]", "null", `"a"`, "{", `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1}}`, `{"a":1} 2`, `{1:2}`, `{"a":01}`} {
		f(Adjustment{Omit: []string{"x"}}, "", body, "adjust request body: not an object")
	}
}

// TestAdjustEveryProtocol checks that what a protocol builds can be adjusted.
func TestAdjustEveryProtocol(t *testing.T) {
	j, err := NewAdjuster(Adjustment{Extra: map[string]any{"added": true}}, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Names() {
		p, _ := Lookup(name)
		body, err := p.Body(Params{Model: "m", Prompt: "a", Inputs: []string{"a", "b"}, OutputTokens: 8})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := strings.TrimSuffix(string(body), "}") + `,"added":true}`
		if got, err := j.Apply(body); err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", name, got, err, want)
		}
		if p.Kind != Generation {
			continue
		}
		rename, err := NewAdjuster(Adjustment{MaxTokensField: "renamed"}, p.MaxTokens)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if got, err := rename.Apply(body); err != nil || !strings.Contains(string(got), `"renamed":8`) {
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
		j, err := NewAdjuster(a, "max_tokens")
		if err != nil {
			t.Fatal(err)
		}
		given := bytes.Clone(body)
		text, err := j.Apply(body)
		if !bytes.Equal(given, body) {
			t.Fatal("the body given was changed")
		}
		if err != nil || field == "" && len(a.Omit)+len(a.Extra) == 0 {
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
		if err := decodeNumbers(text, &got); err != nil {
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
	body, err := p.Body(Params{Model: "m", Prompt: strings.Repeat("word ", 8000), OutputTokens: 64})
	if err != nil {
		b.Fatal(err)
	}
	j, err := NewAdjuster(Adjustment{
		MaxTokensField: "max_completion_tokens",
		Omit:           []string{"temperature", "stream_options.continuous_usage_stats"},
		Extra:          map[string]any{"chat_template_kwargs": map[string]any{"enable_thinking": false}},
	}, "max_tokens")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if _, err := j.Apply(body); err != nil {
			b.Fatal(err)
		}
	}
}

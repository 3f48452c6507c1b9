package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/prober/api"
)

func TestPromptsFile(t *testing.T) {
	c, err := Load("testdata/workloads.good.yml", "")
	if err != nil {
		t.Fatal(err)
	}
	user := func(text string) api.Message { return api.Message{Role: "user", Content: text} }
	want := []Prompt{
		{Messages: []api.Message{user("Capital of France?")}, Expected: "Paris", Weight: 0.5},
		{Messages: []api.Message{{Role: "system", Content: "Be short."}, user("Hi"), {Role: "assistant", Content: "Hello"}, user("A\n😀")}, Weight: 1},
		{Messages: []api.Message{user("x")}, Weight: 1},
	}
	if diff := cmp.Diff(want, c.Modules["own"].Prompts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, m := range c.Modules {
		if (m.Prompts != nil) != (name == "own") {
			t.Errorf("%s has %d prompts", name, len(m.Prompts))
		}
	}
}

// TestChecksAnswers checks which modules have a verdict on their answers.
func TestChecksAnswers(t *testing.T) {
	f := func(m Module, toLength, checks bool) {
		t.Helper()
		if m.Ask().ToLength() != toLength || m.ChecksAnswers() != checks {
			t.Errorf("%+v: to length %t, checks %t; want %t, %t", m, m.Ask().ToLength(), m.ChecksAnswers(), toLength, checks)
		}
	}
	f(Module{}, true, false)
	f(Module{Prompt: "x"}, false, false)
	f(Module{Prompt: "x", Expect: &Expect{Equals: "y"}}, false, true)
	f(Module{Questions: true}, false, true)
	f(Module{ReferenceLogprob: true}, false, false)
	f(Module{ReferenceTexts: true}, false, false)
	f(Module{ToolCall: true}, false, true)
	f(Module{Structured: true}, false, true)
	f(Module{PromptsFile: "f", Prompts: []Prompt{{}}}, false, false)
	f(Module{PromptsFile: "f", Prompts: []Prompt{{}, {Expected: "y"}}}, false, true)
}

func TestPromptsBounds(t *testing.T) {
	f := func(name, text string, line int, want string) {
		t.Helper()
		prompts, mistakes := parsePrompts([]byte(text))
		if want == "" && len(mistakes) == 0 && len(prompts) == line {
			return
		}
		if len(mistakes) != 1 || mistakes[0].line != line || mistakes[0].err.Error() != want {
			t.Errorf("%s: got %d prompts and %v, want %d: %s", name, len(prompts), mistakes, line, want)
		}
	}
	one := `{"prompt":"x"}` + "\n"
	most := strings.Repeat("é", 1<<19) // 1 MiB
	f("most lines", strings.Repeat(one, 100_000), 100_000, "")
	f("lines", strings.Repeat(one, 100_001), 100_001, "more than 100000 lines")
	f("empty lines", strings.Repeat("\n", 100_001), 100_001, "more than 100000 lines")
	f("longest text", `{"prompt":"`+most+`"}`, 1, "")
	f("text", one+`{"prompt":"`+most+`e"}`, 2, "prompt: more than 1 MiB")
	f("texts", `{"messages":[{"role":"system","content":"x"},{"role":"user","content":"`+most+`"}]}`, 1, "messages: more than 1 MiB")
	f("not UTF-8", "{\"prompt\":\"\xff\"}", 1, "not valid JSON; want one object in each line")
	f("two objects", `{"prompt":"x"} {}`, 1, "not valid JSON; want one object in each line")
	f("deep", `{"prompt":`+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)+`}`, 1, "nested too deep")

	name := filepath.Join(t.TempDir(), "large.jsonl")
	file, err := os.Create(name)
	if err == nil {
		err = file.Truncate(64<<20 + 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	_, err = Parse([]byte("modules: {a: {prompts_file: "+name+"}}\nendpoints: [{url: http://h}]\n"), "f.yml")
	if want := "f.yml:1: modules.a.prompts_file: cannot read " + name + ": larger than 67108864 bytes"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// FuzzPrompts checks that no file panics, and that what is accepted can be asked
// and is the same once written again.
func FuzzPrompts(f *testing.F) {
	names, err := filepath.Glob("testdata/*.prompts.jsonl")
	if err != nil || len(names) == 0 {
		f.Fatalf("no files (%v)", err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		prompts, mistakes := parsePrompts(data)
		if len(mistakes) > maxPromptsMistakes || len(prompts) == 0 && len(mistakes) == 0 {
			t.Fatalf("%d prompts and %d mistakes", len(prompts), len(mistakes))
		}
		if len(mistakes) > 0 {
			return
		}
		var text []byte
		for _, p := range prompts {
			text = append(text, writePrompt(t, p)...)
		}
		again, mistakes := parsePrompts(text)
		if len(mistakes) > 0 {
			t.Fatalf("does not read back: %v\n%s", mistakes, text)
		}
		if diff := cmp.Diff(prompts, again); diff != "" {
			t.Errorf("reads back differently:\n%s\n%s", diff, text)
		}
	})
}

// writePrompt writes a line, once it is known to be one that can be asked.
func writePrompt(t *testing.T, p Prompt) []byte {
	t.Helper()
	if n := len(p.Messages); n == 0 || p.Messages[n-1].Role != "user" || !(p.Weight > 0) {
		t.Fatalf("cannot be asked: %+v", p)
	}
	line := map[string]any{"weight": p.Weight}
	var messages []map[string]string
	for _, m := range p.Messages {
		messages = append(messages, map[string]string{"role": m.Role, "content": m.Content})
	}
	line["messages"] = messages
	if p.Expected != "" {
		line["expected"] = p.Expected
	}
	text, err := json.Marshal(line)
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

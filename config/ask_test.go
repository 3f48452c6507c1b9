package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAsking checks that nothing is left of what a module asks otherwise, and that what is
// asked instead is a module that a file may hold.
func TestAsking(t *testing.T) {
	c, err := Parse([]byte(`
modules:
  burst: {input_tokens: 512, output_tokens: 7, concurrency: [1, 8], timeout: 9s}
  checked: {prompt: a, expect: {equals: b}, log_answers: true, fingerprint: true}
  tracked: {track_model: true}
  scored: {reference_logprob: true}
  turns: {prefix: conversation, turns: 3}
endpoints: [{url: http://a}]
`), "f.yml")
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range c.Modules {
		own, err := m.Asking("text")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"prompt"}, own.asked()); diff != "" || own.Prompt != "text" {
			t.Errorf("%s: asks %q %s", name, own.Prompt, diff)
		}
		r := newReport("f.yml")
		own.check(r, path("modules").key(name))
		if err := r.err(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if own.OutputTokens.IsZero() || own.ChecksAnswers() || !own.KeepAnswer || own.Timeout != m.Timeout {
			t.Errorf("%s: %+v", name, own)
		}
	}
	burst, _ := c.Modules["burst"].Asking("text")
	if burst.OutputTokens.Max() != 7 || len(burst.Concurrency) != 2 {
		t.Errorf("a burst lost its cap or its levels: %+v", burst)
	}
	for _, text := range []string{"", strings.Repeat("a", maxPromptBytes+1), "\xff"} {
		if _, err := c.Modules["burst"].Asking(text); err == nil {
			t.Errorf("%.10q is asked", text)
		}
	}
}

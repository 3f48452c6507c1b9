package api

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFinishOptional lists the protocols whose real servers leave the finish
// reason out. In all others it is mandatory by the documentation.
func TestFinishOptional(t *testing.T) {
	want := []string{"openai-chat", "ollama", "ollama-generate", "tgi", "llamacpp", "triton"}
	var got []string
	for _, p := range protocols() {
		if p.FinishOptional {
			got = append(got, p.Name)
		}
		if p.EndOfBody && !p.FinishOptional {
			t.Errorf("%s: a reply may end with no finish reason by the end of its body alone, and yet must have one", p.Name)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestProtocols(t *testing.T) {
	want := []string{
		"openai-chat", "openai-completions", "openai-responses", "ollama", "ollama-generate", "tgi", "sglang", "llamacpp", "triton",
		"anthropic", "gemini", "cohere", "bedrock", "openai-embeddings", "tei", "ollama-embed", "cohere-embed", "rerank",
	}
	if d := cmp.Diff(want, Names()); d != "" {
		t.Errorf("names (-want +got):\n%s", d)
	}
	for _, name := range Names() {
		p, ok := Lookup(name)
		if !ok || p.Name != name || p.URL == nil || p.Body == nil || p.NewDecoder() == nil {
			t.Errorf("%s: %+v", name, p)
		}
		if p.Header.Get("Accept") != p.MediaTypes[0] || p.Header.Get("Accept-Encoding") != "identity" {
			t.Errorf("%s: header %v", name, p.Header)
		}
		p.Header.Set("Accept", "x")
		if again, _ := Lookup(name); again.Header.Get("Accept") == "x" {
			t.Errorf("%s: header is shared between look-ups", name)
		}
	}
	if _, ok := Lookup("openai"); ok {
		t.Error("found a protocol that does not exist")
	}
}

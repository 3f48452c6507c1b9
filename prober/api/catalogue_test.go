package api

import (
	"path"
	"slices"
	"testing"
)

// The rows of the catalogue are complete and agree with one another.
func TestCatalogue(t *testing.T) {
	names, owners := map[string]bool{"": true}, map[string]bool{}
	for _, e := range Engines() {
		if names[e.Name] || owners[e.Owner] {
			t.Errorf("engine %q: no name, or a name or an owner of another one", e.Name)
		}
		names[e.Name], owners[e.Owner] = true, e.Owner != ""
		if got := LookupEngine(e.Name); got != e {
			t.Errorf("engine %q: looked up as %+v", e.Name, got)
		}
		if got := EngineOf([]ModelInfo{{ID: "a"}, {ID: "b", OwnedBy: e.Owner}}); e.Owner != "" && got != e.Name {
			t.Errorf("owner %q: engine %q, want %q", e.Owner, got, e.Name)
		}
	}
	operations := []string{OperationChat, OperationCompletion, OperationContent, OperationEmbeddings, OperationRerank}
	for _, p := range protocols() {
		if !names[p.Engine] || !slices.Contains(operations, p.Operation) {
			t.Errorf("protocol %s: engine %q, operation %q", p.Name, p.Engine, p.Operation)
		}
		if p.ExactLength && p.Kind != Generation {
			t.Errorf("protocol %s: answers of exact length, and no answers", p.Name)
		}
	}
	for _, h := range Hosts() {
		_, err := path.Match(h.Name, "")
		if p, ok := Lookup(h.API); err != nil || h.API != "" && (!ok || p.Engine != "") {
			t.Errorf("host %q: %v, protocol %q", h.Name, err, h.API)
		}
	}
}

func TestEngineOf(t *testing.T) {
	f := func(want string, owners ...string) {
		t.Helper()
		var models []ModelInfo
		for _, o := range owners {
			models = append(models, ModelInfo{OwnedBy: o})
		}
		if got := EngineOf(models); got != want {
			t.Errorf("owners %q: %q, want %q", owners, got, want)
		}
	}
	f("")
	f("", "")
	f("", "openai", "acme")
	f("vllm", "acme", "vllm", "vllm")
	f("", "vllm", "sglang")
	f("", "vllm", "sglang", "vllm")
}

package api

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"
)

// The rows of the catalogue are complete and agree with one another.
func TestCatalogue(t *testing.T) {
	names, owners := map[string]bool{"": true}, map[string]bool{}
	for _, e := range catalogue().Engines {
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
	}
	for _, h := range catalogue().Hosts {
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

func TestProtocols(t *testing.T) {
	for _, name := range Names() {
		p, ok := Lookup(name)
		if !ok || p.Name != name || p.Kind == "" || p.URL == nil || p.body == nil || p.NewDecoder() == nil {
			t.Errorf("%s: %+v", name, p)
		}
		if h := p.Header(); h.Get("Accept") != p.MediaType() || h.Get("Accept-Encoding") != "identity" {
			t.Errorf("%s: header %v", name, h)
		}
	}
	if _, ok := Lookup("openai"); ok {
		t.Error("found a protocol that does not exist")
	}
}

var update = flag.Bool("update", false, "rewrite the files that are generated from the code")

const referenceFile = "../../docs/protocols.md"

const referenceIntro = `# Protocols

<!-- Generated from the code: go test ./prober/api -run TestReference -update -->

The key ` + "`api`" + ` of an endpoint names the wire protocol that a probe speaks; left out, it is detected by asking the server.
A module means the same on all of them: the same prompt, the same cap on the answer, the same instants. What a protocol or a
server does not report is absent from the metrics, never 0.

`

// doc describes for people what a protocol lets a probe measure: its row of protocols.yml.
type doc struct {
	Title, Servers, Auth           string
	FirstToken                     string `yaml:"first_token"`
	End, Usage, Cached, Reasoning  string
	ServerTimes                    string `yaml:"server_times"`
	Length, Conversation, Model    string
	Fingerprint, Scoring, Logprobs string
	Tools, Structured              string
	Unmet                          bool
}

// docs returns protocols.yml by the name of the protocol.
func docs(t *testing.T) map[string]doc {
	t.Helper()
	text, err := os.ReadFile("protocols.yml")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]doc
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

// The reference is what the code and protocols.yml say of the protocols.
func TestReference(t *testing.T) {
	docs := docs(t)
	for _, name := range Names() {
		if docs[name].Title == "" || len(docs) != len(Names()) {
			t.Errorf("%d rows in protocols.yml for %d protocols, %s: %+v", len(docs), len(Names()), name, docs[name])
		}
	}
	got := reference(docs)
	if *update {
		if err := os.WriteFile(referenceFile, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("docs/protocols.md is not current, run the test with -update (-file +code):\n%s", diff)
	}
}

func reference(docs map[string]doc) string {
	var b strings.Builder
	b.WriteString(referenceIntro)
	b.WriteString("| `api` | kind | TTFT, TPOT, gaps | tokens | cached tokens | reasoning apart | server's own time | model named | fingerprint | log-probabilities | score of a text | tools | JSON schema |\n" +
		strings.Repeat("| --- ", 13) + "|\n")
	mark := func(reported bool) string {
		if reported {
			return "yes"
		}
		return "–"
	}
	for _, p := range protocols() {
		d := docs[p.Name]
		fmt.Fprintf(&b, "| [`%s`](#%s) | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", p.Name, p.Name, p.Kind,
			mark(p.Kind == Generation), mark(d.Usage != ""), mark(d.Cached != ""), mark(d.Reasoning != ""), mark(d.ServerTimes != ""),
			mark(d.Model != ""), mark(d.Fingerprint != ""), mark(d.Logprobs != ""), mark(p.scoring != nil), mark(p.Tools), mark(p.Structured))
	}
	for _, p := range protocols() {
		d := docs[p.Name]
		fmt.Fprintf(&b, "\n## %s\n\n%s: %s.\n\n| | |\n| --- | --- |\n", p.Name, d.Title, d.Servers)
		for _, row := range [][2]string{
			{"key", d.Auth},
			{"first token", d.FirstToken},
			{"end of the reply", d.End},
			{"finish reason", finishRow(&p)},
			{"tokens", d.Usage},
			{"cached tokens", d.Cached},
			{"reasoning tokens", d.Reasoning},
			{"server's own time", d.ServerTimes},
			{"model in the reply", d.Model},
			{"fingerprint", d.Fingerprint},
			{"log-probabilities of the first token", d.Logprobs},
			{"score of a text", d.Scoring},
			{"tools", d.Tools},
			{"JSON schema", d.Structured},
			{"length of the answer", d.Length},
			{"conversation", d.Conversation},
			{"model", modelRow(&p)},
			{"tested with", testedRow(d.Unmet)},
		} {
			if row[1] != "" {
				fmt.Fprintf(&b, "| %s | %s |\n", row[0], row[1])
			}
		}
	}
	return b.String()
}

func finishRow(p *Protocol) string {
	switch {
	case p.Kind != Generation:
		return ""
	case p.EndOfBody:
		return "real servers leave it out"
	case p.FinishOptional:
		return "real servers leave it out; without one the reply needs its end marker"
	}
	return "mandatory: without one the reply was cut"
}

func testedRow(unmet bool) string {
	if unmet {
		return "composed replies; no real server was met"
	}
	return "replies of [running servers](compatibility.md#protocols) or recorded ones"
}

func modelRow(p *Protocol) string {
	switch {
	case p.Models != nil && p.ModelOptional:
		return "asked from the server; not needed"
	case p.Models != nil:
		return "asked from the server"
	case p.ModelOptional:
		return "not needed"
	}
	return "must be configured"
}

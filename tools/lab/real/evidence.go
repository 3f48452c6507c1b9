package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The results of a check.
const (
	holds        = "ok"
	fails        = "failed"
	notChecked   = "not checked"
	doesNotApply = "does not apply"
)

// evidence is what a run found out about one server.
type evidence struct {
	Server  string  `json:"server"`
	Version string  `json:"version"`
	Date    string  `json:"date"`
	Checks  []check `json:"checks"`
}

// check is one row of the evidence.
type check struct {
	Name   string `json:"name"`
	Result string `json:"result"`
	Detail string `json:"detail,omitempty"`
	Date   string `json:"date,omitempty"` // if it is another than that of the evidence
}

// notCheckable is an error that says why something could not be checked.
type notCheckable struct{ reason string }

func (e notCheckable) Error() string { return e.reason }

func cannot(format string, args ...any) error { return notCheckable{fmt.Sprintf(format, args...)} }

// notOffered is an error that says what of a check a server does not have.
type notOffered struct{ reason string }

func (e notOffered) Error() string { return e.reason }

// add adds the outcome of a check.
func (e *evidence) add(name, detail string, err error) {
	c := check{Name: name, Result: holds, Detail: detail}
	var n notCheckable
	var o notOffered
	switch {
	case errors.As(err, &n):
		c.Result, c.Detail = notChecked, n.reason
	case errors.As(err, &o):
		c.Result, c.Detail = doesNotApply, o.reason
	case err != nil:
		c.Result, c.Detail = fails, err.Error()
	}
	e.Checks = append(e.Checks, c)
	fmt.Printf("%-12s %-28s %s: %s\n", e.Server, c.Name, c.Result, c.Detail)
}

// keep adds the earlier results for the same version, in the order of the
// scenarios. The date stays theirs, but of the checks that were run again.
func (e *evidence) keep(before *evidence, s *server) {
	if before == nil || before.Version != e.Version {
		return
	}
	for i := range e.Checks {
		e.Checks[i].Date = e.Date
	}
	e.Date = before.Date
	var all []check
	for _, c := range scenarios(s) {
		isIt := func(found check) bool { return found.Name == c.name }
		if i := slices.IndexFunc(e.Checks, isIt); i >= 0 {
			all = append(all, e.Checks[i])
		} else if i := slices.IndexFunc(before.Checks, isIt); i >= 0 {
			all = append(all, before.Checks[i])
		}
	}
	e.Checks = all
}

func evidenceFile(directory, server string) string {
	return filepath.Join(directory, "evidence", server+".json")
}

func (e *evidence) write(directory string) error {
	data, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(directory, "evidence"), 0o755); err != nil {
		return err
	}
	return os.WriteFile(evidenceFile(directory, e.Server), append(data, '\n'), 0o644)
}

// readEvidence returns nil for a server that no run has looked at.
func readEvidence(directory, server string) (*evidence, error) {
	data, err := os.ReadFile(evidenceFile(directory, server))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	e := &evidence{}
	if err := json.Unmarshal(data, e); err != nil {
		return nil, fmt.Errorf("read %s: %w", evidenceFile(directory, server), err)
	}
	return e, nil
}

const documentHead = `# Compatibility

<!-- Generated from tools/lab/real/evidence: cd tools/lab/real && go run . -document -->

The real servers that the exporter was checked against, each installed from its package and run on the CPU with a model of two layers
and random weights: ` + "`make real`" + `. What is not listed here was checked against recorded replies and the simulator only.

The exporter's figures are compared with a recording of the same bytes that a relay between exporter and server made: tokens with the
counts in the raw reply, times with the arrival of the pieces there, and each ` + "`inference_server_*`" + ` value with the very page that
was read. An outcome is compared with what was done to the server. Users' requests, as the exporter counts them by the server's histograms,
are compared with the figures of a load tool, that of vLLM's package, a client that may see a token up to 50 ms after the server.

`

// document is docs/compatibility.md.
func document(directory string) (string, error) {
	var b strings.Builder
	b.WriteString(documentHead + "| server | version | date | checked | failed | not checked |\n| --- | --- | --- | ---: | ---: | ---: |\n")
	var details strings.Builder
	stands := map[string][]string{} // by protocol
	for _, s := range servers() {
		if s.backendOnly {
			continue
		}
		e, err := readEvidence(directory, s.name)
		if err != nil {
			return "", err
		}
		if e == nil {
			fmt.Fprintf(&b, "| %s | – | – | – | – | all: no run yet |\n", s.title)
			continue
		}
		count := map[string]int{}
		for _, c := range e.Checks {
			count[c.Result]++
			if api, ok := strings.CutPrefix(c.Name, "probe by "); ok && c.Result == holds && !slices.Contains(s.behind, "simulate") {
				stands[api] = append(stands[api], s.title)
			}
		}
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s | %d | %d | %d |\n", s.title, s.name, e.Version, e.Date, count[holds], count[fails], count[notChecked])
		s.section(&details, e)
	}
	claims, err := protocolClaims(directory, stands)
	if err != nil {
		return "", err
	}
	cluster, err := os.ReadFile(filepath.Join(directory, "evidence", "kubernetes.md.tmpl"))
	if err != nil {
		return "", err
	}
	return b.String() + claims + string(cluster) + details.String() + documentFoot, nil
}

// protocolClaims is what stands behind each protocol of docs/protocols.md: the
// servers that were probed by it.
func protocolClaims(directory string, stands map[string][]string) (string, error) {
	text, err := os.ReadFile(filepath.Join(directory, "..", "..", "..", "docs", "protocols.md"))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("\n## Protocols\n\n| protocol | compared with the raw replies of |\n| --- | --- |\n")
	for _, m := range heading.FindAllStringSubmatch(string(text), -1) {
		behind := "no running server: recorded and composed replies only"
		if names := stands[m[1]]; len(names) > 0 {
			behind = strings.Join(names, "; ")
		}
		fmt.Fprintf(&b, "| [`%s`](protocols.md#%s) | %s |\n", m[1], m[1], behind)
	}
	return b.String(), nil
}

// heading is that of a protocol.
var heading = regexp.MustCompile(`(?m)^## (\S+)$`)

// section is the part of one server.
func (s *server) section(b *strings.Builder, e *evidence) {
	fmt.Fprintf(b, "\n## %s\n\n%s %s, %s.\n\n| check | result | |\n| --- | --- | --- |\n", s.name, s.title, e.Version, e.Date)
	for _, c := range e.Checks {
		result := strings.ToUpper(c.Result)
		if c.Date != "" {
			result += ", " + c.Date
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", c.Name, result, strings.ReplaceAll(c.Detail, "|", "\\|"))
	}
	for i, limit := range s.limits {
		if i == 0 {
			b.WriteString("\nKnown limits:\n\n")
		}
		fmt.Fprintf(b, "- %s\n", limit)
	}
}

const documentFoot = `
## Not to be had as a package

Text Generation Inference, Text Embeddings Inference, Triton, TensorRT-LLM and NIM are distributed as container images;
their protocols and pages rest on recorded and composed replies. The hosted services (OpenAI, Anthropic, Gemini, Cohere, Bedrock and
others) rest on recorded replies. Pages of metrics were compared with those of running servers for vLLM, SGLang, LiteLLM and Dynamo; the
page on [engines](engines.md#setup-and-notes) names for each other mapping what it rests on.
`

package detect

import (
	"fmt"
	"net/url"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/inference-exporter/inference_exporter/prober/api"
)

// maxOthers is how many other models a stanza lists.
const maxOthers = 20

// Stanza returns a configuration file that probes base as the finding says:
// what it must hold and nothing that is default. Of several models the first
// is taken, and a comment lists the others; where none is known and the
// protocol needs one, a comment says so.
func Stanza(f Finding, base *url.URL) string {
	var b strings.Builder
	fmt.Fprintf(&b, "endpoints:\n  - url: %s\n    api: %s\n", scalar(base.String()), f.API)
	switch p, ok := api.Lookup(f.API); {
	case len(f.Models) > 0:
		fmt.Fprintf(&b, "    model: %s%s\n", scalar(f.Models[0].ID), others(f.Models[1:]))
	case !ok || !p.ModelOptional:
		b.WriteString("    # model: to be set, as no list of models could be read\n")
	}
	return b.String()
}

// others is a comment with the names of models.
func others(models []api.ModelInfo) string {
	if len(models) == 0 {
		return ""
	}
	var names []string
	for _, m := range models[:min(len(models), maxOthers)] {
		names = append(names, m.ID)
	}
	more := ""
	if n := len(models) - len(names); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return " # or " + strings.Join(names, ", ") + more
}

// scalar returns s as YAML on one line, quoted where it must be.
func scalar(s string) string {
	text, err := yaml.Marshal(s)
	if err != nil {
		panic(err) // cannot happen: a string
	}
	return strings.TrimSuffix(string(text), "\n")
}

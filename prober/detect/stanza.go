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
// that is no adapter of another is taken, and a comment lists the others; where
// none is known and the protocol needs one, a comment says so.
func Stanza(f Finding, base *url.URL) string {
	var b strings.Builder
	fmt.Fprintf(&b, "endpoints:\n  - url: %s\n    api: %s\n", scalar(base.String()), f.API)
	switch p, ok := api.Lookup(f.API); {
	case len(f.Models) > 0:
		model := api.BaseModels(f.Models)[0].ID
		fmt.Fprintf(&b, "    model: %s%s\n", scalar(model), others(f.Models, model))
	case !ok || !p.ModelOptional:
		b.WriteString("    # model: to be set, as no list of models could be read\n")
	}
	return b.String()
}

// others is a comment with the names of all models but one.
func others(models []api.ModelInfo, taken string) string {
	var names []string
	for _, m := range models {
		if m.ID != taken {
			names = append(names, m.ID)
		}
	}
	if len(names) == 0 {
		return ""
	}
	more := ""
	if n := len(names) - maxOthers; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
		names = names[:maxOthers]
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

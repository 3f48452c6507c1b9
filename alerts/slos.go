package alerts

import (
	"bytes"
	"embed"
	"fmt"
	"hash/fnv"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// SLO is one objective of the probes of an endpoint with a module, for tools that make their own rules.
type SLO struct {
	// Endpoint, Module and SLO are the values of the labels of its counters.
	Endpoint, Module, SLO string
	// Objective is the share of the probes that must be good, between 0 and 1.
	Objective float64
	// Good is what a good probe does, in words: "succeed".
	Good string
}

// badCounter and totalCounter count the probes that objectives judge.
const (
	badCounter   = "inference_probe_slo_bad_total"
	totalCounter = "inference_probe_slo_eligible_total"
)

// selector selects the series of a counter for the endpoint and the module, and by
// matchers of the label slo. Two braces would begin an action of a template.
func (s *SLO) selector(counter, bySLO string) string {
	quoted := func(value string) string { return strings.ReplaceAll(strconv.Quote(value), "{{", `{\x7b`) }
	return fmt.Sprintf("%s{endpoint=%s,module=%s,%s}", counter, quoted(s.Endpoint), quoted(s.Module), bySLO)
}

// notOthers matches the label slo by excluding the other objectives that the exporter
// counts. Pyrra gives the name of its object as the label slo to what it records, and
// reads that by its own matcher and those of the counter: they must select both.
func (s *SLO) notOthers() string {
	var matchers []string
	for _, other := range []string{"availability", "ttft", "tpot", "e2e", "fluidity"} {
		if other != s.SLO {
			matchers = append(matchers, "slo!="+strconv.Quote(other))
		}
	}
	return strings.Join(matchers, ",")
}

// maxSLOName is how long a name may be: that of a label in DNS, which Kubernetes and
// OpenSLO want. OpenSLO has the same limit for displayed names.
const maxSLOName = 63

var notInName = regexp.MustCompile("[^a-z0-9]+")

// name is the name of the SLO, unique among all of a configuration: where the parts are
// not in it as they are, a hash of them is.
func (s *SLO) name() string {
	parts := s.Endpoint + "-" + s.Module + "-" + s.SLO
	name := strings.Trim(notInName.ReplaceAllString(strings.ToLower(parts), "-"), "-")
	if name == parts && len(name) <= maxSLOName && !strings.Contains(s.Module, "-") {
		return name
	}
	hash := fnv.New32a()
	fmt.Fprintf(hash, "%q %q %q", s.Endpoint, s.Module, s.SLO)
	tail := fmt.Sprintf("-%08x", hash.Sum32())
	return strings.TrimLeft(strings.TrimRight(name[:min(len(name), maxSLOName-len(tail))], "-")+tail, "-")
}

// formats are what tools read, as templates.
//
//go:embed formats
var formats embed.FS

// inFormat returns data in a format, below a comment.
func inFormat(comment, format string, data any) ([]byte, error) {
	b := bytes.NewBufferString(comment)
	scalar := func(v any) (string, error) {
		text, err := yaml.Marshal(v)
		return strings.TrimSpace(string(text)), err
	}
	t, err := template.New(format+".yml").Funcs(template.FuncMap{"yaml": scalar}).ParseFS(formats, "formats/"+format+".yml")
	if err == nil {
		err = t.Execute(b, data)
	}
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", format, err)
	}
	return b.Bytes(), nil
}

// Alertmanager returns a configuration of Alertmanager for the alerts: routes and
// inhibitions, with receivers that are to be filled in.
func Alertmanager(o Options) ([]byte, error) {
	return inFormat("", "alertmanager", map[string]string{
		"Group":    once(slices.Concat([]string{"endpoint", "gateway"}, o.Keep, []string{"instance"})),
		"Endpoint": once(append([]string{"endpoint"}, o.Keep...)),
		"Scope":    once(append([]string{"scope"}, o.Keep...)),
	})
}

// templated is what the templates have of an SLO.
type templated struct {
	Endpoint, Module, SLO          string
	Objective                      float64
	Name, DisplayName, Description string
	Percent                        string
	Category                       string // of the alerts on the SLO, by which they are routed
	Bad, Total                     string // counters, as selectors
	BadNotOthers, TotalNotOthers   string // by what notOthers returns
}

func (s *SLO) templated() templated {
	// Without the noise of binary fractions.
	percent := strconv.FormatFloat(math.Round(s.Objective*1e10)/1e8, 'f', -1, 64)
	display := strings.Join([]string{s.Endpoint, s.Module, s.SLO}, " ")
	if utf8.RuneCountInString(display) > maxSLOName {
		display = ""
	}
	category := "latency"
	if s.SLO == "availability" {
		category = s.SLO
	}
	own, notOthers := "slo="+strconv.Quote(s.SLO), s.notOthers()
	return templated{
		Endpoint: s.Endpoint, Module: s.Module, SLO: s.SLO, Objective: s.Objective, Name: s.name(), DisplayName: display, Percent: percent, Category: category,
		Description: fmt.Sprintf("%s %% of the probes of %s with %s %s.", percent, s.Endpoint, s.Module, s.Good),
		Bad:         s.selector(badCounter, own), Total: s.selector(totalCounter, own),
		BadNotOthers: s.selector(badCounter, notOthers), TotalNotOthers: s.selector(totalCounter, notOthers),
	}
}

// SLOFormats lists the formats of SLOs: for Sloth, by its specification prometheus/v1, for Pyrra,
// an object each, and by the specification OpenSLO v1, with the service that they belong to.
func SLOFormats() []string { return []string{"sloth", "pyrra", "openslo"} }

// SLOs returns SLOs in one of SLOFormats.
func SLOs(format string, slos []SLO) ([]byte, error) {
	all := make([]templated, len(slos))
	for i := range slos {
		all[i] = slos[i].templated()
	}
	return inFormat(madeBy+"# Format: "+format+
		". The rules of the format prometheus ask for more bad probes than chance explains; those made of this do not.\n", format, all)
}

// Mimir renders groups as a file for mimirtool and cortextool, in a namespace of their own.
func Mimir(groups []Group) ([]byte, error) {
	return render(struct {
		Namespace string  `yaml:"namespace"`
		Groups    []Group `yaml:"groups"`
	}{"inference_exporter", groups})
}

// render renders a document of YAML below a comment.
func render(document any) ([]byte, error) {
	b := bytes.NewBufferString(madeBy)
	enc := yaml.NewEncoder(b)
	enc.SetIndent(2)
	if err := enc.Encode(document); err != nil {
		return nil, fmt.Errorf("render rules: %w", err)
	}
	return b.Bytes(), nil
}

// madeBy is the comment at the head of all files.
const madeBy = "# Made by inference_exporter rules: change the configuration, not this file.\n"

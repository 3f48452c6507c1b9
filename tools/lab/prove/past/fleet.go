package past

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/inference-exporter/inference_exporter/collector"
)

// Fleet says what there is.
type Fleet struct {
	Endpoints int
	// Modules and Servers are those of each endpoint.
	Modules, Servers int
	// Probers share the endpoints. Machines have eight GPUs and an exporter each.
	Probers, Machines int
	// Scrape is the time between two scrapes.
	Scrape time.Duration
}

// gpusOfMachine is how many GPUs a machine has.
const gpusOfMachine = 8

// bounds are of the classic buckets of histograms, 20 as those of the exporter.
var bounds = strings.Fields("0.005 0.01 0.02 0.03 0.05 0.075 0.1 0.15 0.2 0.3 0.5 0.75 1 1.5 2 3 5 10 30 +Inf")

// Lookbacks returns how far back each series is read by queries over a range of
// time.
func Lookbacks(queries []parser.Expr, over time.Duration) map[string]time.Duration {
	far := map[string]time.Duration{}
	for _, q := range queries {
		parser.Inspect(q, func(n parser.Node, path []parser.Node) error {
			s, ok := n.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			back := over + 5*time.Minute + s.OriginalOffset
			for _, outer := range path {
				switch o := outer.(type) {
				case *parser.MatrixSelector:
					back += o.Range
				case *parser.SubqueryExpr:
					back += o.Range + o.OriginalOffset
				}
			}
			far[s.Name] = max(far[s.Name], back)
			return nil
		})
	}
	return far
}

// Scraped returns the series of the exporter's families and of the process that
// are read.
func (f Fleet) Scraped(catalogue []collector.Family, far map[string]time.Duration) []Series {
	var all []Series
	for _, family := range catalogue {
		for _, suffix := range []string{"", "_sum", "_count", "_bucket"} {
			name := family.Name + suffix
			back, read := far[name]
			isHistogram := family.Type == collector.Histogram || family.Type == collector.Summary
			if !read || isHistogram == (suffix == "") { // no native histograms
				continue
			}
			grows := isHistogram || family.Type == collector.Counter
			for _, with := range f.labelled(family, suffix == "_bucket") {
				all = append(all, f.series(name, with, back, f.Scrape, grows))
			}
		}
	}
	for name, back := range far {
		if strings.HasPrefix(name, "inference_") || strings.Contains(name, ":") || name == "ALERTS" {
			continue
		}
		for _, with := range f.exporters() {
			if name == "go_gc_duration_seconds" {
				with = append(with, "quantile", "1.0")
			}
			all = append(all, f.series(name, with, back, f.Scrape, strings.HasSuffix(name, "_total")))
		}
	}
	return all
}

// Recorded returns the series of a recording rule that is evaluated every step,
// by the labels of its outermost aggregation.
func (f Fleet) Recorded(name string, expr parser.Expr, step time.Duration, far map[string]time.Duration) []Series {
	back, read := far[name]
	if !read {
		return nil
	}
	var by []string
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if a, ok := n.(*parser.AggregateExpr); ok && by == nil {
			by = a.Grouping
		}
		if b, ok := n.(*parser.BinaryExpr); ok && by == nil && b.VectorMatching != nil && b.VectorMatching.On {
			by = b.VectorMatching.MatchingLabels
		}
		return nil
	})
	perExporter := slices.Contains(by, "instance")
	by = slices.DeleteFunc(slices.Clone(by), func(l string) bool { return l == "le" || l == "job" || l == "instance" })
	family := collector.Family{Group: collector.GroupProbe, Labels: by}
	if len(by) == 0 {
		family.Group = collector.GroupExporter
	}
	if slices.Contains(by, "slo") {
		family.Values = []string{"availability", "ttft", "tpot", "e2e", "fluidity"}
	}
	var all []Series
	for _, with := range f.labelled(family, false) {
		if !perExporter {
			with = with[4:]
		}
		all = append(all, f.series(name, with, back, step, false))
	}
	return all
}

func (f Fleet) series(name string, with []string, back, step time.Duration, grows bool) Series {
	s := Series{Labels: labels.FromStrings(append([]string{labels.MetricName, name}, with...)...), Step: step, For: back, Level: 0.5}
	if grows {
		s.Growth = 20
	}
	return s
}

// labelled returns the labels of all series of a family as names and values, the
// first two of which are job and instance.
func (f Fleet) labelled(family collector.Family, buckets bool) [][]string {
	var all [][]string
	var known []string
	switch family.Group {
	case collector.GroupGPU:
		all, known = f.gpus(family), []string{"uuid", "gpu"}
	case collector.GroupExporter:
		all = f.exporters()
	case collector.GroupGateway:
		all, known = f.gateways(family)
	default:
		all, known = f.endpoints(), []string{"endpoint", "model"}
	}
	for i, l := range family.Labels {
		if !slices.Contains(known, l) {
			all = times(all, l, f.values(family, i))
		}
	}
	if buckets {
		all = times(all, "le", bounds)
	}
	return all
}

// values returns the values of a label of a family. Lengths and bursts are of
// few modules, and not of these.
func (f Fleet) values(family collector.Family, i int) []string {
	switch label := family.Labels[i]; {
	case label == "input_tokens", label == "output_tokens", label == "concurrency":
		return []string{""}
	case label == "module":
		return numbered("module", f.Modules)
	case label == "server":
		return numbered("server", f.Servers)
	case family.Values != nil && i == len(family.Labels)-1:
		return family.Values
	default:
		return []string{label}
	}
}

func numbered(what string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%03d", what, i)
	}
	return all
}

// times returns each of some sets of labels with each value of one more label.
func times(all [][]string, label string, values []string) [][]string {
	var more [][]string
	for _, with := range all {
		for _, v := range values {
			more = append(more, append(slices.Clip(with), label, v))
		}
	}
	return more
}

const job = "inference_exporter"

func (f Fleet) endpoints() [][]string {
	var all [][]string
	for i := range f.Endpoints {
		all = append(all, []string{
			"job", job, "instance", fmt.Sprintf("prober-%d", i%f.Probers),
			"endpoint", fmt.Sprintf("endpoint-%03d", i), "model", fmt.Sprintf("model-%02d", i%10),
		})
	}
	return all
}

// exporters are the probers and those on the machines.
func (f Fleet) exporters() [][]string {
	var all [][]string
	for i := range f.Probers {
		all = append(all, []string{"job", job, "instance", fmt.Sprintf("prober-%d", i)})
	}
	for i := range f.Machines {
		all = append(all, []string{"job", job, "instance", fmt.Sprintf("node-%02d", i)})
	}
	return all
}

// gateways are one for each exporter, with all endpoints of it behind.
func (f Fleet) gateways(family collector.Family) (all [][]string, known []string) {
	if !slices.Contains(family.Labels, "endpoint") {
		return times(f.exporters()[:f.Probers], "gateway", []string{"gateway"}), []string{"gateway"}
	}
	for _, e := range f.endpoints() {
		all = append(all, e[:6]) // without the model
	}
	return times(all, "gateway", []string{"gateway"}), []string{"endpoint", "gateway"}
}

// gpus are those of the machines, or the machines where the family has no GPU.
func (f Fleet) gpus(family collector.Family) [][]string {
	machines := f.exporters()[f.Probers:]
	if !slices.Contains(family.Labels, "uuid") {
		return machines
	}
	var all [][]string
	for _, m := range machines {
		for g := range gpusOfMachine {
			with := append(slices.Clip(m), "uuid", fmt.Sprintf("GPU-%s-%d", m[3], g))
			if slices.Contains(family.Labels, "gpu") {
				with = append(with, "gpu", fmt.Sprint(g))
			}
			all = append(all, with)
		}
	}
	return all
}

package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/inference-exporter/inference_exporter/internal/stats"
)

// The tables of loads are between these lines of the document.
const (
	beginLoad = "<!-- tables of tools/lab/peers: go run . -load -->\n"
	endLoad   = "<!-- end of the tables of loads -->\n"
)

// compared are the figures of a run in which the tools are compared.
var compared = []struct {
	name string
	of   func(f *loadFigures) float64
}{
	{"TTFT p50", func(f *loadFigures) float64 { return f.TTFT["p50"].Value }},
	{"TTFT p90", func(f *loadFigures) float64 { return f.TTFT["p90"].Value }},
	{"TTFT p99", func(f *loadFigures) float64 { return f.TTFT["p99"].Value }},
	{"TPOT p50", func(f *loadFigures) float64 { return f.TPOT["p50"].Value }},
	{"TPOT p99", func(f *loadFigures) float64 { return f.TPOT["p99"].Value }},
	{"tokens/s", func(f *loadFigures) float64 { return f.TokensPerSecond / 1000 }}, // all are shown times 1,000
}

// words of a load, for the document.
func (l loadOf) words() string {
	text := fmt.Sprintf("%d users", l.Users)
	if l.Steps {
		text += " who start one after the other where the tool can"
	}
	if l.Mixed {
		return text + fmt.Sprintf(", answers of %d to %d tokens", loadLeast, loadMost)
	}
	return text + fmt.Sprintf(", answers of %d tokens", loadOutput)
}

// loadTables are the tables of loads of the document: what each tool measured, and what this exporter measured more or less.
func loadTables(e loadEvidence) string {
	if len(e.Rows) == 0 {
		return "Not measured yet.\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Measured on %s on %s, %d s each, prompts of %d tokens. Times are in ms: the median over the rounds, in brackets the least and the most.\n",
		e.Date, e.Machine, loadSeconds, loadInput)
	for _, s := range loadServers() {
		for _, load := range s.loads {
			rows := slices.DeleteFunc(slices.Clone(e.Rows), func(r loadRow) bool { return r.Server != s.name || r.loadOf != load })
			if len(rows) > 0 {
				fmt.Fprintf(&b, "\n%s: %s, %d rounds.\n\n%s\n%s", s.title, load.words(), len(rows[0].Runs), measuredTable(rows), differenceTable(rows))
			}
		}
	}
	return b.String()
}

func (r *loadRow) title() string { return strings.TrimSpace(r.Tool + " " + r.Version) }

// measuredTable has what each tool measured.
func measuredTable(rows []loadRow) string {
	var b strings.Builder
	b.WriteString("| tool | requests |")
	for _, c := range compared {
		fmt.Fprintf(&b, " %s |", c.name)
	}
	b.WriteString(" CPU | memory |\n| --- | ---: | --- | --- | --- | --- | --- | --- | ---: | ---: |\n")
	for _, r := range rows {
		if len(r.Runs) == 0 {
			fmt.Fprintf(&b, "| %s | not measured: %s | | | | | | | | |\n", r.title(), r.Error)
			continue
		}
		spread := func(of func(f *loadFigures) float64) string {
			all := r.sorted(of)
			ms := func(v float64) string { return strconv.FormatFloat(1000*v, 'g', 3, 64) }
			return fmt.Sprintf("%s (%s to %s)", ms(stats.Median(all)), ms(all[0]), ms(all[len(all)-1]))
		}
		fmt.Fprintf(&b, "| %s | %.0f |", r.title(), stats.Median(r.sorted(func(f *loadFigures) float64 { return f.Requests })))
		for _, c := range compared {
			fmt.Fprintf(&b, " %s |", spread(c.of))
		}
		fmt.Fprintf(&b, " %.1f s | %s MB |\n", stats.Median(r.sorted(func(f *loadFigures) float64 { return f.Cost.CPU.Seconds() })),
			megabytes(int64(stats.Median(r.sorted(func(f *loadFigures) float64 { return float64(f.Cost.Memory) })))))
	}
	return b.String()
}

// sorted returns a figure of all runs in rising order.
func (r *loadRow) sorted(of func(f *loadFigures) float64) (all []float64) {
	for i := range r.Runs {
		all = append(all, of(&r.Runs[i]))
	}
	slices.Sort(all)
	return all
}

// differenceTable has by how much the figures of this exporter differ from those of each tool, and what the server counted of each.
func differenceTable(rows []loadRow) string {
	var b strings.Builder
	b.WriteString("| tool | tokens of a prompt | of them cached | of an answer | prefilled together |")
	for _, c := range compared {
		fmt.Fprintf(&b, " %s here |", c.name)
	}
	b.WriteString("\n| --- | ---: | ---: | ---: | ---: | --- | --- | --- | --- | --- | --- |\n")
	own := &rows[0]
	for i := range rows {
		r := &rows[i]
		if len(r.Runs) == 0 {
			continue
		}
		fmt.Fprintf(&b, "| %s |", r.title())
		if r.Runs[0].Served != nil {
			for j, form := range []string{" %.0f |", " %.0f |", " %.1f |", " %.2f |"} {
				fmt.Fprintf(&b, form, stats.Median(r.sorted(func(f *loadFigures) float64 {
					s := f.Served
					return []float64{s.Prompt, s.Cached, s.Output, s.Together}[j]
				})))
			}
		} else {
			b.WriteString(" | | | |")
		}
		for _, c := range compared {
			fmt.Fprintf(&b, " %s |", difference(own, r, c.of))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// difference returns by how many percent a figure of own is above that of another tool in the same round, on average over the
// rounds in which the server had few of the prompts in its cache, and half the width of the interval of 95 % confidence (Student's t, of the logarithms).
func difference(own, other *loadRow, of func(f *loadFigures) float64) string {
	var n int
	var sum, squares float64
	for i := range min(len(own.Runs), len(other.Runs)) {
		if s := other.Runs[i].Served; s != nil && s.Cached > s.Prompt/10 {
			continue
		}
		d := math.Log(of(&own.Runs[i]) / of(&other.Runs[i]))
		n, sum, squares = n+1, sum+d, squares+d*d
	}
	if n < 2 || own.Tool != "inference_exporter" || own == other {
		return ""
	}
	mean := sum / float64(n)
	half := stats.StudentT95(n-1) * math.Sqrt(max(0, squares/float64(n)-mean*mean)/float64(n-1))
	text := fmt.Sprintf("%+.0f %% ± %.0f", 100*(math.Exp(mean)-1), 100*(math.Exp(half)-1))
	if math.Abs(mean) > half {
		text = "**" + text + "**"
	}
	return text
}

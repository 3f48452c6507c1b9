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

// compared are the figures of a run in which the tools are compared, and the server's own mean of the same latency in that run; nil
// where it has none.
var compared = []struct {
	name   string
	of     func(f *loadFigures) between
	server func(s *served) float64
}{
	{"TTFT p50", func(f *loadFigures) between { return f.TTFT["p50"] }, func(s *served) float64 { return s.TTFT }},
	{"TTFT p90", func(f *loadFigures) between { return f.TTFT["p90"] }, func(s *served) float64 { return s.TTFT }},
	{"TTFT p99", func(f *loadFigures) between { return f.TTFT["p99"] }, func(s *served) float64 { return s.TTFT }},
	{"TPOT p50", func(f *loadFigures) between { return f.TPOT["p50"] }, func(s *served) float64 { return s.TPOT }},
	{"TPOT p99", func(f *loadFigures) between { return f.TPOT["p99"] }, func(s *served) float64 { return s.TPOT }},
	{"tokens/s", func(f *loadFigures) between { return between{Value: f.TokensPerSecond / 1000} }, nil}, // all are shown times 1,000
}

// words of a load, for the document.
func (l loadOf) words() string {
	text := fmt.Sprintf("%d users without think time", l.Users)
	if l.Rate > 0 {
		text = fmt.Sprintf("%g independent requests per second", l.Rate)
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
				fmt.Fprintf(&b, "\n%s: %s, %d rounds.\n\n%s\n%s", s.title, load.words(), len(rows[0].Runs), measuredTable(rows), refereeTable(rows)+"\n"+differenceTable(rows))
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
		if !slices.ContainsFunc(r.Runs, loadFigures.alike) {
			fmt.Fprintf(&b, "| %s | not measured: %s | | | | | | | | |\n", r.title(), r.Error)
			continue
		}
		spread := func(of func(f *loadFigures) float64) string {
			all := slices.DeleteFunc(r.sorted(of), func(v float64) bool { return v == 0 })
			if len(all) < len(r.Runs)/2 {
				return none
			}
			ms := func(v float64) string { return strconv.FormatFloat(1000*v, 'g', 3, 64) }
			return fmt.Sprintf("%s (%s to %s)", ms(stats.Median(all)), ms(all[0]), ms(all[len(all)-1]))
		}
		fmt.Fprintf(&b, "| %s | %.0f |", r.title(), stats.Median(r.sorted(func(f *loadFigures) float64 { return f.Requests })))
		for _, c := range compared {
			fmt.Fprintf(&b, " %s |", spread(func(f *loadFigures) float64 { return c.of(f).Value }))
		}
		fmt.Fprintf(&b, " %.1f s | %s MB |\n", stats.Median(r.sorted(func(f *loadFigures) float64 { return f.Cost.CPU.Seconds() })),
			megabytes(int64(stats.Median(r.sorted(func(f *loadFigures) float64 { return float64(f.Cost.Memory) })))))
	}
	return b.String()
}

// sorted returns a figure of all runs with the load that was asked for, in rising order.
func (r *loadRow) sorted(of func(f *loadFigures) float64) (all []float64) {
	for i := range r.Runs {
		if r.Runs[i].alike() {
			all = append(all, of(&r.Runs[i]))
		}
	}
	slices.Sort(all)
	return all
}

// refereeTable has what the server counted of the load of each tool, and by how much the means of the tool are above those of the
// server's own histograms of the same requests.
func refereeTable(rows []loadRow) string {
	var b strings.Builder
	b.WriteString("| tool | rounds | tokens of a prompt | of them cached | of an answer | prefilled together | TTFT of the server | of the tool, more | TPOT of the server | of the tool, more |\n" +
		"| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: | --- |\n")
	for i := range rows {
		r := &rows[i]
		n := len(r.sorted(func(*loadFigures) float64 { return 0 }))
		if n == 0 || r.Runs[0].Served == nil {
			continue
		}
		fmt.Fprintf(&b, "| %s | %d |", r.title(), n)
		for j, form := range []string{" %.0f |", " %.0f |", " %.1f |", " %.2f |"} {
			fmt.Fprintf(&b, form, stats.Median(r.sorted(func(f *loadFigures) float64 {
				s := f.Served
				return []float64{s.Prompt, s.Cached, s.Output, s.Together}[j]
			})))
		}
		for _, of := range []func(f *loadFigures) (tool, server float64){
			func(f *loadFigures) (tool, server float64) { return f.MeanTTFT, f.Served.TTFT },
			func(f *loadFigures) (tool, server float64) {
				if r.Tool == "guidellm" { // weights each request by its gaps
					return f.MeanTPOT, f.Served.ITL
				}
				return f.MeanTPOT, f.Served.TPOT
			},
		} {
			mean, _ := interval(r.sorted(func(f *loadFigures) float64 { _, server := of(f); return 1000 * server }))
			more, half := interval(r.sorted(func(f *loadFigures) float64 { tool, server := of(f); return 1000 * (tool - server) }))
			fmt.Fprintf(&b, " %.1f ms | %+.2f ms ± %.2f |", mean, more, half)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// interval returns the mean of values and half the width of its interval of 95 % confidence (Student's t); NaN of one value.
func interval(values []float64) (mean, half float64) {
	n := float64(len(values))
	var squares float64
	for _, v := range values {
		mean += v / n
	}
	for _, v := range values {
		squares += (v - mean) * (v - mean)
	}
	return mean, stats.StudentT95(len(values)-1) * math.Sqrt(squares/(n-1)/n)
}

// differenceTable has by how much the figures of this exporter differ from those of each tool, as they are and in units of the
// server's own mean of the run.
func differenceTable(rows []loadRow) string {
	var b strings.Builder
	b.WriteString("| tool | |")
	for _, c := range compared {
		fmt.Fprintf(&b, " %s here |", c.name)
	}
	b.WriteString("\n| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for i := range rows {
		for _, as := range []string{"as measured", "by the server's mean"} {
			if i == 0 || rows[0].Tool != "inference_exporter" {
				continue
			}
			fmt.Fprintf(&b, "| %s | %s |", rows[i].title(), as)
			for _, c := range compared {
				server := c.server
				if as == "as measured" {
					server = func(*served) float64 { return 1 }
				}
				fmt.Fprintf(&b, " %s |", difference(&rows[0], &rows[i], c.of, server))
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// difference returns by how many percent a figure of own is above that of another tool in the same round, on average over the
// rounds in which both put the same load on the server, and half the width of its interval (of the logarithms); then in how many
// of these rounds the stated error covers it. Figures are in units of what server returns; nil is no figure.
func difference(own, other *loadRow, of func(f *loadFigures) between, server func(s *served) float64) string {
	var logs []float64
	var covered, stated int
	for i := range min(len(own.Runs), len(other.Runs)) {
		a, b := &own.Runs[i], &other.Runs[i]
		if server == nil || !a.alike() || !b.alike() {
			continue
		}
		unit := 1.
		if a.Served != nil && b.Served != nil {
			unit = server(b.Served) / server(a.Served)
		}
		is, others := of(a), of(b).Value/unit
		if is.Value > 0 {
			logs = append(logs, math.Log(is.Value/others))
		}
		if ok, known := covers(is, others); known {
			stated++
			if ok {
				covered++
			}
		}
	}
	if len(logs) < 2 {
		return ""
	}
	mean, half := interval(logs)
	text := fmt.Sprintf("%+.0f %% ± %.0f", 100*(math.Exp(mean)-1), 100*(math.Exp(half)-1))
	if math.Abs(mean) > half {
		text = "**" + text + "**"
	}
	if stated > 0 {
		text += fmt.Sprintf(", %d of %d", covered, stated)
	}
	return text
}

// covers reports whether the figure of another tool is within the error of own and, as that tool states none, as much of its own:
// √2 times the distance of the bound on its side. There may be no such bound.
func covers(own between, other float64) (ok, known bool) {
	bound := own.Upper
	if other < own.Value {
		bound = own.Lower
	}
	if bound == nil || own.Value == 0 {
		return false, false
	}
	return math.Abs(other-own.Value) <= math.Sqrt2*math.Abs(*bound-own.Value), true
}

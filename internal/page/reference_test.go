package page

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/inference-exporter/inference_exporter/config"
)

var update = flag.Bool("update", false, "rewrite docs/engines.md and docs/gateways.md")

// enginesInTable keeps the tables narrow enough to read.
const enginesInTable = 4

// TestReference holds docs/engines.md equal to the mappings.
func TestReference(t *testing.T) {
	pages := goldenPages(t)
	engines := documented(t, mappings(t, nil), filepath.Join("mappings", "servers"), func(name string) string {
		servers := serversOf(pages, func(w *goldenSnapshot) bool { return w.Engine == name })
		return cmp.Or(servers, "composed pages; none was recorded")
	})
	for i := range engines {
		engines[i].prefix = commonPrefix(engines[i].config)
	}
	wantReference(t, "engines.md", template.FuncMap{
		"engines": func() []documentedEngine { return engines },
		"known":   func() string { return knownBy(t, engines, pages, func(w *goldenSnapshot) string { return w.Engine }) },
		"dropped": func() string { return dropped(t, Servers, engines) },
		"tables": func() []string {
			return sourceTables(engines, enginesInTable, config.Quantities(config.ServerSoftware))
		},
		"settings": func() string { return settingsTable(engines) },
		"protocol": func() string { return protocolTable(engines) },
		"file": func(name string) (string, error) {
			text, err := os.ReadFile(filepath.Join("testdata", name))
			return string(text), err
		},
	})
}

// wantReference holds a page of docs equal to what its template in testdata makes.
func wantReference(t *testing.T, name string, funcs template.FuncMap) {
	t.Helper()
	page, err := template.New(name + ".tmpl").Funcs(template.FuncMap{"anchor": anchor}).Funcs(funcs).
		ParseFiles(filepath.Join("testdata", name+".tmpl"))
	if err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := page.Execute(&want, nil); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("..", "..", "docs", name)
	if *update {
		if err := os.WriteFile(file, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(want.String(), string(got)); diff != "" {
		t.Errorf("%s is not current; run: go test ./internal/page -run Reference -update\n%s", file, diff)
	}
}

// documentedEngine is a mapping as the page shows it.
type documentedEngine struct {
	Name, Title, Pages, Setup, Notes, Sentinels, Progress, Tested string

	config *config.Mapping
	prefix string // of the names of all its series
}

// documented returns the built-in mappings by title, which is the comment in the first
// line of a mapping. Tested returns with what one was tested.
func documented(t *testing.T, m *Mappings, folder string, tested func(name string) string) []documentedEngine {
	t.Helper()
	var all []documentedEngine
	for _, name := range slices.Sorted(maps.Keys(m.byName)) {
		text, err := os.ReadFile(filepath.Join(folder, name+".yml"))
		if err != nil {
			t.Fatal(err)
		}
		first, _, _ := strings.Cut(string(text), "\n")
		title, ok := strings.CutPrefix(first, "# ")
		e := m.Mapping(name)
		if !ok || e.Setup == "" || e.Notes == "" {
			t.Errorf("%s: no name of the software in the first line, no setup or no notes", name)
		}
		all = append(all, documentedEngine{
			Name: name, Title: title, Pages: inCode(m.Pages(name)), Setup: e.Setup, Notes: e.Notes,
			Sentinels: inCode(e.Sentinels), Progress: map[bool]string{true: "yes", false: "no"}[len(e.Progress) > 0],
			Tested: tested(name), config: e,
		})
	}
	slices.SortFunc(all, func(a, b documentedEngine) int {
		return cmp.Compare(strings.ToLower(a.Title), strings.ToLower(b.Title))
	})
	return all
}

// serversOf lists the servers that showed pages of one software; "" is none.
func serversOf[W any](pages []golden[W], isOf func(*W) bool) string {
	var servers []string
	for i := range pages {
		if p := &pages[i]; p.server != "" && isOf(&p.want) {
			servers = append(servers, p.server)
		}
	}
	return strings.Join(servers, "; ")
}

// anchor is the fragment that Markdown viewers give a heading.
func anchor(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
			return r
		}
		return -1
	}, strings.ToLower(title))
}

func inCode(words []string) string {
	if len(words) == 0 {
		return "what probes recognised, or the configuration"
	}
	return "`" + strings.Join(words, "`, `") + "`"
}

// commonPrefix returns what the names of all series of a mapping begin with,
// up to a colon or an underscore.
func commonPrefix(e *config.Mapping) string {
	if len(e.Sentinels) == 0 {
		return ""
	}
	i := strings.IndexAny(e.Sentinels[0], ":_") + 1
	prefix := e.Sentinels[0][:i]
	for _, q := range config.Quantities(config.ServerSoftware) {
		for _, name := range seriesOf(e, q) {
			if !strings.HasPrefix(name, prefix) {
				return ""
			}
		}
	}
	return prefix
}

// seriesOf returns the names of the series that a quantity is read from.
func seriesOf(e *config.Mapping, q config.Quantity) []string {
	var names []string
	for _, s := range numberSources(e, q) {
		names = append(names, s.Series)
	}
	for _, h := range e.Histograms[q] {
		names = append(names, cmp.Or(h.Series, h.Sum))
	}
	if q == config.RequestsFinished {
		for _, r := range e.Requests {
			names = append(names, r.Series)
		}
	}
	return names
}

// numberSources returns the sources of a quantity that is one number.
func numberSources(e *config.Mapping, q config.Quantity) []config.MappingSource {
	sources := e.Values[q]
	for _, c := range e.PrefixCache {
		switch q {
		case config.PrefixCacheHits:
			sources = append(sources, c.Hits)
		case config.PrefixCacheAsked:
			sources = append(sources, c.Queries)
		}
	}
	return sources
}

// tableRow is a row of a table beside those of quantities.
type tableRow struct {
	name string
	cell func(*documentedEngine) string
}

// sourceTables renders which quantity is read from which series, with so many mappings in
// a table.
func sourceTables(all []documentedEngine, columns int, quantities []config.Quantity, more ...tableRow) []string {
	var rows []tableRow
	for _, q := range quantities {
		rows = append(rows, tableRow{"`" + string(q) + "`", func(e *documentedEngine) string { return e.cell(q) }})
	}
	rows = append(rows, more...)
	var tables []string
	for group := range slices.Chunk(all, columns) {
		var b strings.Builder
		b.WriteString("| quantity |")
		for _, e := range group {
			b.WriteString(" " + e.Title)
			if e.prefix != "" {
				b.WriteString(" `" + e.prefix + "`")
			}
			b.WriteString(" |")
		}
		b.WriteString("\n|" + strings.Repeat(" --- |", len(group)+1) + "\n")
		for _, row := range rows {
			b.WriteString("| " + row.name + " |")
			for i := range group {
				b.WriteString(" " + row.cell(&group[i]) + " |")
			}
			b.WriteString("\n")
		}
		tables = append(tables, b.String())
	}
	return tables
}

// settingsTable renders which setting is read from which series.
func settingsTable(all []documentedEngine) string {
	var b strings.Builder
	b.WriteString("| setting | what it is | compared | read from |\n| --- | --- | --- | --- |\n")
	for _, row := range config.Settings() {
		var sources []string
		for _, e := range all {
			for _, s := range e.config.Info[row.Setting] {
				source := "`" + s.Series + "`"
				if s.Label != "" {
					source = "label `" + s.Label + "` of " + source
				}
				sources = append(sources, e.Title+": "+source)
			}
		}
		if row.Quantity {
			sources = append(sources, "the quantity")
		}
		compared := map[bool]string{true: "within a role", false: "all"}[row.ByRole]
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", row.Setting, row.Help, compared, cmp.Or(strings.Join(sources, "; "), "–"))
	}
	return b.String()
}

// cell renders the sources of one quantity.
func (e *documentedEngine) cell(q config.Quantity) string {
	var sources []string
	for _, s := range numberSources(e.config, q) {
		sources = append(sources, e.number(&s))
	}
	for _, h := range e.config.Histograms[q] {
		sources = append(sources, e.distribution(&h))
	}
	if len(sources) > 0 {
		return strings.Join(sources, "; else ")
	}
	if q == config.RequestsFinished {
		for i, r := range e.config.Requests {
			by := slices.Compact(slices.Concat(r.By, r.Status))
			if all := e.config.Requests; i+1 < len(all) && all[i+1].Series == r.Series {
				continue
			} else if i > 0 && all[i-1].Series == r.Series { // of several values of its labels
				by, r.Labels = append(slices.Sorted(maps.Keys(r.Labels)), by...), nil
			}
			s := e.series(r.Series, r.Labels)
			if len(by) > 0 {
				s += " by " + inCode(by)
			}
			sources = append(sources, s)
		}
	}
	return cmp.Or(strings.Join(sources, " + "), "–")
}

func (e *documentedEngine) number(s *config.MappingSource) string {
	text := e.series(s.Series, s.Labels)
	if s.FromLabel != "" {
		text = "label `" + s.FromLabel + "` of " + text
	}
	if s.ItemsOf != "" {
		text = "items of label `" + s.ItemsOf + "` of " + text
	}
	text += scaled(s.Scale)
	if s.Times != nil {
		text += " × " + e.number(s.Times)
	}
	if s.Over != nil {
		text += " / " + e.number(s.Over)
	}
	if s.Plus != nil {
		text += " + " + e.number(s.Plus)
	}
	return text
}

func (e *documentedEngine) distribution(h *config.MappingHistogram) string {
	if h.Series != "" {
		return e.series(h.Series, h.Labels) + scaled(h.Scale)
	}
	return "mean only: " + e.series(h.Sum, h.Labels) + scaled(h.Scale) + " / " + e.series(h.Count, h.Labels)
}

func scaled(factor float64) string {
	if factor == 1 {
		return ""
	}
	return " × " + strconv.FormatFloat(factor, 'f', -1, 64)
}

func (e *documentedEngine) series(name string, labels map[string]string) string {
	var selector []string
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		selector = append(selector, fmt.Sprintf("%s=%q", label, labels[label]))
	}
	name = strings.TrimPrefix(name, e.prefix)
	if len(selector) > 0 {
		name += "{" + strings.Join(selector, ",") + "}"
	}
	return "`" + name + "`"
}

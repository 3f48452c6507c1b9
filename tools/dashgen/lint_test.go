package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"gopkg.in/yaml.v3"
)

// The rules below look at the files, not at the program that writes them.

type (
	source    struct{ Type, UID string }
	lintQuery struct {
		Expr, RefID, Format string
		Datasource          source
	}
	lintLink  struct{ Title, URL string }
	lintPanel struct {
		ID                       int
		Type, Title, Description string
		GridPos                  struct{ X, Y, W, H int }
		Datasource               source
		Targets                  []lintQuery
		Panels                   []lintPanel
		FieldConfig              struct {
			Defaults struct {
				Unit  string
				Links []lintLink
			}
			Overrides []struct {
				Properties []struct {
					ID    string
					Value json.RawMessage
				}
			}
		}
	}
	lintVariable struct {
		Name, Type, Definition, AllValue string
		Refresh                          int
		Current                          any
		Datasource                       source
	}
	lintBoard struct {
		UID, Title, Description, Refresh string
		Editable                         bool
		GraphTooltip, SchemaVersion      int
		Tags                             []string
		Time                             struct{ From, To string }
		Templating                       struct{ List []lintVariable }
		Annotations                      struct {
			List []struct {
				Name, Expr string
				Datasource source
			}
		}
		Links []struct {
			IncludeVars, KeepTime bool
			Tags                  []string
		}
		Panels []lintPanel
	}
)

// readBoards returns the boards in dashboards/ by their uid.
func readBoards(t *testing.T) map[string]lintBoard {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(folder, "*.json"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	all := make(map[string]lintBoard)
	for _, file := range found {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var b lintBoard
		if err := json.Unmarshal(text, &b); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if all[b.UID].UID != "" || filepath.Base(file) != strings.TrimPrefix(b.UID, "ie-")+".json" {
			t.Errorf("%s: uid %q is there twice or not that of the file", file, b.UID)
		}
		all[b.UID] = b
	}
	return all
}

// every returns the panels that are no headings.
func (b lintBoard) every() (all []lintPanel) {
	for _, p := range b.Panels {
		if p.Type == "row" {
			all = append(all, p.Panels...)
		} else {
			all = append(all, p)
		}
	}
	return all
}

// TestPanelsForPerses counts the panels that Perses converts as the README does: it
// has no migration for heatmaps and state timelines.
func TestPanelsForPerses(t *testing.T) {
	all, converted := 0, 0
	for _, b := range readBoards(t) {
		for _, p := range b.every() {
			all++
			if p.Type != "heatmap" && p.Type != "state-timeline" {
				converted++
			}
		}
	}
	readme, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%d of the %d panels", converted, all); !strings.Contains(string(readme), want) {
		t.Errorf("README.md does not say %s", want)
	}
}

var chosen = source{Type: "prometheus", UID: "${datasource}"}

// decodeStrictly decodes a board into Grafana's own schema, every field and
// every option of its panels known.
func decodeStrictly(text []byte) error {
	plugins.RegisterDefaultPlugins()
	//lint:ignore SA1019 schema v1 is what Grafana 10 to 13 load from a file; v2 needs another kind of resource
	var d dashboard.Dashboard
	err := d.UnmarshalJSONStrict(text)
	var list cog.BuildErrors
	if errors.As(err, &list) && len(list) == 0 { // what the decoder says when all is well
		err = nil
	}
	if err != nil {
		return err
	}
	return d.Validate()
}

func TestSchema(t *testing.T) {
	found, _ := filepath.Glob(filepath.Join(folder, "*.json"))
	for _, file := range found {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := decodeStrictly(text); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		for _, field := range []string{"graphTooltip", "gridPos", "legendFormat", "drawStyle", "cellHeight"} {
			wrong := bytes.Replace(text, []byte(`"`+field+`"`), []byte(`"`+field+`s"`), 1)
			if !bytes.Equal(wrong, text) && decodeStrictly(wrong) == nil {
				t.Errorf("%s: an unknown field in place of %s is not noticed", file, field)
			}
		}
	}
}

func TestBoards(t *testing.T) {
	want := []string{"ie-capacity", "ie-endpoint", "ie-engine", "ie-fleet", "ie-gpu", "ie-self"}
	all := readBoards(t)
	for _, uid := range want {
		b := all[uid]
		if b.Title == "" || b.Description == "" || b.Editable || b.Refresh != "30s" || b.GraphTooltip != 1 || b.SchemaVersion < 36 ||
			!slices.Equal(b.Tags, []string{"inference-exporter"}) || b.Time.From == "" || b.Time.To != "now" {
			t.Errorf("%s: title, description, read-only, refresh, crosshair, schema, tag or time is not as it should be", uid)
		}
		if len(b.Links) != 1 || !b.Links[0].IncludeVars || !b.Links[0].KeepTime {
			t.Errorf("%s: no links to the others that carry variables and time", uid)
		}
		var names []string
		for _, v := range b.Templating.List {
			names = append(names, v.Name)
			switch {
			case v.Type == "datasource" && v.Current == nil:
			case v.Type == "query" && v.Refresh == 2 && v.Datasource == chosen && (v.AllValue == allOf(v.Name) || v.AllValue == "" && v.Current == nil):
			default:
				t.Errorf("%s: variable %s has a fixed value, does not follow the time range, or has another source", uid, v.Name)
			}
		}
		wanted := []string{"datasource", "job", "model", "endpoint"}
		switch uid {
		case "ie-gpu":
			wanted = []string{"datasource", "job", "instance", "gpu"}
		case "ie-self":
			wanted = []string{"datasource", "job", "instance"}
		}
		if !slices.Equal(names, wanted) {
			t.Errorf("%s: variables %v, want %v", uid, names, wanted)
		}
		if marks := b.Annotations.List; len(marks) == 0 || !strings.Contains(marks[0].Expr, `ALERTS{alertstate="firing",alertname=~"Inference`) || marks[0].Datasource != chosen {
			t.Errorf("%s: firing alerts are not marked", uid)
		}
	}
	if len(all) != len(want) {
		t.Errorf("%d boards, want %d", len(all), len(want))
	}
}

// allOf is what All means: every value, and for the model none as well, as
// that of an endpoint may be unknown.
func allOf(variable string) string {
	if variable == "model" {
		return ".*"
	}
	return ".+"
}

var units = []string{"none", "s", "h", "percentunit", "bytes", "binBps", "cpm", "reqps", "celsius", "watt", "joule", "hertz", "short"}

func TestPanels(t *testing.T) {
	types := []string{"stat", "timeseries", "heatmap", "table", "state-timeline", "bargauge"}
	for uid, b := range readBoards(t) {
		titles := map[string]bool{}
		for _, p := range b.every() {
			switch {
			case p.Title == "" || titles[p.Title]:
				t.Errorf("%s: panel %d: title %q is empty or there twice", uid, p.ID, p.Title)
			case !regexp.MustCompile(`(?s)^.+\n\n\*\*Measured by\*\* .+\.\n\n\*\*Worry when\*\* .+`).MatchString(p.Description):
				t.Errorf("%s: %s: the description lacks what is measured, by whom, or when to worry", uid, p.Title)
			case !slices.Contains(types, p.Type):
				t.Errorf("%s: %s: type %s", uid, p.Title, p.Type)
			case !slices.Contains(units, p.FieldConfig.Defaults.Unit) && !strings.HasPrefix(p.FieldConfig.Defaults.Unit, "suffix: "):
				t.Errorf("%s: %s: unit %q", uid, p.Title, p.FieldConfig.Defaults.Unit)
			case p.Datasource != chosen || len(p.Targets) == 0:
				t.Errorf("%s: %s: no query, or another source", uid, p.Title)
			}
			titles[p.Title] = true
			for i, q := range p.Targets {
				if q.RefID != string(rune('A'+i)) || q.Datasource != chosen || q.Expr == "" {
					t.Errorf("%s: %s: query %d has refId %q, source %v", uid, p.Title, i, q.RefID, q.Datasource)
				}
				if want := map[string]string{"table": "table", "heatmap": "heatmap"}[p.Type]; want != "" && q.Format != want {
					t.Errorf("%s: %s: format %s", uid, p.Title, q.Format)
				}
			}
		}
	}
}

func TestLayout(t *testing.T) {
	for uid, b := range readBoards(t) {
		taken := map[[2]int]int{}
		ids := map[int]bool{}
		for _, p := range b.Panels {
			g := p.GridPos
			if p.ID == 0 || ids[p.ID] {
				t.Errorf("%s: id %d is 0 or there twice", uid, p.ID)
			}
			ids[p.ID] = true
			if g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
				t.Errorf("%s: panel %d is at %+v", uid, p.ID, g)
			}
			for x := g.X; x < g.X+g.W; x++ {
				for y := g.Y; y < g.Y+g.H; y++ {
					if other := taken[[2]int{x, y}]; other != 0 {
						t.Fatalf("%s: panels %d and %d overlap", uid, other, p.ID)
					}
					taken[[2]int{x, y}] = p.ID
				}
			}
			for _, inner := range p.Panels {
				if ids[inner.ID] {
					t.Errorf("%s: id %d is there twice", uid, inner.ID)
				}
				ids[inner.ID] = true
			}
		}
	}
	// A screen of 1080 lines shows 24 rows of 38 pixels below the bars of the
	// browser and of Grafana.
	fleet := readBoards(t)["ie-fleet"]
	for _, p := range fleet.Panels {
		if p.Type == "row" {
			if p.GridPos.Y > 24 {
				t.Errorf("the first part of the fleet is %d rows high", p.GridPos.Y)
			}
			break
		}
	}
}

// alertNames are the alerts in alerts/alerts.yml.
func alertNames(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../alerts/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert string `yaml:"alert"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if r.Alert != "" {
				names = append(names, r.Alert)
			}
		}
	}
	return names
}

func TestRunbooks(t *testing.T) {
	known := alertNames(t)
	link := regexp.MustCompile(`\[(\w+)\]\(https://github\.com/inference-exporter/inference_exporter/blob/main/docs/runbooks/(\w+)\.md\)`)
	linked := map[string]bool{}
	for uid, b := range readBoards(t) {
		for _, p := range b.every() {
			for _, m := range link.FindAllStringSubmatch(p.Description, -1) {
				linked[m[1]] = true
				if m[1] != m[2] || !slices.Contains(known, m[1]) {
					t.Errorf("%s: %s: %s is no alert, or its link leads elsewhere", uid, p.Title, m[1])
				}
				if _, err := os.Stat(filepath.Join("../../docs/runbooks", m[2]+".md")); err != nil {
					t.Errorf("%s: %s: %v", uid, p.Title, err)
				}
			}
		}
	}
	for _, name := range known {
		if !linked[name] {
			t.Errorf("no panel shows what the alert %s is about", name)
		}
	}
}

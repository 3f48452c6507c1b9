package main

import (
	"bytes"
	"encoding/json"
	"errors"
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

// alertNames are the alerts in alerts/alerts.yml.
func alertNames(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../../alerts/alerts.yml")
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
	for uid, b := range readBoards(t) {
		for _, p := range b.every() {
			for _, m := range link.FindAllStringSubmatch(p.Description, -1) {
				if m[1] != m[2] || !slices.Contains(known, m[1]) {
					t.Errorf("%s: %s: %s is no alert, or its link leads elsewhere", uid, p.Title, m[1])
				}
				if _, err := os.Stat(filepath.Join("../../../docs/runbooks", m[2]+".md")); err != nil {
					t.Errorf("%s: %s: %v", uid, p.Title, err)
				}
			}
		}
	}
}

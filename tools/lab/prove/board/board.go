// Package board reads the queries of Grafana dashboards, and fills in their
// variables as Grafana does.
package board

import (
	"encoding/json"
	"fmt"
	"os"
)

// Board is what a dashboard asks.
type Board struct {
	UID       string
	Title     string
	Variables []Variable
	Queries   []Query
}

// Query is one query of a panel or an annotation.
type Query struct {
	// Panel is the title of the panel, or of the annotation.
	Panel string
	// Unit is the unit of its values, in Grafana's words.
	Unit string
	// Ref is the letter of the query in its panel.
	Ref  string
	Expr string
	// Legend is the template of a series' name.
	Legend string
	// Range says that the query is asked for every step of a range of time,
	// and not for its end only.
	Range bool
	// Annotation says that nothing to show is an ordinary answer.
	Annotation bool
}

// Variable is a variable of a dashboard.
type Variable struct {
	Name string
	// Type is datasource, query, custom, interval, constant or textbox.
	Type string
	// Query is what lists the values: for the type query, a call such as
	// label_values(up, job).
	Query string
	// All says that all values at once can be chosen, AllValue what is filled
	// in then; empty is a list of all values.
	All      bool
	AllValue string
}

// document is the part of the dashboard format that is read here.
type document struct {
	UID         string  `json:"uid"`
	Title       string  `json:"title"`
	Panels      []panel `json:"panels"`
	Annotations struct {
		List []struct {
			Name   string `json:"name"`
			Expr   string `json:"expr"`
			Target *struct {
				Expr string `json:"expr"`
			} `json:"target"`
		} `json:"list"`
	} `json:"annotations"`
	Templating struct {
		List []struct {
			Name       string          `json:"name"`
			Type       string          `json:"type"`
			Query      json.RawMessage `json:"query"`
			IncludeAll bool            `json:"includeAll"`
			AllValue   string          `json:"allValue"`
		} `json:"list"`
	} `json:"templating"`
}

type panel struct {
	Title   string   `json:"title"`
	Type    string   `json:"type"`
	Panels  []panel  `json:"panels"` // of a row that is folded
	Targets []target `json:"targets"`

	FieldConfig struct {
		Defaults struct {
			Unit string `json:"unit"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
}

type target struct {
	RefID        string `json:"refId"`
	Expr         string `json:"expr"`
	Instant      bool   `json:"instant"`
	Range        bool   `json:"range"`
	LegendFormat string `json:"legendFormat"`
}

// Read reads the dashboard in a file.
func Read(name string) (*Board, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("read dashboard %s: %w", name, err)
	}
	b := &Board{UID: d.UID, Title: d.Title}
	for _, p := range d.Panels {
		b.addPanel(p)
	}
	for _, a := range d.Annotations.List {
		expr := a.Expr
		if a.Target != nil && expr == "" {
			expr = a.Target.Expr
		}
		if expr != "" {
			b.Queries = append(b.Queries, Query{Panel: "annotation " + a.Name, Ref: "A", Expr: expr, Range: true, Annotation: true})
		}
	}
	for _, v := range d.Templating.List {
		text, err := queryText(v.Query)
		if err != nil {
			return nil, fmt.Errorf("read variable %s of dashboard %s: %w", v.Name, name, err)
		}
		b.Variables = append(b.Variables, Variable{Name: v.Name, Type: v.Type, Query: text, All: v.IncludeAll, AllValue: v.AllValue})
	}
	return b, nil
}

func (b *Board) addPanel(p panel) {
	for _, t := range p.Targets {
		if t.Expr == "" {
			continue
		}
		b.Queries = append(b.Queries, Query{
			Panel: p.Title, Unit: p.FieldConfig.Defaults.Unit, Ref: t.RefID, Expr: t.Expr, Legend: t.LegendFormat, Range: t.Range || !t.Instant,
		})
	}
	for _, inner := range p.Panels {
		b.addPanel(inner)
	}
}

// queryText returns the query of a variable, which is a text or an object with
// a text in it.
func queryText(raw json.RawMessage) (string, error) {
	if len(raw) == 0 {
		return "", nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var object struct {
		Query string `json:"query"`
	}
	err := json.Unmarshal(raw, &object)
	return object.Query, err
}

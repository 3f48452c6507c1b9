package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// thresholds turns steps into Grafana's form. Without any, values have the
// colour of text: colour is for states only.
func thresholds(steps []Step) *dashboard.ThresholdsConfig {
	t := &dashboard.ThresholdsConfig{Mode: dashboard.ThresholdsModeAbsolute}
	for i, s := range steps {
		if i == 0 {
			t.Steps = append(t.Steps, dashboard.Threshold{Color: s.Color})
			continue
		}
		t.Steps = append(t.Steps, dashboard.Threshold{Value: ptr(s.From), Color: s.Color})
	}
	if len(steps) == 0 {
		t.Steps = []dashboard.Threshold{{Color: "text"}}
	}
	return t
}

// mappings turns states into Grafana's form.
func mappings(states []State) []dashboard.ValueMapping {
	if len(states) == 0 {
		return nil
	}
	m := dashboard.ValueMap{Type: dashboard.MappingTypeValueToText, Options: map[string]dashboard.ValueMappingResult{}}
	for i, s := range states {
		m.Options[s.Value] = dashboard.ValueMappingResult{Text: ptr(s.Text), Color: ptr(s.Color), Index: ptr(int32(i))}
	}
	return []dashboard.ValueMapping{{ValueMap: &m}}
}

// links turns links into Grafana's form.
func links(list []Link) []dashboard.DashboardLink {
	var out []dashboard.DashboardLink
	for _, l := range list {
		out = append(out, dashboard.DashboardLink{Title: l.Title, Type: dashboard.DashboardLinkTypeLink, Url: ptr(l.URL), Tags: []string{}})
	}
	return out
}

// property is one setting of an override.
func property(id string, value any) dashboard.DynamicConfigValue {
	return dashboard.DynamicConfigValue{Id: id, Value: value}
}

// overrides are what differs for single fields: dashed lines for limits, and
// the columns of a table.
func overrides(p Panel) []dashboard.DashboardFieldConfigSourceOverrides {
	out := []dashboard.DashboardFieldConfigSourceOverrides{}
	for i, q := range p.Queries {
		if len(q.Steps) > 0 {
			out = append(out, dashboard.DashboardFieldConfigSourceOverrides{
				Matcher:    dashboard.MatcherConfig{Id: "byFrameRefID", Options: refID(i)},
				Properties: []dashboard.DynamicConfigValue{property("thresholds", thresholds(q.Steps))},
			})
		}
		if q.Limit {
			out = append(out, dashboard.DashboardFieldConfigSourceOverrides{
				Matcher: dashboard.MatcherConfig{Id: "byFrameRefID", Options: refID(i)},
				Properties: []dashboard.DynamicConfigValue{
					property("custom.lineStyle", map[string]any{"fill": "dash", "dash": []int{8, 8}}),
					property("custom.fillOpacity", 0),
					property("custom.stacking", common.StackingConfig{Mode: ptr(common.StackingModeNone), Group: ptr("A")}),
					property("color", dashboard.FieldColor{Mode: dashboard.FieldColorModeIdFixed, FixedColor: ptr("red")}),
				},
			})
		}
	}
	for _, c := range p.Columns {
		out = append(out, dashboard.DashboardFieldConfigSourceOverrides{
			Matcher:    dashboard.MatcherConfig{Id: "byName", Options: c.field(len(p.Queries))},
			Properties: c.properties(),
		})
	}
	return out
}

// field is the name that Grafana gives to the column of a panel with a number
// of queries.
func (c *Column) field(queries int) string {
	switch {
	case c.Label != "":
		return c.Label
	case queries == 1:
		return "Value"
	default:
		return "Value #" + refID(c.Query)
	}
}

// properties are the settings of a column.
func (c *Column) properties() []dashboard.DynamicConfigValue {
	out := []dashboard.DynamicConfigValue{property("displayName", c.Title)}
	if c.Unit != "" {
		out = append(out, property("unit", c.Unit))
	}
	if c.Width > 0 {
		out = append(out, property("custom.width", c.Width))
	}
	if len(c.States) > 0 {
		out = append(out, property("mappings", mappings(c.States)))
	}
	if len(c.Steps) > 0 {
		out = append(out, property("thresholds", thresholds(c.Steps)))
	}
	if len(c.States)+len(c.Steps) > 0 {
		out = append(out, property("custom.cellOptions", cell(true)))
	}
	if len(c.Links) > 0 {
		out = append(out, property("links", links(c.Links)))
	}
	return out
}

// transformations make one table of the results of all queries, with the
// columns in their order and without the others.
func transformations(p Panel) []dashboard.DataTransformerConfig {
	if p.Matrix != nil {
		return []dashboard.DataTransformerConfig{{Id: "groupingToMatrix", Options: map[string]any{
			"rowField": p.Matrix.Row, "columnField": p.Matrix.Column, "valueField": "Value", "emptyValue": "null",
		}}}
	}
	order, names := map[string]int{}, []string{}
	for i, c := range p.Columns {
		n := c.field(len(p.Queries))
		order[n] = i
		names = append(names, n)
	}
	return []dashboard.DataTransformerConfig{
		{Id: "merge", Options: map[string]any{}},
		{Id: "filterFieldsByName", Options: map[string]any{"include": map[string]any{"names": names}}},
		{Id: "organize", Options: map[string]any{"indexByName": order, "excludeByName": map[string]bool{}, "renameByName": map[string]string{}}},
	}
}
